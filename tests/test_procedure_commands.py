"""The commands `baserate compare` and `baserate advise`: what they print, and what they refuse."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import baserate as br
from baserate.cli import main
from baserate.inputs.labels import match_labels

NAMES = np.array(["cat", "dog"])
RATES = "cat=0.7,dog=0.3"


def labelled(n: int, rate: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Predictions that are calibrated for equal rates, and labels, of which about this share is 1."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < rate).astype(int)
    p = 1 / (1 + np.exp(2 - 2 * rng.normal(2.0 * y)))
    return np.column_stack([1 - p, p]), y


P, Y = labelled(200, 0.3, seed=0)
P_VAL, Y_VAL = labelled(300, 0.5, seed=1)


def table(p: np.ndarray, y: np.ndarray) -> pa.Table:
    columns = {"p_cat": p[:, 0], "p_dog": p[:, 1], "y": NAMES[y], "number": y, "flag": y == 1}
    return pa.table(columns | {"patient": np.arange(len(p)) // 4, "w": 1.0 + np.arange(len(p)) % 3})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with predictions and labels as CSV and as Parquet."""
    monkeypatch.chdir(tmp_path)
    pa.csv.write_csv(table(P, Y), "in.csv")
    pa.csv.write_csv(pa.table({"p": P[:, 1], "y": Y, "name": NAMES[Y]}), "one.csv")
    Path("parts").mkdir()
    for i in range(2):
        pq.write_table(table(P, Y)[100 * i : 100 * (i + 1)], f"parts/{i}.parquet")
    # The columns are in another order than in the input.
    pa.csv.write_csv(table(P_VAL, Y_VAL).select(["y", "p_dog", "p_cat"]), "val.csv")
    return tmp_path


def call(*arguments: str, code: int = 0) -> Any:
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == code, answer.output
    assert code == 0 or isinstance(answer.exception, SystemExit), "an error message, not a traceback"
    return answer


def compared(*arguments: str, code: int = 0) -> Any:
    return call("compare", *arguments, code=code)


def advised(*arguments: str, code: int = 0) -> Any:
    return call("advise", *arguments, code=code)


def assert_same_numbers(found: Any, known: br.Comparison) -> None:
    """The JSON of a command has the numbers of a comparison, not rounded."""
    for j, measure in enumerate(found["measures"]):
        assert [one["procedure"] for one in measure["procedures"]] == list(known.procedures)
        for name in ("mean", "change", "low", "high", "joint_low", "joint_high"):
            expected = np.where(np.isfinite(getattr(known, name)[:, j]), getattr(known, name)[:, j], np.nan)
            numbers = np.array([one[name] for one in measure["procedures"]], dtype=float)  # null becomes NaN
            np.testing.assert_allclose(numbers, expected, rtol=1e-9, atol=1e-12)


class TestCompare:
    def test_it_prints_what_the_library_prints(self, folder: Path) -> None:
        known = br.compare(P, NAMES[Y], [0.7, 0.3], [0.5, 0.5], classes=list(NAMES))
        answer = compared("in.csv", "--labels", "y", "--rates", RATES, "--old-rates", "cat=0.5,dog=0.5")
        assert answer.stdout.replace("--zeros 1e-6", "zeros=1e-6") == f"{known}\n"
        assert answer.stderr == ""

    def test_options_reach_the_library(self, folder: Path) -> None:
        options = ("--losses", "brier", "--metrics", "accuracy,auc", "--target", "new rows", "--confidence", "0.8")
        columns = ("--columns", "p_*", "--labels", "y", "--groups", "patient", "--weights", "w")
        found = json.loads(compared("parts", "--rates", "0.7,0.3", *columns, *options, "--json").stdout)
        known = br.compare(
            P,
            Y,
            [0.7, 0.3],
            losses=["brier"],
            metrics=["accuracy", "auc"],
            target="new rows",
            confidence=0.8,
            groups=np.arange(200) // 4,
            sample_weight=1.0 + np.arange(200) % 3,
        )
        assert [one["name"] for one in found["measures"]] == ["brier", "accuracy", "auc"]
        assert [one["higher_is_better"] for one in found["measures"]] == [False, True, True]
        assert (found["rows"], found["target"], found["confidence"]) == (200, "new rows", 0.8)
        assert_same_numbers(found, known)

    @pytest.mark.parametrize("source", ["in.csv", "parts/*.parquet", "parts"])
    def test_every_input_of_adjust_is_read(self, folder: Path, source: str) -> None:
        known = br.compare(P, Y, br.Rates.from_counts([70, 30], 0.9), losses=["log"], confidence=0.9)
        options = ("--rates", "counts:cat=70,dog=30", "--losses", "log", "--confidence", "0.9")
        assert_same_numbers(json.loads(compared(source, "--labels", "y", *options, "--json").stdout), known)

    def test_a_pipe_is_read(self, folder: Path) -> None:
        known = br.compare(P, Y, [0.7, 0.3], losses=["log"])
        command = [sys.executable, "-m", "baserate", "compare", "-", "--labels", "y", "--rates", RATES]
        text = Path("in.csv").read_bytes()
        process = subprocess.run([*command, "--losses", "log", "--json"], input=text, capture_output=True, check=True)
        assert_same_numbers(json.loads(process.stdout), known)

    @pytest.mark.parametrize("source", ["in.csv", "parts"])
    @pytest.mark.parametrize("labels", ["number", "flag"])
    def test_labels_match_classes_of_another_type(self, folder: Path, source: str, labels: str) -> None:
        known = compared(source, "--labels", "y", "--rates", RATES, "--json").stdout
        options = ("--columns", "p_cat,p_dog", "--classes", "0,1", "--rates", "0=0.7,1=0.3", "--json")
        assert compared(source, "--labels", labels, *options).stdout == known

    def test_labels_of_an_npz_file_are_column_numbers(self, folder: Path) -> None:
        np.savez("in.npz", probs=P, y=Y)
        known = br.compare(P, Y, [0.7, 0.3])
        found = json.loads(compared("in.npz", "--labels", "y", "--rates", "0.7,0.3", "--json").stdout)
        assert_same_numbers(found, known)

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ("0.2,0.8,dog\n0.5,0.5,\n0.5,0.5,\n", "row 1 of bad.csv, column 'y' is empty (1 more rows have none)"),
            ("0.2,0.8,dog\n0.5,0.5,bird\n", "row 1 of bad.csv, column 'y' is 'bird', which is not among the classes"),
            ("0.2,0.8,x\n0.5,0.5,dog\n0.5,0.5,z\n", "is 'x', which is not among the classes 'cat', 'dog' (1 more rows"),
            ("0.2,0.9,dog\n0.5,0.5,cat\n", "the worst is row 0 of bad.csv, which sums to 1.1. Pass --normalize"),
            ("", "bad.csv has no rows"),
        ],
    )
    def test_bad_rows_are_named(self, folder: Path, rows: str, message: str) -> None:
        Path("bad.csv").write_text(f"p_cat,p_dog,y\n{rows}")
        answer = compared("bad.csv", "--labels", "y", "--rates", RATES, code=1)
        assert message in answer.stderr
        assert answer.stderr.count("\n") == 1

    def test_a_bad_label_in_a_later_file_names_that_file(self, folder: Path) -> None:
        pq.write_table(table(P, Y)[:2].set_column(2, "y", pa.array(["dog", None])), "parts/2.parquet")
        answer = compared("parts", "--labels", "y", "--rates", RATES, code=1)
        assert "row 1 of parts/2.parquet, column 'y' is empty" in answer.stderr

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (("no.csv", "--labels", "y", "--rates", RATES), 1, "there is no file no.csv"),
            (("in.csv", "--labels", "z", "--rates", RATES), 1, "in.csv has no column 'z' with labels; its columns are"),
            (("in.csv", "--labels", "p_cat", "--rates", RATES), 1, "'p_cat' cannot contain both probabilities and"),
            (("in.csv", "--labels", "y", "--rates", "cat=0.5,dog=0.6"), 1, "rates sum to 1.1, not 1"),
            (("in.csv", "--labels", "y", "--rates", "cat=0.5,owl=0.5"), 1, "'owl' has no column"),
            (("in.csv", "--labels", "y", "--rates", RATES, "--groups", "g"), 1, "has no column 'g' with groups"),
            (("in.csv", "--labels", "y", "--rates", RATES, "--weights", "v"), 1, "has no column 'v' with weights"),
            (("in.csv", "--labels", "y", "--rates", RATES, "--losses", "hinge"), 1, "hinge"),
            (("in.csv", "--labels", "y", "--rates", RATES, "--metrics", "f1"), 1, "metrics contains 'f1'"),
            (("in.csv", "--labels", "y", "--rates", RATES, "--losses", ","), 2, "contains no name"),
            (("in.csv", "--labels", "y", "--rates", RATES, "--target", "all"), 2, "'all' is not one of"),
            (("in.csv", "--rates", RATES), 2, "Missing option '--labels'"),
            (("in.csv", "--labels", "y"), 2, "Missing option '--rates'"),
            (
                ("in.csv", "--labels", "y", "--rates", RATES, "--old-rates", "cat=0.1..0.3"),
                1,
                "one rate per class is needed here, but only bounds are known",
            ),
        ],
    )
    def test_errors_are_one_line_with_an_exit_code(
        self, folder: Path, arguments: tuple[str, ...], code: int, message: str
    ) -> None:
        answer = compared(*arguments, code=code)
        assert message in answer.stderr
        assert answer.stdout == ""
        assert sum(line.startswith("Error: ") for line in answer.stderr.splitlines()) == 1

    def test_classes_in_another_order_than_the_columns_are_refused(self, folder: Path) -> None:
        options = ("--labels", "y", "--columns", "p_*", "--classes", "dog,cat", "--rates", "0.7,0.3")
        answer = compared("in.csv", *options, code=1)
        assert "--classes 'dog', 'cat' are the class names of the columns in another order; leave --classes out" in (
            answer.stderr
        )

    def test_missing_groups_and_a_single_group_are_errors(self, folder: Path) -> None:
        Path("g.csv").write_text("p_cat,p_dog,y,g,h\n0.2,0.8,dog,1,1\n0.5,0.5,cat,,1\n0.5,0.5,cat,2,1\n")
        options = ("--labels", "y", "--rates", RATES, "--groups")
        assert (
            "row 1 of g.csv, column 'g' is empty; give every row a group"
            in compared("g.csv", *options, "g", code=1).stderr
        )
        assert (
            "all rows are in one group; at least 2 are needed, or leave --groups out"
            in compared("g.csv", *options, "h", code=1).stderr
        )

    def test_few_groups_are_noted_once(self, folder: Path) -> None:
        Path("g.csv").write_text("p_cat,p_dog,y,g\n" + "0.2,0.8,dog,1\n0.5,0.5,cat,2\n0.5,0.5,cat,3\n" * 3)
        answer = compared("g.csv", "--labels", "y", "--rates", RATES, "--groups", "g", "--losses", "log")
        assert answer.output.count("there are only 3 groups") == 1

    def test_notes_suggest_options_as_they_are_typed(self, folder: Path) -> None:
        Path("zeros.csv").write_text("p_cat,p_dog,y\n1,0,dog\n1,0,cat\n0.5,0.5,dog\n")
        answer = compared("zeros.csv", "--labels", "y", "--rates", "cat=0.2,dog=0.8", "--losses", "log")
        assert (
            "pass --zeros 1e-6 to smooth the zeros, choose a loss that can move them (--losses brier)" in answer.stdout
        )
        assert "the stated rates contradict the labels" not in answer.stdout
        found = json.loads(compared("zeros.csv", "--labels", "y", "--rates", "cat=0.2,dog=0.8", "--json").stdout)
        assert any("--zeros 1e-6" in note for note in found["notes"])
        assert found["measures"][0]["procedures"][0]["mean"] is None, "an infinite loss is null"

    def test_rates_that_contradict_the_labels_are_noted(self, folder: Path) -> None:
        answer = compared("in.csv", "--labels", "y", "--rates", "cat=0.1,dog=0.9", "--losses", "log")
        assert "note: the stated rates contradict the labels" in answer.stdout

    def test_equal_labels_and_a_single_row_are_compared(self, folder: Path) -> None:
        Path("same.csv").write_text("p_cat,p_dog,y\n0.2,0.8,dog\n0.5,0.5,dog\n0.4,0.6,dog\n")
        options = ("--labels", "y", "--losses", "log", "--metrics", "auc", "--json")
        found = json.loads(compared("same.csv", "--rates", "cat=0,dog=1", *options).stdout)
        assert found["measures"][0]["procedures"][0]["mean"] == pytest.approx(-np.log([0.8, 0.5, 0.6]).mean())
        assert found["measures"][1]["procedures"][0]["mean"] is None, "there is no AUC of one class"
        Path("row.csv").write_text("p_cat,p_dog,y\n0.2,0.8,dog\n")
        found = json.loads(compared("row.csv", "--rates", "cat=0.1,dog=0.9", *options).stdout)
        assert found["rows"] == 1
        answer = compared("row.csv", "--rates", "cat=0.1,dog=0.9", *options, "--target", "new rows", code=1)
        assert "the target 'new rows' needs at least 2 rows" in answer.stderr


class TestAdvise:
    def test_it_prints_what_the_library_prints(self, folder: Path) -> None:
        known = br.advise(P, [0.7, 0.3], [0.5, 0.5], classes=list(NAMES))
        answer = advised("in.csv", "--rates", RATES, "--old-rates", "cat=0.5,dog=0.5")
        assert answer.stdout == f"{known}\n"
        found = json.loads(advised("in.csv", "--rates", RATES, "--old-rates", "cat=0.5,dog=0.5", "--json").stdout)
        assert (found["procedure"], found["summary"], found["rows"]) == (known.procedure, known.summary, 200)
        assert found["rates"] == {"classes": ["cat", "dog"], "kind": "exact", "values": [0.7, 0.3]}
        figures = np.array([one["figure"] for one in found["reasons"]], dtype=float)
        np.testing.assert_allclose(figures, [one.figure for one in known.reasons], rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("loss", ["log", "brier"])
    def test_validation_files_may_have_their_columns_in_another_order(self, folder: Path, loss: str) -> None:
        known = br.advise(P, [0.7, 0.3], probs_val=P_VAL, y_val=NAMES[Y_VAL], classes=list(NAMES), loss=loss)
        options = ("--columns", "p_*", "--rates", "0.7,0.3", "--loss", loss)
        found = json.loads(advised("in.csv", *options, "--validation", "val.csv", "--labels", "y", "--json").stdout)
        assert [one["says"] for one in found["reasons"]] == [one.says for one in known.reasons]
        assert "shift" in [one["about"] for one in found["reasons"]]

    def test_it_suggests_options_and_rates_as_they_are_typed(self, folder: Path) -> None:
        answer = advised("in.csv", "--rates", "cat=0.1,dog=0.9")
        assert "pass --old-rates, or validation data as --validation and --labels\n" in answer.stdout
        assert "pass them as --old-rates\n" in answer.stdout
        low, high = br.advise(P, [0.1, 0.9]).rates.bounds()
        text = answer.stdout.splitlines()[-1].removeprefix("  - rates to adjust to until the rates have been checked: ")
        option, typed = text.split()
        bounds = br.Rates.parse(typed).on(("cat", "dog"), 2).bounds()
        assert option == "--rates"
        np.testing.assert_allclose(bounds, (low, high), atol=1.01e-4)
        assert (bounds[0] <= low + 1e-12).all()
        assert (bounds[1] >= high - 1e-12).all()
        call("fit", "in.csv", option, typed)

    def test_rates_of_a_population_are_suggested_as_they_are_typed(self, folder: Path) -> None:
        # The predictions leave little doubt about these rows, but other rows of the population may differ from them.
        Path("sure.csv").write_text("p_cat,p_dog\n" + "0.02,0.98\n" * 36 + "0.98,0.02\n" * 64)
        answer = advised("sure.csv", "--rates", "cat=0.58,dog=0.42")
        assert answer.stdout.startswith("adjust to --rates population:...: a rate of")
        assert "  - rates to adjust to: --rates population:cat=0.58,dog=0.42\n" in answer.stdout
        assert "Rates.of_population" not in answer.stdout

    def test_no_rates_are_suggested_if_the_predictions_are_best_left_as_they_are(self, folder: Path) -> None:
        answer = advised("in.csv", "--rates", "cat=0.602,dog=0.398")  # 79.6 of 200 rows, so rates of a population
        assert answer.stdout.startswith("leave the predictions as they are")
        assert "this advice is for --rates population:...\n" in answer.stdout
        assert "rates to adjust to" not in answer.stdout

    def test_zeros_that_make_the_rates_impossible_are_explained(self, folder: Path) -> None:
        Path("zeros.csv").write_text("p_cat,p_dog\n1,0\n1,0\n0.5,0.5\n")
        answer = advised("zeros.csv", "--rates", "cat=0.2,dog=0.8")
        assert answer.stdout.startswith("do not adjust to these rates: zeros in the predictions make them impossible")
        assert "pass --zeros 1e-6 to smooth the zeros, choose a loss that can move them (--loss brier)" in answer.stdout

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (("no.csv", "--rates", RATES), 1, "there is no file no.csv"),
            (("in.csv",), 2, "Missing option '--rates'"),
            (("in.csv", "--rates", RATES, "--labels", "y"), 2, "--labels also needs --validation"),
            (("in.csv", "--rates", RATES, "--validation", "val.csv"), 2, "--validation also needs --labels"),
            (
                ("in.csv", "--rates", RATES, "--validation", "val.csv", "--labels", "z"),
                1,
                "val.csv has no column 'z' with labels",
            ),
            (
                ("in.csv", "--rates", RATES, "--validation", "one.csv", "--labels", "y"),
                1,
                "one.csv has no column 'p_cat', 'p_dog'",
            ),
            (
                ("in.csv", "--rates", RATES, "--validation", "same.csv", "--labels", "y"),
                1,
                "--labels has no rows of class 'dog'; every class must occur",
            ),
        ],
    )
    def test_errors_are_one_line_with_an_exit_code(
        self, folder: Path, arguments: tuple[str, ...], code: int, message: str
    ) -> None:
        Path("same.csv").write_text("p_cat,p_dog,y\n0.2,0.8,cat\n0.5,0.5,cat\n")
        answer = advised(*arguments, code=code)
        assert message in answer.stderr
        assert answer.stdout == ""

    def test_the_note_of_an_adjustment_names_the_command(self, folder: Path) -> None:
        assert "see baserate advise\n" in call("fit", "in.csv", "--rates", "cat=0.1,dog=0.9").stdout


class TestSingleColumn:
    def test_compare_and_advise_take_one_number(self, folder: Path) -> None:
        options = ("--columns", "p", "--rates", "0.3", "--old-rates", "0.5", "--json")
        known = br.compare(P, Y, [0.7, 0.3], [0.5, 0.5])
        assert_same_numbers(json.loads(compared("one.csv", "--labels", "y", *options).stdout), known)
        advice = br.advise(P, [0.7, 0.3], [0.5, 0.5], classes=["not p", "p"])
        assert json.loads(advised("one.csv", *options).stdout)["summary"] == advice.summary

    def test_a_rate_by_name_is_exact(self, folder: Path) -> None:
        arguments = ("one.csv", "--columns", "p", "--old-rates", "0.5")
        assert advised(*arguments, "--rates", "p=0.3").stdout == advised(*arguments, "--rates", "0.3").stdout

    def test_labels_may_have_the_names_of_the_classes(self, folder: Path) -> None:
        options = ("one.csv", "--columns", "p", "--rates", "0.3", "--json")
        known = compared(*options, "--labels", "y").stdout
        assert compared(*options, "--labels", "name", "--classes", "cat,dog").stdout == known
        answer = compared(*options, "--labels", "name", code=1)
        assert "is 'cat', which is not among the classes 'not p', 'p'" in answer.stderr
        assert "name the classes of the columns as the labels do: --classes NAME,NAME" in answer.stderr

    def test_suggested_rates_are_one_number(self, folder: Path) -> None:
        last = advised("one.csv", "--columns", "p", "--rates", "0.9").stdout.splitlines()[-1]
        typed = last.removeprefix("  - rates to adjust to until the rates have been checked: --rates ")
        low, high = map(float, typed.split(".."))
        assert 0 < low < P[:, 1].mean() < high == 0.9
        call("fit", "one.csv", "--columns", "p", "--rates", typed)


def run_in_terminal(columns: int, *arguments: str) -> list[str]:
    """The lines that a command prints to a terminal of this width, without its progress bar."""
    main_end, command_end = pty.openpty()
    fcntl.ioctl(command_end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "baserate", *arguments]
    with subprocess.Popen(command, stdout=command_end, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(command_end)
        output = b""
        try:
            while data := os.read(main_end, 1 << 16):
                output += data
        except OSError:  # Linux reports the end of the output so
            pass
    os.close(main_end)
    assert process.returncode == 0
    return output.decode().splitlines()


def test_lines_fit_into_a_terminal_of_80_columns(folder: Path) -> None:
    lines = run_in_terminal(80, "compare", "in.csv", "--labels", "y", "--rates", RATES, "--metrics", "accuracy")
    assert max(map(len, lines)) <= 80
    assert any(
        re.fullmatch(r"joint intervals: left out, since they need \d+ columns; --json has them", x) for x in lines
    )
    wide = run_in_terminal(120, "compare", "in.csv", "--labels", "y", "--rates", RATES, "--metrics", "accuracy")
    assert wide[0].endswith("joint interval")
    lines = run_in_terminal(80, "advise", "in.csv", "--rates", RATES)
    assert max(map(len, lines)) <= 80
    joined = " ".join(line.strip() for line in lines)
    assert joined == " ".join(line.strip() for line in advised("in.csv", "--rates", RATES).stdout.splitlines())


def test_json_can_be_written_to_a_file_and_a_closed_pipe_is_no_traceback(folder: Path) -> None:
    arguments = ("compare", "in.csv", "--labels", "y", "--rates", RATES, "--losses", "log", "--json")
    command = [sys.executable, "-m", "baserate", *arguments]
    with Path("out.json").open("w") as file:
        subprocess.run(command, stdout=file, check=True)
    assert json.loads(Path("out.json").read_text())["rows"] == 200
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (process.returncode, "No space left on device; nothing was changed" in process.stderr) == (1, True)


SLOW = """
import sys, time
import baserate.cli.procedures as procedures
from baserate.cli import main

def slow(*args, **options):
    print("working", flush=True)
    time.sleep(60)

procedures.compare_procedures = procedures.find_advice = slow
main(sys.argv[1:], prog_name="baserate")
"""


@pytest.mark.parametrize("arguments", [("compare", "in.csv", "--labels", "y"), ("advise", "in.csv")])
def test_ctrl_c_ends_the_command_with_one_line(folder: Path, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", SLOW, *arguments, "--rates", RATES]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=30)
    assert (process.returncode, message) == (130, "Error: stopped by Ctrl-C; nothing was changed\n")


def test_help_says_that_rows_are_held_in_memory() -> None:
    for name in ("compare", "advise"):
        assert "Several copies of all rows are kept in memory" in " ".join(call(name, "--help").stdout.split())


@pytest.mark.parametrize(
    ("values", "classes", "numbers"),
    [
        (["cat", " dog ", "Cat"], ["cat", "dog"], [0, 1, None]),
        ([1, 1.0, "1.0", True, "01"], ["0", "1"], [1, 1, 1, 1, 1]),
        ([0, 1, "FALSE", "true"], ["False", "True"], [0, 1, 0, 1]),
        (["1.00", "1.0", "1"], ["1", "1.0"], [None, 1, 0]),  # two classes have the same number
        (["nan", "inf", "1e400"], ["0", "1"], [None, None, None]),
        ([9007199254740993], ["9007199254740992", "9007199254740993.0"], [1]),  # equal as float64
    ],
)
def test_labels_match_where_they_are_unambiguous(values: Any, classes: Any, numbers: Any) -> None:
    assert match_labels(values, classes) == numbers


@pytest.mark.parametrize(
    ("values", "classes", "numbers"),
    [
        ([0, "1", True, "no", "yes", 2], ["no", "yes"], [0, 1, 1, 0, 1, None]),
        ([0, 1, "not 1"], ["not 1", "1"], [0, 1, 0]),
        ([0, 1], ["not 0", "0"], [1, None]),  # 1 is not the class of the column
        ([0, 1, 2], ["1", "2"], [None, 0, 1]),
    ],
)
def test_labels_of_a_single_column_may_be_0_and_1(values: Any, classes: Any, numbers: Any) -> None:
    assert match_labels(values, classes, one_column=True) == numbers
