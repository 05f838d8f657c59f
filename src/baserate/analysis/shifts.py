"""Four ways to shift a labelled set, as in the experiments of the paper (section 4).

Each takes the labels of a set of rows and says which rows are left, with which labels. The predictions of those rows
are then predictions for a place with other class rates, and it is known which. The majority classes are the fewest, by
size, that hold more than half of the rows; ``amount`` is the paper's epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.errors import BadLabels, BadOption, ImpossibleShift
from baserate.inputs.dataframes import is_frame
from baserate.inputs.validation import as_rates, is_number, listed
from baserate.support.arrays import FloatArray, IndexArray

Seed = int | np.random.Generator | np.random.SeedSequence

KINDS = ("prior", "concept", "covariate", "combined")
"""Names of the shifts, in the order of the paper."""

NO_MINORITY = "there is no minority class"
VANISHES = "a class would vanish"


@dataclass(frozen=True, eq=False)
class Shifted:
    """What is left of a set of rows after a shift.

    Attributes
    ----------
    kind : str
        ``"prior"``, ``"concept"``, ``"covariate"`` or ``"combined"``.
    amount : float
    rows : array of int
        Positions of the rows that are left, ascending.
    y : array
        Their labels after the shift.
    classes : tuple
        In sorted order; ``rates`` and ``old_rates`` follow it.
    rates, old_rates : array of shape (k,)
        Class rates after and before the shift.
    majority : tuple
        The majority classes before the shift, largest first.
    feature : object
        The feature by whose values rows were deleted, if any were.

    Examples
    --------
    >>> import baserate as br
    >>> shifted = br.shifts.prior(["a"] * 6 + ["b"] * 4, 0.2, seed=0)
    >>> shifted.rates.round(3), len(shifted.rows)
    (array([0.429, 0.571]), 7)
    """

    kind: str
    amount: float
    rows: IndexArray
    y: NDArray[Any]
    classes: tuple[Any, ...]
    rates: FloatArray
    old_rates: FloatArray
    majority: tuple[Any, ...]
    feature: Any = None

    @property
    def distance(self) -> float:
        """Squared Euclidean distance between the old and the new class rates."""
        return float(np.square(self.rates - self.old_rates).sum())


def prior(y: ArrayLike, amount: float, *, seed: Seed = 0) -> Shifted:
    """Prior probability shift: delete random rows of the majority classes until their share has fallen by ``amount``.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of any kind that can be sorted.
    amount : float
        By how much the share of the majority classes falls, from 0 to that share.
    seed : int, Generator or SeedSequence, default 0

    Returns
    -------
    Shifted

    Raises
    ------
    ImpossibleShift
        If a class would vanish, or if all classes are majority classes.

    Examples
    --------
    >>> import baserate as br
    >>> br.shifts.prior([0] * 80 + [1] * 20, 0.3).rates
    array([0.5, 0.5])
    """
    state = _State.of(y, amount, seed)
    state.thin_out()
    return state.end("prior")


def concept(y: ArrayLike, amount: float, *, seed: Seed = 0) -> Shifted:
    """Concept shift: give random rows of the majority classes, the share ``amount`` of them, random minority labels.

    Takes and returns what :func:`prior` does; no row is deleted.

    Examples
    --------
    >>> import baserate as br
    >>> br.shifts.concept([0] * 80 + [1] * 20, 0.25).rates
    array([0.6, 0.4])
    """
    state = _State.of(y, amount, seed)
    state.relabel()
    return state.end("concept")


def covariate(y: ArrayLike, features: Any, amount: float) -> Shifted:
    """Covariate shift: delete the rows of one class where the feature that tells most about it is lowest.

    The class is the smallest of the majority classes, the feature the numeric one with the largest absolute
    correlation with it, and ``amount`` the share of the rows of the class that are deleted. Rows where the feature is
    missing go last; of equal values the first row goes first.

    Parameters
    ----------
    y : array-like of shape (n,)
    features : array-like of shape (n, d), dataframe or None
        Of a dataframe the numeric columns are looked at.
    amount : float
        Between 0 and 1.

    Returns
    -------
    Shifted

    Raises
    ------
    ImpossibleShift
        If there is no numeric feature that varies, or if the class would vanish.

    Examples
    --------
    >>> import baserate as br
    >>> shifted = br.shifts.covariate(["a", "a", "a", "b", "a"], [[3.0], [1.0], [2.0], [9.0], [4.0]], 0.5)
    >>> shifted.rows, shifted.feature
    (array([0, 3, 4]), 0)
    """
    state = _State.of(y, amount, seed=0)
    state.cut(features)
    return state.end("covariate")


def combined(y: ArrayLike, features: Any, amount: float, *, seed: Seed = 0) -> Shifted:
    """The three other shifts in a row, each by ``amount``: prior, concept, covariate.

    The majority classes are those before the first one. Takes what the three take.

    Examples
    --------
    >>> import baserate as br
    >>> shifted = br.shifts.combined([0] * 80 + [1] * 20, [[float(i)] for i in range(100)], 0.3)
    >>> shifted.rates.round(3), len(shifted.rows)
    (array([0.278, 0.722]), 36)
    """
    state = _State.of(y, amount, seed)
    state.thin_out()
    state.relabel()
    state.cut(features)
    return state.end("combined")


def shift(kind: str, y: ArrayLike, features: Any, amount: float, *, seed: Seed = 0) -> Shifted:
    """The shift of that name; ``features`` are not looked at where it does not need them.

    Examples
    --------
    >>> import baserate as br
    >>> br.shifts.shift("concept", [0] * 80 + [1] * 20, None, 0.25).rates
    array([0.6, 0.4])
    """
    if kind == "prior":
        return prior(y, amount, seed=seed)
    if kind == "concept":
        return concept(y, amount, seed=seed)
    if kind == "covariate":
        return covariate(y, features, amount)
    if kind == "combined":
        return combined(y, features, amount, seed=seed)
    raise BadOption(f"there is no shift {kind!r}; there are {listed(KINDS)}")


def majority(rates: ArrayLike) -> IndexArray:
    """Positions of the majority classes: the fewest, by size, whose rates sum above one half; largest first.

    Examples
    --------
    >>> import baserate as br
    >>> br.shifts.majority([0.2, 0.45, 0.35])
    array([1, 2])
    """
    pi = as_rates(rates, None, np.size(rates))
    order = np.argsort(-pi, kind="stable")
    above = np.cumsum(pi[order]) > 0.5 + 1e-12  # half of the rows is not more than half, whatever the rounding
    return order[: int(np.argmax(above)) + 1] if above.any() else order


def misstated(rates: ArrayLike, majority: ArrayLike, error: float) -> FloatArray:
    """Rates with an error: ``error`` is added to each majority class and taken in equal parts from the others.

    Parameters
    ----------
    rates : array-like of shape (k,)
    majority : array-like of int
        Positions of the majority classes.
    error : float
        May be negative.

    Raises
    ------
    ImpossibleShift
        If a rate would leave [0, 1], or a class that occurs would get the rate 0.

    Examples
    --------
    >>> import baserate as br
    >>> br.shifts.misstated([0.6, 0.3, 0.1], [0], 0.04).round(3)
    array([0.64, 0.28, 0.08])
    """
    pi = as_rates(rates, None, np.size(rates))
    if not is_number(error) or not abs(error) < 1:
        raise BadOption(f"the error of a rate must be a number between -1 and 1, not {error!r}")
    places = np.asarray(majority)
    if places.dtype.kind not in "iu" or places.size == 0 or not ((places >= 0) & (places < len(pi))).all():
        raise BadOption(f"majority must be positions of classes, 0 to {len(pi) - 1}, not {majority!r}")
    large = np.isin(np.arange(len(pi)), places)
    if large.all() and error:
        raise ImpossibleShift("all classes are majority classes, so none is left to make up for the error", NO_MINORITY)
    # The last digits of 0.08 - 0.08 decide nothing: a rate that close to 0 or 1 is 0 or 1.
    stated = np.where(large, pi + error, pi - error * large.sum() / max((~large).sum(), 1))
    stated[np.abs(stated) < 1e-12] = 0.0
    if stated.min() < 0 or stated.max() > 1 + 1e-12:
        worst = int(np.argmin(np.minimum(stated, 1 - stated)))
        message = f"with an error of {error:+g} the rate of class {worst} would be {stated[worst]:.4f}"
        raise ImpossibleShift(message, "a rate would leave [0, 1]")
    lost = np.flatnonzero((stated == 0) & (pi > 0))
    if lost.size:
        message = f"with an error of {error:+g} class {lost[0]} would get the rate 0, though it occurs"
        raise ImpossibleShift(message, "a class that occurs would get the rate 0")
    return np.asarray(stated)


class _State:
    """Rows and labels on their way through one shift or several."""

    def __init__(self, codes: IndexArray, classes: NDArray[Any], amount: float, rng: np.random.Generator) -> None:
        self.codes, self.classes, self.amount, self.rng = codes, classes, amount, rng
        self.rows: IndexArray = np.arange(len(codes))
        self.counts = np.bincount(codes, minlength=len(classes))
        self.large = majority(self.counts / len(codes))
        self.small = np.setdiff1d(np.arange(len(classes)), self.large)
        self.feature: Any = None
        if not self.small.size:
            raise ImpossibleShift(f"all of the classes {listed(classes.tolist())} are majority classes", NO_MINORITY)

    @classmethod
    def of(cls, y: ArrayLike, amount: float, seed: Seed) -> _State:
        labels = np.asarray(y)
        if labels.ndim != 1 or not labels.size:
            raise BadLabels(f"y has shape {labels.shape}; pass one label a row, and at least one row")
        if not is_number(amount) or not 0 < amount < 1:
            raise BadOption(f"the amount of a shift must be a number between 0 and 1, not {amount!r}")
        missing = next((row for row, label in enumerate(labels.tolist()) if _is_missing(label)), None)
        if missing is not None:
            raise BadLabels(f"the label of row {missing} is missing")
        try:
            classes, codes = np.unique(labels, return_inverse=True)
        except TypeError:
            raise BadLabels("y mixes values that cannot be compared, such as None and names; drop those rows") from None
        try:
            rng = np.random.default_rng(seed)
        except (TypeError, ValueError):
            raise BadOption(f"seed must be a whole number of 0 or more, or a random generator, not {seed!r}") from None
        return cls(codes.astype(np.intp), classes, float(amount), rng)

    def thin_out(self) -> None:
        in_majority = np.isin(self.codes, self.large)
        rest = int((~in_majority).sum())
        share = in_majority.mean() - self.amount
        if share <= 0:
            message = (
                f"the majority classes hold {in_majority.mean():.3f} of the rows; that cannot fall by {self.amount:g}"
            )
            raise ImpossibleShift(message, VANISHES)
        # kept / (kept + rest) = share
        kept = self.rng.choice(np.flatnonzero(in_majority), round(rest * share / (1 - share)), replace=False)
        self._keep(np.sort(np.concatenate([kept, np.flatnonzero(~in_majority)])))
        self._check()

    def relabel(self) -> None:
        candidates = np.flatnonzero(np.isin(self.codes, self.large))
        chosen = self.rng.choice(candidates, round(self.amount * len(candidates)), replace=False)
        self.codes = self.codes.copy()
        self.codes[chosen] = self.rng.choice(self.small, len(chosen))
        self._check()

    def cut(self, features: Any) -> None:
        values, names = _numeric(features, int(self.counts.sum()))
        last = self.large[-1]
        best = _best_feature(values[self.rows], self.codes == last)
        if best is None:
            message = "covariate shift needs a numeric feature that varies, and there is none"
            raise ImpossibleShift(message, "no numeric feature varies")
        members = np.flatnonzero(self.codes == last)
        order = np.argsort(values[self.rows[members], best], kind="stable")  # NaN goes last
        gone = members[order[: round(self.amount * len(members))]]
        self.feature = names[best]
        self._keep(np.setdiff1d(np.arange(len(self.codes)), gone))
        self._check()

    def _keep(self, which: IndexArray) -> None:
        self.rows, self.codes = self.rows[which], self.codes[which]

    def _check(self) -> None:
        counts = np.bincount(self.codes, minlength=len(self.classes))
        if (counts == 0).any():
            raise ImpossibleShift(f"class {self.classes.tolist()[int(np.argmin(counts))]!r} would vanish", VANISHES)

    def end(self, kind: str) -> Shifted:
        counts = np.bincount(self.codes, minlength=len(self.classes))
        return Shifted(
            kind,
            self.amount,
            self.rows,
            self.classes[self.codes],
            tuple(self.classes.tolist()),
            counts / counts.sum(),
            self.counts / self.counts.sum(),
            tuple(self.classes[self.large].tolist()),
            self.feature,
        )


def _is_missing(label: Any) -> bool:
    """Whether this is None, or not equal to itself: NaN, NaT, and what pandas calls NA."""
    try:
        return label is None or bool(label != label)
    except TypeError:
        return True


def _numeric(features: Any, n_rows: int) -> tuple[FloatArray, list[Any]]:
    """Numeric features as a matrix, missing values as NaN, and their names."""
    if features is None:
        return np.empty((n_rows, 0)), []
    if is_frame(features):
        import narwhals as nw
        import narwhals.selectors as ncs

        frame = nw.from_native(features, eager_only=True)
        numeric = list(frame.select(ncs.numeric()).iter_columns())  # not by name: 0 would be taken for a row
        names: list[Any] = [column.name for column in numeric]
        values = np.empty((len(frame), len(numeric)))
        for j, column in enumerate(numeric):
            values[:, j] = column.cast(nw.Float64).to_numpy()
    else:
        try:
            values = np.asarray(features, dtype=np.float64)
        except (TypeError, ValueError):
            raise BadOption(
                "an array of features must hold numbers; of a dataframe the numeric columns are taken"
            ) from None
        names = list(range(values.shape[1])) if values.ndim == 2 else []
    if values.ndim != 2 or len(values) != n_rows:
        raise BadOption(f"features have shape {values.shape}, but there are {n_rows} labels: pass one row a label")
    return np.where(np.isfinite(values), values, np.nan), names


def _best_feature(values: FloatArray, member: NDArray[np.bool_]) -> int | None:
    """The column with the largest absolute correlation with membership; None if no column varies."""
    best, largest = None, 0.0
    for j, column in enumerate(values.T):
        known = ~np.isnan(column)
        x, z = column[known], member[known].astype(float)
        if len(x) < 2 or x.min() == x.max():
            continue  # what rounding leaves of a constant minus its mean would look like a correlation
        x /= np.abs(x).max()  # so that no square overflows
        x, z = x - x.mean(), z - z.mean()
        scale = np.sqrt(x @ x) * np.sqrt(z @ z)
        if scale > 0 and abs(x @ z) / scale > largest:
            best, largest = j, abs(x @ z) / scale
    return best
