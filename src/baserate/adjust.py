"""The verbs: adjust predictions to class rates."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from baserate.adjustment import Adjustment, as_adjustment
from baserate.errors import BadOption, BaserateError
from baserate.losses.base import Loss
from baserate.passes.choice import kernels_for_batches
from baserate.progress import Progress
from baserate.rates import RatesLike
from baserate.solving import adjusted, prior_adjusted

Batch = tuple[ArrayLike, RatesLike] | Mapping[str, Any]


def adjust(
    probs: Any,
    rates: RatesLike,
    *,
    loss: str | Loss = "log",
    bounded: bool = True,
    groups: Any = None,
    sample_weight: ArrayLike | str | None = None,
    from_logits: bool = False,
    normalize: bool = False,
    zeros: str | float = "keep",
    classes: Sequence[Any] | None = None,
    columns: str | Sequence[Any] | None = None,
    out: Any = None,
    dtype: Any = None,
    tol: float = 1e-10,
    max_passes: int = 500,
    progress: Progress | None = None,
) -> Adjustment:
    """Adjust predicted probabilities to the class rates of the target population.

    The result is the smallest change of ``probs`` whose mean equals the rates, or lies in the set of possible rates.
    The size of a change is measured by the Bregman divergence of the loss. If the true class rates of these rows are
    the given ones, or lie in the set, the mean loss falls by at least ``certificate.loss_reduction``, whatever the
    labels are.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, k), path, pyarrow.dataset.Dataset, or Dask array or dataframe
        Predicted probabilities; each row sums to 1. The input is never changed in place. For two classes it can also
        be the probabilities of the positive class, shape (n,): a list, array or Series. The result has the same kind
        and shape as ``probs``. For a dataframe (pandas, polars, pyarrow) it has the same column names, index and
        dtypes. For a Dask collection it is lazy. A path, a URL, a glob pattern or a folder of files is read in pieces
        and may be larger than memory; see :doc:`Files and the command line </files>` and :doc:`/object-stores`. So are
        a DuckDB relation, a LazyFrame of polars and other queries; see :doc:`/databases`.
    rates : float, array-like of shape (k,), dict, Series or Rates
        Class rates of these rows. A single number is the rate of the positive class, which is the second of two
        classes. A dict or a pandas Series is matched by class name, in any order. If one class is missing from it, this
        class gets the rest. If several are missing, only the sum of their rates is determined. If the rates are not
        known exactly, pass a :class:`baserate.Rates`: bounds, a distance from given rates, or the counts of a survey.
        Rates per group are :meth:`baserate.Rates.by`, or several tables as :class:`baserate.Margins`.
    loss : str or Loss, default "log"
        The loss that should fall: ``"log"``, ``"brier"``, ``"spherical"``, ``"ranked"`` or a loss from ``br.losses``.
    bounded : bool, default True
        ``True`` is bounded general adjustment (BGA). ``False`` is unbounded general adjustment (UGA), whose entries can
        be below 0 or above 1. For losses that are defined only for positive probabilities, both are the same.
    groups : dataframe, dict of arrays or array, optional
        For rates per group: the columns that say to which group each row belongs; one array if there is one such
        column. Not needed if ``probs`` is a dataframe or files with these columns.
    sample_weight : array-like of shape (n,), or str, optional
        Weights of the rows in the mean; for files, the name of a column.
    from_logits : bool, default False
        Whether ``probs`` contains logits or log probabilities. One-dimensional ``probs`` then contains the log odds of
        the positive class. For log loss, all computations use log probabilities.
    normalize : bool, default False
        Divide each row by its sum first.
    zeros : "keep" or float, default "keep"
        What to do with probabilities of exactly 0. "keep" does not change the predictions before the adjustment; under
        log loss and ``Power(beta <= 1)`` a probability of 0 then stays 0. A float is added to every probability first,
        and the guarantee then compares with these smoothed predictions.
    classes : sequence, optional
        Names of the classes, in the order of the columns; by default the column names of a dataframe. For
        one-dimensional ``probs`` the positive class is the second one.
    columns : str or sequence, optional
        The columns of a dataframe or file that hold the probabilities, if there are others: names, or a pattern such
        as ``"p_*"``, where ``*`` matches the class name. By default those that match the classes in ``rates``. A
        single column holds the probabilities of the positive class.
    out : path-like, optional
        File or folder for the adjusted rows of files. Other columns are copied. The output is created only when it is
        complete. Without ``out``, the shift is fitted, but no rows are written.
    dtype : "float32" or "float64", optional
        The dtype of the adjusted predictions. By default it is that of ``probs``: float32 for float32 and float16, and
        float64 for all others. Each column of a dataframe or file keeps its own floating dtype. All computations are in
        float64, and the guarantee holds for the rounded predictions.
    tol : float, default 1e-10
        Largest accepted error of a rate.
    max_passes : int, default 500
        Maximum number of passes over the data that find the shift. Passes that only check or write the rows do not
        count here. ``Adjustment.n_passes`` counts all passes; 3 to 7 are usual.
    progress : Progress, optional
        Receives progress updates; see :class:`baserate.progress.Progress`.

    Returns
    -------
    Adjustment
        The adjusted predictions, the shift that can adjust further rows, and the guarantee; see
        :class:`baserate.Adjustment`.
        For rates per group it is a :class:`baserate.GroupedAdjustment`.

    Raises
    ------
    InfeasibleRates
        If probabilities of exactly 0 make the rates impossible. The message names the classes.
    BaserateError
        For other invalid input; always a ``ValueError``.

    Warns
    -----
    NotConvergedWarning
        If ``tol`` was not reached.

    Examples
    --------
    >>> import baserate as br
    >>> br.adjust([0.1, 0.4, 0.7, 0.9], 0.25).probs.round(3)      # P(ill) of four patients, of whom 25 % are ill
    array([0.018, 0.1  , 0.281, 0.601])
    >>> result = br.adjust([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7])
    >>> result.probs.round(3)
    array([[0.425, 0.575],
           [0.175, 0.825]])
    >>> round(result.certificate.loss_reduction, 4)
    0.14
    >>> roughly = br.adjust([[0.7, 0.3], [0.4, 0.6]], br.Rates.between([0.2, None], [0.4, None]))
    >>> roughly.rates.round(3), round(roughly.certificate.loss_reduction, 4)
    (array([0.4, 0.6]), 0.0498)
    """
    result = adjusted(
        probs,
        rates,
        loss=loss,
        bounded=bounded,
        groups=groups,
        sample_weight=sample_weight,
        from_logits=from_logits,
        normalize=normalize,
        zeros=zeros,
        classes=classes,
        columns=columns,
        out=out,
        dtype=dtype,
        tol=tol,
        max_passes=max_passes,
        progress=progress,
    )
    return as_adjustment(result)


_ARGUMENTS = frozenset(inspect.signature(adjust).parameters)


def additive(probs: ArrayLike, rates: RatesLike, **options: Any) -> Adjustment:
    """Additive adjustment: add the same vector to every row so that the mean equals the rates.

    This is unbounded general adjustment (UGA) for the Brier score, so entries can be below 0 or above 1. It takes the
    other options of :func:`adjust`.

    Examples
    --------
    >>> import baserate as br
    >>> br.additive([[0.7, 0.3], [0.1, 0.9]], [0.2, 0.8]).probs.round(3)
    array([[ 0.5,  0.5],
           [-0.1,  1.1]])
    """
    return adjust(probs, rates, loss="brier", bounded=False, **options)


def multiplicative(probs: ArrayLike, rates: RatesLike, **options: Any) -> Adjustment:
    """Multiplicative adjustment: multiply each column by a number and normalise the rows.

    This is general adjustment for log loss, where bounded and unbounded adjustment are the same. It takes the other
    options of :func:`adjust`.

    Examples
    --------
    >>> import baserate as br
    >>> br.multiplicative([[0.5, 0.5], [0.8, 0.2]], [0.5, 0.5]).probs.round(4)
    array([[0.3333, 0.6667],
           [0.6667, 0.3333]])
    """
    return adjust(probs, rates, loss="log", **options)


def prior_adjust(
    probs: Any,
    old_rates: RatesLike,
    new_rates: RatesLike,
    *,
    sample_weight: ArrayLike | str | None = None,
    from_logits: bool = False,
    normalize: bool = False,
    zeros: str | float = "keep",
    classes: Sequence[Any] | None = None,
    columns: str | Sequence[Any] | None = None,
    out: Any = None,
    dtype: Any = None,
    progress: Progress | None = None,
) -> Adjustment:
    """Prior probability adjustment (PPA): Bayes' rule from the class rates in training to the new ones.

    Each probability is multiplied by ``new_rate / old_rate`` of its class, and each row is then divided by its sum.
    This is correct if the classifier is calibrated for the old rates and only the class rates have changed. The factors
    do not depend on the rows, so the mean of the adjusted rows can differ from the new rates.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, k), path, pyarrow.dataset.Dataset, or Dask array or dataframe
    old_rates, new_rates : float, array-like of shape (k,), dict or Rates
        Class rates in training and class rates of these rows. The rates in training are those after any resampling and
        class weights. If the new rates are not known exactly, the best estimate of them is used, and the guarantee
        holds for all possible rates. Bounds have no best estimate, so they are not accepted.
    sample_weight, from_logits, normalize, zeros, classes, columns, out, dtype, progress
        As in :func:`adjust`.

    Returns
    -------
    Adjustment
        Its guarantee is for log loss. If ``certificate.loss_reduction`` is negative, the loss may rise by that much.

    Examples
    --------
    >>> import baserate as br
    >>> br.prior_adjust([0.5, 0.1], 0.5, 0.1).probs.round(3)
    array([0.1  , 0.012])
    >>> br.prior_adjust([[0.5, 0.5], [0.9, 0.1]], [0.5, 0.5], [0.9, 0.1]).probs.round(3)
    array([[0.9  , 0.1  ],
           [0.988, 0.012]])
    """
    result = prior_adjusted(
        probs,
        old_rates,
        new_rates,
        sample_weight=sample_weight,
        from_logits=from_logits,
        normalize=normalize,
        zeros=zeros,
        classes=classes,
        columns=columns,
        out=out,
        dtype=dtype,
        progress=progress,
    )
    return Adjustment.of(result)


@overload
def adjust_many(
    problems: Iterable[Batch], *, errors: Literal["raise"] = "raise", **options: Any
) -> list[Adjustment]: ...


@overload
def adjust_many(
    problems: Iterable[Batch], *, errors: Literal["keep"], **options: Any
) -> list[Adjustment | BaserateError]: ...


def adjust_many(problems: Iterable[Batch], *, errors: str = "raise", **options: Any) -> Any:
    """Adjust many small batches, each to its own rates.

    Each batch is adjusted as by :func:`adjust`. For a single small batch, :func:`adjust` does not use the compiled
    kernels of numba, because loading them takes longer than the adjustment. Here they are loaded once for all batches.
    A batch of 1000 rows and 8 classes then takes a fraction of a millisecond.

    Parameters
    ----------
    problems : iterable of pairs or dicts
        Each is a pair ``(probs, rates)``, or a dict of arguments of :func:`adjust` for a batch with its own options.
        All problems are read before the first one is solved.
    errors : "raise" or "keep", default "raise"
        What to do if a batch cannot be adjusted: raise an error that says which batch it is, or put the error into the
        list instead of the result.
    **options
        Options of :func:`adjust` for all batches.

    Returns
    -------
    list of Adjustment
        In the order of the problems.

    Examples
    --------
    >>> import baserate as br
    >>> batches = [([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7]), ([[0.9, 0.1]], [0.8, 0.2])]
    >>> [round(result.certificate.loss_reduction, 4) for result in br.adjust_many(batches)]
    [0.14, 0.0444]
    >>> br.adjust_many([([[0.7, 0.2, 0.1]], [0.3, 0.6, 0.2])], errors="keep")
    [BadRates('rates sum to 1.1, not 1; to rescale them, divide each by their sum')]
    """
    if errors not in ("raise", "keep"):
        raise BadOption(f"errors must be 'raise' or 'keep', not {errors!r}")
    batches = list(problems)
    kernels = kernels_for_batches(sum(_n_values(batch) for batch in batches))
    results: list[Adjustment | BaserateError] = []
    # Not in threads: a large batch uses all cores by itself, and small ones would wait for each other.
    for i, batch in enumerate(batches):
        try:
            results.append(_adjust_batch(batch, options, kernels))
        except BaserateError as error:
            if errors == "raise":
                error.add_note(f"This was problem {i} of {len(batches)}, counted from 0.")
                raise
            results.append(error)
    return results


def _adjust_batch(batch: Any, options: Mapping[str, Any], kernels: str) -> Adjustment:
    if isinstance(batch, Mapping):
        arguments = {**options, **batch}
    elif isinstance(batch, (tuple, list)) and len(batch) == 2:
        arguments = {**options, "probs": batch[0], "rates": batch[1]}
    else:
        raise BadOption(f"a problem must be a pair (probs, rates) or a dict of arguments, not {type(batch).__name__}")
    if unknown := [name for name in arguments if name not in _ARGUMENTS]:
        raise TypeError(f"adjust_many() got an unexpected option {unknown[0]!r}; it takes the options of adjust()")
    if missing := [name for name in ("probs", "rates") if name not in arguments]:
        raise BadOption(f"the problem has no {' and no '.join(missing)}")
    return as_adjustment(adjusted(**arguments, kernels=kernels))


def _n_values(batch: Any) -> int:
    """Number of values of a batch in memory; 0 if it is something else, or not a matrix."""
    probs = batch.get("probs") if isinstance(batch, Mapping) else None
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        probs = batch[0]
    try:
        shape = np.shape(probs) if isinstance(probs, (np.ndarray, list)) else getattr(probs, "shape", ())
    except ValueError:  # rows of different lengths, which are reported when the batch is adjusted
        return 0
    return int(np.prod(shape)) if len(shape) == 2 and all(isinstance(size, int) for size in shape) else 0
