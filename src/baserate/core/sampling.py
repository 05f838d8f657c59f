"""Which rows form a sample, and how large it is: the one place that decides.

A problem on many rows is first solved on a sample. That costs little and saves whole passes over all rows.
"""

from __future__ import annotations

import numpy as np

from baserate.support.arrays import IndexArray

MIN_ROWS = 4000
"""Smallest size of a sample. Inputs with fewer than four times as many rows have none."""

NEIGHBOURS = 8
"""Consecutive rows that are taken together, since memory delivers them together."""

SEED = 20190
"""Seed of the random places from which rows are taken; any number would do."""

TOLERANCE = 1e-7
"""Largest error of a rate in the solution for a sample. A sample differs from all rows by more than that."""

_SHARE_SMOOTH, _SHARE_KINKED = 64, 16  # One in this many rows. Row maps with kinks need a more accurate start.
_MIN_COLLECTED = 1000  # Rows. Fewer are no guide.


def sample_size(n_rows: int, *, smooth: bool) -> int | None:
    """Rows of the sample from which the search starts, or None if there are too few rows for one."""
    size = max(n_rows // (_SHARE_SMOOTH if smooth else _SHARE_KINKED), MIN_ROWS)
    return size if n_rows >= 4 * size else None


def collected_size(n_rows: int, n_classes: int, *, max_values: int) -> int | None:
    """Rows that an engine collects for later samples while it reads all of them, or None if that is not worth it."""
    size = min(max(n_rows // _SHARE_KINKED, MIN_ROWS), max_values // n_classes)
    return size if n_rows >= 4 * MIN_ROWS and size >= _MIN_COLLECTED else None


def sampled_rows(n_rows: int, size: int) -> IndexArray:
    """The numbers of about ``size`` of the rows, in increasing order."""
    # A few neighbours from each stretch, so that sorted rows are sampled evenly; at random places, since the order of
    # the rows may be periodic.
    n_places = max(size // NEIGHBOURS, 1)
    stretch = n_rows / n_places
    places = np.arange(n_places) * stretch + np.random.default_rng(SEED).random(n_places) * (stretch - NEIGHBOURS)
    return (places.astype(np.intp)[:, None] + np.arange(NEIGHBOURS)).ravel()
