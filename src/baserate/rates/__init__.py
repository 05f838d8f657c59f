"""What is known about the class rates of the place where a classifier is used."""

from baserate.rates.base import Rates, as_known, from_json
from baserate.rates.kinds import SurveyCounts

__all__ = ["Rates", "SurveyCounts", "as_known", "from_json"]
