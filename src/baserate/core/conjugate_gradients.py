"""The method of conjugate gradients, for symmetric matrices that are only multiplied with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from baserate.support.arrays import FloatArray

Operator = Callable[[FloatArray], FloatArray]


class Solved(NamedTuple):
    """An approximate solution, and what is left of the right-hand side."""

    x: FloatArray
    rest: FloatArray


def conjugate_gradients(
    multiply: Operator,
    right: FloatArray,
    precondition: Operator,
    scale: FloatArray,
    *,
    accuracy: float,
    most_steps: int,
) -> Solved:
    """Solve ``matrix @ x = right`` for a positive semidefinite matrix.

    Parameters
    ----------
    multiply, precondition : callable
        The product with the matrix, and with an approximation of its inverse.
    right : array
        Of any shape.
    scale : array of the shape of ``right``
        The inverse of the diagonal of the matrix. The error of the equations is measured in ``sum(scale * rest**2)``.
    accuracy : float
        How much smaller than ``right`` the error should be.
    most_steps : int
        Each step costs one product.
    """
    x, rest = right * 0.0, right
    z = precondition(rest)
    direction, size = z, float((rest * z).sum())
    # Not the size in the norm of the preconditioner, which enlarges rounding errors in singular directions.
    best, least = Solved(x, rest), float((scale * rest * rest).sum())
    first, goal = least, accuracy**2 * least
    for _ in range(most_steps):
        if not (least > goal and size > 0):
            break
        bent = multiply(direction)
        slope = float((direction * bent).sum())
        if not slope > 0:
            break
        x = x + (size / slope) * direction
        rest = rest - (size / slope) * bent
        error = float((scale * rest * rest).sum())
        if error < least:
            best, least = Solved(x, rest), error
        elif error > 1e6 * least:  # nothing but rounding errors
            break
        z = precondition(rest)
        previous, size = size, float((rest * z).sum())
        direction = z + (size / previous) * direction
    # Without a solution the system is singular. A long step then tells the caller to add damping.
    return best if least < 0.25 * first else Solved(x, rest)
