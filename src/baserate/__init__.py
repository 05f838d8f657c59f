"""Adjust predicted class probabilities to the class rates of the target population.

>>> import baserate as br
>>> result = br.adjust([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7], loss="brier")
>>> result.probs.round(3)
array([[0.45, 0.55],
       [0.15, 0.85]])
"""

from typing import TYPE_CHECKING, Any

from baserate import errors, losses
from baserate.adjust import additive, adjust, adjust_many, multiplicative, prior_adjust
from baserate.adjustment import Adjustment, GroupedAdjustment, load
from baserate.analysis import shifts, theory
from baserate.analysis.advise import Advice, advise
from baserate.analysis.compare import compare
from baserate.analysis.comparison import Comparison
from baserate.analysis.drift import Drift, drift
from baserate.analysis.sensitivity import Sensitivity, sensitivity
from baserate.displays import (
    ComparisonDisplay,
    DriftDisplay,
    GeometryDisplay,
    GroupRatesDisplay,
    MovementDisplay,
    RatesDisplay,
    RateSensitivityDisplay,
    ReliabilityDisplay,
    SensitivityDisplay,
)
from baserate.errors import AssumptionRefuted, BaserateError, InfeasibleRates, NotConvergedWarning
from baserate.estimation import DrawnRows, draw_rows, estimate
from baserate.multilabel import MultilabelAdjustment, MultilabelCertificate, adjust_multilabel
from baserate.rates import Margins, Rates
from baserate.result.certificate import Certificate
from baserate.result.grouped_shift_certificate import GroupedShiftCertificate
from baserate.result.population_certificate import PopulationCertificate
from baserate.result.shift_certificate import ShiftCertificate
from baserate.tables import ArrowRows, Files

if TYPE_CHECKING:
    from baserate.estimators import AdjustedClassifier, Adjuster, register_onnx_converters

__version__ = "0.1.0"

__all__ = [
    "AdjustedClassifier",
    "Adjuster",
    "Adjustment",
    "Advice",
    "AssumptionRefuted",
    "BaserateError",
    "Certificate",
    "Comparison",
    "ComparisonDisplay",
    "DrawnRows",
    "Drift",
    "DriftDisplay",
    "ArrowRows",
    "Files",
    "GeometryDisplay",
    "GroupRatesDisplay",
    "GroupedAdjustment",
    "GroupedShiftCertificate",
    "InfeasibleRates",
    "Margins",
    "MovementDisplay",
    "MultilabelAdjustment",
    "MultilabelCertificate",
    "NotConvergedWarning",
    "PopulationCertificate",
    "RateSensitivityDisplay",
    "Rates",
    "RatesDisplay",
    "ReliabilityDisplay",
    "Sensitivity",
    "SensitivityDisplay",
    "ShiftCertificate",
    "__version__",
    "additive",
    "adjust",
    "adjust_many",
    "adjust_multilabel",
    "advise",
    "compare",
    "draw_rows",
    "drift",
    "errors",
    "estimate",
    "load",
    "losses",
    "multiplicative",
    "prior_adjust",
    "register_onnx_converters",
    "sensitivity",
    "shifts",
    "theory",
]


def __getattr__(name: str) -> Any:
    # scikit-learn takes a second to import, which users who only adjust arrays should not pay for.
    if name in ("AdjustedClassifier", "Adjuster", "register_onnx_converters"):
        from baserate import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'baserate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
