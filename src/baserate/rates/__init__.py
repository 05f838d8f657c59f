"""What is known about the class rates of the place where a classifier is used."""

from baserate.rates import kinds as _kinds  # noqa: F401  (each kind makes itself known)
from baserate.rates.base import Rates, as_known, from_json

__all__ = ["Rates", "as_known", "from_json"]
