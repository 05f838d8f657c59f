"""The commands as people meet them: a real process, its output, its exit code, and what it leaves behind."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import baserate as br
from baserate.cli.progress_bar import progress_bar

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
    # As a user has it: small files wait for no kernels.
    return {k: v for k, v in os.environ.items() if k != "BASERATE_KERNELS"} | more


def run(folder: Path, *arguments: str, code: int = 0, **options: Any) -> Any:
    options = {"text": True, "capture_output": True, "env": environment(), "timeout": 60} | options
    done = subprocess.run(command(*arguments), cwd=folder, check=False, **options)
    assert done.returncode == code, done.stderr
    return done


def adjusted(rates: Any = (0.2, 0.5, 0.3), **options: Any) -> np.ndarray:
    return br.adjust(predictions(), np.array(rates), **options).probs


def matrix(rows: pa.Table) -> np.ndarray:
    return np.column_stack([rows.column(name).to_numpy() for name in COLUMNS])


def test_adjust_and_what_it_says(folder: Path) -> None:
    arguments = ("--save-shift", "shift.json", "--report", "report.html")
    done = run(folder, "adjust", "in.csv", "--rates", RATES, "--out", "out.csv", *arguments)
    assert "Bounded adjustment for Log(): 60 rows, 3 classes" in done.stdout
    assert "wrote out.csv, shift.json, report.html in " in done.stdout
    assert "\x1b" not in done.stdout + done.stderr, "no colours and no bars where nobody looks"
    assert not done.stderr
    np.testing.assert_allclose(matrix(pa.csv.read_csv(folder / "out.csv")), adjusted(), atol=1e-12)
    page = (folder / "report.html").read_text()
    assert "The mean log loss of these rows falls by at least" in page
    assert "adjust in.csv --rates cat=0.2,dog=0.5,owl=0.3" in page
    shift = br.load(folder / "shift.json")
    np.testing.assert_allclose(shift.apply(predictions()), adjusted(), atol=1e-12)


def test_adjust_for_scripts(folder: Path) -> None:
    options = ("--loss", "brier", "--unbounded", "--columns", "p_*", "--json")
    done = run(folder, "adjust", "in.parquet", "--rates", "0.2,0.5,0.3", "--out", "out", *options)
    known = br.adjust(predictions(), [0.2, 0.5, 0.3], loss="brier", bounded=False)
    found = json.loads(done.stdout)
    assert (found["rows"], found["converged"], found["out"]) == (60, True, "out")
    assert found["loss_reduction"] == pytest.approx(known.certificate.loss_reduction, abs=1e-12)
    assert [one["class"] for one in found["classes"]] == ["cat", "dog", "owl"]
    np.testing.assert_allclose([one["shift"] for one in found["classes"]], known.shift, atol=1e-12)
    np.testing.assert_allclose(matrix(pq.read_table(folder / "out" / "in.parquet")), known.probs, atol=1e-12)
    quiet = run(folder, "adjust", "in.csv", "--rates", RATES, "--out", "o.csv", "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("", "")


def test_rates_in_every_form(folder: Path) -> None:
    (folder / "rates.csv").write_text("class,rate\ndog,0.5\ncat,0.2\nowl,30%\n")
    (folder / "bounds.json").write_text('{"dog": [0.55, 0.6]}')
    for said, known in (
        ("rates.csv", [0.2, 0.5, 0.3]),
        ("bounds.json", br.Rates.between([None, 0.55, None], [None, 0.6, None])),
        ("counts:cat=20,dog=50,owl=30", br.Rates.from_counts([20, 50, 30], 0.9)),
    ):
        found = json.loads(run(folder, "fit", "in.csv", "--rates", said, "--confidence", "0.9", "--json").stdout)
        shift = br.adjust(predictions(), known).shift
        np.testing.assert_allclose([one["shift"] for one in found["classes"]], shift, atol=1e-9)


def test_fit_apply_and_prior(folder: Path) -> None:
    fitted = run(folder, "fit", "in.parquet", "--rates", RATES, "--save-shift", "shift.json")
    assert "converged in" in fitted.stdout
    assert sorted(p.name for p in folder.iterdir()) == ["in.csv", "in.parquet", "shift.json"]
    applied = run(folder, "apply", "in.csv", "--shift", "shift.json", "--out", "out.parquet")
    assert applied.stdout == "wrote out.parquet\n"
    np.testing.assert_allclose(matrix(pq.read_table(folder / "out.parquet")), adjusted(), atol=1e-12)
    old = "cat=0.5,dog=0.25,owl=0.25"
    done = run(folder, "prior", "in.csv", "--old-rates", old, "--rates", RATES, "--out", "ppa.feather")
    assert "Prior probability adjustment: 60 rows, 3 classes" in done.stdout
    known = br.prior_adjust(predictions(), [0.5, 0.25, 0.25], [0.2, 0.5, 0.3]).probs
    np.testing.assert_allclose(matrix(pa.feather.read_table(folder / "ppa.feather")), known, atol=1e-12)


def test_pipes(folder: Path) -> None:
    text = (folder / "in.csv").read_bytes()
    through = run(folder, "adjust", "-", "--rates", RATES, "--out", "-", input=text, text=False)
    np.testing.assert_allclose(matrix(pa.csv.read_csv(io.BytesIO(through.stdout))), adjusted(), atol=1e-12)
    assert b"Bounded adjustment" in through.stderr
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table(predictions()).schema) as out:
        out.write_table(table(predictions()))
    arrow = sink.getvalue().to_pybytes()
    through = run(folder, "adjust", "-", "--rates", RATES, "--out", "-", "--quiet", input=arrow, text=False)
    np.testing.assert_allclose(matrix(pa.ipc.open_stream(through.stdout).read_all()), adjusted(), atol=1e-12)
    parquet = (folder / "in.parquet").read_bytes()
    through = run(folder, "fit", "-", "--rates", RATES, "--json", input=parquet, text=False)
    assert json.loads(through.stdout)["rows"] == 60
    # Who reads the output may have had enough.
    arguments = command("adjust", "in.csv", "--rates", RATES, "--out", "-", "--format", "arrow", "--quiet")
    with subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_check_counts_what_is_wrong(folder: Path) -> None:
    fine = run(folder, "check", "in.csv", "--rates", RATES)
    assert "all rows can be used" in fine.stdout
    assert "Adjustment would give:\nBounded adjustment for Log(): 60 rows" in fine.stdout
    p = predictions()
    p[[7, 9], 1], p[11, 0], p[13] = np.nan, -0.25, [0.5, 0.5, 0.5]
    p[20] = [0.0, 1.0, 0.0]
    pq.write_table(table(p), folder / "bad.parquet")
    done = run(folder, "check", "bad.parquet", "--columns", "p_*", code=1)
    assert "2 rows with missing or infinite entries, the first at row 7 of bad.parquet, column 'p_dog'" in done.stdout
    assert "1 row with negative entries, the first at row 11 of bad.parquet, column 'p_cat'" in done.stdout
    assert "1 row with a sum other than 1, the first at row 13 of bad.parquet; pass --normalize" in done.stdout
    assert "2 entries are exactly 0" in done.stdout
    assert "cannot be adjusted as they are" in done.stdout
    found = json.loads(run(folder, "check", "bad.parquet", "--columns", "p_*", "--json", code=1).stdout)
    assert [fault["n_rows"] for fault in found["faults"]] == [2, 1, 1]
    good = np.delete(p, [7, 9, 11, 13], axis=0)
    np.testing.assert_allclose(found["mean"], good.mean(axis=0), atol=1e-12)


def test_bench_study_demo_version_and_help(folder: Path) -> None:
    figures = json.loads(run(folder, "bench", "--rows", "2000", "--repeats", "1", "--json").stdout)
    assert (figures["rows"], figures["classes"]) == (2000, 10)
    assert "a scan takes (ms)" in run(folder, "bench", "in.parquet", "--columns", "p_*", "--repeats", "1").stdout
    assert "there are no results in" in run(folder, "study", "claims", code=1).stderr
    assert "The guarantee promised a log loss lower by at least" in run(folder, "demo").stdout
    assert (folder / "baserate-demo.html").exists()
    assert run(folder, "--version").stdout == f"baserate, version {br.__version__}\n"
    helped = run(folder, "adjust", "--help").stdout
    assert "Examples:" in helped
    assert "Exit codes:" in helped
    listed = run(folder, "--help").stdout
    names = ["adjust", "apply", "bench", "check", "demo", "fit", "prior", "study"]
    assert all(f"  {name} " in listed for name in names)
    complete = subprocess.run(
        [str(Path(sys.executable).with_name("baserate"))],
        env=environment(_BASERATE_COMPLETE="bash_complete", COMP_WORDS="baserate ad", COMP_CWORD="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert complete.stdout == "plain,adjust\n"


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
        (("in.csv", "--rates", RATES, "--zeros", "2"), 1, "zeros must be 'keep' or a number between 0 and 1"),
        (("in.csv", "--rates", RATES, "--tol", "0"), 1, "tol must be a number between 0 and 1"),
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
def test_mistakes_end_in_one_line_and_an_exit_code(folder: Path, arguments: Any, code: int, message: str) -> None:
    (folder / "semicolons.csv").write_text("p_cat;p_dog;p_owl\n0.2;0.3;0.5\n")
    (folder / "off.csv").write_text("a,b\n0.2,0.3\n")
    before = sorted(path.name for path in folder.iterdir())
    done = run(folder, "adjust", *arguments, "--out", "out.csv", code=code)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout
    assert sorted(path.name for path in folder.iterdir()) == before


def test_places_that_are_named_twice(folder: Path) -> None:
    before = (folder / "in.csv").read_bytes()
    for arguments in (("--save-shift", "in.csv"), ("--save-shift", "./x.html", "--report", "x.html")):
        done = run(folder, "fit", "in.csv", "--rates", RATES, *arguments, code=1)
        assert "is named twice" in done.stderr
    (folder / "old.csv").write_text("class,rate\ncat,0.5\ndog,0.25\nowl,0.25\n")
    prior = ("prior", "in.csv", "--old-rates", "old.csv", "--rates", RATES, "--out", "o.csv", "--save-shift", "old.csv")
    assert "is named twice" in run(folder, *prior, code=1).stderr
    assert (folder / "in.csv").read_bytes() == before


def test_what_is_said_if_only_the_summary_fails(folder: Path) -> None:
    arguments = command("adjust", "in.csv", "--rates", RATES, "--out", "out.csv")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(arguments, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "No space left on device; but out.csv is written, and complete" in done.stderr
    (folder / "out.csv").unlink()
    with subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
    assert process.returncode == 0
    assert (folder / "out.csv").exists()


def test_check_looks_at_probabilities(folder: Path) -> None:
    (folder / "raw.csv").write_text("a,b\n10,30\n1,1\n")
    found = json.loads(run(folder, "check", "raw.csv", "--columns", "a,b", "--normalize", "--json").stdout)
    np.testing.assert_allclose(found["mean"], [0.375, 0.625])
    (folder / "logits.csv").write_text("a,b\n0,0\n0,1\n")
    found = json.loads(run(folder, "check", "logits.csv", "--columns", "a,b", "--from-logits", "--json").stdout)
    assert (found["zeros"], found["mean"][0]) == (0, pytest.approx((0.5 + 1 / (1 + np.e)) / 2))


def test_a_tolerance_that_is_not_reached_has_an_exit_code_of_its_own(folder: Path) -> None:
    done = run(folder, "adjust", "in.csv", "--rates", RATES, "--out", "out.csv", "--max-passes", "1", code=3)
    assert "Warning: stopped after 1 pass with the rates off by" in done.stderr
    assert "raise --max-passes or --tol" in done.stderr
    assert (folder / "out.csv").exists()


def test_a_disk_that_is_full(folder: Path) -> None:
    (folder / "out.csv").write_text("old")
    (folder / "twins").mkdir()
    limit = 1000  # bytes of the largest file that may be written
    for out in ("out.csv", "twins"):
        done = run(
            folder,
            *("adjust", "in.parquet", "--rates", RATES, "--out", out),
            code=1,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        assert "File too large; nothing was written, and anything at OUT is as it was" in done.stderr
        assert "Traceback" not in done.stderr
    assert (folder / "out.csv").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == ["in.csv", "in.parquet", "out.csv", "twins"]
    assert not list((folder / "twins").iterdir())


@pytest.fixture(scope="module")
def much(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows that take a while to write, and what they should become."""
    folder = tmp_path_factory.mktemp("much")
    pq.write_table(table(predictions(200_000, seed=3)), folder / "in.parquet", row_group_size=5_000)
    run(folder, "adjust", "in.parquet", "--rates", RATES, "--out", "right.csv")
    return folder


def staged(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
@pytest.mark.parametrize("out", ["out.csv", "twins"])
def test_a_signal_leaves_no_half_file_and_says_so(much: Path, number: int, name: str, out: str) -> None:
    arguments = command("adjust", "in.parquet", "--rates", RATES, "--out", out)
    with subprocess.Popen(arguments, cwd=much, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        while not staged(much):
            assert process.poll() is None, "it ended before it began to write"
            time.sleep(0.001)
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert told == f"Error: stopped by {name}; nothing was written, and anything at OUT is as it was\n"
    assert sorted(path.name for path in much.iterdir()) == ["in.parquet", "right.csv"]


@pytest.mark.stress
def test_a_bad_row_far_down_is_named(tmp_path: Path) -> None:
    n, bad = 90_000_000, 83_411_226
    with pq.ParquetWriter(tmp_path / "in.parquet", pa.schema([("p_a", pa.float32()), ("p_b", pa.float32())])) as writer:
        for start in range(0, n, 1_000_000):
            half = np.full(1_000_000, 0.5, np.float32)
            other = half.copy()
            if start <= bad < start + len(half):
                other[bad - start] = np.nan
            writer.write_table(pa.table({"p_a": half, "p_b": other}))
    (tmp_path / "out.parquet").write_text("old")
    done = run(tmp_path, "adjust", "in.parquet", "--rates", "a=0.3,b=0.7", "--out", "out.parquet", code=1)
    assert done.stderr == "Error: row 83411226 of in.parquet, column 'p_b' is nan; probabilities must be finite\n"
    assert (tmp_path / "out.parquet").read_text() == "old"


@pytest.mark.parametrize("times", [4, pytest.param(50, marks=pytest.mark.stress)])
def test_kill_at_any_moment_leaves_nothing_or_all(much: Path, tmp_path: Path, times: int) -> None:
    right = (much / "right.csv").read_bytes()
    arguments = command("adjust", str(much / "in.parquet"), "--rates", RATES, "--out", "out.csv")
    began = time.monotonic()
    subprocess.run(arguments, cwd=tmp_path, env=environment(), check=True, capture_output=True)
    whole = time.monotonic() - began
    rng = np.random.default_rng(0)
    seen = {"absent": 0, "old": 0, "right": 0}
    for i in range(times):
        out = tmp_path / "out.csv"
        out.unlink(missing_ok=True)
        if i % 2:
            out.write_text("old")
        with subprocess.Popen(arguments, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL) as process:
            time.sleep(rng.uniform(0.3, 1.05) * whole)
            process.send_signal(signal.SIGKILL)
        found = out.read_bytes() if out.exists() else None
        assert found in (None, b"old", right), "absent or complete, and never anything else"
        seen["absent" if found is None else "old" if found == b"old" else "right"] += 1
    assert seen["absent"] + seen["old"] > 0, "it was killed in time"


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
