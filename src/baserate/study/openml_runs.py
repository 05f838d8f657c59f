"""The paper's source of predictions: runs that people uploaded to OpenML.

Besides the run files, the folder contains ``openml-notes`` with what is known so far (which runs exist, which of them
cannot be used, and why), and ``openml-cache``, where the openml package stores data sets. The collection can be
interrupted at any time; what the notes contain is not requested again. Delete the folder to see newer runs.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from baserate.errors import BadFile, BadOption, BaserateError
from baserate.progress import Progress
from baserate.study.corpus import Corpus
from baserate.study.limited_http import TooLarge, limited_responses
from baserate.study.openml_arff import decode_text, read_predictions
from baserate.study.runs import Rules, rejection_reason, write_run
from baserate.support.atomic_files import write_atomically

_PAGE = 10_000  # the server's maximum length of a list
_MAX_WAIT = 600.0  # seconds; a server that asks for a longer delay is not asked again in this collection
_MAX_DIGITS = 18  # of an id; OpenML's ids are far shorter, and longer ones would not fit in file names
_TEN_FOLDS = re.compile(r"\b10-fold cross-?validation", re.IGNORECASE)
_NOT_FOUND = (404, 410, 412)  # OpenML uses 412 for items that do not exist,
_DATABASE_DOWN = "<oml:code>107<"  # but also, with this code in the body, if its database is down
_SKIP_PARQUET = "OPENML_SKIP_PARQUET"  # the environment variable of openml
_UNKNOWN_RUN = 236  # OpenML's error code for a run id that does not exist


class ServerFailed(BaserateError, OSError):
    """The server did not answer, or sent an unexpected answer. The collection can be resumed later."""


class _Unusable(Exception):
    """A run can never be used. The message is the reason."""


class _Unavailable(Exception):
    """A run cannot be downloaded now, although the server works. The next collection tries it again."""


@dataclass(frozen=True)
class OpenMLRuns(Corpus):
    """Runs of 10-fold cross-validation on OpenML, requested one at a time.

    Attributes
    ----------
    server : str or None
        URL of the XML interface. None uses the server that openml is configured for. No API key is sent.
    min_rows, max_rows : int
        Minimum and maximum number of rows of the data set. A fold has a tenth of these rows: if the study requires 500
        rows per fold, ``min_rows=5000`` finds the same runs with fewer downloads.
    max_classes : int
    runs_per_task : int or None
        Maximum number of usable runs per task, oldest first. None uses all runs, as the paper did, which takes very
        long.
    max_tasks : int or None
        Maximum number of tasks, oldest first.
    tasks : tuple of int
        Ids of the tasks to use. By default all tasks.
    runs : tuple of int
        Ids of the runs to use, whatever their task. By default the runs of the tasks.
    keep_hard_scores : bool
        Whether to keep runs with scores of exactly 0 or 1. The paper discards them.
    pause : float
        Seconds between two requests. The openml package itself sends one more request for every list of tasks, and up
        to three for a run without predictions.
    sleep : callable
        The function that waits, such as ``time.sleep``.
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
            raise BadOption(
                f"min_rows is {self.min_rows} and max_rows is {self.max_rows}; 1 <= min_rows <= max_rows is required"
            )
        if self.max_classes < 2:
            raise BadOption(f"max_classes is {self.max_classes}, but it must be at least 2")
        for name in ("runs_per_task", "max_tasks"):
            if (limit := getattr(self, name)) is not None and limit < 1:
                raise BadOption(f"{name} is {limit}; it must be at least 1, or None for no limit")
        if not 0 <= self.pause < math.inf:
            raise BadOption(f"pause is {self.pause}; it must be a number of seconds, at least 0")

    def settings(self) -> dict[str, Any]:
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("pause", "sleep")}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {"corpus": self.name, **plain}

    def collect(self, folder: Path, jobs: int, progress: Progress) -> list[Path]:
        """Download the missing runs; ``jobs`` is ignored, because requests are sent one at a time."""
        with _configured(self.server, folder / "openml-cache") as openml:
            return _Collection(self, folder, openml, progress).run()


@contextlib.contextmanager
def _configured(server: str | None, cache: Path) -> Iterator[Any]:
    """The openml package with this server and cache; its former configuration is restored afterwards."""
    try:
        import openml
    except ImportError:
        raise ImportError('the OpenML corpus needs openml: pip install "baserate[openml]"') from None
    config, handlers = openml.config, list(logging.root.handlers)
    before = config.get_config_as_dict()
    skips_parquet = os.environ.get(_SKIP_PARQUET)
    # Not overwrite_config_context: it restores nothing after an exception, and OPENML_CACHE_DIR overrides it.
    try:
        config.server, config.apikey = server or before["server"], ""
        config.set_root_cache_directory(cache)
        # openml downloads Parquet files by another package, whose responses cannot be limited.
        os.environ[_SKIP_PARQUET] = "true"
        with limited_responses():
            yield openml
    finally:
        os.environ.pop(_SKIP_PARQUET) if skips_parquet is None else os.environ.update({_SKIP_PARQUET: skips_parquet})
        config.server, config.apikey = before["server"], before["apikey"]
        config.set_root_cache_directory(before["cachedir"])
        for handler in [handler for handler in logging.root.handlers if handler not in handlers]:
            logging.root.removeHandler(handler)  # openml logs to the root logger, which adds a handler


class _Collection:
    """One call of ``collect``: requests to the server, and notes of its answers."""

    def __init__(self, corpus: OpenMLRuns, folder: Path, openml: Any, progress: Progress) -> None:
        self.corpus, self.folder, self.openml, self.progress = corpus, folder, openml, progress
        self.rules = Rules(max_classes=corpus.max_classes, hard_scores=corpus.keep_hard_scores)
        self.has_sent_request = False
        self.last_dataset: tuple[int, str, Any] | None = None
        self.unavailable_datasets: dict[int, str] = {}

    def run(self) -> list[Path]:
        groups = [sorted(set(self.corpus.runs))] if self.corpus.runs else self.runs_by_task()
        limit = None if self.corpus.runs else self.corpus.runs_per_task
        taken: list[int] = []
        self.progress.begin("downloading runs", sum(map(len, groups)))
        for ids in groups:
            n_wanted = len(ids) if limit is None else limit
            for run in ids:
                if n_wanted:
                    reason = self.download_run(run)
                    n_wanted -= not reason
                    taken += [] if reason else [run]
                    self.progress.note(f"run {run}: {reason or 'taken'}")
                self.progress.rows(1)
        return [self.path(run) for run in sorted(taken)]

    def path(self, run: int) -> Path:
        return self.folder / f"openml-run-{run}.parquet"

    def runs_by_task(self) -> list[list[int]]:
        """Ids of the runs of every task, as they were at the first request."""
        corpus, groups = self.corpus, list[list[int]]()
        known = self.noted("tasks", self.list_tasks)
        tasks = [task for task in known if not corpus.tasks or task in corpus.tasks][: corpus.max_tasks]
        self.progress.begin("listing the runs of each task", len(tasks))
        for task in tasks:
            groups.append(self.noted(f"runs-of-task-{task}", partial(self.list_runs, task)))
            self.progress.note(f"task {task}: {len(groups[-1])} runs")
            self.progress.rows(1)
        return groups

    def list_tasks(self) -> list[int]:
        low, high, most = self.corpus.min_rows, self.corpus.max_rows, self.corpus.max_classes
        filters = {"number_instances": f"{low}..{high}", "number_classes": f"2..{most}"}
        kind = self.openml.tasks.TaskType.SUPERVISED_CLASSIFICATION
        usable = (
            task["tid"]
            for task in self.pages(self.openml.tasks.list_tasks, "tasks", task_type=kind, **filters)
            if _TEN_FOLDS.search(str(task.get("estimation_procedure")))
            and low <= task.get("NumberOfInstances", math.nan) <= high
            and 2 <= task.get("NumberOfClasses", math.nan) <= most
        )
        return self.ids(usable, "the list of tasks")

    def list_runs(self, task: int) -> list[int]:
        pages = self.pages(self.openml.runs.list_runs, f"runs of task {task}", task=[task])
        return self.ids((run["run_id"] for run in pages), f"the list of runs of task {task}")

    def ids(self, values: Iterable[object], what: str) -> list[int]:
        """Ids that the server sent, in order."""
        listed = list(values)
        if bad := [value for value in listed if not _is_id(value)]:
            raise self.server_failed(what, f"{str(bad[0])[:50]!r} is not an id of at most {_MAX_DIGITS} digits")
        return sorted({int(str(value)) for value in listed})

    def pages(self, call: Callable[..., Any], what: str, **filters: Any) -> Iterator[dict[str, Any]]:
        offset, size = 0, _PAGE
        while size == _PAGE:
            with self.request(f"the list of {what} from position {offset}"):
                page = call(offset=offset, size=_PAGE, output_format="dataframe", **filters)
            yield from page.to_dict("records")
            size, offset = len(page), offset + len(page)

    def download_run(self, run: int) -> str:
        """Write the file of a run, or note why it cannot be used; return that reason, or ""."""
        if self.path(run).exists():
            return ""
        if verdict := self.read_note(f"verdict-{run}"):
            return str(verdict["reason"])
        try:
            self.write_run_file(run)
        except (_Unusable, BadFile) as error:
            self.write_note(f"verdict-{run}", {"reason": str(error)})
            return str(error)
        except _Unavailable as error:
            return str(error)
        return ""

    def write_run_file(self, number: int) -> None:
        # Ignore the cache: openml does not write it atomically, so it may contain half a file after an interruption.
        with self.request(f"run {number}", unusable=(ValueError, TypeError, AttributeError, NotImplementedError)):
            run = self.openml.runs.get_run(number, ignore_cache=True)
        if not run.predictions_url:
            raise _Unusable("it has no predictions file")
        if urlsplit(str(run.predictions_url)).scheme not in ("http", "https"):
            raise _Unusable(f"the address of its predictions file does not start with http: {run.predictions_url!r}")
        found = read_predictions(self.download(run.predictions_url), name=f"the predictions of run {number}")
        if reason := rejection_reason(found.probs, found.classes, self.rules):
            raise _Unusable(reason)
        if not _is_id(run.dataset_id):
            raise _Unusable(f"the id of its data set is not a number: {str(run.dataset_id)[:50]!r}")
        dataset, frame = self.dataset(int(run.dataset_id))
        if (last := found.row_id.max()) >= len(frame):
            raise _Unusable(f"row_id {last} is outside the data set, which has {len(frame)} rows")
        write_run(
            self.path(number),
            dataset=f"{_safe_name(str(dataset))}-task-{run.task_id}",
            model=f"{_safe_name(str(run.flow_name))}-run-{number}",
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
        """The name and the numeric features of a data set."""
        if number in self.unavailable_datasets:
            raise _Unavailable(self.unavailable_datasets[number])
        # Keep the last data set, since the runs of a task, which share it, come one after the other.
        if self.last_dataset is None or self.last_dataset[0] != number:
            note = self.read_note(f"data-{number}")
            if note is not None and note["reason"]:
                raise _Unusable(note["reason"])
            try:
                self.last_dataset = (number, *self.download_dataset(number, refresh=note is None))
            except _Unusable as error:
                self.write_note(f"data-{number}", {"reason": str(error)})  # other runs need this data set too
                raise
            except _Unavailable as error:
                self.unavailable_datasets[number] = str(error)
                raise
            self.write_note(f"data-{number}", {"reason": ""})
        return self.last_dataset[1:]

    def download_dataset(self, number: int, refresh: bool) -> tuple[str, Any]:
        get = self.openml.datasets.get_dataset
        if refresh:  # the cache may contain half a file, since openml does not write it atomically
            with self.request(f"data set {number}"):
                get(number, force_refresh_cache=True)
        with self.request(f"the file of data set {number}", unusable=(TooLarge,)):
            dataset = get(number, download_data=True)
        if dataset.data_file and _is_html(Path(dataset.data_file)):
            raise _Unavailable(f"the server sent a web page instead of the file of data set {number}")
        return dataset.name, _numeric_features(dataset)

    def noted(self, name: str, compute: Callable[[], Any]) -> Any:
        """The content of a note; if it does not exist, compute it and write the note."""
        known = self.read_note(name)
        return self.write_note(name, compute()) if known is None else known

    def read_note(self, name: str) -> Any:
        path = self.folder / "openml-notes" / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def write_note(self, name: str, answer: Any) -> Any:
        path = self.folder / "openml-notes" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(path) as file:
            file.write(json.dumps(answer).encode())
        return answer

    def wait(self) -> None:
        if self.has_sent_request:
            self.corpus.sleep(self.corpus.pause)
        self.has_sent_request = True

    @contextlib.contextmanager
    def request(self, what: str, unusable: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Wait before a request, and convert its errors.

        An error that is a property of the run becomes ``_Unusable``. A failure of the server, which says nothing about
        the run, becomes ``ServerFailed``.
        """
        import requests
        from openml import exceptions

        self.wait()
        try:
            yield
        except (exceptions.OpenMLServerNoResult, exceptions.OpenMLPrivateDatasetError) as error:
            raise _Unusable(f"{what} is not available: {error}") from None
        except exceptions.OpenMLHashException as error:
            # Not ServerFailed: if the server's checksum is outdated, no later collection could finish.
            raise _Unavailable(str(error)) from None
        except (exceptions.PyOpenMLError, requests.RequestException) as error:  # before unusable: some are ValueErrors
            if getattr(error, "code", None) == _UNKNOWN_RUN:
                raise _Unusable("the server does not know this run") from None
            raise self.server_failed(what, error) from error
        except unusable as error:
            raise _Unusable(str(error)) from None
        except OSError:
            raise  # an error of the local disk; errors of the network are handled above
        except Exception as error:  # openml raises errors of many types if it cannot parse an answer
            raise self.server_failed(what, error) from error

    def server_failed(self, what: str, error: object, url: str | None = None) -> ServerFailed:
        url = url or getattr(error, "url", None) or self.openml.config.server
        text = " ".join(str(error).split())[:300]
        return ServerFailed(
            f"cannot get {what} from {url}: {text}. All downloads so far are kept in {self.folder}; "
            "run the same command again later"
        )

    def download(self, url: str) -> str:
        """Download a file, with the number of attempts and the delays that openml is configured for."""
        import requests

        config, failure = self.openml.config, ""
        for attempt in range(n_attempts := max(1, config.connection_n_retries)):
            self.wait()
            retry_after = ""
            try:
                response = requests.get(url, headers={"User-Agent": "baserate"})
                retry_after = response.headers.get("Retry-After", "")
                if response.status_code in _NOT_FOUND and _DATABASE_DOWN not in response.text:
                    raise _Unusable(f"it has no predictions file: the server answered {response.status_code}")
                response.raise_for_status()
                if not _is_html(response.content):
                    return decode_text(response.content)
                failure = "the server sent a web page instead of a file"
            except TooLarge as error:
                raise _Unusable(f"its predictions file is too large: {error}") from None
            except requests.RequestException as error:
                failure = str(error)
            requested = float(retry_after) if retry_after.isdecimal() else 0.0
            if requested > _MAX_WAIT:
                failure += (
                    f"; it asks for a delay of {requested:.0f} seconds, and more than {_MAX_WAIT:.0f} are not waited"
                )
                break
            if attempt + 1 < n_attempts:
                self.corpus.sleep(max(_delay(config.retry_policy, attempt + 1), requested))
        raise self.server_failed("the predictions", failure, url)


def _delay(policy: str, attempt: int) -> float:
    """Seconds before the next attempt, by openml's policies, which it does not export as a function."""
    return max(1.0, float(attempt) if policy == "human" else 60 / (1 + math.exp(4 - attempt / 2)))


def _is_id(value: object) -> bool:
    """Whether a value is a number, as ids must be, because they become parts of paths."""
    digits = str(value)
    return digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS


def _is_html(source: bytes | Path) -> bool:
    """Whether the content is HTML or XML, such as an error page that was sent with status 200, and not ARFF."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            source = file.read(100)
    return source.lstrip().startswith(b"<")


def _safe_name(text: str) -> str:
    """A name that is short enough for tables and contains no "/", which separates the parts of a set's name."""
    return re.sub(r"[^\w.()+-]+", "-", text)[:48]


def _numeric_features(dataset: Any) -> Any:
    """The numeric columns of a data set as a dataframe, with the rows in the order of ``row_id``."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    try:
        frame, _, categorical, _ = dataset.get_data()
    except OSError:
        raise  # an error of the local disk, not of the data
    except Exception as error:  # the decoder raises errors of many types for a bad file; no request is sent here
        raise _Unusable(f"its data set cannot be read: {error}") from None
    numbers = [is_numeric_dtype(kind) and not is_bool_dtype(kind) for kind in frame.dtypes]
    target = dataset.default_target_attribute
    keep = np.array(numbers, dtype=bool) & ~np.array(categorical, dtype=bool) & (frame.columns != target)
    return frame.loc[:, keep]
