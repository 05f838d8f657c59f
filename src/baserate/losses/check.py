"""Checks of a user's generator, each error with a point where it fails."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from baserate.errors import BadLoss
from baserate.losses.base import REAL, Loss
from baserate.losses.separable import Separable
from baserate.support.arrays import FloatArray

_INSIDE = np.array([1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99, 0.999])
_OUTSIDE = np.array([-3.0, -1.0, -0.5, -0.1, 1.1, 1.5, 2.0, 4.0])
_AGREES = 1e-4  # Relative; a formula that is wrong is wrong by far more, one that is right by far less.


def check_functions(loss: Separable) -> None:
    """Refuse functions of one variable that do not define a proper loss."""
    q = np.sort(np.concatenate([_INSIDE, _OUTSIDE])) if loss.domain == REAL else _INSIDE
    _check_vectorised(loss, q)
    _check_ends(loss)
    df, ddf = loss.df(q), loss.ddf(q)
    rising = np.diff(df)
    if (rising <= 0).any():
        i = int(np.argmax(rising <= 0))
        raise BadLoss(
            f"f is not strictly convex: df is {df[i]:.6g} at q = {q[i]:g} and {df[i + 1]:.6g} at q = {q[i + 1]:g}"
        )
    if (ddf <= 0).any():
        i = int(np.argmax(ddf <= 0))
        raise BadLoss(f"f is not strictly convex: ddf is {ddf[i]:.6g} at q = {q[i]:g}, and must be above 0")
    _compare("df", "the derivative of f", df, *_slope(loss.f, q), q)
    _compare("ddf", "the derivative of df", ddf, *_slope(loss.df, q), q)
    _compare("df_inverse", "the inverse of df", loss.inverse_link(df), q, 0.0, q, of="df(q)")


def _check_ends(loss: Separable) -> None:
    for end in (0.0, 1.0):
        value = float(loss.f(np.array([end]))[0])
        if not np.isfinite(value):
            raise BadLoss(
                f"f is {value} at q = {end:g}; it must be finite there, or every prediction has infinite loss"
            )
    if np.isnan(loss.df(np.zeros(1))).any():
        raise BadLoss("df is nan at q = 0; it may be -inf there, but must have a limit")


def _slope(function: Callable[[FloatArray], FloatArray], q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A central difference, and how far rounding may have moved it."""
    h = 1e-4 * np.minimum(np.abs(q), np.where(q < 1, np.abs(1 - q), 1.0))
    above, below = function(q + h), function(q - h)
    return (above - below) / (2 * h), 8 * np.finfo(np.float64).eps * (np.abs(above) + np.abs(below)) / h


def _check_vectorised(loss: Separable, q: FloatArray) -> None:
    for word, function in zip(("f", "df", "ddf", "df_inverse"), loss.functions, strict=True):
        if function is None and word == "df_inverse":
            continue
        if not callable(function):
            raise BadLoss(f"{word} must be a function of an array, not {function!r}")
        points = loss.df(q) if word == "df_inverse" else q
        with np.errstate(all="ignore"):
            try:
                values = np.asarray(function(points), dtype=np.float64)
                function(points[:1] * 0.0) if word != "df_inverse" else None
            except Exception as error:
                raise BadLoss(f"{word} failed on an array of numbers from 0 to 1: {error}") from error
        if values.shape != q.shape:
            raise BadLoss(f"{word} must answer element by element, but gave shape {values.shape} for {q.shape}")
        if not np.isfinite(values).all():
            i = int(np.argmax(~np.isfinite(values)))
            raise BadLoss(f"{word} is {values[i]} at {points[i]:g}; it must be finite inside its domain {loss.domain}")


def _compare(
    what: str,
    claim: str,
    given: FloatArray,
    found: FloatArray,
    noise: FloatArray | float,
    q: FloatArray,
    of: str = "q",
) -> None:
    wrong = np.abs(given - found) > _AGREES * (np.abs(found) + np.abs(given)) + noise
    if wrong.any():
        i = int(np.argmax(wrong))
        at = f"q = {q[i]:g}" if of == "q" else f"{of}, q = {q[i]:g}"
        raise BadLoss(f"{what} is not {claim}: at {at} it gives {given[i]:.6g}, but {found[i]:.6g} is right")


def check_loss(loss: Loss, n_classes: int) -> None:
    """Refuse a generator that does not define a proper loss on so many classes.

    Built-in losses only have to fit the number of classes; others are put to the test once.
    """
    uniform = np.full((1, n_classes), 1.0 / n_classes)
    if loss.builtin or isinstance(loss, Separable):
        loss.phi(uniform)
        return
    passed: set[int] = vars(loss).setdefault("_passed_checks", set())
    if n_classes not in passed:
        _check_generator(loss, n_classes)
        passed.add(n_classes)


def _check_generator(loss: Loss, k: int) -> None:
    rng = np.random.default_rng(0)
    p = np.concatenate([np.full((1, k), 1.0 / k), rng.dirichlet(np.ones(k), 30), rng.dirichlet(np.full(k, 0.3), 10)])
    p = 0.999 * p + 0.001 / k
    gradient = _called(loss, "gradient", loss.gradient(p), p.shape)
    _called(loss, "phi", loss.phi(p), (len(p),))
    # Along random directions that stay on the simplex, since that is where the generator lives.
    along = rng.normal(size=p.shape)
    along = (along - along.mean(axis=1, keepdims=True)) * (1e-5 * p.min(axis=1, keepdims=True))
    slope, rise = np.einsum("ij,ij->i", gradient, along), 0.5 * (loss.phi(p + along) - loss.phi(p - along))
    _refuse(
        np.abs(slope - rise) > _AGREES * (np.abs(slope) + np.abs(rise)) + 1e-14,
        p,
        loss,
        "gradient is not the derivative of phi",
    )
    other = np.roll(p, 1, axis=0)
    excess = loss.phi(other) - loss.phi(p) - np.einsum("ij,ij->i", other - p, gradient)
    _refuse(excess <= 0, p, loss, "phi is not strictly convex")
    back = _called(loss, "row_map", loss.row_map(loss.link(p)), p.shape)
    _refuse(np.abs(back - p).max(axis=1) > 1e-6, p, loss, "row_map does not undo link")
    _check_jacobian(loss, p, rng)


def _check_jacobian(loss: Loss, p: FloatArray, rng: np.random.Generator) -> None:
    x, k = loss.link(p), p.shape[1]
    step = 1e-6 * rng.normal(size=k)
    change = 0.5 * (loss.row_map(x + step) - loss.row_map(x - step))
    for i in range(len(p)):
        jacobian = _called(loss, "jacobian", loss.jacobian(p[i : i + 1], np.ones(1)), (k, k))
        wrong = np.abs(jacobian @ step - change[i]).max() > 1e-3 * np.abs(change[i]).max() + 1e-12
        _refuse(
            np.arange(len(p)) == i if wrong else np.zeros(len(p), dtype=np.bool_),
            p,
            loss,
            "jacobian is not the derivative of row_map",
        )


def _called(loss: Loss, method: str, value: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    if np.shape(value) != shape or not np.isfinite(value).all():
        raise BadLoss(f"{loss!r}: {method} must give finite numbers of shape {shape}, but gave {value!r}")
    return np.asarray(value, dtype=np.float64)


def _refuse(wrong: np.ndarray[tuple[int], np.dtype[np.bool_]], p: FloatArray, loss: Loss, claim: str) -> None:
    if wrong.any():
        point = np.array2string(p[int(np.argmax(wrong))], precision=4, separator=", ", threshold=12)
        raise BadLoss(f"{loss!r}: {claim}, for instance at p = {point}")
