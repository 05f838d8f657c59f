"""What can go wrong, as types. Each message says what was wrong, where, and what to do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence


class BaserateError(ValueError):
    """Base of all errors of this package."""


class BadProbabilities(BaserateError):
    """The predictions are not what was promised."""


class BadRates(BaserateError):
    """The class rates are not a distribution over the classes."""


class BadWeights(BaserateError):
    """The row weights cannot be used."""


class BadLabels(BaserateError):
    """The labels do not fit the predictions."""


class BadOption(BaserateError):
    """An option has a value that is not offered."""


class BadLoss(BaserateError):
    """The loss is unknown, or its generator does not define a proper loss."""


class BadFile(BaserateError):
    """A file does not hold what it should, or not in a form that this version can trust."""


class ImpossibleShift(BaserateError):
    """A set of rows cannot be shifted, or its rates misstated, in that way by that amount.

    Attributes
    ----------
    cause : str
        The kind of obstacle in a few words, the same for all rows that meet it; made for counting.
    """

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message, cause)
        self.cause = cause

    def __str__(self) -> str:
        return str(self.args[0])


class InfeasibleRates(BaserateError):
    """No predictions with the zeros of these have the wanted rates as their mean.

    Attributes
    ----------
    classes : list
        The classes that are blocked: together they can get at most ``reachable``, but want ``wanted``.
    reachable, wanted : float
    """

    def __init__(self, message: str, classes: Sequence[object], reachable: float, wanted: float) -> None:
        super().__init__(message)
        self.classes = list(classes)
        self.reachable = reachable
        self.wanted = wanted

    def __reduce__(self) -> tuple[object, ...]:
        # An error that is raised elsewhere comes back as it was; by default only its message would.
        return type(self), (*self.args, self.classes, self.reachable, self.wanted)


class NotAdaptedWarning(UserWarning):
    """A classifier has rates to adjust to, but has not been adapted yet."""


class NotConvergedWarning(RuntimeWarning):
    """The solver stopped before it reached the tolerance."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn, and point at the line outside this package from which the call came."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("baserate.", "contextlib")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
