"""How commands end: what is said on an error, and the exit code that scripts see.

| code | meaning |
|---|---|
| 0 | done |
| 1 | an error; nothing was written |
| 2 | the command was not understood |
| 3 | written, but the rates were not reached to the tolerance |
| 130, 143 | stopped by Ctrl-C, by SIGTERM |
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator

import click

from baserate.errors import BaserateError, NotConvergedWarning

NOT_CONVERGED = 3

_OPTIONS = {  # what the library calls an option, and what it is called here
    "normalize=True": "--normalize",
    "from_logits=True": "--from-logits",
    "bounded=True": "no --unbounded",
    "zeros=1e-6": "--zeros 1e-6",
    "columns=[...]": "--columns",
    "columns='p_*'": "--columns 'p_*'",
    "columns='name'": "--columns NAME",
    "columns=": "--columns",
    "delimiter=": "--delimiter ",
    "decimal=": "--decimal ",
    "out=": "--out",
    "max_passes or tol": "--max-passes or --tol",
    "tol=": "--tol ",
}


class Stopped(click.ClickException):
    """Ended by a signal."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number  # type: ignore[misc]  # click declares it for the class


@contextlib.contextmanager
def told(stopped: str) -> Iterator[None]:
    """Turn errors into one line on standard error, and signals into an orderly end.

    ``stopped`` says what is there after a work that was not finished.
    """
    try:
        with signals() as seen, warnings.catch_warnings():
            warnings.showwarning = _show  # type: ignore[assignment]
            warnings.simplefilter("always", NotConvergedWarning)
            yield
    except BrokenPipeError:  # who reads the output has had enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  # for the flush at exit
        raise SystemExit(1) from None
    except (BaserateError, ImportError, OSError) as error:
        raise click.ClickException(in_options(_described(error, stopped))) from None
    except KeyboardInterrupt:
        number = seen[0] if seen else int(signal.SIGINT)
        raise Stopped(f"stopped by {'SIGTERM' if number == signal.SIGTERM else 'Ctrl-C'}; {stopped}", number) from None


@contextlib.contextmanager
def signals() -> Iterator[list[int]]:
    """Let SIGTERM, which schedulers send, end the work as Ctrl-C does; the signals that came are listed."""
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return

    def stop(number: int, frame: object) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def in_options(message: str) -> str:
    """A message of the library in the words of the command line."""
    for name, option in _OPTIONS.items():
        message = message.replace(name, option)
    return message


def _described(error: Exception, stopped: str) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; {stopped}"
    return str(error)


def _show(message: Warning | str, category: type[Warning], *_: object) -> None:
    click.secho(f"Warning: {in_options(str(message))}", fg="yellow", err=True)
