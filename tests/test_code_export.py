"""Shifts as functions in Python and JavaScript, and the command ``baserate export``."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from deploy_support import HOSTILE_NAMES, fitted, hard_rows, run_duckdb, table_of
from support import Array, run_command

import baserate as br

NODE = shutil.which("node")
LOSSES = [
    (br.losses.Log(), 3, True),
    (br.losses.Brier(), 2, True),
    (br.losses.Brier(), 4, True),
    (br.losses.Brier(), 4, False),
    (br.losses.WeightedBrier([0.2, 1.0, 5.0, 1.0]), 4, True),
    (br.losses.Spherical(), 4, True),
    (br.losses.RankedProbability(), 5, True),
    (br.losses.Power(0.5), 3, True),
    (br.losses.Power(1 - 1e-6), 3, True),
    (br.losses.Power(1.05), 3, True),
    (br.losses.Power(1.5), 3, True),
]


def run_python(code: str, rows: Any) -> Array:
    """What the function returns for some rows, after its own check."""
    names: dict[str, Any] = {"__name__": "exported"}
    exec(code, names)
    names["check"]()
    return np.array([names["adjust"](row) for row in rows.tolist()])


def run_javascript(codes: list[str], rows: list[Any], folder: Path) -> list[Array]:
    """The same for several functions, by one process of Node."""
    for i, code in enumerate(codes):
        (folder / f"adjust{i}.js").write_text(code, encoding="utf-8")
    listed = [np.where(np.isneginf(one), -1e308, one).tolist() for one in rows]
    (folder / "rows.json").write_text(json.dumps(listed))
    program = (
        "const answer = require('./rows.json').map((rows, i) => {"
        "const m = require(`./adjust${i}.js`); m.check(); return rows.map(m.adjust)});"
        "console.log(JSON.stringify(answer))"
    )
    done = subprocess.run([str(NODE), "-e", program], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [np.array(one) for one in json.loads(done.stdout)]


def cases() -> list[tuple[br.Adjustment, Any]]:
    """Adjustments, and rows for which the functions are called."""
    found = [(fitted(loss, k, bounded=bounded, classes=HOSTILE_NAMES[:k]), hard_rows(k)) for loss, k, bounded in LOSSES]
    with np.errstate(divide="ignore"):
        logits = np.log(hard_rows(3)) + 2.0
    found.append((fitted("log", 3, from_logits=True), logits))
    far = np.array([[0.0, -1000.0, -2000.0], [2000.0, -3000.0, -4000.0], [-1e4, 0.0, -5.0]])
    for beta in (0.5, 1 - 1e-6, 1.0, 1.05, 1.5):  # whose powers underflow
        loss = br.losses.Power(beta)
        found += [(fitted(loss, 3, from_logits=True, rates=rates), far) for rates in ([0.2, 0.3, 0.5], [0, 0.3, 0.7])]
    found += [(fitted("brier", 3, from_logits=True, zeros=1e-3), logits), (fitted("log", 3, zeros=1e-3), hard_rows(3))]
    rows = hard_rows(3)
    allowed = rows[(rows[:, 1:] > 0).any(axis=1)]
    found += [(fitted(loss, 3, rates=[0.0, 0.4, 0.6]), allowed) for loss in ("log", "brier", "ranked")]
    p = np.array([[0.5, 0.0, 0.5], [0.3, 0.7, 0.0], [0.6, 0.4, 0.0], [0.2, 0.0, 0.8]])
    found += [(br.adjust(p, [0.25, 0.25, 0.5], loss=loss), p) for loss in ("log", br.losses.Power(0.5))]  # a limit
    found.append((br.adjust([0.1, 0.4, 0.7], 0.2), np.array([0.1, 0.5, 0.0, 1.0, 1e-300])))
    found.append((br.adjust([-1.0, 0.5, 2.0], 0.2, from_logits=True, loss="brier"), np.array([-3.0, 0.0, 50.0])))
    return found


def test_python_gives_what_apply_gives() -> None:
    for result, rows in cases():
        found, wanted = run_python(result.to_code("python"), rows), result.apply(rows)
        assert np.abs(found - wanted).max() <= 1e-12, result.loss
        assert not result.model.loss.pins_zeros or ((found > 0) == (wanted > 0)).all(), result.loss


@pytest.mark.skipif(NODE is None, reason="there is no Node on this machine")
def test_javascript_gives_what_apply_gives(tmp_path: Path) -> None:
    tried = cases()
    found = run_javascript([result.to_code("javascript") for result, _ in tried], [rows for _, rows in tried], tmp_path)
    for (result, rows), answer in zip(tried, found, strict=True):
        wanted = result.apply(rows)
        assert np.abs(answer - wanted).max() <= 1e-12, result.loss
        assert not result.model.loss.pins_zeros or (answer[wanted > 0] > 0).all(), result.loss


def test_functions_pass_their_own_check_if_adjusted_values_are_large(tmp_path: Path) -> None:
    p = np.vstack([np.eye(3), np.random.default_rng(17).dirichlet([3, 2, 1], 100)])
    result = br.adjust(p, [0.2, 0.3, 0.5], loss="spherical", bounded=False)
    assert np.abs(result.probs).max() > 20
    (tmp_path / "adjust.py").write_text(result.to_code("python"))
    subprocess.run([sys.executable, tmp_path / "adjust.py"], check=True)
    (tmp_path / "adjust.js").write_text(result.to_code("javascript"))
    if NODE is not None:
        subprocess.run([NODE, tmp_path / "adjust.js"], check=True)


@pytest.mark.parametrize("wrong", ["1e-8", "float('nan')"])
def test_check_of_a_function_fails_for_wrong_values(wrong: str) -> None:
    code = fitted("brier", 3).to_code("python")
    lines = code.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("    [[") and "], [" in line)
    row, wanted = eval(lines[at].strip().rstrip(","))
    lines[at] = f"    [{row}, [{wanted[0]} + {wrong}, *{wanted[1:]}]],"
    found: dict[str, Any] = {"__name__": "adjust"}
    exec("\n".join(lines), found)
    with pytest.raises(AssertionError):
        found["check"]()


def invalid_rows() -> list[tuple[br.Adjustment, Any]]:
    """Adjustments, and rows that apply refuses and so do the functions."""
    nan = float("nan")
    zeros = [[0.0, 0.0, 0.0], [nan, 0.5, 0.5], [-0.5, 0.5, 1.0], [0.5, 0.5], [0.25, 0.25, 0.25, 0.25]]
    only_excluded = [[1.0, 0.0, 0.0], *zeros]
    found = [(fitted(loss, 3, rates=[0.0, 0.4, 0.6]), only_excluded) for loss in ("log", br.losses.Power(0.5))]
    found += [(fitted(loss, 3), zeros) for loss in ("log", "brier", "spherical", "ranked", br.losses.Power(1.5))]
    found.append((fitted("log", 3, from_logits=True), [[nan, 0.0, 0.0], [0.0, 0.0]]))
    found.append((br.adjust([0.1, 0.4, 0.7], 0.2), [nan, -0.5, 1.5]))
    unbounded = fitted("spherical", 3, bounded=False, rates=[0.02, 0.03, 0.95])
    found.append((unbounded, [[0.0, 0.0, 1.0]]))
    return found


MESSAGES = r"a row must|can get probability|has no unbounded adjustment"


def test_python_refuses_what_apply_refuses() -> None:
    for result, rows in invalid_rows():
        names: dict[str, Any] = {"__name__": "exported"}
        exec(result.to_code("python"), names)
        for row in rows:
            with pytest.raises(br.BaserateError):
                result.apply(np.array([row]))
            with pytest.raises(ValueError, match=MESSAGES):
                names["adjust"](row)


@pytest.mark.skipif(NODE is None, reason="there is no Node on this machine")
def test_javascript_refuses_what_apply_refuses(tmp_path: Path) -> None:
    tried = invalid_rows()
    for i, (result, _) in enumerate(tried):
        (tmp_path / f"adjust{i}.js").write_text(result.to_code("javascript"), encoding="utf-8")
    (tmp_path / "rows.js").write_text(f"module.exports = {json.dumps([rows for _, rows in tried])};")
    program = (
        "const message = (f, row) => { try { return `returned ${f(row)}`; } catch (e) { return e.message; } };"
        "const answer = require('./rows.js').map((rows, i) => "
        "rows.map((row) => message(require(`./adjust${i}.js`).adjust, row)));"
        "console.log(JSON.stringify(answer))"
    )
    done = subprocess.run([str(NODE), "-e", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    messages = [message for answers in json.loads(done.stdout) for message in answers]
    assert len(messages) == sum(len(rows) for _, rows in tried)
    assert all(re.search(MESSAGES, message) for message in messages), messages


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, None, 0.5], "a row must be a list of numbers in the order of CLASSES, not \\[0.5, None, 0.5\\]"),
        (["0.5", "0.3", "0.2"], "a row must be a list of numbers"),
        ("123", "a row must be a list of numbers"),
        ({0: 0.5, 1: 0.3, 2: 0.2}, "a row must be a list of numbers"),
        (0.5, "a row must be a list of numbers"),
        (None, "a row must be a list of numbers"),
        (scipy.sparse.csr_array([[0.5, 0.3, 0.2]]), "a row must be a list of numbers"),
        (np.full((3, 3), 0.3), "a row must be a list of numbers"),
        ([0.5, 0.5], "a row must have 3 probabilities, not 2"),
        ([0.5, float("inf"), 0.5], "a row must contain probabilities from 0 to below infinity, not"),
        ([0.5, -0.1, 0.6], "a row must contain probabilities from 0"),
        ([1e308, 1e308, 1e308], "the sum of the row .* is too large"),
        ([0, 0, 0], "no class of the row .* can get probability"),
        ([0, 10**400, 0], "the row .* has a number that is too large"),
    ],
)
def test_python_says_what_is_wrong_with_a_row(row: Any, message: str) -> None:
    names: dict[str, Any] = {"__name__": "exported"}
    exec(fitted("brier", 3).to_code("python"), names)
    with pytest.raises(ValueError, match=message):
        names["adjust"](row)


def test_python_adjusts_rows_of_other_types() -> None:
    result = fitted("log", 3)
    names: dict[str, Any] = {"__name__": "exported"}
    exec(result.to_code("python"), names)
    wanted = result.apply([0.5, 0.3, 0.2])
    for row in ((0.5, 0.3, 0.2), np.array([0.5, 0.3, 0.2]), pd.Series([0.5, 0.3, 0.2], index=list("abc"))):
        found = names["adjust"](row)
        assert isinstance(found, list)
        assert np.abs(np.array(found) - wanted).max() <= 1e-15
    with pytest.raises(ValueError, match="a row must be a list of numbers"):
        exec(br.adjust([0.1, 0.4, 0.7], 0.2).to_code("python") + "\nadjust(None)", {"__name__": "exported"})
    with pytest.raises(ValueError, match=r"a row must be a probability from 0 to 1, not 1\.5"):
        exec(br.adjust([0.1, 0.4, 0.7], 0.2).to_code("python") + "\nadjust(1.5)", {"__name__": "exported"})


@pytest.mark.skipif(NODE is None, reason="there is no Node on this machine")
def test_javascript_says_what_is_wrong_with_a_row(tmp_path: Path) -> None:
    result = fitted("log", 3)
    (tmp_path / "adjust.js").write_text(result.to_code("javascript"), encoding="utf-8")
    rows = "[null], [undefined], [[0.5, , 0.5]], [[0.5, null, 0.5]], ['123'], [[1e308, 1e308, 1e308]]"
    program = (
        "const {adjust} = require('./adjust.js');"
        "const message = (row) => { try { return String(adjust(row)); } catch (e) { return e.message; } };"
        f"const messages = [{rows}].map(([row]) => message(row));"
        "console.log(JSON.stringify([messages, adjust(new Float32Array([0.5, 0.25, 0.25]))]))"
    )
    done = subprocess.run([str(NODE), "-e", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    messages, answer = json.loads(done.stdout)
    assert messages[:2] == ["a row must have 3 probabilities, not 0"] * 2
    assert all("a row must contain probabilities from 0 to below infinity" in one for one in messages[2:5])
    assert "the sum of the row" in messages[5]
    assert np.abs(np.array(answer) - result.apply([0.5, 0.25, 0.25])).max() <= 1e-15


@pytest.mark.parametrize("name", [float("inf"), -float("inf"), 2**53 + 1, np.int64(7), True])
def test_names_of_classes_that_are_no_numbers_of_a_language(name: Any, tmp_path: Path) -> None:
    result = br.adjust([[0.5, 0.5], [0.2, 0.8]], [0.5, 0.5], classes=["a", name])
    wanted = 7 if isinstance(name, np.int64) else str(name)
    names: dict[str, Any] = {"__name__": "exported"}
    exec(result.to_code("python"), names)
    assert names["CLASSES"] == ["a", wanted]
    if NODE is not None:
        (tmp_path / "adjust.js").write_text(result.to_code("javascript"), encoding="utf-8")
        program = "console.log(JSON.stringify(require('./adjust.js').CLASSES))"
        done = subprocess.run([NODE, "-e", program], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == ["a", wanted]


def test_python_code_runs_as_a_program_and_needs_no_packages(tmp_path: Path) -> None:
    path = tmp_path / "adjust.py"
    path.write_text(fitted("brier", 3).to_code("python"))
    assert subprocess.run([sys.executable, "-I", "-S", path]).returncode == 0
    path.write_text(path.read_text().replace("OFFSET = [", "OFFSET = [1 + "))
    done = subprocess.run([sys.executable, "-I", "-S", "-O", path], capture_output=True, text=True)
    assert "AssertionError" in done.stderr  # the test rows find a wrong number


def test_the_function_is_short() -> None:
    code = fitted("log", 3).to_code("python")
    body = code[code.index("def adjust") : code.index("TESTS")].strip().splitlines()
    assert len(body) <= 24  # nine of them refuse invalid rows


GROUPS = br.adjust([0.2, 0.4, 0.3, 0.1], br.Rates.by("r", {"n": 0.2, "s": 0.3}), groups=["n", "n", "s", "s"])
BAD = [
    (lambda: fitted("log", 2).to_code("java"), "language must be one of python, javascript, not 'java'"),
    (lambda: fitted("log", 2).to_code("pyhton"), "not 'pyhton'; did you mean 'python'\\?"),
    (lambda: fitted("log", 2).to_code("JavaScript"), "not 'JavaScript'; did you mean 'javascript'\\?"),
    (lambda: fitted("log", 2).to_code(["python"]), r"language must be one of python, javascript, not \['python'\]"),
    (lambda: GROUPS.to_code("python"), "a function in python has one shift for all rows"),
    (lambda: fitted(br.losses.Power(3), 3).to_code("python"), "for beta above 2.*Functions are possible"),
    (
        lambda: fitted(br.losses.Quadratic(np.eye(3) + np.diag([0.3, 0.2], 1) + np.diag([0.3, 0.2], -1)), 3).to_code(
            "python"
        ),
        "needs a table of 7 matrices.*use to_onnx",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_messages(call: Any, message: str) -> None:
    with pytest.raises(br.BaserateError, match=message):
        call()


# The command line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fitted("log", 2, classes=["no", "yes"]).save(tmp_path / "shift.json")
    return tmp_path


def test_command_writes_sql(folder: Path) -> None:
    call = ("export", "shift.json", "--to", "sql", "--columns", "p_*")
    printed = run_command(folder, *call).stdout
    table = table_of(hard_rows(2), ["p_no", "p_yes"])
    result = br.load(folder / "shift.json")
    found = run_duckdb(table, printed.rstrip().removesuffix(";"))[["p_no", "p_yes"]].to_numpy()
    assert np.abs(found[:-1] - result.apply(hard_rows(2))).max() <= 1e-12
    options = ("--dialect", "bigquery", "--table", "sales.preds", "--keep", "", "--out", "query.sql")
    assert run_command(folder, *call, *options).stdout == "wrote query.sql\n"
    written = (folder / "query.sql").read_text()
    assert "`sales`.`preds`" in written
    assert written == result.to_sql(columns="p_*", table="sales.preds", dialect="bigquery", keep=[]) + ";\n"


def test_command_writes_code_and_models(folder: Path) -> None:
    pytest.importorskip("onnx")
    result = br.load(folder / "shift.json")
    for language in ("python", "javascript"):
        printed = run_command(folder, "export", "shift.json", "--to", language).stdout
        assert printed.rstrip("\n") == result.to_code(language).rstrip("\n")
    run_command(folder, "export", "shift.json", "--to", "onnx", "--out", "a.onnx", "--dtype", "float64", "--quiet")
    result.to_onnx(folder / "b.onnx", dtype="float64")
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes()


def test_command_exports_groups(folder: Path) -> None:
    GROUPS.save(folder / "groups.json")
    call = ("export", "groups.json", "--to", "sql", "--columns", "p")
    assert "CREATE TABLE" in run_command(folder, *call, "--shift-table", "s").stdout
    assert "COALESCE" in run_command(folder, *call, "--unseen", "pooled").stdout


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--to", "sql", "--dialect", "sqlite"], "pass --keep NAME,NAME, which may be empty", 1),
        (["--to", "sql", "--columns", "p"], "--columns has 1 name, 'p', but the adjustment has 2 classes", 1),
        (["--to", "sql", "--keep", "id,id"], "--keep contains 'id' more than once", 1),
        (["--to", "sql", "--table", "a..b"], "Error: --table has the name '', which no database accepts as a name", 1),
        (["--to", "sql", "--table", "the table."], "Error: --table has the name ''", 1),
        (
            ["--to", "sql", "--keep", "the keep,p_no", "--columns", "p_no,keep it,x"],
            "3 names, 'p_no', 'keep it', 'x'",
            1,
        ),
        (["--to", "sql", "--columns", "the columns"], "has 1 name, 'the columns', but", 1),
        (["--to", "sql", "--dialect", "access"], "--dialect must be one of", 1),
        (["--to", "sql", "--unseen", "pooled"], "--unseen is for the shifts of groups", 1),
        (["--to", "sql", "--dtype", "float64"], "--dtype is for --to onnx, not for --to sql", 2),
        (["--to", "python", "--table", "t"], "--table is for --to sql, not for --to python", 2),
        (["--to", "onnx"], "an ONNX model is a binary file; pass --out FILE", 1),
        (["--to", "onnx", "--opset", "3", "--out", "x"], "--opset must be a whole number from 16 to 23", 1),
        (["--to", "python", "--out", "no/x.py"], "there is no folder no", 1),
        (["--to", "python", "--out", "shift.json"], "is the file with the shift, which would be overwritten", 1),
        (["--to", "cobol"], "is not one of", 2),
    ],
)
def test_command_messages(arguments: list[str], message: str, code: int, folder: Path) -> None:
    before = (folder / "shift.json").read_bytes()
    done = run_command(folder, "export", "shift.json", *arguments, code=code)
    assert message in " ".join(done.stderr.split())
    assert done.stdout == ""
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("shift.json", before)]


def test_command_names_its_own_options(folder: Path) -> None:
    GROUPS.save(folder / "groups.json")
    done = run_command(folder, "export", "groups.json", "--to", "python", code=1)
    assert "use --to sql, which joins the rows" in " ".join(done.stderr.split())


def test_command_without_a_file(folder: Path) -> None:
    done = run_command(folder, "export", "missing.json", "--to", "sql", code=1)
    assert "missing.json" in done.stderr
