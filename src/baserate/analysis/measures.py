"""What a comparison measures: proper losses and metrics, each as a mean of contributions of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from baserate.errors import BadOption
from baserate.inputs.validation import quoted_name
from baserate.losses.base import Loss, short_name
from baserate.support.arrays import FloatArray

_N_BINS = 15  # Of the expected calibration error, as in most of the literature.


class Measure(ABC):
    """A number that describes predictions, given their labels.

    Each is a weighted mean of contributions of the rows. A measure that is not a mean by its definition is linearised:
    the contribution of a row is the value plus the influence of the row on it. So intervals are computed in the same
    way for all measures.
    """

    name: str
    higher_is_better: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """The head of a table."""
        return self.name

    @abstractmethod
    def contributions(self, p: FloatArray, targets: FloatArray, weights: FloatArray) -> FloatArray:
        """One number per row, whose weighted mean is the value; NaN where it is not defined.

        Parameters
        ----------
        p : array of shape (n, k)
            Predictions.
        targets : array of shape (n, k)
            One-hot labels, or class probabilities.
        weights : array of shape (n,)
            Row weights with sum 1.
        """


@dataclass(frozen=True)
class MeanLoss(Measure):
    """The mean of a proper loss."""

    loss: Loss

    @property
    def name(self) -> str:  # type: ignore[override]  # it follows from the loss
        return short_name(self.loss)

    @property
    def title(self) -> str:
        return f"mean {self.name} loss"

    def contributions(self, p: FloatArray, targets: FloatArray, weights: FloatArray) -> FloatArray:
        return row_losses(self.loss, p, targets)


class Accuracy(Measure):
    """Share of the rows whose most probable class is the true one."""

    name = "accuracy"
    higher_is_better = True

    def contributions(self, p: FloatArray, targets: FloatArray, weights: FloatArray) -> FloatArray:
        return np.take_along_axis(targets, p.argmax(axis=1)[:, None], axis=1)[:, 0]


class AUC(Measure):
    """Area under the ROC curve; for more than two classes the mean over classes, each against the rest.

    It is ``sklearn.metrics.roc_auc_score`` with ``multi_class="ovr"``, except that classes without a label are left
    out. The influence of a row is that of DeLong, DeLong and Clarke-Pearson (1988).
    """

    name = "auc"
    higher_is_better = True

    def contributions(self, p: FloatArray, targets: FloatArray, weights: FloatArray) -> FloatArray:
        positive, negative = weights @ targets, weights @ (1.0 - targets)
        classes = np.flatnonzero((positive > 0) & (negative > 0))
        if not classes.size:
            return np.full(len(p), np.nan)
        return np.asarray(np.mean([_auc_of_class(p[:, j], targets[:, j], weights) for j in classes], axis=0))


def _auc_of_class(score: FloatArray, positive: FloatArray, weights: FloatArray) -> FloatArray:
    _, level = np.unique(score, return_inverse=True)
    at_level = [np.bincount(level, weights * share) for share in (positive, 1.0 - positive)]
    positives, negatives = (counts.sum() for counts in at_level)
    # The share of the other class that a row is on the right side of; ties count half.
    above = ((np.cumsum(at_level[1]) - 0.5 * at_level[1]) / negatives)[level]
    below = (1.0 - (np.cumsum(at_level[0]) - 0.5 * at_level[0]) / positives)[level]
    auc = float((weights * positive) @ above / positives)
    return auc + positive * (above - auc) / positives + (1.0 - positive) * (below - auc) / negatives


class CalibrationError(Measure):
    """Expected calibration error of the most probable class: 15 bins of equal width.

    It is the sum over bins of ``|confidence - accuracy|`` times the share of the rows in the bin. Chance alone makes it
    more than 0, also for calibrated predictions, and more so with few rows.
    """

    name = "ece"

    @property
    def title(self) -> str:
        return "expected calibration error"

    def contributions(self, p: FloatArray, targets: FloatArray, weights: FloatArray) -> FloatArray:
        confidence, correct = p.max(axis=1), Accuracy().contributions(p, targets, weights)
        bins = np.clip(np.ceil(confidence * _N_BINS).astype(np.intp) - 1, 0, _N_BINS - 1)
        sign = np.sign(np.bincount(bins, weights * (confidence - correct), minlength=_N_BINS))
        return np.asarray(sign[bins] * (confidence - correct))


@dataclass(frozen=True, eq=False)
class MeanCost(Measure):
    """Mean cost of the decisions that have the lowest expected cost according to the predictions.

    ``costs[j, d]`` is the cost of decision d for a row of class j.
    """

    costs: FloatArray
    name = "cost"

    @property
    def title(self) -> str:
        return "mean cost"

    def contributions(self, p: FloatArray, targets: FloatArray, weights: FloatArray) -> FloatArray:
        decisions = (p @ self.costs).argmin(axis=1)
        return np.take_along_axis(targets @ self.costs, decisions[:, None], axis=1)[:, 0]


_METRICS = {metric.name: metric for metric in (Accuracy(), AUC(), CalibrationError())}


def as_metrics(metrics: str | Sequence[str], costs: ArrayLike | None, n_classes: int) -> list[Measure]:
    """The metrics with these names, and the mean cost if there is a matrix of costs."""
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    for name in names:
        if not isinstance(name, str) or name not in _METRICS:
            known = ", ".join(map(repr, _METRICS))
            raise BadOption(f"metrics contains {quoted_name(name)}; the metrics are {known}; for costs pass costs=")
    chosen: list[Measure] = [_METRICS[name] for name in dict.fromkeys(names)]
    if costs is not None:
        matrix = np.asarray(costs, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != n_classes or not matrix.size or not np.isfinite(matrix).all():
            raise BadOption(
                f"costs must be finite numbers with one row per true class and one column per decision, shape "
                f"({n_classes}, number of decisions), but have shape {matrix.shape}"
            )
        chosen.append(MeanCost(matrix))
    return chosen


def row_losses(loss: Loss, p: FloatArray, targets: FloatArray) -> FloatArray:
    """The loss of each row; NaN for predictions outside the domain of the loss."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = loss.divergence(p, targets)
    return np.where((p < loss.domain.low).any(axis=1), np.nan, rows)
