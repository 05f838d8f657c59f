"""scikit-learn's interface: a transformer of probabilities, and a classifier that can be adapted to new class rates."""

from baserate.estimators.scikit_learn import AdjustedClassifier, Adjuster

__all__ = ["AdjustedClassifier", "Adjuster"]
