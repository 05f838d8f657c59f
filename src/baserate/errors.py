"""Errors and warnings of this package. Each message says what is wrong, where, and what to do."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Self


class Option(NamedTuple):
    """An option that a message mentions, such as ``normalize=True``.

    A message contains the option as Python code. Whoever offers the option under another spelling, such as the command
    line, takes it from the error and writes its own spelling.

    Attributes
    ----------
    name : str
    value : str, optional
        The suggested value, as Python code.
    """

    name: str
    value: str | None = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value}"


QUOTED = r"""(?<!\w)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?!\w)"""
"""Text that a message quotes by repr; not what is between the apostrophes of two words."""


def respell(message: str, options: Iterable[Option], spelling: Callable[[Option], str]) -> str:
    """Replace the options that a message mentions by another spelling of them. Text in quotes stays as it is."""
    for option in options:
        # Also the equals sign of "pass out=, ...", but not that of "out=...".
        mention = rf"(?<![\w'\"]){re.escape(str(option))}(?!\w)(?:=(?=[\s,;)]|$))?"
        message = re.sub(
            f"({mention})|{QUOTED}",
            lambda found, option=option: spelling(option) if found[1] else found[0],  # type: ignore[misc]  # mypy cannot type the default
            message,
        )
    return message


class BaserateError(ValueError):
    """Base class of all errors of this package.

    Attributes
    ----------
    options : tuple of Option
        The options that the message mentions.
    """

    def __init__(self, message: str, *, options: Iterable[Option] = ()) -> None:
        super().__init__(message)
        self.options = tuple(options)


class BadProbabilities(BaserateError):
    """The predictions are not valid probabilities or logits."""


class BadRates(BaserateError):
    """The class rates are not a distribution over the classes."""


class BadWeights(BaserateError):
    """The row weights cannot be used."""


class BadLabels(BaserateError):
    """The labels do not match the predictions."""


class BadOption(BaserateError):
    """An option has an invalid value."""


class BadGroups(BaserateError):
    """The groups of the rows do not match the rates per group."""


class BadLoss(BaserateError):
    """The loss is unknown, or its generator does not define a proper loss."""


class BadFile(BaserateError):
    """A file cannot be read, or does not contain what it should."""


class MissingFile(BadFile, FileNotFoundError):
    """There is no such file, or no folder to write a file to."""

    def __new__(cls, *args: object, **_: object) -> Self:
        # Not that of ValueError, which Distributed would call to copy the error to another process.
        return FileNotFoundError.__new__(cls, *args)


class OutOfDeviceMemory(BaserateError):
    """The memory of a GPU is too small for the adjusted rows or for what has to be computed."""


class ImpossibleShift(BaserateError):
    """A labelled data set cannot be shifted, or its rates misstated, in the requested way.

    Attributes
    ----------
    cause : str
        The kind of obstacle in a few words, the same for all data sets with this obstacle, so that causes can be
        counted.
    """

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message)
        self.cause = cause

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (*self.args, self.cause)


class InfeasibleRates(BaserateError):
    """The requested rates are impossible, because too many probabilities are exactly 0.

    Attributes
    ----------
    classes : list
        The classes whose rates are too high: together they can get at most ``reachable``, but need ``wanted``. For
        rates near a centre, these may be weighted sums of the rates of all classes, and ``classes`` are those with
        large weights.
    reachable, wanted : float
    """

    def __init__(
        self,
        message: str,
        classes: Sequence[object],
        reachable: float,
        wanted: float,
        *,
        options: Iterable[Option] = (),
    ) -> None:
        super().__init__(message, options=options)
        self.classes = list(classes)
        self.reachable = reachable
        self.wanted = wanted

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process boundaries. By default only the message would, and the constructor needs the rest.
        return type(self), (*self.args, self.classes, self.reachable, self.wanted), {"options": self.options}


class AssumptionRefuted(BaserateError):
    """Class rates cannot be estimated: the batch contradicts the assumption of label shift.

    Attributes
    ----------
    p_value : float or None
        Of the test of the assumption; None if no rates fit at all.
    """

    def __init__(self, message: str, p_value: float | None = None, *, options: Iterable[Option] = ()) -> None:
        super().__init__(message, options=options)
        self.p_value = p_value

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (*self.args, self.p_value), {"options": self.options}


class GroupsWarning(UserWarning):
    """Rates per group are probably not what was meant: a group has rates but no rows, or a single row.

    Attributes
    ----------
    options : tuple of Option
        The options that the message mentions.
    """

    def __init__(self, message: str = "", *, options: Iterable[Option] = ()) -> None:
        super().__init__(message)
        self.options = tuple(options)


class NotAdaptedWarning(UserWarning):
    """A classifier has rates to adjust to, but has not been adapted yet."""


class TrainingRatesWarning(UserWarning):
    """The predictions of a classifier do not agree with the class rates for which it seems to be trained."""


class FewGroupsWarning(UserWarning):
    """Intervals were computed from so few groups of rows that they may be too short."""


class NotConvergedWarning(RuntimeWarning):
    """The solver stopped before it reached the tolerance.

    Attributes
    ----------
    options : tuple of Option
        The options that the message mentions.
    """

    def __init__(self, message: str = "", *, options: Iterable[Option] = ()) -> None:
        super().__init__(message)
        self.options = tuple(options)


def warn(warning: Warning) -> None:
    """Issue a warning that points at the line outside this package from which the call came."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("baserate.", "contextlib")):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)
