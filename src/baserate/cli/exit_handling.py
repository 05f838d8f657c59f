"""How commands end: what is said on an error, and the exit code that scripts see.

| code | meaning |
|---|---|
| 0 | done |
| 1 | an error; what it says about OUT holds, and that is nearly always that nothing was written |
| 2 | the command was not understood |
| 3 | written, but the rates were not reached to the tolerance |
| 130, 143 | stopped by Ctrl-C, by SIGTERM |
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator

import click

from baserate.errors import BaserateError, NotConvergedWarning

NOT_CONVERGED = 3

# What the library calls an option, and what it is called here; not inside quotes, where names of users are.
_OPTIONS = [
    (re.compile(rf"(?<![\w'\"/=]){name}"), option)
    for name, option in (
        (r"normalize=True\b", "--normalize"),
        (r"from_logits=True\b", "--from-logits"),
        (r"zeros=1e-6\b", "--zeros 1e-6"),
        (r"columns='p_\*'", "--columns 'p_*'"),
        (r"columns='name'", "--columns NAME"),
        (r"columns=(\[\.\.\.\])?(?=[ ;,.]|$)", "--columns"),
        (r"delimiter=(?=')", "--delimiter "),
        (r"decimal=(?=')", "--decimal "),
        (r"out=(?=[ ;,.]|$)", "--out"),
        (r"max_passes or tol\b", "--max-passes or --tol"),
        (r"fit with bounded=True", "leave --unbounded out"),
        (r"\(\"brier\"\)", "(--loss brier)"),
        (r"new_probs has", "the table has"),
    )
]


class Stopped(click.ClickException):
    """Ended by a signal."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number  # type: ignore[misc]  # click declares it for the class


@contextlib.contextmanager
def told(stopped: str, out: str | None = None) -> Iterator[None]:
    """Turn errors into one line on standard error, and signals into an orderly end.

    ``stopped`` says what is there after a work that was not finished. If ``out`` is another file or folder than at the
    beginning, its part was done, and that is said instead.
    """
    before = _identity(out)

    def state() -> str:
        return stopped if _identity(out) == before else f"but {out} is written, and complete"

    seen: list[int] = []
    try:
        with signals(seen), warnings.catch_warnings():
            warnings.showwarning = _show  # type: ignore[assignment]
            warnings.simplefilter("always", NotConvergedWarning)
            yield
    except BrokenPipeError:  # who reads the output has had enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  # for the flush at exit
        raise SystemExit(0 if _identity(out) != before else 1) from None
    except KeyboardInterrupt:
        number = seen[0] if seen else int(signal.SIGINT)
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        raise Stopped(f"stopped by {name}; {state()}", number) from None
    except Exception as error:
        expected = isinstance(error, (BaserateError, ImportError, OSError, UnicodeError))
        if not expected and not type(error).__module__.startswith("pyarrow"):
            raise
        raise click.ClickException(in_options(_described(error, state()))) from None


def _identity(out: str | None) -> tuple[int, int] | None:
    """What tells a file or folder from another one under the same name."""
    if out in (None, "-"):
        return None
    try:
        found = os.stat(str(out))  # noqa: PTH116  # a name that is too long for a path is no error here
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


@contextlib.contextmanager
def signals(seen: list[int]) -> Iterator[None]:
    """Let SIGTERM, which schedulers send, and a closed terminal end the work as Ctrl-C does; ``seen`` lists what came.

    While what was begun is put away, further ones are ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        if not seen:
            seen.append(number)
            raise KeyboardInterrupt

    numbers = [
        number for name in ("SIGTERM", "SIGINT", "SIGHUP") if (number := getattr(signal, name, None)) is not None
    ]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def in_options(message: str) -> str:
    """A message of the library in the words of the command line."""
    for name, option in _OPTIONS:
        message = name.sub(option, message)
    return message


def _described(error: Exception, stopped: str) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; {stopped}"
    if not isinstance(error, (BaserateError, ImportError)):
        return f"{type(error).__name__}: {error}; {stopped}"
    return str(error)


def _show(message: Warning | str, category: type[Warning], *_: object) -> None:
    click.secho(f"Warning: {in_options(str(message))}", fg="yellow", err=True)
