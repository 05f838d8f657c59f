"""Which rates hard zeros allow.

Under a loss that cannot move hard zeros, a row can only move probability among the classes to which it gives some. Rows
with the same support (set of classes with probability above 0) are equivalent, so the question is a transport problem:
from supports, with the weight of their rows, to classes, with the bounds of their rates. By Hall's theorem it has no
solution exactly if some group of classes must have less than the rows that allow nothing else, or more than the rows
that allow any of it. It is solved by augmenting paths over the k classes, starting from the predictions themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from baserate.core.contracts import Block
from baserate.core.dual import Dual, Survey
from baserate.core.row_model import RowModel
from baserate.rates.regions import Region
from baserate.rates.sets import RateSet
from baserate.support.arrays import BoolArray, FloatArray, IndexArray, row_patterns

_MAX_UNKNOWNS = 2000  # More take seconds.
_KEPT_WEIGHT = 1e4
_NEGLIGIBLE = 1e-14  # Mass that may be rounding error of a sum over n rows. Rates down to 1e-12 are well above it.


@dataclass(frozen=True)
class Supports:
    """Rows grouped by support.

    Attributes
    ----------
    allowed : bool array of shape (u, k)
        Which classes each group of rows allows.
    plan : array of shape (u, k)
        How the weight of each group is distributed over the classes; 0 where not allowed.
    n_rows : int array of shape (u,)
    """

    allowed: BoolArray
    plan: FloatArray
    n_rows: IndexArray


@dataclass(frozen=True)
class Blockage:
    """Why rates cannot be reached: ``classes`` together get at most ``reachable``, but need at least ``wanted``.

    ``n_rows`` is the number of rows that allow any of the classes. If ``weighted``, the two numbers are weighted sums
    of the rates of all classes, with weights from 0 to 1, and ``classes`` are those with large weights.
    """

    classes: IndexArray
    reachable: float
    wanted: float
    n_rows: int
    weighted: bool = False


def diagnose(dual: Dual, survey: Survey, shift: FloatArray | None = None) -> Blockage | IndexArray | None:
    """Whether hard zeros allow any rates of the rate set: one pass over the rows.

    Parameters
    ----------
    dual : Dual
    survey : Survey
    shift : array, optional
        Where the solver stopped, on the kept classes. Without it, a ball is only tested for classes that no row
        predicts.

    Returns
    -------
    Blockage
        If no rates of the set are possible.
    array of int of shape (k,)
        If they are possible only in the limit of an infinite shift: the level of each kept class, see
        ``RowModel.limit_levels``.
    None
        If they are possible, or if the test cannot decide.
    """
    rate_set = dual.kept_rate_set
    supports = dual.rows.fold(partial(_supports_of, dual.model), _merge_all)
    if rate_set.is_curved:
        return _separated(dual, survey, supports, shift)
    plan, cut_off = _route(supports, rate_set)
    if cut_off is not None:
        group = np.zeros(len(rate_set.low), dtype=bool)
        group[cut_off] = True
        return _blockage(dual, survey, supports, group)
    levels = _levels(plan.T @ supports.allowed > _NEGLIGIBLE, plan.sum(axis=0), rate_set)
    return levels if levels.any() else None


def _blockage(dual: Dual, survey: Survey, supports: Supports, group: BoolArray) -> Blockage:
    kept, rows = dual.model.kept_classes, supports.allowed[:, group].any(axis=1)
    least = dual.kept_rate_set.support(group.astype(np.float64), survey.mean[kept])
    return Blockage(
        classes=kept[group],
        reachable=float(supports.plan[rows].sum()),
        wanted=float(least[group].sum()),
        n_rows=int(supports.n_rows[rows].sum()),
    )


def _separated(dual: Dual, survey: Survey, supports: Supports, shift: FloatArray | None) -> Blockage | None:
    """What needs more than the rows can give: a group of classes with the largest shifts, or a weighted sum."""
    ranks = -np.asarray(supports.plan.sum(axis=0) > 0, dtype=np.float64) if shift is None else shift
    groups = [ranks >= floor for floor in np.unique(ranks)[1:]]
    found = [_blockage(dual, survey, supports, group) for group in groups]
    directions = [] if shift is None else [shift]
    region = dual.kept_rate_set.region
    if shift is not None or not region.is_cut:
        directions.append(_towards_centre(region, supports))
    for direction in directions:
        if np.ptp(direction) > 0:
            weights = (direction - direction.min()) / np.ptp(direction)
            found.append(_weighted_blockage(dual, survey, supports, weights))
    blocked = [one for one in found if one.wanted > one.reachable + 1e-9]
    return max(blocked, key=lambda one: (not one.weighted, one.wanted - one.reachable), default=None)


def _towards_centre(region: Region, supports: Supports) -> FloatArray:
    """The direction from the possible rates that are nearest to the centre of a region, to that centre.

    The nearest ones are found by non-negative least squares, in which a large factor makes each group of rows keep its
    weight. Whether the direction separates the two is tested exactly afterwards.
    """
    from scipy.optimize import nnls

    of_group, of_class = np.nonzero(supports.allowed)
    if len(of_group) > _MAX_UNKNOWNS:
        return np.zeros(supports.allowed.shape[1])
    centre, whitening = region.centre, region.whitening
    n_groups, k = supports.allowed.shape
    equations = np.zeros((len(whitening) + n_groups, len(of_group)))
    equations[: len(whitening)] = whitening[:, of_class]
    equations[len(whitening) + of_group, np.arange(len(of_group))] = _KEPT_WEIGHT
    wanted = np.concatenate([whitening @ centre, _KEPT_WEIGHT * supports.plan.sum(axis=1)])
    try:
        amounts, _ = nnls(equations, wanted)
    except RuntimeError:  # too many steps
        return np.zeros(k)
    return region.normal(centre - np.bincount(of_class, amounts, minlength=k))


def _weighted_blockage(dual: Dual, survey: Survey, supports: Supports, weights: FloatArray) -> Blockage:
    """The weighted sum of rates that the rows allow at most, and that the rate set needs at least.

    A ball can be out of reach although no group of classes is. Then the direction from the nearest possible rates to
    its centre separates them, and the shift grows in this direction.
    """
    kept, large = dual.model.kept_classes, weights > 0.5
    best = np.where(supports.allowed, weights, 0.0).max(axis=1)
    least = dual.kept_rate_set.support(weights, survey.mean[kept])
    rows = supports.allowed[:, large].any(axis=1)
    return Blockage(
        classes=kept[large],
        reachable=float(supports.plan.sum(axis=1) @ best),
        wanted=float(weights @ least),
        n_rows=int(supports.n_rows[rows].sum()),
        weighted=True,
    )


def _supports_of(model: RowModel, block: Block) -> Supports:
    block = block.as_numpy()
    p, eta = map(model.kept, model.read(block.rows))
    allowed = ~np.isneginf(eta)
    return _merge(allowed, p / p.sum(axis=1, keepdims=True) * block.weights[:, None], np.ones(len(p), dtype=np.intp))


def _merge_all(parts: Iterable[Supports]) -> Supports:
    collected = list(parts)
    return _merge(
        np.concatenate([part.allowed for part in collected]),
        np.concatenate([part.plan for part in collected]),
        np.concatenate([part.n_rows for part in collected]),
    )


def _merge(allowed: BoolArray, plan: FloatArray, n_rows: IndexArray) -> Supports:
    first, group = row_patterns(allowed)
    merged = np.zeros((len(first), plan.shape[1]))
    np.add.at(merged, group, plan)
    return Supports(allowed[first], merged, np.bincount(group, weights=n_rows).astype(np.intp))


def _route(supports: Supports, rate_set: RateSet) -> tuple[FloatArray, IndexArray | None]:
    """Move mass until all bounds are met: the plan, and the classes that got too little if that is impossible."""
    plan, allowed = supports.plan.copy(), supports.allowed.astype(np.float64)
    movable = plan.T @ allowed  # mass of class j (row) in rows of data that also allow another class (column)
    while True:
        mass = plan.sum(axis=0)
        # First move what exceeds an upper bound to classes below theirs, then fill up what is below a lower bound.
        floor = rate_set.high if (mass > rate_set.high + _NEGLIGIBLE).any() else rate_set.low
        path, reached = _path(movable > _NEGLIGIBLE, mass > floor + _NEGLIGIBLE, mass < floor - _NEGLIGIBLE)
        if path is None:
            missing = np.maximum(rate_set.low - mass, 0.0)
            missing += np.maximum(mass - rate_set.high, 0.0)
            blocked = missing.sum() > _NEGLIGIBLE * len(mass) and not reached.all()
            return plan, np.flatnonzero(~reached) if blocked else None
        steps = list(itertools.pairwise(path))
        ends = (mass[path[0]] - floor[path[0]], floor[path[-1]] - mass[path[-1]])
        amount = min(*ends, *(movable[j, to] for j, to in steps))
        for j, to in steps:
            _move(plan, supports.allowed, j, to, amount)
            movable[j], movable[to] = plan[:, j] @ allowed, plan[:, to] @ allowed


def _path(edges: BoolArray, sources: BoolArray, sinks: BoolArray) -> tuple[list[int] | None, BoolArray]:
    """A shortest path from a source to a sink by breadth-first search, and everything that can be reached."""
    reached = sources.copy()
    parent = np.full(len(edges), -1)
    front = np.flatnonzero(sources)
    while front.size:
        found = np.flatnonzero(sinks & reached)
        if found.size:
            path = [int(found[0])]
            while parent[path[-1]] >= 0:
                path.append(int(parent[path[-1]]))
            return path[::-1], reached
        new = edges[front] & ~reached
        fresh = np.flatnonzero(new.any(axis=0))
        parent[fresh] = front[new[:, fresh].argmax(axis=0)]
        reached[fresh] = True
        front = fresh
    return None, reached


def _move(plan: FloatArray, allowed: BoolArray, j: int, to: int, amount: float) -> None:
    """Move mass from class j to another one within rows that allow both, from the first groups that have any."""
    groups = np.flatnonzero(allowed[:, to] & (plan[:, j] > 0))
    available = plan[groups, j]
    before = np.concatenate([[0.0], np.cumsum(available)[:-1]])
    taken = np.clip(amount - before, 0.0, available)
    plan[groups, j] -= taken
    plan[groups, to] += taken


def _levels(edges: BoolArray, mass: FloatArray, rate_set: RateSet) -> IndexArray:
    """Levels of the classes: mass can move from a level to lower ones, but never back.

    Within one level mass can move both ways. Between levels the present plan is the only possible one, so entries on
    lower levels are 0 in every solution. Classes below their upper bounds can take mass from those above their lower
    bounds, which is one more node of the graph.
    """
    from scipy.sparse.csgraph import connected_components

    k = len(edges)
    graph = np.zeros((k + 1, k + 1), dtype=bool)
    graph[:k, :k] = edges
    graph[:k, k] = mass < rate_set.high - _NEGLIGIBLE
    graph[k, :k] = mass > rate_set.low + _NEGLIGIBLE
    _, component = connected_components(graph, directed=True, connection="strong")
    level = np.zeros(component.max() + 1, dtype=np.intp)
    above, below = component[np.nonzero(graph)[0]], component[np.nonzero(graph)[1]]
    above, below = above[above != below], below[above != below]
    for _ in range(len(level)):
        np.maximum.at(level, above, level[below] + 1)
    found = np.asarray(level[component])[:k]
    return np.asarray(found - found.min())
