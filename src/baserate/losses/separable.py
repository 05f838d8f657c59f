"""Generators that are a sum over classes of one function: the shared row map, and the user's own functions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from baserate.errors import BadLoss
from baserate.losses.base import NONNEGATIVE, Domain, Loss, centred_outer
from baserate.losses.registry import register
from baserate.losses.roots import rising_root
from baserate.support.arrays import FloatArray, IndexArray

ScalarFunction = Callable[[FloatArray], FloatArray]

_STIFFEST = 1e100  # Largest 1/f'' that is told from infinity.


class SeparableLoss(Loss):
    """``phi(q) = sum_j f(q_j)`` for a strictly convex ``f``.

    The row map is ``a_j = inverse_link(x_j + theta)``, cut at 0, with ``theta`` such that the row sums to 1.
    """

    @abstractmethod
    def f(self, q: FloatArray) -> FloatArray:
        """The generator of one coordinate, element by element."""

    @abstractmethod
    def df(self, q: FloatArray) -> FloatArray:
        """Its first derivative."""

    @abstractmethod
    def ddf(self, q: FloatArray) -> FloatArray:
        """Its second derivative."""

    @abstractmethod
    def inverse_link(self, x: FloatArray) -> FloatArray:
        """The inverse of ``link``, element by element; what lies below ``link(0)`` goes to 0 or below."""

    @property
    def flat_at_zero(self) -> bool:
        with np.errstate(all="ignore"):
            return self.domain == NONNEGATIVE and float(self.ddf(np.zeros(1))[0]) == 0.0

    def phi(self, q: FloatArray) -> FloatArray:
        return self.f(q).sum(axis=1)

    def gradient(self, q: FloatArray) -> FloatArray:
        return self.df(q)

    def row_map(self, x: FloatArray, *, bounded: bool = True) -> FloatArray:
        # The unknown is the largest entry s of the row, not theta: s lies between 1/k and 1 whatever the
        # scale of x, and only differences of x enter.
        top = x.max(axis=1, keepdims=True)
        gap = top - x
        low, high = np.full_like(top, 1.0 / x.shape[1]), np.ones_like(top)
        if not bounded:
            high = self._bracket_above(gap, high)

        def excess(s: FloatArray, rows: IndexArray) -> tuple[FloatArray, FloatArray]:
            a = self._entries(self.link(s) - gap[rows], bounded)
            return _sum(a) - 1.0, self.ddf(s) * _sum(self._stretch(a, bounded))

        s, _, _ = rising_root(excess, low, high, _rounding(x))
        a = self._entries(self.link(s) - gap, bounded)
        lost = np.abs(a.sum(axis=1) - 1.0) > 1e-13
        if lost.any():
            rounding = 2e-15 * (np.abs(top) + np.abs(self.link(s)) + s * self.ddf(s))
            a[lost] = self._recover(x[lost] + (self.link(s) - top)[lost], rounding[lost], bounded)
        return a / _sum(a)

    def _recover(self, y: FloatArray, width: FloatArray, bounded: bool) -> FloatArray:
        """Rows in which the last digit of ``theta`` moves small entries visibly: solve for more digits of it.

        Happens where f'' vanishes at 0. The small entries of ``y`` are differences that were formed without
        error, so a correction far below the rounding of ``theta``, ``width``, still counts. Where even the last digit
        of that is too coarse, the answer lies between the entries of two neighbouring numbers.
        """
        for _ in range(60):
            short = (_sum(self._entries(y - width, bounded)) > 1.0) | (_sum(self._entries(y + width, bounded)) < 1.0)
            if not short.any():
                break
            width = np.where(short, 2.0 * width, width)

        def excess(delta: FloatArray, rows: IndexArray) -> tuple[FloatArray, FloatArray]:
            a = self._entries(y[rows] + delta, bounded)
            return _sum(a) - 1.0, _sum(self._stretch(a, bounded))

        _, low, high = rising_root(excess, -width, width, _rounding(y))
        below, above = self._entries(y + low, bounded), self._entries(y + high, bounded)
        rise = _sum(above) - _sum(below)
        share = np.divide(1.0 - _sum(below), rise, out=np.zeros_like(rise), where=rise > 0)
        return below + np.clip(share, 0.0, 1.0) * (above - below)

    def jacobian(self, a: FloatArray, weights: FloatArray, *, bounded: bool = True) -> FloatArray:
        return centred_outer(self._stretch(a, bounded), weights)

    def _stretch(self, a: FloatArray, bounded: bool) -> FloatArray:
        """1/f'' on the support: how far an entry moves per unit of its dual point."""
        with np.errstate(divide="ignore", over="ignore"):
            h = np.minimum(1.0 / self.ddf(a), _STIFFEST)
        return np.where(a > 0, h, 0.0) if bounded else h

    def _entries(self, y: FloatArray, bounded: bool) -> FloatArray:
        a = self.inverse_link(y)
        return np.maximum(a, 0.0) if bounded else a

    def _bracket_above(self, gap: FloatArray, high: FloatArray) -> FloatArray:
        """Without bounds other entries may be negative, so the largest may pass 1."""
        for _ in range(200):
            short = _sum(self._entries(self.link(high) - gap, False)) < 1.0
            if not short.any():
                return high
            high = np.where(short, 2.0 * high, high)
        raise BadLoss(f"{self!r}: the entries of a row cannot sum to 1 however large they get")


@register
class Separable(SeparableLoss):
    """A proper loss from your own function of one probability.

    Parameters
    ----------
    f, df, ddf : callable
        A strictly convex function and its first and second derivative, vectorised over NumPy arrays. They
        must work on [0, 1] (``df(0)`` may be -inf), or on all reals if ``domain`` says so.
    df_inverse : callable, optional
        The inverse of ``df``. Without it ``df`` is inverted numerically, which is slower.
    domain : Domain, default ``NONNEGATIVE``
        ``REAL`` if ``f`` is convex below 0 as well, which ``bounded=False`` can then use.
    label : str, default "separable"
        What reports call this loss.

    Raises
    ------
    BadLoss
        If ``f`` is not strictly convex or the derivatives are not its derivatives, with a point where.

    Examples
    --------
    An exponential loss, which cares most about large probabilities:

    >>> import numpy as np, baserate as br
    >>> loss = br.losses.Separable(np.exp, np.exp, np.exp, np.log)
    >>> br.adjust([[0.5, 0.5], [0.9, 0.1]], [0.5, 0.5], loss=loss).probs.round(3)
    array([[0.296, 0.704],
           [0.704, 0.296]])
    """

    name = "separable"

    def __init__(
        self,
        f: ScalarFunction,
        df: ScalarFunction,
        ddf: ScalarFunction,
        df_inverse: ScalarFunction | None = None,
        *,
        domain: Domain = NONNEGATIVE,
        label: str = "separable",
    ) -> None:
        self.functions = (f, df, ddf, df_inverse)
        self.domain = domain
        self.label = label
        from baserate.losses.check import check_functions  # it needs this class

        check_functions(self)
        with np.errstate(all="ignore"):
            self.pins_zeros = domain == NONNEGATIVE and bool(np.isneginf(df(np.zeros(1))[0]))

    def f(self, q: FloatArray) -> FloatArray:
        return self._call(0, q)

    def df(self, q: FloatArray) -> FloatArray:
        return self._call(1, q)

    def ddf(self, q: FloatArray) -> FloatArray:
        return self._call(2, q)

    def inverse_link(self, x: FloatArray) -> FloatArray:
        if self.domain == NONNEGATIVE:
            x = np.maximum(x, self.df(np.zeros(1)))
        if self.functions[3] is not None:
            return self._call(3, x)
        return self._invert(x)

    def _call(self, which: int, q: FloatArray) -> FloatArray:
        function = self.functions[which]
        assert function is not None  # only df_inverse may be absent, and its caller asks first
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.asarray(function(q), dtype=np.float64)

    def _invert(self, x: FloatArray) -> FloatArray:
        """Solve ``df(q) = x`` element by element."""
        low, high = np.zeros_like(x), np.ones_like(x)
        if self.domain != NONNEGATIVE:
            low = self._expand(-high, lambda q: self.df(q) > x)
        high = self._expand(high, lambda q: self.df(q) < x)
        if self.domain == NONNEGATIVE:
            high = np.where(
                x <= self.df(np.zeros(1)), 0.0, high
            )  # exactly: what is not above the edge is off the support
        return inverted(self.df, self.ddf, x, low, high)

    @staticmethod
    def _expand(edge: FloatArray, short: Callable[[FloatArray], Any]) -> FloatArray:
        for _ in range(60):
            still = short(edge)
            if not still.any():
                break
            edge = np.where(still, 2.0 * edge, edge)
        return edge

    def params(self) -> Mapping[str, Any]:
        return {"label": self.label}

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self:
        raise BadLoss(
            f"the loss {params.get('label')!r} was made from Python functions, which a file cannot hold; "
            "pass it again: br.load(path, loss=...)"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Separable) and self.functions == other.functions

    def __hash__(self) -> int:
        return hash(self.functions)

    @classmethod
    def examples(cls) -> list[tuple[Loss, int]]:
        from baserate.losses.base import REAL

        def cosh(q: FloatArray) -> FloatArray:
            return np.cosh(q)

        def entropy(q: FloatArray) -> FloatArray:
            return np.multiply(q, np.log(q), where=q > 0, out=np.zeros_like(q))

        hyperbolic = cls(cosh, np.sinh, np.cosh, np.arcsinh, domain=REAL, label="cosh")
        numeric = cls(cosh, np.sinh, np.cosh, domain=REAL, label="cosh, inverted numerically")
        reverse = cls(entropy, lambda q: np.log(q) + 1, lambda q: 1 / q, lambda x: np.exp(x - 1), label="entropy")
        return [(hyperbolic, 3), (numeric, 4), (reverse, 3)]


def inverted(df: ScalarFunction, ddf: ScalarFunction, x: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Solve ``df(q) = x`` between ``low`` and ``high``, element by element."""
    wanted = x.reshape(-1, 1)
    q, _, _ = rising_root(
        lambda q, rows: (df(q) - wanted[rows], ddf(q)),
        low.reshape(-1, 1),
        high.reshape(-1, 1),
        tolerance=2e-16 * np.abs(wanted),
    )
    return q.reshape(x.shape)


def _sum(a: FloatArray) -> FloatArray:
    return a.sum(axis=1, keepdims=True)


def _rounding(x: FloatArray) -> float:
    """What summing a row may be off by."""
    return 1e-16 * (4.0 + float(np.sqrt(x.shape[1])))
