"""The interface of a corpus: a source of labelled predictions, stored as run files in a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from baserate.progress import Progress
from baserate.study.settings import digest

T = TypeVar("T")


class Corpus(ABC):
    """A source of labelled predictions.

    A subclass writes every run as one file in the format of :mod:`baserate.study.runs`. Files are written atomically,
    and existing files are not written again, so that collecting can be interrupted and resumed at any time.
    """

    name: str

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything that determines the predictions, as JSON values."""

    def folder_name(self) -> str:
        """The folder for the run files; it depends on the settings, so that no outdated files are used."""
        return f"{self.name}-{digest(self.settings())}"

    @abstractmethod
    def collect(self, folder: Path, jobs: int, progress: Progress) -> list[Path]:
        """Create the run files that are missing in the folder, and return all of them in a fixed order."""


def in_parallel(calls: Iterable[tuple[Callable[..., T], tuple[Any, ...]]], jobs: int) -> Iterator[T]:
    """Run calls in parallel processes and yield their results in the order of completion.

    joblib limits the BLAS and OpenMP threads of each process to its share of the cores.
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    workers = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    try:
        yield from workers(delayed(call)(*arguments) for call, arguments in calls)
    except TerminatedWorkerError:
        raise ChildProcessError(
            "a worker process was killed, perhaps because memory ran out. Finished work is kept: run the same command "
            "again, with fewer --jobs"
        ) from None
