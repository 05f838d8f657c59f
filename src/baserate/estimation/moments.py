"""A confidence set for the class rates of a batch from means of features, under label shift.

For features g of the predictions, ``mean of g in the batch = sum_c pi_c mu_c`` up to noise, where pi are the realised
rates of the batch and mu_c are the means of g in class c. Given the labels of the batch, the noise has the covariance
matrix ``Omega(pi) = sum_c (pi_c / n + pi_c^2 / n_c) S_c``: the first term is the variation of the batch within classes,
the second that of the validation means. The variation of the class counts themselves does not enter, because the set is
for the realised rates.

More features than rates over-identify them. Whether one vector of rates explains all features is tested (J test); so is
whether these rates are all at least 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baserate.estimation.features import ClassMoments
from baserate.rates.ellipsoids import Ellipsoid, centred_basis
from baserate.support.arrays import BoolArray, FloatArray

_EXTRA_CONFUSIONS = 0.8  # Confusions of each kind that a batch may have in addition to those that are expected.
_MARGIN = 0.8  # Share of the error probability that is used: the noise is not quite normal.
_SIMPLEX_WEIGHT = 0.02
"""Weight of the ball around the simplex in the ellipsoid: it limits what the features leave open.

An ellipsoid contains the part of another one in a ball if its quadratic form is a weighted mean of theirs. The radius
grows by half of this share."""
_TEST_FREEDOM, _TEST_INFLATION = 30.0, 1.1
"""Degrees of freedom of the test, and by what its statistic is divided: features have heavy tails."""
_SHARE_OF_SIGNS = 0.1  # of the level of the test, for rates below 0
_ROUNDING = 1e-12  # An upper bound of the rounding error of mean features, which are between 0 and 1.


class Region(NamedTuple):
    """An ellipsoid of possible rates, and the test of its assumption.

    Attributes
    ----------
    estimate : array of shape (k,)
        The rates of the simplex that fit best.
    centre, covariance, radius : arrays of shape (k,) and (k, k), and float
    p_value : float
    unconstrained : array of shape (k,)
        The rates that fit best if they may be negative; for messages.
    """

    estimate: FloatArray
    centre: FloatArray
    covariance: FloatArray
    radius: float
    p_value: float
    unconstrained: FloatArray


def confidence_region(moments: ClassMoments, n_rows: int, confidence: float) -> Region:
    """The confidence set for the realised rates of a batch of ``n_rows`` rows."""
    from scipy.special import fdtr, fdtri

    k = len(moments.counts)
    fit = _Fit(moments, n_rows)
    freedom = max(fit.freedom, k + 2.0)  # of the noise; a few more than the k - 1 rates
    rest = freedom - k + 2
    level = 1.0 - _MARGIN * (1.0 - confidence)
    limit = (k - 1) * freedom / rest * float(fdtri(k - 1, rest, level))
    centre, covariance, radius = fit.ellipsoid(limit)
    estimate, active = nearest_in_simplex(centre, covariance)
    distance = fit.misfit(estimate) - fit.misfit(fit.unconstrained)
    signs = 1.0
    if active.any():
        n_active = int(active.sum())
        signs = 1.0 - float(fdtr(n_active, max(freedom - n_active + 1, 3.0), max(distance, 0.0) / n_active))
    statistic = fit.over_identification() / _TEST_INFLATION
    few = max(float(np.median(moments.counts)) / 2, 4.0)
    over = 1.0 - float(fdtr(1, min(freedom, few, _TEST_FREEDOM), statistic))
    p_value = min(over / (1 - _SHARE_OF_SIGNS), signs / _SHARE_OF_SIGNS, 1.0)
    # The set must contain the estimate and rates around it, also where the rates that fit best are below 0.
    # The radius is 1 if rates within the simplex fit perfectly.
    needed = Ellipsoid.of(centre, covariance, radius).distance(estimate) if active.any() else 0.0
    radius = max(radius, float(np.hypot(needed, 0.5)))
    return Region(estimate, centre, covariance, radius, p_value, fit.unconstrained)


class _Fit:
    """Generalised least squares for the rates, in coordinates v of ``rates = 1/k + basis v``."""

    def __init__(self, moments: ClassMoments, n_rows: int) -> None:
        k = len(moments.counts)
        self.moments, self.n_rows, self.k = moments, n_rows, k
        self.basis = centred_basis(k)
        self.slopes = self.basis.T @ moments.means[:k] @ self.basis
        self.intercept = self.basis.T @ (moments.batch[:k] - moments.means[:k].mean(axis=1))
        variances = np.zeros(k)
        rates = moments.initial_rates
        for _ in range(2):  # the noise depends on the rates, which are known only roughly at first
            self.noise, self.shares = self._noise(rates, variances)
            self.weights = np.linalg.inv(self.basis.T @ self.noise[:k, :k] @ self.basis)
            self.information = self.slopes.T @ self.weights @ self.slopes
            spread = self.basis @ np.linalg.inv(self.information + 4.0 * np.eye(k - 1)) @ self.basis.T
            variances = np.diag(spread)
            centre, covariance, _ = self.ellipsoid(float(k))
            rates, _ = nearest_in_simplex(centre, covariance)

    def _noise(self, rates: FloatArray, variances: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The covariance matrix of the noise, and what the validation rows of each class contribute to it."""
        n, k = self.n_rows, self.k
        # One row of each class is added, so that a class of estimated rate 0 has some noise.
        of_batch = (n * rates + 1.0) / (n + k) / n
        of_validation = (rates**2 + variances) / self.moments.counts
        noise = np.tensordot(of_batch + of_validation, self.moments.covariances, 1)
        noise += _EXTRA_CONFUSIONS / n**2 * self.moments.between.sum(axis=0)
        # If all predictions are equal, the features differ only by rounding error, which must not be tested.
        return noise + _ROUNDING**2 * np.eye(len(noise)), of_validation

    @property
    def freedom(self) -> float:
        """Effective degrees of freedom of the estimated noise (Welch and Satterthwaite)."""
        within = self.basis.T @ self.moments.covariances[:, : self.k, : self.k] @ self.basis
        sizes = np.einsum("ij,cji->c", self.weights, within) * self.shares
        return float((self.k - 1.0) ** 2 / max((sizes**2 / (self.moments.counts + 4.0)).sum(), 1e-12))

    @property
    def unconstrained(self) -> FloatArray:
        """The rates that fit best if they may be negative."""
        v = np.linalg.lstsq(self.slopes, self.intercept, rcond=1e-10)[0]
        return np.asarray(1.0 / self.k + self.basis @ v)

    def misfit(self, rates: FloatArray) -> float:
        """Squared distance of the features of the batch from those that the rates explain, in units of noise."""
        rest = self.intercept - self.slopes @ (self.basis.T @ rates)
        return float(rest @ self.weights @ rest)

    def ellipsoid(self, limit: float) -> tuple[FloatArray, FloatArray, float]:
        """Centre, covariance and radius of an ellipsoid with all rates of the simplex whose misfit is allowed."""
        share, ball = (1 - _SIMPLEX_WEIGHT) / limit, _SIMPLEX_WEIGHT / (1.0 - 1.0 / self.k)
        form = share * self.information + ball * np.eye(self.k - 1)
        inverse = np.linalg.inv(form)
        linear = share * (self.slopes.T @ self.weights @ self.intercept)
        v = inverse @ linear
        rest = 1.0 - share * float(self.intercept @ self.weights @ self.intercept) + float(linear @ v)
        centre = 1.0 / self.k + self.basis @ v
        return centre, self.basis @ inverse @ self.basis.T, float(np.sqrt(max(rest, 0.0)))

    def over_identification(self) -> float:
        """The square of what the confidence of the predictions leaves unexplained, in units of its noise."""
        k, moments = self.k, self.moments
        loading = np.linalg.lstsq(moments.means[:k].T, moments.means[k], rcond=1e-8)[0]
        combination = np.append(-loading, 1.0)
        unexplained = float(combination @ moments.batch)
        # The features of a perfect classifier have two values, so that this combination has no noise but rounding.
        sizes = np.abs(combination)
        rounding = _ROUNDING * float(sizes @ np.abs(self.noise) @ sizes)
        rounding += (_ROUNDING * float(sizes @ moments.batch)) ** 2
        return unexplained**2 / max(float(combination @ self.noise @ combination), rounding)


def nearest_in_simplex(centre: FloatArray, covariance: FloatArray) -> tuple[FloatArray, BoolArray]:
    """The rates of the simplex that are nearest to the centre in the metric of an ellipsoid; which of them are 0.

    The multipliers of rates that are 0 are found by an active-set method, which adds the most negative rate, and drops
    a rate whose multiplier is negative.
    """
    active, rates = centre < 0, centre
    for _ in range(4 * len(centre) if active.any() else 0):
        at = np.flatnonzero(active)
        multipliers = np.linalg.lstsq(covariance[np.ix_(at, at)], -centre[at], rcond=1e-12)[0]
        if len(at) > 1 and (multipliers < 0).any():
            active[at[multipliers.argmin()]] = False
            continue
        rates = centre + covariance[:, at] @ multipliers
        below = (rates < -1e-12) & ~active
        if not below.any():
            break
        active[int(np.where(below, rates, 0.0).argmin())] = True
    rates = np.where(active, 0.0, np.maximum(rates, 0.0))
    return rates / rates.sum(), active
