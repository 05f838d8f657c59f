"""The one array type of the maths: float64, whatever the caller passed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CACHED = 1 << 16
"""Values of a block for NumPy: 512 KiB of float64 are in a core's cache, and worth the Python calls on them."""


def rows_of_a_block(n_classes: int) -> int:
    """Rows of such a block. A sum over rows is a product of (k, m) and (m, k) matrices, worth a call from m = k on."""
    return max(CACHED // n_classes, n_classes, 64)


FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]
