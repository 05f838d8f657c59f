"""Array types, and the size of the blocks in which NumPy processes rows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_VALUES = 1 << 16
"""Values per block for NumPy: 512 KiB of float64 fit into a core's cache and outweigh the cost of the Python calls."""


MOST_MATRIX_CLASSES = 5000
"""With more classes, no matrix of k x k numbers is computed: it would take hundreds of megabytes."""


def rows_per_block(n_classes: int, block_values: int = BLOCK_VALUES) -> int:
    """Rows per block for passes whose blocks should have ``block_values`` values; by default those of NumPy.

    A block for NumPy has at least k rows: the sums over m rows are products of a (k, m) and an (m, k) matrix, which are
    slow if m is smaller than k. Where there are no such products, 64 rows are enough. Other blocks have more or fewer
    rows in proportion.
    """
    for_numpy = max(BLOCK_VALUES // n_classes, n_classes if n_classes <= MOST_MATRIX_CLASSES else 0, 64)
    return max(block_values * for_numpy // BLOCK_VALUES, 1)


FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]


def has_masked_entries(values: object) -> bool:
    """Whether this is a masked array with masked entries, whose numbers mean nothing."""
    # numpy.ma takes milliseconds to import, and nobody has a masked array without it.
    return "numpy.ma" in sys.modules and np.ma.isMaskedArray(values) and bool(np.ma.getmaskarray(values).any())


def sum_by(numbers: IndexArray, values: NDArray[Any], n: int) -> FloatArray:
    """The sum of the values with each of the numbers 0 to n - 1."""
    return np.asarray(np.bincount(numbers, values, minlength=n), dtype=np.float64)


def row_patterns(rows: BoolArray) -> tuple[IndexArray, IndexArray]:
    """The first row with each distinct pattern, and the number of the pattern of each row."""
    if not len(rows) or (rows == rows[0]).all():
        return np.zeros(min(len(rows), 1), dtype=np.intp), np.zeros(len(rows), dtype=np.intp)
    packed = np.ascontiguousarray(np.packbits(rows, axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]  # not by axis=0, which takes ten times as long
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return first, number.ravel()
