"""What is known about the class rates, in formulas of the fuzzer's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, hypergeom

from fuzzing.formulas import Array


@dataclass(frozen=True, eq=False)
class RateSet:
    """The rates of the simplex between bounds, and possibly in a ball ``sum scale (t - centre)^2 <= radius^2``."""

    low: Array
    high: Array
    centre: Array | None = None
    scale: Array | None = None
    radius: float = 0.0

    @property
    def is_point(self) -> bool:
        return bool((self.low == self.high).all())

    @property
    def is_polytope(self) -> bool:
        """Whether there are bounds only."""
        return self.centre is None

    def bounds(self) -> tuple[Array, Array]:
        """The smallest and the largest rate of each class."""
        unit = np.eye(len(self.low))
        return np.array([self.least(one) for one in unit]), -np.array([self.least(-one) for one in unit])

    def constraints(self, t: Any) -> list[Any]:
        """That rates belong to the set, for CVXPY; their sum is 1."""
        import cvxpy as cp

        found = [t >= self.low, t <= self.high]
        if self.centre is not None and self.scale is not None:
            found.append(cp.norm(cp.multiply(t - self.centre, np.sqrt(self.scale))) <= self.radius)
        return found

    def smaller(self) -> RateSet | None:
        """A part of the set that is away from its boundary; None if there is none. The set must not be a point."""
        found = RateSet(self.low + 1e-7, self.high - 1e-7)
        if self.centre is not None:
            found = replace(self, radius=self.radius - 1e-6)
        return None if (found.low > found.high).any() or found.radius < 0 else found

    def permuted(self, order: NDArray[np.intp]) -> RateSet:
        """The same set with the classes in another order."""
        centre = None if self.centre is None else self.centre[order]
        scale = None if self.scale is None else self.scale[order]
        return RateSet(self.low[order], self.high[order], centre, scale, self.radius)

    def code(self) -> str:
        """The argument of the library for this set, as Python."""
        if self.centre is not None and self.scale is not None:
            euclidean = (self.scale == 1).all() and (self.high > 0).all()  # with "chi2", rates of 0 stay 0
            metric = "euclidean" if euclidean else "chi2"
            return f"br.Rates.near({self.centre.tolist()!r}, {self.radius!r}, metric={metric!r})"
        low, high = self.low.tolist(), self.high.tolist()
        return repr(low) if self.is_point else f"br.Rates.between({low!r}, {high!r})"

    def distance(self, t: Array) -> float:
        """How far a rate misses its bound, or how far the rates must at least move, each of them, to reach the ball."""
        outside = float(np.maximum(self.low - t, t - self.high).max())
        if self.centre is not None and self.scale is not None:
            length = float(np.sqrt(self.scale @ (t - self.centre) ** 2))
            outside = max(outside, (length - self.radius) / float(np.sqrt(self.scale.sum())))
        return max(outside, 0.0)

    def least(self, price: Array) -> float:
        """A lower bound, correct up to rounding, of ``<price, t>`` over the set. Classes of rate 0 may cost -inf."""
        possible = self.high > 0
        price, low, high = price[possible], self.low[possible], self.high[possible]
        order = np.argsort(price)
        remaining = np.clip(1.0 - low.sum() - np.concatenate([[0.0], np.cumsum((high - low)[order])[:-1]]), 0.0, None)
        in_box = float(price @ low + price[order] @ np.minimum(remaining, (high - low)[order]))
        if self.centre is None or self.scale is None:
            return in_box
        return max(in_box, self._least_in_ball(price, possible))

    def _least_in_ball(self, price: Array, possible: Any) -> float:
        """By Lagrange: the least of ``<price, t> + (|t - centre|^2 - radius^2) / (2 u)`` is a bound for every u > 0."""
        assert self.centre is not None
        assert self.scale is not None
        centre, scale = self.centre[possible], self.scale[possible]
        least = float(price.min())
        price = price - least  # exactly 0 where it is least, so that a large u leaves the digits of these classes
        spread = float(price.max())
        if spread == 0:
            return least

        def bound(u: float) -> tuple[float, float]:
            t = _onto_simplex(centre - u * price / scale, scale)
            excess = float(scale @ (t - centre) ** 2) - self.radius**2
            return float(price @ t) + excess / (2 * u), excess

        low, high = 1e-12 / spread, 1e12 / spread
        if bound(high)[1] < 0:
            return -np.inf  # the ball does not bind
        for _ in range(60):
            u = float(np.sqrt(low * high))
            low, high = (u, high) if bound(u)[1] < 0 else (low, u)
        return least + max(bound(low)[0], bound(high)[0])


def _onto_simplex(v: Array, scale: Array) -> Array:
    """The nearest point of the simplex, in the norm with this scale: ``max(0, v + theta / scale)``."""
    kinks = -v * scale
    order = np.argsort(kinks)
    spread, total = np.cumsum(1.0 / scale[order]), np.cumsum(v[order])
    theta = (1.0 - total) / spread  # if the first m classes in this order are positive
    m = int(np.flatnonzero(theta > kinks[order]).max(initial=0))
    return np.maximum(v + theta[m] / scale, 0.0)


def between(low: Array, high: Array) -> RateSet:
    """A box."""
    return RateSet(low, high)


def exact(rates: Array) -> RateSet:
    """A point."""
    return RateSet(rates, rates)


def near(centre: Array, radius: float, metric: str) -> RateSet:
    """A ball; with the metric "chi2" a class of rate 0 keeps it."""
    k = len(centre)
    if metric == "euclidean":
        return RateSet(np.zeros(k), np.ones(k), centre, np.ones(k), radius)
    scale = np.divide(1.0, centre, out=np.ones(k), where=centre > 0)
    return RateSet(np.zeros(k), (centre > 0).astype(np.float64), centre, scale, radius)


def from_counts(counts: Array, confidence: float, batch_size: int) -> RateSet:
    """Prediction intervals for the counts of a batch, by enumeration of all counts."""
    m = int(counts.sum())
    tail = (1.0 - confidence) / (2 * (1 if len(counts) == 2 else len(counts)))

    def largest(x: int) -> int:
        y = np.arange(batch_size + 1)
        return int(y[hypergeom.cdf(x, m + batch_size, x + y, m) > tail].max())

    high = np.array([largest(int(x)) for x in counts]) / batch_size
    low = 1.0 - np.array([largest(m - int(x)) for x in counts]) / batch_size
    return RateSet(np.minimum(low, counts / m), np.maximum(high, counts / m))


def of_population(rates: Array, confidence: float, batch_size: int) -> RateSet:
    """Intervals for the counts of a batch from a population, by enumeration of all counts."""
    tail = (1.0 - confidence) / (2 * (1 if len(rates) == 2 else len(rates)))
    count = np.arange(batch_size + 1)
    below = binom.cdf(count[:, None], batch_size, rates)
    above = binom.sf(count[:, None], batch_size, rates)
    low = (below >= tail).argmax(axis=0) / batch_size
    high = (above <= tail).argmax(axis=0) / batch_size
    return RateSet(np.minimum(low, rates), np.maximum(high, rates))
