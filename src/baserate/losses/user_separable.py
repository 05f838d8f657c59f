"""A separable loss from functions of a user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from baserate.errors import BadLoss
from baserate.losses.base import NONNEGATIVE, REAL, Domain, Loss
from baserate.losses.check import check_functions
from baserate.losses.registry import register
from baserate.losses.separable import ScalarFunction, SeparableLoss, invert
from baserate.support.arrays import FloatArray


@register
class Separable(SeparableLoss):
    """A proper loss from your own convex function of one probability.

    Parameters
    ----------
    f, df, ddf : callable
        A strictly convex function and its first and second derivative, vectorised over NumPy arrays. They must be
        defined on [0, 1] (``df(0)`` may be -inf), or on all real numbers with ``domain=REAL``.
    df_inverse : callable, optional
        The inverse of ``df``. By default ``df`` is inverted numerically, which is slower.
    domain : Domain, default ``NONNEGATIVE``
        ``REAL`` if ``f`` is also convex below 0. Then ``bounded=False`` allows negative entries.
    label : str, default "separable"
        The name of this loss in reports.

    Raises
    ------
    BadLoss
        If ``f`` is not strictly convex, or ``df`` or ``ddf`` is not its derivative. The message names a point where
        the check fails.

    Examples
    --------
    An exponential loss, in which large probabilities matter most:

    >>> import numpy as np, baserate as br
    >>> loss = br.losses.Separable(np.exp, np.exp, np.exp, np.log)
    >>> br.adjust([[0.5, 0.5], [0.9, 0.1]], [0.5, 0.5], loss=loss).probs.round(3)
    array([[0.296, 0.704],
           [0.704, 0.296]])
    """

    name = "separable"
    checks_itself = True

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
        check_functions(self, self.functions)
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
        assert function is not None  # only df_inverse may be None, and inverse_link checks that first
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.asarray(function(q), dtype=np.float64)

    def _invert(self, x: FloatArray) -> FloatArray:
        """Solve ``df(q) = x`` for each element."""
        low, high = np.zeros_like(x), np.ones_like(x)
        if self.domain != NONNEGATIVE:
            low = self._expand(-high, lambda q: self.df(q) > x)
        high = self._expand(high, lambda q: self.df(q) < x)
        if self.domain == NONNEGATIVE:
            # Exactly 0, not a tiny number: these entries must not count as part of the support.
            high = np.where(x <= self.df(np.zeros(1)), 0.0, high)
        return invert(self.df, self.ddf, x, low, high)

    @staticmethod
    def _expand(edge: FloatArray, too_narrow: Callable[[FloatArray], Any]) -> FloatArray:
        """Double the ends of brackets until they are wide enough."""
        for _ in range(60):
            narrow = too_narrow(edge)
            if not narrow.any():
                break
            edge = np.where(narrow, 2.0 * edge, edge)
        return edge

    def params(self) -> Mapping[str, Any]:
        return {"label": self.label}

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self:
        raise BadLoss(
            f"the loss {params.get('label')!r} was created from Python functions, which are not saved in the file; "
            "pass the loss when loading: br.load(path, loss=...)"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Separable) and self.functions == other.functions

    def __hash__(self) -> int:
        return hash(self.functions)

    @classmethod
    def examples(cls) -> list[tuple[Loss, int]]:
        def cosh(q: FloatArray) -> FloatArray:
            return np.cosh(q)

        def entropy(q: FloatArray) -> FloatArray:
            return np.multiply(q, np.log(q), where=q > 0, out=np.zeros_like(q))

        hyperbolic = cls(cosh, np.sinh, np.cosh, np.arcsinh, domain=REAL, label="cosh")
        numeric = cls(cosh, np.sinh, np.cosh, domain=REAL, label="cosh, inverted numerically")
        log_loss = cls(entropy, lambda q: np.log(q) + 1, lambda q: 1 / q, lambda x: np.exp(x - 1), label="entropy")
        return [(hyperbolic, 3), (numeric, 4), (log_loss, 3)]
