"""Draw the rows of a batch that are to be labelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from baserate.errors import BadOption, Option
from baserate.estimation.drawn_rows import DrawnRows
from baserate.estimation.label_bounds import expected_widths
from baserate.estimation.labelled_rows import LabelledBatch, read_batch
from baserate.inputs.dataframes import column_names, is_dataframe
from baserate.inputs.validation import as_confidence, quoted_name
from baserate.support.arrays import FloatArray, IndexArray, has_masked_entries
from baserate.support.numbers import counted

_SIZES = (50, 100, 200, 400, 800, 1600, 3200)  # for the table of widths
_MIN_DRAWS = 8  # from each stratum, because there are as many rounds of bets as the smallest stratum has labels
_SIZE, _STRATIFY = Option("size"), Option("stratify")
_PREDICTED = "predicted"


def draw_rows(
    probs_new: Any,
    size: int,
    *,
    stratify: Any = None,
    random_state: int | np.random.Generator | None = None,
    confidence: float = 0.95,
    classes: Sequence[Any] | None = None,
    columns: str | Sequence[Any] | None = None,
    from_logits: bool = False,
    normalize: bool = False,
) -> DrawnRows:
    """Draw rows to label at random, without replacement, and say how precise the class rates will be.

    A few labels of the batch itself are the safest way to learn its class rates. The set of rates that they give is
    valid for any predictions that do not depend on these labels, and nothing has to be assumed about how the population
    has changed. Estimate before you retrain or calibrate with the labels.

    Parameters
    ----------
    probs_new : array-like or dataframe of shape (n, k), or of shape (n,) for two classes
        Predictions for all rows of the batch.
    size : int
        Number of rows to label.
    stratify : "predicted", name of a column, or array-like of shape (n,), optional
        Draw from each stratum in proportion to its size, but at least 8 rows: from the rows of each predicted class,
        where classes that are predicted too rarely share a stratum, or from the rows with each value of a column of
        the dataframe or of an array. Strata ensure that each of them has labels. They hardly make the intervals
        narrower, because the predictions are used in any case; many small strata make them wider. Then pass what is
        returned to :func:`estimate`, not only its ``rows``: row numbers alone are taken for draws from all rows.
    random_state : int or numpy.random.Generator, optional
        Seed. By default each call draws other rows.
    confidence : float, default 0.95
        For the widths.
    classes, columns, from_logits, normalize
        As in :func:`baserate.adjust`.

    Returns
    -------
    DrawnRows
        ``rows`` are the numbers of the rows to label. ``widths`` is a dict from the number of labels to the expected
        width of the widest interval. Printed, it is a table of these widths.

    Examples
    --------
    >>> import numpy as np
    >>> import baserate as br
    >>> p = np.random.default_rng(0).beta(0.3, 0.7, size=2000)
    >>> drawn = br.draw_rows(p, 200, random_state=0)
    >>> drawn
    200 of 2,000 rows to label, drawn at random
    <BLANKLINE>
      labels  widest interval  mean interval
      50               0.2740         0.2740
      100              0.1866         0.1866
      200              0.1262         0.1262
      400              0.0830         0.0830
      800              0.0504         0.0504
      1,600            0.0204         0.0204
      Widths of the intervals of the class rates to expect at 95 % confidence, if the predictions are calibrated.
    >>> len(drawn.rows), round(drawn.widths[400], 3)
    (200, 0.083)
    """
    reading = {"classes": classes, "columns": columns, "from_logits": from_logits, "normalize": normalize}
    batch = read_batch(probs_new, "probs_new", **reading)
    n = len(batch.probs)
    _check(size, n, confidence)
    rng = _as_generator(random_state)
    sizes = sorted({*(s for s in _SIZES if s < n), int(size)})
    widths = {s: expected_widths(batch.probs, s, float(confidence)) for s in sizes}
    strata = None if stratify is None else _strata(stratify, probs_new, batch, int(size))
    rows = rng.permutation(n)[: int(size)] if strata is None else _draw_from_strata(strata, int(size), rng)
    return DrawnRows(rows, n, float(confidence), widths, strata, batch.probs.mean(axis=0))


def _draw_from_strata(strata: IndexArray, size: int, rng: np.random.Generator) -> IndexArray:
    shuffled = rng.permutation(len(strata))
    parts = [
        shuffled[strata[shuffled] == code][:number] for code, number in enumerate(_allocate(np.bincount(strata), size))
    ]
    return rng.permutation(np.concatenate(parts))


def _allocate(sizes: IndexArray, size: int) -> IndexArray:
    """How many rows to draw from each stratum: the minimum, and the rest where most are missing to proportions."""
    drawn = np.minimum(sizes, _MIN_DRAWS)
    if drawn.sum() > size:
        raise BadOption(
            f"{_SIZE} is {size}, but {counted(len(sizes), 'stratum', 'strata')} of {_STRATIFY}= "
            f"{'needs' if len(sizes) == 1 else 'need'} at least {counted(int(drawn.sum()), 'label')}, up to "
            f"{_MIN_DRAWS} from each; draw more rows, or use fewer strata",
            options=[_SIZE, _STRATIFY],
        )
    wanted: FloatArray = sizes * (size / sizes.sum())
    for _ in range(size - int(drawn.sum())):
        missing = np.where(drawn < sizes, wanted - drawn, -np.inf)
        drawn[missing.argmax()] += 1
    return drawn


def _strata(stratify: Any, probs_new: Any, batch: LabelledBatch, size: int) -> IndexArray:
    n = len(batch.probs)
    is_one = isinstance(stratify, str) or not hasattr(stratify, "__len__")
    if is_dataframe(probs_new) and is_one and stratify in column_names(probs_new):
        stratify = probs_new[stratify]
    elif isinstance(stratify, str) and stratify == _PREDICTED:
        return _predicted_strata(batch.probs, size)
    elif is_one:
        raise BadOption(
            f"{_STRATIFY} is {quoted_name(stratify)}, but must be 'predicted', the name of a column of the "
            "dataframe, or one value per row",
            options=[_STRATIFY],
        )
    if has_masked_entries(stratify):
        raise BadOption(
            f"{_STRATIFY} is a masked array with masked entries; give every row a value", options=[_STRATIFY]
        )
    try:
        values = np.asarray(stratify)
    except ValueError:
        raise BadOption(f"{_STRATIFY} must have one value for each row, not a list", options=[_STRATIFY]) from None
    if values.shape != (n,):
        raise BadOption(
            f"{_STRATIFY} must have one value for each of the {n:,} rows, but has shape {values.shape}",
            options=[_STRATIFY],
        )
    return np.unique(values.astype(str), return_inverse=True)[1].reshape(-1)


def _predicted_strata(probs: FloatArray, size: int) -> IndexArray:
    """The predicted class of each row; classes with too few rows are one stratum."""
    predicted = probs.argmax(axis=1)
    rows = np.bincount(predicted, minlength=probs.shape[1])
    small = rows * size < _MIN_DRAWS * len(probs)
    return np.unique(np.where(small[predicted], -1, predicted), return_inverse=True)[1].reshape(-1)


def _check(size: Any, n: int, confidence: Any) -> None:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise BadOption(f"{_SIZE} must be a whole number above 0, not {quoted_name(size)}", options=[_SIZE])
    if size > n:
        raise BadOption(f"{_SIZE} is {size}, but probs_new has only {counted(n, 'row')}", options=[_SIZE])
    as_confidence(confidence)


def _as_generator(random_state: Any) -> np.random.Generator:
    is_seed = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool) and random_state >= 0
    if random_state is None or is_seed or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    raise BadOption(f"random_state must be a whole number of 0 or more, or None, not {quoted_name(random_state)}")
