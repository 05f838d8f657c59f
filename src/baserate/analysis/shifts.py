"""The four dataset shifts of the paper's experiments (section 4).

Each function takes the labels of a data set and returns the rows that remain after the shift, with their new labels.
The predictions for these rows are then predictions for a target population whose class rates are known. The majority
classes are the smallest group of classes, largest first, that together hold more than half of the rows. ``amount`` is
the paper's epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.errors import BadLabels, BadOption, ImpossibleShift
from baserate.inputs.class_numbers import as_rates
from baserate.inputs.dataframes import is_dataframe
from baserate.inputs.validation import is_number, quoted, quoted_name
from baserate.support.arrays import FloatArray, IndexArray

Seed = int | np.random.Generator | np.random.SeedSequence

KINDS = ("prior", "concept", "covariate", "combined")
"""Names of the shifts, in the paper's order."""

NO_MINORITY = "there is no minority class"
VANISHES = "a class would vanish"


@dataclass(frozen=True, eq=False)
class Shifted:
    """The rows and labels after a shift.

    Attributes
    ----------
    kind : str
        ``"prior"``, ``"concept"``, ``"covariate"`` or ``"combined"``.
    amount : float
    rows : array of int
        Positions of the remaining rows, in ascending order.
    y : array
        Labels of the remaining rows after the shift.
    classes : tuple
        All classes, sorted; ``rates`` and ``old_rates`` are in this order.
    rates, old_rates : array of shape (k,)
        Class rates after and before the shift.
    majority : tuple
        The majority classes before the shift, largest first.
    feature : object
        The feature that decided which rows were deleted (covariate and combined shift), else None.

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
    """Apply a prior probability shift: delete random rows of the majority classes.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of any type that can be sorted.
    amount : float
        How much the share of the majority classes decreases, between 0 and that share.
    seed : int, Generator or SeedSequence, default 0

    Returns
    -------
    Shifted

    Raises
    ------
    ImpossibleShift
        If a class would have no rows left, or if all classes are majority classes.

    Examples
    --------
    >>> import baserate as br
    >>> br.shifts.prior([0] * 80 + [1] * 20, 0.3).rates
    array([0.5, 0.5])
    """
    state = _State.from_labels(y, amount, seed)
    state.delete_majority_rows()
    return state.result("prior")


def concept(y: ArrayLike, amount: float, *, seed: Seed = 0) -> Shifted:
    """Apply a concept shift: give random rows of the majority classes random labels of minority classes.

    ``amount`` is the share of the rows of the majority classes whose label changes. No row is deleted. The parameters
    and the result are those of :func:`prior`.

    Examples
    --------
    >>> import baserate as br
    >>> br.shifts.concept([0] * 80 + [1] * 20, 0.25).rates
    array([0.6, 0.4])
    """
    state = _State.from_labels(y, amount, seed)
    state.relabel_majority_rows()
    return state.result("concept")


def covariate(y: ArrayLike, features: Any, amount: float) -> Shifted:
    """Apply a covariate shift: delete the rows of one class with the lowest values of one feature.

    The class is the smallest of the majority classes. The feature is the numeric feature with the largest absolute
    correlation with membership in that class. Rows with the same value are deleted in their order; rows where the
    feature is missing are deleted last.

    Parameters
    ----------
    y : array-like of shape (n,)
    features : array-like of shape (n, d), dataframe or None
        Of a dataframe, only the numeric columns are used.
    amount : float
        Share of the rows of the class that are deleted, between 0 and 1.

    Returns
    -------
    Shifted

    Raises
    ------
    ImpossibleShift
        If no numeric feature varies, if the class would have no rows left, or if all classes are majority classes.

    Examples
    --------
    >>> import baserate as br
    >>> shifted = br.shifts.covariate(["a", "a", "a", "b", "a"], [[3.0], [1.0], [2.0], [9.0], [4.0]], 0.5)
    >>> shifted.rows, shifted.feature
    (array([0, 3, 4]), 0)
    """
    state = _State.from_labels(y, amount, seed=0)
    state.delete_lowest_values(features)
    return state.result("covariate")


def combined(y: ArrayLike, features: Any, amount: float, *, seed: Seed = 0) -> Shifted:
    """Apply the prior, the concept and the covariate shift one after the other, each with the same ``amount``.

    The majority classes are determined once, before the first shift. The parameters are those of the three shifts.

    Examples
    --------
    >>> import baserate as br
    >>> shifted = br.shifts.combined([0] * 80 + [1] * 20, [[float(i)] for i in range(100)], 0.3)
    >>> shifted.rates.round(3), len(shifted.rows)
    (array([0.278, 0.722]), 36)
    """
    state = _State.from_labels(y, amount, seed)
    state.delete_majority_rows()
    state.relabel_majority_rows()
    state.delete_lowest_values(features)
    return state.result("combined")


def shift(kind: str, y: ArrayLike, features: Any, amount: float, *, seed: Seed = 0) -> Shifted:
    """Apply the shift named ``kind``; ``features`` are ignored by shifts that do not need them.

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
    raise BadOption(f"there is no shift {kind!r}; choose one of {quoted(KINDS)}")


def majority(rates: ArrayLike) -> IndexArray:
    """Positions of the majority classes, largest first.

    They are the smallest group of classes, taken in the order of their rates, whose rates sum to more than one half.

    Examples
    --------
    >>> import baserate as br
    >>> br.shifts.majority([0.2, 0.45, 0.35])
    array([1, 2])
    """
    pi = as_rates(rates, None, np.size(rates))
    order = np.argsort(-pi, kind="stable")
    above = np.cumsum(pi[order]) > 0.5 + 1e-12  # exactly one half does not count, despite rounding
    return order[: int(np.argmax(above)) + 1] if above.any() else order


def misstated(rates: ArrayLike, majority: ArrayLike, error: float) -> FloatArray:
    """Add ``error`` to the rate of each majority class and subtract it in equal parts from the other classes.

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
        If a rate would leave [0, 1], or if a class with a positive rate would get the rate 0.

    Examples
    --------
    >>> import baserate as br
    >>> br.shifts.misstated([0.6, 0.3, 0.1], [0], 0.04).round(3)
    array([0.64, 0.28, 0.08])
    """
    pi = as_rates(rates, None, np.size(rates))
    if not is_number(error) or not abs(error) < 1:
        raise BadOption(f"error must be a number between -1 and 1, not {error!r}")
    positions = np.asarray(majority)
    if positions.dtype.kind not in "iu" or positions.size == 0 or not ((positions >= 0) & (positions < len(pi))).all():
        raise BadOption(f"majority must contain positions of classes, 0 to {len(pi) - 1}, not {majority!r}")
    in_majority = np.isin(np.arange(len(pi)), positions)
    if in_majority.all() and error:
        message = "all classes are majority classes, so there is no class from which the error could be subtracted"
        raise ImpossibleShift(message, NO_MINORITY)
    stated = np.where(in_majority, pi + error, pi - error * in_majority.sum() / max((~in_majority).sum(), 1))
    # Without this, rounding would decide whether 0.08 - 0.08 counts as 0.
    stated[np.abs(stated) < 1e-12] = 0.0
    if stated.min() < 0 or stated.max() > 1 + 1e-12:
        worst = int(np.argmin(np.minimum(stated, 1 - stated)))
        message = f"with an error of {error:+g}, the rate of class {worst} would be {stated[worst]:.4f}"
        raise ImpossibleShift(message, "a rate would leave [0, 1]")
    lost = np.flatnonzero((stated == 0) & (pi > 0))
    if lost.size:
        message = f"with an error of {error:+g}, class {lost[0]} would get the rate 0, although it occurs"
        raise ImpossibleShift(message, "a class that occurs would get the rate 0")
    return np.asarray(stated)


class _State:
    """Rows and labels while shifts are applied to them one after the other."""

    def __init__(self, codes: IndexArray, classes: NDArray[Any], amount: float, rng: np.random.Generator) -> None:
        self.codes, self.classes, self.amount, self.rng = codes, classes, amount, rng
        self.rows: IndexArray = np.arange(len(codes))
        self.counts = np.bincount(codes, minlength=len(classes))
        self.majority = majority(self.counts / len(codes))
        self.minority = np.setdiff1d(np.arange(len(classes)), self.majority)
        self.feature: Any = None
        if not self.minority.size:
            raise ImpossibleShift(f"all of the classes {quoted(classes.tolist())} are majority classes", NO_MINORITY)

    @classmethod
    def from_labels(cls, y: ArrayLike, amount: float, seed: Seed) -> _State:
        labels = np.asarray(y)
        if labels.ndim != 1 or not labels.size:
            raise BadLabels(f"y has shape {labels.shape}; pass one label per row, and at least one row")
        if not is_number(amount) or not 0 < amount < 1:
            raise BadOption(f"amount must be a number between 0 and 1, not {amount!r}")
        missing = next((row for row, label in enumerate(labels.tolist()) if _is_missing(label)), None)
        if missing is not None:
            raise BadLabels(f"the label of row {missing} is missing; drop rows without a label")
        try:
            classes, codes = np.unique(labels, return_inverse=True)
        except TypeError:
            message = "y mixes labels of types that cannot be sorted together, such as 0 and 'a'; use one type"
            raise BadLabels(message) from None
        try:
            rng = np.random.default_rng(seed)
        except (TypeError, ValueError):
            raise BadOption(f"seed must be an integer of at least 0 or a random generator, not {seed!r}") from None
        return cls(codes.astype(np.intp), classes, float(amount), rng)

    def delete_majority_rows(self) -> None:
        in_majority = np.isin(self.codes, self.majority)
        n_minority = int((~in_majority).sum())
        share = in_majority.mean() - self.amount
        if share <= 0:
            message = (
                f"the majority classes hold {in_majority.mean():.3f} of the rows, "
                f"so their share cannot decrease by {self.amount:g}"
            )
            raise ImpossibleShift(message, VANISHES)
        n_kept = round(n_minority * share / (1 - share))  # solves n_kept / (n_kept + n_minority) = share
        kept = self.rng.choice(np.flatnonzero(in_majority), n_kept, replace=False)
        self._keep_rows(np.sort(np.concatenate([kept, np.flatnonzero(~in_majority)])))
        self._check_all_classes_remain()

    def relabel_majority_rows(self) -> None:
        candidates = np.flatnonzero(np.isin(self.codes, self.majority))
        chosen = self.rng.choice(candidates, round(self.amount * len(candidates)), replace=False)
        self.codes = self.codes.copy()
        self.codes[chosen] = self.rng.choice(self.minority, len(chosen))
        self._check_all_classes_remain()

    def delete_lowest_values(self, features: Any) -> None:
        values, names = _numeric_features(features, int(self.counts.sum()))
        smallest = self.majority[-1]
        best = _best_feature(values[self.rows], self.codes == smallest)
        if best is None:
            message = "covariate shift needs a numeric feature that varies, and there is none"
            raise ImpossibleShift(message, "no numeric feature varies")
        members = np.flatnonzero(self.codes == smallest)
        order = np.argsort(values[self.rows[members], best], kind="stable")  # NaN is sorted last
        deleted = members[order[: round(self.amount * len(members))]]
        self.feature = names[best]
        self._keep_rows(np.setdiff1d(np.arange(len(self.codes)), deleted))
        self._check_all_classes_remain()

    def _keep_rows(self, positions: IndexArray) -> None:
        self.rows, self.codes = self.rows[positions], self.codes[positions]

    def _check_all_classes_remain(self) -> None:
        counts = np.bincount(self.codes, minlength=len(self.classes))
        if (counts == 0).any():
            name = self.classes.tolist()[int(np.argmin(counts))]
            raise ImpossibleShift(f"class {quoted_name(name)} would vanish: the shift leaves no rows of it", VANISHES)

    def result(self, kind: str) -> Shifted:
        counts = np.bincount(self.codes, minlength=len(self.classes))
        return Shifted(
            kind,
            self.amount,
            self.rows,
            self.classes[self.codes],
            tuple(self.classes.tolist()),
            counts / counts.sum(),
            self.counts / self.counts.sum(),
            tuple(self.classes[self.majority].tolist()),
            self.feature,
        )


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, NaT or pandas.NA."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # comparisons with pandas.NA have no truth value
        return True


def _numeric_features(features: Any, n_rows: int) -> tuple[FloatArray, list[Any]]:
    """The numeric features as a matrix with NaN for missing values, and their names."""
    if features is None:
        return np.empty((n_rows, 0)), []
    if is_dataframe(features):
        import narwhals as nw
        import narwhals.selectors as ncs

        frame = nw.from_native(features, eager_only=True)
        numeric = list(frame.select(ncs.numeric()).iter_columns())  # not frame[name]: 0 would select a row
        names: list[Any] = [column.name for column in numeric]
        values = np.empty((len(frame), len(numeric)))
        for j, column in enumerate(numeric):
            values[:, j] = column.cast(nw.Float64).to_numpy()
    else:
        try:
            values = np.asarray(features, dtype=np.float64)
        except (TypeError, ValueError):
            message = "an array of features must contain numbers; pass a dataframe to use only its numeric columns"
            raise BadOption(message) from None
        names = list(range(values.shape[1])) if values.ndim == 2 else []
    if values.ndim != 2 or len(values) != n_rows:
        raise BadOption(f"features have shape {values.shape}, but there are {n_rows} labels; pass one row per label")
    return np.where(np.isfinite(values), values, np.nan), names


def _best_feature(values: FloatArray, member: NDArray[np.bool_]) -> int | None:
    """The column with the largest absolute correlation with class membership; None if no column varies."""
    best, largest = None, 0.0
    for j, column in enumerate(values.T):
        known = ~np.isnan(column)
        x, z = column[known], member[known].astype(float)
        if len(x) < 2 or x.min() == x.max():
            continue  # rounding errors of a constant minus its mean would look like a correlation
        x /= np.abs(x).max()  # otherwise squares of large values overflow
        x, z = x - x.mean(), z - z.mean()
        scale = np.sqrt(x @ x) * np.sqrt(z @ z)
        if scale > 0 and abs(x @ z) / scale > largest:
            best, largest = j, abs(x @ z) / scale
    return best
