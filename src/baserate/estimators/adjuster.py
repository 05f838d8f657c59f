"""A scikit-learn transformer that adjusts predicted probabilities."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from baserate.adjustment import as_adjustment
from baserate.estimators.applying import apply_adjustment
from baserate.inputs.dataframes import is_dataframe
from baserate.inputs.validation import as_weights
from baserate.losses.base import Loss
from baserate.rates import Rates
from baserate.solving import adjusted


class Adjuster(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Adjust a matrix of predicted probabilities, as a transformer.

    ``fit`` learns the shift from predictions for the target population; ``transform`` applies it to any rows.

    Parameters
    ----------
    rates : array-like of shape (k,), dict, Series or Rates, optional
        Class rates of the rows that are passed to ``fit``; class names are the names of the columns. None leaves the
        predictions unchanged, as a baseline in a grid search.
    loss, bounded, from_logits, normalize, zeros, tol, max_passes
        As in :func:`adjust`.
    unseen : "raise" or "pooled", default "raise"
        For rates per group: what ``transform`` does about groups that were not there in ``fit``; see
        :meth:`GroupedAdjustment.apply`.

    Attributes
    ----------
    adjustment_ : Adjustment or None
        The fitted adjustment with its certificate; None if ``rates`` is None.
    n_features_in_ : int
        Number of classes.
    feature_names_in_ : array of str
        Names of the classes, if the predictions were a dataframe.

    Examples
    --------
    >>> import baserate as br
    >>> adjuster = br.Adjuster(rates=[0.3, 0.7]).fit([[0.7, 0.3], [0.4, 0.6]])
    >>> adjuster.transform([[0.5, 0.5]]).round(3)
    array([[0.241, 0.759]])
    """

    def __init__(
        self,
        rates: Any = None,
        *,
        loss: str | Loss = "log",
        bounded: bool = True,
        from_logits: bool = False,
        normalize: bool = False,
        zeros: str | float = "keep",
        unseen: str = "raise",
        tol: float = 1e-10,
        max_passes: int = 500,
    ) -> None:
        self.rates = rates
        self.loss = loss
        self.bounded = bounded
        self.from_logits = from_logits
        self.normalize = normalize
        self.zeros = zeros
        self.unseen = unseen
        self.tol = tol
        self.max_passes = max_passes

    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None, groups: Any = None) -> Self:
        """Learn the shift.

        Parameters
        ----------
        X : array-like or dataframe of shape (n, k)
            Predicted probabilities.
        y : ignored
        sample_weight : array-like of shape (n,), optional
        groups : dataframe, dict of arrays or array, optional
            The groups of the rows, for rates per group; see :func:`adjust`.
        """
        raw = self._read(X, reset=True)
        as_weights(sample_weight, len(raw))
        self.adjustment_ = None
        rates = self.rates
        if rates is None and (self.normalize or self.from_logits):
            rates = Rates.between(None, None)  # every mean is possible: rows are read, but not adjusted
        if rates is not None:
            result = adjusted(
                raw,
                rates,
                loss=self.loss,
                bounded=self.bounded,
                groups=groups,
                sample_weight=sample_weight,
                from_logits=self.from_logits,
                normalize=self.normalize,
                zeros=self.zeros,
                classes=list(X.columns) if is_dataframe(X) and hasattr(X, "columns") else None,
                tol=self.tol,
                max_passes=self.max_passes,
                keep_rows=False,
            )
            self.adjustment_ = as_adjustment(result.without_rows())
        return self

    def transform(self, X: Any, groups: Any = None) -> Any:
        """The adjusted probabilities of any rows.

        Parameters
        ----------
        X : array-like or dataframe of shape (n, k)
        groups : dataframe, dict of arrays or array, optional
            The groups of the rows, for rates per group.
        """
        check_is_fitted(self)
        raw = self._read(X, reset=False)
        if self.adjustment_ is None:
            return raw.copy()
        return apply_adjustment(self.adjustment_, raw, groups, self.unseen, normalize=self.normalize)

    def fit_transform(
        self, X: Any, y: object = None, sample_weight: ArrayLike | None = None, groups: Any = None
    ) -> Any:
        """Learn the shift from rows, and adjust the same rows."""
        # Not inherited: there, ``transform`` would not get the groups.
        return self.fit(X, y, sample_weight=sample_weight, groups=groups).transform(X, groups=groups)

    def _read(self, X: Any, reset: bool) -> NDArray[Any]:
        # A logit of -inf is a probability of 0. Other invalid logits are reported later, with row and column.
        checks = {"ensure_all_finite": not self.from_logits, "ensure_non_negative": not self.from_logits}
        raw = validate_data(self, X, reset=reset, ensure_min_features=2 if reset else 1, **checks)
        return np.asarray(raw)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "adjustment_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = not self.from_logits
        return tags
