"""Whether the rates of overlapping groups can all hold, and which classes they exclude from cells.

Totals are compared before any search: all margins of a component must give the same number of rows of a class. Bounds
on the mass of each class in each cell then find rates that are impossible for other reasons, and classes that a cell
cannot have although none of its groups excludes them. What remains is found during the search, by a separating shift.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from baserate.core.cells.dual import CellPoint, CellSurvey
from baserate.core.cells.group_sets import GroupSets
from baserate.core.cells.groups import Groups
from baserate.core.cells.newton import Check
from baserate.core.search import Names
from baserate.errors import BadRates, InfeasibleRates, Option
from baserate.inputs.validation import class_label
from baserate.rates.sets import ROUNDING, RateSet
from baserate.support.arrays import BoolArray, FloatArray, IndexArray

_ROUNDS = 50
_NEGLIGIBLE = 1e-12  # Of the weight of a cell: a class with less cannot be told from one that is impossible.
_SEPARATION = 1e-9  # Of the size of the shifts: less may be rounding.
_RECONCILED = 1e-13  # Totals that differ by less need no reconciliation.

_TABLE_ROUNDING = Option("rounding", "0.005")
_ZEROS, _BRIER = Option("zeros", "1e-6"), Option("loss", '"brier"')


class Counted(NamedTuple):
    """How messages express weights: the number of rows, and whether all of them have the same weight."""

    n_rows: int
    weighted: bool

    def text(self, weight: float) -> str:
        """A weight as a number of rows, or as a share if rows have different weights."""
        if self.weighted:
            return f"{100 * weight:.6g} % of the weight"
        rows = weight * self.n_rows
        return f"{rows:,.0f} rows" if abs(rows - round(rows)) < 5e-4 else f"{rows:,.3f} rows"


@dataclass(frozen=True, eq=False)
class Totals:
    """The smallest and the largest total of each class, by margin and component: arrays of shape (M, n, k)."""

    low: FloatArray
    high: FloatArray
    weight: FloatArray
    """The weight of each component."""

    @classmethod
    def of(cls, groups: Groups, cell_weights: FloatArray) -> Totals:
        """Add up the bounds of all groups. A group about which nothing is known may have any rates."""
        inside = groups.component_of_cell >= 0
        component, n, k = groups.component_of_cell[inside], groups.n_components, groups.n_classes
        low, high = (np.zeros((len(groups.numbers), n, k)) for _ in range(2))
        for margin, number in enumerate(groups.numbers[:, inside]):
            known, w = groups.known[number][:, None], cell_weights[inside][:, None]
            low[margin] = _sums_by(component, w * np.where(known, groups.sets.low[number], 0.0), n)
            high[margin] = _sums_by(component, w * np.where(known, groups.sets.high[number], 1.0), n)
        return cls(low, high, groups.cells_per_component(cell_weights))


def check_totals(groups: Groups, cell_weights: FloatArray, counted: Counted, names: Names) -> None:
    """Raise if the margins of a component imply different totals of a class."""
    totals = Totals.of(groups, cell_weights)
    excess = totals.low.max(axis=0) - totals.high.min(axis=0)
    found = excess - ROUNDING * totals.weight[:, None]
    if not (found > 0).any():
        return
    component, class_ = np.unravel_index(int(found.argmax()), found.shape)
    one, other = int(totals.low[:, component, class_].argmax()), int(totals.high[:, component, class_].argmin())
    low, high = totals.low[one, component, class_], totals.high[other, component, class_]
    exact = totals.high[one, component, class_] == low and totals.low[other, component, class_] == high
    verbs = ("sums to", "to") if exact else ("needs at least", "allows at most")
    first, second = groups.design.margins[one].name, groups.design.margins[other].name
    raise BadRates(
        f"{first} and {second} disagree{_of_component(groups, int(component))}: for "
        f"{class_label(names, int(class_))} {first} {verbs[0]} {counted.text(low)}, {second} {verbs[1]} "
        f"{counted.text(high)}; correct the tables, or pass {_TABLE_ROUNDING} if their numbers are rounded",
        options=[_TABLE_ROUNDING],
    )


def _of_component(groups: Groups, component: int) -> str:
    """Which component a message is about; nothing if there is only one."""
    used = np.unique(groups.component_of_cell[groups.component_of_cell >= 0])
    if len(used) == 1:
        return ""
    first = int(np.flatnonzero((groups.component_of_group == component) & groups.known)[0])
    return f" on the rows of {groups.name(first)} and of the groups that overlap with it"


def reconciled(groups: Groups, cell_weights: FloatArray) -> Groups:
    """The groups with exact rates that agree to the last digit where they differ by rounding.

    Without this, no shifts would reach all rates, and the search would not end before its last pass.
    """
    totals = Totals.of(groups, cell_weights)
    differ = (totals.low.max(axis=0) - totals.high.min(axis=0) > _RECONCILED * totals.weight[:, None]).any(axis=1)
    weight = groups.sum(cell_weights)
    use = differ[groups.component_of_group] & groups.known & groups.sets.are_points & (weight > 0)
    if not use.any():
        return groups
    mean = 0.5 * (totals.low + totals.high).mean(axis=0)
    rates = groups.sets.low.copy()
    for one in np.split(np.arange(groups.n_groups), groups.offsets[1:-1]):
        at = one[use[one]]
        of = groups.component_of_group[at]
        for _ in range(_ROUNDS):  # proportional fitting of a table with one row per group
            sums = np.zeros_like(mean)
            np.add.at(sums, of, weight[at, None] * rates[at])
            rates[at] *= np.divide(mean, sums, out=np.ones_like(mean), where=sums > 0)[of]
            rates[at] /= rates[at].sum(axis=1, keepdims=True)
    high = np.where(use[:, None], rates, groups.sets.high)
    return replace(groups, sets=GroupSets(np.where(use[:, None], rates, groups.sets.low), high, groups.sets.regions))


def narrowed(groups: Groups, cell_weights: FloatArray, names: Names) -> Groups:
    """The groups, with the classes excluded that some cells cannot have. Raises if the rates are impossible.

    Each class has a smallest and a largest mass in each cell. They follow from each other, because the classes of a
    cell sum to its weight, and the cells of a group to the rates of the group.
    """
    bounds = _Bounds(groups, cell_weights)
    for _ in range(_ROUNDS):
        if not bounds.tighten():
            break
    bounds.check(names)
    allowed = groups.allowed & (bounds.high > _NEGLIGIBLE * cell_weights[:, None])
    empty = (cell_weights == 0)[:, None]
    allowed = np.where(empty, groups.allowed, allowed)
    if (allowed == groups.allowed).all():
        return groups
    return replace(groups, allowed=allowed, sets=_without_excluded(groups, allowed))


class _Bounds:
    """The smallest and the largest mass of each class in each cell."""

    def __init__(self, groups: Groups, cell_weights: FloatArray) -> None:
        self.groups, self.weights = groups, cell_weights[:, None]
        self.low = np.zeros(groups.allowed.shape)
        self.high = np.where(groups.allowed, self.weights, 0.0)
        self.group_weights = groups.sum(cell_weights)[:, None]

    def tighten(self) -> bool:
        """One round; returns whether it changed anything that matters."""
        low, high = self.low, self.high
        for number in self.groups.numbers:
            known = self.groups.known[number][:, None]
            least, most = self._group_sums(low, number), self._group_sums(high, number)
            at_most = (self.group_weights * self.groups.sets.high)[number] - (least - low)
            at_least = (self.group_weights * self.groups.sets.low)[number] - (most - high)
            low, high = (
                np.where(known, np.maximum(low, at_least), low),
                np.where(known, np.minimum(high, at_most), high),
            )
        at_most = self.weights - (low.sum(axis=1, keepdims=True) - low)
        at_least = self.weights - (high.sum(axis=1, keepdims=True) - high)
        low, high = np.maximum(low, at_least), np.minimum(high, at_most)
        small = _NEGLIGIBLE * self.weights
        low, high = np.where(low < small, 0.0, low), np.where(high < small, 0.0, high)
        changed = np.maximum(low - self.low, self.high - high) > 1e-6 * self.weights
        self.low, self.high = low, high
        return bool(changed.any())

    def _group_sums(self, masses: FloatArray, number: IndexArray) -> FloatArray:
        return np.asarray(_sums_by(number, masses, self.groups.n_groups)[number])

    def check(self, names: Names) -> None:
        """Raise if a group cannot have its rates."""
        sets, weight = self.groups.sets, self.group_weights
        for number in self.groups.numbers:
            most = _sums_by(number, self.high, self.groups.n_groups)
            least = _sums_by(number, self.low, self.groups.n_groups)
            here = np.zeros(self.groups.n_groups, dtype=np.bool_)
            here[number] = True
            rounding = ROUNDING * weight
            short = (weight * sets.low - most > rounding) & (here & self.groups.known)[:, None]
            much = (least - weight * sets.high > rounding) & (here & self.groups.known)[:, None]
            for wrong, wanted, reachable in ((short, sets.low, most), (much, sets.high, least)):
                if wrong.any():
                    g, j = (int(i[0]) for i in np.nonzero(wrong))
                    self._raise(g, j, float(wanted[g, j]), float(reachable[g, j] / weight[g, 0]), names)

    def _raise(self, group: int, class_: int, wanted: float, reachable: float, names: Names) -> None:
        limit = "at most" if reachable < wanted else "at least"
        raise InfeasibleRates(
            f"the rates of the groups exclude each other: {self.groups.name(group)} should have a rate of {wanted:.6g} "
            f"for {class_label(names, class_)}, but the other groups of its rows allow {limit} {reachable:.6g}; "
            f"correct the tables, or pass {_TABLE_ROUNDING} if their numbers are rounded",
            classes=[class_ if names is None else names[class_]],
            reachable=reachable,
            wanted=wanted,
            options=[_TABLE_ROUNDING],
        )


def _sums_by(number: IndexArray, values: FloatArray, n: int) -> FloatArray:
    return np.stack([np.bincount(number, column, minlength=n) for column in values.T], axis=1)


def _without_excluded(groups: Groups, allowed: BoolArray) -> GroupSets:
    """The rate sets, where classes that no cell of a group allows have rate 0."""
    sets = groups.sets
    some = groups.sum(allowed.astype(np.float64)) > 0
    drop = ~some & (sets.high > 0) & (sets.low <= 0) & groups.known[:, None] & some.any(axis=1, keepdims=True)
    if not drop.any():
        return sets
    low, high = sets.low.copy(), sets.high.copy()
    for g in np.flatnonzero(drop.any(axis=1)):
        rest = RateSet.box(low[g], np.where(drop[g], 0.0, high[g]))
        low[g], high[g] = rest.low, rest.high
    return GroupSets(low, high, sets.regions)


def separation_check(groups: Groups, possible: BoolArray, survey: CellSurvey, counted: Counted) -> Check:
    """A check of points during the search: it raises if their shifts prove that the rates are impossible.

    Whatever the labels are, a component cannot have more of ``<shift, label>`` than the sum over its cells of the
    largest shift of a class that the cell can have. If all possible rates need more, there are no such labels. And no
    value of the dual function exceeds the largest divergence that adjusted rows can have, unless hard zeros of single
    rows make the rates impossible.

    Parameters
    ----------
    groups : Groups
    possible : bool array of shape (C, k)
        The classes that the rows of each cell can have.
    survey : CellSurvey
    counted : Counted
    """
    weights = survey.weight
    ceiling = groups.cells_per_component(survey.ceiling) * (1 + 1e-9) + 1e-9

    def check(point: CellPoint) -> None:
        largest = np.where(possible, groups.matrix @ point.shifts, -np.inf).max(axis=1)
        inside = np.isfinite(largest) & (weights > 0)
        reachable = groups.cells_per_component(np.where(inside, weights * np.where(inside, largest, 0.0), 0.0))
        needed = groups.per_component(point.weight * (point.shifts * point.wanted).sum(axis=1))
        size = groups.per_component(point.weight * np.abs(point.shifts).max(axis=1))
        wrong = needed - reachable > _SEPARATION * size
        if wrong.any():
            _raise_separated(groups, int(np.flatnonzero(wrong)[0]), needed, reachable)
        if (point.value > ceiling).any() and survey.n_zeros.any():
            _raise_pinned(groups, int(np.flatnonzero(point.value > ceiling)[0]), counted, survey)

    return check


def _raise_separated(groups: Groups, component: int, needed: FloatArray, reachable: FloatArray) -> None:
    raise InfeasibleRates(
        f"the rates of {_margin_names(groups)} cannot hold at the same time{_of_component(groups, component)}: no "
        "classes of the rows have them, although the totals agree; correct the tables, or give bounds",
        classes=[],
        reachable=float(reachable[component]),
        wanted=float(needed[component]),
    )


def _raise_pinned(groups: Groups, component: int, counted: Counted, survey: CellSurvey) -> None:
    raise InfeasibleRates(
        f"the rates of {_margin_names(groups)} cannot be reached{_of_component(groups, component)}, because "
        f"{int(survey.n_zeros.sum()):,} probabilities of the {counted.n_rows:,} rows are 0 and stay 0; pass {_ZEROS} "
        f"to smooth the zeros, choose a loss that can move them ({_BRIER}), or correct the rates",
        classes=[],
        reachable=float("nan"),
        wanted=float("nan"),
        options=[_ZEROS, _BRIER],
    )


def _margin_names(groups: Groups) -> str:
    return " and ".join(margin.name for margin in groups.design.margins)
