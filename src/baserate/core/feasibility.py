"""Which rates hard zeros allow.

Under a loss that pins zeros, a row can only move probability among the classes to which it gives some. Rows with the
same support are alike, so the question is a transport problem: from supports, with the weight of their rows, to
classes, with the bounds of their rates. By Hall's theorem it has no solution exactly if some group of classes may not
have as much as the rows that allow nothing else, or must have more than the rows that allow any of it. It is solved by
augmenting paths over the k classes, starting from the plan that the predictions themselves are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from baserate.core.problem import Problem
from baserate.engines.base import Block
from baserate.rates.sets import RateSet
from baserate.support.arrays import BoolArray, FloatArray, IndexArray

_DUST = 1e-14  # Mass that summing n rows may have lost or made; rates down to 1e-12 are still told from it.


@dataclass(frozen=True)
class Supports:
    """Rows grouped by support.

    Attributes
    ----------
    allowed : bool array of shape (u, k)
    plan : array of shape (u, k)
        How the weight of each group is spread over the classes; 0 where not allowed.
    n_rows : int array of shape (u,)
    """

    allowed: BoolArray
    plan: FloatArray
    n_rows: IndexArray


@dataclass(frozen=True)
class Blockage:
    """Why rates cannot be reached: ``classes`` together get at most ``reachable``, but need at least ``wanted``."""

    classes: IndexArray
    reachable: float
    wanted: float
    n_rows: int
    """Rows that allow any of the classes."""


def diagnose(problem: Problem, shift: FloatArray | None = None) -> Blockage | IndexArray | None:
    """Whether hard zeros allow any rates of the region.

    Parameters
    ----------
    problem : Problem
    shift : array, optional
        Where the solver gave up, on the kept classes. Without it, only a ball that asks for classes which no row
        predicts is found out.

    Returns
    -------
    Blockage
        They do not.
    array of int of shape (k,)
        Only in the limit of an infinite shift: the level of each kept class, see ``RowModel.levels``.
    None
        They do, or it cannot be said.
    """
    region = problem.kept_rate_set
    supports = _group(problem.engine.map(lambda block: _supports_of(problem, block)))
    if region.ball is not None:
        return _separated(problem, supports, shift)
    plan, cut_off = _route(supports, region)
    if cut_off is not None:
        group = np.zeros(len(region.low), dtype=bool)
        group[cut_off] = True
        return _blockage(problem, supports, group)
    levels = _levels(plan.T @ supports.allowed > _DUST, plan.sum(axis=0), region)
    return levels if levels.any() else None


def _blockage(problem: Problem, supports: Supports, group: BoolArray) -> Blockage:
    region, rows = problem.kept_rate_set, supports.allowed[:, group].any(axis=1)
    least = region.support(group.astype(np.float64), problem.survey.mean[problem.model.keep])
    return Blockage(
        classes=problem.model.keep[group],
        reachable=float(supports.plan[rows].sum()),
        wanted=float(least[group].sum()),
        n_rows=int(supports.n_rows[rows].sum()),
    )


def _separated(problem: Problem, supports: Supports, shift: FloatArray | None) -> Blockage | None:
    """A group of classes that must have more than the rows can give it, among those that a shift ranks highest."""
    ranks = -np.asarray(supports.plan.sum(axis=0) > 0, dtype=np.float64) if shift is None else shift
    groups = [ranks >= floor for floor in np.unique(ranks)[1:]]
    found = [_blockage(problem, supports, group) for group in groups]
    worst = max(found, key=lambda one: one.wanted - one.reachable, default=None)
    return worst if worst is not None and worst.wanted > worst.reachable + 1e-9 else None


def _supports_of(problem: Problem, block: Block) -> Supports:
    model = problem.model
    rows = model.reading.clean(block.raw)
    allowed = ~np.isneginf(model.kept(model.dual_points(rows)))
    p = model.kept(model.probs(rows))
    return _merge(allowed, p / p.sum(axis=1, keepdims=True) * block.weights[:, None], np.ones(len(p), dtype=np.intp))


def _group(parts: Iterable[Supports]) -> Supports:
    collected = list(parts)
    return _merge(
        np.concatenate([part.allowed for part in collected]),
        np.concatenate([part.plan for part in collected]),
        np.concatenate([part.n_rows for part in collected]),
    )


def _merge(allowed: BoolArray, plan: FloatArray, n_rows: IndexArray) -> Supports:
    packed = np.packbits(allowed, axis=1)
    _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    group = group.ravel()
    merged = np.zeros((len(first), plan.shape[1]))
    np.add.at(merged, group, plan)
    return Supports(allowed[first], merged, np.bincount(group, weights=n_rows).astype(np.intp))


def _route(supports: Supports, region: RateSet) -> tuple[FloatArray, IndexArray | None]:
    """Move mass until all bounds are met; the plan, and the classes that got too little if they cannot be."""
    plan, allowed = supports.plan.copy(), supports.allowed.astype(np.float64)
    movable = plan.T @ allowed  # mass of class j (row) in rows of data that also allow another class (column)
    while True:
        mass = plan.sum(axis=0)
        # First whatever is above its upper bound goes anywhere that has room, then what is missing comes from anywhere.
        floor = region.high if (mass > region.high + _DUST).any() else region.low
        path, reached = _path(movable > _DUST, mass > floor + _DUST, mass < floor - _DUST)
        if path is None:
            missing = np.maximum(region.low - mass, 0.0)
            missing += np.maximum(mass - region.high, 0.0)
            return plan, np.flatnonzero(~reached) if missing.sum() > _DUST * len(mass) and not reached.all() else None
        steps = list(itertools.pairwise(path))
        ends = (mass[path[0]] - floor[path[0]], floor[path[-1]] - mass[path[-1]])
        amount = min(*ends, *(movable[j, to] for j, to in steps))
        for j, to in steps:
            _move(plan, supports.allowed, j, to, amount)
            movable[j], movable[to] = plan[:, j] @ allowed, plan[:, to] @ allowed


def _path(edges: BoolArray, sources: BoolArray, sinks: BoolArray) -> tuple[list[int] | None, BoolArray]:
    """A shortest path from a source to a sink, by breadth-first search; also all that can be reached."""
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
    """Move mass from class j to another, in rows that allow both, taking what comes first."""
    groups = np.flatnonzero(allowed[:, to] & (plan[:, j] > 0))
    available = plan[groups, j]
    before = np.concatenate([[0.0], np.cumsum(available)[:-1]])
    taken = np.clip(amount - before, 0.0, available)
    plan[groups, j] -= taken
    plan[groups, to] += taken


def _levels(edges: BoolArray, mass: FloatArray, region: RateSet) -> IndexArray:
    """Levels of the classes: mass can leave a level downwards, but none can come back.

    Within one level mass flows both ways. Between levels the present plan is the only one that there is, so
    entries that reach down are 0 in every solution. Classes that have room below their upper bounds can pass mass to
    those that have some above their lower ones: that is one more node of the graph.
    """
    from scipy.sparse.csgraph import connected_components

    k = len(edges)
    graph = np.zeros((k + 1, k + 1), dtype=bool)
    graph[:k, :k] = edges
    graph[:k, k] = mass < region.high - _DUST
    graph[k, :k] = mass > region.low + _DUST
    _, component = connected_components(graph, directed=True, connection="strong")
    level = np.zeros(component.max() + 1, dtype=np.intp)
    above, below = component[np.nonzero(graph)[0]], component[np.nonzero(graph)[1]]
    above, below = above[above != below], below[above != below]
    for _ in range(len(level)):
        np.maximum.at(level, above, level[below] + 1)
    found = np.asarray(level[component])[:k]
    return np.asarray(found - found.min())
