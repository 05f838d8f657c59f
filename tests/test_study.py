"""The study: its tasks, reproducible results, and resuming after an interruption."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from study_support import SMALL, make_plan, predictions, run_study, same_results

from baserate.errors import BadFile, BadOption
from baserate.progress import SILENT
from baserate.study.findings import Findings
from baserate.study.own import OwnFiles
from baserate.study.run import Plan, Study, _adjust_set, result_rows
from baserate.study.runs import PredictionSet, Rules
from baserate.study.tables import n_tasks
from baserate.study.tasks import ADJUSTERS, ERRORS, Skipped, Task, tasks_of


def test_every_combination_of_shift_and_error_is_a_task_or_skipped(one_set: PredictionSet) -> None:
    made = list(tasks_of(one_set, seed=0))
    assert len(made) == 4 * 9
    kinds = [task.shifted.kind if isinstance(task, Task) else task.kind for task in made]
    assert [kinds.count(kind) for kind in ("prior", "concept", "covariate", "combined")] == [9] * 4
    no_features = PredictionSet(**{**vars(one_set), "features": np.empty((200, 0))})
    skipped = [task for task in tasks_of(no_features, seed=0) if isinstance(task, Skipped)]
    reasons = {(task.kind, task.reason) for task in skipped}
    assert {("covariate", "no numeric feature varies"), ("combined", "no numeric feature varies")} <= reasons


def test_tasks_contain_the_rows_and_labels_that_remain_after_the_shift(one_set: PredictionSet) -> None:
    rows = {tuple(row) for row in one_set.probs}
    for task in tasks_of(one_set, seed=0):
        if isinstance(task, Skipped):
            continue
        shifted = task.shifted
        assert 0.1 <= shifted.amount <= 0.5
        assert {tuple(row) for row in shifted.probs} <= rows
        assert shifted.rates == pytest.approx(np.bincount(shifted.y, minlength=3) / len(shifted.y))
        off = task.stated - shifted.rates
        assert off[shifted.majority] == pytest.approx(task.error, abs=1e-12)
        assert task.width == pytest.approx(np.abs(off), abs=1e-15)
        assert task.stated.sum() == pytest.approx(1)


def test_amounts_differ_between_shifts_and_sets_and_depend_on_the_seed(one_set: PredictionSet) -> None:
    other = PredictionSet(**{**vars(one_set), "name": "d/m/other"})

    def amounts(data: PredictionSet, seed: int) -> list[float]:
        return [task.shifted.amount for task in tasks_of(data, seed, errors=(0.0,)) if isinstance(task, Task)]

    assert amounts(one_set, 0) == amounts(one_set, 0)
    assert len({*amounts(one_set, 0), *amounts(one_set, 1), *amounts(other, 0)}) >= 10


@pytest.mark.parametrize("loss", ["brier", "log"])
def test_rate_sets_of_tasks_contain_the_true_rates(one_set: PredictionSet, loss: str) -> None:
    for task in tasks_of(one_set, seed=0):
        if isinstance(task, Task):
            bounds = ADJUSTERS[f"set-{loss}"](task).certificate.bounds
            assert bounds is not None
            low, high = bounds
            assert (low <= task.shifted.rates + 1e-15).all()
            assert (task.shifted.rates <= high + 1e-15).all()


def test_results_agree_with_losses_computed_by_hand(one_set: PredictionSet, tmp_path: Path) -> None:
    """The formulas: -log of the probability of the true class, and its squared distance from the one-hot label."""
    file = tmp_path / "x.parquet"
    predictions(1).to_parquet(file)
    rows = iter(result_rows(one_set, make_plan(file)))
    checked = 0
    for task in tasks_of(one_set, seed=0):
        if isinstance(task, Skipped):
            assert next(rows)["skipped"] == task.reason
            continue
        p, y, k = task.shifted.probs, task.shifted.y, 3
        for name, adjuster in ADJUSTERS.items():
            row, a = next(rows), adjuster(task).probs
            assert (row["adjuster"], row["shift"], row["error"]) == (name, task.shifted.kind, task.error)
            before, after = (np.mean([((q[i] - np.eye(k)[y[i]]) ** 2).sum() for i in range(len(y))]) for q in (p, a))
            assert [row["brier_before"], row["brier_after"]] == pytest.approx([before, after], abs=1e-14)
            assert row["brier_reduction"] == pytest.approx(1 - after / before, abs=1e-13)
            if (a < 0).any():
                assert np.isnan(row["log_after"])
            else:
                with np.errstate(divide="ignore"):
                    assert row["log_after"] == pytest.approx(-np.log(a[np.arange(len(y)), y]).mean())
            checked += 1
    assert checked > 100
    assert next(rows, None) is None


def test_results_have_one_row_per_task_and_adjuster(findings: Findings) -> None:
    frame = findings.frame
    skipped = pd.read_parquet(findings.folder / "skipped.parquet")
    assert n_tasks(frame) + len(skipped) == 6 * 4 * 9
    assert len(frame) == n_tasks(frame) * len(ADJUSTERS)
    assert not frame.duplicated(["set", "shift", "error", "adjuster"]).any()
    assert set(frame["error"]) <= set(ERRORS)
    assert (frame["seconds"] > 0).all()
    assert not list(findings.folder.glob("parts-*"))


def test_results_do_not_depend_on_the_number_of_processes(tiny_study: Study, tmp_path: Path) -> None:
    other = Study(tmp_path / "out", tiny_study.plan)
    run_study(other, jobs=2)
    for name in ("results.parquet", "skipped.parquet"):
        if name == "results.parquet":
            assert same_results(other.folder / name, tiny_study.folder / name)
        else:
            assert pd.read_parquet(other.folder / name).equals(pd.read_parquet(tiny_study.folder / name))


def test_another_seed_gives_other_results(tiny_study: Study, tmp_path: Path) -> None:
    other = Study(tmp_path / "out", replace(tiny_study.plan, seed=1))
    run_study(other)
    assert not same_results(other.folder / "results.parquet", tiny_study.folder / "results.parquet")


def number_of_parts(folder: Path) -> int:
    return len(list(folder.glob("parts-*/*.parquet")))


def wait_for_parts(folder: Path, number: int) -> None:
    deadline = time.monotonic() + 120
    while number_of_parts(folder) < number and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
def test_sigterm_and_a_killed_worker_end_the_study_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", "off")  # workers that do not load them start faster
    predictions(16).to_parquet(tmp_path / "mine.parquet")
    options = ["--predictions", str(tmp_path / "mine.parquet"), "--fold", "fold", "--min-rows", "40", "--jobs", "2"]
    command = [sys.executable, "-m", "baserate", "study", "run", "--out", str(tmp_path / "out"), *options]
    for name, message in (("SIGTERM", "run the same command again to resume"), ("kill", "a worker process was killed")):
        wanted = number_of_parts(tmp_path / "out") + 1  # so that the workers of this run are at work
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_for_parts(tmp_path / "out", wanted)
        if name == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            os.kill(busiest_child(process.pid), signal.SIGKILL)
        stderr = process.communicate(timeout=60)[1]
        assert process.returncode == (128 + signal.SIGTERM if name == "SIGTERM" else 1)
        assert message in stderr
        assert "Traceback" not in stderr
    assert not (tmp_path / "out" / "results.parquet").exists()


def busiest_child(pid: int) -> int:
    """The child process with the most CPU time: a worker, and not joblib's resource tracker."""
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) == pid:
                children.append((int(fields[11]) + int(fields[12]), int(stat.parent.name)))
    return max(children)[1]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
@pytest.mark.parametrize(("folds", "kills"), [(8, [1]), pytest.param(24, [1, 9], marks=pytest.mark.stress)])
def test_killed_study_resumes_without_lost_or_repeated_tasks(
    tmp_path: Path, folds: int, kills: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", "off")  # workers that do not load them start faster
    file = tmp_path / "mine.parquet"
    predictions(folds).to_parquet(file)
    options = ["--predictions", str(file), "--fold", "fold", "--min-rows", "40", "--max-rows", "60", "--jobs", "2"]
    command = [sys.executable, "-m", "baserate", "study", "run", "--out", str(tmp_path / "out"), *options]
    for parts_before_kill in kills:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_parts(tmp_path / "out", parts_before_kill)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it was still running"
        assert not (tmp_path / "out" / "results.parquet").exists()
    subprocess.run(command, check=True, capture_output=True)
    whole = Study(tmp_path / "whole", make_plan(file))
    run_study(whole)
    assert same_results(tmp_path / "out" / "results.parquet", tmp_path / "whole" / "results.parquet")
    clock = json.loads((tmp_path / "out" / "clock.json").read_text())
    assert clock["seconds"] is None, "the time of the killed runs is unknown, so no total is reported"


def test_finished_parts_are_not_computed_again(
    tiny_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from baserate.study import run as module

    work, calls = Study(tmp_path / "out", tiny_study.plan), []
    real = module.result_rows

    def counted(data: PredictionSet, plan: Plan) -> Any:
        calls.append(data.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(data, plan)

    monkeypatch.setattr(module, "result_rows", counted)
    with pytest.raises(KeyboardInterrupt):
        run_study(work)
    run_study(work)
    assert sorted(calls) == sorted([*(f"mine/mine/{fold}" for fold in range(3)), "mine/mine/1"])
    assert same_results(work.folder / "results.parquet", tiny_study.folder / "results.parquet")


def test_fresh_deletes_only_files_of_a_study(tiny_study: Study, tmp_path: Path) -> None:
    work = Study(tmp_path, tiny_study.plan)
    (tmp_path / "settings.json").write_text('{"mine": 1}')
    (tmp_path / "parts-of-mine").mkdir()
    (tmp_path / "parts-of-mine" / "precious").write_text("keep me")
    for fresh in (False, True):
        with pytest.raises(BadFile, match=r"settings.json does not belong to a study; choose another folder"):
            work.prepare(fresh=fresh)
    assert json.loads((tmp_path / "settings.json").read_text()) == {"mine": 1}
    (tmp_path / "settings.json").unlink()
    shutil.copytree(tiny_study.folder, tmp_path, dirs_exist_ok=True)
    work.prepare(fresh=True)
    assert (tmp_path / "parts-of-mine" / "precious").read_text() == "keep me"
    assert not (tmp_path / "results.parquet").exists()


def test_results_without_their_settings_are_rejected(tiny_study: Study, tmp_path: Path) -> None:
    """Otherwise a user who deletes damaged settings would get old results for new settings."""
    work = Study(tmp_path / "out", replace(tiny_study.plan, seed=1))
    shutil.copytree(tiny_study.folder, work.folder)
    (work.folder / "settings.json").unlink()
    for fresh in (False, True):
        with pytest.raises(BadFile, match=r"results\.parquet exists, but .*settings\.json does not"):
            work.prepare(fresh=fresh)
    (work.folder / "results.parquet").unlink()
    (work.folder / "comparison.json").write_text('{"of": "old results"}')
    assert run_study(work).comparison is None


def test_failed_first_attempt_does_not_occupy_the_folder(tmp_path: Path) -> None:
    predictions(1).to_parquet(tmp_path / "mine.parquet")
    out = tmp_path / "out"
    wrong = Study(out, Plan(OwnFiles((str(tmp_path / "mine.parquet"),), label="nope", fold="fold"), SMALL))
    with pytest.raises(BadFile, match="has no column 'nope'"):
        run_study(wrong)
    assert n_tasks(run_study(Study(out, make_plan(tmp_path / "mine.parquet", errors=(0.0,)))).frame) > 0


def test_study_is_not_resumed_with_other_package_versions(tiny_study: Study, tmp_path: Path) -> None:
    work = Study(tmp_path / "out", tiny_study.plan)
    shutil.copytree(tiny_study.folder, work.folder)
    note = tmp_path / "out" / "settings.json"
    older = json.loads(note.read_text())
    older["versions"]["numpy"] = "0.1"
    note.write_text(json.dumps(older))
    work.prepare()
    (tmp_path / "out" / "results.parquet").unlink()
    with pytest.raises(BadOption, match=r"other settings \(versions\)"):
        work.prepare()


def test_two_processes_cannot_run_a_study_in_one_folder(study: Study) -> None:
    pytest.importorskip("fcntl")
    with study.lock(), pytest.raises(BadOption, match="another process is running a study"), study.lock():
        pass
    with study.lock():
        pass


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("settings.json", b"{bad", "settings.json is damaged"),
        ("settings.json", b"[]", "settings.json does not belong to a study"),
        ("results.parquet", b"PAR1", "results.parquet is damaged"),
        ("skipped.parquet", b"", "skipped.parquet is damaged"),
        ("skipped.parquet", None, "skipped.parquet is missing"),
        ("corpus.json", None, "corpus.json is missing"),
        ("comparison.json", b'{"a": 1}', "comparison.json is damaged"),
        ("clock.json", b"x", "clock.json is damaged"),
    ],
)
def test_messages_name_damaged_files(
    study: Study, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    work = Study(tmp_path / "out", study.plan)
    shutil.copytree(study.folder, work.folder)
    (work.folder / name).unlink(missing_ok=True)
    if content is not None:
        (work.folder / name).write_bytes(content)
    with pytest.raises(BadFile, match=message):
        run_study(work).write_pages(tmp_path / "pages")


def test_damaged_part_is_computed_again(tiny_study: Study, tmp_path: Path) -> None:
    work = Study(tmp_path / "out", tiny_study.plan)
    work.parts.mkdir(parents=True)
    (work.parts / "mine-1.parquet").write_bytes(b"")
    run_study(work)
    assert same_results(work.folder / "results.parquet", tiny_study.folder / "results.parquet")


def test_parts_of_another_study_are_ignored(tiny_study: Study, tmp_path: Path) -> None:
    """Workers of a killed study may write parts after a new study has started in the same folder."""
    work = Study(tmp_path / "out", tiny_study.plan)
    other = Study(tmp_path / "out", replace(tiny_study.plan, seed=1))
    assert work.parts != other.parts
    paths = other.collect(1, SILENT)
    other.parts.mkdir()
    for fold in range(3):
        _adjust_set(paths[0], fold, other.parts / f"mine-{fold}.parquet", other.plan)
    (tmp_path / "out" / "settings.json").unlink()
    run_study(work)
    assert same_results(work.folder / "results.parquet", tiny_study.folder / "results.parquet")


@pytest.mark.parametrize("labels", [["a"] * 60, ["a", "b"] * 30])
def test_study_without_possible_tasks_states_the_reason(tmp_path: Path, labels: list[str]) -> None:
    pd.DataFrame({"y": labels, "p_a": 0.6, "p_b": 0.4}).to_parquet(tmp_path / "mine.parquet")
    work = Study(tmp_path / "out", Plan(OwnFiles((str(tmp_path / "mine.parquet"),)), SMALL))
    reason = r"all 36 tasks are impossible: .*no minority class|a class does not occur"
    with pytest.raises(ValueError, match=reason):
        run_study(work)
    assert not (work.folder / "results.parquet").exists()


def test_hard_scores_are_used_if_the_rules_allow_them(tmp_path: Path, figures_not_saved: None) -> None:
    """Hard scores make some rates impossible and some losses infinite. Such tasks do not count for any claim."""
    frame = predictions(1, rows=300)
    hard = frame[["p_a", "p_b", "p_c"]].to_numpy()
    hard[:, 2] = np.where((hard[:, 2] < 0.2) & (frame["y"] != "c"), 0.0, hard[:, 2])
    hard[5] = [1.0, 0.0, 0.0] if frame["y"][5] != "a" else [0.0, 1.0, 0.0]  # certain and wrong: infinite log loss
    hard /= hard.sum(axis=1, keepdims=True)
    frame.assign(p_a=hard[:, 0], p_b=hard[:, 1], p_c=hard[:, 2]).to_parquet(tmp_path / "mine.parquet")
    rules = Rules(50, 500, hard_scores=True)
    found = run_study(Study(tmp_path / "out", Plan(OwnFiles((str(tmp_path / "mine.parquet"),), fold="fold"), rules)))
    results = found.frame
    assert np.isinf(results["log_before"]).any()
    assert results.loc[np.isinf(results["log_before"]), "log_reduction"].isna().all()
    assert (results["impossible"].dropna() == "hard zeros").all()
    assert all(claim.holds is not False for claim in found.claims if claim.paper.startswith("guaranteed"))
    found.write_pages(tmp_path / "pages")
    assert "nan" not in (tmp_path / "pages" / "README.md").read_text()


def test_perfect_predictions_have_no_relative_reduction(tmp_path: Path) -> None:
    y = np.repeat(["a", "b"], [180, 120])
    frame = pd.DataFrame({"y": y, "p_a": (y == "a") * 1.0, "p_b": (y == "b") * 1.0, "x": np.arange(300.0)})
    frame.to_parquet(tmp_path / "mine.parquet")
    plan = Plan(OwnFiles((str(tmp_path / "mine.parquet"),)), Rules(50, 500, hard_scores=True), errors=(0.0,))
    results = run_study(Study(tmp_path / "out", plan)).frame
    assert results.loc[results["brier_before"] == 0, "brier_reduction"].isna().all()
    assert results["impossible"].notna().any(), "the hard zeros allow only one vector of rates"


def test_folder_of_another_study_is_rejected_unless_fresh(tiny_study: Study, tmp_path: Path) -> None:
    other = Study(tiny_study.folder, replace(tiny_study.plan, seed=7))
    with pytest.raises(BadOption, match=r"other settings \(study_seed\); choose another folder"):
        other.prepare()
    work = Study(tmp_path / "out", tiny_study.plan)
    shutil.copytree(tiny_study.folder, work.folder)
    again = Study(tmp_path / "out", other.plan)
    again.prepare(fresh=True)
    assert not (tmp_path / "out" / "results.parquet").exists()
    assert list((tmp_path / "out" / "corpus").rglob("*.parquet")), "predictions are kept"


def test_study_without_usable_predictions_states_the_reason(tmp_path: Path) -> None:
    predictions(2).to_parquet(tmp_path / "mine.parquet")
    work = Study(tmp_path / "out", Plan(OwnFiles((str(tmp_path / "mine.parquet"),), fold="fold")))
    work.prepare()
    with pytest.raises(BadFile, match=r"none of the 1 runs meets the rules .*fewer than 500 rows"):
        work.run(work.collect(1, SILENT), 1, SILENT)
