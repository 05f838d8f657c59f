"""The verb for multi-label predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from baserate.adjust import adjust_many
from baserate.adjustment import Adjustment
from baserate.errors import BadLoss, BadOption, BaserateError
from baserate.inputs.validation import as_flag, as_weights, quoted_name
from baserate.losses.base import Loss
from baserate.multilabel.adjustment import MultilabelAdjustment
from baserate.multilabel.label_rates import rates_by_label
from baserate.multilabel.label_table import read_labels


def adjust_multilabel(
    probs: Any,
    rates: Any,
    *,
    loss: str | Loss = "log",
    bounded: bool = True,
    sample_weight: ArrayLike | None = None,
    from_logits: bool = False,
    zeros: str | float = "keep",
    classes: Sequence[Any] | None = None,
    columns: str | Sequence[Any] | None = None,
    tol: float = 1e-10,
    max_passes: int = 500,
) -> MultilabelAdjustment:
    """Adjust the probabilities of labels that can occur together, each label to its own rate.

    Each column is a binary problem: the probability that the label is present. A row may have any number of labels, so
    rows need not sum to 1. Each label is adjusted as by :func:`adjust` on the columns ``1 - p`` and ``p``.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, L)
        Probability of each label. For a dataframe (pandas, polars, pyarrow) the result is a dataframe of the same kind
        with its index, column names and dtypes.
    rates : number, sequence, dict, Series or Rates
        The rate of each label among these rows: one number per label, in the order of the columns or by label name, or
        one number for all. Instead of a number, a label may have a pair ``(low, high)`` of bounds, or a
        :class:`baserate.Rates` of two classes, "absent" and "present". A label that is missing from a dict, or whose
        entry is None, is not changed.
    loss, bounded, sample_weight, zeros, tol, max_passes
        As in :func:`adjust`, for each label.
    from_logits : bool, default False
        ``probs`` holds the logit of each label, ``log(p / (1 - p))``. The result holds probabilities.
    classes : sequence, optional
        Names of the labels, in the order of the columns; by default the column names of a dataframe, or numbers.
    columns : str or sequence, optional
        The columns of a dataframe that hold the labels, if there are others: names, or a pattern such as ``"p_*"``,
        where ``*`` matches the label name. The other columns are kept.

    Returns
    -------
    MultilabelAdjustment

    Raises
    ------
    InfeasibleRates
        If probabilities of exactly 0 or 1 make the rate of a label impossible. The message names the label.
    BaserateError
        For other invalid input; always a ``ValueError``.

    Examples
    --------
    >>> import baserate as br
    >>> probs = [[0.9, 0.2, 0.1], [0.6, 0.7, 0.1], [0.3, 0.1, 0.4]]
    >>> result = br.adjust_multilabel(probs, {"news": 0.5, "sport": (0.1, 0.2)}, classes=["news", "sport", "art"])
    >>> result.probs.round(3)
    array([[0.838, 0.087, 0.1  ],
           [0.464, 0.472, 0.1  ],
           [0.198, 0.041, 0.4  ]])
    >>> {label: round(fall, 4) for label, fall in result.certificate.loss_reductions.items()}
    {'news': 0.0276, 'sport': 0.0617}
    """
    as_logits = as_flag("from_logits", from_logits)
    table = read_labels(probs, from_logits=as_logits, classes=classes, columns=columns)
    known = rates_by_label(rates, table.labels)
    as_weights(sample_weight, len(table.raw))  # checked here, because the error is not about one label
    chosen = [j for j, label in enumerate(table.labels) if label in known]
    outcomes = adjust_many(
        [{"probs": table.column(j), "rates": known[table.labels[j]]} for j in chosen],
        errors="keep",
        loss=loss,
        bounded=bounded,
        sample_weight=sample_weight,
        from_logits=as_logits,
        zeros=zeros,
        classes=("absent", "present"),
        tol=tol,
        max_passes=max_passes,
    )
    results = {table.labels[j]: _or_raise(one, table.labels[j]) for j, one in zip(chosen, outcomes, strict=True)}
    return MultilabelAdjustment.of(table, results, sample_weight)


def _or_raise(outcome: Adjustment | BaserateError, label: Any) -> Adjustment:
    """The adjustment of a label; if it is an error, raise it, with the name of the label if it is about that."""
    if isinstance(outcome, Adjustment):
        return outcome
    if not isinstance(outcome, (BadOption, BadLoss)):
        outcome.args = (f"label {quoted_name(label)}: {outcome}", *outcome.args[1:])
    raise outcome
