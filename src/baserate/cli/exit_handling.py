"""How commands end: the message of an error, and the exit code that scripts see.

| code | meaning |
|---|---|
| 0 | success |
| 1 | an error; the message says if OUT was written, which it rarely is |
| 2 | the command line is invalid |
| 3 | written, but the rates were not reached to the tolerance |
| 4 | less is guaranteed than was asked for with ``--at-least`` |
| 130, 143 | stopped by Ctrl-C, by SIGTERM |
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import click

from baserate.errors import BaserateError, GroupsWarning, NotConvergedWarning, Option, respell
from baserate.support.locations import state
from baserate.support.text import printable

NOT_CONVERGED = 3
LESS_GUARANTEED = 4

_DELAY = 0.001  # Seconds until an interrupt is tried again.
_REPEATED = 1.0  # Seconds after a signal in which further signals count as repetitions of it.

# How an option of the library is spelled here, where that is not its name with dashes and its value after a space.
_SPELLINGS = {
    Option("Rates.of_population(rates)"): "--rates population:...",
    Option("bounded", "True"): "no --unbounded",
    Option("br.adjust_multilabel"): "a table with two columns, 1 - p and p, for each label, and adjust them one by one",
    Option("Adjustment.save"): "--save-shift",
    Option("Rates.save"): "baserate rates --out",
    Option("br.advise"): "baserate advise",
    Option("br.estimate"): "baserate rates",
    Option("classes", "[...]"): "--classes NAME,NAME",
    Option("columns", "[...]"): "--columns NAME,NAME",
    Option("columns", "'name'"): "--columns NAME",
    Option("keep", "[...]"): "--keep NAME,NAME",
    Option("new_probs"): "IN",
    Option("probs_new"): "IN",
    Option("probs_val"): "--validation",
    Option("Rates.by(..., rounding='auto')"): "--rounding auto",
    Option("Rates.by(..., unlisted='free')"): "--unlisted free",
    Option("Rates.by(..., kind='counts')"): "--rates-kind counts",
    Option("Rates.by(..., kind='population')"): "--rates-kind population",
    Option("unseen", "'pooled'"): "--unseen pooled",
    Option("on_refuted", "'everything'"): "--on-refuted everything",
    Option("method", "'exact'"): "--method exact",
    Option("labelled"): "labelled= of br.estimate in Python",
    Option("without_batch()"): "without_batch() in Python",
    Option("rates", "Rates.of_population(...)"): "--rates population:...",
    Option("old_rates", "{'name of a class': ...}"): "--old-rates NAME=...",
    Option("rates", "{'name of a class': ...}"): "--rates NAME=...",
    Option("sample_weight"): "--weight",
    Option("to_code"): "--to python or --to javascript",
    Option("to_onnx"): "--to onnx",
    Option("to_sql"): "--to sql",
    Option("total"): "--rates counts:4/50",
    Option("y_val"): "--labels",
}


class Stopped(click.ClickException):
    """Ended by a signal."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = _exit_code(number)  # type: ignore[misc]  # click declares it for the class


def _exit_code(number: int) -> int:
    return 128 + number


@contextlib.contextmanager
def handled_errors(unfinished: str, out: str | None = None) -> Iterator[None]:
    """Turn errors into one line on standard error, and signals into an orderly end.

    Parameters
    ----------
    unfinished : str
        What is true if the command does not finish, such as "nothing was written".
    out : str, optional
        Where the output goes. If another file or folder is there than at the beginning, the output is complete, and
        the message says that instead.
    """
    before = _state(out)

    def outcome() -> str:
        return unfinished if _state(out) == before else f"but {out} was written completely"

    def stopped(number: int) -> str:
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        return f"stopped by {name}; {outcome()}"

    def end_now(number: int) -> None:
        # Not sys.exit: it would run the rest of the clean-up, and wait for threads. Not click.echo: it could be called
        # while the interrupted code uses the same stream.
        os.write(2, f"Error: {printable(stopped(number))}; temporary files may remain\n".encode(errors="replace"))
        os._exit(_exit_code(number))

    received: list[int] = []
    try:
        with signals_as_interrupts(received, end_now), warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]  # fewer parameters than declared
            for category in (NotConvergedWarning, GroupsWarning):
                warnings.simplefilter("always", category)
            yield
    except BrokenPipeError:  # the reader of the output has stopped reading
        _discard_output()
        raise SystemExit(0 if _state(out) != before else 1) from None
    except KeyboardInterrupt:
        number = received[-1] if received else int(signal.SIGINT)
        raise Stopped(stopped(number), number) from None
    except Exception as error:
        expected = isinstance(error, (BaserateError, ImportError, OSError, UnicodeError))
        if not expected and not type(error).__module__.startswith("pyarrow"):
            raise
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        raise click.ClickException(_message(error, outcome())) from None


def _discard_output() -> None:
    """Drop what could not be printed. Otherwise Python would try again at exit, and end with status 120."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  # it stays open until the process ends


def _state(out: str | None) -> Any:
    """What distinguishes a file or folder from another one with the same name."""
    try:
        return None if out in (None, "-") else state(str(out))
    except (BaserateError, ImportError):  # which the command reports itself
        return None


@contextlib.contextmanager
def signals_as_interrupts(received: list[int], end_now: Callable[[int], None]) -> Iterator[None]:
    """Let SIGTERM, which schedulers send, and a closed terminal end the work as Ctrl-C does.

    A signal raises KeyboardInterrupt. If that was lost, for example in a callback of a C library, the next signal
    raises it again. While the work is cleaned up, another signal is ignored if it comes at once, as from programs that
    pass on a Ctrl-C that the terminal has sent to all; later it ends the process.

    Parameters
    ----------
    received : list of int
        Gets the signals that raised an exception.
    end_now : callable
        Ends the process; its argument is the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    last = -math.inf

    def receive(number: int, frame: FrameType | None) -> None:
        nonlocal last
        if not _handles_interrupt():
            last = time.monotonic()
            received.append(number)
            interrupt(number, frame)
        elif time.monotonic() - last > _REPEATED:
            end_now(number)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not (_uses_lock(frame) and hasattr(signal, "setitimer")):
            raise KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, _DELAY)

    handlers = {"SIGTERM": receive, "SIGINT": receive, "SIGHUP": receive, "SIGALRM": interrupt}
    available = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    before = {number: signal.signal(number, handler) for number, handler in available.items()}
    try:
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)  # no interrupt after the end
        for number, handler in before.items():
            signal.signal(number, handler)


def _handles_interrupt() -> bool:
    """Whether the code that a signal has interrupted runs because of an earlier interrupt: it cleans up."""
    error: BaseException | None = sys.exception()
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _uses_lock(frame: FrameType | None) -> bool:
    """Whether a lock is being acquired or released.

    An exception at this moment could leave the lock acquired. If it is a lock of an executor, its threads would wait
    for it, and the process would never exit.
    """
    while frame is not None:
        if frame.f_code.co_name in ("__enter__", "__exit__") and frame.f_code.co_filename == threading.__file__:
            return True
        frame = frame.f_back
    return False


def as_command_line(option: Option) -> str:
    """An option of the library as it is typed on the command line."""
    if option in _SPELLINGS:
        return _SPELLINGS[option]
    name = f"--{option.name.replace('_', '-')}"
    if option.value in (None, "True"):
        return name
    value = str(option.value)
    return f"{name} {value[1:-1] if value.startswith(chr(34)) else value}"


def _message(error: Exception, outcome: str) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; {outcome}"
    if isinstance(error, BaserateError):
        return respell(str(error), error.options, as_command_line)
    if isinstance(error, ImportError):
        return str(error)
    return f"{type(error).__name__}: {error}; {outcome}"


def _show_warning(message: Warning | str, category: type[Warning], *_: object) -> None:
    options = getattr(message, "options", ())
    click.secho(printable(f"Warning: {respell(str(message), options, as_command_line)}"), fg="yellow", err=True)
