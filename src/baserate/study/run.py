"""Run the tasks of a study in parallel, in such a way that it can be interrupted and resumed at any time.

The unit of work is a prediction set. A worker process writes the results of one prediction set atomically to one file,
a part. Prediction sets that have a part are not computed again. When all parts exist, they are merged into
``results.parquet`` and ``skipped.parquet``.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from baserate.analysis import shifts
from baserate.analysis.measures import row_losses
from baserate.errors import BadFile, BadOption, BaserateError, InfeasibleRates
from baserate.inputs.validation import quoted
from baserate.losses import Brier, Log
from baserate.progress import Progress
from baserate.study.corpus import Corpus, in_parallel
from baserate.study.findings import (
    CLOCK,
    COMPARISON,
    RESULTS,
    RUN_SUMMARIES,
    SECONDS,
    SETTINGS,
    SKIPPED,
    Findings,
    read_json,
    read_schema,
    write_json,
)
from baserate.study.reference import compare, possible_tasks, sample_tasks
from baserate.study.runs import PredictionSet, Rules, Run, RunSummary, read_run
from baserate.study.settings import digest, versions
from baserate.study.tasks import ADJUSTERS, ERRORS, Task, tasks_of
from baserate.support.atomic_files import write_atomically

MEASURES = {"brier": Brier(), "log": Log()}
"""The losses that are measured before and after adjustment."""

FORMAT = "baserate.study.1"
"""Identifies the folder of a study, and the version of its result files."""


@dataclass(frozen=True)
class Plan:
    """Everything that determines the results of a study.

    Attributes
    ----------
    corpus : Corpus
    rules : Rules
    seed : int
    kinds : tuple of str
        Names of the shifts.
    errors : tuple of float
        Errors in the stated rates.
    """

    corpus: Corpus
    rules: Rules = field(default_factory=Rules)
    seed: int = 0
    kinds: tuple[str, ...] = shifts.KINDS
    errors: tuple[float, ...] = ERRORS

    def settings(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            **self.corpus.settings(),
            "rules": asdict(self.rules),
            "study_seed": self.seed,
            "shifts": list(self.kinds),
            "errors": list(self.errors),
        }


@dataclass(frozen=True, eq=False)
class Study:
    """A study whose files are in one folder.

    Attributes
    ----------
    folder : Path
    plan : Plan
    """

    folder: Path
    plan: Plan

    def prepare(self, *, fresh: bool = False) -> None:
        """Check that the folder is unused or belongs to this study; with ``fresh``, delete earlier results."""
        path, results = self.folder / SETTINGS, self.folder / RESULTS
        if not path.exists() and results.exists():  # the results may belong to a study with other settings
            raise BadFile(f"{results} exists, but {path} does not; delete the results, or choose another --out")
        if not path.exists():
            return
        try:
            existing = read_json(path)
        except BadFile:
            raise BadFile(
                f"{path} is damaged; if {self.folder} is the folder of a study, delete this file and the results"
            ) from None
        if not isinstance(existing, dict) or existing.get("format") != FORMAT:
            raise BadFile(f"{path} does not belong to a study; choose another folder with --out")
        if fresh:
            self._delete_results()
            return
        settings = {**self._settings(), **({"versions": existing["versions"]} if results.exists() else {})}
        changed = [name for name in {**settings, **existing} if settings.get(name) != existing.get(name)]
        if changed:
            raise BadOption(
                f"{self.folder} contains a study with other settings ({', '.join(changed)}); "
                "choose another folder with --out, or delete its results with --fresh"
            )

    def _settings(self) -> dict[str, Any]:
        return {"format": FORMAT, **self.plan.settings(), "versions": versions()}

    def _delete_results(self) -> None:
        """Delete the result files of the study, and no other files."""
        self._delete_parts()
        for name in (RESULTS, SKIPPED, RUN_SUMMARIES, CLOCK, COMPARISON, SETTINGS):
            (self.folder / name).unlink(missing_ok=True)

    @property
    def parts(self) -> Path:
        """The folder for parts.

        It depends on the settings, because worker processes of a killed study may still write parts of their own.
        """
        return self.folder / f"parts-{digest(self._settings())}"

    def _delete_parts(self) -> None:
        for parts in self.folder.glob("parts-*"):
            for part in [*parts.glob("*.parquet"), *parts.glob(".*.tmp")]:
                part.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # the folder also contains other files
                parts.rmdir()

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Prevent other processes from working in the folder; the lock ends with the process, even if it is killed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            import fcntl
        except ImportError:  # not on Windows
            yield
            return
        with (self.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadOption(
                    f"another process is running a study in {self.folder}; wait for it, or choose another --out"
                ) from None
            yield

    def collect(self, jobs: int, progress: Progress) -> list[Path]:
        """Create the run files of the corpus and return their paths."""
        corpus = self.plan.corpus
        paths = corpus.collect(self.folder / "corpus" / corpus.folder_name(), jobs, progress)
        # The settings are written only now, so that a corpus that fails does not occupy the folder.
        if not (self.folder / SETTINGS).exists():
            write_json(self.folder / SETTINGS, self._settings())
        return paths

    def summaries(self, paths: Sequence[Path]) -> list[RunSummary]:
        """How much of each run the study uses."""
        return [self._read(path).summary for path in paths]

    def run(self, paths: Sequence[Path], jobs: int, progress: Progress) -> None:
        """Adjust the predictions of all tasks that have no results yet."""
        if (self.folder / RESULTS).exists():
            read_schema(self.folder / RESULTS)  # raises an error if the file is damaged
            return
        start = time.perf_counter()
        parts = self.parts
        parts.mkdir(exist_ok=True)
        runs = {path: self._read(path) for path in paths}
        part = {(path, fold): parts / f"{path.stem}-{fold}.parquet" for path, run in runs.items() for fold in run.sets}
        if not part:
            reasons = quoted(sorted({run.summary.reason for run in runs.values()}))
            raise BadFile(
                f"there are no predictions to adjust: none of the {len(paths)} runs meets the rules ({reasons})"
            )
        missing = [unit for unit in part if not _is_complete(part[unit])]
        progress.begin("adjusting", len(part))
        progress.skip(len(part) - len(missing))
        for name in in_parallel(((_adjust_set, (*unit, part[unit], self.plan)) for unit in missing), jobs):
            progress.note(name)
            progress.rows(1)
        seconds = time.perf_counter() - start if len(missing) == len(part) else None
        write_json(self.folder / CLOCK, {"seconds": seconds, "jobs": jobs})
        write_json(self.folder / RUN_SUMMARIES, [asdict(run.summary) for run in runs.values()])
        self._merge(list(part.values()))

    def compare(self, paths: Sequence[Path], size: int, progress: Progress) -> None:
        """Also solve a random sample of the tasks with the paper's solvers, and save the comparison."""
        found = Findings(self.folder)
        size = min(size, len(possible_tasks(found.frame)))
        if not size or (found.comparison and found.comparison.tasks == size):
            return
        sets = {data.name: data for path in paths for data in self._read(path).sets.values()}
        tasks = sample_tasks(found.frame, sets, self.plan.seed, size)
        write_json(self.folder / COMPARISON, asdict(compare(tasks, progress)))

    def _read(self, path: Path) -> Run:
        return read_run(path, self.plan.rules, self.plan.seed)

    def _merge(self, parts: Sequence[Path]) -> None:
        """Merge the parts into one file of results and one file of skipped tasks."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        tables = [pq.read_table(part) for part in parts]
        seconds = sum(float(table.schema.metadata[SECONDS]) for table in tables)
        table = pa.concat_tables(tables).replace_schema_metadata({SECONDS: str(seconds)})
        skipped = pc.is_valid(table["skipped"])
        if pc.all(skipped).as_py():
            causes = quoted(sorted(set(table["skipped"].to_pylist())))
            raise BadOption(f"all {len(table)} tasks are impossible: {causes}")
        (self.folder / COMPARISON).unlink(missing_ok=True)  # it belongs to earlier results
        about_task = ["set", "dataset", "model", "fold", "classes", "shift", "error", "skipped"]
        # The results are written last, because their existence means that the study is complete.
        for path, rows in (
            (self.folder / SKIPPED, table.filter(skipped).select(about_task)),
            (self.folder / RESULTS, table.filter(pc.invert(skipped)).drop_columns(["skipped"])),
        ):
            with write_atomically(path) as file:
                pq.write_table(rows, file, compression="zstd")
        self._delete_parts()


def _adjust_set(path: Path, fold: int, part: Path, plan: Plan) -> str:
    """Run all tasks of one prediction set, write the results as a part, and return the name of the set."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    start = time.perf_counter()
    data = _read_run_cached(path, plan.rules, plan.seed).sets[fold]
    try:
        rows = result_rows(data, plan)
    except BaserateError as error:
        raise BadFile(f"prediction set {data.name}: {error}") from None
    table = pa.Table.from_pylist(rows, schema=_schema())
    with write_atomically(part) as file:
        spent = {SECONDS: str(time.perf_counter() - start)}
        pq.write_table(table.replace_schema_metadata(spent), file)
    return data.name


def _is_complete(part: Path) -> bool:
    """Whether a part exists and is readable; a damaged part is computed again."""
    try:
        read_schema(part)
    except BadFile:
        return False
    return True


_read_run_cached = functools.lru_cache(maxsize=2)(read_run)  # a worker processes the folds of a run one after the other


def result_rows(data: PredictionSet, plan: Plan) -> list[dict[str, Any]]:
    """The rows of the results for one prediction set: one per task and adjuster, or one per skipped task."""
    about = {
        "set": data.name,
        "dataset": data.dataset,
        "model": data.model,
        "fold": data.fold,
        "classes": len(data.classes),
    }
    rows: list[dict[str, Any]] = []
    for task in tasks_of(data, plan.seed, plan.kinds, plan.errors):
        if isinstance(task, Task):
            rows += [{**about, **row} for row in _run_adjusters(task)]
        else:
            rows.append({**about, "shift": task.kind, "error": task.error, "skipped": task.reason})
    return rows


def _run_adjusters(task: Task) -> list[dict[str, Any]]:
    """One row of results per adjuster."""
    shifted = task.shifted
    targets = np.eye(shifted.probs.shape[1])[shifted.y]
    about = {
        "shift": shifted.kind,
        "amount": shifted.amount,
        "distance": shifted.distance,
        "rows": len(shifted.y),
        "error": task.error,
    }
    before = {name: float(row_losses(loss, shifted.probs, targets).mean()) for name, loss in MEASURES.items()}
    rows = []
    for adjuster, run in ADJUSTERS.items():
        start = time.perf_counter()
        row: dict[str, Any] = {**about, "adjuster": adjuster}
        try:
            answer = run(task)
        except InfeasibleRates:  # only possible if the rules allow hard zeros
            rows.append({**row, "impossible": "hard zeros", "converged": False, "seconds": time.perf_counter() - start})
            rows[-1] |= {f"{name}_before": before[name] for name in MEASURES}
            continue
        row |= {"seconds": time.perf_counter() - start, "passes": answer.n_passes, "converged": answer.converged}
        row["guaranteed"] = answer.certificate.loss_reduction
        for name, loss in MEASURES.items():
            after = float(row_losses(loss, answer.probs, targets).mean())
            row |= {f"{name}_before": before[name], f"{name}_after": after}
            if 0 < before[name] < np.inf:
                row[f"{name}_reduction"] = (before[name] - after) / before[name]
        rows.append(row)
    return rows


def _schema() -> Any:
    import pyarrow as pa

    text, integer, number = pa.string(), pa.int32(), pa.float64()
    columns = {
        "set": text,
        "dataset": text,
        "model": text,
        "fold": integer,
        "classes": integer,
        "shift": text,
        "amount": number,
        "distance": number,
        "rows": integer,
        "error": number,
        "adjuster": text,
        **{f"{name}_{what}": number for name in MEASURES for what in ("before", "after", "reduction")},
        "guaranteed": number,
        "converged": pa.bool_(),
        "passes": integer,
        "seconds": number,
        "impossible": text,
        "skipped": text,
    }
    return pa.schema(list(columns.items()))
