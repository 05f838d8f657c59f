"""What people see of objects: the same facts in terminals and notebooks, and one number format per column."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import baserate as br
from baserate.support.numbers import format_column, percent
from baserate.support.summary import Summary, Table

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), size=60)
Y = (RNG.random((60, 1)) > P.cumsum(axis=1)).sum(axis=1)
RATES = np.bincount(Y, minlength=3) / 60
NASTY = ['<img src=x onerror="alert(1)">', "a & b", "שלום\u202eعربي"]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def shown_objects(folder: Path, names: list[str] | None = None) -> dict[str, Any]:
    """One object of each kind that notebooks show."""
    result = br.adjust(P, RATES, classes=names)
    result.save(folder / "shift.json")
    labels = Y if names is None else np.array(names)[Y]
    compared = br.compare(P, labels, RATES, [0.3, 0.3, 0.4], classes=names, n_bootstrap=50, others={NASTY[0]: P})
    return {
        "adjustment": result,
        "weighted": br.adjust(P, br.Rates.from_counts([5, 3, 2]), classes=names, sample_weight=np.arange(1.0, 61)),
        "prior": br.prior_adjust(P, [0.3, 0.3, 0.4], RATES, classes=names),
        "saved": br.load(folder / "shift.json"),
        "certificate": result.certificate,
        "comparison": compared,
        "advice": br.advise(P, RATES, [0.3, 0.3, 0.4], classes=names),
        "sensitivity": br.sensitivity(P, RATES),
        "exact": br.Rates.exact([0.5, 0.3, 0.2], classes=names),
        "by name": br.Rates.exact({"a": 0.5, "b": 0.3, "c": 0.2}),
        "between": br.Rates.between([0.5, None, None], None, classes=names),
        "bounds of any class": br.Rates.between({NASTY[0]: 0.1}, None),
        "near": br.Rates.near([0.5, 0.3, 0.2], 0.05, classes=names),
        "counts": br.Rates.from_counts([5000, 3, 2], design_effect=2.0, classes=names),
        "population": br.Rates.of_population([0.5, 0.3, 0.2], classes=names),
    }


class Page(HTMLParser):
    """The tags and the text of a page; fails if a tag is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        elif self.open[-1] != "style":
            self.texts.append(data)


@pytest.mark.parametrize("names", [None, NASTY], ids=["unnamed", "nasty"])
def test_notebooks_show_every_kind_of_object_as_escaped_html(tmp_path: Path, names: list[str] | None) -> None:
    for kind, shown in shown_objects(tmp_path, names).items():
        page = Page(shown._repr_html_())
        assert page.tags <= {"div", "style", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"}, kind
        assert "\u202e" not in shown._repr_html_(), kind
        assert page.texts or page.rows, kind


def test_notebooks_show_the_same_numbers_and_statements_as_terminals(tmp_path: Path) -> None:
    objects = shown_objects(tmp_path, ["ant", "bee", "cat"])
    for kind in ("adjustment", "weighted", "prior", "saved", "certificate", "comparison", "advice", "sensitivity"):
        page, printed = Page(objects[kind]._repr_html_()), repr(objects[kind])
        for text in [*page.texts, *(cell for row in page.rows for cell in row)]:
            assert text in printed, kind
        lines = [" ".join(line.split()) for line in printed.splitlines()]
        assert all(" ".join(" ".join(row).split()) in lines for row in page.rows), kind


def test_notebooks_show_rates_as_a_table(tmp_path: Path) -> None:
    objects = shown_objects(tmp_path, ["ant", "bee", "cat"])

    def shown(kind: str) -> tuple[list[str], list[list[str]]]:
        page = Page(objects[kind]._repr_html_())
        return page.texts, page.rows

    assert shown("exact") == (["Rates"], [["class", "rate"], ["ant", "0.5000"], ["bee", "0.3000"], ["cat", "0.2000"]])
    assert shown("by name")[1][1] == ["a", "0.5000"]
    assert shown("between")[1] == [
        ["class", "at least", "at most"],
        ["ant", "0.5000", "1.0000"],
        ["bee", "0.0000", "0.5000"],
        ["cat", "0.0000", "0.5000"],
    ]
    assert shown("near")[0] == ["Rates within 0.05 (Euclidean distance)"]
    assert shown("near")[1][:2] == [["class", "centre"], ["ant", "0.5000"]]
    assert shown("counts")[0] == ["Rates counted in a survey of 5,005 cases", "95 % confidence, design effect 2"]
    assert shown("counts")[1][:2] == [["class", "count"], ["ant", "5,000"]]
    assert shown("population")[0] == ["Rates of a population", "95 % confidence for a batch"]
    many = Page(br.Rates.exact(np.full(100, 0.01))._repr_html_())
    assert len(many.rows) == 13
    assert many.texts[-1] == "... and 88 more"


def test_certificates_are_printed_as_sentences_and_a_table() -> None:
    printed = repr(br.adjust([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]], [0.75, 0.25]).certificate).splitlines()
    assert printed[0] == "Guarantee for 4 rows, 2 classes"
    assert printed[1] == "  mean loss falls by at least 0.240621, if these rows have the requested class rates"
    assert printed[4].split() == ["class", "rate", "sensitivity"]
    assert printed[5].split() == ["0", "0.7500", "+0.8942"]


def test_certificates_of_weighted_rows_say_that_the_confidence_is_approximate(tmp_path: Path) -> None:
    weighted = shown_objects(tmp_path)["weighted"]
    weighted.save(tmp_path / "shift.json")
    for result in (weighted, br.load(tmp_path / "shift.json")):
        assert repr(result.certificate).startswith(f"Guarantee for effectively {result.certificate.batch_size} rows")
        assert "with about 95 % confidence" in repr(result.certificate)


@pytest.mark.parametrize(
    ("values", "options", "texts"),
    [
        ([0.0123, 0.975], {}, ["0.0123", "0.9750"]),
        ([0.0123, 1.2e-5], {}, ["0.012300", "0.000012"]),
        ([0.0123, 1.2e-6], {}, ["1.230e-02", "1.200e-06"]),
        ([0.5, 0.0, 1e-15], {}, ["0.5000", "0.0000", "0.0000"]),
        ([0.0, 0.0], {}, ["0.0000", "0.0000"]),
        ([1e-13, 2.0], {"signed": True}, ["+0.0000", "+2.0000"]),
        ([-1e-7, 2.0], {"signed": True}, ["+0.0000", "+2.0000"]),
        ([-3e-7, 5e-6], {"signed": True}, ["-3.000e-07", "+5.000e-06"]),
        ([np.nan, np.inf, -np.inf, 0.5], {}, ["undefined", "infinite", "-infinite", "0.5000"]),
        ([12.3, -0.04], {"signed": True, "min_decimals": 1}, ["+12.300", "-0.040"]),
        ([1234.5678, 0.5], {}, ["1234.568", "0.500"]),
        ([1.5e12, 0.5], {}, ["1.500e+12", "5.000e-01"]),
        ([], {}, []),
    ],
)
def test_numbers_of_a_column_have_one_format(values: list[float], options: dict[str, Any], texts: list[str]) -> None:
    assert format_column(values, **options) == texts


def test_small_rates_have_as_many_decimals_as_large_ones() -> None:
    p = RNG.dirichlet([500.0, 499.9, 0.1], size=400)
    result = br.adjust(p, [0.5, 0.49998, 0.00002])
    rows = [line.split() for line in repr(result).splitlines()[-3:]]
    assert [row[2] for row in rows] == ["0.500000", "0.499980", "0.000020"]
    for column in zip(*rows, strict=True):
        assert len({len(cell.partition(".")[2]) for cell in column}) == 1


def test_control_characters_of_names_do_not_reach_the_terminal() -> None:
    table = Table.of({"\x1b[31m": ["a\nb"], "number": ["1"]})
    assert Summary("t\x07", ["s\x1b"], [table], ["n\r"]).text().splitlines() == [
        r"t\x07",
        r"  s\x1b",
        "",
        r"  \x1b[31m  number",
        r"  a\nb           1",
        r"  n\r",
    ]


@pytest.mark.skipif(BROWSER is None, reason="there is no chromium on this machine")
@pytest.mark.parametrize("colour", ["rgb(20, 20, 20)", "rgb(240, 240, 240)"])
def test_text_has_the_colour_of_light_and_dark_notebooks(tmp_path: Path, colour: str) -> None:
    from playwright.sync_api import sync_playwright

    body = "".join(shown._repr_html_() for shown in shown_objects(tmp_path, NASTY).values())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(offline=True)
        page.set_content(f'<body style="color: {colour}">{body}</body>')
        styles = page.evaluate(
            "[...document.querySelectorAll('.baserate-summary *:not(style)')].map(e => getComputedStyle(e))"
            ".map(style => [style.color, style.backgroundColor].join('; '))"
        )
        browser.close()
    assert set(styles) == {f"{colour}; rgba(0, 0, 0, 0)"}


def test_a_confidence_is_never_rounded_up_to_certainty() -> None:
    assert [percent(level) for level in (0.95, 0.999, 1.0)] == ["95 %", "99.9 %", "100 %"]
    assert percent(1 - 1e-12) == "99.9999999999 %"
