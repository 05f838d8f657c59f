"""Proper losses, each a Bregman generator. See :mod:`baserate.losses.base` for the conventions.

A new loss is one new file with a class that :func:`register` decorates, in this folder or anywhere else; see
``docs/new-loss.md``.
"""

from baserate.losses.base import NONNEGATIVE, REAL, Domain, Loss
from baserate.losses.brier import Brier
from baserate.losses.log import Log
from baserate.losses.power import Power
from baserate.losses.quadratic import Quadratic, WeightedBrier
from baserate.losses.ranked import RankedProbability
from baserate.losses.registry import as_loss, register, registered
from baserate.losses.separable import Separable
from baserate.losses.spherical import Spherical

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
