"""Features of the predictions whose means identify the class rates, and their moments in each class.

The features are posteriors, calibrated and re-weighted to a first estimate of the new rates, and one more: the sum of
their squares, which says how confident they are. Calibration uses the labels of the validation rows, so it is
cross-fitted: the features of each fold come from a calibration without it, and those of the batch are means over the
folds.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from baserate.estimation.batch import Batch
from baserate.estimation.calibration import calibrated, fit_calibration
from baserate.estimation.initial_rates import estimate_initial_rates
from baserate.support.arrays import FloatArray, IndexArray

FOLDS = 5
_MODEL_ROWS = 10.0  # Weight of the covariance that the calibrated model predicts, in rows.
_SPREAD = 0.02  # Share of equal rates in those to which posteriors are re-weighted.
_UNSEEN = 0.75
"""Confusions that a class may have without one being seen in validation, in rows.

Features of accurate classifiers are nearly constant within a class but for rare errors. A sample without the error of
some kind has too small a variance, and normal intervals would be too short."""


class FeatureSums(NamedTuple):
    """Sums of the features over rows, shape (k + 1,)."""

    sums: FloatArray


class ClassMoments(NamedTuple):
    """Moments of m features in k classes.

    Attributes
    ----------
    batch : array of shape (m,)
        Means of the features in the batch.
    means : array of shape (m, k)
        Means in each class of the validation data.
    covariances : array of shape (k, m, m)
        Covariance matrices within each class.
    between : array of shape (k, m, m)
        Mean scatter of the means of the other classes around the mean of each class: by how much the features change,
        squared, if a row of the class looks like one of another class.
    counts : array of shape (k,)
        Number of validation rows of each class.
    initial_rates : array of shape (k,)
        A first estimate of the rates of the batch.
    """

    batch: FloatArray
    means: FloatArray
    covariances: FloatArray
    between: FloatArray
    counts: FloatArray
    initial_rates: FloatArray


def class_moments(batch: Batch, logs: FloatArray, y: IndexArray) -> ClassMoments:
    """The moments of the batch and of validation rows with these logarithms and labels."""
    k = logs.shape[1]
    counts = np.bincount(y, minlength=k).astype(np.float64)
    rates = (counts + 0.5) / (counts.sum() + 0.5 * k)
    theta = fit_calibration(logs, y)
    initial = estimate_initial_rates(batch, theta, rates)
    # Posteriors for a class of rate 0 would all be 0, which says nothing about its rate.
    offset = np.log(((1 - _SPREAD) * initial + _SPREAD / k) / rates)
    folds = _folds(y, counts)
    fitted = [fit_calibration(logs[folds != f], y[folds != f], theta, steps=2) for f in range(FOLDS)]
    features = np.empty((len(y), k + 1))
    for f, own in enumerate(fitted):
        features[folds == f] = features_of(calibrated(logs[folds == f], own, offset))
    sums = batch.sum(partial(_summed, np.array(fitted), offset)).sums
    means, covariances = _within_classes(features, y, counts, calibrated(logs, theta))
    between = _scatter_between_classes(means)
    covariances += (_UNSEEN / counts)[:, None, None] * between
    return ClassMoments(np.asarray(sums) / batch.n_rows, means, covariances, between, counts, initial)


def features_of(posteriors: FloatArray) -> FloatArray:
    """Posteriors, and the sum of their squares, shape (n, k + 1)."""
    return np.column_stack([posteriors, np.einsum("ij,ij->i", posteriors, posteriors)])


def _summed(fitted: FloatArray, offset: FloatArray, logs: FloatArray) -> FeatureSums:
    total = np.zeros(logs.shape[1] + 1)
    for theta in fitted:
        posteriors = calibrated(logs, theta, offset)
        total[:-1] += np.ones(len(logs)) @ posteriors
        total[-1] += np.vdot(posteriors, posteriors)
    return FeatureSums(total / len(fitted))


def _folds(y: IndexArray, counts: FloatArray) -> IndexArray:
    """The fold of each row, such that each class is spread evenly over the folds in the order of the rows."""
    order = np.argsort(y, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.intp)
    folds = np.empty(len(y), dtype=np.intp)
    folds[order] = (np.arange(len(y)) - starts[y[order]]) % FOLDS
    return folds


def _within_classes(
    features: FloatArray, y: IndexArray, counts: FloatArray, soft: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means (m, k) and covariance matrices (k, m, m) within the classes.

    A class with few rows borrows from the rows of other classes, as far as the model says that they could be its own.
    ``soft`` are calibrated predictions of the rows.
    """
    m, k = features.shape[1], len(counts)
    means, covariances = np.empty((m, k)), np.empty((k, m, m))
    order = np.argsort(y, kind="stable")
    parts = np.split(features[order], np.cumsum(counts)[:-1].astype(np.intp))
    for c, part in enumerate(parts):
        means[:, c] = part.mean(axis=0)
        centred = part - means[:, c]
        weights = soft[:, c] / soft[:, c].sum()
        around = features - weights @ features
        model = (around * weights[:, None]).T @ around
        covariances[c] = (centred.T @ centred + _MODEL_ROWS * model) / (counts[c] - 1 + _MODEL_ROWS)
    return means, covariances


def _scatter_between_classes(means: FloatArray) -> FloatArray:
    """Mean scatter of the means of the other classes around the mean of each class; shape (k, m, m)."""
    differences = means.T[:, None, :] - means.T[None, :, :]
    return np.asarray(differences.transpose(0, 2, 1) @ differences / (len(differences) - 1))
