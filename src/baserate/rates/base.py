"""What is known about class rates: what all kinds of knowledge can be asked, and how they are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from baserate.errors import BadLabels, BadOption, BadRates
from baserate.inputs.validation import as_classes, as_rates, by_name, label, listed
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray

ROUNDING = 1e-9
"""Rates this close to a set belong to it: ten times what an adjustment may miss them by."""

_SHOWN = 6  # classes in a printed line


@dataclass(frozen=True, eq=False, repr=False)
class Rates(ABC):
    """What is known about class rates: a set of rates to which predictions are adjusted.

    Made by :meth:`exact`, :meth:`between`, :meth:`near`, :meth:`from_counts`, :meth:`from_labels` and
    :meth:`of_population`, and taken wherever rates are. As long as the class rates of the adjusted rows lie in
    the set, the loss cannot rise, and falls by at least the certified amount.

    Numbers are given class by class: as a sequence in the order of the columns, or as a dict by class name. Names of
    the columns come from ``classes`` here or in :func:`baserate.adjust`.

    Examples
    --------
    >>> import baserate as br
    >>> br.Rates.between({"fraud": 0.01}, {"fraud": 0.03}, classes=["fine", "fraud"])
    Rates: fine between 0.97 and 0.99, fraud between 0.01 and 0.03
    >>> survey = br.Rates.from_counts([2, 48, 150])
    >>> survey
    Rates counted in a survey of 200 cases: class 0 2, class 1 48, class 2 150; 95 % confidence
    >>> low, high = survey.bounds(batch_size=1000)
    >>> low, high
    (array([0.   , 0.165, 0.662]), array([0.045, 0.327, 0.826]))
    >>> survey.contains([0.01, 0.3, 0.69], batch_size=1000)
    True
    """

    kind: ClassVar[str]
    kinds: ClassVar[dict[str, type[Rates]]] = {}
    classes: tuple[Any, ...] | None

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "kind"):
            Rates.kinds[cls.kind] = cls

    @staticmethod
    def exact(values: ArrayLike | Mapping[Any, float], *, classes: Sequence[Any] | None = None) -> Rates:
        """Rates of the rows at hand that are exactly known.

        Parameters
        ----------
        values : array-like of shape (k,) or dict
        classes : sequence, optional
            Names of the columns, in their order.
        """
        return _made("exact", classes, values=values)

    @staticmethod
    def between(
        low: ArrayLike | Mapping[Any, float] | None,
        high: ArrayLike | Mapping[Any, float] | None,
        *,
        classes: Sequence[Any] | None = None,
    ) -> Rates:
        """Rates of the rows at hand that lie between bounds.

        Parameters
        ----------
        low, high : float, array-like of shape (k,), dict or None
            One number bounds all classes. ``None``, also for a single class, and a class that is not in the dict, mean
            that nothing is known.
        classes : sequence, optional
            Names of the columns, in their order.

        Examples
        --------
        >>> import baserate as br
        >>> br.Rates.between([0.1, None, None], [0.2, 0.5, None]).bounds()
        (array([0.1, 0. , 0.3]), array([0.2, 0.5, 0.9]))
        """
        return _made("between", classes, low=low, high=high)

    @staticmethod
    def near(
        values: ArrayLike | Mapping[Any, float],
        radius: float,
        *,
        metric: str = "euclidean",
        classes: Sequence[Any] | None = None,
    ) -> Rates:
        """Rates of the rows at hand that lie near to given ones.

        Parameters
        ----------
        values : array-like of shape (k,) or dict
            The centre.
        radius : float
        metric : "euclidean" or "chi2", default "euclidean"
            With v the values: ``sqrt(sum_j (t_j - v_j)^2)``, or ``sqrt(sum_j (t_j - v_j)^2 / v_j)``. The latter belongs
            to counts: for those of m cases, ``radius = sqrt(chi2.ppf(confidence, k - 1) / m)`` gives the usual
            approximate confidence region of the population's rates. A class of value 0 then has rate 0.
        classes : sequence, optional
            Names of the columns, in their order.
        """
        return _made("near", classes, values=values, radius=radius, metric=metric)

    @staticmethod
    def from_counts(
        counts: ArrayLike | Mapping[Any, int], confidence: float = 0.95, *, classes: Sequence[Any] | None = None
    ) -> Rates:
        """Rates from a survey that counted classes, without features.

        The set covers the rates **of the batch at hand**, all classes together, with the stated confidence, if survey
        and batch are random samples of one population. It allows for the sampling error of both: its bounds are exact
        prediction intervals for the counts in a batch of that size, at small and zero counts too. With unequal row
        weights, Kish's effective number of rows is taken for the size of the batch, which is an approximation.

        Parameters
        ----------
        counts : array-like of int of shape (k,) or dict
            Cases of each class. A class that is not in the dict was not seen.
        confidence : float, default 0.95
        classes : sequence, optional
            Names of the columns, in their order.

        Notes
        -----
        If the survey was drawn from the batch itself, the bounds still hold, but are wider than need be.
        """
        return _made("counts", classes, counts=counts, confidence=confidence)

    @staticmethod
    def from_labels(y: ArrayLike, confidence: float = 0.95, *, classes: Sequence[Any] | None = None) -> Rates:
        """Rates from the labels of a survey; see :meth:`from_counts`.

        For labels of the very rows that are adjusted, use ``Rates.exact(br.theory.class_rates(y, n_classes))``.

        Parameters
        ----------
        y : array-like of shape (m,)
            Labels; whole numbers are column numbers unless ``classes`` names the columns.
        confidence : float, default 0.95
        classes : sequence, optional
            Names of the columns, in their order.
        """
        return _made("counts", classes, counts=_counted(y), confidence=confidence)

    @staticmethod
    def of_population(
        values: ArrayLike | Mapping[Any, float], confidence: float = 0.95, *, classes: Sequence[Any] | None = None
    ) -> Rates:
        """Exactly known rates of the population from which the rows at hand were drawn at random.

        The rates of a batch of n rows differ from them by chance; the set covers those, all classes together, with the
        stated confidence.

        Parameters
        ----------
        values : array-like of shape (k,) or dict
        confidence : float, default 0.95
        classes : sequence, optional
            Names of the columns, in their order.
        """
        return _made("population", classes, values=values, confidence=confidence)

    @staticmethod
    def parse(text: str, confidence: float = 0.95) -> Rates:
        """Rates as they are said on the command line.

        Parameters
        ----------
        text : str
            One of

            - ``cat=0.2,dog=0.8``: exact rates; ``2%`` is 0.02;
            - ``fraud=0.01..0.03``, ``fraud=..0.03``: bounds; of a class that is not named nothing is known;
            - ``counts:cat=20,dog=80``: a survey, see :meth:`from_counts`;
            - ``population:cat=0.2,dog=0.8``: see :meth:`of_population`;
            - ``0.2,0.8``: in the order of the columns, in any of these forms;
            - a file, CSV (``class,rate``, ``class,low,high`` or ``class,count``) or JSON.
        confidence : float, default 0.95
            Of a survey or a population.

        Examples
        --------
        >>> import baserate as br
        >>> br.Rates.parse("fine=0.98,fraud=2%")
        Rates: fine 0.98, fraud 0.02
        >>> br.Rates.parse("counts:46,4")
        Rates counted in a survey of 50 cases: class 0 46, class 1 4; 95 % confidence
        """
        from baserate.rates.parse import spoken

        return spoken(text, confidence)

    @property
    def certainty(self) -> float | None:
        """Confidence with which the set holds the rates of a batch; None if it does so by assumption."""
        return None

    def bounds(self, batch_size: int | None = None) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest rate of each class.

        Parameters
        ----------
        batch_size : int, optional
            Rows of the batch. Where sampling error matters it widens the bounds; without it they are those of the
            population.

        Returns
        -------
        low, high : array of shape (k,)
        """
        return self._known_size().rate_set(_as_batch_size(batch_size)).bounds()

    def contains(self, values: ArrayLike | Mapping[Any, float], batch_size: int | None = None) -> bool:
        """Whether some rates are possible.

        Parameters
        ----------
        values : array-like of shape (k,) or dict
        batch_size : int, optional
            As in :meth:`bounds`.
        """
        known = self
        if self.n_classes is None:
            names = tuple(values) if isinstance(values, Mapping) else None
            known = self.on(names, len(names) if names else int(np.size(np.asarray(values))))
        known = known._known_size()
        rates = as_rates(values, known.classes, known.n_classes or 0, what="values")
        return known.rate_set(_as_batch_size(batch_size)).distance(rates) <= ROUNDING

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None while only ``adjust`` can tell."""
        if self.classes is not None:
            return len(self.classes)
        lists = (one for one in self._numbers().values() if hasattr(one, "__len__") and not isinstance(one, Mapping))
        return next(map(len, lists), None)

    def on(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        """The same knowledge with one number for each column, in the order of the columns."""
        own = self.classes
        if n_classes < 2:
            raise BadRates(f"the rates are for {n_classes} class; at least 2 classes are needed")
        if own is not None and classes is not None and set(own) != set(classes):
            raise BadRates(f"the rates are for the classes {listed(own)}, but the columns are {listed(classes)}")
        if own is not None and len(own) != n_classes:
            raise BadRates(f"the rates are for {len(own)} classes, {listed(own)}, but there are {n_classes} columns")
        resolved = self._resolved(classes if own is None else own, n_classes)
        if own is None or classes is None or own == classes:
            return replace(resolved, classes=own if classes is None else classes)
        order = [own.index(c) for c in classes]
        moved = {name: np.asarray(value)[order] for name, value in resolved._numbers().items()}
        return replace(resolved, classes=classes, **moved)

    @abstractmethod
    def rate_set(self, batch_size: int | None) -> RateSet:
        """The set itself, for a batch of that size or for the population; one number for each column must be known."""

    @abstractmethod
    def estimate(self) -> FloatArray:
        """One best guess, for procedures that need one."""

    @abstractmethod
    def says(self) -> str:
        """The knowledge in words, after "Rates"."""

    @abstractmethod
    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        """With arrays in the order of these classes, all checked."""

    def condition(self, *, approximate: bool = False) -> str:
        """When a certificate for these rates holds, as the end of a sentence."""
        return f"if the rates of these rows are {self.says().removeprefix(':').strip()}"

    def to_json(self) -> dict[str, Any]:
        """A description that ``from_json`` reads; class names are kept elsewhere."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "classes"}
        lists = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in plain.items()}
        return {"kind": self.kind, **lists}

    def _numbers(self) -> dict[str, Any]:
        """The fields that hold something for each class."""
        return {name: getattr(self, name) for name in ("values", "low", "high", "counts") if hasattr(self, name)}

    def _checked(self) -> Self:
        """Checked as far as that can be done before the columns are known."""
        n = self.n_classes
        if n is not None:
            return self.on(self.classes, n)
        for name, value in self._numbers().items():
            if not isinstance(value, Mapping):
                raise BadRates(f"{name} must be numbers, one for each class, not {value!r}")
            self._resolved(tuple(value), len(value))
        return self

    def _known_size(self) -> Self:
        n = self.n_classes
        if n is None:
            raise BadRates("these rates do not say how many classes there are; pass classes= with their names")
        return self.on(self.classes, n)

    def __repr__(self) -> str:
        return f"Rates{self.says()}"

    def _each(self, texts: Sequence[str]) -> str:
        names = [label(None, j) for j in range(len(texts))] if self.classes is None else list(map(str, self.classes))
        shown = [f"{name} {text}" for name, text in zip(names, texts, strict=True)]
        more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
        return ", ".join(shown[:_SHOWN] + more)


def as_known(rates: object, classes: tuple[Any, ...] | None, n_classes: int, *, what: str = "rates") -> Rates:
    """What a caller passed as rates, on the columns of the predictions."""
    if isinstance(rates, Rates):
        return rates.on(classes, n_classes)
    return Rates.exact(as_rates(rates, classes, n_classes, what=what), classes=classes)


def from_json(description: Mapping[str, Any], classes: tuple[Any, ...] | None) -> Rates:
    """The rates that :meth:`Rates.to_json` described."""
    numbers = dict(description)
    return _made(numbers.pop("kind"), classes, **numbers)


def _made(kind: str, classes: Sequence[Any] | None, **given: Any) -> Rates:
    names = None if classes is None else as_classes(classes, len(classes) if hasattr(classes, "__len__") else 0)
    numbers = {name: _kept(value) for name, value in given.items()}
    for name, value in numbers.items():
        if names is not None and isinstance(value, (list, np.ndarray)) and len(value) != len(names):
            raise BadRates(f"classes names {len(names)} classes, but there are {len(value)} numbers in {name}")
    return Rates.kinds[kind](names, **numbers)._checked()


def _kept(value: Any) -> Any:
    """A copy of what was given, so that changes of it do not reach us: a dict by name, a list, or one value."""
    if isinstance(value, Counter):
        return Counter(value)
    named = by_name(value)
    if isinstance(named, Mapping):
        # A Series has no None; there NaN says that nothing is known.
        from_series = named is not value
        return {name: None if from_series and number != number else number for name, number in named.items()}
    if isinstance(named, np.ndarray):
        return named.item() if named.ndim == 0 else named.copy()
    return list(named) if isinstance(named, (list, tuple)) else named


def _counted(y: ArrayLike) -> Counter[Any]:
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.size == 0:
        raise BadLabels(f"labels must be a list with one label for each case, but have shape {labels.shape}")
    if labels.dtype.kind == "f":
        if not (np.isfinite(labels) & (labels == np.floor(labels))).all():
            raise BadLabels("labels must be class names or whole numbers, but some are fractions or not a number")
        labels = labels.astype(np.int64)
    return Counter(labels.tolist())


def _as_batch_size(batch_size: object) -> int | None:
    if batch_size is None or (
        isinstance(batch_size, (int, np.integer)) and not isinstance(batch_size, bool) and batch_size > 0
    ):
        return None if batch_size is None else int(batch_size)
    raise BadOption(f"batch_size must be a whole number above 0, not {batch_size!r}")
