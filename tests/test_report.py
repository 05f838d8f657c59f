"""The report: its sentences, the escaping of names, and how a real browser shows it."""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import baserate as br
from baserate.analysis.row_changes import all_rows, expected_loss, row_changes
from baserate.errors import BadFile, BadOption
from baserate.report import write_report
from baserate.report.python_code import python_code
from baserate.result.facts import facts

NASTY = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "a\"quote' & `tick` | pipe",
    "שלום عربي",
    "🦉🦉",
    "x" * 300,
]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def predictions(n: int = 200, k: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(k), size=n)


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_expected_loss_is_the_mean_over_labels_that_the_adjusted_rows_would_give(loss: str) -> None:
    probs = predictions()
    result = br.adjust(probs, [0.2, 0.3, 0.5], loss=loss)
    of_labels = np.column_stack([result.loss.divergence(probs, np.eye(3)[[j] * len(probs)]) for j in range(3)])
    expected = (result.probs * of_labels).sum(axis=1).mean()
    assert expected_loss(result.loss, row_changes(result)) == pytest.approx(expected)


def labels(p: np.ndarray, seed: int = 1) -> np.ndarray:
    return (np.random.default_rng(seed).random((len(p), 1)) > p.cumsum(axis=1)).sum(axis=1)


def wanted(k: int) -> np.ndarray:
    rates = np.arange(1.0, k + 1)
    return rates / rates.sum()


def page(folder: Path, result: br.Adjustment, name: str = "report.html", **options: Any) -> str:
    result.report(folder / name, **options)
    return (folder / name).read_text(encoding="utf-8")


@pytest.fixture
def pictures_not_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pictures of a page are drawn but not rendered, for tests of its text; rendering takes most of the time."""

    def empty(figure: Any) -> str:
        plt.close(figure)
        return "<svg></svg>"

    monkeypatch.setattr("baserate.report.pictures._svg", empty)


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_page_begins_with_what_was_done_and_what_is_guaranteed(tmp_path: Path, name: str) -> None:
    p = predictions()
    result = br.adjust(p, {"a": 0.5, "b": 0.3, "c": 0.2}, classes=["a", "b", "c"])
    text = page(tmp_path, result, name, note="for Ann")
    fall = f"{result.certificate.loss_reduction:.4f}"
    order = [
        "for Ann",
        "Bounded adjustment for the log loss",
        fall,
        "if these rows have the requested class rates",
    ]
    order += [f"{value:.4f}" for value in result.before] + [
        "Nothing is guaranteed for",
        "rows that changed most:",
        "br.adjust(probs",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


def test_page_describes_every_kind_of_adjustment(tmp_path: Path, pictures_not_rendered: None) -> None:
    p = predictions()
    expected = {
        "with 90 % confidence": br.adjust(p, br.Rates.from_counts([50, 30, 20], 0.9)),
        "Unbounded adjustment for the Brier score": br.adjust(p, [0.5, 0.3, 0.2], loss="brier", bounded=False),
        "entries are below 0 or above 1": br.additive(p, [0.8, 0.1, 0.1]),
        "Prior probability adjustment (PPA)": br.prior_adjust(p, [0.3, 0.3, 0.4], [0.5, 0.3, 0.2]),
        "may rise, by at most": br.prior_adjust(p, [0.1, 0.1, 0.8], [0.2, 0.3, 0.5]),
        "0.001 was added to every probability first": br.adjust(p, [0.5, 0.3, 0.2], zeros=1e-3),
        "The predictions did not have to change": br.adjust(p, br.Rates.between(None, None)),
        "weighted mean log loss": br.adjust(p, [0.5, 0.3, 0.2], sample_weight=np.arange(1.0, len(p) + 1)),
        "drawn at random vary by about +-": br.adjust(p[:30], [0.5, 0.3, 0.2]),
        "from_logits=True": br.adjust(np.log(p), [0.5, 0.3, 0.2], from_logits=True),
        "br.losses.Power(": br.adjust(p, [0.5, 0.3, 0.2], loss=br.losses.Power(1.5)),
        "Bounded adjustment for the ranked probability loss": br.adjust(p, [0.5, 0.3, 0.2], loss="ranked"),
        "active lower bound</td><td><bdi>class 0: 0.5000": br.adjust(p, br.Rates.between([0.5, None, None], None)),
    }
    for text, result in expected.items():
        assert text in page(tmp_path, result), text


CALLS: dict[str, dict[str, Any]] = {
    "plain": {"rates": [0.5, 0.3, 0.2]},
    "named": {"rates": {"a": 0.5, "b": 0.3, "c": 0.2}, "classes": ["a", "b", "c"]},
    "bounds": {"rates": br.Rates.between({"a": 0.5}, {"a": 0.6}), "classes": ["a", "b", "c"]},
    "survey": {"rates": br.Rates.from_counts([50, 30, 20], 0.9)},
    "clusters": {"rates": br.Rates.from_counts([50, 30, 20], design_effect=1.9)},
    "near": {"rates": br.Rates.near([0.5, 0.3, 0.2], 0.05, metric="chi2")},
    "population": {"rates": br.Rates.of_population([0.5, 0.3, 0.2])},
    "unbounded": {"rates": [0.5, 0.3, 0.2], "loss": "brier", "bounded": False},
    "power": {"rates": [0.5, 0.3, 0.2], "loss": br.losses.Power(1.5), "zeros": 1e-3},
    "weights": {"rates": [0.5, 0.3, 0.2], "sample_weight": np.arange(1.0, 201)},
    "many": {"rates": wanted(30)},
}


@pytest.mark.parametrize("kind", CALLS)
def test_code_in_the_report_reproduces_the_adjustment(kind: str) -> None:
    options = dict(CALLS[kind])
    rates = options.pop("rates")
    p = predictions(200, 30 if kind == "many" else 3)
    result = br.adjust(p, rates, **options)
    names = {"probs": p, "weights": options.get("sample_weight"), "rates": rates}
    exec(python_code(facts(result)), names)
    np.testing.assert_allclose(names["result"].probs, result.probs, rtol=0, atol=1e-12)


def test_code_in_the_report_names_the_columns_of_dataframes_and_files(tmp_path: Path) -> None:
    p = predictions(k=2)[:, 1]
    table = pd.DataFrame({"id": range(200), "p_ill": p})
    path = tmp_path / "p.parquet"
    table.to_parquet(path)
    for probs, what in ((table, "the dataframe"), (path, "the path of the files")):
        code = python_code(facts(br.adjust(probs, {"ill": 0.1})))
        assert f"# probs: {what} with column 'p_ill'\n" in code
        names: dict[str, Any] = {"probs": probs}
        exec(code, names)
        np.testing.assert_allclose(names["result"].rates, [0.9, 0.1])


def test_code_in_the_report_reproduces_a_prior_adjustment() -> None:
    p, old = predictions(), [0.2, 0.3, 0.5]
    result = br.prior_adjust(p, old, [0.5, 0.3, 0.2])
    names: dict[str, Any] = {"probs": p, "old_rates": old}
    exec(python_code(facts(result)), names)
    np.testing.assert_allclose(names["result"].probs, result.probs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["zeros", "logits", "plain"])
def test_rows_that_are_read_again_equal_the_adjusted_rows(kind: str) -> None:
    p = predictions()
    given = np.array([[800.0, 0, 0], [600, 0, 1], [-1, 0, 2], [-900, 0, 3]] * 10) if kind == "logits" else p
    result = br.adjust(given, [0.2, 0.3, 0.5], from_logits=kind == "logits", zeros=0.1 if kind == "zeros" else "keep")
    np.testing.assert_allclose(all_rows(result).after, result.probs, rtol=0, atol=1e-12)


def test_page_says_whether_the_labels_meet_the_condition(tmp_path: Path, pictures_not_rendered: None) -> None:
    p = predictions(400)
    y = labels(p)
    right = br.adjust(p, np.bincount(y, minlength=3) / len(y))
    fall = br.losses.Log().score(p, y) - br.losses.Log().score(right.probs, y)
    assert f"the condition is met: the loss fell by {fall:.4f}" in page(tmp_path, right, y=y)
    wrong = page(tmp_path, br.adjust(p, [0.2, 0.3, 0.5]), y=np.zeros(400, dtype=int))
    assert "the condition is NOT met (the rate of &#39;class 0&#39; is 1.0000): the loss rose by" in wrong


def test_page_does_not_depend_on_the_matplotlib_style_of_the_caller(tmp_path: Path) -> None:
    result, open_before = br.adjust(predictions(), [0.5, 0.3, 0.2]), plt.get_fignums()
    expected = page(tmp_path, result)
    with plt.style.context("dark_background"), plt.rc_context({"font.size": 24}):
        assert page(tmp_path, result) == expected
    assert plt.get_fignums() == open_before, "no figure is left open"


def test_page_says_if_a_picture_shows_only_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baserate.analysis.row_changes._SAMPLED", 100)
    assert "The picture shows a sample: one row in 2." in page(tmp_path, br.adjust(predictions(), [0.5, 0.3, 0.2]))


def test_predictions_that_were_changed_in_place_are_an_error(tmp_path: Path) -> None:
    p = predictions()
    result = br.adjust(p, [0.5, 0.3, 0.2])
    p[:] = [1.0, 0.0, 0.0]
    with pytest.raises(br.BaserateError, match="were changed since they were adjusted"):
        result.report(tmp_path / "report.html")


def test_page_compares_losses_if_there_are_labels(tmp_path: Path, pictures_not_rendered: None) -> None:
    p = predictions(400)
    y = labels(p)
    rates = np.bincount(y, minlength=3) / len(y)
    result = br.adjust(p, rates)
    text = page(tmp_path, result, y=y, old_rates=[0.3, 0.3, 0.4])
    before, after = (br.losses.Log().score(rows, y) for rows in (p, result.probs))
    assert f"<td>as predicted</td><td>{before:.4f}</td>" in text
    (change,) = re.findall(rf"<td>this adjustment</td><td>{after:.4f}</td><td>([-+.\d]+)</td>", text)
    assert float(change) == pytest.approx(after - before, abs=1e-5)
    brier = br.adjust(p, rates, loss="brier").probs
    assert f"<td>{br.losses.Brier().score(brier, y):.4f}</td>" in text
    assert "<li>prior adjustment: Bayes&#39; rule, from the class rates in training to the new ones</li>" in text
    assert not re.search(r"\b(BGA|PPA)\b", text)
    assert "<td>adjusted for log loss</td>" not in text  # it is this adjustment
    assert "<td>adjusted for brier loss</td>" in text
    assert "<li>intervals: for the mean change in other batches like this one, each adjusted separately</li>" in text
    spherical = br.adjust(p, rates, loss="spherical")
    score = br.losses.Spherical().score(spherical.probs, y)
    assert f"<td>this adjustment</td><td>{score:.4f}</td>" in page(tmp_path, spherical, y=y)


def test_small_rates_have_as_many_decimals_as_large_ones(tmp_path: Path) -> None:
    p = np.random.default_rng(0).dirichlet([500.0, 499.9, 0.1], size=300)
    text = page(tmp_path, br.adjust(p, [0.5, 0.49998, 0.00002]), "report.md")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| class ")][1:]
    assert [row[2] for row in rows] == ["0.500000", "0.499980", "0.000020"]


def test_page_lists_the_rows_that_changed_most(tmp_path: Path) -> None:
    p = predictions(300)
    result = br.adjust(p, [0.6, 0.3, 0.1])
    divergence = br.losses.Log().divergence(p, result.probs)
    changes = row_changes(result)
    assert [row.row for row in changes.extremes] == [f"row {i}" for i in np.argsort(-divergence, kind="stable")[:10]]
    assert changes.new_top_class == int((p.argmax(axis=1) != result.probs.argmax(axis=1)).sum())
    assert (changes.zeros_before, changes.zeros_after) == (0, 0)
    np.testing.assert_allclose(changes.before, p, atol=1e-15)
    np.testing.assert_allclose(changes.after, result.probs, atol=1e-12)
    brier = br.adjust(p, [0.6, 0.3, 0.1], loss="brier")
    assert f"and {int((brier.probs == 0).sum())} are now" in page(tmp_path, brier)


def test_adjusted_files_can_be_reported(tmp_path: Path) -> None:
    p = predictions(50, 2)
    pq.write_table(pa.table({"p_a": p[:, 0], "p_b": p[:, 1]}), tmp_path / "in.parquet")
    result = br.adjust(tmp_path / "in.parquet", {"a": 0.3, "b": 0.7}, out=tmp_path / "out.parquet")
    assert re.search(r"row \d+ of .*in\.parquet", page(tmp_path, result))


def test_class_names_are_escaped(tmp_path: Path) -> None:
    p = predictions(60, len(NASTY))
    result = br.adjust(p, wanted(len(NASTY)), classes=NASTY)
    write_report(tmp_path / "report.html", result, title=NASTY[0], note=NASTY[1], command=f"baserate '{NASTY[1]}'")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<img" not in text
    assert text.count("<script>") == 1, "only the script of the page itself"
    markdown = page(tmp_path, result, "report.md", title=NASTY[0], note=NASTY[1])
    assert "| \\<img" in markdown
    rates = [line for line in markdown.splitlines() if line.startswith("| ")][1 : 1 + len(NASTY)]
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in rates] == [7] * len(NASTY)


def test_page_loads_no_other_file(tmp_path: Path) -> None:
    text = page(tmp_path, br.adjust(predictions(), [0.5, 0.3, 0.2]))
    links = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?\s*([^"')>\s]+)""", text)
    assert [link for link in links if not link.startswith(("#", "data:"))] == []
    assert "http://" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)


def test_reports_that_cannot_be_written_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = br.adjust(predictions(), [0.5, 0.3, 0.2])
    with pytest.raises(BadOption, match=r"must end in \.html or \.md, unlike .*report\.pdf"):
        result.report(tmp_path / "report.pdf")
    with pytest.raises(BadFile, match=r"report\.html cannot be written: there is no folder "):
        result.report(tmp_path / "nowhere" / "report.html")
    result.save(tmp_path / "shift.json")
    with pytest.raises(br.BaserateError, match="has a shift but no rows"):
        br.load(tmp_path / "shift.json").report(tmp_path / "report.html")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r'reports need jinja2: pip install "baserate\[report\]"'):
        result.report(tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The browser that is installed on this machine, rather than one that playwright would download."""
    if BROWSER is None:
        pytest.skip("there is no chromium on this machine")
    playwright_api = pytest.importorskip("playwright.sync_api")
    with playwright_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


def open_page(browser: Any, path: Path, width: int = 1200, **options: Any) -> tuple[Any, list[str]]:
    """A page in the browser, and a list of its errors, dialogs and network requests."""
    problems: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)
    shown = context.new_page()
    shown.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
    shown.on("pageerror", lambda error: problems.append(str(error)))
    shown.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
    shown.on("request", lambda request: problems.append(request.url) if not request.url.startswith("file:") else None)
    shown.goto(path.as_uri())
    return shown, problems


@pytest.fixture(scope="module", params=[2, 10, 100])
def report_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with unusual class names."""
    k, path = request.param, tmp_path_factory.mktemp("report") / "report.html"
    p = predictions(300, k)
    names = [*NASTY, *(f"class {j}" for j in range(k))][:k]
    br.adjust(p, wanted(k), classes=names).report(path, y=np.array(names)[labels(p)], title=NASTY[0])
    return path


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (360, "dark"),
        (1200, "light"),
        pytest.param(360, "light", marks=pytest.mark.stress),
        pytest.param(1200, "dark", marks=pytest.mark.stress),
    ],
)
def test_page_in_a_real_browser(browser: Any, report_path: Path, width: int, scheme: str) -> None:
    shown, problems = open_page(browser, report_path, width, color_scheme=scheme)
    assert problems == []
    assert NASTY[0] in shown.locator("table.rates td").all_inner_texts()
    assert shown.locator("img, iframe, object").count() == 0
    wide = shown.evaluate("document.documentElement.scrollWidth")
    assert wide <= width, "no horizontal scrolling, except within wide tables"
    shown.context.close()


def test_tables_and_large_figures_scroll_inside_themselves_on_a_phone(browser: Any, tmp_path: Path) -> None:
    p = predictions(300, 10)
    br.adjust(p, wanted(10)).report(tmp_path / "report.html", y=labels(p))
    shown, _ = open_page(browser, tmp_path / "report.html", 360)
    parts = "e => [e.firstElementChild.tagName, e.clientWidth, e.scrollWidth, getComputedStyle(e).overflowX]"
    found = shown.locator(".scroll").evaluate_all(f"all => all.map({parts})")
    scrolling = {name.lower() for name, client, scroll, overflow in found if scroll > client and overflow == "auto"}
    assert scrolling == {"table", "svg"}
    assert all(client <= 360 for _, client, _, _ in found)
    shown.context.close()


@pytest.mark.parametrize(("scheme", "background"), [("light", 255), ("dark", 0x12)])
def test_figures_have_the_background_of_the_page_and_readable_text(
    browser: Any, tmp_path: Path, scheme: str, background: int
) -> None:
    br.adjust(predictions(), [0.5, 0.3, 0.2]).report(tmp_path / "report.html")
    shown, _ = open_page(browser, tmp_path / "report.html", color_scheme=scheme)
    picture = plt.imread(io.BytesIO(shown.locator("figure svg").first.screenshot()))[..., :3] * 255
    assert np.abs(picture[0, 0] - background).max() <= 2, "the corner of the figure"
    assert np.abs(picture - background).max() > 200, "labels and axes"
    assert (
        shown.evaluate("getComputedStyle(document.body).backgroundColor") == f"rgb({', '.join([str(background)] * 3)})"
    )
    shown.context.close()


def test_long_table_of_classes_is_folded_and_can_be_searched(browser: Any, tmp_path: Path) -> None:
    names = [f"species {j}" for j in range(1000)]
    br.adjust(predictions(50, 1000), wanted(1000), classes=names).report(tmp_path / "report.html")
    shown, problems = open_page(browser, tmp_path / "report.html")
    rows = shown.locator("details.all tbody tr")
    assert rows.count() == 1000
    assert not rows.first.is_visible()
    shown.locator("details.all summary").click()
    shown.locator("details.all input").fill("SPECIES 77")
    assert rows.locator("visible=true").first.inner_text().startswith("species 77")
    assert rows.locator("visible=true").count() == 11
    assert problems == []
    shown.context.close()


def test_page_can_be_printed(browser: Any, tmp_path: Path) -> None:
    br.adjust(predictions(), [0.5, 0.3, 0.2]).report(tmp_path / "report.html")
    shown, problems = open_page(browser, tmp_path / "report.html")
    assert shown.pdf().startswith(b"%PDF")
    assert problems == []
    shown.context.close()
