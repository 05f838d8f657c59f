"""Adjust predicted class probabilities to the class rates of the place where they are used.

>>> import baserate as br
>>> result = br.adjust([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7], loss="brier")
>>> result.probs.round(3)
array([[0.45, 0.55],
       [0.15, 0.85]])
"""

from baserate import errors, losses, theory
from baserate.adjust import additive, adjust, multiplicative, prior_adjust
from baserate.errors import BaserateError, InfeasibleRates, NotConvergedWarning
from baserate.plots import SensitivityDisplay
from baserate.rates import Rates
from baserate.result import Adjustment, Certificate, load
from baserate.sensitivity import Sensitivity, sensitivity

__version__ = "0.1.0"

__all__ = [
    "Adjustment",
    "BaserateError",
    "Certificate",
    "InfeasibleRates",
    "NotConvergedWarning",
    "Rates",
    "Sensitivity",
    "SensitivityDisplay",
    "__version__",
    "additive",
    "adjust",
    "errors",
    "load",
    "losses",
    "multiplicative",
    "prior_adjust",
    "sensitivity",
    "theory",
]
