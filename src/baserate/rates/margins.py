"""Several tables of rates at once: margins, whose groups may overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baserate.errors import BadOption, BadRates
from baserate.inputs.columns import classes_of_rates
from baserate.inputs.validation import as_confidence, quoted_name
from baserate.rates.base import Rates
from baserate.rates.by_group import GroupedRates
from baserate.rates.interface import from_json
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray
from baserate.support.summary import Summary

ALL_ROWS = "all rows"
"""Name of the margin whose only group has all rows."""


class Margins(Rates):
    """Rates per group for several partitions of the rows, such as regions and age bands, all at once.

    Parameters
    ----------
    *parts : Rates
        Rates per group from :meth:`Rates.by`, and at most a few rates of all rows: of any kind, or plain numbers as in
        :func:`baserate.adjust`. Their groups may overlap, be nested, or coincide.
    confidence : float, optional
        Confidence of all surveys and population rates among the parts together: they share ``1 - confidence`` equally.
        By default each part keeps its own confidence, and that of all together is lower.

    Examples
    --------
    >>> import baserate as br
    >>> margins = br.Margins(
    ...     br.Rates.by("region", {"north": 0.1, "south": 0.3}),
    ...     br.Rates.by("age", {"young": 0.1, "old": 0.3}),
    ...     br.Rates.between(0.15, 0.25),
    ... )
    >>> margins
    Margins: by region: exact rates of 2 groups; by age: exact rates of 2 groups; all rows: between 0.15 and 0.25
    >>> groups = {"region": ["north", "north", "south", "south"], "age": ["young", "old", "young", "old"]}
    >>> br.adjust([0.2, 0.4, 0.3, 0.1], margins, groups=groups).probs.round(3)
    array([0.008, 0.192, 0.192, 0.408])
    """

    kind = "margins"
    is_grouped = True
    parts: tuple[Rates, ...]

    def __init__(self, *parts: Any, confidence: float | None = None) -> None:
        if not parts:
            raise BadOption("Margins needs at least one table of rates: Margins(Rates.by(...), Rates.by(...))")
        if any(isinstance(part, Margins) for part in parts):
            parts = tuple(one for part in parts for one in (part.parts if isinstance(part, Margins) else (part,)))
        object.__setattr__(self, "parts", tuple(_as_part(part, i) for i, part in enumerate(parts)))
        object.__setattr__(self, "classes", None)
        if confidence is not None:
            object.__setattr__(self, "parts", _sharing(self.parts, confidence))

    @property
    def tables(self) -> tuple[GroupedRates, ...]:
        """The parts, those of all rows as tables with one group and no keys; call :meth:`on` first."""
        return tuple(part if isinstance(part, GroupedRates) else _as_one_group(part) for part in self.parts)

    @property
    def keys(self) -> tuple[Any, ...]:
        """The columns that define the groups of all parts."""
        return tuple(dict.fromkeys(key for part in self.parts if isinstance(part, GroupedRates) for key in part.keys))

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each part, for tables and messages; parts with the same columns are numbered."""
        plain = [part.name if isinstance(part, GroupedRates) else ALL_ROWS for part in self.parts]
        earlier = [plain[:i].count(name) for i, name in enumerate(plain)]
        return tuple(f"{name} ({n + 1})" if n else name for name, n in zip(plain, earlier, strict=True))

    @property
    def n_classes(self) -> int | None:
        return next((part.n_classes for part in self.parts if part.n_classes is not None), None)

    @property
    def is_one_number(self) -> bool:
        return all(part.is_one_number for part in self.parts)

    @property
    def named_classes(self) -> tuple[Any, ...] | None:
        """All classes that the parts name; None if they name none."""
        names: list[Any] = []
        for part in self.parts:
            names += part.named_classes if isinstance(part, GroupedRates) else classes_of_rates(part).names or ()
        return tuple(dict.fromkeys(names)) or None

    @property
    def names_all(self) -> bool:
        """Whether the parts name every class."""
        return any(
            part.names_all if isinstance(part, GroupedRates) else part.classes is not None for part in self.parts
        )

    def on(self, classes: tuple[Any, ...] | None, n_classes: int) -> Margins:
        """These rates with one number per column, in the order of the columns."""
        return self._with_parts(tuple(part.on(classes, n_classes) for part in self.parts), classes)

    def with_tables(self, tables: Sequence[GroupedRates]) -> Margins:
        """The same with other groups of each part; those of all rows have only one group, and stay the same."""
        parts = (new if isinstance(old, GroupedRates) else old for old, new in zip(self.parts, tables, strict=True))
        return self._with_parts(tuple(parts), self.classes)

    def _with_parts(self, parts: tuple[Rates, ...], classes: tuple[Any, ...] | None) -> Margins:
        new = Margins(*parts)
        object.__setattr__(new, "classes", classes)
        return new

    @property
    def certainty(self) -> float | None:
        alphas = [1.0 - part.certainty for part in self.parts if part.certainty is not None]
        return max(1.0 - sum(alphas), 0.0) if alphas else None

    @property
    def is_approximate(self) -> bool:
        return any(part.is_approximate for part in self.parts)

    def _at_level(self, level: float) -> Margins:
        return self if self.certainty is None else self._with_parts(_sharing(self.parts, level), self.classes)

    def rate_set(self, batch_size: int | None) -> RateSet:
        raise self._not_supported()

    def estimate(self) -> FloatArray:
        raise self._not_supported()

    def bounds(self, batch_size: Any = None) -> tuple[FloatArray, FloatArray]:
        """Not defined for several tables; take the bounds of the parts."""
        raise BadRates("several tables have no common bounds; take those of each part: margins.parts[0].bounds()")

    def contains(self, values: Any, batch_size: Any = None) -> bool:
        """Not defined for several tables; ask the parts."""
        raise BadRates("several tables are about different groups; ask each part: margins.parts[0].contains(table)")

    def describe(self) -> str:
        texts = [
            part.describe().strip() if isinstance(part, GroupedRates) else f"{ALL_ROWS}: {part.describe().strip(': ')}"
            for part in self.parts
        ]
        return "; ".join(texts)

    def condition(self, *, approximate: bool = False) -> str:
        conditions = dict.fromkeys(part.condition(approximate=approximate) for part in self.parts)
        names = [part.name for part in self.parts if isinstance(part, GroupedRates) and part.is_assumed_exactly]
        if len(names) > 1:  # one clause for all of them
            joined = f"{' and of '.join([', of '.join(names[:-1]), names[-1]])}"
            rest = [text for text in conditions if "has the requested class rates" not in text]
            conditions = dict.fromkeys([f"if each group of {joined} has the requested class rates", *rest])
        return ", and ".join(conditions)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_json() for part in self.parts]}

    @classmethod
    def _from_json(cls, numbers: Mapping[str, Any], classes: tuple[Any, ...] | None) -> Margins:
        new = cls(*(from_json(part, classes) for part in numbers["parts"]))
        object.__setattr__(new, "classes", classes)
        return new

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Any:
        return self.on(classes, n_classes)

    def _numbers(self) -> dict[str, Any]:
        return {}

    def _not_supported(self) -> BadRates:
        names = " and by ".join(part.name for part in self.parts if isinstance(part, GroupedRates))
        return BadRates(
            f"rates by {names} can only be used by br.adjust, which adjusts each group to its own rates; pass the "
            "rates of all rows here"
        )

    def __repr__(self) -> str:
        return f"Margins: {self.describe()}"

    def _repr_html_(self) -> str:
        return Summary("Margins", [*self.describe().split("; ")]).html()


def as_margins(rates: Any) -> Margins:
    """Rates per group as margins."""
    return rates if isinstance(rates, Margins) else Margins(rates)


def _as_part(part: Any, i: int) -> Rates:
    if isinstance(part, Rates):
        return part
    if isinstance(part, (str, bytes)) or part is None:
        raise BadOption(f"part {i} of Margins is {quoted_name(part)}; pass Rates.by(...) or the rates of all rows")
    if isinstance(part, Mapping) and not part:
        raise BadOption(f"part {i} of Margins is empty; pass Rates.by(...) or the rates of all rows")
    return Rates.exact(part)


def _sharing(parts: tuple[Rates, ...], confidence: Any) -> tuple[Rates, ...]:
    """The parts, of which those that are known with some confidence share the level equally."""
    as_confidence(confidence, BadRates)
    sampled = [part for part in parts if part.certainty is not None]
    if not sampled:
        raise BadOption("confidence is for surveys and rates of a population, but there are none among the parts")
    level = 1.0 - (1.0 - float(confidence)) / len(sampled)
    return tuple(part.at_confidence(level) for part in parts)


def _as_one_group(rates: Rates) -> GroupedRates:
    """Rates of all rows as a table with one group."""
    k = rates.n_classes or 0
    nothing = np.full((1, k), np.nan)
    level = 0.95 if rates.certainty is None else rates.certainty
    return GroupedRates(rates.classes, (), [()], nothing, nothing, own={0: rates}, confidence=level)
