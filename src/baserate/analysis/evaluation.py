"""The contributions of all rows to all measures, for each procedure, and how they depend on the fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from baserate.analysis.candidates import Candidate, are_rates_of_labels
from baserate.analysis.comparison import NEW_ROWS
from baserate.analysis.cross_fitting import N_FOLDS, CrossFit, LabelledRows, as_folds, cross_fit, fold_means
from baserate.analysis.measures import Measure
from baserate.errors import BadOption, BadRates, InfeasibleRates
from baserate.progress import Progress
from baserate.rates import Rates
from baserate.support.arrays import FloatArray, IndexArray

_MAX_ROWS_OF_FOLDS = 1000  # For the target "these rows", where the folds only correct the variance.


class Evaluation(NamedTuple):
    """What is known about each of p procedures, by l measures.

    Attributes
    ----------
    predictions : dict of arrays of shape (n, k)
        By the name of the procedure.
    contributions : array of shape (p, l, n)
    fold_means : array of shape (p, l, K, K)
        See :class:`CrossFit`. For predictions that do not depend on the other rows, the rows of the table are equal.
    share : float
        Share of the rows that the folds have.
    notes : list of str
        Which procedures could not be cross-fitted, and why.
    """

    predictions: dict[str, FloatArray]
    contributions: FloatArray
    fold_means: FloatArray
    share: float
    notes: list[str]


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Evaluates procedures on labelled rows.

    Attributes
    ----------
    rows : LabelledRows
    known : Rates
    measures : sequence of Measure
    target : str
    seed : int
        Seed of the folds.
    options : dict
        Options for the fits.
    progress : Progress
    """

    rows: LabelledRows
    known: Rates
    measures: Sequence[Measure]
    target: str
    seed: int
    options: Mapping[str, Any]
    progress: Progress

    def evaluate(self, predictions: Mapping[str, FloatArray], fitted: Sequence[Candidate]) -> Evaluation:
        """Evaluate predictions; those of the procedures in ``fitted`` were fitted to these rows."""
        part = self._rows_of_folds()
        rows = self.rows.at(part)
        folds = as_folds(rows, N_FOLDS, self.seed)
        if folds.max() == 0:
            return self._without_folds(predictions)
        shown, notes = dict(predictions), []
        contributions = {name: self._contributions(p) for name, p in predictions.items()}
        tables = {name: self._fixed_means(values[:, part], rows, folds) for name, values in contributions.items()}
        for candidate in fitted:
            name = candidate.name
            try:
                found = self._cross_fitted(candidate, rows, folds)
            except (InfeasibleRates, BadRates) as error:
                if self.target == NEW_ROWS:
                    notes.append(f"{name}: not possible without a tenth of the rows: {error}")
                    contributions[name] = np.full_like(contributions[name], np.nan)
                continue
            tables[name] = found.means
            if self.target == NEW_ROWS:
                shown[name], contributions[name] = found.probs, found.contributions
        share = len(rows.weights) / len(self.rows.weights)
        return Evaluation(shown, np.stack([*contributions.values()]), np.stack([*tables.values()]), share, notes)

    def _without_folds(self, predictions: Mapping[str, FloatArray]) -> Evaluation:
        """The evaluation of a single row, or of rows that are all in one group."""
        if self.target == NEW_ROWS:
            raise BadOption(f"the target {NEW_ROWS!r} needs at least 2 rows of weight above 0")
        contributions = np.stack([self._contributions(p) for p in predictions.values()])
        return Evaluation(dict(predictions), contributions, np.zeros((*contributions.shape[:2], 2, 2)), 0.0, [])

    def _fixed_means(self, contributions: FloatArray, rows: LabelledRows, folds: IndexArray) -> FloatArray:
        """The table of fold means of predictions that do not depend on the other rows."""
        means = fold_means(contributions, rows.weights, folds)
        return np.repeat(means[:, None, :], means.shape[1], axis=1)

    def _rows_of_folds(self) -> Any:
        """All rows, or a random part of them if the folds only correct the variance."""
        n, groups = len(self.rows.weights), self.rows.groups
        if self.target == NEW_ROWS or n <= _MAX_ROWS_OF_FOLDS:
            return slice(None)
        rng = np.random.default_rng(self.seed)
        if groups is None:
            return np.sort(rng.permutation(n)[:_MAX_ROWS_OF_FOLDS])
        order = rng.permutation(int(groups.max()) + 1)
        enough = np.searchsorted(np.cumsum(np.bincount(groups)[order]), _MAX_ROWS_OF_FOLDS) + 1
        return np.flatnonzero(np.isin(groups, order[: max(int(enough), N_FOLDS)]))

    def _cross_fitted(self, candidate: Candidate, rows: LabelledRows, folds: IndexArray) -> CrossFit:
        label_rates = self.rows.weights @ self.rows.targets
        from_labels = are_rates_of_labels(self.known, label_rates, len(self.rows.weights))
        return cross_fit(
            candidate, rows, folds, self.known, self.measures, self.options, self.progress, from_labels=from_labels
        )

    def _contributions(self, p: FloatArray) -> FloatArray:
        return np.stack([one.contributions(p, self.rows.targets, self.rows.weights) for one in self.measures])
