"""Run the tasks of a study on all cores, so that it can be stopped at any moment and resumed.

The unit of work is a prediction set. A worker writes the rows of its unit as one part, which appears when it is
complete; what has a part is done. When all parts are there they become ``results.parquet`` and ``skipped.parquet``.
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
from baserate.analysis.compare import row_losses
from baserate.errors import BadFile, BadOption, BaserateError, InfeasibleRates
from baserate.inputs.validation import listed
from baserate.losses import Brier, Log
from baserate.passes.numba_passes import prepare
from baserate.progress import Progress
from baserate.study.corpus import Corpus, in_parallel
from baserate.study.findings import (
    ACCOUNTS,
    CLOCK,
    COMPARISON,
    RESULTS,
    SECONDS,
    SETTINGS,
    SKIPPED,
    Findings,
    read_note,
    schema_of,
    write_note,
)
from baserate.study.reference import compare, possible_tasks, sample_tasks
from baserate.study.runs import Account, PredictionSet, Rules, Run, read_run
from baserate.study.settings import digest, versions
from baserate.study.tasks import ADJUSTERS, ERRORS, Task, tasks_of
from baserate.support.atomic_files import whole

MEASURES = {"brier": Brier(), "log": Log()}
"""The losses that are measured before and after."""

FORMAT = "baserate.study.1"
"""Says that a folder is a study's, and which version of the results is in it."""


@dataclass(frozen=True)
class Plan:
    """Everything that determines the results of a study.

    Attributes
    ----------
    corpus : Corpus
    rules : Rules
    seed : int
    kinds : tuple of str
        Shifts.
    errors : tuple of float
        Errors in the rates.
    """

    corpus: Corpus
    rules: Rules = field(default_factory=Rules)
    seed: int = 0
    kinds: tuple[str, ...] = shifts.KINDS
    errors: tuple[float, ...] = ERRORS

    def settings(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            **self.corpus.settings(),
            "rules": asdict(self.rules),
            "study_seed": self.seed,
            "shifts": list(self.kinds),
            "errors": list(self.errors),
        }


@dataclass(frozen=True, eq=False)
class Study:
    """A study in a folder.

    Attributes
    ----------
    folder : Path
    plan : Plan
    """

    folder: Path
    plan: Plan

    def begin(self, *, fresh: bool = False) -> None:
        """See that the folder is free for this study, or this study's already; ``fresh`` throws away its results."""
        note, results = self.folder / SETTINGS, self.folder / RESULTS
        if not note.exists() and results.exists():  # of which study nobody can tell
            raise BadFile(f"{results} is there, but {note} is not; delete the results, or choose another --out")
        if not note.exists():
            return
        try:
            there = read_note(note)
        except BadFile:
            raise BadFile(
                f"{note} is damaged; if {self.folder} is a study's, delete that file and begin anew"
            ) from None
        if not isinstance(there, dict) or there.get("format") != FORMAT:
            raise BadFile(f"{note} is not of a study; choose another folder with --out")
        if fresh:
            self._clear()
            return
        settings = {**self._settings(), **({"versions": there["versions"]} if results.exists() else {})}
        changed = [name for name in {**settings, **there} if settings.get(name) != there.get(name)]
        if changed:
            raise BadOption(
                f"{self.folder} holds a study with other settings ({', '.join(changed)}); "
                "choose another folder with --out, or begin anew with --fresh"
            )

    def _settings(self) -> dict[str, Any]:
        return {"format": FORMAT, **self.plan.settings(), "versions": versions()}

    def _clear(self) -> None:
        """Delete what a study makes, and nothing else."""
        self._drop_parts()
        for name in (RESULTS, SKIPPED, ACCOUNTS, CLOCK, COMPARISON, SETTINGS):
            (self.folder / name).unlink(missing_ok=True)

    @property
    def parts(self) -> Path:
        """Where parts are kept: for other settings elsewhere, since workers of a killed run may still write theirs."""
        return self.folder / f"parts-{digest(self._settings())}"

    def _drop_parts(self) -> None:
        for parts in self.folder.glob("parts-*"):
            for part in [*parts.glob("*.parquet"), *parts.glob(".*.tmp")]:
                part.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # there is something else in it
                parts.rmdir()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """See that no other process works in the folder; the lock goes with the process, however it ends."""
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
                    f"another study is at work in {self.folder}; wait for it, or choose another --out"
                ) from None
            yield

    def collect(self, jobs: int, progress: Progress) -> list[Path]:
        """The run files of the corpus; when they are there, the folder is this study's."""
        corpus = self.plan.corpus
        paths = corpus.collect(self.folder / "corpus" / corpus.folder_name(), jobs, progress)
        if not (self.folder / SETTINGS).exists():
            write_note(self.folder / SETTINGS, self._settings())
        return paths

    def accounts(self, paths: Sequence[Path]) -> list[Account]:
        """What became of each run."""
        return [self._read(path).account for path in paths]

    def run(self, paths: Sequence[Path], jobs: int, progress: Progress) -> None:
        """Do the tasks that are not done."""
        if (self.folder / RESULTS).exists():
            schema_of(self.folder / RESULTS)
            return
        start = time.perf_counter()
        parts = self.parts
        parts.mkdir(exist_ok=True)
        runs = {path: self._read(path) for path in paths}
        part = {(path, fold): parts / f"{path.stem}-{fold}.parquet" for path, run in runs.items() for fold in run.sets}
        if not part:
            reasons = listed(sorted({run.account.reason for run in runs.values()}))
            raise BadFile(f"no predictions are left: none of the {len(paths)} runs meets the rules ({reasons})")
        missing = [unit for unit in part if not _is_whole(part[unit])]
        progress.begin("adjusting", len(part))
        progress.skip(len(part) - len(missing))
        for name in in_parallel(((_unit, (*unit, part[unit], self.plan)) for unit in missing), jobs):
            progress.note(name)
            progress.rows(1)
        seconds = time.perf_counter() - start if len(missing) == len(part) else None
        write_note(self.folder / CLOCK, {"seconds": seconds, "jobs": jobs})
        write_note(self.folder / ACCOUNTS, [asdict(run.account) for run in runs.values()])
        self._join(list(part.values()))

    def compare(self, paths: Sequence[Path], size: int, progress: Progress) -> None:
        """Solve a random sample of the tasks in the paper's way as well."""
        found = Findings(self.folder)
        size = min(size, len(possible_tasks(found.frame)))
        if not size or (found.comparison and found.comparison.tasks == size):
            return
        sets = {data.name: data for path in paths for data in self._read(path).sets.values()}
        tasks = sample_tasks(found.frame, sets, self.plan.seed, size)
        write_note(self.folder / COMPARISON, asdict(compare(tasks, progress)))

    def _read(self, path: Path) -> Run:
        return read_run(path, self.plan.rules, self.plan.seed)

    def _join(self, parts: Sequence[Path]) -> None:
        """One file of results and one of skipped tasks; the results come last, since they say that all is done."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        tables = [pq.read_table(part) for part in parts]
        seconds = sum(float(table.schema.metadata[SECONDS]) for table in tables)
        table = pa.concat_tables(tables).replace_schema_metadata({SECONDS: str(seconds)})
        skipped = pc.is_valid(table["skipped"])
        if pc.all(skipped).as_py():
            causes = listed(sorted(set(table["skipped"].to_pylist())))
            raise BadOption(f"none of the {len(table)} tasks can be made: {causes}")
        (self.folder / COMPARISON).unlink(missing_ok=True)  # of results that are no more
        about_task = ["set", "dataset", "model", "fold", "classes", "shift", "error", "skipped"]
        for path, rows in (
            (self.folder / SKIPPED, table.filter(skipped).select(about_task)),
            (self.folder / RESULTS, table.filter(pc.invert(skipped)).drop_columns(["skipped"])),
        ):
            with whole(path) as file:
                pq.write_table(rows, file, compression="zstd")
        self._drop_parts()


def _unit(path: Path, fold: int, part: Path, plan: Plan) -> str:
    """Do all tasks of one prediction set and write them as a part."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    start = time.perf_counter()
    data = _cached(path, plan.rules, plan.seed).sets[fold]
    for loss in (Brier(), Log()):  # each adjustment is small, but there are thousands
        prepare(loss, data.probs.shape[1], data.probs.dtype, 1000 * data.probs.size)
    try:
        rows = rows_of(data, plan)
    except BaserateError as error:
        raise BadFile(f"prediction set {data.name}: {error}") from None
    table = pa.Table.from_pylist(rows, schema=_schema())
    with whole(part) as file:
        spent = {SECONDS: str(time.perf_counter() - start)}
        pq.write_table(table.replace_schema_metadata(spent), file)
    return data.name


def _is_whole(part: Path) -> bool:
    """Whether a part is there and can be read; one that a disk has damaged is made again."""
    try:
        schema_of(part)
    except BadFile:
        return False
    return True


_cached = functools.lru_cache(maxsize=2)(read_run)  # a worker meets the folds of a run one after the other


def rows_of(data: PredictionSet, plan: Plan) -> list[dict[str, Any]]:
    """The rows of the results that belong to a prediction set: adjusted by every adjuster, or skipped."""
    about = {
        "set": data.name,
        "dataset": data.dataset,
        "model": data.model,
        "fold": data.fold,
        "classes": len(data.classes),
    }
    rows: list[dict[str, Any]] = []
    for given in tasks_of(data, plan.seed, plan.kinds, plan.errors):
        if isinstance(given, Task):
            rows += [{**about, **row} for row in _adjusted(given)]
        else:
            rows.append({**about, "shift": given.kind, "error": given.error, "skipped": given.reason})
    return rows


def _adjusted(given: Task) -> list[dict[str, Any]]:
    shifted = given.shifted
    targets = np.eye(shifted.probs.shape[1])[shifted.y]
    about = {
        "shift": shifted.kind,
        "amount": shifted.amount,
        "distance": shifted.distance,
        "rows": len(shifted.y),
        "error": given.error,
    }
    before = {name: float(row_losses(loss, shifted.probs, targets).mean()) for name, loss in MEASURES.items()}
    rows = []
    for adjuster, run in ADJUSTERS.items():
        start = time.perf_counter()
        row: dict[str, Any] = {**about, "adjuster": adjuster}
        try:
            answer = run(given)
        except InfeasibleRates:  # hard zeros, which are only there if the rules let them in
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

    text, whole_number, number = pa.string(), pa.int32(), pa.float64()
    columns = {
        "set": text,
        "dataset": text,
        "model": text,
        "fold": whole_number,
        "classes": whole_number,
        "shift": text,
        "amount": number,
        "distance": number,
        "rows": whole_number,
        "error": number,
        "adjuster": text,
        **{f"{name}_{what}": number for name in MEASURES for what in ("before", "after", "reduction")},
        "guaranteed": number,
        "converged": pa.bool_(),
        "passes": whole_number,
        "seconds": number,
        "impossible": text,
        "skipped": text,
    }
    return pa.schema(list(columns.items()))
