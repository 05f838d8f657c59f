"""What is known about the class rates of the target population."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from baserate.rates.base import Rates, is_grouped, is_rates
from baserate.rates.by_group import GroupedRates
from baserate.rates.ellipsoid_kinds import EllipsoidRates
from baserate.rates.estimated import EstimatedRates
from baserate.rates.interface import from_json
from baserate.rates.kinds import as_known
from baserate.rates.labelled import LabelledRates
from baserate.rates.margins import Margins, as_margins
from baserate.rates.sampled import SurveyCounts

RatesLike = ArrayLike | Mapping[Any, float] | Rates

__all__ = [
    "EllipsoidRates",
    "EstimatedRates",
    "GroupedRates",
    "LabelledRates",
    "Margins",
    "Rates",
    "RatesLike",
    "SurveyCounts",
    "as_known",
    "as_margins",
    "from_json",
    "is_grouped",
    "is_rates",
]
