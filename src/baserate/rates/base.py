"""How users create, save and load rates: :class:`Rates`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

from numpy.typing import ArrayLike

from baserate.errors import BadFile, BadRates, BaserateError, Option
from baserate.inputs.class_numbers import ARRAY_LIKE
from baserate.inputs.validation import quoted_name
from baserate.rates.arguments import count_labels
from baserate.rates.ellipsoid_arguments import around_draws, near_by_matrix
from baserate.rates.interface import RatesInterface, build, from_json, kinds

DESIGN_EFFECT = Option("design_effect")


@dataclass(frozen=True, eq=False, repr=False)
class Rates(RatesInterface):
    """What is known about the class rates: a set of possible rates to which predictions are adjusted.

    Create it with :meth:`exact`, :meth:`between`, :meth:`near`, :meth:`from_counts`, :meth:`from_labels`,
    :meth:`of_population`, :meth:`from_samples` or, for rates per group, :meth:`by`; :func:`baserate.estimate` estimates
    it. Pass it wherever rates are accepted. If the true class rates of the adjusted rows lie in the set, the loss falls
    by at least the guaranteed amount, and never rises.

    All constructors accept one number per class: a sequence in the order of the columns, or a dict that maps class
    names to numbers. Class names come from ``classes`` here or in :func:`baserate.adjust`. A single number is about the
    positive class: the second of two classes, which is the class of one-dimensional predictions.

    Examples
    --------
    >>> import baserate as br
    >>> br.Rates.between(0.01, 0.03)
    Rates between 0.01 and 0.03
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

    kinds: ClassVar[dict[str, type[Rates]]] = kinds
    is_grouped: ClassVar[bool] = False
    """Whether the rates are given per group."""

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "kind"):
            kinds[cls.kind] = cls

    @staticmethod
    def exact(values: ArrayLike | Mapping[Any, float], *, classes: Sequence[Any] | None = None) -> Rates:
        """Exactly known class rates of the rows.

        Parameters
        ----------
        values : float, array-like of shape (k,) or dict
            One number is the rate of the second of two classes. If one class is missing from a dict, it gets the rest.
        classes : sequence, optional
            Class names, in the order of the columns.
        """
        return build("exact", classes, values=values)

    @staticmethod
    def between(
        low: ArrayLike | Mapping[Any, float] | None,
        high: ArrayLike | Mapping[Any, float] | None,
        *,
        classes: Sequence[Any] | None = None,
    ) -> Rates:
        """Class rates of the rows that lie between lower and upper bounds.

        Parameters
        ----------
        low, high : float, array-like of shape (k,), dict or None
            Lower and upper bounds. A single number is the bound of the second of two classes; with more than two
            classes, it is the bound of each class. A class has no bound if its entry is ``None``, if it is missing from
            the dict, or if the whole argument is ``None``.
        classes : sequence, optional
            Class names, in the order of the columns.

        Examples
        --------
        >>> import baserate as br
        >>> br.Rates.between([0.1, None, None], [0.2, 0.5, None]).bounds()
        (array([0.1, 0. , 0.3]), array([0.2, 0.5, 0.9]))
        """
        return build("between", classes, low=low, high=high)

    @staticmethod
    def near(
        values: ArrayLike | Mapping[Any, float],
        radius: float,
        *,
        metric: str | ArrayLike | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Rates:
        """Class rates of the rows that lie within a distance of given rates.

        Parameters
        ----------
        values : float, array-like of shape (k,) or dict
            The centre v. One number is the rate of the second of two classes.
        radius : float
            The largest distance.
        metric : "euclidean", "chi2", "largest" or array-like of shape (k, k), optional
            How the distance of rates t from v is measured: ``sqrt(sum_j (t_j - v_j)^2)``,
            ``sqrt(sum_j (t_j - v_j)^2 / v_j)``, or the largest ``|t_j - v_j|``. By default "euclidean", but "largest"
            if ``values`` is the rate of one of two classes, so that ``Rates.near(0.02, 0.005)`` is from 0.015 to
            0.025. "chi2" suits rates that were estimated from the counts of m cases:
            ``radius = sqrt(chi2.ppf(confidence, k - 1) / m)`` gives the usual approximate confidence region of the
            population's rates. With "chi2", a class with value 0 has rate 0. A matrix S is a covariance matrix, such
            as that of estimated rates: the distance is ``sqrt((t - v)' S^-1 (t - v))``, and the set is an ellipsoid.
            Only the part of S that keeps the sum of rates counts. The rows and columns of a dataframe with class names
            are matched by name; names in the index or in the columns are enough. Those of an array, or of a pandas
            dataframe without names, have the order of ``values``, also if this is a dict or a Series; then leave out
            ``classes``.
        classes : sequence, optional
            Class names, in the order of the columns.

        Examples
        --------
        >>> import baserate as br
        >>> covariance = [[0.02, -0.015, -0.005], [-0.015, 0.02, -0.005], [-0.005, -0.005, 0.01]]
        >>> br.Rates.near([0.5, 0.3, 0.2], 1.0, metric=covariance).bounds()
        (array([0.35857864, 0.15857864, 0.1       ]), array([0.64142136, 0.44142136, 0.3       ]))
        """
        if metric is not None and not isinstance(metric, str):
            return build("ellipsoid", **near_by_matrix(values, radius, metric, classes))
        return build("near", classes, values=values, radius=radius, metric=metric)

    @staticmethod
    def from_counts(
        counts: ArrayLike | Mapping[Any, int],
        confidence: float = 0.95,
        *,
        total: int | None = None,
        design_effect: float = 1.0,
        classes: Sequence[Any] | None = None,
    ) -> Rates:
        """Class rates from a survey that counted the cases of each class.

        The set contains the class rates **of the adjusted batch**, for all classes jointly, with the stated confidence,
        if the survey and the batch are random samples from the same population. It accounts for the sampling error of
        both: the bounds are exact prediction intervals for the counts in a batch of that size, also at small and zero
        counts. With unequal row weights, Kish's effective sample size replaces the number of rows, which is an
        approximation.

        Parameters
        ----------
        counts : int, array-like of int of shape (k,) or dict
            Number of cases of each class. A class that is missing from the dict has count 0. One number is the count of
            the second of two classes; it needs ``total``.
        confidence : float, default 0.95
        total : int, optional
            Number of all cases. The class that is missing from ``counts`` gets the remaining cases.
        design_effect : float, default 1.0
            Variance of the rates of the survey, divided by the variance in a simple random sample of the same size; at
            least 1. For cluster sampling, where whole clusters of m cases (households, schools, hospitals)
            are drawn, it is ``1 + (m - 1) * ICC``, where ICC is the intraclass correlation: 1.9 for clusters of 10
            cases and a correlation of 0.1. The counts are divided by it, and the confidence becomes approximate.
        classes : sequence, optional
            Class names, in the order of the columns.

        Notes
        -----
        If the survey was drawn from the batch itself, the bounds are still valid, but wider than necessary.

        Examples
        --------
        >>> import baserate as br
        >>> br.Rates.from_counts([187, 13]).bounds(batch_size=500)
        (array([0.884, 0.03 ]), array([0.97 , 0.116]))
        >>> br.Rates.from_counts([187, 13], design_effect=1.9).bounds(batch_size=500)
        (array([0.862, 0.018]), array([0.982, 0.138]))
        >>> br.Rates.from_counts(13, total=200).bounds(batch_size=500)
        (array([0.884, 0.03 ]), array([0.97 , 0.116]))
        """
        numbers = {"counts": counts, "total": total, "confidence": confidence, "design_effect": design_effect}
        return build("counts", classes, **numbers)

    @staticmethod
    def from_labels(
        y: ArrayLike, confidence: float = 0.95, *, design_effect: float = 1.0, classes: Sequence[Any] | None = None
    ) -> Rates:
        """Class rates from the labels of a survey; see :meth:`from_counts`.

        If the labels are those of the adjusted rows, use ``Rates.exact(br.theory.class_rates(y, n_classes))`` instead.

        Parameters
        ----------
        y : array-like of shape (m,)
            Labels. Whole numbers are column numbers, unless ``classes`` is given.
        confidence : float, default 0.95
        design_effect : float, default 1.0
            As in :meth:`from_counts`.
        classes : sequence, optional
            Class names, in the order of the columns.
        """
        return build("counts", classes, counts=count_labels(y), confidence=confidence, design_effect=design_effect)

    @staticmethod
    def of_population(
        values: ArrayLike | Mapping[Any, float], confidence: float = 0.95, *, classes: Sequence[Any] | None = None
    ) -> Rates:
        """Exactly known class rates of the population from which the rows are a random sample.

        The class rates of a batch of n rows differ from those of the population by chance. The set contains the rates
        of the batch, for all classes jointly, with the stated confidence.

        Parameters
        ----------
        values : float, array-like of shape (k,) or dict
            As in :meth:`exact`.
        confidence : float, default 0.95
        classes : sequence, optional
            Class names, in the order of the columns.
        """
        return build("population", classes, values=values, confidence=confidence)

    @staticmethod
    def from_samples(draws: ArrayLike, confidence: float = 0.95, *, classes: Sequence[Any] | None = None) -> Rates:
        """Class rates from draws of a bootstrap, or of a posterior distribution.

        The set is an ellipsoid around the mean of the draws, with their covariance matrix, that holds at least the
        stated share of them. The guarantee holds with this confidence if the draws represent what is known about the
        class rates **of the adjusted rows**. Draws of the rates of a population are too narrow for a small batch.

        Parameters
        ----------
        draws : array-like or dataframe of shape (m, k)
            Class rates, one row per draw. One-dimensional draws, or a single column, are rates of one of two classes:
            of the class with the name of the column or Series, or of the second one if it has no name.
        confidence : float, default 0.95
        classes : sequence, optional
            Class names: by default the names of the columns of a dataframe. The columns of a dataframe with names are
            matched by name, those of an array have the order of the classes.

        Examples
        --------
        >>> import baserate as br
        >>> import numpy as np
        >>> draws = np.random.default_rng(0).dirichlet([20, 30, 50], size=1000)
        >>> low, high = br.Rates.from_samples(draws, 0.9).bounds()
        >>> low.round(2), high.round(2)
        (array([0.11, 0.21, 0.39]), array([0.28, 0.4 , 0.61]))
        """
        return build("samples", **around_draws(draws, confidence, classes))

    @staticmethod
    def by(
        keys: Any,
        table: Any,
        *,
        kind: str = "rates",
        rounding: float | str | None = None,
        confidence: float = 0.95,
        joint: bool = True,
        design_effect: float = 1.0,
        unlisted: str = "raise",
        classes: Sequence[Any] | None = None,
    ) -> Rates:
        """Class rates of each group of rows: of each region, site, age band or day.

        Parameters
        ----------
        keys : str or list of str
            The column that defines the groups, or several columns for their combinations.
        table : dataframe, dict, Series or path
            The rates of each group, in one of these forms:

            - a dataframe (pandas, polars, pyarrow) with one row per group and one column per class. The groups are
              columns with the names ``keys``, or the index of a pandas dataframe;
            - a dataframe with one row per group and class: the columns ``keys``, ``"class"``, and ``"rate"``, or
              ``"low"`` and ``"high"``, or ``"count"``;
            - a dict from group to a dict from class to rate. With several keys a group is a tuple;
            - for two classes, a dict or a pandas Series from group to the rate of the positive class;
            - a dict from group to :class:`Rates` of any kind;
            - the path of a CSV file with one of the first two forms.

            An entry that is missing (None, NaN, an empty cell) is unknown. A group whose entries are all missing is not
            adjusted. An entry may also be bounds: a tuple in a dict, ``0.01..0.03`` in a CSV file.
        kind : "rates", "counts" or "population", default "rates"
            What the numbers are: the rates of the rows of each group, the counts of a survey in each group (see
            :meth:`from_counts`), or the rates of the population of each group (see :meth:`of_population`). Among
            counts, a missing entry is 0.
        rounding : float or "auto", optional
            The largest rounding error of a rate in the table, such as 0.005 for whole percentages. Each exact rate
            becomes an interval of this half-width. "auto" takes half a unit of the last decimal in the table. Tables
            that were rounded need this: otherwise two tables hardly ever agree.
        confidence : float, default 0.95
            For surveys and populations.
        joint : bool, default True
            Whether the confidence is for all groups together: each of G groups then gets the level
            ``(1 - confidence) / G``. With False, the confidence is for each group by itself, and nothing is claimed
            about all of them.
        design_effect : float, default 1.0
            For counts, as in :meth:`from_counts`.
        unlisted : "raise" or "free", default "raise"
            What is done about rows whose group is not in the table, or missing: an error, or nothing is assumed about
            their rates.
        classes : sequence, optional
            The columns with rates if the table has others, or the class names of rates that are given by position.

        Returns
        -------
        Rates
            For :func:`baserate.adjust`, and as a part of :class:`baserate.Margins`.

        Examples
        --------
        >>> import baserate as br
        >>> rates = br.Rates.by("region", {"north": 0.1, "south": 0.3})
        >>> rates
        Rates by region: exact rates of 2 groups
        >>> result = br.adjust([0.2, 0.4, 0.3, 0.1], rates, groups=["north", "north", "south", "south"])
        >>> result.probs.round(3)
        array([0.058, 0.142, 0.434, 0.166])
        """
        grouped: Any = Rates.kinds["groups"]  # a kind of its own; it is not imported here, because it imports this one
        options = {"confidence": confidence, "joint": joint, "design_effect": design_effect, "unlisted": unlisted}
        found: Rates = grouped.from_table(keys, table, classes=classes, kind=kind, rounding=rounding, **options)
        return found

    @staticmethod
    def parse(text: str, confidence: float = 0.95, design_effect: float = 1.0) -> Rates:
        """Parse rates from a string, as on the command line.

        Parameters
        ----------
        text : str
            One of

            - ``cat=0.2,dog=0.8``: exact rates; ``2%`` means 0.02;
            - ``fraud=0.01..0.03``, ``fraud=..0.03``: bounds; classes that are not named have no bounds;
            - ``counts:cat=20,dog=80``: the counts of a survey, see :meth:`from_counts`;
            - ``population:cat=0.2,dog=0.8``: rates of the population, see :meth:`of_population`;
            - ``0.2,0.8``: the numbers without class names, in the order of the columns; also with bounds or a prefix;
            - ``0.02``, ``0.01..0.03``, ``population:0.02`` or ``counts:4/50``: one number, for the second of two
              classes; 4/50 are 4 of 50 cases;
            - the path of a CSV file (``class,rate``, ``class,low,high`` or ``class,count``) or of a JSON file;
            - the path of a file that :meth:`save` wrote, such as estimated rates.
        confidence : float, default 0.95
            Confidence for a survey or a population.
        design_effect : float, default 1.0
            Design effect of a survey, as in :meth:`from_counts`; an error for other rates unless it is 1.

        Examples
        --------
        >>> import baserate as br
        >>> br.Rates.parse("fine=0.98,fraud=2%")
        Rates: fine 0.98, fraud 0.02
        >>> br.Rates.parse("counts:46,4")
        Rates counted in a survey of 50 cases: class 0 46, class 1 4; 95 % confidence
        >>> br.Rates.parse("0.01..0.03")
        Rates between 0.01 and 0.03
        """
        from baserate.rates.parse import parse_rates
        from baserate.rates.saving import is_saved

        if isinstance(text, str) and is_saved(text):
            if design_effect != 1:
                raise _without_survey(text)
            return Rates.load(text)
        kind, numbers, classes = parse_rates(text)
        if kind in ("counts", "population"):
            numbers = {**numbers, "confidence": confidence}
        if kind == "counts":
            numbers = {**numbers, "design_effect": design_effect}
        elif design_effect != 1:
            raise _without_survey(text)
        return build(kind, classes, **numbers)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rates to a JSON file, for :meth:`load` and for the option ``--rates`` of the command line.

        Parameters
        ----------
        path : path-like
            The name must end in ``.json``.
        """
        from baserate.rates.saving import save_rates

        save_rates(path, self)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Rates:
        """Read rates that :meth:`save` wrote.

        Parameters
        ----------
        path : path-like

        Examples
        --------
        >>> import baserate as br
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rates.json"
        >>> br.Rates.between(0.01, 0.03).save(path)
        >>> br.Rates.load(path)
        Rates between 0.01 and 0.03
        """
        from baserate.rates.saving import load_rates

        description, classes = load_rates(path)
        try:
            return from_json(description, classes)
        except BaserateError as error:
            raise BadFile(f"{path} does not describe a set of class rates: {error}") from error
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise BadFile(f"{path} does not describe a set of class rates: {type(error).__name__}: {error}") from error


def is_rates(value: object) -> TypeGuard[Rates]:
    """Whether this is a :class:`Rates`."""
    # Not isinstance alone: the first array in a process would be compared with every kind of rates.
    return not isinstance(value, ARRAY_LIKE) and isinstance(value, Rates)


def is_grouped(rates: object) -> bool:
    """Whether these are rates per group."""
    return is_rates(rates) and rates.is_grouped


def _without_survey(text: str) -> BadRates:
    """The error for a design effect of rates that were not counted in a survey."""
    return BadRates(
        f"{DESIGN_EFFECT} is for the counts of a survey, but these are other rates: {quoted_name(text)}; leave out "
        f"{DESIGN_EFFECT}",
        options=[DESIGN_EFFECT],
    )
