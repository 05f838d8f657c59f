"""The formulas of :mod:`baserate.deploy.row_maps` as nodes of an ONNX graph."""

from __future__ import annotations

import numpy as np

from baserate.deploy.formula import TINY, TO_CODE, Formula
from baserate.deploy.onnx_nodes import INT64, Nodes
from baserate.deploy.row_maps import (
    Isotonic,
    PowerRoot,
    Projection,
    Reweighting,
    Sphere,
    SupportSearch,
    Translation,
)
from baserate.errors import BadLoss
from baserate.support.arrays import IndexArray

_BISECTIONS = 56  # Steps that halve an interval of length 1 to the last digit of a number near 0.1.
_MOST_ORDERED = 50
"""Largest number of ordered classes: the number of candidates for the isotonic regression grows with its square."""


def add_formula(nodes: Nodes, formula: Formula, rows: str) -> str:
    """Add the nodes of a formula to a graph, and return the name of the adjusted rows.

    Parameters
    ----------
    nodes : Nodes
    formula : Formula
    rows : str
        Name of the rows in float64, of shape (n, k).
    """
    row_map = formula.row_map
    if formula.shifts_logits:
        assert isinstance(row_map, Reweighting)
        adjusted = _reweighted(nodes, row_map, nodes.columns(rows, formula.kept))
    else:
        adjusted = _adjusted(nodes, formula, _probabilities(nodes, formula, rows))
    if len(formula.kept) == formula.n_classes:
        return adjusted
    # The columns of the kept classes, and a column of zeros for all others.
    zero = nodes("Mul", nodes.columns(adjusted, [0]), 0.0)
    position = np.full(formula.n_classes, len(formula.kept))
    position[formula.kept] = np.arange(len(formula.kept))
    return nodes.columns(nodes("Concat", adjusted, zero, axis=1), position)


def two_columns(nodes: Nodes, values: str, *, from_logits: bool) -> str:
    """The probabilities, or logits, of both classes from those of the second one, of shape (n, 1)."""
    if from_logits:
        both = nodes("Min", nodes("Neg", values), 0.0), nodes("Min", values, 0.0)
    else:
        second = nodes("Min", values, 1.0)
        both = nodes("Sub", 1.0, second), second
    return nodes("Concat", *both, axis=1)


def can_be_adjusted(nodes: Nodes, formula: Formula, rows: str) -> str:
    """Which rows without NaN are finite, not negative, and have a class that can get probability; of shape (n, 1)."""
    kept = nodes.columns(rows, formula.kept) if formula.needs_kept else rows
    has_class = nodes("Greater", nodes.max(kept), -np.inf if formula.from_logits else 0.0)
    if formula.from_logits:
        return nodes("And", has_class, nodes("Less", nodes.max(rows), np.inf))
    finite = nodes("Less", nodes.sum(rows), np.inf)
    return nodes("And", nodes("And", has_class, finite), nodes("GreaterOrEqual", nodes.min(rows), 0.0))


def _probabilities(nodes: Nodes, formula: Formula, rows: str) -> str:
    """Probabilities of all classes that sum to 1, after smoothing."""
    if formula.from_logits:
        e = nodes("Exp", nodes("Sub", rows, nodes.max(rows)))
        p = nodes("Div", e, nodes.sum(e))
        if formula.lifts_probabilities:
            p = nodes("Where", nodes("Greater", rows, -np.inf), nodes("Max", p, TINY), p)
    else:
        p = nodes("Div", rows, nodes.sum(rows))
    if formula.smoothing:
        # One divisor per class: onnxruntime would merge a single one with a matrix product, in float32.
        scale = np.full((1, formula.n_classes), 1.0 + formula.n_classes * formula.smoothing)
        p = nodes("Div", nodes("Add", p, formula.smoothing), scale)
    return p


def _adjusted(nodes: Nodes, formula: Formula, p: str) -> str:
    """Adjusted rows of the kept classes."""
    row_map = formula.row_map
    kept = p if len(formula.kept) == formula.n_classes else nodes.columns(p, formula.kept)
    match row_map:
        case Reweighting():
            return _reweighted(nodes, row_map, nodes("Log", kept))
        case Translation():
            return nodes("Add", p, row_map.offset[None])
        case Projection():
            return _projected(nodes, row_map, kept)
        case Sphere():
            return _on_sphere(nodes, row_map, kept, nodes("Sqrt", nodes.sum(nodes("Mul", p, p))))
        case Isotonic():
            return _isotonic(nodes, row_map, p)
        case PowerRoot():
            return _power(nodes, row_map, kept)
        case SupportSearch():
            return _best_support(nodes, row_map, p)


def _highest_levels(nodes: Nodes, levels: IndexArray, possible: str) -> str:
    """Which entries are of the highest level among the possible ones of their row."""
    level = nodes("Where", possible, levels[None].astype(np.float64), -1.0)
    return nodes("Equal", level, nodes.max(level))


def _reweighted(nodes: Nodes, row_map: Reweighting, logs: str) -> str:
    x = nodes("Add", logs, row_map.shift[None])
    if row_map.levels is not None:
        x = nodes("Where", _highest_levels(nodes, row_map.levels, nodes("Greater", logs, -np.inf)), x, -np.inf)
    e = nodes("Exp", nodes("Sub", x, nodes.max(x)))
    a = nodes("Div", e, nodes.sum(e))
    return nodes("Where", nodes("Greater", x, -np.inf), nodes("Max", a, TINY), 0.0)


def _projected(nodes: Nodes, row_map: Projection, p: str) -> str:
    """With theta the least of ``(1 - sum of z) / sum of spread`` over the first classes in the order of z / spread."""
    m, spread = len(row_map.spread), row_map.spread[None]
    z = nodes("Add", p, row_map.offset[None])
    top = nodes.max(nodes("Div", z, spread))
    z = nodes("Sub", z, nodes("Mul", top, spread))  # so that a large common constant does not round the differences
    ratio, order = nodes.add("TopK", [nodes("Div", z, spread), nodes.constant([m], np.int64)], 2, axis=1)
    widths = nodes("Add", nodes("Mul", ratio, 0.0), spread)
    if np.ptp(row_map.spread):
        widths = nodes("GatherElements", widths, order, axis=1)
    z_sum = _cumulative(nodes, nodes("Mul", ratio, widths))
    theta = nodes.min(nodes("Div", nodes("Sub", 1.0, z_sum), _cumulative(nodes, widths)))
    a = nodes("Max", nodes("Add", z, nodes("Mul", theta, spread)), 0.0)
    return nodes("Div", a, nodes.sum(a))


def _cumulative(nodes: Nodes, value: str) -> str:
    return nodes.add("CumSum", [value, nodes.constant(1, np.int64)])[0]


def _on_sphere(nodes: Nodes, row_map: Sphere, p: str, norm: str) -> str:
    x, m = nodes("Add", nodes("Div", p, norm), row_map.shift[None]), float(len(row_map.shift))
    if not row_map.bounded:
        centred = nodes("Sub", x, nodes("Div", nodes.sum(x), m))
        theta = nodes("Sqrt", nodes("Div", nodes("Sub", 1.0, nodes.sum(nodes("Mul", centred, centred))), m))
        u = nodes("Add", centred, theta)
        return nodes("Div", u, nodes.sum(u))
    x = nodes("Sub", x, nodes.max(x))
    ordered, _ = nodes.add("TopK", [x, nodes.constant([int(m)], np.int64)], 2, axis=1)
    count, total = np.arange(1.0, m + 1)[None], _cumulative(nodes, ordered)
    squares = _cumulative(nodes, nodes("Mul", ordered, ordered))
    # Entry i is in the support if the norm at theta = -x_i, which is that of the larger entries, is below 1.
    doubled = nodes("Mul", nodes("Mul", ordered, total), 2.0)
    squared_norm = nodes("Add", nodes("Sub", squares, doubled), nodes("Mul", nodes("Mul", ordered, ordered), count))
    inside = nodes("Where", nodes("Less", squared_norm, 1.0), 1.0, 0.0)
    last = nodes("Mul", inside, nodes("Sub", 1.0, _next_column(nodes, inside, int(m))))
    size, s, q = (nodes.sum(nodes("Mul", last, value)) for value in (count, total, squares))
    root = nodes("Sqrt", nodes("Sub", nodes("Mul", s, s), nodes("Mul", size, nodes("Sub", q, 1.0))))
    u = nodes("Max", nodes("Add", x, nodes("Div", nodes("Sub", root, s), size)), 0.0)
    return nodes("Div", u, nodes.sum(u))


def _next_column(nodes: Nodes, value: str, m: int) -> str:
    """Each column replaced by the one on its right, and the last one by 0."""
    zero = nodes("Mul", nodes.columns(value, [0]), 0.0)
    return nodes.columns(nodes("Concat", value, zero, axis=1), np.arange(1, m + 1))


def _isotonic(nodes: Nodes, row_map: Isotonic, p: str) -> str:
    """The value at t is the largest over s <= t of the smallest over u >= t of the mean of the entries s to u."""
    w, n = row_map.weights, len(row_map.weights)
    if n + 1 > _MOST_ORDERED:
        raise BadLoss(
            f"RankedProbability with {n + 1} classes cannot be exported to ONNX, which is possible up to "
            f"{_MOST_ORDERED} classes; use {TO_CODE}",
            options=[TO_CODE],
        )
    z = nodes("Add", nodes("MatMul", p, row_map.matrix), row_map.offset[None])
    pairs = [(s, u) for s in range(n) for u in range(s, n)]
    share = np.zeros((n, len(pairs)))
    for i, (s, u) in enumerate(pairs):
        share[s : u + 1, i] = w[s : u + 1] / w[s : u + 1].sum()
    means = nodes("MatMul", z, share)
    number = {pair: i for i, pair in enumerate(pairs)}
    values = []
    for t in range(n):
        smallest = [nodes.min(nodes.columns(means, [number[s, u] for u in range(t, n)])) for s in range(t + 1)]
        values.append(nodes("Max", *smallest) if len(smallest) > 1 else smallest[0])
    cumulative = nodes("Min", nodes("Max", nodes("Concat", *values, axis=1), 0.0), 1.0)
    edge = nodes("Mul", nodes.columns(cumulative, [0]), 0.0)
    upper = nodes("Concat", cumulative, nodes("Add", edge, 1.0), axis=1)
    return nodes("Max", nodes("Sub", upper, nodes("Concat", edge, cumulative, axis=1)), 0.0)


def _power(nodes: Nodes, row_map: PowerRoot, p: str) -> str:
    possible = nodes("Greater", p, 0.0) if row_map.beta < 1 else None
    if possible is not None and row_map.levels is not None:
        possible = nodes("And", possible, _highest_levels(nodes, row_map.levels, possible))
    x = nodes("Add", _power_link(nodes, row_map.beta, p), row_map.shift[None])
    if possible is not None:
        x = nodes("Where", possible, x, -np.inf)
    gap = nodes("Sub", x, nodes.max(x))
    low = nodes("Add", nodes("Mul", nodes.max(p), 0.0), 1.0 / len(row_map.shift))
    high = nodes("Add", nodes("Mul", low, 0.0), 1.0)
    for _ in range(_BISECTIONS):
        middle = nodes("Mul", nodes("Add", low, high), 0.5)
        too_small = nodes("Less", nodes.sum(_power_entries(nodes, row_map.beta, middle, gap)), 1.0)
        low, high = nodes("Where", too_small, middle, low), nodes("Where", too_small, high, middle)
    a = _power_entries(nodes, row_map.beta, high, gap)
    a = nodes("Div", a, nodes.sum(a))
    return a if possible is None else nodes("Where", possible, nodes("Max", a, TINY), 0.0)


def _power_entries(nodes: Nodes, beta: float, largest: str, gap: str) -> str:
    """``inverse_link(link(largest) + gap)``."""
    b = beta - 1.0
    y = nodes("Mul", nodes("Add", _power_link(nodes, beta, largest), gap), b / beta)
    if abs(b) >= 0.1:
        return nodes("Pow", nodes("Max", y, 0.0), 1.0 / b)
    return nodes("Exp", nodes("Div", _log1p(nodes, nodes("Max", y, -1.0)), b))


def _power_link(nodes: Nodes, beta: float, q: str) -> str:
    b = beta - 1.0
    if abs(b) >= 0.1:
        return nodes("Mul", nodes("Pow", q, b), beta / b)
    return nodes("Mul", _expm1(nodes, nodes("Mul", nodes("Log", q), b)), beta / b)


def _expm1(nodes: Nodes, x: str) -> str:
    """``exp(x) - 1`` without cancellation, which ONNX has no operator for: Kahan's formula (u - 1) x / log(u)."""
    u = nodes("Exp", x)
    difference = nodes("Sub", u, 1.0)
    formula = nodes("Div", nodes("Mul", difference, x), nodes("Log", u))
    near = nodes("Less", nodes("Abs", x), 0.5)  # elsewhere nothing cancels, and u may be 0 or infinite
    return nodes("Where", nodes("Equal", u, 1.0), x, nodes("Where", near, formula, difference))


def _log1p(nodes: Nodes, x: str) -> str:
    """``log(1 + x)`` without cancellation: Kahan's formula x log(u) / (u - 1)."""
    u = nodes("Add", x, 1.0)
    log = nodes("Log", u)
    formula = nodes("Div", nodes("Mul", x, log), nodes("Sub", u, 1.0))
    near = nodes("Less", nodes("Abs", x), 0.5)
    return nodes("Where", nodes("Equal", u, 1.0), x, nodes("Where", near, formula, log))


def _best_support(nodes: Nodes, row_map: SupportSearch, p: str) -> str:
    m = row_map.offsets.shape[1] // 2
    whole_row = nodes.along("Unsqueeze", nodes.along("Unsqueeze", p, 1), 1)  # (n, 1, 1, k)
    candidates = nodes("Add", nodes("MatMul", whole_row, row_map.matrices), row_map.offsets[:, None])
    candidates = nodes.along("Squeeze", candidates, 2)  # (n, candidates, 2m)
    best = nodes.add("ArgMax", [nodes.min(candidates, 2)], axis=1, keepdims=1)[0]  # (n, 1, 1)
    every = nodes("Mul", nodes.columns(candidates, [0]), 0.0)
    index = nodes("Add", nodes.add("Cast", [every], to=INT64)[0], best)
    chosen = nodes.along("Squeeze", nodes.add("GatherElements", [candidates, index], axis=1)[0], 1)
    a = nodes("Max", nodes.columns(chosen, np.arange(m)), 0.0)
    return nodes("Div", a, nodes.sum(a))
