"""What compiled passes and their callers agree on: bits, positions in arrays, and limits. It does not need numba."""

from __future__ import annotations

import numpy as np

from baserate.support.arrays import FloatArray

# Bits of ``todo``: check and summarize the predictions, sum the curvature, write the adjusted rows.
SURVEY, CURVATURE, WRITE = 1, 2, 4

# Positions in ``sums``: the conjugate, the absolute values of its terms (for a bound on rounding errors), the offset of
# the dual function, the number of hard zeros, the smallest positive probability, the divergence from the predictions to
# the adjusted rows (for log loss, only what rounding to float32 adds to it), and the shortfall of the adjusted rows
# (see ``RowModel.shortfall``).
VALUE, SIZE, OFFSET, ZEROS, LOWEST, MOVED, SHORT, N_SUMS = 0, 1, 2, 3, 4, 5, 6, 7

DONE = -1
"""Returned by a pass that computed the whole block, and by ``advance`` after the last pass."""

NOT_EASY = -2
"""Returned by ``advance`` if the problem needs the general method of ``baserate.core.newton``."""

# Positions in ``state``, which ``advance`` keeps between passes: value and rounding error of the dual function at the
# last point, the gain that was predicted for the next point, the radius of the trust region, the residual at the last
# point but one (infinite if the step from there gained less than predicted), the residual at the last point, the offset
# from the survey, and ``centre`` of the next pass.
POINT_VALUE, POINT_NOISE, PREDICTED, RADIUS, EARLIER, PREVIOUS, FIRST_OFFSET, CENTRE, N_STATE = range(9)

# Positions in ``rules``, which is ``baserate.core.newton.TRUST_REGION``; the rules are explained there.
FIRST_RADIUS, POOR, GOOD, WIDEN, OVERSHOOT, CONFIRMED, NOISE, SAFETY = range(8)

WIDEST = 600.0
"""Largest range of a shift for log loss. With a larger one, ``exp(shift)`` could overflow or underflow."""

SMALL, LARGE = 1e-290, 1e290  # A row sum outside this range has lost digits or is about to.
TINY = 2.2250738585072014e-308  # The smallest normal number: under log loss, positive probabilities are not less.
ABSENT = -1e300  # The dual point of a class that must not get probability.
EPS = 2.220446049250313e-16


def initial_sums() -> FloatArray:
    """The array ``sums`` before a pass. The smallest probability starts above 1."""
    sums = np.zeros(N_SUMS)
    sums[LOWEST] = 2.0
    return sums


def initial_state() -> FloatArray:
    """The array ``state`` before the first pass."""
    state = np.zeros(N_STATE)
    state[EARLIER] = state[PREVIOUS] = np.inf
    return state
