"""Checks of a user-defined loss. Each error message names a point where the check fails."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

import numpy as np

from baserate.errors import BadLoss
from baserate.losses.base import MAX_SCALE, REAL, Loss
from baserate.losses.separable import ScalarFunction, SeparableLoss
from baserate.support.arrays import FloatArray

_INSIDE = np.array([1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99, 0.999])
_OUTSIDE = np.array([-3.0, -1.0, -0.5, -0.1, 1.1, 1.5, 2.0, 4.0])
_TOLERANCE = 1e-4  # Relative. Wrong formulas differ by much more than this, correct ones by much less.

_PASSED: dict[int, set[int]] = {}
"""The numbers of classes for which a loss passed its checks, by the id of the loss, as long as the loss exists."""


def check_functions(loss: SeparableLoss, functions: Sequence[ScalarFunction | None]) -> None:
    """Raise an error if the functions of a separable loss do not define a proper loss."""
    q = np.sort(np.concatenate([_INSIDE, _OUTSIDE])) if loss.domain == REAL else _INSIDE
    _check_vectorised(loss, functions, q)
    _check_ends(loss)
    df, ddf = loss.df(q), loss.ddf(q)
    _check_scale(np.concatenate([loss.f(np.append(q, [0.0, 1.0])), df, ddf]), ddf)
    not_increasing = np.diff(df) <= 0
    if not_increasing.any():
        i = int(np.argmax(not_increasing))
        raise BadLoss(
            f"f is not strictly convex, because df does not increase: it is {df[i]:.6g} at q = {q[i]:g} and "
            f"{df[i + 1]:.6g} at q = {q[i + 1]:g}"
        )
    if (ddf <= 0).any():
        i = int(np.argmax(ddf <= 0))
        raise BadLoss(f"f is not strictly convex: ddf is {ddf[i]:.6g} at q = {q[i]:g}, but must be above 0")
    _compare("df", "the derivative of f", df, *_slope(loss.f, q), q)
    _compare("ddf", "the derivative of df", ddf, *_slope(loss.df, q), q)
    _compare("df_inverse", "the inverse of df", loss.inverse_link(df), q, 0.0, q, argument="df(q)")


def _check_ends(loss: SeparableLoss) -> None:
    for end in (0.0, 1.0):
        value = float(loss.f(np.array([end]))[0])
        if not np.isfinite(value):
            raise BadLoss(
                f"f is {value} at q = {end:g}, but must be finite there; otherwise every prediction has infinite loss"
            )
    if np.isnan(loss.df(np.zeros(1))).any():
        raise BadLoss("df is nan at q = 0, but must be a number or -inf there")


def _check_scale(values: FloatArray, ddf: FloatArray) -> None:
    if np.abs(values).max() > MAX_SCALE or 0 < ddf.max() < 1 / MAX_SCALE:
        raise BadLoss(
            f"f and its derivatives have values up to {np.abs(values).max():.3g}, and ddf is at most {ddf.max():.3g}; "
            f"values above {MAX_SCALE:g} or below {1 / MAX_SCALE:g} cannot be computed with full precision. If you "
            "multiply f by a constant, the adjusted predictions stay the same"
        )


def _slope(function: Callable[[FloatArray], FloatArray], q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A central difference, and a bound of its rounding error."""
    h = 1e-4 * np.minimum(np.abs(q), np.where(q < 1, np.abs(1 - q), 1.0))
    above, below = function(q + h), function(q - h)
    return (above - below) / (2 * h), 8 * np.finfo(np.float64).eps * (np.abs(above) + np.abs(below)) / h


def _check_vectorised(loss: SeparableLoss, functions: Sequence[ScalarFunction | None], q: FloatArray) -> None:
    for name, function in zip(("f", "df", "ddf", "df_inverse"), functions, strict=True):
        if function is None and name == "df_inverse":
            continue
        if not callable(function):
            raise BadLoss(f"{name} must be a function of an array, not {function!r}")
        points = loss.df(q) if name == "df_inverse" else q
        with np.errstate(all="ignore"):
            try:
                values = np.asarray(function(points), dtype=np.float64)
                function(points[:1] * 0.0) if name != "df_inverse" else None
            except Exception as error:
                raise BadLoss(f"{name} failed on an array of numbers from 0 to 1: {error}") from error
        if values.shape != q.shape:
            raise BadLoss(f"{name} must return one value per element: it returned shape {values.shape} for {q.shape}")
        if not np.isfinite(values).all():
            i = int(np.argmax(~np.isfinite(values)))
            raise BadLoss(f"{name} is {values[i]} at {points[i]:g}, but must be finite inside its domain {loss.domain}")


def _compare(
    name: str,
    expected_role: str,
    given: FloatArray,
    expected: FloatArray,
    rounding: FloatArray | float,
    q: FloatArray,
    argument: str = "q",
) -> None:
    """Raise an error if the values of a function differ from the expected ones."""
    wrong = np.abs(given - expected) > _TOLERANCE * (np.abs(expected) + np.abs(given)) + rounding
    if wrong.any():
        i = int(np.argmax(wrong))
        at = f"q = {q[i]:g}" if argument == "q" else f"{argument} with q = {q[i]:g}"
        raise BadLoss(f"{name} is not {expected_role}: at {at} it is {given[i]:.6g}, but should be {expected[i]:.6g}")


def check_loss(loss: Loss, n_classes: int) -> None:
    """Raise an error if a loss is not a proper loss for this number of classes.

    Built-in losses are only checked for the number of classes. Other losses are checked numerically, once per instance.
    """
    loss.check_n_classes(n_classes)
    if loss.builtin or loss.checks_itself:
        return
    if n_classes not in _PASSED.get(id(loss), ()):
        _check_generator(loss, n_classes)
        _remember(loss, n_classes)


def _remember(loss: Loss, n_classes: int) -> None:
    # Not a WeakKeyDictionary: it compares losses by their parameters, and a wrong loss may equal a correct one.
    if id(loss) not in _PASSED:
        _PASSED[id(loss)] = set()
        weakref.finalize(loss, _PASSED.pop, id(loss), None).atexit = False
    _PASSED[id(loss)].add(n_classes)


def _check_generator(loss: Loss, k: int) -> None:
    rng = np.random.default_rng(0)
    p = np.concatenate([np.full((1, k), 1.0 / k), rng.dirichlet(np.ones(k), 30), rng.dirichlet(np.full(k, 0.3), 10)])
    p = 0.999 * p + 0.001 / k
    gradient = _check_output(loss, "gradient", loss.gradient(p), p.shape)
    _check_output(loss, "phi", loss.phi(p), (len(p),))
    # Only directions within the simplex are tested, because the generator matters only there.
    direction = rng.normal(size=p.shape)
    direction = (direction - direction.mean(axis=1, keepdims=True)) * (1e-5 * p.min(axis=1, keepdims=True))
    slope, rise = np.einsum("ij,ij->i", gradient, direction), 0.5 * (loss.phi(p + direction) - loss.phi(p - direction))
    _raise_if(
        np.abs(slope - rise) > _TOLERANCE * (np.abs(slope) + np.abs(rise)) + 1e-14,
        p,
        loss,
        "gradient is not the derivative of phi",
    )
    other = np.roll(p, 1, axis=0)
    excess = loss.phi(other) - loss.phi(p) - np.einsum("ij,ij->i", other - p, gradient)
    _raise_if(excess <= 0, p, loss, "phi is not strictly convex")
    back = _check_output(loss, "row_map", loss.row_map(loss.link(p)), p.shape)
    _raise_if(np.abs(back - p).max(axis=1) > 1e-6, p, loss, "row_map is not the inverse of link")
    _check_jacobian(loss, p, rng)


def _check_jacobian(loss: Loss, p: FloatArray, rng: np.random.Generator) -> None:
    x, k = loss.link(p), p.shape[1]
    step = 1e-6 * rng.normal(size=k)
    change = 0.5 * (loss.row_map(x + step) - loss.row_map(x - step))
    for i in range(len(p)):
        jacobian = _check_output(loss, "jacobian", loss.jacobian(p[i : i + 1], np.ones(1)), (k, k))
        wrong = np.abs(jacobian @ step - change[i]).max() > 1e-3 * np.abs(change[i]).max() + 1e-12
        _raise_if(
            np.arange(len(p)) == i if wrong else np.zeros(len(p), dtype=np.bool_),
            p,
            loss,
            "jacobian is not the derivative of row_map",
        )


def _check_output(loss: Loss, method: str, value: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    if np.shape(value) != shape or not np.isfinite(value).all():
        raise BadLoss(f"{loss!r}: {method} must return finite numbers of shape {shape}, but returned {value!r}")
    return np.asarray(value, dtype=np.float64)


def _raise_if(wrong: np.ndarray[tuple[int], np.dtype[np.bool_]], p: FloatArray, loss: Loss, problem: str) -> None:
    """Raise an error with the first prediction for which a check failed."""
    if wrong.any():
        point = np.array2string(p[int(np.argmax(wrong))], precision=4, separator=", ", threshold=12)
        raise BadLoss(f"{loss!r}: {problem}, for example at p = {point}")
