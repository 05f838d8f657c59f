"""What a fitted shift does to one row, as formulas that other languages can compute.

``p`` is a row of probabilities, ``a`` the adjusted row, both for the kept classes unless stated otherwise. Each class
below is one formula. :func:`row_map_of` chooses the formula of a loss, or says why there is none.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from baserate.core.row_model import RowModel
from baserate.errors import BadLoss
from baserate.losses.base import Loss, short_name
from baserate.losses.brier import Brier
from baserate.losses.log import Log
from baserate.losses.power import Power
from baserate.losses.quadratic import Quadratic, WeightedBrier
from baserate.losses.ranked import RankedProbability
from baserate.losses.spherical import Spherical
from baserate.support.arrays import FloatArray, IndexArray

MOST_SUPPORTS = 8
"""Number of classes up to which all supports of a quadratic loss are tried: 255 for 8 classes."""

IN_CODE = (
    "Functions are possible for Log, Brier, WeightedBrier, Spherical, RankedProbability, Power with beta up to 2, and "
    "Quadratic with a diagonal matrix or bounded=False"
)
IN_ONNX = (
    "ONNX is possible for Log, Brier, WeightedBrier, Spherical, RankedProbability with up to 50 classes, Power with "
    f"beta up to 2, and Quadratic with a diagonal matrix, up to {MOST_SUPPORTS} classes, or bounded=False"
)
"""The losses that can be exported, for messages."""


@dataclass(frozen=True)
class Reweighting:
    """``a_j`` proportional to ``p_j * exp(shift_j)``: log loss, and prior probability adjustment.

    With ``levels``, a row gives probability only to the highest level among the classes with ``p_j > 0``.
    """

    shift: FloatArray
    levels: IndexArray | None = None


@dataclass(frozen=True)
class Translation:
    """``a = p + offset``: unbounded adjustment for quadratic losses."""

    offset: FloatArray


@dataclass(frozen=True)
class Projection:
    """``a_j = max(0, p_j + offset_j + theta * spread_j)``, with ``theta`` such that the row sums to 1."""

    offset: FloatArray
    spread: FloatArray


@dataclass(frozen=True)
class Sphere:
    """``a`` proportional to ``u = max(0, x + theta)`` with norm 1, where ``x = p / |p| + shift``.

    ``|p|`` is the norm of the whole row, including classes that are not kept. If not ``bounded``, ``u = x + theta``.
    """

    shift: FloatArray
    bounded: bool


@dataclass(frozen=True)
class Isotonic:
    """Differences of the isotonic regression, with weights, of ``p @ matrix + offset``, clipped to [0, 1].

    ``p`` is the whole row, and ``matrix`` has shape (k, number of kept classes - 1).
    """

    matrix: FloatArray
    offset: FloatArray
    weights: FloatArray


@dataclass(frozen=True)
class PowerRoot:
    """``a_j = inverse_link(link(s) - max(x) + x_j)`` with ``x = link(p) + shift``, and ``s`` such that ``a`` sums to 1.

    ``link(q) = beta / (beta - 1) * q^(beta - 1)``, up to a constant. ``s``, the largest entry, is between 1/m and 1.
    """

    shift: FloatArray
    beta: float
    levels: IndexArray | None = None


@dataclass(frozen=True)
class SupportSearch:
    """The best of all candidates ``(a, multipliers) = p @ matrices[i] + offsets[i]``, one per support.

    ``p`` is the whole row. The solution is the candidate without negative numbers. Because of rounding errors there may
    be none, so it is the one whose smallest number is largest. ``matrices`` has shape (candidates, k, 2m), and
    ``offsets`` has shape (candidates, 2m).
    """

    matrices: FloatArray
    offsets: FloatArray


RowMap = Reweighting | Translation | Projection | Sphere | Isotonic | PowerRoot | SupportSearch


def row_map_of(model: RowModel, shift: FloatArray, exportable: str = IN_ONNX) -> RowMap:
    """The formula for the rows of a model, whose kept classes are shifted by ``shift``.

    ``exportable`` is a sentence about the losses that can be exported, for messages.
    """
    loss, m = model.loss, len(model.kept_classes)
    if type(loss) not in (Log, Brier, WeightedBrier, Quadratic, Spherical, RankedProbability, Power):
        raise BadLoss(f"{short_name(loss)} cannot be exported, because it is defined by Python code. {exportable}")
    if isinstance(loss, Power) and loss.beta > 2:
        raise BadLoss(
            f"{short_name(loss)} cannot be exported: for beta above 2, rounding errors of the shift change small "
            f"probabilities noticeably. {exportable}"
        )
    if m == 1 and model.bounded:
        return Projection(np.zeros(1), np.ones(1))
    if isinstance(loss, Log) or (isinstance(loss, Power) and loss.beta == 1):
        return Reweighting(shift, model.limit_levels)
    if isinstance(loss, Spherical):
        return Sphere(shift, model.bounded)
    if not model.bounded:
        return _translation(model, shift)
    if isinstance(loss, Power) and loss.beta != 2:
        return PowerRoot(shift, loss.beta, model.limit_levels)
    return _bounded_quadratic(model, shift, loss, exportable)


def _translation(model: RowModel, shift: FloatArray) -> Translation:
    # Link and row map are linear, and the row map inverts the link. So every row moves by the same amount.
    middle = np.full((1, model.n_classes), 1.0 / model.n_classes)
    return Translation((model.shifted(model.solved_loss.link(middle), shift)[1] - middle)[0])


def _bounded_quadratic(model: RowModel, shift: FloatArray, loss: Loss, exportable: str) -> RowMap:
    kept, k = model.kept_classes, model.n_classes
    if isinstance(loss, (Brier, Power)):
        return Projection(0.5 * shift, np.ones(len(kept)))
    matrix = loss.matrix(k) if isinstance(loss, RankedProbability) else loss.matrix  # type: ignore[attr-defined]  # Quadratic
    face = matrix[np.ix_(kept, kept)]
    if np.count_nonzero(face - np.diag(np.diag(face))) == 0 and (np.diag(face) > 0).all() and _no_mixed(matrix, kept):
        spread = 0.5 / np.diag(face)
        return Projection(shift * spread, spread)
    if k == 2:
        move = 0.5 * (shift[0] - shift[1]) / (matrix[0, 0] + matrix[1, 1] - 2.0 * matrix[0, 1])
        return Projection(np.array([move, -move]), np.ones(2))
    if isinstance(loss, RankedProbability):
        return _isotonic(kept, k, shift)
    if len(kept) > MOST_SUPPORTS:
        raise BadLoss(
            f"a Quadratic loss of {len(kept)} classes whose matrix is not diagonal cannot be exported: its rows are "
            f"solved by an active-set method. {exportable}"
        )
    return _all_supports(matrix, kept, shift)


def _no_mixed(matrix: FloatArray, kept: IndexArray) -> bool:
    """Whether the classes that are not kept do not affect the dual points of the others."""
    others = np.setdiff1d(np.arange(len(matrix)), kept)
    return not matrix[np.ix_(kept, others)].any()


def _isotonic(kept: IndexArray, k: int, shift: FloatArray) -> Isotonic:
    """With x the dual points, the cumulative probabilities are ``(x_t - x_{t+1}) / (2 * steps_t)``, made increasing."""
    steps = np.diff(kept).astype(np.float64)
    # x_t - x_{t+1} = 2 * (sum of the cumulative probabilities at the thresholds between the two classes)
    between = np.array([[max(0, b - max(a, j)) for a, b in itertools.pairwise(kept)] for j in range(k)], dtype=float)
    return Isotonic(between / steps, (shift[:-1] - shift[1:]) / (2.0 * steps), steps)


def _all_supports(matrix: FloatArray, kept: IndexArray, shift: FloatArray) -> SupportSearch:
    m, k = len(kept), len(matrix)
    # Only vectors that sum to 0 matter. A multiple of the all-ones matrix makes the matrix positive definite.
    centre = np.eye(m) - 1.0 / m
    face = matrix[np.ix_(kept, kept)]
    lifted = centre @ face @ centre + np.abs(centre @ face @ centre).max()
    linear = 2.0 * (centre @ face).mean(axis=1)
    matrices, offsets = [], []
    for size in range(1, m + 1):
        for support in itertools.combinations(range(m), size):
            on = list(support)
            # Optimality: 2 * lifted[on, on] a - theta = x[on], sum(a) = 1. Its solution is linear in (x, 1).
            system = np.zeros((size + 1, size + 1))
            system[:size, :size], system[:size, -1], system[-1, :size] = 2.0 * lifted[np.ix_(on, on)], -1.0, 1.0
            inverse = np.linalg.inv(system)
            solution = np.zeros((m + 1, m + 1))  # from (x, 1) to (a, theta)
            solution[np.ix_([*on, m], [*on, m])] = inverse.T
            multiplier = 2.0 * solution[:, :m] @ lifted - np.eye(m + 1, m) - solution[:, [m]]
            multiplier[:, on] = 0.0
            both = np.column_stack([solution[:, :m], multiplier])
            matrices.append(2.0 * matrix[:, kept] @ both[:m])
            offsets.append((shift - linear) @ both[:m] + both[m])
    return SupportSearch(np.array(matrices).reshape(-1, k, 2 * m), np.array(offsets))
