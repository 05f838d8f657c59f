"""Whether the curvature of a problem is computed as a matrix, or only multiplied with."""

from __future__ import annotations

import numpy as np

from baserate.core.row_model import RowModel
from baserate.rates.sets import RateSet
from baserate.support.arrays import MOST_MATRIX_CLASSES

FEW_CLASSES = 256
"""With at most this many classes, every pass computes the curvature."""


def many_classes(model: RowModel, rate_set: RateSet) -> bool:
    """Whether the search uses products with the curvature instead of computing it, because there are many classes.

    The loss must have slopes, and the set no ball, whose own curvature is a matrix. With bounds, a matrix that fits
    into memory is preferred: it finds in fewer passes, and more reliably, which bounds are active.
    """
    many = len(rate_set.low) > FEW_CLASSES and not rate_set.is_curved and (rate_set.is_point or not fits_memory(model))
    return many and model.kept_loss.slopes(np.ones((1, 1)), bounded=model.bounded) is not None


def fits_memory(model: RowModel) -> bool:
    """Whether a matrix of k x k numbers may be computed."""
    return len(model.kept_classes) <= MOST_MATRIX_CLASSES
