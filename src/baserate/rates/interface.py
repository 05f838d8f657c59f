"""What all kinds of rates implement: :class:`RatesInterface`, and how rates of a kind are made and rebuilt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from baserate.errors import BadRates
from baserate.inputs.class_names import matched_names, same_text
from baserate.inputs.class_numbers import as_rates, is_one_number, sum_is_below_one
from baserate.inputs.validation import as_classes, as_confidence, class_label, quoted, quoted_name
from baserate.rates.arguments import as_batch_size, copied_numbers
from baserate.rates.fixed_confidence import check_level
from baserate.rates.plain_values import as_plain_value, from_plain_value
from baserate.rates.sets import ROUNDING, RateSet
from baserate.rates.summary import rates_summary
from baserate.support.arrays import FloatArray, has_masked_entries
from baserate.support.numbers import counted
from baserate.support.summary import Summary
from baserate.support.text import printable, shortened

if TYPE_CHECKING:
    from baserate.rates.base import Rates

_SHOWN = 6  # classes that are printed
_NEWER = "a newer version of baserate may have written the file"

kinds: dict[str, type[Rates]] = {}
"""The class of each kind of rates, by the name of the kind."""


@dataclass(frozen=True, eq=False, repr=False)
class RatesInterface(ABC):
    """What is asked of rates of any kind. :class:`Rates` adds the constructors.

    A kind implements ``rate_set``, ``estimate``, ``describe`` and ``_resolved``. Its fields are the numbers that it was
    given, first as a user passed them, and after :meth:`on` as validated arrays with one number per column.
    """

    kind: ClassVar[str]
    classes: tuple[Any, ...] | None

    @property
    def certainty(self) -> float | None:
        """Confidence with which the set contains the rates of a batch; None if this is an assumption."""
        return None

    @property
    def assumption(self) -> str:
        """What must be true for the set to contain the rates with this confidence, as a clause."""
        return self.condition().removeprefix("if ")

    @property
    def has_fixed_confidence(self) -> bool:
        """Whether the set was computed for one confidence, so that it is not known for a higher one."""
        return False

    @property
    def is_approximate(self) -> bool:
        """Whether the confidence holds only approximately."""
        return False

    def at_confidence(self, level: float) -> Self:
        """The set that contains the rates with at least this confidence.

        Parameters
        ----------
        level : float
            Between 0 and 1, such as 0.95.

        Returns
        -------
        Rates
            The same rates if they are assumed without a confidence.

        Raises
        ------
        BadRates
            If the set was computed for a lower confidence and the numbers that it was computed from are not known.
        """
        return self._at_level(as_confidence(level, BadRates, what="level"))

    def _at_level(self, level: float) -> Self:
        if self.certainty is None:
            return self
        if self.has_fixed_confidence:
            return check_level(self, level)
        change: Any = {"confidence": level}
        return replace(self, **change)

    def bounds(self, batch_size: int | None = None) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest possible rate of each class.

        Parameters
        ----------
        batch_size : int, optional
            Number of rows in the batch. Surveys and population rates have wider bounds for smaller batches. By default
            the bounds are those of the population.

        Returns
        -------
        low, high : array of shape (k,)
        """
        return self._with_known_size().rate_set(as_batch_size(batch_size)).bounds()

    def contains(self, values: ArrayLike | Mapping[Any, float], batch_size: int | None = None) -> bool:
        """Whether the set contains the given rates.

        Parameters
        ----------
        values : float, array-like of shape (k,) or dict
            One number is the rate of the second of two classes.
        batch_size : int, optional
            As in :meth:`bounds`.
        """
        known = self
        if self.n_classes is None:
            names = tuple(values) if isinstance(values, Mapping) else None
            if names is not None and len(names) == 1:
                names = (f"not {names[0]}", *names)
            size = int(np.size(np.asarray(values))) if names is None else len(names)
            known = self.on(names, 2 if is_one_number(values) else size)
        known = known._with_known_size()
        rates = as_rates(values, known.classes, known.n_classes or 0, what="values")
        return known.rate_set(as_batch_size(batch_size)).distance(rates) <= ROUNDING

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None if it is known only when the rates are used."""
        if self.classes is not None:
            return len(self.classes)
        lists = (v for v in self._numbers().values() if hasattr(v, "__len__") and not isinstance(v, (Mapping, str)))
        return next(map(len, lists), None)

    @property
    def is_one_number(self) -> bool:
        """Whether one number was given, or one of each bound, which is about the second of two classes."""
        numbers = [value for value in self._numbers().values() if value is not None]
        return bool(numbers) and all(map(is_one_number, numbers))

    def on(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        """These rates with one number per column, in the order of the columns."""
        own = self.classes
        if n_classes < 2:
            raise BadRates(f"the rates have {n_classes} class, but at least 2 classes are needed")
        if own is not None and classes is not None:
            own = tuple(matched_names(own, classes))
        if own is not None and classes is not None and set(own) != set(classes):
            raise BadRates(
                f"the rates have the classes {quoted(own)}, but the columns are {quoted(classes)}; "
                f"use the same class names for both{same_text(own, classes)}"
            )
        if own is not None and len(own) != n_classes:
            raise BadRates(
                f"the rates have {counted(len(own), 'class')} ({quoted(own)}), but there are {n_classes} columns"
            )
        resolved = replace(self, classes=own)._resolved(classes if own is None else own, n_classes)
        if own is None or classes is None or own == classes:
            return replace(resolved, classes=own if classes is None else classes)
        order = [own.index(c) for c in classes]
        return replace(resolved, classes=classes, **resolved._in_order(order))

    @abstractmethod
    def rate_set(self, batch_size: int | None) -> RateSet:
        """The rate set for a batch of this size, or for the population; call :meth:`on` first."""

    @abstractmethod
    def estimate(self) -> FloatArray:
        """The best single estimate of the rates, for procedures that need one rate per class."""

    @abstractmethod
    def describe(self) -> str:
        """The rates in words, as the text after "Rates" in the repr."""

    @abstractmethod
    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        """These rates as validated arrays in the order of these classes."""

    def check_batch(self, mean: FloatArray) -> None:  # noqa: B027  # most kinds have nothing to check
        """Raise if the rates are for another batch than the one with this mean prediction. Most are for any batch."""

    def condition(self, *, approximate: bool = False) -> str:
        """The condition under which a guarantee for these rates holds, as the end of a sentence."""
        return f"if the rates of these rows are {self.describe().removeprefix(':').strip()}"

    def to_json(self) -> dict[str, Any]:
        """The rates as plain JSON values for ``from_json``, without the class names."""
        values = {f.name: as_plain_value(getattr(self, f.name)) for f in fields(self) if f.name != "classes"}
        return {"kind": self.kind, **values}

    @classmethod
    def _from_json(cls, numbers: Mapping[str, Any], classes: tuple[Any, ...] | None) -> Rates:
        """Rates from the values of :meth:`to_json`, without their kind."""
        own = {field.name: field for field in fields(cls) if field.name != "classes"}
        unknown = [name for name in numbers if name not in own]
        missing = [name for name, field in own.items() if field.default is MISSING and name not in numbers]
        if unknown:
            raise BadRates(f"{quoted_name(cls.kind)} rates have no field {quoted_name(unknown[0])}; {_NEWER}")
        if missing:
            raise BadRates(f"the field {quoted_name(missing[0])} of {quoted_name(cls.kind)} rates is missing")
        return build(cls.kind, classes, **{name: from_plain_value(value) for name, value in numbers.items()})

    def _numbers(self) -> dict[str, Any]:
        """The fields with one number per class."""
        return {name: getattr(self, name) for name in ("values", "low", "high", "counts") if hasattr(self, name)}

    def _in_order(self, order: list[int]) -> dict[str, Any]:
        """The fields with numbers of the classes, for another order of the classes."""
        return {name: np.asarray(value)[order] for name, value in self._numbers().items()}

    def _validated(self) -> Self:
        """These rates after the checks that are possible before the columns are known."""
        n = self.n_classes
        if n is not None:
            return self.on(self.classes, n)
        if self.is_one_number:
            self._resolved(None, 2)
            return self
        for name, value in self._numbers().items():
            if not isinstance(value, Mapping):
                raise BadRates(f"{name} must be a list or dict with one number per class, not {quoted_name(value)}")
            # If something is left of 1, there may be a class that the dict does not name.
            names = (*value, "all others") if name == "values" and sum_is_below_one(value) else tuple(value)
            self._resolved(names, len(names))
        return self

    def _with_known_size(self) -> Self:
        n = 2 if self.n_classes is None and self.is_one_number else self.n_classes
        if n is None:
            raise BadRates("the number of classes is not known; pass classes= with the class names to these rates")
        return self.on(self.classes, n)

    def _source(self) -> str:
        """Where the rates are from, as the text after "Rates" and before the numbers."""
        return ""

    def _remark(self) -> str:
        """What is said about the rates after their numbers."""
        return ""

    def _columns(self) -> dict[str, Any]:
        """The numbers of each class, by the header of their column; empty if the classes are not known yet."""
        return {}

    def __repr__(self) -> str:
        return printable(f"Rates{self.describe()}")

    def _repr_html_(self) -> str:
        columns = {} if self.is_one_number else self._columns()
        if not columns:
            return Summary(repr(self)).html()
        return rates_summary(f"Rates{self._source()}", self._remark(), columns, self.classes).html()

    def _list_by_class(self, texts: Sequence[str]) -> str:
        """One text per class, each after the name of the class; only the first few classes."""
        names = [shortened(str(name)) for name in self.classes or (class_label(None, j) for j in range(len(texts)))]
        shown = [f"{name} {text}" for name, text in zip(names, texts, strict=True)]
        more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
        return ", ".join(shown[:_SHOWN] + more)


def from_json(description: Mapping[str, Any], classes: tuple[Any, ...] | None) -> Rates:
    """Rebuild rates from the output of :meth:`Rates.to_json`."""
    numbers = dict(description)
    kind = numbers.pop("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise BadRates(
            f"the kind of rates is {quoted_name(kind)}, but this version of baserate knows only "
            f"{', '.join(map(repr, sorted(kinds)))}; {_NEWER}"
        )
    return kinds[kind]._from_json(numbers, classes)


def build(kind: str, classes: Sequence[Any] | None, **given: Any) -> Rates:
    """Rates of a kind from the arguments of a user."""
    names = None if classes is None else as_classes(classes, len(classes) if hasattr(classes, "__len__") else 0)
    masked = next((name for name, value in given.items() if has_masked_entries(value) and np.ndim(value) == 0), None)
    if masked is not None:
        raise BadRates(f"{masked} is masked; pass a number")
    numbers = {name: copied_numbers(value) for name, value in given.items()}
    for name, value in numbers.items():
        if names is not None and isinstance(value, (list, np.ndarray)) and len(value) != len(names):
            raise BadRates(f"classes has {counted(len(names), 'name')}, but {name} has {counted(len(value), 'number')}")
    return kinds[kind](names, **numbers)._validated()
