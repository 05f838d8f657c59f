"""Arguments of the constructors of ellipsoids of rates: matrices and draws, checked and converted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from baserate.errors import BadRates, Option
from baserate.inputs.validation import as_confidence, is_number, quoted, quoted_name
from baserate.rates.ellipsoids import Ellipsoid
from baserate.support.arrays import FloatArray

_METRIC, _CLASSES = Option("metric"), Option("classes")
_SYMMETRY = 1e-8  # relative to the largest entry; covariances that were printed and read again are less exact than sums
_ROUNDING = 1e-15  # of entries that are differences of rates, whatever their size
_SUM_TOLERANCE = 1e-3  # of a draw: posterior samplers often return float32


def near_by_matrix(values: Any, radius: Any, metric: Any, classes: Any) -> dict[str, Any]:
    """The fields of an ellipsoid from the arguments of :meth:`Rates.near`, and the names of the classes."""
    names = tuple(values) if isinstance(values, Mapping) and classes is None else classes
    index, columns = getattr(metric, "index", None), getattr(metric, "columns", None)
    if index is not None and columns is not None and not callable(index):
        own = tuple(np.asarray(columns).tolist())
        if tuple(np.asarray(index).tolist()) != own:
            raise BadRates(f"the rows and columns of {_METRIC} have different names", options=[_METRIC])
        names = own if names is None else names
        if set(own) != set(names):
            raise BadRates(
                f"the columns of {_METRIC} are {quoted(own)}, but the classes are {quoted(names)}", options=[_METRIC]
            )
        order = [own.index(name) for name in names]
        metric = np.asarray(metric)[np.ix_(order, order)]
    elif isinstance(values, Mapping) and classes is not None:
        raise BadRates(f"with a dict of rates, {_METRIC} has the order of the dict; leave out {_CLASSES}=")
    return {"classes": names, "values": values, "covariance": metric, "radius": radius}


def around_draws(draws: Any, confidence: float, classes: Any) -> dict[str, Any]:
    """The fields of an ellipsoid from the arguments of :meth:`Rates.from_samples`."""
    as_confidence(confidence, BadRates)
    if classes is None and getattr(draws, "columns", None) is not None and not callable(draws.columns):
        classes = tuple(np.asarray(draws.columns).tolist())
    rows = _checked_draws(draws)
    m = len(rows)
    needed = int(np.ceil(confidence * (m + 1)))  # one more than the share of m, as for a draw still to come
    if needed > m:
        raise BadRates(
            f"{m} draws are too few for a confidence of {confidence:g}; pass at least "
            f"{int(np.ceil(1 / (1 - confidence) - 1e-9))}"
        )
    centre = rows.mean(axis=0)
    covariance = np.atleast_2d(np.cov(rows, rowvar=False))
    radius = 0.0
    if covariance.any():
        whitening = Ellipsoid.of(centre, covariance, 1.0).whitening
        distances = np.linalg.norm((rows - centre) @ whitening.T, axis=1)
        radius = float(np.sort(distances)[needed - 1]) * (1 + 1e-9)
    fields = {"values": centre, "covariance": covariance, "radius": radius}
    return {"classes": classes, **fields, "confidence": float(confidence), "n_draws": m}


def _checked_draws(draws: Any) -> FloatArray:
    try:
        rows = np.asarray(draws, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadRates("draws must be numbers, with one row per draw and one column per class") from None
    if rows.ndim == 1:  # of the positive class
        rows = np.column_stack([1.0 - rows, rows])
    if rows.ndim != 2 or rows.shape[1] < 2 or len(rows) < 2:
        raise BadRates(f"draws must have one row per draw and one column per class, but their shape is {rows.shape}")
    for bad, rule in (
        (~np.isfinite(rows).all(axis=1), "has values that are not finite"),
        ((rows < -_SUM_TOLERANCE).any(axis=1), "has a rate below 0"),
        (np.abs(rows.sum(axis=1) - 1.0) > _SUM_TOLERANCE, "does not sum to 1"),
    ):
        if bad.any():
            i = int(bad.argmax())
            more = f" ({int(bad.sum()):,} draws are like that)" if bad.sum() > 1 else ""
            raise BadRates(f"draw {i} {rule}: {quoted(rows[i].round(6).tolist())}{more}")
    rows = np.maximum(rows, 0.0)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def checked_radius(radius: Any) -> float:
    """The radius of an ellipsoid as a number."""
    if not is_number(radius) or not 0 <= float(radius) < np.inf:
        raise BadRates(f"radius must be 0 or a positive number, not {quoted_name(radius)}")
    return float(radius)


def checked_covariance(matrix: Any, k: int) -> FloatArray:
    """The covariance matrix, of which only the part that keeps the sum of rates counts."""
    try:
        found = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadRates(f"{_METRIC} must be a matrix of numbers", options=[_METRIC]) from None
    allowed = max(_SYMMETRY * float(np.abs(found).max(initial=0.0)), _ROUNDING)
    if found.shape != (k, k):
        problem = f"has shape {found.shape}, but there are {k} classes; pass a matrix of shape ({k}, {k})"
    elif not np.isfinite(found).all():
        problem = "has entries that are not finite"
    elif np.abs(found - found.T).max() > allowed:
        problem = "is not symmetric; pass a covariance matrix"
    elif np.linalg.eigvalsh((found + found.T) / 2)[0] < -allowed:
        problem = "has a negative variance in some direction; pass a covariance matrix"
    else:
        centred = found - found.mean(axis=0)
        centred = centred - centred.mean(axis=1, keepdims=True)
        return np.asarray((centred + centred.T) / 2)
    raise BadRates(f"{_METRIC} {problem}", options=[_METRIC])
