"""Class rates that are known per group: per region, site, age band or day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from baserate.errors import BadRates, Option
from baserate.inputs.group_labels import GroupIndex, Label, as_json_value
from baserate.inputs.validation import as_classes
from baserate.rates.base import Rates
from baserate.rates.group_conditions import group_assumptions
from baserate.rates.group_intervals import bounds_of_groups
from baserate.rates.group_sets import KnownGroupSets, check_range, check_sums, tightened, widened
from baserate.rates.interface import from_json
from baserate.rates.sets import ROUNDING, EffectiveRows, RateSet
from baserate.rates.summary import group_summary
from baserate.rates.table_columns import prediction_columns, spread
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.numbers import percent

_EACH = Option("joint", "False")


@dataclass(frozen=True, eq=False, repr=False)
class GroupedRates(Rates):
    """What is known about the class rates of each group; see :meth:`Rates.by`.

    Attributes
    ----------
    classes : tuple or None
        Names of the classes, in the order of the columns of ``low`` and ``high``.
    keys : tuple
        The columns that define the groups.
    labels : list of tuples
        The values of each group in these columns.
    low, high : array of shape (G, k)
        Bounds as they were stated, which are equal for exact rates; NaN where nothing is known. Counts of a survey are
        in both.
    of : "rates", "counts" or "population"
        What the numbers are.
    own : dict
        The rates of groups that were given as :class:`Rates`, by the number of the group.
    one_number : bool
        Whether there is one number per group, about the second of two classes.
    confidence, joint, design_effect, rounding, unlisted
        As in :meth:`Rates.by`.
    """

    kind = "groups"
    is_grouped = True
    keys: tuple[Any, ...]
    labels: list[Label]
    low: FloatArray
    high: FloatArray
    of: str = "rates"
    own: Mapping[int, Rates] = field(default_factory=dict)
    one_number: bool = False
    confidence: float = 0.95
    joint: bool = True
    design_effect: float = 1.0
    rounding: float = 0.0
    unlisted: str = "raise"

    options: ClassVar[tuple[str, ...]] = ("confidence", "joint", "design_effect", "rounding", "unlisted")

    @classmethod
    def from_table(
        cls, keys: Any, table: Any, *, classes: Sequence[Any] | None, kind: str, rounding: Any, **options: Any
    ) -> GroupedRates:
        """The rates of a table; see :meth:`Rates.by` for the arguments."""
        from baserate.rates.group_options import as_keys, as_rounding, check_numbers, check_options
        from baserate.rates.group_table import parse_table

        names = as_keys(keys)
        chosen = None if classes is None else as_classes(classes, len(classes))
        parsed = parse_table(names, table, chosen)
        if parsed.classes is not None:
            parsed = parsed._replace(classes=as_classes(parsed.classes, len(parsed.classes)))
        check_options(kind, parsed, **options)
        of = "counts" if parsed.is_counts else kind
        if of == "counts":  # nothing is known about a group in which nobody was surveyed
            nobody = np.where(np.isnan(parsed.low), 0.0, parsed.low).sum(axis=1, keepdims=True) == 0
            parsed = parsed._replace(
                low=np.where(nobody, np.nan, parsed.low), high=np.where(nobody, np.nan, parsed.high)
            )
        if chosen is not None and parsed.classes is None and not parsed.is_one_number:
            parsed = parsed._replace(classes=chosen)
        widest = as_rounding(rounding, parsed, of)
        known = cls(
            parsed.classes,
            names,
            parsed.labels,
            parsed.low,
            parsed.high,
            of,
            dict(parsed.own),
            parsed.is_one_number,
            rounding=widest,
            **options,
        )
        if of == "rates":
            check_range(parsed.low, parsed.high, names, parsed.labels, parsed.classes)
        else:
            check_numbers(parsed, names, of)
        return known

    @property
    def name(self) -> str:
        """The columns that define the groups, as text."""
        return ", ".join(map(str, self.keys))

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.labels)

    @property
    def n_classes(self) -> int | None:
        if self.one_number:
            return None
        return self.low.shape[1] if self.low.shape[1] else None

    @property
    def is_one_number(self) -> bool:
        return self.one_number and not self.own

    @property
    def named_classes(self) -> tuple[Any, ...]:
        """All classes that the table names."""
        own = [name for rates in self.own.values() for name in _named(rates)]
        return tuple(dict.fromkeys([*(self.classes or ()), *own]))

    @property
    def names_all(self) -> bool:
        """Whether the table names every class: in some group, the named classes have all of the probability."""
        if self.classes is None:
            return any(rates.classes is not None for rates in self.own.values())
        sums = np.where(np.isnan(self.low), 0.0, self.low).sum(axis=1)
        return self.of != "rates" or bool((sums > 1.0 - len(self.classes) * max(self.rounding, 1e-6)).any())

    def on(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        """These rates with one number per column, in the order of the columns."""
        own = {i: rates.on(classes, n_classes) for i, rates in self.own.items()}
        columns = prediction_columns(self, classes, n_classes)
        low, high = (spread(values, columns, n_classes) for values in (self.low, self.high))
        resolved = replace(self, classes=classes, low=low, high=high, own=own, one_number=False)
        resolved._check_resolved()
        return resolved

    def take(self, which: IndexArray) -> Self:
        """These rates for some of the groups only, whose numbers increase."""
        if len(which) == self.n_groups:
            return self
        new = {int(old): i for i, old in enumerate(which)}
        own = {new[i]: rates for i, rates in self.own.items() if i in new}
        return replace(
            self, labels=[self.labels[i] for i in which], low=self.low[which], high=self.high[which], own=own
        )

    def with_unknown_group(self) -> Self:
        """These rates with an additional group, for rows that are not in the table; all its values are None."""
        unknown = np.full((1, self.low.shape[1]), np.nan)
        low, high = (np.concatenate([values, unknown]) for values in (self.low, self.high))
        return replace(self, labels=[*self.labels, (None,) * len(self.keys)], low=low, high=high)

    def group_sets(self, sizes: Any, *, weighted: bool = False) -> KnownGroupSets:
        """The rate set of each group; call :meth:`on` first.

        Parameters
        ----------
        sizes : int array of shape (G,), or None
            Number of rows of each group, for surveys and population rates; None for the population.
        weighted : bool
            Whether these are effective numbers of rows, because the rows have unequal weights.
        """
        low, high = self._stated(sizes)
        known = np.asarray(~((low <= 0).all(axis=1) & (high >= 1).all(axis=1)))
        low, high = tightened(low, high)
        regions = {}
        for i, rates in self.own.items():
            one = self._own_set(rates, None if sizes is None else (EffectiveRows if weighted else int)(sizes[i]))
            low[i], high[i], known[i] = one.low, one.high, True
            if one.is_curved:
                regions[i] = one.region
        return KnownGroupSets(low, high, known, regions)

    @property
    def error_probabilities(self) -> FloatArray:
        """The probability with which the rates of each group may lie outside its set; 0 if that is an assumption."""
        alpha = np.zeros(self.n_groups)
        if self.of != "rates":
            alpha[~np.isnan(self.low).all(axis=1)] = 1.0 - self.confidence
        for i, rates in self.own.items():
            alpha[i] = 0.0 if rates.certainty is None else 1.0 - rates.certainty
        if not self.joint:
            return alpha
        shared = [
            i for i in np.flatnonzero(alpha).tolist() if i not in self.own or not self.own[i].has_fixed_confidence
        ]
        alpha[shared] /= np.count_nonzero(alpha)  # The other sets were computed for their part of the probability.
        return alpha

    @property
    def certainty(self) -> float | None:
        """Confidence that the rates of all groups lie in their sets; None if this is an assumption."""
        alpha = self.error_probabilities
        return max(1.0 - float(alpha.sum()), 0.0) if alpha.any() else None

    @property
    def is_approximate(self) -> bool:
        uses_approximation = self.design_effect > 1 or any(rates.is_approximate for rates in self.own.values())
        return self.certainty is not None and uses_approximation

    def bounds(self, batch_size: Any = None) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest possible rate of each class in each group.

        Parameters
        ----------
        batch_size : int or int array of shape (G,), optional
            Number of rows in each group; by default the bounds are those of the population.

        Returns
        -------
        low, high : array of shape (G, k)
        """
        known = self._with_known_size()
        sizes = None if batch_size is None else np.broadcast_to(np.asarray(batch_size), (self.n_groups,))
        sets = known.group_sets(sizes)
        for i in sets.regions:
            sets.low[i], sets.high[i] = sets.rate_set(i).bounds()
        return sets.low, sets.high

    def contains(self, values: Any, batch_size: Any = None) -> bool:
        """Whether the rates of each group in a table lie in the set of this group.

        Parameters
        ----------
        values : table
            In a form that :meth:`Rates.by` accepts. Groups that are not in it are not checked.
        batch_size : int or int array of shape (G,), optional
            Number of rows in each group.
        """
        known = self._with_known_size()
        options = {name: getattr(self, name) for name in self.options if name != "rounding"}
        given = GroupedRates.from_table(self.keys, values, classes=None, kind="rates", rounding=None, **options)
        other = given.on(known.classes, known.low.shape[1])
        sizes = None if batch_size is None else np.broadcast_to(np.asarray(batch_size), (self.n_groups,))
        sets, positions = known.group_sets(sizes), GroupIndex(known.labels)
        at = [positions.find(label) for label in other.labels]
        stated = other._widened()[0]  # with the rest for a class that is not named
        return all(
            sets.rate_set(i).distance(rates) <= ROUNDING for i, rates in zip(at, stated, strict=True) if i is not None
        )

    def rate_set(self, batch_size: int | None) -> RateSet:
        raise self._not_supported()

    def estimate(self) -> FloatArray:
        raise self._not_supported()

    def describe(self) -> str:
        groups = f"{self.n_groups:,} group{'s' * (self.n_groups != 1)}"
        what = {"rates": "rates", "counts": "survey counts", "population": "rates of a population"}[self.of]
        exact = "exact " if self.of == "rates" and self._is_exact() else ""
        unknown = int((np.isnan(self.low) & np.isnan(self.high)).all(axis=1).sum()) - len(self.own)
        notes = [f"{exact}{what} of {groups}"]
        notes += [f"{unknown:,} of them unknown"] if unknown else []
        notes += [f"rounded to {self.rounding:g}"] if self.rounding else []
        notes += [self._confidence_note()] if self.error_probabilities.any() else []
        return f" by {self.name}: {', '.join(notes)}"

    def condition(self, *, approximate: bool = False) -> str:
        if not self.error_probabilities.any():
            if self.is_assumed_exactly:
                return f"if each group of {self.name} has the requested class rates"
            return f"if the class rates of each group of {self.name} lie within their bounds"
        of = None if self.of == "rates" or np.isnan(self.low).all() else self.of
        assumed = self.of == "rates" and not (np.isnan(self.low) & np.isnan(self.high)).all()
        about = "about " if approximate or self.is_approximate else ""
        clauses = group_assumptions(self.name, of, list(self.own.values()), others_assumed=assumed)
        return f"with {about}{self._confidence_note()}, if {clauses}"

    def to_json(self) -> dict[str, Any]:
        listed = {"low": self.low, "high": self.high}
        numbers = {
            name: [[None if value != value else value for value in row] for row in values.tolist()]
            for name, values in listed.items()
        }
        options = {name: getattr(self, name) for name in ("of", "one_number", *self.options)}
        own = [[i, rates.to_json()] for i, rates in self.own.items()]
        labels = [[as_json_value(value) for value in label] for label in self.labels]
        return {"kind": self.kind, "keys": list(self.keys), "labels": labels, **numbers, **options, "own": own}

    @classmethod
    def _from_json(cls, numbers: Mapping[str, Any], classes: tuple[Any, ...] | None) -> GroupedRates:
        given = dict(numbers)
        labels = [tuple(label) for label in given.pop("labels")]
        low, high = (np.array(given.pop(name), dtype=np.float64) for name in ("low", "high"))
        own = {int(i): from_json(rates, classes) for i, rates in given.pop("own")}
        if len(labels) != len(low) or low.shape != high.shape or low.ndim != 2:
            raise ValueError("the table of rates per group is not complete")
        unknown = set(given) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"rates per group have no {min(unknown)!r}")
        return cls(classes, tuple(given.pop("keys")), labels, low, high, own=own, **given)

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        return self.on(classes, n_classes)

    def _with_known_size(self) -> Self:
        n_classes = 2 if self.one_number else self.n_classes
        if n_classes is None:
            raise BadRates("the number of classes is not known; pass classes= with the class names to these rates")
        return self.on(self.classes, n_classes)

    def _numbers(self) -> dict[str, Any]:
        return {}

    def _check_resolved(self) -> None:
        if self.of != "counts":
            check_sums(*self._widened(), self.keys, self.labels)

    def _widened(self) -> tuple[FloatArray, FloatArray]:
        return widened(self.low, self.high, self.rounding, self.keys, self.labels)

    def _stated(self, sizes: Any) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds for groups of these sizes, before they are tightened."""
        if self.of == "rates":
            return self._widened()
        low, high = np.zeros_like(self.low), np.ones_like(self.high)
        known = ~np.isnan(self.low).all(axis=1)
        if known.any():
            own_sizes = None if sizes is None else np.asarray(sizes)[known]
            low[known], high[known] = bounds_of_groups(
                self.of, self.low[known], own_sizes, self.error_probabilities[known], self.design_effect
            )
        return low, high

    def _own_set(self, rates: Rates, size: int | None) -> RateSet:
        """The set of a group whose rates were given as an object, at the level that it has among all groups."""
        if rates.certainty is None or not self.joint:
            return rates.rate_set(size)
        together = self.confidence if rates.has_fixed_confidence else rates.certainty
        level = 1.0 - (1.0 - together) / int(np.count_nonzero(self.error_probabilities))
        try:
            known = rates.at_confidence(level)
        except BadRates as error:
            which = f"or pass {_EACH} to Rates.by for a confidence of each group by itself"
            raise BadRates(f"{error}, {which}", options=[*error.options, _EACH]) from None
        return known.rate_set(size)

    def _at_level(self, level: float) -> Self:
        own = {
            i: rates if self.joint and rates.has_fixed_confidence else rates.at_confidence(level)
            for i, rates in self.own.items()
        }
        return replace(self, confidence=level, own=own)

    @property
    def is_assumed_exactly(self) -> bool:
        """Whether all rates that are known are exact, without an allowance for rounding."""
        return self._is_exact() and not self.rounding

    def _is_exact(self) -> bool:
        """Whether all rates that are known are exact."""
        both = ~(np.isnan(self.low) & np.isnan(self.high))
        own = all(rates.kind == "exact" for rates in self.own.values())
        return self.of == "rates" and own and bool((self.low == self.high)[both].all())

    def _confidence_note(self) -> str:
        if self.joint:
            certainty = self.certainty
            return f"{percent(certainty or 0.0)} confidence for all groups together"
        return f"{percent(1 - self.error_probabilities.max())} confidence for each group by itself"

    def _not_supported(self) -> BadRates:
        return BadRates(
            f"rates by {self.name} can only be used by br.adjust, which adjusts each group to its own rates; pass the "
            "rates of all rows here"
        )

    def _repr_html_(self) -> str:
        return group_summary(self).html()


def _named(rates: Rates) -> tuple[Any, ...]:
    if rates.classes is not None:
        return rates.classes
    return tuple(name for value in rates._numbers().values() if isinstance(value, Mapping) for name in value)
