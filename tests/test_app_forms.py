"""What users enter on the page, as rates and commands; and which columns are recognised."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from app_support import CLASSES, animals

import baserate as br
from baserate.app.forms import Entry, parse_number, parse_share, rates_text
from baserate.app.recognition import Roles, preview, recognise
from baserate.app.uploads import readable, safe_name
from baserate.app.wording import on_page
from baserate.errors import BadRates


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12.5", "12.5"),
        ("12,5", "12.5"),
        (" 12,5 % ", "12.5"),
        ("1.234,5", "1234.5"),
        ("1,234.5", "1234.5"),
        ("1\u202f234,5", "1234.5"),
        ("0", "0"),
    ],
)
def test_numbers_of_all_locales_are_understood(text: str, number: str) -> None:
    assert parse_number(text) == Decimal(number)


@pytest.mark.parametrize(("text", "count"), [("1,200", 1200), ("1.200", 1200), ("1 200 300", 1200300), ("12", 12)])
def test_counts_may_have_separators(text: str, count: int) -> None:
    assert parse_number(text, whole=True) == count


@pytest.mark.parametrize("text", ["abc", "1,2,3", "nan", "inf", "1e", "--1", "/etc/passwd"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(BadRates):
        parse_number(text)


@pytest.mark.parametrize("text", ["-1", "100.1"])
def test_shares_are_between_0_and_100_percent(text: str) -> None:
    with pytest.raises(BadRates, match="between 0 and 100"):
        parse_share(text)


def text_of(kind: str, entries: dict[str, Any], **options: Any) -> Any:
    given = {
        name: Entry(*value) if isinstance(value, tuple) else Entry(value, value) for name, value in entries.items()
    }
    defaults: dict[str, Any] = {"named": True, "one_column": False}
    return rates_text(kind, given, options.pop("classes", CLASSES), **(defaults | options))


@pytest.mark.parametrize(
    ("kind", "entries", "expected", "rates"),
    [
        ("number", {"cat": "20", "dog": "30", "owl": "50"}, "cat=0.2,dog=0.3,owl=0.5", br.Rates.exact([0.2, 0.3, 0.5])),
        ("number", {"owl": "7"}, "owl=0.07", br.Rates.between({"owl": 0.07}, {"owl": 0.07})),
        ("range", {"owl": ("1", "3")}, "owl=0.01..0.03", br.Rates.between({"owl": 0.01}, {"owl": 0.03})),
        ("range", {"owl": ("", "3")}, "owl=0..0.03", br.Rates.between({"owl": 0.0}, {"owl": 0.03})),
        ("counts", {"cat": "12", "dog": "88"}, "counts:cat=12,dog=88,owl=0", br.Rates.from_counts([12, 88, 0])),
        ("population", {"cat": "20", "dog": "80"}, "population:cat=0.2,dog=0.8", None),
    ],
)
def test_entries_are_the_text_of_an_option(kind: str, entries: dict[str, Any], expected: str, rates: Any) -> None:
    found = text_of(kind, entries)
    assert (found.text, found.content) == (expected, None)
    if rates is not None:
        probs = animals(50)[["p_cat", "p_dog", "p_owl"]].to_numpy()
        made = br.adjust(probs, br.Rates.parse(found.text), classes=CLASSES).certificate.loss_reduction
        assert made == pytest.approx(br.adjust(probs, rates, classes=CLASSES).certificate.loss_reduction, abs=1e-12)


def test_one_column_and_matrices_without_names() -> None:
    two = ("not p_ill", "p_ill")
    assert text_of("number", {"p_ill": "2,5"}, classes=two, one_column=True).text == "0.025"
    assert text_of("counts", {"p_ill": "4", "not p_ill": "46"}, classes=two, one_column=True).text == "counts:4/50"
    assert text_of("range", {"p_ill": ("1", "2")}, classes=two, one_column=True).text == "0.01..0.02"
    assert text_of("number", {"class 1": "60"}, classes=("class 0", "class 1"), named=False).text == "0..1,0.6"


@pytest.mark.parametrize("name", ["a=b", "a,b", "counts:a", " a", "x.csv", "a..b", "<img src=x onerror=alert(1)>"])
def test_names_that_cannot_be_typed_go_to_a_file(name: str, tmp_path: Path) -> None:
    found = text_of("range", {name: ("10", "20")}, classes=(name, "other"))
    assert found.text == "rates.json"
    (tmp_path / "rates.json").write_text(found.content, encoding="utf-8")
    rates = br.Rates.parse(str(tmp_path / "rates.json"))
    low, high = rates.on((name, "other"), 2).bounds()
    assert (low[0], high[0]) == (0.1, 0.2)


@pytest.mark.parametrize(
    ("kind", "entries", "message"),
    [
        ("number", {}, "at least one number"),
        ("number", {"cat": "60", "dog": "50"}, "sum to 110 %"),
        ("number", {"cat": "20", "dog": "30", "owl": "49"}, "sum to 99 %"),
        ("range", {"cat": ("30", "20")}, "lower bound is above"),
        ("number", {"cow": "20"}, "no class 'cow'"),
        ("counts", {"cat": "1,5"}, "not a number of cases"),
    ],
)
def test_what_is_wrong_is_said(kind: str, entries: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRates, match=message):
        text_of(kind, entries)


def recognised(table: pd.DataFrame, path: Path, **options: Any) -> Roles:
    table.to_csv(path, index=False, **options)
    return recognise(preview(path))


def test_columns_are_recognised(tmp_path: Path) -> None:
    roles = recognised(animals(), tmp_path / "a.csv")
    assert roles == Roles(("p_cat", "p_dog", "p_owl"), "y", ("region",))
    assert roles.classes == CLASSES
    roles = recognised(animals(), tmp_path / "b.csv", sep="\t", decimal=",")
    assert roles.probabilities == ("p_cat", "p_dog", "p_owl")
    plain = animals().rename(columns={f"p_{name}": name for name in CLASSES}).drop(columns=["y", "region", "id"])
    assert recognised(plain, tmp_path / "c.csv").classes == CLASSES
    fraud = pd.DataFrame(
        {"amount": np.arange(50.0), "share": 0.5, "p_fraud": np.linspace(0, 1, 50), "fraud": [0, 1] * 25}
    )
    assert recognised(fraud, tmp_path / "d.csv").probabilities == ("p_fraud",)
    rounded = animals().assign(p_cat=lambda t: t["p_cat"].round(2))
    assert recognised(rounded, tmp_path / "e.csv").normalize
    text = pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"]})
    assert recognised(text, tmp_path / "f.csv").probabilities == ()


def test_pattern_is_that_of_the_columns() -> None:
    assert Roles(("p_a", "p_b")).pattern == ("p_", "")
    assert Roles(("prob(a)", "prob(b)")).pattern == ("prob(", ")")
    assert Roles(("north_p", "south_p")).pattern is None
    assert Roles(("aa", "ab")).pattern is None
    assert Roles(("p_a",)).pattern is None


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("../a.csv", "a.csv"),
        ("C:\\x\\a.csv", "a.csv"),
        ("", "predictions.csv"),
        ("a\nb.csv", "a_b.csv"),
        ("-o.csv", "_o.csv"),
    ],
)
def test_names_of_uploads_are_names_of_files(given: str, name: str) -> None:
    assert safe_name(given) == name


def test_sizes_and_messages_are_readable() -> None:
    assert [readable(size) for size in (5, 2_000, 1_500_000, 1_000_000_000)] == ["5 bytes", "2 kB", "1.5 MB", "1 GB"]
    with pytest.raises(br.BaserateError) as caught:
        br.adjust([[0.5, 0.6]], [0.5, 0.5])
    assert "normalize" not in on_page(caught.value)
    assert "in step 1" in on_page(caught.value)
