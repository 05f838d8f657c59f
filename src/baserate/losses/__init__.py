"""Proper losses, each defined by its Bregman generator. See :mod:`baserate.losses.base` for the conventions.

To add a loss, write a subclass of :class:`Loss` and decorate it with :func:`register`, in this folder or in your own
code; see ``docs/new-loss.md``.
"""

from baserate.losses.base import NONNEGATIVE, REAL, Domain, Loss
from baserate.losses.brier import Brier
from baserate.losses.log import Log
from baserate.losses.power import Power
from baserate.losses.quadratic import Quadratic, WeightedBrier
from baserate.losses.ranked import RankedProbability
from baserate.losses.registry import as_loss, register, registered
from baserate.losses.spherical import Spherical
from baserate.losses.user_separable import Separable

__all__ = [
    "NONNEGATIVE",
    "REAL",
    "Brier",
    "Domain",
    "Log",
    "Loss",
    "Power",
    "Quadratic",
    "RankedProbability",
    "Separable",
    "Spherical",
    "WeightedBrier",
    "as_loss",
    "register",
    "registered",
]
