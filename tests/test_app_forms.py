"""What users enter on the page, as rates and commands; and which columns are recognised."""

from __future__ import annotations

import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from app_support import CLASSES, animals

import baserate as br
from baserate.app.extra_files import check_commas
from baserate.app.file_names import made_from, safe_name
from baserate.app.forms import Entry, parse_number, parse_share, rates_text
from baserate.app.recognition import Roles, check_rows, preview, recognise
from baserate.app.uploads import readable
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
        ("\u0661\u0662\u066b\u0665\u066a", "12.5"),
        ("\u06f2\u06f0", "20"),
        ("\u0967\u0968.\u096b", "12.5"),
        ("\u0662\u066c\u0660\u0660\u0660\u066b\u0665", "2000.5"),
    ],
)
def test_numbers_of_all_locales_are_understood(text: str, number: str) -> None:
    assert parse_number(text) == Decimal(number)


@pytest.mark.parametrize(("text", "count"), [("1,200", 1200), ("1.200", 1200), ("1 200 300", 1200300), ("12", 12)])
def test_counts_may_have_separators(text: str, count: int) -> None:
    assert parse_number(text, whole=True) == count


@pytest.mark.parametrize("text", ["abc", "1,2,3", "nan", "inf", "1e", "--1", "1_0", "/etc/passwd"])
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
        ("number", {"owl": "0,05"}, "owl=0.0005", br.Rates.between({"owl": 0.0005}, {"owl": 0.0005})),
        ("number", {"owl": "7"}, "owl=0.07", br.Rates.between({"owl": 0.07}, {"owl": 0.07})),
        ("range", {"owl": ("1", "3")}, "owl=0.01..0.03", br.Rates.between({"owl": 0.01}, {"owl": 0.03})),
        ("range", {"owl": ("", "3")}, "owl=0..0.03", br.Rates.between({"owl": 0.0}, {"owl": 0.03})),
        (
            "counts",
            {"cat": "12", "dog": "88", "owl": "0"},
            "counts:cat=12,dog=88,owl=0",
            br.Rates.from_counts([12, 88, 0]),
        ),
        ("population", {"cat": "20", "dog": "30"}, "population:cat=0.2,dog=0.3,owl=0.5", None),
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
        ("counts", {"cat": "12", "dog": "88"}, "'owl' has none. Enter 0 for a class that was not found"),
        ("counts", {"cat": "-3"}, "not a number of cases"),
        ("number", {"cat": "150 %"}, "'cat': 150 % is not between 0 and 100 %"),
        ("population", {"cat": "5"}, "2 are missing, such as 'dog'"),
        ("population", {"cat": "-5"}, "'cat': -5 % is not between 0 and 100 %"),
        ("number", {"cat": "0.2", "dog": "0.3", "owl": "0.5"}, "Enter percentages: 20 for 20 %, not 0.2"),
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


def with_entry(value: Any) -> pd.DataFrame:
    table = animals(60).astype({"p_cat": object})
    table.loc[5, "p_cat"] = value
    return table


@pytest.mark.parametrize(
    "table",
    [
        with_entry(np.nan),
        with_entry("unknown"),
        with_entry(-0.2),
        with_entry(float("inf")),
        animals(60).assign(p_owl=lambda t: t["p_owl"] * 0.7),
        animals(60).assign(y=lambda t: t["y"].mask(t.index == 7, "cow")),
    ],
    ids=["missing", "text", "negative", "infinite", "other sums", "unknown label"],
)
def test_wrong_entries_do_not_change_what_the_columns_are(table: pd.DataFrame, tmp_path: Path) -> None:
    roles = recognised(table, tmp_path / "a.csv")
    assert (roles.probabilities, roles.label) == (("p_cat", "p_dog", "p_owl"), "y")


def test_percentages_are_divided_by_their_sum(tmp_path: Path) -> None:
    columns = ["p_cat", "p_dog", "p_owl"]
    roles = recognised(animals().assign(**(animals()[columns] * 100)), tmp_path / "a.csv")
    assert roles.probabilities == tuple(columns)
    assert roles.normalize


def test_predicted_classes_are_not_taken_for_probabilities(tmp_path: Path) -> None:
    table = pd.DataFrame({"pred_class": [0, 1] * 25, "pred_prob": np.linspace(0, 1, 50)})
    assert recognised(table, tmp_path / "a.csv").probabilities == ("pred_prob",)


@pytest.mark.parametrize("stream", [False, True])
def test_columns_of_arrow_files_are_recognised(stream: bool, tmp_path: Path) -> None:
    table = pa.Table.from_pandas(animals(), preserve_index=False)
    write = pa.ipc.new_stream if stream else pa.ipc.new_file
    with write(tmp_path / "a.arrow", table.schema) as out:
        out.write_table(table)
    seen = preview(tmp_path / "a.arrow")
    assert recognise(seen).probabilities == ("p_cat", "p_dog", "p_owl")
    assert seen.columns["id"][:2] == ["0000", "0001"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("p_a,p_b\n", "no rows. Choose a file with one row per case"),
        ("0.3,0.7\n0.2,0.8\n", "The first line of a.csv has numbers, such as 0.3.*Add a line with names"),
        ("<html><body>Log in</body></html>", "is a web page; export the table as CSV"),
        ('[{"p_a": 0.3}]', "is JSON; convert it to CSV"),
        ("%PDF-1.4", "is a PDF; export the table as CSV"),
    ],
)
def test_files_without_a_table_are_refused_with_advice(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(content, encoding="utf-8")
    with pytest.raises(br.BaserateError, match=message):
        check_rows(preview(tmp_path / "a.csv"))


def test_tables_of_rates_with_semicolons_are_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("region;cat\nnorth;0,2\n", encoding="utf-8")
    with pytest.raises(br.BaserateError, match=r"semicolons or tabs.*Save it with commas"):
        check_commas(tmp_path / "a.csv")


def test_excel_files_are_refused_with_advice(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "")
    with pytest.raises(br.BaserateError, match="is an Excel file; save it as CSV"):
        preview(tmp_path / "a.xlsx")


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
        ("my.data.v2.csv", "my.data.v2.csv"),
        ("A.2024.CSV.GZ", "A.2024.CSV.GZ"),
        ("x" * 300 + ".v2.parquet", "x" * 120 + ".parquet"),
    ],
)
def test_names_of_uploads_are_names_of_files(given: str, name: str) -> None:
    assert safe_name(given) == name


@pytest.mark.parametrize(
    ("name", "out"),
    [
        ("my.data.v2.csv", "my.data.v2-adjusted.csv"),
        ("a.tsv.gz", "a-adjusted.tsv.gz"),
        ("run.1.5", "run.1.5-adjusted.csv"),
        ("a.json", "a-adjusted.csv"),
        ("a.TXT", "a-adjusted.TXT"),
    ],
)
def test_only_the_suffix_of_a_format_is_taken_off(name: str, out: str) -> None:
    assert made_from(name, "adjusted", "CSV", ()) == out


def test_generated_names_are_not_those_of_other_files() -> None:
    assert made_from("regions.csv", "changed", "CSV", ["Regions-Changed.csv"]) == "regions-changed-2.csv"


def test_sizes_and_messages_are_readable() -> None:
    assert [readable(size) for size in (5, 2_000, 1_500_000, 1_000_000_000)] == ["5 bytes", "2 kB", "1.5 MB", "1 GB"]
    with pytest.raises(br.BaserateError) as caught:
        br.adjust([[0.5, 0.6]], [0.5, 0.5])
    assert "normalize" not in on_page(caught.value)
    assert "Choose “divide each row by its sum” in step 1" in on_page(caught.value)
    assert on_page(caught.value).endswith("The first row is row 1.")
    with pytest.raises(br.BaserateError) as caught:
        br.adjust([[1.0, 0.0], [0.5, 0.5]], [0.1, 0.9])
    assert "choose “some probabilities are exactly 0” in step 1" in on_page(caught.value)
    with pytest.raises(br.BaserateError) as caught:
        br.adjust([[np.nan, 0.0], [0.5, 0.5]], [0.1, 0.9])
    assert "Complete this row in your file, or remove it" in on_page(caught.value)
