"""Estimators for scikit-learn: a transformer of probabilities, and a classifier that adapts to new class rates."""

from baserate.estimators.adjusted_classifier import AdjustedClassifier
from baserate.estimators.adjuster import Adjuster
from baserate.estimators.onnx_converters import register_onnx_converters

__all__ = ["AdjustedClassifier", "Adjuster", "register_onnx_converters"]
