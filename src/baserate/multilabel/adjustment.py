"""The result of adjusting multi-label predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.adjustment import Adjustment
from baserate.inputs.validation import as_flag, weighted_mean
from baserate.multilabel import text
from baserate.multilabel.label_table import LabelTable, read_labels
from baserate.support.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class MultilabelCertificate:
    """The guarantee of a multi-label adjustment.

    Attributes
    ----------
    loss_reductions : dict
        The guarantee of each label that was adjusted: its mean loss falls by at least this much, whatever the true
        values are, if its rate among these rows is as stated.
    total : float
        The sum of the losses of all labels falls by at least this much, if all rates are as stated.
    mean : float
        The same for the mean over all labels. Labels that were not changed count as 0.
    confidence : float or None
        For rates from surveys: a lower bound on the confidence that all rates are as stated. None if that is an
        assumption.
    """

    loss_reductions: dict[Any, float]
    total: float
    mean: float
    confidence: float | None


@dataclass(frozen=True, eq=False, repr=False)
class MultilabelAdjustment:
    """Adjusted multi-label predictions.

    Attributes
    ----------
    probs : array or dataframe of shape (n, L)
        The adjusted probabilities, in the form of the predictions.
    labels : tuple
        Names of the labels, in the order of the columns; their numbers if they have no names.
    results : dict
        The :class:`Adjustment` of each label that was adjusted. Its classes are "absent" and "present".
    before : array of shape (L,)
        Mean probability of each label before adjustment.
    rates : array of shape (L,)
        Mean of the adjusted probabilities.
    certificate : MultilabelCertificate
    converged : bool
        Whether all rates were reached to the tolerance.
    from_logits : bool
        Whether the predictions were logits.
    columns : tuple or None
        The columns of the labels, if the predictions were a dataframe.
    """

    probs: Any
    labels: tuple[Any, ...]
    results: dict[Any, Adjustment]
    before: FloatArray
    rates: FloatArray
    from_logits: bool
    columns: tuple[Any, ...] | None

    @classmethod
    def of(
        cls, table: LabelTable, results: dict[Any, Adjustment], sample_weight: ArrayLike | None
    ) -> MultilabelAdjustment:
        """The result for the predictions of a table, from the adjustments of its labels."""
        left = {
            label: weighted_mean(table.probabilities(j), sample_weight)
            for j, label in enumerate(table.labels)
            if label not in results
        }
        return cls(
            probs=table.with_columns([results[name].probs if name in results else None for name in table.labels]),
            labels=table.labels,
            results=results,
            before=np.array([left[name] if name in left else results[name].before[1] for name in table.labels]),
            rates=np.array([left[name] if name in left else results[name].rates[1] for name in table.labels]),
            from_logits=table.from_logits,
            columns=None if table.frame is None else table.frame.columns,
        )

    @property
    def certificate(self) -> MultilabelCertificate:
        falls = {label: one.certificate.loss_reduction for label, one in self.results.items()}
        stated = [one.certificate.confidence for one in self.results.values()]
        doubts = [1.0 - confidence for confidence in stated if confidence is not None]
        total = float(sum(falls.values()))
        confidence = max(1.0 - sum(doubts), 0.0) if doubts else None  # however the surveys depend on each other
        return MultilabelCertificate(falls, total, total / len(self.labels), confidence)

    @property
    def converged(self) -> bool:
        return all(one.converged for one in self.results.values())

    def apply(self, new_probs: Any, *, from_logits: bool | None = None) -> Any:
        """Adjust other rows by the same shifts.

        Nothing is guaranteed for rows other than the fitted ones; see :meth:`Adjustment.apply`.

        Parameters
        ----------
        new_probs : array-like or dataframe of shape (n, L), or one row of shape (L,)
            Columns of a dataframe are matched by name; other columns are kept.
        from_logits : bool, optional
            Whether these are logits; by default as in the fit.

        Examples
        --------
        >>> import baserate as br
        >>> result = br.adjust_multilabel([[0.9, 0.2], [0.6, 0.7], [0.3, 0.1]], [0.5, 0.2])
        >>> result.apply([0.5, 0.5]).round(3)
        array([0.366, 0.277])
        """
        logits = self.from_logits if from_logits is None else as_flag("from_logits", from_logits)
        columns = self.columns
        if columns is None and self.labels != tuple(range(len(self.labels))):  # else the columns have no names
            columns = self.labels
        table = read_labels(
            new_probs, from_logits=logits, classes=self.labels, columns=columns, argument="new_probs", fitted=True
        )
        results = [self.results.get(label) for label in self.labels]
        return table.with_columns(
            [None if one is None else one.apply(table.column(j), from_logits=logits) for j, one in enumerate(results)]
        )

    def __repr__(self) -> str:
        return text.summary(self).text()

    def _repr_html_(self) -> str:
        return text.summary(self).html()
