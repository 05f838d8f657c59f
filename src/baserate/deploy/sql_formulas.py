"""The formulas of :mod:`baserate.deploy.row_maps` as SQL expressions.

A row with a NULL has the result NULL in all classes. Databases differ in what they do if a result is too small for a
double: some return 0, PostgreSQL raises an error. So products of small numbers are guarded by CASE. ``0 * x`` is 0, or
NULL if x is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from baserate.deploy.formula import TINY, TO_ONNX, Formula
from baserate.deploy.row_maps import Isotonic, Projection, Reweighting, RowMap, Sphere, Translation
from baserate.deploy.sql_names import extreme, identifier, number, total
from baserate.deploy.sql_query import Query
from baserate.errors import BadLoss
from baserate.support.arrays import IndexArray

MOST_CLASSES = {"Projection": 40, "Sphere": 40, "Isotonic": 20}
"""Largest number of classes of formulas whose text grows with the square of it, or faster."""

POSSIBLE = (
    "SQL is possible for Log, for Brier, WeightedBrier and Spherical with up to 40 classes, for RankedProbability with "
    "up to 20, and for quadratic losses with bounded=False"
)
"""The losses of which there are queries, for messages."""

_ONNX = f"for more losses and classes, use {TO_ONNX}"

WIDEST_RANGE = 200.0
"""Range of the shifts up to which their exponentials and the products with probabilities are in range."""

_NEGLIGIBLE = 1e-150  # Its product with a weight is in range, and far below the last digit of the sum.
_NO_LOG = -1e300  # In place of the logarithm of 0.
_ZERO, _ONE = number(0.0), number(1.0)


def check_sql(row_map: RowMap, loss: str) -> None:
    """Raise if a formula cannot be written in SQL."""
    kind = type(row_map).__name__
    if not isinstance(row_map, (Reweighting, Translation, Projection, Sphere, Isotonic)):
        raise BadLoss(
            f"{loss} has no formula in SQL, because its rows are found by a search. {POSSIBLE}; {_ONNX}",
            options=[TO_ONNX],
        )
    n = len(row_map.weights) + 1 if isinstance(row_map, Isotonic) else _size(row_map)
    if n > MOST_CLASSES.get(kind, n) and not (isinstance(row_map, Sphere) and not row_map.bounded):
        raise BadLoss(
            f"{loss} with {n} classes would need a query of too many terms. {POSSIBLE}; {_ONNX}", options=[TO_ONNX]
        )


def _size(row_map: Reweighting | Translation | Projection | Sphere) -> int:
    return len(row_map.shift if isinstance(row_map, (Reweighting, Sphere)) else row_map.offset)


def adjusted_classes(
    query: Query, formula: Formula, read: Sequence[str], given: Sequence[str] | None = None
) -> list[str]:
    """Add levels to a query, and return the adjusted probability of each class as an expression.

    Parameters
    ----------
    query : Query
    formula : Formula
    read : list of str
        The columns that :func:`columns_read` has named.
    given : list of str, optional
        Columns with the weights of the classes (log loss) or their offsets, if these are not the same for all rows.
    """
    row_map = formula.row_map
    values = _both_classes(query, formula, read) if len(read) < formula.n_classes else list(read)
    if isinstance(row_map, Reweighting) and given is None and _needs_logs(formula, row_map):
        adjusted = _by_logs(query, formula, row_map, values)
    elif isinstance(row_map, Reweighting):
        if formula.from_logits or formula.smoothing:
            values = _probabilities(query, formula, values)
        adjusted = _by_weights(query, row_map, values, given)
    elif formula.needs_kept:  # only one class has a rate above 0, and it gets everything
        adjusted = [_all_for(values[formula.kept[0]], values, formula)]
    else:
        p = _probabilities(query, formula, values)
        adjusted = _by_offsets(query, row_map, p, [p[j] for j in formula.kept], given)
    adjusted = query.add_columns("a", adjusted)
    of_class = dict(zip(formula.kept.tolist(), adjusted, strict=True))
    return [of_class.get(j, f"{_ZERO} * {adjusted[0]}") for j in range(formula.n_classes)]


def _all_for(kept: str, values: Sequence[str], formula: Formula) -> str:
    """1 for a class that gets everything, or NULL if it has probability 0, which remains 0."""
    anything_null = f"{_ZERO} * ({total([_finite(value) for value in values])})"
    least = number(_NO_LOG) if formula.from_logits else "0"
    return f"CASE WHEN {kept} > {least} THEN {_ONE} + {anything_null} END"


def columns_read(query: Query) -> dict[str, str]:
    """The first level: the columns with probabilities as double precision, by new names."""
    return {f"p{j}": f"CAST(t.{identifier(name)} AS DOUBLE)" for j, name in enumerate(query.columns)}


def _both_classes(query: Query, formula: Formula, read: Sequence[str]) -> list[str]:
    """The probabilities, or logits, of both classes from those of the second one."""
    [value] = read
    if formula.from_logits:
        return query.add_columns("x", [_at_most(f"-{value}", _ZERO), _at_most(value, _ZERO)])
    second = _at_most(value, _ONE)
    return query.add_columns("x", [f"{_ONE} - {second}", second])


def _at_most(value: str, limit: str) -> str:
    return f"CASE WHEN {value} > {limit} THEN {limit} ELSE {value} END"


def _positive(value: str, otherwise: str) -> str:
    """The value if it is positive, else 0, or NULL if ``otherwise`` is."""
    return f"CASE WHEN {value} > 0 THEN {value} ELSE {_ZERO} * {otherwise} END"


def _probabilities(query: Query, formula: Formula, values: Sequence[str]) -> list[str]:
    """The probabilities of all classes, which sum to 1, after smoothing."""
    powers = _exponentials(query, values)[0] if formula.from_logits else values
    denominator = query.add_column("sum", f"NULLIF({total(powers)}, {_ZERO})")
    p = [f"{value} / {denominator}" for value in powers]
    if formula.lifts_probabilities:
        p = [
            f"CASE WHEN {logit} > {number(_NO_LOG)} AND {value} < {number(TINY)} THEN {number(TINY)} ELSE {value} END"
            for logit, value in zip(values, p, strict=True)
        ]
    if formula.smoothing:
        scale = number(1.0 + formula.n_classes * formula.smoothing)
        p = [f"({value} + {number(formula.smoothing)}) / {scale}" for value in p]
    return query.add_columns("q", p)


def _exponentials(query: Query, x: Sequence[str]) -> tuple[list[str], str]:
    """``exp(x - largest x)``, which is NULL where x is NULL, and the largest x."""
    largest = query.add_column("max", extreme("GREATEST", x))
    lower = query.add_columns("d", [f"{value} - {largest}" for value in x])
    # Without an ELSE, so that a difference that is NULL remains NULL.
    powers = [f"CASE WHEN {d} > -700 THEN EXP({d}) WHEN {d} <= -700 THEN {_ZERO} END" for d in lower]
    return query.add_columns("e", powers), largest


def _needs_logs(formula: Formula, row_map: Reweighting) -> bool:
    """Whether products of weights and probabilities may be out of range, so that logarithms have to be added."""
    if row_map.levels is not None or len(row_map.shift) < formula.n_classes:
        return True
    return float(np.ptp(row_map.shift)) > WIDEST_RANGE


def _by_weights(query: Query, row_map: Reweighting, p: Sequence[str], given: Sequence[str] | None) -> list[str]:
    """``p_j * w_j`` divided by the sum of all of them, with ``w_j = exp(shift_j - largest shift)``."""
    if given is None:
        values = np.exp(row_map.shift - row_map.shift.max())
        weights, least = [[number(one) for one in column] for column in (values, np.maximum(TINY / values, TINY))]
    else:  # weights of groups are 0, or not below exp(-200)
        weights, least = list(given), [number(1e-200)] * len(given)
    terms = [
        f"CASE WHEN {value} > {number(_NEGLIGIBLE)} THEN {value} * {weight} ELSE {_ZERO} * {value} END"
        for value, weight in zip(p, weights, strict=True)
    ]
    sums = query.add_column("sum_of_products", f"NULLIF({total(terms)}, {_ZERO})")
    also = ["" if given is None else f" AND {weight} > 0" for weight in weights]
    return [
        f"CASE WHEN {value} / {sums} > {limit} THEN {value} / {sums} * {weight} "
        f"WHEN {value} > 0 AND {sums} > 0{condition} THEN {number(TINY)} ELSE {_ZERO} * {sums} END"
        for value, weight, limit, condition in zip(p, weights, least, also, strict=True)
    ]


def _by_logs(query: Query, formula: Formula, row_map: Reweighting, values: Sequence[str]) -> list[str]:
    """The same with logarithms, for shifts of any size, and for limits of infinite shifts."""
    if not formula.shifts_logits and (formula.from_logits or formula.smoothing):
        values = _probabilities(query, formula, values)
    anything_null = query.add_column("sum", f"{_ZERO} * ({total([_finite(value) for value in values])})")
    kept = [values[j] for j in formula.kept]
    if formula.shifts_logits:
        possible = [f"{value} > {number(_NO_LOG)}" for value in kept]
        logs = kept
    else:
        possible = [f"{value} > 0" for value in kept]
        logs = [f"LN({value})" for value in kept]
    if row_map.levels is not None:
        top = query.add_column("level", _highest_level(row_map.levels, possible))
        possible = [f"{one} AND {top} = {level}" for one, level in zip(possible, row_map.levels.tolist(), strict=True)]
    shifted = [
        f"CASE WHEN {one} THEN {log} + {number(by)} ELSE {number(_NO_LOG)} END"
        for one, log, by in zip(possible, logs, row_map.shift, strict=True)
    ]
    x = query.add_columns("log", shifted)
    e, largest = _exponentials(query, x)
    sums = query.add_column(
        "sum_of_products", f"CASE WHEN {largest} > {number(_NO_LOG)} THEN {total([*e, anything_null])} END"
    )
    return [
        f"CASE WHEN {log} = {number(_NO_LOG)} THEN {_ZERO} * {sums} "
        f"WHEN {power} / {sums} > {number(TINY)} THEN {power} / {sums} ELSE {number(TINY)} + {_ZERO} * {sums} END"
        for log, power in zip(x, e, strict=True)
    ]


def _finite(value: str) -> str:
    """The value, or 0 if it is minus infinity, which is the logit of probability 0."""
    return f"CASE WHEN {value} < {number(_NO_LOG)} THEN {_ZERO} ELSE {value} END"


def _highest_level(levels: IndexArray, possible: Sequence[str]) -> str:
    """The highest level among the classes that a row allows."""
    cases = [
        f"WHEN {' OR '.join(one for one, own in zip(possible, levels, strict=True) if own == level)} THEN {level}"
        for level in sorted(set(levels.tolist()), reverse=True)
    ]
    return f"CASE {' '.join(cases)} END"


def _by_offsets(
    query: Query, row_map: RowMap, p: Sequence[str], kept: Sequence[str], given: Sequence[str] | None
) -> list[str]:
    match row_map:
        case Translation() | Projection():
            offset = [number(value) for value in row_map.offset] if given is None else list(given)
            moved = [f"{value} + {by}" for value, by in zip(kept, offset, strict=True)]
            return moved if isinstance(row_map, Translation) else _projected(query, row_map, moved)
        case Sphere():
            return _on_sphere(query, row_map, p, kept)
        case Isotonic():
            return _isotonic(query, row_map, p)
    raise AssertionError(row_map)  # check_sql has refused others


def _projected(query: Query, row_map: Projection, moved: Sequence[str]) -> list[str]:
    """Theta is the least of ``(1 - sum of z) / sum of spread`` over the classes with at least some z / spread."""
    z, spread = query.add_columns("z", moved), [number(value) for value in row_map.spread]
    if np.ptp(row_map.spread):
        rank = query.add_columns("rank", [f"{value} / {width}" for value, width in zip(z, spread, strict=True)])
    else:
        rank = z
    thetas = []
    for own in rank:
        above = [f"CASE WHEN {other} >= {own} THEN {{}} ELSE {_ZERO} END" for other in rank]
        sum_z = total([case.format(value) for case, value in zip(above, z, strict=True)])
        widths = total([case.format(width) for case, width in zip(above, spread, strict=True)])
        thetas.append(f"({_ONE} - ({sum_z})) / ({widths})")
    theta = query.add_column("theta", f"CASE WHEN ({total(z)}) IS NULL THEN NULL ELSE {extreme('LEAST', thetas)} END")
    return [_positive(f"({value} + {theta} * {width})", theta) for value, width in zip(z, spread, strict=True)]


def _square(value: str) -> str:
    """The square, which is 0 if it were too small for a double."""
    return f"CASE WHEN ABS({value}) > {number(_NEGLIGIBLE)} THEN {value} * {value} ELSE {_ZERO} * {value} END"


def _on_sphere(query: Query, row_map: Sphere, p: Sequence[str], kept: Sequence[str]) -> list[str]:
    norm, m = query.add_column("norm", f"SQRT({total([_square(value) for value in p])})"), len(row_map.shift)
    x = query.add_columns("x", [f"{v} / {norm} + {number(by)}" for v, by in zip(kept, row_map.shift, strict=True)])
    if row_map.bounded:
        squares = [
            total([f"CASE WHEN {j} > {i} THEN ({j} - {i}) * ({j} - {i}) ELSE {_ZERO} * {j} END" for j in x]) for i in x
        ]
        inside = query.add_columns(
            "inside", [f"CASE WHEN {value} < 1 THEN {_ONE} ELSE {_ZERO} END" for value in squares]
        )
        count = query.add_column("count", total(inside))
    else:
        inside, count = [_ONE] * m, number(m)
    mean = query.add_column("mean", f"({total([f'{i} * {v}' for i, v in zip(inside, x, strict=True)])}) / {count}")
    centred = query.add_columns("c", [f"{value} - {mean}" for value in x])
    rest = query.add_column(
        "rest", f"{_ONE} - ({total([f'{i} * {_bracketed_square(c)}' for i, c in zip(inside, centred, strict=True)])})"
    )
    # Without a root there is no unbounded adjustment of the row.
    theta = query.add_column("theta", f"CASE WHEN {rest} > 0 THEN SQRT({rest} / {count}) END")
    u = [f"({value} + {theta})" for value in centred]
    u = query.add_columns("u", [_positive(value, theta) for value in u] if row_map.bounded else u)
    sums = query.add_column("sum_of_u", total(u))
    return [f"{value} / {sums}" for value in u]


def _bracketed_square(value: str) -> str:
    return f"({_square(value)})"


def _isotonic(query: Query, row_map: Isotonic, p: Sequence[str]) -> list[str]:
    """The value at t is the largest over s <= t of the smallest over u >= t of the mean of the entries s to u."""
    n, weights = len(row_map.weights), row_map.weights
    columns = (row_map.matrix * weights).cumsum(axis=1).T
    sums = query.add_columns(
        "cumulated",
        [
            total([f"{number(by)} * {value}" for by, value in zip(column, p, strict=True)] + [number(offset)])
            for column, offset in zip(columns, (row_map.offset * weights).cumsum(), strict=True)
        ],
    )
    size = np.concatenate([[0.0], weights.cumsum()])

    def mean(s: int, u: int) -> str:
        return f"({sums[u]}{f' - {sums[s - 1]}' if s else ''}) / {number(size[u + 1] - size[s])}"

    values = [
        extreme("GREATEST", [extreme("LEAST", [mean(s, u) for u in range(t, n)]) for s in range(t + 1)])
        for t in range(n)
    ]
    edges = query.add_columns("isotonic", values)
    anything_null = query.add_column("sum_of_p", f"{_ZERO} * ({total(p)})")
    inside = query.add_columns(
        "within", [f"{_at_most(_positive(edge, anything_null), _ONE)} + {anything_null}" for edge in edges]
    )
    return [
        " - ".join([inside[j] if j < n else f"({_ONE} + {anything_null})", *([inside[j - 1]] if j else [])])
        for j in range(n + 1)
    ]
