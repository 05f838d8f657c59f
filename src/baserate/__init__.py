"""Adjust predicted class probabilities to the class rates of the target population.

>>> import baserate as br
>>> result = br.adjust([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7], loss="brier")
>>> result.probs.round(3)
array([[0.45, 0.55],
       [0.15, 0.85]])
"""

import importlib
from typing import TYPE_CHECKING, Any

from baserate import errors, losses
from baserate.adjust import additive, adjust, adjust_many, multiplicative, prior_adjust
from baserate.adjustment import Adjustment, load
from baserate.errors import AssumptionRefuted, BaserateError, InfeasibleRates, NotConvergedWarning
from baserate.rates import Margins, Rates
from baserate.result.certificate import Certificate

if TYPE_CHECKING:  # the names that ``__getattr__`` loads
    from baserate.adjustment.grouped import GroupedAdjustment
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
    from baserate.estimation import DrawnRows, draw_rows, estimate
    from baserate.estimators import AdjustedClassifier, Adjuster, register_onnx_converters
    from baserate.multilabel import MultilabelAdjustment, MultilabelCertificate, adjust_multilabel
    from baserate.result.grouped_shift_certificate import GroupedShiftCertificate
    from baserate.result.population_certificate import PopulationCertificate
    from baserate.result.shift_certificate import ShiftCertificate
    from baserate.tables import ArrowRows, Files

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


_LOADED_WHEN_USED = {
    "baserate.adjustment.grouped": ("GroupedAdjustment",),
    "baserate.analysis.advise": ("Advice", "advise"),
    "baserate.analysis.compare": ("compare",),
    "baserate.analysis.comparison": ("Comparison",),
    "baserate.analysis.drift": ("Drift", "drift"),
    "baserate.analysis.sensitivity": ("Sensitivity", "sensitivity"),
    "baserate.displays": (
        "ComparisonDisplay",
        "DriftDisplay",
        "GeometryDisplay",
        "GroupRatesDisplay",
        "MovementDisplay",
        "RateSensitivityDisplay",
        "RatesDisplay",
        "ReliabilityDisplay",
        "SensitivityDisplay",
    ),
    "baserate.estimation": ("DrawnRows", "draw_rows", "estimate"),
    "baserate.estimators": ("AdjustedClassifier", "Adjuster", "register_onnx_converters"),
    "baserate.multilabel": ("MultilabelAdjustment", "MultilabelCertificate", "adjust_multilabel"),
    "baserate.result.grouped_shift_certificate": ("GroupedShiftCertificate",),
    "baserate.result.population_certificate": ("PopulationCertificate",),
    "baserate.result.shift_certificate": ("ShiftCertificate",),
    "baserate.tables": ("ArrowRows", "Files"),
}
_MODULE_OF = {name: module for module, names in _LOADED_WHEN_USED.items() for name in names}
_MODULES = {
    name: f"baserate.{name}" for name in ("analysis", "displays", "estimation", "estimators", "multilabel", "tables")
}
_MODULES.update(shifts="baserate.analysis.shifts", theory="baserate.analysis.theory")


def __getattr__(name: str) -> Any:
    # Users who only adjust arrays should not wait for modules that they do not use. scikit-learn takes a second.
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'baserate' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
