"""What is known about the class rates of the target population."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from baserate.rates.base import Rates, from_json
from baserate.rates.kinds import SurveyCounts, as_known

RatesLike = ArrayLike | Mapping[Any, float] | Rates

__all__ = ["Rates", "RatesLike", "SurveyCounts", "as_known", "from_json"]
