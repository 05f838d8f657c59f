"""What the page takes the columns of unusual files for, and what it says about wrong entries."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import baserate as br
from baserate.analysis.advise import advise
from baserate.app import charts
from baserate.app.forms import Entry, rates_text
from baserate.app.rate_texts import condition, rows_in_percent
from baserate.app.recognition import (
    MAX_COLUMNS,
    Roles,
    are_percentages,
    check_percent_signs,
    check_percentages,
    check_rows,
    preview,
    recognise,
)
from baserate.app.what_if import Matrix
from baserate.app.wording import in_percent, on_page, respelled, sentence
from baserate.report import sentences
from baserate.result.facts import facts

SHARES = np.linspace(0.01, 0.97, 40)
LARGE = np.linspace(0.3, 30, 40)
ROWS = [(i, round(0.1 + i / 100, 4)) for i in range(40)]
COUNTED = "The first row is row 1."
COUNTED_IN_FILE = "Rows are counted as in a spreadsheet, without empty lines: row 1 has the names of the columns."
CLASS_COLUMNS = ("p_a", "p_b", "p_c")


def recognised(columns: dict[str, Any], path: Path) -> Roles:
    pd.DataFrame(columns).to_csv(path / "a.csv", index=False)
    return recognise(preview(path / "a.csv"))


@pytest.mark.parametrize(
    ("probability", "other"),
    [("p_ill", "p.price"), ("prob", "pred_time"), ("prob_ill", "score"), ("prob", "time"), ("p_ill", "score")],
)
def test_numbers_above_1_are_not_taken_for_probabilities(probability: str, other: str, tmp_path: Path) -> None:
    assert recognised({probability: SHARES, other: LARGE}, tmp_path).probabilities == (probability,)
    several = {probability: SHARES, f"{other}_1": LARGE, f"{other}_2": LARGE}
    assert recognised(several, tmp_path).probabilities == (probability,)


@pytest.mark.parametrize("wrong", ["", "unknown", -0.2, 7.5])
@pytest.mark.parametrize("n", [4, 40])
def test_a_wrong_entry_does_not_make_one_of_two_classes_the_only_one(wrong: Any, n: int, tmp_path: Path) -> None:
    table = pd.DataFrame({"p_a": SHARES[-n:], "p_b": 1 - SHARES[-n:]}).astype(object)
    table.loc[1, "p_a"] = wrong
    assert recognised(dict(table), tmp_path).probabilities == ("p_a", "p_b")


@pytest.mark.parametrize("names", [CLASS_COLUMNS, ("probA", "probB", "probC"), ("score_a", "score_b", "score_c")])
@pytest.mark.parametrize("unit", [1, 100])
def test_columns_with_a_common_prefix_and_wrong_sums_stay_together(
    names: tuple[str, ...], unit: int, tmp_path: Path
) -> None:
    rows = unit * np.column_stack([0.6 * SHARES, 0.6 * (1 - SHARES), 0 * SHARES])
    assert recognised(dict(zip(names, rows.T, strict=True)), tmp_path).probabilities == names


@pytest.mark.parametrize("decimals", [0, 1])
def test_percentages_keep_classes_whose_first_entries_are_whole(decimals: int, tmp_path: Path) -> None:
    first = np.round(100 * SHARES, decimals)
    roles = recognised({"p_a": first, "p_b": 100 - first, "p_c": 0}, tmp_path)
    assert roles.probabilities == CLASS_COLUMNS
    assert roles.normalize


def test_whole_percentages_are_recognised(tmp_path: Path) -> None:
    first = np.arange(20, 60)
    roles = recognised({"cat": first, "dog": 100 - first, "y": ["cat", "dog"] * 20}, tmp_path)
    assert (roles.probabilities, roles.label, roles.normalize) == (("cat", "dog"), "y", True)
    assert recognised({"p_a": first, "p_b": 99 - first, "p_c": 0}, tmp_path).probabilities == CLASS_COLUMNS


@pytest.mark.parametrize("unit", [1, 100])
@pytest.mark.parametrize("positive", [1, 20])
def test_numbers_of_classes_are_not_taken_for_probabilities(unit: int, positive: int, tmp_path: Path) -> None:
    labels = [1] * positive + [0] * (40 - positive)
    roles = recognised({"0": unit * SHARES, "1": unit * (1 - SHARES), "y": labels}, tmp_path)
    assert (roles.probabilities, roles.label) == (("0", "1"), "y")
    predicted = {"pred_class": labels, "pred_prob_a": unit * SHARES, "pred_prob_b": unit * (1 - SHARES)}
    assert recognised(predicted, tmp_path).probabilities == ("pred_prob_a", "pred_prob_b")


@pytest.mark.parametrize(
    ("content", "number"),
    [
        ("0,2;0,3;0,5\n0,1;0,3;0,6\n", "0,2"),
        ("0,2;0,8;cat\n0,1;0,9;dog\n", "0,2"),
        ("20,5;79,5\n30,1;69,9\n", "20,5"),
        ("0,2\t0,8\n0,1\t0,9\n", "0,2"),
        ("0.2;0.8\n0.1;0.9\n", "0.2"),
        ("-1.2,3.4\n2.5,-0.3\n", "-1.2"),
        ("2,-1\n3,-4\n", "-1"),
        ("20.5,79.5\n30.1,69.9\n", "20.5"),
        ("20,80\n30,70\n", "20"),
    ],
)
def test_files_without_a_header_are_refused(content: str, number: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(content, encoding="utf-8")
    with pytest.raises(br.BaserateError, match=f"The first line of a.csv has numbers, such as {number},"):
        check_rows(preview(tmp_path / "a.csv"))


@pytest.mark.parametrize("header", ["0,1,2", "1.0,1.5,2.0", "-1,0,1", "inf,nan,1", "20,30,50"])
def test_classes_may_have_numbers_as_names(header: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n0.2,0.3,0.5\n0.1,0.3,0.6\n", encoding="utf-8")
    seen = preview(tmp_path / "a.csv")
    check_rows(seen)
    assert recognise(seen).probabilities == tuple(header.split(","))


def message(*args: Any, **options: Any) -> str:
    with pytest.raises(br.BaserateError) as caught:
        br.adjust(*args, **options)
    return on_page(caught.value)


def test_advice_on_incomplete_rows_follows_the_message() -> None:
    advice = f". Complete this row in your file, or remove it. {COUNTED}"
    missing = [[np.nan, 0.0], [0.5, 0.5]]
    assert message(missing, [0.1, 0.9]).endswith(f"probabilities must be finite{advice}")
    assert message(missing, [0.1, 0.9], from_logits=True).endswith(
        f"logits must be finite or -inf (probability 0){advice}"
    )


def test_advice_on_rows_is_not_given_for_rates_and_weights() -> None:
    rows = [[0.4, 0.6], [0.5, 0.5]]
    assert message(rows, [np.nan, 0.9]).endswith("rates must be finite")
    assert message(rows, [0.1, 0.9], sample_weight=[1, np.nan]).endswith("weights must be finite and 0 or more")


TABLE = "p_no,p_yes\n" + "".join(f"{1 - share:.4f},{share:.4f}\n" for share in SHARES)


def refusal(content: bytes, path: Path) -> str:
    path.write_bytes(content)
    with pytest.raises(br.BaserateError) as caught:
        opened(path)
    return on_page(caught.value)


def opened(path: Path) -> Roles:
    seen = preview(path)
    check_rows(seen)
    roles = recognise(seen)
    check_percent_signs(seen, roles)
    check_percentages(seen, roles)
    return roles


@pytest.mark.parametrize("above", ["Model of 2024\n", "Model of 2024\n\n", "Model of 2024,\n", "a title,\n,\n"])
def test_lines_above_the_names_of_columns_are_explained(above: str, tmp_path: Path) -> None:
    table = TABLE.replace("\n", ",x\n").replace("p_yes,x", "p_yes,note")
    said = refusal((above + table).encode(), tmp_path / "a.csv")
    assert "above the names of the columns" in said
    assert "parse" not in said


@pytest.mark.parametrize("title", ["Report 2024,May,", "Report,2024-01-01", "# comment, with comma", "Report,of,May"])
def test_titles_with_commas_are_explained(title: str, tmp_path: Path) -> None:
    table = "p_a,p_b,p_c\n" + "".join(f"{x:.2f},{x:.1e},{1 - 2 * x:.2f}\n" for x in SHARES[:20])
    said = refusal(f"{title}\n{table}".encode(), tmp_path / "a.csv")
    assert said.startswith("The first line of a.csv is above the names of the columns, like a title. Remove what is")
    (tmp_path / "b.csv").write_text(table)
    opened(tmp_path / "b.csv")


def test_an_index_without_a_name_is_not_taken_for_a_title(tmp_path: Path) -> None:
    pd.DataFrame({"p_no": 1 - SHARES, "p_yes": SHARES, "y": "yes"}, index=[f"r{i}" for i in range(40)]).to_csv(
        tmp_path / "a.csv"
    )
    seen = preview(tmp_path / "a.csv")
    check_rows(seen)
    assert recognise(seen).probabilities == ("p_no", "p_yes")


def test_a_single_line_is_explained(tmp_path: Path) -> None:
    said = refusal(b"p_no,p_yes", tmp_path / "a.csv")
    assert said.endswith(
        "a.csv has only one line. Choose a file with the names of the columns, and with one row per case"
    )


def test_settings_for_excel_and_other_encodings_are_explained(tmp_path: Path) -> None:
    said = refusal(b"sep=;\r\n" + TABLE.replace(",", ";").encode(), tmp_path / "a.csv")
    assert said.startswith("The first line of a.csv is 'sep=;', a setting for Excel. Remove this line")
    for encoding in ("latin-1", "utf-16"):
        said = refusal(TABLE.replace("no", "n\xe4").encode(encoding), tmp_path / "a.csv")
        assert "save it again as “CSV UTF-8 (Comma delimited)”" in said
        assert "codec" not in said
        assert "bytes" not in said


def test_percent_signs_are_explained(tmp_path: Path) -> None:
    signs = "p_no,p_yes\n" + "".join(f"{100 - 100 * share:.1f}%,{100 * share:.1f} %\n" for share in SHARES)
    said = refusal(signs.encode(), tmp_path / "a.csv")
    assert said.startswith("The entries of the column 'p_no' have percent signs, such as '99.0%'. Remove them")
    (tmp_path / "b.csv").write_text(TABLE.replace("0.0100", "1 %"))
    with pytest.raises(br.BaserateError) as caught:
        br.adjust(tmp_path / "b.csv", {"no": 0.5, "yes": 0.5}, columns="p_*")
    assert "Remove the percent signs from this column" in on_page(caught.value)


@pytest.mark.parametrize("space", ["", " ", "\u00a0", "\u202f"])
def test_percent_signs_in_one_of_two_columns_are_explained(space: str, tmp_path: Path) -> None:
    rows = "".join(f"{1 - share:.3f},{100 * share:.1f}{space}%\n" for share in SHARES)
    said = refusal(f"p_no,p_yes\n{rows}".encode(), tmp_path / "a.csv")
    shown = " " if space else ""
    assert said.startswith(f"The entries of the column 'p_yes' have percent signs, such as '1.0{shown}%'. Remove them")
    with pytest.raises(br.BaserateError) as caught:
        br.adjust(tmp_path / "a.csv", {"no": 0.5, "yes": 0.5}, columns="p_*")
    assert f"is '1.0{shown}%'. Remove the percent signs from this column" in on_page(caught.value)


def test_other_columns_may_have_percent_signs(tmp_path: Path) -> None:
    rows = "".join(f"{1 - share:.3f},{share:.3f},{100 * share:.1f}%\n" for share in SHARES)
    (tmp_path / "a.csv").write_text(f"p_no,p_yes,p_text\n{rows}")
    assert opened(tmp_path / "a.csv").probabilities == ("p_no", "p_yes")
    (tmp_path / "a.csv").write_text(f"id,fraud,discount\n{rows}")
    assert "discount" not in opened(tmp_path / "a.csv").probabilities


def test_percentages_are_told_from_rounded_probabilities(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p_no,p_yes\n33,67\n20,80\n45,55\n1,99\n")
    seen = preview(tmp_path / "a.csv")
    assert are_percentages(seen, recognise(seen))
    (tmp_path / "b.csv").write_text(TABLE)
    seen = preview(tmp_path / "b.csv")
    assert not are_percentages(seen, recognise(seen))


@pytest.mark.parametrize("last", ["Total", "51"])
@pytest.mark.parametrize("unit", [1, 100])
def test_a_row_of_totals_is_named_and_does_not_make_rows_be_divided(last: str, unit: int, tmp_path: Path) -> None:
    content = "id,p_a,p_b,p_c\n" + "".join(f"{i},{unit * x},{unit * (0.9 - x)},{unit * 0.1}\n" for i, x in ROWS)
    (tmp_path / "a.csv").write_text(f"{content}{last},27,21,2\n")
    seen = preview(tmp_path / "a.csv")
    roles = recognise(seen)
    assert roles.probabilities == CLASS_COLUMNS
    assert not roles.normalize

    def read() -> None:
        opened(tmp_path / "a.csv")
        br.adjust(tmp_path / "a.csv", {"a": 0.4, "b": 0.5, "c": 0.1}, columns="p_*")

    with pytest.raises(br.BaserateError) as caught:
        read()
    assert re.search(r"\b[Rr]ow 42 of \S+ sums to 50, |row 42 of \S+, which sums to 50\.", on_page(caught.value))


def test_too_many_columns_are_refused(tmp_path: Path) -> None:
    names = [f"c{j}" for j in range(MAX_COLUMNS + 1)]
    content = f"{','.join(names)}\n{','.join('0' * len(names))}\n".encode()
    assert "has 20,001 columns. The page can show at most 20,000." in refusal(content, tmp_path / "a.csv")


def test_rows_are_counted_as_in_a_spreadsheet(tmp_path: Path) -> None:
    lines = TABLE.splitlines()
    lines[6] = "unknown,0.5"  # the seventh line that is not empty
    (tmp_path / "a.csv").write_text("\n\n".join(lines))
    with pytest.raises(br.BaserateError) as caught:
        br.adjust(tmp_path / "a.csv", {"no": 0.5, "yes": 0.5}, columns="p_*")
    said = on_page(caught.value)
    assert said.startswith("Row 7 of ")
    assert said.endswith(COUNTED_IN_FILE)
    assert "columns=" not in said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cat: 150 % is too much", "cat: 150 % is too much"),
        ("p_cat has no number", "p_cat has no number"),
        ("a.csv is empty", "a.csv is empty"),
        ("'cat' is not a class", "'cat' is not a class"),
        ("the rates are wrong", "The rates are wrong"),
        ("first, check the rates", "First, check the rates"),
    ],
)
def test_names_at_the_beginning_of_a_message_keep_their_letters(text: str, shown: str) -> None:
    assert sentence(text) == f"{shown}."


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_pictures_of_two_classes_are_always_about_the_second_one(share: float) -> None:
    probs = np.column_stack([1 - SHARES, SHARES])
    shown = []
    for columns in (probs, SHARES):
        result = br.adjust(columns, [1 - share, share] if columns.ndim == 2 else share, classes=("no", "yes"))
        about = facts(result)
        assert charts.movement(result, Matrix(probs, None), about)["name"] == "yes"
        (row,) = charts.sensitivity_rows(about)
        assert row["name"] == "yes"
        shown.append(float(row["text"]))
    fall = [br.adjust(SHARES, share + step).certificate.loss_reduction for step in (0.005, -0.005)]
    assert shown == pytest.approx([fall[0] - fall[1]] * 2, rel=0.05)


@pytest.mark.parametrize(
    "rates", ["no=0.2,yes=0.8", "yes=0.7..0.8", "counts:no=20,yes=80", "population:no=0.2,yes=0.8"]
)
@pytest.mark.parametrize("old", [None, [0.5, 0.5]])
def test_advice_has_rates_in_percent_and_no_code(rates: str, old: Any) -> None:
    found = advise(np.column_stack([1 - SHARES, SHARES]), br.Rates.parse(rates), old, classes=("no", "yes"))
    texts = [in_percent(respelled(text, found.options)) for text in (found.summary, *(r.says for r in found.reasons))]
    for text in texts:
        assert not re.search(r"\b(rate|mean)\b (prediction |of |for |is |class |'no'|'yes'|,|whose)*0\.\d", text), text
        assert not re.search(r"=|_|\bpass\b|^use adjust", re.sub(r"p = ", "", text)), text


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "v.csv: pass --normalize to divide each row by its sum",
            "v.csv: choose “divide each row by its sum” in step 1",
        ),
        ("for decimal values; for decimal commas pass --decimal ','", "For decimal values. Write decimal points, or"),
        ("rows need it; for logits pass --from-logits", "Rows need it; for logits choose “the columns have scores” in"),
        ("y contains 'cow'", "The column with the true classes contains 'cow'"),
        ("--labels contains 'cow'", "The column with the true classes contains 'cow'"),
        (
            "Label a few random rows of the batch and pass them as labelled= of br.estimate in Python, collect "
            "validation rows that are like the batch, or pass --on-refuted everything to leave predictions as they are",
            "Label a few random rows of the batch in a column of your file and choose “labels in a column”, collect "
            "validation rows that are like the batch, or leave the predictions as they are",
        ),
        (
            "used for 9 rows (unequal weights count as fewer rows); leave --weight out, or estimate the rates of these "
            "rows with baserate rates",
            "Used for 9 rows (unequal weights count as fewer rows); choose no column with weights in step 1",
        ),
        (
            "used for 9 rows; estimate the rates of these rows with baserate rates",
            "Used for 9 rows; choose “only a validation file” or “labels in a column”",
        ),
        (
            "the upper bounds sum to 0.4, but class rates sum to 1; raise some of them",
            "The upper bounds sum to 40 %, but class rates sum to 100 %; raise some of them",
        ),
    ],
)
def test_messages_of_commands_are_in_the_words_of_the_page(said: str, shown: str) -> None:
    assert on_page(br.BaserateError(said)).startswith(shown)


@pytest.mark.parametrize("name", ["row 1", "a rate of 3", "it's row 1", 'the "row 1"', "pass classes=[...]"])
def test_names_in_messages_stay_as_they_are(name: str, tmp_path: Path) -> None:
    path = tmp_path / "all row 1.csv"
    pd.DataFrame({name: ["0.5", "bad"], "other": [0.5, 0.5]}).to_csv(path, index=False)
    with pytest.raises(br.BaserateError) as caught:
        br.adjust(path, {name: 0.5, "other": 0.5}, columns=[name, "other"])
    assert on_page(caught.value) == (
        f"Row 3 of {path}, column {name!r} is 'bad', which is not a number. Correct this cell in your file, or choose "
        f"other columns in step 1. {COUNTED_IN_FILE}"
    )
    options = "columns='p_*' for class '<row 1>'"
    assert in_percent(f"{options}, a rate of 0.3 of class '<a rate of 3>'").endswith("30 % of class '<a rate of 3>'")
    assert in_percent(f"a rate of 0.3 of class {name!r}") == f"a rate of 30 % of class {name!r}"


@pytest.mark.parametrize("name", ["row 1", "a rate of 3"])
def test_names_that_were_entered_stay_as_they_are(name: str) -> None:
    with pytest.raises(br.BaserateError) as caught:
        rates_text("number", {name: Entry("200", "200")}, (name, "other"), named=True, one_column=False)
    assert on_page(caught.value) == f"The class {name!r}: 200 % is not between 0 and 100 %."


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        (
            {"a": 20, "b": 80},
            "The rates are percentages, since they sum to 100. Write shares such as 0.2, or percent signs such as 20%",
        ),
        ({"a": 2e5, "b": 8e6}, "Rates sum to 820000000 %, not to 100 %; to rescale them, divide each by their sum"),
        ({"a": 0.2, "b": 0.9}, "Rates sum to 110 %, not to 100 %; to rescale them, divide each by their sum"),
    ],
)
def test_sums_of_rates_are_percentages(rates: dict[str, float], said: str, tmp_path: Path) -> None:
    pd.Series(rates, name="rate").rename_axis("class").to_csv(tmp_path / "rates.csv")
    with pytest.raises(br.BaserateError) as caught:
        br.Rates.parse(str(tmp_path / "rates.csv")).on(("a", "b"), 2)
    assert on_page(caught.value) == said


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (b"g,q\nn,0.2\n", "The rates name 'q', but the column is 'p'. Give the rates the name of this column"),
        ("g,p\n\xe4,0.2\n".encode("latin-1"), "in UTF-8. In Excel, save it again as “CSV UTF-8 (Comma delimited)”"),
    ],
)
def test_messages_about_tables_of_rates_have_no_code(table: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_bytes(table)
    (tmp_path / "a.csv").write_text("p,g\n0.2,n\n")
    with pytest.raises(br.BaserateError) as caught:
        br.adjust(tmp_path / "a.csv", br.Rates.by("g", tmp_path / "g.csv"), columns=["p"])
    assert said in on_page(caught.value)
    assert not re.search("codec|classes=|pass ", on_page(caught.value))


def test_percentages_stay_as_they_are() -> None:
    for text in ("The rates sum to 115 %, not to 100 %.", "a rate of 12.5 % of class 'a'"):
        assert in_percent(text) == text
    assert in_percent("rates sum to 0.6, not 1; to rescale them") == "rates sum to 60 %, not to 100 %; to rescale them"


def test_conditions_and_tables_have_rates_in_percent() -> None:
    probs = np.column_stack([0.5 - SHARES / 4, 0.5 - SHARES / 4, SHARES / 2])
    about = facts(br.adjust(probs, br.Rates.parse("c=0.1..0.2"), classes=("a", "b", "c")))
    said = condition(about, sentences.guarantee(about)["condition"])
    assert said.endswith(
        "if the rates of these rows are: a at most 90.0 %, b at most 90.0 %, c between 10.0 % and 20.0 %."
    )
    assert rows_in_percent([{"name": "a", "before": "0.2000", "wanted": "", "certified": "0.1"}]) == [
        {"name": "a", "before": "20.00 %", "wanted": "", "certified": "0.1"}
    ]
