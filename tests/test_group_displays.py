"""Pictures and reports of adjustments to rates per group."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

import baserate as br
from baserate.errors import BadOption

RNG = np.random.default_rng(0)
P = RNG.dirichlet([2, 1, 1], 2000)
SITE, DAY = RNG.integers(0, 5, 2000), RNG.integers(0, 60, 2000)
DATES = np.array([datetime.date(2024, 1, 1) + datetime.timedelta(days=int(d)) for d in range(60)], dtype=object)
TABLE = {i: {"a": 0.5, "b": 0.3 + 0.02 * i, "c": 0.2 - 0.02 * i} for i in range(5)}
RESULT = br.adjust(P, br.Rates.by("site", TABLE), groups=SITE, classes=["a", "b", "c"])


@pytest.fixture(autouse=True)
def no_open_figures() -> None:
    plt.close("all")


def test_few_groups_have_one_row_each() -> None:
    display = br.GroupRatesDisplay.from_adjustment(RESULT, of="b")
    assert display.names == ["0", "1", "2", "3", "4"]
    np.testing.assert_allclose(display.rates, [TABLE[i]["b"] for i in range(5)], atol=1e-9)
    np.testing.assert_allclose(display.before, [P[i == SITE, 1].mean() for i in range(5)])
    assert display.ax_ is not None
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == [
        f"{i} ({(i == SITE).sum()})" for i in range(5)
    ]
    assert display.ax_.get_xlabel() == "rate of class 'b' (%)"
    assert display._repr_png_() is not None


def test_days_are_in_their_order() -> None:
    rates = br.Rates.by("day", {DATES[i]: (0.2 + i / 200, 0.3 + i / 200) for i in RNG.permutation(60)})
    result = br.adjust(P[:, 0], rates, groups=DATES[DAY])
    display = br.GroupRatesDisplay.from_adjustment(result)
    assert display.is_ordered
    assert display.names[0] == "2024-01-01"
    assert display.names == sorted(display.names)
    assert display.ax_ is not None
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["wanted: any rate in the interval", "as predicted", "adjusted"]
    assert display.ax_.get_xlabel() == "60 groups by day"


def test_names_are_sorted_by_their_adjusted_rate() -> None:
    names = np.array([f"s{i}" for i in range(60)])
    result = br.adjust(P[:, 0], br.Rates.by("site", {n: 0.2 + RNG.random() / 3 for n in names}), groups=names[DAY])
    display = br.GroupRatesDisplay.from_adjustment(result)
    assert not display.is_ordered
    assert display.shown_ is not None
    assert (np.diff(display.rates[display.shown_]) >= 0).all()


def test_thousands_of_groups_are_summarised() -> None:
    groups = np.arange(8000) // 4
    p = RNG.random(8000)
    result = br.adjust(p, br.Rates.by("id", dict.fromkeys(range(2000), (0.2, 0.6))), groups=groups)
    display = br.GroupRatesDisplay.from_adjustment(result)
    assert display.ax_ is not None
    assert max(len(line.get_xdata()) for line in display.ax_.lines) <= 250  # type: ignore[arg-type]  # an array
    assert "2,000 groups by id" in display.ax_.get_xlabel()


def test_margins_and_classes_are_chosen_by_name() -> None:
    margins = br.Margins(br.Rates.by("site", TABLE), br.Rates.by("day", dict.fromkeys(range(60))))
    result = br.adjust(P, margins, groups={"site": SITE, "day": DAY}, classes=["a", "b", "c"])
    assert br.GroupRatesDisplay.from_adjustment(result, "day").margin == "day"
    with pytest.raises(BadOption, match="there is no margin 'hour'"):
        br.GroupRatesDisplay.from_adjustment(result, "hour")
    with pytest.raises(BadOption, match="'z' is not among the classes 'a', 'b', 'c'"):
        br.GroupRatesDisplay.from_adjustment(result, of="z")
    with pytest.raises(BadOption, match="this adjustment has no groups"):
        br.GroupRatesDisplay.from_adjustment(br.adjust(P, [0.5, 0.3, 0.2]))


def test_the_display_of_all_rows_shows_means_over_all_groups() -> None:
    display = br.RatesDisplay.from_adjustment(RESULT)
    np.testing.assert_allclose(display.rates, RESULT.probs.mean(axis=0))


def test_the_report_has_a_table_of_groups_that_can_be_searched(tmp_path: Path) -> None:
    y = np.array(["a", "b", "c"])[[int(RNG.choice(3, p=row)) for row in P]]
    RESULT.report(tmp_path / "page.html", y=y)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Groups by site" in page
    assert 'placeholder="find a group"' in page
    rows = re.findall(r"<tr><td><bdi>(\d)</bdi></td><td>([\d,]+)</td>", page)
    assert len(rows) == 5 * 3
    assert "each group has a guarantee of its own" in page
    RESULT.report(tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "## Groups by site" in text
    assert len(re.findall(r"^\| \d \|", text, re.MULTILINE)) == 5 * 3


def test_the_report_lists_the_groups_that_changed_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baserate.report.groups.MAX_ROWS", 6)
    RESULT.report(tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\| \d \|", text, re.MULTILINE)) == 2 * 3
    assert "3 groups that changed less are not listed" in text


def test_the_table_of_groups_is_searched_in_a_browser(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    import shutil

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no Chromium")
    RESULT.report(tmp_path / "page.html")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        page.locator("details.all summary").click()
        page.locator("details.all input").fill("3")
        visible = page.locator("details.all tbody tr:visible td:first-child").all_text_contents()
        browser.close()
    assert visible == ["3"] * 3
