"""Displays in the style of scikit-learn: an object holds the data, and ``plot`` draws it. They need matplotlib."""

from baserate.displays.comparison import ComparisonDisplay
from baserate.displays.drift import DriftDisplay
from baserate.displays.geometry import GeometryDisplay
from baserate.displays.group_rates import GroupRatesDisplay
from baserate.displays.movement import MovementDisplay
from baserate.displays.rate_sensitivity import RateSensitivityDisplay
from baserate.displays.rates import RatesDisplay
from baserate.displays.reliability import ReliabilityDisplay
from baserate.displays.sensitivity import SensitivityDisplay

__all__ = [
    "ComparisonDisplay",
    "DriftDisplay",
    "GeometryDisplay",
    "GroupRatesDisplay",
    "MovementDisplay",
    "RateSensitivityDisplay",
    "RatesDisplay",
    "ReliabilityDisplay",
    "SensitivityDisplay",
]
