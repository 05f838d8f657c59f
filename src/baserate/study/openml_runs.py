"""The paper's own source of predictions: the runs that people uploaded to OpenML.

Beside the run files the folder gets ``openml-notes``, what was learned so far (which runs there are, which of them
cannot be used and why), and ``openml-cache``, where the openml package keeps its data sets. All of it can be
interrupted at any time; what is noted is not asked for again. Delete the folder to see newer runs.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from baserate.errors import BadFile, BadOption, BaserateError
from baserate.progress import Progress
from baserate.study.corpus import Corpus
from baserate.study.openml_arff import decoded, read_predictions
from baserate.study.runs import Rules, unfit, write_run
from baserate.support.atomic_files import whole

_PAGE = 10_000  # the longest list that the server sends
_TIMEOUT = 60.0  # seconds without a byte
_TEN_FOLDS = re.compile(r"\b10-fold cross-?validation", re.IGNORECASE)
_GONE = (404, 410, 412)  # 412 is how this server says that it has no such thing
_BUSY = "<oml:code>107<"  # and how it says that its database is down, under the same status
_UNKNOWN_RUN = 236


class ServerFailed(BaserateError, OSError):
    """The server did not answer, or not with what was asked for; the collection can be resumed later."""


class _Unusable(Exception):
    """A run that will never be of use, with the reason."""


class _Lost(Exception):
    """A run that cannot be had now, without the server being down; another collection asks for it again."""


@dataclass(frozen=True)
class OpenMLRuns(Corpus):
    """Runs of 10-fold cross-validation on OpenML, asked for one at a time.

    Attributes
    ----------
    server : str or None
        URL of the XML interface; None for the one that openml is configured for. No API key is sent.
    min_rows, max_rows : int
        How many rows the data set of a task may have. A fold has a tenth of them: where the study wants 500 rows a
        fold, ``min_rows=5000`` finds the same runs with fewer downloads.
    max_classes : int
    runs_per_task : int or None
        Stop after that many usable runs of a task, the oldest first. None takes all of them, as the paper did, which
        takes very long.
    max_tasks : int or None
        Take only so many tasks, the oldest first.
    tasks : tuple of int
        Take only tasks with these ids.
    runs : tuple of int
        Take these runs and look for no others, whatever their task.
    keep_hard_scores : bool
        Whether to keep runs with a score of exactly 0 or 1. The paper's rules discard them.
    pause : float
        Seconds before every request. Of its own accord openml sends a second one with every list of tasks, and up to
        three for a run without predictions.
    sleep : callable
        What waits.
    """

    server: str | None = None
    min_rows: int = 2000
    max_rows: int = 1_000_000
    max_classes: int = 8
    runs_per_task: int | None = None
    max_tasks: int | None = None
    tasks: tuple[int, ...] = ()
    runs: tuple[int, ...] = ()
    keep_hard_scores: bool = False
    pause: float = 0.5
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)

    name = "openml"

    def __post_init__(self) -> None:
        if not 1 <= self.min_rows <= self.max_rows:
            raise BadOption(f"min_rows is {self.min_rows} and max_rows {self.max_rows}; there must be 1 <= min <= max")
        if self.max_classes < 2:
            raise BadOption(f"max_classes is {self.max_classes}; there are no classifiers for fewer than 2 classes")
        for name in ("runs_per_task", "max_tasks"):
            if (limit := getattr(self, name)) is not None and limit < 1:
                raise BadOption(f"{name} is {limit}; it must be at least 1, or None for all")
        if not 0 <= self.pause < math.inf:
            raise BadOption(f"pause is {self.pause}; it must be a number of seconds")

    def settings(self) -> dict[str, Any]:
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("pause", "sleep")}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {"corpus": self.name, **plain}

    def collect(self, folder: Path, jobs: int, progress: Progress) -> list[Path]:
        """Bring the runs that are missing; ``jobs`` is ignored, because the server is asked one thing at a time."""
        with _configured(self.server, folder / "openml-cache") as openml:
            return _Collection(self, folder, openml, progress).run()


@contextlib.contextmanager
def _configured(server: str | None, cache: Path) -> Iterator[Any]:
    """The openml package with another server and cache; everything is as before afterwards."""
    try:
        import openml
    except ImportError:
        raise ImportError('the OpenML corpus needs openml: pip install "baserate[openml]"') from None
    config, handlers = openml.config, list(logging.root.handlers)
    before = config.get_config_as_dict()
    # Not overwrite_config_context: it restores nothing after an exception, and OPENML_CACHE_DIR overrules it.
    try:
        config.server, config.apikey = server or before["server"], ""
        config.set_root_cache_directory(cache)
        yield openml
    finally:
        config.server, config.apikey = before["server"], before["apikey"]
        config.set_root_cache_directory(before["cachedir"])
        for handler in [handler for handler in logging.root.handlers if handler not in handlers]:
            logging.root.removeHandler(handler)  # openml logs through the root logger, which installs one


class _Collection:
    """One call of ``collect``: what is asked of the server, and what is noted of its answers."""

    def __init__(self, corpus: OpenMLRuns, folder: Path, openml: Any, progress: Progress) -> None:
        self.corpus, self.folder, self.openml, self.progress = corpus, folder, openml, progress
        self.rules = Rules(max_classes=corpus.max_classes, hard_scores=corpus.keep_hard_scores)
        self.asked = False
        self.data: tuple[int, str, Any] | None = None
        self.lost: dict[int, str] = {}

    def run(self) -> list[Path]:
        groups = [sorted(set(self.corpus.runs))] if self.corpus.runs else self.wanted()
        limit = None if self.corpus.runs else self.corpus.runs_per_task
        taken: list[int] = []
        self.progress.begin("downloading runs", sum(map(len, groups)))
        for ids in groups:
            left = len(ids) if limit is None else limit
            for run in ids:
                if left:
                    reason = self.bring(run)
                    left -= not reason
                    taken += [] if reason else [run]
                    self.progress.note(f"run {run}: {reason or 'taken'}")
                self.progress.rows(1)
        return [self.path(run) for run in sorted(taken)]

    def path(self, run: int) -> Path:
        return self.folder / f"openml-run-{run}.parquet"

    def wanted(self) -> list[list[int]]:
        """Ids of the runs of every task, as they were when first asked for."""
        corpus, groups = self.corpus, list[list[int]]()
        known = self.once("tasks", self.list_tasks)
        tasks = [task for task in known if not corpus.tasks or task in corpus.tasks][: corpus.max_tasks]
        self.progress.begin("listing the runs of each task", len(tasks))
        for task in tasks:
            groups.append(self.once(f"runs-of-task-{task}", partial(self.list_runs, task)))
            self.progress.note(f"task {task}: {len(groups[-1])} runs")
            self.progress.rows(1)
        return groups

    def list_tasks(self) -> list[int]:
        low, high, most = self.corpus.min_rows, self.corpus.max_rows, self.corpus.max_classes
        wish = {"number_instances": f"{low}..{high}", "number_classes": f"2..{most}"}
        kind = self.openml.tasks.TaskType.SUPERVISED_CLASSIFICATION
        return sorted(
            int(task["tid"])
            for task in self.pages(self.openml.tasks.list_tasks, "tasks", task_type=kind, **wish)
            if _TEN_FOLDS.search(str(task.get("estimation_procedure")))
            and low <= task.get("NumberOfInstances", math.nan) <= high
            and 2 <= task.get("NumberOfClasses", math.nan) <= most
        )

    def list_runs(self, task: int) -> list[int]:
        pages = self.pages(self.openml.runs.list_runs, f"runs of task {task}", task=[task])
        return sorted({int(run["run_id"]) for run in pages})

    def pages(self, call: Callable[..., Any], what: str, **wish: Any) -> Iterator[dict[str, Any]]:
        offset, size = 0, _PAGE
        while size == _PAGE:
            with self.asking(f"the list of {what}, from {offset} on,"):
                page = call(offset=offset, size=_PAGE, output_format="dataframe", **wish)
            yield from page.to_dict("records")
            size, offset = len(page), offset + len(page)

    def bring(self, run: int) -> str:
        """Write the file of a run, or note why there is none; return the reason."""
        if self.path(run).exists():
            return ""
        if verdict := self.noted(f"verdict-{run}"):
            return str(verdict["reason"])
        try:
            self.write(run)
        except (_Unusable, BadFile) as error:
            self.note(f"verdict-{run}", {"reason": str(error)})
            return str(error)
        except _Lost as error:
            return str(error)
        return ""

    def write(self, number: int) -> None:
        # Always a fresh description: openml writes its cache in place, and half a file would stay forever.
        with self.asking(f"run {number}", unusable=(ValueError, TypeError, AttributeError, NotImplementedError)):
            run = self.openml.runs.get_run(number, ignore_cache=True)
        if not run.predictions_url:
            raise _Unusable("it has no predictions file")
        found = read_predictions(self.fetch(run.predictions_url), name=f"the predictions of run {number}")
        if reason := unfit(found.probs, found.classes, self.rules):
            raise _Unusable(reason)
        dataset, frame = self.dataset(int(run.dataset_id))
        if (last := found.row_id.max()) >= len(frame):
            raise _Unusable(f"row_id {last} is not in the data set, which has {len(frame)} rows")
        write_run(
            self.path(number),
            dataset=f"{_safe(dataset)}-task-{run.task_id}",
            model=f"{_safe(str(run.flow_name))}-run-{number}",
            fold=found.fold,
            y=[found.classes[label] for label in found.y],
            probs=found.probs,
            classes=found.classes,
            features={
                str(name): column.to_numpy(dtype=np.float64, na_value=np.nan)[found.row_id]
                for name, column in frame.items()
            },
            source=f"OpenML run {number}, {run.predictions_url}",
        )

    def dataset(self, number: int) -> tuple[str, Any]:
        """Name and numeric features of a data set; the last one is kept, since runs come task by task."""
        if number in self.lost:
            raise _Lost(self.lost[number])
        if self.data is None or self.data[0] != number:
            note = self.noted(f"data-{number}")
            if note is not None and note["reason"]:
                raise _Unusable(note["reason"])
            try:
                self.data = (number, *self.load(number, fresh=note is None))
            except _Unusable as error:
                self.note(f"data-{number}", {"reason": str(error)})  # other runs need it too
                raise
            except _Lost as error:
                self.lost[number] = str(error)
                raise
            self.note(f"data-{number}", {"reason": ""})
        return self.data[1:]

    def load(self, number: int, fresh: bool) -> tuple[str, Any]:
        get = self.openml.datasets.get_dataset
        if fresh:  # without a note the cache may hold half a file, since openml writes it in place
            with self.asking(f"data set {number}"):
                get(number, force_refresh_cache=True)
        with self.asking(f"the file of data set {number}"):
            dataset = get(number, download_data=True)
        if dataset.data_file and _is_page(Path(dataset.data_file)):
            raise _Lost(f"a page came instead of the file of data set {number}")
        return dataset.name, _numeric(dataset)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        known = self.noted(name)
        return self.note(name, make()) if known is None else known

    def noted(self, name: str) -> Any:
        path = self.folder / "openml-notes" / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def note(self, name: str, answer: Any) -> Any:
        path = self.folder / "openml-notes" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as file:
            file.write(json.dumps(answer).encode())
        return answer

    def wait(self) -> None:
        if self.asked:
            self.corpus.sleep(self.corpus.pause)
        self.asked = True

    @contextlib.contextmanager
    def asking(self, what: str, unusable: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Wait, ask, and tell an answer of which nothing comes from a failure, which says nothing of the run."""
        import requests
        from openml import exceptions as no

        self.wait()
        try:
            yield
        except (no.OpenMLServerNoResult, no.OpenMLPrivateDatasetError) as error:
            raise _Unusable(f"{what} cannot be had: {error}") from None
        except no.OpenMLHashException as error:
            raise _Lost(str(error)) from None  # a stale checksum may never fit, and must not stop the others
        except (no.PyOpenMLError, requests.RequestException) as error:  # some of them are ValueErrors too
            if getattr(error, "code", None) == _UNKNOWN_RUN:
                raise _Unusable("the server does not know it") from None
            raise self.failed(what, error) from error
        except unusable as error:
            raise _Unusable(str(error)) from None
        except OSError:
            raise  # of the disk, since those of the network are above
        except Exception as error:  # openml stumbles in many ways over an answer that it does not expect
            raise self.failed(what, error) from error

    def failed(self, what: str, error: object, url: str | None = None) -> ServerFailed:
        url = url or getattr(error, "url", None) or self.openml.config.server
        text = " ".join(str(error).split())[:300]
        return ServerFailed(
            f"cannot get {what} from {url}: {text}; everything so far is kept in {self.folder}: run again later"
        )

    def fetch(self, url: str) -> str:
        """A file of the server, with as many tries and waits as openml makes."""
        import requests

        config, failure = self.openml.config, ""
        for attempt in range(tries := max(1, config.connection_n_retries)):
            self.wait()
            after = ""
            try:
                response = requests.get(url, timeout=_TIMEOUT, headers={"User-Agent": "baserate"})
                after = response.headers.get("Retry-After", "")
                if response.status_code in _GONE and _BUSY not in response.text:
                    raise _Unusable(f"it has no predictions file: the server answered {response.status_code}")
                response.raise_for_status()
                if not _is_page(response.content):
                    return decoded(response.content)
                failure = "the server sent a page instead of a file"
            except requests.RequestException as error:
                failure = str(error)
            if attempt + 1 < tries:
                longer = float(after) if after.isdecimal() else 0.0
                self.corpus.sleep(max(_delay(config.retry_policy, attempt + 1), longer))
        raise self.failed("the predictions", failure, url)


def _delay(policy: str, attempt: int) -> float:
    """Seconds before the next try: openml's policies, which it does not offer for use elsewhere."""
    return max(1.0, float(attempt) if policy == "human" else 60 / (1 + math.exp(4 - attempt / 2)))


def _is_page(source: bytes | Path) -> bool:
    """Whether this is HTML: a notice of the server with status 200, and no ARFF."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            source = file.read(100)
    return source.lstrip().startswith(b"<")


def _safe(text: str) -> str:
    """A name without what has a meaning in names of prediction sets, and not longer than a line of a table."""
    return re.sub(r"[^\w.()+-]+", "-", text)[:48]


def _numeric(dataset: Any) -> Any:
    """The columns of a data set that are numbers, as a dataframe; its rows are numbered as in the predictions."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    try:
        frame, _, categorical, _ = dataset.get_data()
    except OSError:
        raise  # of the disk, not of the data
    except Exception as error:  # the decoder has many ways to fail on a bad file, and no request is made here
        raise _Unusable(f"its data set cannot be read: {error}") from None
    numbers = [is_numeric_dtype(kind) and not is_bool_dtype(kind) for kind in frame.dtypes]
    target = dataset.default_target_attribute
    keep = np.array(numbers, dtype=bool) & ~np.array(categorical, dtype=bool) & (frame.columns != target)
    return frame.loc[:, keep]
