"""The commands: output, exit codes, and the files that they write. Each command runs as a process at least once."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from support import run_command as run

import baserate as br
from baserate.cli.exit_handling import as_command_line, signals_as_interrupts
from baserate.cli.progress_bar import progress_bar
from baserate.errors import Option, respell

RATES = "cat=0.2,dog=0.5,owl=0.3"
COLUMNS = ["p_cat", "p_dog", "p_owl"]


def predictions(n: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet([2.0, 1.0, 1.0], size=n)


def table(p: np.ndarray) -> pa.Table:
    columns = {"id": [f"{i:04d}" for i in range(len(p))]}
    return pa.table(columns | {name: p[:, j] for j, name in enumerate(COLUMNS)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with predictions, as CSV and as Parquet."""
    rows = table(predictions())
    pa.csv.write_csv(rows, tmp_path / "in.csv")
    pq.write_table(rows, tmp_path / "in.parquet", row_group_size=20)
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "baserate", *arguments]


def environment(**more: str) -> dict[str, str]:
    # The default setting for compiled kernels, which a user has.
    return {k: v for k, v in os.environ.items() if k != "BASERATE_KERNELS"} | more


def run_process(folder: Path, *arguments: str, code: int = 0, **options: Any) -> Any:
    options = {"text": True, "capture_output": True, "env": environment(), "timeout": 60} | options
    process = subprocess.run(command(*arguments), cwd=folder, check=False, **options)
    assert process.returncode == code, process.stderr
    return process


def adjusted(rates: Any = (0.2, 0.5, 0.3), **options: Any) -> np.ndarray:
    return br.adjust(predictions(), np.array(rates), **options).probs


def matrix(rows: pa.Table) -> np.ndarray:
    return np.column_stack([rows.column(name).to_numpy() for name in COLUMNS])


def test_adjust_writes_rows_shift_and_report(folder: Path) -> None:
    arguments = ("--save-shift", "shift.json", "--report", "report.html")
    process = run_process(folder, "adjust", "in.csv", "--rates", RATES, "--out", "out.csv", *arguments)
    assert "Bounded adjustment for Log(): 60 rows, 3 classes" in process.stdout
    assert "wrote out.csv, shift.json, report.html in " in process.stdout
    assert "\x1b" not in process.stdout + process.stderr, (
        "no colours and no progress bar unless the output is a terminal"
    )
    assert not process.stderr
    np.testing.assert_allclose(matrix(pa.csv.read_csv(folder / "out.csv")), adjusted(), atol=1e-12)
    page = (folder / "report.html").read_text()
    assert "The mean log loss of these rows falls by at least" in page
    assert "adjust in.csv --rates cat=0.2,dog=0.5,owl=0.3" in page
    shift = br.load(folder / "shift.json")
    np.testing.assert_allclose(shift.apply(predictions()), adjusted(), atol=1e-12)


def test_adjust_prints_json_or_nothing_for_scripts(folder: Path) -> None:
    options = ("--loss", "brier", "--unbounded", "--columns", "p_*", "--json")
    process = run(folder, "adjust", "in.parquet", "--rates", "0.2,0.5,0.3", "--out", "out", *options)
    known = br.adjust(predictions(), [0.2, 0.5, 0.3], loss="brier", bounded=False)
    found = json.loads(process.stdout)
    assert (found["rows"], found["converged"], found["out"]) == (60, True, "out")
    assert found["loss_reduction"] == pytest.approx(known.certificate.loss_reduction, abs=1e-12)
    assert [one["class"] for one in found["classes"]] == ["cat", "dog", "owl"]
    np.testing.assert_allclose([one["shift"] for one in found["classes"]], known.shift, atol=1e-12)
    np.testing.assert_allclose(matrix(pq.read_table(folder / "out" / "in.parquet")), known.probs, atol=1e-12)
    quiet = run(folder, "adjust", "in.csv", "--rates", RATES, "--out", "o.csv", "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("", "")


def test_every_form_of_rates_is_accepted(folder: Path) -> None:
    (folder / "rates.csv").write_text("class,rate\ndog,0.5\ncat,0.2\nowl,30%\n")
    (folder / "bounds.json").write_text('{"dog": [0.55, 0.6]}')
    for text, rates in (
        ("rates.csv", [0.2, 0.5, 0.3]),
        ("bounds.json", br.Rates.between([None, 0.55, None], [None, 0.6, None])),
        ("counts:cat=20,dog=50,owl=30", br.Rates.from_counts([20, 50, 30], 0.9)),
    ):
        found = json.loads(run(folder, "fit", "in.csv", "--rates", text, "--confidence", "0.9", "--json").stdout)
        shift = br.adjust(predictions(), rates).shift
        np.testing.assert_allclose([one["shift"] for one in found["classes"]], shift, atol=1e-9)


def test_summary_of_a_small_batch_names_rates_of_a_population_as_they_are_typed(folder: Path) -> None:
    expected = (
        r"the rates of 60 rows drawn at random vary by about \+-0\.13 \(95 %\) around those of their population; "
        r"for rates of a population, pass --rates population:\.\.\.\n"
    )
    assert re.search(expected, run(folder, "fit", "in.csv", "--rates", RATES).stdout)
    assert re.search(expected, run(folder, "check", "in.csv", "--rates", RATES).stdout)
    population = run(folder, "fit", "in.csv", "--rates", f"population:{RATES}")
    assert "drawn at random" not in population.stdout
    found = json.loads(run(folder, "fit", "in.csv", "--rates", RATES, "--json").stdout)
    assert found["rate_variation"] == pytest.approx(1.96 * np.sqrt(0.25 / 60))
    found = json.loads(run(folder, "fit", "in.csv", "--rates", f"population:{RATES}", "--json").stdout)
    assert found["rate_variation"] is None


def test_design_effect_of_a_survey_is_accepted_for_counts_only(folder: Path) -> None:
    counts = ("fit", "in.csv", "--rates", "counts:cat=20,dog=50,owl=30", "--design-effect", "1.9")
    found = json.loads(run(folder, *counts, "--json").stdout)
    shift = br.adjust(predictions(), br.Rates.from_counts([20, 50, 30], design_effect=1.9)).shift
    np.testing.assert_allclose([one["shift"] for one in found["classes"]], shift, atol=1e-9)
    process = run(folder, "fit", "in.csv", "--rates", RATES, "--design-effect", "1.9", code=1)
    assert "leave out --design-effect" in process.stderr
    process = run(folder, *counts[:-1], "0", code=1)
    assert "--design-effect must be a number of at least 1, such as 1.9, not 0.0" in process.stderr


def test_fit_apply_and_prior_give_the_results_of_the_library(folder: Path) -> None:
    fitted = run_process(folder, "fit", "in.parquet", "--rates", RATES, "--save-shift", "shift.json")
    assert "converged in" in fitted.stdout
    assert sorted(p.name for p in folder.iterdir()) == ["in.csv", "in.parquet", "shift.json"]
    applied = run_process(folder, "apply", "in.csv", "--shift", "shift.json", "--out", "out.parquet")
    assert applied.stdout == "wrote out.parquet\n"
    np.testing.assert_allclose(matrix(pq.read_table(folder / "out.parquet")), adjusted(), atol=1e-12)
    old = "cat=0.5,dog=0.25,owl=0.25"
    process = run_process(folder, "prior", "in.csv", "--old-rates", old, "--rates", RATES, "--out", "ppa.feather")
    assert "Prior probability adjustment: 60 rows, 3 classes" in process.stdout
    known = br.prior_adjust(predictions(), [0.5, 0.25, 0.25], [0.2, 0.5, 0.3]).probs
    np.testing.assert_allclose(matrix(pa.feather.read_table(folder / "ppa.feather")), known, atol=1e-12)


def test_rows_can_be_piped_in_every_format(folder: Path) -> None:
    text = (folder / "in.csv").read_bytes()
    through = run_process(folder, "adjust", "-", "--rates", RATES, "--out", "-", input=text, text=False)
    np.testing.assert_allclose(matrix(pa.csv.read_csv(io.BytesIO(through.stdout))), adjusted(), atol=1e-12)
    assert b"Bounded adjustment" in through.stderr
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table(predictions()).schema) as out:
        out.write_table(table(predictions()))
    arrow = sink.getvalue().to_pybytes()
    through = run_process(folder, "adjust", "-", "--rates", RATES, "--out", "-", "--quiet", input=arrow, text=False)
    np.testing.assert_allclose(matrix(pa.ipc.open_stream(through.stdout).read_all()), adjusted(), atol=1e-12)
    parquet = (folder / "in.parquet").read_bytes()
    through = run_process(folder, "fit", "-", "--rates", RATES, "--json", input=parquet, text=False)
    assert json.loads(through.stdout)["rows"] == 60
    # A reader that stops early is not an error.
    arguments = command("adjust", "in.csv", "--rates", RATES, "--out", "-", "--format", "arrow", "--quiet")
    with subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_check_counts_invalid_rows(folder: Path) -> None:
    fine = run_process(folder, "check", "in.csv", "--rates", RATES)
    assert "all rows are valid" in fine.stdout
    assert "Result of an adjustment:\nBounded adjustment for Log(): 60 rows" in fine.stdout
    p = predictions()
    p[[7, 9], 1], p[11, 0], p[13] = np.nan, -0.25, [0.5, 0.5, 0.5]
    p[20] = [0.0, 1.0, 0.0]
    pq.write_table(table(p), folder / "bad.parquet")
    process = run(folder, "check", "bad.parquet", "--columns", "p_*", code=1)
    assert (
        "2 rows with missing or infinite entries, the first at row 7 of bad.parquet, column 'p_dog'" in process.stdout
    )
    assert "1 row with negative entries, the first at row 11 of bad.parquet, column 'p_cat'" in process.stdout
    assert "1 row with a sum other than 1, the first at row 13 of bad.parquet; pass --normalize" in process.stdout
    assert "2 entries are exactly 0" in process.stdout
    assert "cannot be adjusted as they are" in process.stdout
    found = json.loads(run(folder, "check", "bad.parquet", "--columns", "p_*", "--json", code=1).stdout)
    assert [fault["n_rows"] for fault in found["faults"]] == [2, 1, 1]
    assert found["faults"][2]["advice"] == "pass --normalize to divide each row by its sum"
    good = np.delete(p, [7, 9, 11, 13], axis=0)
    np.testing.assert_allclose(found["mean"], good.mean(axis=0), atol=1e-12)


def test_bench_study_demo_version_help_and_completion(folder: Path) -> None:
    figures = json.loads(run_process(folder, "bench", "--rows", "2000", "--repeats", "1", "--json").stdout)
    assert (figures["rows"], figures["classes"]) == (2000, 10)
    assert "a scan takes (ms)" in run(folder, "bench", "in.parquet", "--columns", "p_*", "--repeats", "1").stdout
    assert "there are no results in" in run_process(folder, "study", "claims", code=1).stderr
    assert "The guarantee promised a log loss lower by at least" in run_process(folder, "demo").stdout
    assert (folder / "baserate-demo.html").exists()
    assert run(folder, "--version").stdout == f"baserate, version {br.__version__}\n"
    helped = run(folder, "adjust", "--help").stdout
    assert "Examples:" in helped
    assert "Exit codes:" in helped
    listed = run(folder, "--help").stdout
    names = ["adjust", "advise", "app", "apply", "bench", "check", "compare", "demo", "export", "fit", "prior", "study"]
    assert all(f"  {name} " in listed for name in names)
    complete = subprocess.run(
        [str(Path(sys.executable).with_name("baserate"))],
        env=environment(_BASERATE_COMPLETE="bash_complete", COMP_WORDS="baserate ad", COMP_CWORD="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert complete.stdout == "plain,adjust\nplain,advise\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("in.csv", "--rates", RATES, "--columns", "id,p_cat"),
            1,
            "but the columns are 'id', 'p_cat'",
        ),
        (("in.csv", "--rates", "cat=0.5,dog=0.6,owl=0.1"), 1, "rates sum to 1.2, not 1"),
        (("in.csv", "--rates", RATES, "--loss", "hinge"), 1, "hinge"),
        (("in.csv", "--rates", RATES, "--zeros", "2"), 1, "--zeros must be 'keep' or a number between 0 and 1"),
        (("in.csv", "--rates", RATES, "--tol", "0"), 1, "--tol must be a number between 0 and 1"),
        (("in.csv", "--rates", RATES, "--decimal", ","), 1, "the delimiter and the decimal point are both ','"),
        (("in.csv", "--rates", RATES, "--format", "csv"), 1, "a format can be chosen only for standard output"),
        (
            ("in.csv", "--rates", RATES, "--save-shift", "no/where.json"),
            1,
            "no/where.json cannot be written: there is no folder no",
        ),
        (("nowhere.csv", "--rates", RATES), 1, "there is no file nowhere.csv"),
        (("semicolons.csv", "--rates", RATES), 1, "pass --delimiter ';'"),
        (("off.csv", "--rates", "a=0.5,b=0.5"), 1, "Pass --normalize to divide each row by its sum, or --from-logits"),
        (("in.csv",), 2, "Missing option '--rates'"),
    ],
)
def test_errors_are_one_line_with_an_exit_code(folder: Path, arguments: Any, code: int, message: str) -> None:
    (folder / "semicolons.csv").write_text("p_cat;p_dog;p_owl\n0.2;0.3;0.5\n")
    (folder / "off.csv").write_text("a,b\n0.2,0.3\n")
    before = sorted(path.name for path in folder.iterdir())
    process = run(folder, "adjust", *arguments, "--out", "out.csv", code=code)
    assert message in process.stderr
    assert "Traceback" not in process.stderr
    assert not process.stdout
    assert sorted(path.name for path in folder.iterdir()) == before


INPUTS = {
    "mixed.csv": "a,b,text\n0.2,0.8,hello\n0.5,0.5,you\n",
    "off.csv": "a,b\n0.2,0.3\n",
    "logits.csv": "a,b\n-1,2\n",
    "zeros.csv": "a,b\n1,0\n1,0\n0.5,0.5\n",
    "semicolons.csv": "a;b\n0.2;0.8\n",
    "commas.csv": "a;b\n0,2;0,8\n",
}


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("off.csv", "--rates", "a=0.5,b=0.5"), "Pass --normalize to divide each row by its sum, or --from-logits if"),
        (("logits.csv", "--rates", "a=0.5,b=0.5"), "for logits or log probabilities pass --from-logits"),
        (("zeros.csv", "--rates", "a=0.2,b=0.8"), "pass --zeros 1e-6 to smooth the zeros, choose a loss that can move"),
        (("zeros.csv", "--rates", "a=0.2,b=0.8"), "them (--loss brier), or correct the rates"),
        (("zeros.csv", "--rates", "a=0,b=1"), "or pass --zeros 1e-6 to smooth zeros"),
        (("mixed.csv", "--rates", "0.5,0.5"), "by a pattern, --columns 'p_*' (where * matches the class name), or by"),
        (("mixed.csv", "--rates", "0.5,0.5"), "a list of names, --columns NAME,NAME"),
        (("mixed.csv", "--rates", "0.5,0.5", "--columns", "a,text"), "with probabilities by --columns NAME,NAME"),
        (("two.npz", "--rates", "0.5,0.5"), "select one by --columns NAME"),
        (("semicolons.csv", "--rates", "a=0.5,b=0.5"), "pass --delimiter ';'"),
        (("commas.csv", "--rates", "a=0.5,b=0.5"), "pass --delimiter ';'; for decimal commas also pass --decimal ','"),
        (("mixed.csv", "--rates", "a=0.5,b=0.5,c=0"), "name 3 classes, 'a', 'b', 'c', but 'c' has no column. If there"),
        (("commas.csv", "--delimiter", ";", "--rates", "a=0.5,b=0.5"), "for decimal commas pass --decimal ','"),
        (("commas.csv", "--decimal", ",", "--rates", "a=0.5,b=0.5"), "for example --delimiter ';'"),
        (("mixed.csv", "--rates", "a=0.5,b=0.5", "--tol", "2"), "--tol must be a number between 0 and 1, not 2.0"),
        (("mixed.csv", "--rates", "a=0.5,b=0.5", "--zeros", "2"), "--zeros must be"),
    ],
)
def test_errors_suggest_options_as_they_are_typed(tmp_path: Path, arguments: tuple[str, ...], advice: str) -> None:
    for name, text in INPUTS.items():
        (tmp_path / name).write_text(text)
    np.savez(tmp_path / "two.npz", p=np.full((2, 2), 0.5), q=np.full((2, 2), 0.5))
    message = run(tmp_path, "adjust", *arguments, "--out", "out.csv", code=1).stderr
    assert advice in message
    assert not re.search(r"\b(normalize|from_logits|zeros|columns|delimiter|decimal|loss|tol)=", message)


def test_unbounded_shift_that_cannot_be_applied_suggests_no_unbounded(tmp_path: Path) -> None:
    br.adjust(np.full((50, 3), 1 / 3), [0.9, 0.05, 0.05], loss="spherical", bounded=False).save(tmp_path / "shift.json")
    (tmp_path / "in.csv").write_text("a,b,c\n0.3,0.3,0.4\n1,0,0\n")
    arguments = ("apply", "in.csv", "--shift", "shift.json", "--columns", "a,b,c", "--out", "out.csv")
    assert "fit with no --unbounded" in run(tmp_path, *arguments, code=1).stderr


def test_error_about_the_number_of_columns_names_the_input(tmp_path: Path) -> None:
    br.adjust([[0.2, 0.3, 0.5], [0.4, 0.3, 0.3]], [0.2, 0.5, 0.3]).save(tmp_path / "shift.json")
    (tmp_path / "in.csv").write_text("a,b\n0.5,0.5\n")
    arguments = ("apply", "in.csv", "--shift", "shift.json", "--columns", "a,b", "--out", "out.csv")
    assert "Error: IN has 2 columns, but" in run(tmp_path, *arguments, code=1).stderr


@pytest.mark.parametrize(
    ("option", "spelling"),
    [
        (Option("normalize", "True"), "--normalize"),
        (Option("max_passes"), "--max-passes"),
        (Option("out"), "--out"),
        (Option("loss", '"brier"'), "--loss brier"),
        (Option("zeros", "1e-6"), "--zeros 1e-6"),
        (Option("delimiter", "';'"), "--delimiter ';'"),
        (Option("bounded", "True"), "no --unbounded"),
        (Option("probs_val"), "--validation"),
        (Option("classes", "[...]"), "--classes NAME,NAME"),
    ],
)
def test_options_of_the_library_as_they_are_typed(option: Option, spelling: str) -> None:
    message = respell(f"a text about {option.name}s; pass {option}, or not", [option], as_command_line)
    assert message == f"a text about {option.name}s; pass {spelling}, or not"


def test_equals_sign_after_an_option_without_a_value_is_left_out() -> None:
    out = Option("out")
    message = respell("pass out=, or out=... (see out=)", [out], as_command_line)
    assert message == "pass --out, or --out=... (see --out)"


def test_text_of_the_user_in_a_message_stays_as_it_is() -> None:
    given = "the file 'my out' isn't \"an out\", and pass out='x' or out"
    assert respell(given, [Option("out")], as_command_line) == (
        "the file 'my out' isn't \"an out\", and pass --out='x' or --out"
    )


def test_classes_can_be_named_for_every_command_that_takes_rates(folder: Path) -> None:
    options = ("in.csv", "--columns", "p_*", "--classes", "a,b,c", "--json")
    for arguments in (
        ("fit", *options, "--rates", "a=0.2,b=0.5,c=0.3"),
        ("prior", *options, "--old-rates", "a=0.5,b=0.3,c=0.2", "--rates", "0.2,0.5,0.3", "--out", "o.csv"),
    ):
        assert [one["class"] for one in json.loads(run(folder, *arguments).stdout)["classes"]] == ["a", "b", "c"]
    checked = run(folder, "check", "in.csv", "--columns", "p_*", "--classes", "a,b,c").stdout
    assert re.search(r"mean: a 0\.\d+, b 0\.\d+, c 0\.\d+\n", checked)
    process = run(folder, "fit", *options[:-2], "cat,owl,dog", "--rates", "0.2,0.5,0.3", code=1)
    assert "are the class names of the columns in another order; leave --classes out" in process.stderr


def one_column(folder: Path) -> np.ndarray:
    p = predictions()[:, 0]
    pa.csv.write_csv(pa.table({"id": np.arange(len(p)), "p": p}), folder / "one.csv")
    return np.column_stack([1 - p, p])


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("0.2", [0.8, 0.2]),
        ("20%", [0.8, 0.2]),
        ("exact:0.2", [0.8, 0.2]),
        ("0.1..0.3", br.Rates.between([None, 0.1], [None, 0.3])),
        ("..0.3", br.Rates.between([None, None], [None, 0.3])),
        ("between:0.1..0.3", br.Rates.between([None, 0.1], [None, 0.3])),
        ("population:0.2", br.Rates.of_population([0.8, 0.2])),
        ("counts:12/60", br.Rates.from_counts([48, 12])),
        ("0", [1.0, 0.0]),
    ],
)
def test_one_number_is_the_rate_of_a_single_column(folder: Path, text: str, rates: Any) -> None:
    known = br.adjust(one_column(folder), rates)
    found = json.loads(run(folder, "fit", "one.csv", "--columns", "p", "--rates", text, "--json").stdout)
    assert [one["class"] for one in found["classes"]] == ["not p", "p"]
    for name, expected in (("shift", known.shift), ("achieved", known.rates)):
        numbers = np.array([one[name] for one in found["classes"]], dtype=float)
        np.testing.assert_allclose(numbers, np.where(np.isfinite(expected), expected, np.nan), atol=1e-9)


def test_the_table_of_a_single_column_has_one_row(folder: Path) -> None:
    p = one_column(folder)
    options = ("one.csv", "--columns", "p")
    printed = run(folder, "adjust", *options, "--rates", "0.2", "--out", "o.csv").stdout
    assert re.search(r"\n  class +before +wanted +achieved +shift\n  p +0\.\d+ +0\.2000 +0\.2000 +\S+\n\n", printed)
    assert "not p" not in printed
    printed = run(folder, "fit", *options, "--classes", "no,yes", "--rates", "0.2").stdout
    assert re.search(r"\n  yes +0\.\d+ +0\.2000", printed)
    assert "\n  no " not in printed
    assert f"mean: p {p[:, 1].mean():.4g}\n" in run(folder, "check", *options).stdout
    old = ("--old-rates", "0.5", "--rates", "0.2", "--out", "ppa.csv")
    run(folder, "prior", *options, *old)
    known = br.prior_adjust(p, [0.5, 0.5], [0.8, 0.2]).probs[:, 1]
    np.testing.assert_allclose(pa.csv.read_csv(folder / "ppa.csv")["p"].to_numpy(), known, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("one.csv", "--columns", "p", "--rates", "1.5"), "rates is 1.5; a rate must be between 0 and 1"),
        (("one.csv", "--columns", "p", "--rates", "counts:4"), "pass --rates counts:4/50 with the number of all"),
        (("one.csv", "--columns", "p", "--rates", "counts:5/4"), "sum to 5, which is more than the total of 4"),
        (("one.csv", "--columns", "p", "--rates", "some"), "'some', which is not a number"),
        (("one.csv", "--rates", "0.2"), "has the columns 'id', 'p'. Select the columns with probabilities by"),
        (("in.csv", "--columns", "p_cat,p_dog", "--rates", "0.2"), "say which class it is for: --rates NAME=..."),
    ],
)
def test_errors_about_one_number_say_what_to_write(folder: Path, arguments: Any, message: str) -> None:
    one_column(folder)
    process = run(folder, "fit", *arguments, code=1)
    assert message in process.stderr
    assert "Traceback" not in process.stderr


def test_file_that_is_named_twice_is_an_error(folder: Path) -> None:
    before = (folder / "in.csv").read_bytes()
    for arguments in (("--save-shift", "in.csv"), ("--save-shift", "./x.html", "--report", "x.html")):
        process = run(folder, "fit", "in.csv", "--rates", RATES, *arguments, code=1)
        assert "is named twice" in process.stderr
    (folder / "old.csv").write_text("class,rate\ncat,0.5\ndog,0.25\nowl,0.25\n")
    prior = ("prior", "in.csv", "--old-rates", "old.csv", "--rates", RATES, "--out", "o.csv", "--save-shift", "old.csv")
    assert "is named twice" in run(folder, *prior, code=1).stderr
    assert (folder / "in.csv").read_bytes() == before


def test_message_if_only_printing_fails(folder: Path) -> None:
    arguments = command("adjust", "in.csv", "--rates", RATES, "--out", "out.csv")
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(arguments, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert process.returncode == 1
    assert "No space left on device; but out.csv was written completely" in process.stderr
    (folder / "out.csv").unlink()
    with subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
    assert process.returncode == 0
    assert (folder / "out.csv").exists()


def test_check_normalizes_rows_and_accepts_logits(folder: Path) -> None:
    (folder / "raw.csv").write_text("a,b\n10,30\n1,1\n")
    found = json.loads(run(folder, "check", "raw.csv", "--columns", "a,b", "--normalize", "--json").stdout)
    np.testing.assert_allclose(found["mean"], [0.375, 0.625])
    (folder / "logits.csv").write_text("a,b\n0,0\n0,1\n")
    found = json.loads(run(folder, "check", "logits.csv", "--columns", "a,b", "--from-logits", "--json").stdout)
    assert (found["zeros"], found["mean"][0]) == (0, pytest.approx((0.5 + 1 / (1 + np.e)) / 2))


def test_exit_code_if_the_tolerance_is_not_reached(folder: Path) -> None:
    process = run(folder, "adjust", "in.csv", "--rates", RATES, "--out", "out.csv", "--max-passes", "1", code=3)
    assert "Warning: stopped after 1 pass with the rates off by" in process.stderr
    assert "raise --max-passes or --tol" in process.stderr
    assert (folder / "out.csv").exists()


def test_full_disk_leaves_the_old_output(folder: Path) -> None:
    (folder / "out.csv").write_text("old")
    (folder / "folder").mkdir()
    limit = 1000  # bytes of the largest file that may be written
    for out in ("out.csv", "folder"):
        process = run_process(
            folder,
            *("adjust", "in.parquet", "--rates", RATES, "--out", out),
            code=1,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        assert "File too large; nothing was written, and OUT was not changed" in process.stderr
        assert "Traceback" not in process.stderr
    assert (folder / "out.csv").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == ["folder", "in.csv", "in.parquet", "out.csv"]
    assert not list((folder / "folder").iterdir())


@pytest.fixture(scope="module")
def large_input(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows that take a while to write, and with the expected output."""
    folder = tmp_path_factory.mktemp("large")
    pq.write_table(table(predictions(200_000, seed=3)), folder / "in.parquet", row_group_size=5_000)
    run(folder, "adjust", "in.parquet", "--rates", RATES, "--out", "expected.csv")
    return folder


def temporary_files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
@pytest.mark.parametrize("out", ["out.csv", "folder"])
def test_signal_leaves_no_partial_output(large_input: Path, number: int, name: str, out: str) -> None:
    arguments = command("adjust", "in.parquet", "--rates", RATES, "--out", out)
    with subprocess.Popen(arguments, cwd=large_input, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        while not temporary_files(large_input):
            assert process.poll() is None, "the command ended before it began to write"
            time.sleep(0.001)
        process.send_signal(number)
        try:
            _, message = process.communicate(timeout=60)
        finally:
            process.kill()  # otherwise the test would wait forever for a process that hangs
    assert process.returncode == 128 + number
    assert message == f"Error: stopped by {name}; nothing was written, and OUT was not changed\n"
    assert sorted(path.name for path in large_input.iterdir()) == ["expected.csv", "in.parquet"]


class SignallingLock:
    """A lock that sends a signal to this process right after it was acquired, or before it is released."""

    def __init__(self, moment: str) -> None:
        self.lock, self.moment = threading.Lock(), moment
        self.acquire, self.release = self.lock.acquire, self.lock.release

    def __enter__(self) -> None:
        self.lock.acquire()
        if self.moment == "acquired":
            os.kill(os.getpid(), signal.SIGTERM)

    def __exit__(self, *_: object) -> None:
        if self.moment == "released":
            os.kill(os.getpid(), signal.SIGTERM)
        self.lock.release()


@pytest.mark.parametrize("moment", ["acquired", "released"])
def test_signal_does_not_leave_a_lock_acquired(moment: str) -> None:
    # The threads of an executor would wait for this lock, and the process for the threads, so it would never exit.
    lock, received = SignallingLock(moment), []

    def work() -> None:
        with threading.Condition(lock):  # type: ignore[arg-type]  # it has the methods of a lock
            pass
        time.sleep(10)

    with pytest.raises(KeyboardInterrupt), signals_as_interrupts(received, os._exit):
        work()
    assert received == [signal.SIGTERM]
    assert not lock.lock.locked()


def test_a_signal_after_a_lost_one_ends_the_command() -> None:
    received: list[int] = []

    def work() -> None:
        with contextlib.suppress(BaseException):  # as in an import, in __del__, or in a callback of a C library
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    with pytest.raises(KeyboardInterrupt), signals_as_interrupts(received, os._exit):
        work()
    assert received == [signal.SIGINT, signal.SIGTERM]


SLOW_CLEAN_UP = """
import os, signal, sys, time
from baserate.cli import main
from baserate.tables.base import Writer

class Unfinished:
    def write(self, table):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
    def abandon(self):
        print("cleaning up", flush=True)
        time.sleep(float(sys.argv.pop()))
        print("cleaned up", flush=True)

import baserate.tables.destination as destination
destination.Destination.writer = lambda self, *args: Unfinished()
main(["adjust", "in.csv", "--rates", "cat=0.2,dog=0.5,owl=0.3", "--out", "out.csv"], prog_name="baserate")
"""


@pytest.mark.parametrize("wait", [0.0, 1.5])
def test_a_second_ctrl_c_ends_a_slow_clean_up_but_not_at_once(folder: Path, wait: float) -> None:
    (folder / "out.csv").write_text("old")
    arguments = [sys.executable, "-c", SLOW_CLEAN_UP, "0.5" if wait == 0 else "60"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, cwd=folder, env=environment(), **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "cleaning up\n"
        time.sleep(wait)  # A Ctrl-C may arrive twice at once, from the terminal and from a program such as make.
        process.send_signal(signal.SIGINT)
        try:
            output, message = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGINT
    remaining = "" if wait == 0 else "; temporary files may remain"
    assert message == f"Error: stopped by Ctrl-C; nothing was written, and OUT was not changed{remaining}\n"
    assert output == ("cleaned up\n" if wait == 0 else "")
    assert (folder / "out.csv").read_text() == "old"
    assert bool(temporary_files(folder)) == bool(remaining)


STRANGE = "p_\x1b[31mred\u202e\x9b\x07"


def test_names_do_not_send_control_characters_to_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "in\x1b[2J\n.csv"
    path.write_text(f"{STRANGE},p_b\n0.2,0.8\n0.4,0.6\n")
    rates = f"{STRANGE[2:]}=0.4..0.5"
    outputs = ("--out", "out\x1b.csv", "--save-shift", "shift\x1b.json")
    adjust = run_process(tmp_path, "adjust", path.name, "--rates", rates, "--columns", "p_*", *outputs)
    check = run(tmp_path, "check", path.name, "--columns", "p_*")
    apply = run(tmp_path, "apply", path.name, "--shift", "shift\x1b.json", "--columns", "p_*", "--out", "a\x1b.csv")
    missing = run(tmp_path, "fit", f"{path.name}x", "--rates", rates, code=1)
    wrong = run(tmp_path, "fit", path.name, "--rates", "x=0.5,y=0.5", code=1)
    unknown = run(tmp_path, "study", "all", f"{path.name}", code=2)
    arguments = ("fit", path.name, "--rates", "0.4,0.6", "--columns", "p_*", "--max-passes", "1")
    unfinished = run(tmp_path, *arguments, code=3)
    for process in (adjust, check, apply, missing, wrong, unknown, unfinished):
        assert all(c.isprintable() or c == "\n" for c in process.stdout + process.stderr)
    assert "  \\x1b[31mred\\u202e\\x9b\\x07 " in adjust.stdout
    assert "wrote out\\x1b.csv, shift\\x1b.json in " in adjust.stdout
    assert missing.stderr == "Error: no file matches in\\x1b[2J\\n.csvx\n"
    found = run(tmp_path, "fit", path.name, "--rates", rates, "--columns", "p_*", "--json").stdout
    assert all(c.isprintable() or c == "\n" for c in found)
    assert json.loads(found)["classes"][0]["class"] == STRANGE[2:], "data are not changed"
    assert (tmp_path / "out\x1b.csv").read_text().startswith(f"{STRANGE},p_b\n"), "data are not changed"


def test_symbolic_links_that_lead_in_a_circle_are_an_error(folder: Path) -> None:
    (folder / "loop.csv").symlink_to("loop.csv")
    for source, out in (("loop.csv", "out.csv"), ("l*.csv", "out.csv"), ("in.csv", "loop.csv")):
        process = run(folder, "adjust", source, "--rates", RATES, "--out", out, code=1)
        assert process.stderr.startswith("Error: loop.csv cannot be used: its symbolic links lead in a circle;")


@pytest.mark.stress
def test_error_names_a_bad_row_in_a_large_file(tmp_path: Path) -> None:
    n, bad = 90_000_000, 83_411_226
    with pq.ParquetWriter(tmp_path / "in.parquet", pa.schema([("p_a", pa.float32()), ("p_b", pa.float32())])) as writer:
        for start in range(0, n, 1_000_000):
            half = np.full(1_000_000, 0.5, np.float32)
            other = half.copy()
            if start <= bad < start + len(half):
                other[bad - start] = np.nan
            writer.write_table(pa.table({"p_a": half, "p_b": other}))
    (tmp_path / "out.parquet").write_text("old")
    process = run_process(tmp_path, "adjust", "in.parquet", "--rates", "a=0.3,b=0.7", "--out", "out.parquet", code=1)
    assert process.stderr == "Error: row 83411226 of in.parquet, column 'p_b' is nan; probabilities must be finite\n"
    assert (tmp_path / "out.parquet").read_text() == "old"


@pytest.mark.parametrize("times", [2, pytest.param(50, marks=pytest.mark.stress)])
def test_killed_command_leaves_the_old_output_or_the_complete_new_one(
    large_input: Path, tmp_path: Path, times: int
) -> None:
    expected = (large_input / "expected.csv").read_bytes()
    arguments = command("adjust", str(large_input / "in.parquet"), "--rates", RATES, "--out", "out.csv")
    for _ in range(2):  # the first process may have to compile modules, which the others then load
        start = time.monotonic()
        subprocess.run(arguments, cwd=tmp_path, env=environment(), check=True, capture_output=True)
        duration = time.monotonic() - start
    rng = np.random.default_rng(0)
    seen = {"absent": 0, "old": 0, "new": 0}
    for i in range(times):
        out = tmp_path / "out.csv"
        out.unlink(missing_ok=True)
        if i % 2:
            out.write_text("old")
        with subprocess.Popen(arguments, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL) as process:
            time.sleep(rng.uniform(0.3, 1.05) * duration)
            process.send_signal(signal.SIGKILL)
        found = out.read_bytes() if out.exists() else None
        assert found in (None, b"old", expected), "the output is absent, old, or complete"
        seen["absent" if found is None else "old" if found == b"old" else "new"] += 1
    assert seen["absent"] + seen["old"] > 0, "the command was killed before it finished"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def frames(self) -> list[str]:
        """The successive states of the line of the progress bar."""
        return self.getvalue().split("\r")


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal that is wide enough for a whole progress bar."""
    # Not a fixture: pytest replaces sys.stderr between the setup and the call of a test.
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("LINES", "50")
    return terminal


def test_progress_bar_shows_pass_speed_and_distance_to_the_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, now = open_terminal(monkeypatch), 0.0
    monkeypatch.setattr("tqdm.std.time", lambda: now)
    with progress_bar(1e-10, quiet=False) as progress:
        progress.begin("reading", 4_000_000)
        progress.rows(4_000_000)
        progress.begin("reading", 4_000_000)
        now = 0.5
        progress.rows(1_000_000)
        progress.residual(10**-4.2)
    last = [frame for frame in terminal.frames() if frame.strip()][-1]
    assert last.startswith("pass 2, reading:  25%|")
    assert "| 00:01 left, 2.00M rows/s, log10(residual) -4.2 of -10" in last
    assert not terminal.frames()[-1].strip(), "the line is cleared"


def test_progress_bar_leaves_work_of_an_earlier_run_out_of_the_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, now = open_terminal(monkeypatch), 0.0
    monkeypatch.setattr("tqdm.std.time", lambda: now)
    with progress_bar(quiet=False, unit="tasks") as progress:
        progress.begin("adjusting", 100)
        progress.skip(60)
        now = 2.0
        progress.rows(20)
        progress.note("arrests/logistic")
    last = [frame for frame in terminal.frames() if frame.strip()][-1]
    assert last.startswith("adjusting:  80%|")
    assert "| 00:02 left, 10.00 tasks/s, arrests/logistic" in last


def test_progress_bar_shows_no_control_characters_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with progress_bar(quiet=False, unit="tasks") as progress:
        progress.begin("adjusting \x1b[2J", 10)
        progress.note("\x1b[31mred")
    assert "adjusting \\x1b[2J" in terminal.getvalue()
    assert "\\x1b[31mred" in terminal.getvalue()
    assert "\x1b[2J" not in terminal.getvalue()
    assert "\x1b[31m" not in terminal.getvalue()


@pytest.mark.parametrize("quiet", [True, False])
def test_progress_bar_shows_nothing_in_a_log_file_or_if_quiet(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    if not quiet:
        monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    with progress_bar(1e-10, quiet=quiet) as progress:
        progress.begin("reading", 10)
        progress.rows(10)
        progress.residual(0.1)
    assert terminal.getvalue() == ""


def test_progress_of_a_whole_adjustment(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with progress_bar(1e-10, quiet=False) as progress:
        br.adjust(predictions(100_000), [0.2, 0.5, 0.3], progress=progress)
    assert any(frame.startswith("pass 1, reading") for frame in terminal.frames())
    assert "log10(residual)" in terminal.getvalue()
    assert not terminal.frames()[-1].strip()
