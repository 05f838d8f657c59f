"""Long work in threads: its progress, its cancellation, and commands that run as processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from baserate.app.private_folder import PrivateFolder
from baserate.app.wording import on_page
from baserate.errors import BaserateError
from baserate.progress import Progress

WAITING, RUNNING, DONE, FAILED, CANCELLED = "waiting", "running", "done", "failed", "cancelled"
_AT_ONCE = 2  # Jobs that run at the same time; each uses all cores.
_SHORT_AT_ONCE = 40  # Requests that are answered at the same time without being jobs.
_KEPT = 200  # Finished jobs whose answers are kept.
_INTERNAL = "Something went wrong that should not happen. The terminal in which the server runs has the details."
_ENDED = (
    "The command was ended from outside, perhaps because the machine ran out of memory. Nothing was changed. Close "
    "other programs and try again, or run the commands below in a terminal."
)
Answer = TypeVar("Answer")


class Cancelled(BaserateError):
    """The user has cancelled a job."""


class Job(Progress):
    """Work in a thread. It is the progress object of the work, and ends it by an error if it was cancelled.

    Attributes
    ----------
    id : str
    state : str
    answer : dict or None
        What the work returned.
    message : str
        Why it failed.
    """

    def __init__(self, work: Callable[[Job], dict[str, Any]], slots: threading.Semaphore) -> None:
        self.id, self.state, self.message = secrets.token_hex(8), WAITING, ""
        self.answer: dict[str, Any] | None = None
        self.finished = threading.Event()
        self._what, self._done, self._of = "", 0, 0
        self._cancelled = threading.Event()
        self._work, self._slots = work, slots

    def run(self) -> None:
        """Do the work."""
        with self._slots:
            try:
                self.check()
                self.state = RUNNING
                self.answer = self._work(self)
                self.state = DONE
            except Cancelled:
                self.state, self.answer = CANCELLED, None
            except (BaserateError, ImportError, OSError) as error:
                self.state, self.message = FAILED, on_page(error)
            except Exception:
                self.state, self.message = FAILED, _INTERNAL
                raise
            finally:
                self.finished.set()

    def cancel(self) -> None:
        """End the work at its next step."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise if the job was cancelled."""
        if self._cancelled.is_set():
            raise Cancelled("cancelled")

    def begin(self, what: str, n_rows: int) -> None:
        self.check()
        self._what, self._done, self._of = what, 0, n_rows

    def rows(self, n_rows: int) -> None:
        self.check()
        self._done += n_rows

    def report(self, what: str, done: int, of: int) -> None:
        """Show the progress of a command."""
        self._what, self._done, self._of = what, done, of

    def status(self) -> dict[str, Any]:
        """What the page shows."""
        progress = {"what": self._what, "done": self._done, "of": self._of}
        return {"job": self.id, "state": self.state, "message": self.message, "answer": self.answer, **progress}


class Jobs:
    """The jobs of a server."""

    def __init__(self, folder: PrivateFolder) -> None:
        self._folder = folder
        self._slots = threading.Semaphore(_AT_ONCE)
        self._short = asyncio.Semaphore(_SHORT_AT_ONCE)
        self._jobs: dict[str, Job] = {}
        self._order: deque[str] = deque()
        self._lock = threading.Lock()

    def start(self, work: Callable[[Job], dict[str, Any]]) -> Job:
        """Start work in a thread of its own."""
        job = Job(work, self._slots)
        with self._lock:
            self._jobs[job.id] = job
            self._order.append(job.id)
            while len(self._order) > _KEPT and self._jobs[self._order[0]].finished.is_set():
                del self._jobs[self._order.popleft()]
        threading.Thread(target=job.run, name=f"job {job.id}", daemon=True).start()
        return job

    async def short(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        """Do work that is no job in a thread, so that the server answers other requests meanwhile."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()

        def run() -> None:
            try:
                settle = partial(future.set_result, work(*arguments))
            except BaseException as error:
                settle = partial(future.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the server has stopped
                loop.call_soon_threadsafe(lambda: None if future.done() else settle())

        async with self._short:
            # Not a pool, whose threads would keep the process from ending until they are done.
            threading.Thread(target=run, daemon=True).start()
            return await future

    def get(self, identifier: str) -> Job | None:
        """The job with this identifier."""
        return self._jobs.get(identifier)

    def cancel_all(self) -> None:
        """Cancel what still runs, and wait a moment for it to end."""
        for job in list(self._jobs.values()):
            job.cancel()
        for job in list(self._jobs.values()):
            job.finished.wait(2)

    def run_command(self, command: Sequence[str], folder: Path, job: Job) -> None:
        """Run a command of baserate in a folder. Its progress is that of the job; its error is raised."""
        environment = os.environ | {"BASERATE_PROGRESS": "json", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(
            [sys.executable, "-m", "baserate", *command[1:]],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C in the terminal is for the server, which then ends its commands
        )
        with self._folder.tracking(process), process, _ended_if_cancelled(process, job):
            lines = _read_progress(process, job)
        job.check()
        if process.returncode not in (0, 3):  # 3: written, but the tolerance was not reached; the page says so
            message = next((line for line in reversed(lines) if line.startswith("Error: ")), "")
            unknown = _INTERNAL if process.returncode > 0 else _ENDED
            raise BaserateError(re.sub(r"^Error: (--[a-z-]+: )?", "", message) or unknown)


@contextlib.contextmanager
def _ended_if_cancelled(process: subprocess.Popen[str], job: Job) -> Any:
    """While the block runs, end the process as soon as the job is cancelled."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            if job._cancelled.is_set():
                process.send_signal(signal.SIGTERM)  # the command then removes what it has begun to write
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()


def _read_progress(process: subprocess.Popen[str], job: Job) -> list[str]:
    """Pass on the progress that a command prints. Returns its other lines."""
    others: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        try:
            update = json.loads(line)
            job.report(str(update["progress"]), int(update["done"]), int(update["of"]))
        except (ValueError, TypeError, KeyError):
            others = [*others[-50:], line.rstrip()]
    return others
