"""Predictions files of OpenML, in all variants that programs have written."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from baserate.errors import BadFile
from baserate.study.openml_arff import read_predictions

pytest.importorskip("arff", reason="openml is not installed")


ROWS = [(0, 7, 0.25, 0.75, "b", "a"), (0, 2, 0.5, 0.5, "a", "b"), (1, 0, 0.125, 0.875, "b", "b")]

WEKA = """@relation openml_task_1_predictions

@attribute repeat numeric
@attribute fold numeric
@attribute row_id numeric
@attribute confidence.a numeric
@attribute confidence.b numeric
@attribute prediction {a,b}
@attribute correct {a,b}

@data
""" + "\n".join(f"0,{f},{r},{p},{q},{guess},{y}" for f, r, p, q, guess, y in ROWS)

R = """@relation 'x'
@attribute 'repeat' numeric
@attribute 'fold' numeric
@attribute 'row_id' numeric
@attribute 'prediction' {'a','b'}
@attribute 'truth' {'a','b'}
@attribute 'confidence.a' numeric
@attribute 'confidence.b' numeric
@data
""" + "\n".join(f'0,{f},{r},"{guess}","{y}",{p},{q}' for f, r, p, q, guess, y in ROWS)

PYTHON = """% Python_3.6.6.
% Created by run_task()
@RELATION openml_task_1_predictions

@ATTRIBUTE repeat NUMERIC
@ATTRIBUTE fold INTEGER
@ATTRIBUTE sample NUMERIC
@ATTRIBUTE row_id INTEGER
@ATTRIBUTE prediction {a, b}
@ATTRIBUTE correct {a, b}
@ATTRIBUTE confidence.b REAL
@ATTRIBUTE confidence.a REAL

@DATA
% the rows
""" + "\n".join(f"0,{f},0,{r},{guess},{y},{q},{p}" for f, r, p, q, guess, y in ROWS)

VARIANTS = {
    "weka": WEKA,
    "r": R,
    "python": PYTHON,
    "line ends of Windows": WEKA.replace("\n", "\r\n"),
    "two line ends": R.replace("\n", "\r\r\n") + "\r\r\n",
    "NUL at the end": R + "\n\0",
    "byte order mark": WEKA,
    "tabs": WEKA.replace("@attribute ", "@attribute\t").replace(" numeric", "\tnumeric"),
    "spaces between values": WEKA.replace(",", " , "),
    "blanks in lists of quoted names": R.replace("{'a','b'}", "{ 'a' , 'b' }"),
    "true class is a string": WEKA.replace("correct {a,b}", "correct string"),
    "capital names": PYTHON.replace("row_id", "Row_ID").replace("confidence.", "Confidence."),
    "fractions of zero": PYTHON.replace("\n0,0,0,", "\n0.0,0.0,0.0,"),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_variants_give_the_same_predictions(variant: str, tmp_path: Path) -> None:
    path = tmp_path / "predictions.arff"
    path.write_bytes(VARIANTS[variant].encode("utf-8-sig" if variant == "byte order mark" else "utf-8"))
    for source in [path, *([] if variant == "byte order mark" else [VARIANTS[variant]])]:
        found = read_predictions(source)
        assert found.classes == ("a", "b")
        assert found.fold.tolist() == [0, 0, 1]
        assert found.row_id.tolist() == [7, 2, 0]
        assert found.y.tolist() == [0, 1, 1]
        assert found.probs.tolist() == [[0.25, 0.75], [0.5, 0.5], [0.125, 0.875]]


def test_classes_keep_the_declared_order_even_if_one_never_occurs() -> None:
    text = WEKA.replace("correct {a,b}", "correct {z,b,a}").replace(
        "@attribute prediction", "@attribute confidence.z numeric\n@attribute prediction"
    )
    text = text.replace("0.75,b", "0.75,0,b").replace("0.5,a", "0.5,0,a").replace("0.875,b", "0.875,0,b")
    found = read_predictions(text)
    assert found.classes == ("z", "b", "a")
    assert found.probs.tolist() == [[0, 0.75, 0.25], [0, 0.5, 0.5], [0, 0.875, 0.125]]
    assert found.y.tolist() == [2, 1, 1]


SPECIAL_NAMES = ["two words", "it's", "p,q", "ünï", "50%", 'say "x" now', "back\\slash", ">=3"]


def test_special_characters_in_class_names_written_by_the_python_client() -> None:
    arff = pytest.importorskip("arff")
    attributes = [("repeat", "NUMERIC"), ("fold", "NUMERIC"), ("row_id", "NUMERIC"), ("correct", SPECIAL_NAMES)]
    attributes += [(f"confidence.{name}", "NUMERIC") for name in SPECIAL_NAMES]
    data = [[0, 0, i, name, *np.eye(8)[i]] for i, name in enumerate(SPECIAL_NAMES)]
    found = read_predictions(arff.dumps({"relation": "x", "attributes": attributes, "data": data}))
    assert list(found.classes) == SPECIAL_NAMES
    assert found.y.tolist() == list(range(8))
    assert np.array_equal(found.probs, np.eye(8))


def test_escaped_quotes_in_class_names() -> None:
    text = R.replace("{'a','b'}", r"{'it\'s','p, q'}").replace("confidence.a", r"confidence.it\'s")
    text = text.replace("confidence.b", "confidence.p, q").replace('"a"', r"'it\'s'").replace('"b"', '"p, q"')
    found = read_predictions(text)
    assert found.classes == ("it's", "p, q")
    assert found.y.tolist() == [0, 1, 1]


def test_latin_1_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.arff"
    path.write_bytes(
        WEKA.replace("confidence.a", "confidence.ä").replace("{a,", "{ä,").replace(",a", ",ä").encode("latin-1")
    )
    assert read_predictions(path).classes == ("ä", "b")


def test_first_repeat_and_largest_sample_are_read() -> None:
    head = PYTHON[: PYTHON.index("% the rows")]
    rows = [
        (repeat, fold, sample, row, 0.5 + 0.01 * sample + 0.1 * repeat)
        for repeat in (0, 1)
        for fold, row in ((0, 4), (1, 5), (1, 6))
        for sample in range(3 - fold)  # folds can have different numbers of samples
    ]
    lines = [f"{repeat},{fold},{sample},{row},a,a,{1 - p},{p}" for repeat, fold, sample, row, p in rows]
    found = read_predictions(head + "\n".join(reversed(lines)))
    assert dict(zip(found.row_id.tolist(), found.probs[:, 0].tolist(), strict=True)) == {4: 0.52, 5: 0.51, 6: 0.51}


BAD = {
    "twice": (WEKA + "\n0,1,7,0.5,0.5,a,a", "row_id 7 occurs 2 times"),
    "unknown label": (WEKA.replace("0.75,b,a", "0.75,b,c"), "line 12: .*value c not found"),
    "unknown label with percent": (WEKA.replace("0.75,b,a", "0.75,b,c%s"), "line 12: BadNominalValue"),
    "unknown label of a string": (
        WEKA.replace("correct {a,b}", "correct string").replace("0.75,b,a", "0.75,b,c"),
        r"line 12: the true class 'c' is not one of \['a', 'b'\]",
    ),
    "missing label": (WEKA.replace("0.75,b,a", "0.75,b,?"), "line 12: the true class None"),
    "missing score": (WEKA.replace("0.25,", "?,"), "line 12: a value is missing or not a number"),
    "score is a word": (WEKA.replace("0.25,", "half,"), "line 12: Invalid numerical value"),
    "score is nan": (WEKA.replace("0.25,", "nan,"), "row_id 7 has a confidence that is not a number"),
    "row_id is nan": (PYTHON.replace("0,0,0,7", "0,0,0,nan"), "line 16: a value is missing or not a number"),
    "row_id is negative": (WEKA.replace("0,0,7", "0,0,-7"), "row_id is -7.0 in row 1 of the data"),
    "row_id is a fraction": (WEKA.replace("0,0,2", "0,0,2.5"), "row_id is 2.5 in row 2 of the data"),
    "short row": (WEKA + "\n0,1,8,0.5", "line 15: Bad @DATA instance format"),
    "no class": (WEKA.replace("{a,b}", "{a,b,c}"), "there is no column 'confidence.c'"),
    "strange class": (
        WEKA.replace("confidence.b", "confidence.c").replace("{a,b}", "{a,c}").replace("ence.a", "ence.x"),
        "there is no column 'confidence.a'",
    ),
    "one class too many": (
        WEKA.replace("correct {a,b}", "correct {b}"),
        "'confidence.a' does not belong to a declared class",
    ),
    "same class twice": (WEKA.replace("correct {a,b}", "correct {a,a}"), "are not distinct names"),
    "two classes for a score": (
        WEKA.replace("{a,b}", "{a,b,' b'}"),
        "there is no column 'confidence.b'",
    ),
    "no scores": (WEKA.replace("confidence", "trust"), "there is no column 'confidence.a'"),
    "no truth": (WEKA.replace("correct", "right"), "there is no column 'correct' or 'truth'"),
    "no fold": (WEKA.replace("fold", "part"), "there is no column 'fold'"),
    "no rows": (WEKA[: WEKA.index("0,0,7")], "there are no rows"),
    "no data": (WEKA[: WEKA.index("@data")], "Invalid layout"),
    "empty": ("", "line 1: Invalid layout"),
    "not ARFF": ('{"error": "no"}', "line 1: Invalid layout"),
    "bad escape": (R.replace('"a"', r'"\q"'), "line 10: Unsupported escape sequence"),
}


@pytest.mark.parametrize("case", BAD)
def test_messages_name_the_file_and_the_line(case: str, tmp_path: Path) -> None:
    text, message = BAD[case]
    path = tmp_path / "bad.arff"
    path.write_text(text)
    with pytest.raises(BadFile, match=message) as caught:
        read_predictions(path)
    assert str(path) in str(caught.value)


def read_simply(path: Path) -> tuple[list[str], list[str], list[dict[str, str]]]:
    """Columns, classes and rows of a predictions file, read without an ARFF library."""
    lines = [line.strip("\r\0") for line in gzip.decompress(path.read_bytes()).decode().split("\n")]
    header = [line.split(maxsplit=2)[1:] for line in lines if line.lower().startswith("@attribute")]
    names = [name.strip("'") for name, _ in header]
    kinds = dict(zip(names, (kind for _, kind in header), strict=True))
    classes = [name.strip(" '") for name in kinds["correct" if "correct" in kinds else "truth"].strip("{}").split(",")]
    start = next(i for i, line in enumerate(lines) if line.lower() == "@data")
    rows = [dict(zip(names, row, strict=True)) for row in csv.reader(line for line in lines[start + 1 :] if line)]
    return names, classes, rows


def test_real_files_agree_with_a_simple_reader(real_predictions: Path) -> None:
    files = sorted((real_predictions / "openml_run_fixtures").glob("*.arff.gz"))
    assert files
    for path in files:
        found = read_predictions(path)
        names, classes, rows = read_simply(path)
        rows = [row for row in rows if row["repeat"] == "0"]
        best = {
            row["fold"]: max(int(other.get("sample", 0)) for other in rows if other["fold"] == row["fold"])
            for row in rows
        }
        rows = [row for row in rows if int(row.get("sample", 0)) == best[row["fold"]]]
        truth = "correct" if "correct" in names else "truth"
        assert list(found.classes) == classes, path
        assert found.row_id.tolist() == [int(row["row_id"]) for row in rows]
        assert found.fold.tolist() == [int(row["fold"]) for row in rows]
        assert [classes[j] for j in found.y] == [row[truth] for row in rows]
        assert found.probs.tolist() == [[float(row[f"confidence.{name}"]) for name in classes] for row in rows]
        assert np.abs(found.probs.sum(axis=1) - 1).max() < 3e-6
