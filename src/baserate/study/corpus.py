"""What every corpus offers: predictions to study, as run files in a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from baserate.progress import Progress
from baserate.study.settings import digest

T = TypeVar("T")


class Corpus(ABC):
    """A source of predictions with labels.

    Subclasses bring every run into the form of :mod:`baserate.study.runs`, each as one file that appears when it is
    complete. A file that is there is not made again, so that collecting can be stopped and resumed at any time.
    """

    name: str

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What determines the predictions, as JSON values; two corpora with the same settings are the same."""

    def folder_name(self) -> str:
        """The folder for its run files: another one for other settings, so that no stale file is met."""
        return f"{self.name}-{digest(self.settings())}"

    @abstractmethod
    def collect(self, folder: Path, jobs: int, progress: Progress) -> list[Path]:
        """Make the run files that are missing in the folder; return all of them, in an order that never changes."""


def in_parallel(calls: Iterable[tuple[Callable[..., T], tuple[Any, ...]]], jobs: int) -> Iterator[T]:
    """Results of calls in processes of their own, as they come; BLAS and OpenMP share the cores among them."""
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    workers = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    try:
        yield from workers(delayed(call)(*arguments) for call, arguments in calls)
    except TerminatedWorkerError:
        raise ChildProcessError(
            "a worker was killed, perhaps for lack of memory; what is done is kept, so run it again, with fewer --jobs"
        ) from None
