"""Test of the assumption of prior adjustment: only the class rates have changed, and the model is calibrated.

If the assumption is true, the prior-adjusted rows ``q`` are the class probabilities in the target population, and their
mean differs from the class rates ``pi`` only by chance. How large this chance difference is depends on what the rates
are:

- rates of these rows: the number of rows of each class is fixed, and rows are drawn within each class;
- rates of a population: the rows are a random sample from it;
- counts of a survey: the rows and the survey are random samples from the same population.

The difference is drawn many times under the assumption, and the p-value is the share of draws that are at least as
large. A chi-square test with the sample covariance of ``q`` would reject too often: a rare class that happens to be
missing from the batch has no variance at all in it.

**Rows under the assumption.** A population with other rates ``b`` has the density ``<b, q / pi>`` relative to one with
the rates ``pi``. The most likely distribution of rows with mean ``pi`` gives row i the probability
``w_i / <b, q_i / pi>``, where ``b`` maximises the likelihood (empirical likelihood). If a class is so rare in the batch
that its ``b`` is 0, these probabilities leave a part of ``pi`` over. It is given to rows that are certain of that
class, which the batch might have contained but does not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baserate.rates import Rates, SurveyCounts
from baserate.rates.sets import ROUNDING
from baserate.support.arrays import FloatArray, IndexArray

_DRAWS = 499  # Simulated batches; one more makes 500, of which 5 % is a whole number.
_FEWEST_DRAWS = 99
_MAX_DRAWN_ROWS = 1_000_000  # Rows of all simulated batches together, as long as there are the fewest draws.
_MAX_ROWS = 20_000  # Above, the difference is close to normal unless a class has a rate below about 0.0005.
_MAX_WORK = 5e8  # n k^2, the work of a step towards the most likely distribution.
_MAX_SURVEYED = 5_000  # Of many rows, those that are adjusted to the estimate of each simulated survey.
_SMALLEST_RATE = 1e-9  # Of a class with the rate 0 that is predicted nevertheless.
_RIDGE = 0.01  # Share of the labels' covariance that is added, so that the covariance is not singular.


class PremiseTest(NamedTuple):
    """Result of the test.

    Attributes
    ----------
    p_value : float
    difference : array of shape (k,)
        Mean of the prior-adjusted rows, minus the class rates.
    deviation : array of shape (k,)
        Standard deviation of ``difference`` if the assumption is true.
    """

    p_value: float
    difference: FloatArray
    deviation: FloatArray

    @property
    def largest(self) -> int:
        """The class with the largest difference."""
        return largest_entry(self.difference)


class _Atoms(NamedTuple):
    """A distribution on rows, in which each class has its stated rate: rows, and their probabilities."""

    rows: FloatArray
    probability: FloatArray


def check_premise(
    q: FloatArray, weights: FloatArray, known: Rates, *, prior_adjusted: bool = True, n_draws: int | None = None
) -> PremiseTest:
    """Test whether the mean of prior-adjusted rows differs from the class rates by chance only.

    Parameters
    ----------
    q : array of shape (n, k)
        Prior-adjusted rows.
    weights : array of shape (n,)
        Weights that sum to 1. The effective number of rows (Kish) replaces n, which is an approximation.
    known : Rates
        The class rates to which the rows were adjusted; exact rates, rates of a population, or counts of a survey.
    prior_adjusted : bool, default True
        False if ``q`` are predictions that were not adjusted, so that they do not depend on the counts of a survey.
    n_draws : int, optional
        Number of simulated batches; by default 499, and fewer for many rows.

    Notes
    -----
    The random numbers have a fixed seed, so that equal calls give equal results.
    """
    stated, n_rows = known.estimate(), effective_rows(weights)
    kept = np.flatnonzero((stated > 0) | (weights @ q > 0))
    q, pi = q[:, kept], np.maximum(stated[kept], _SMALLEST_RATE)
    mean = weights @ q
    difference = mean - stated[kept]
    follow = prior_adjusted
    if not follow and isinstance(known, SurveyCounts):
        cases = int(known.counts.sum())
        pi = (cases * pi + n_rows * mean) / (cases + n_rows)  # the best estimate if both are right
    if n_rows > _MAX_ROWS or len(q) * len(pi) ** 2 > _MAX_WORK:
        draws = _normal_differences(q, weights, pi, known, n_rows, n_draws or _DRAWS, follow=follow)
    else:
        atoms = _atoms(q, weights, pi)
        n_draws = n_draws or number_of_draws(n_rows)
        draws = _drawn_differences(atoms, pi, known, n_rows, n_draws, follow=follow)
    p_value = monte_carlo_p_value(difference, draws, _RIDGE * multinomial_covariance(pi, n_rows))
    deviation = np.sqrt((draws**2).mean(axis=0))
    full = np.zeros((2, len(stated)))
    full[:, kept] = difference, deviation
    return PremiseTest(p_value, full[0], full[1])


def largest_entry(values: FloatArray) -> int:
    """Position of the largest absolute value; of equal ones the last, up to rounding."""
    size = np.abs(values)
    return int(np.flatnonzero(size >= size.max() - ROUNDING)[-1])


def effective_rows(weights: FloatArray) -> int:
    """Kish's effective number of rows, rounded down as in a certificate."""
    return max(int((1.0 + 1e-9) / float(weights @ weights)), 1)


def number_of_draws(n_rows: int) -> int:
    """How many batches of this size to simulate: one less than a multiple of 100."""
    affordable = _MAX_DRAWN_ROWS // n_rows // 100 * 100 - 1
    return max(min(_DRAWS, affordable), _FEWEST_DRAWS)


def multinomial_covariance(pi: FloatArray, n: int) -> FloatArray:
    """Covariance of the class rates of ``n`` cases from a population with the rates ``pi``."""
    return np.asarray((np.diag(pi) - np.outer(pi, pi)) / n)


def monte_carlo_p_value(difference: FloatArray, draws: FloatArray, ridge: FloatArray) -> float:
    """Share of the draws, the difference included, that lie at least as far from 0 in the norm of their covariance."""
    # The difference counts as one of the draws, also in the covariance: if it is one, the level is exact.
    together = np.vstack([difference, draws])
    together = np.where(np.abs(together) <= ROUNDING, 0.0, together)
    covariance = together.T @ together / len(together) + ridge
    metric = np.linalg.pinv(covariance, rcond=1e-12, hermitian=True)
    size = np.einsum("ij,jl,il->i", together, metric, together)
    return float((size >= size[0] * (1 - 1e-9)).mean())


def _atoms(q: FloatArray, weights: FloatArray, pi: FloatArray) -> _Atoms:
    """The most likely distribution of rows with mean ``pi``."""
    ratios = q / pi
    probability = weights / (ratios @ most_likely_rates(ratios, weights))
    unseen = np.maximum(pi - probability @ q, 0.0)
    probability = np.concatenate([probability, unseen])
    return _Atoms(np.vstack([q, np.eye(len(pi))]), probability / probability.sum())


def most_likely_rates(ratios: FloatArray, weights: FloatArray, max_steps: int = 50) -> FloatArray:
    """The ``b`` in the simplex that maximises ``sum_i w_i log <b, ratios_i>``, by Newton's method.

    At the solution no entry of the gradient is above 1, and those of positive rates are 1.
    """
    b = np.full(ratios.shape[1], 1.0 / ratios.shape[1])
    value = float(weights @ np.log(ratios @ b))
    for _ in range(max_steps):
        density = ratios @ b
        gradient = ratios.T @ (weights / density)
        if gradient.max() <= 1 + 1e-8:
            break
        step = _newton_target(ratios, weights, density, gradient) - b
        best, found = value, b * gradient  # a step of the EM algorithm, which always climbs
        for length in 0.5 ** np.arange(8):
            with np.errstate(divide="ignore"):
                climbed = float(weights @ np.log(ratios @ (b + length * step)))
            if climbed > best:
                best, found = climbed, b + length * step
                break
        b, value = found, max(best, float(weights @ np.log(ratios @ found)))
    return np.asarray(b)


def _newton_target(ratios: FloatArray, weights: FloatArray, density: FloatArray, gradient: FloatArray) -> FloatArray:
    """The rates, not negative, that maximise the quadratic model of the log-likelihood minus ``sum(b)``."""
    from scipy.optimize import nnls

    scaled = ratios * (np.sqrt(weights) / density)[:, None]
    curvature = scaled.T @ scaled
    curvature.flat[:: len(gradient) + 1] += 1e-9 * np.trace(curvature) / len(gradient)
    root = np.linalg.cholesky(curvature)
    # The curvature times b is the gradient, so the linear term of the model is 2 * gradient - 1.
    target = nnls(root.T, np.linalg.solve(root, 2 * gradient - 1))[0]
    return np.asarray(target / target.sum())


def _drawn_differences(
    atoms: _Atoms, pi: FloatArray, known: Rates, n_rows: int, n_draws: int, *, follow: bool
) -> FloatArray:
    """Means of rows minus class rates in simulated batches, shape (n_draws, k).

    With ``follow``, the rows of a batch are adjusted to the estimate of its simulated survey.
    """
    rng = np.random.default_rng(0)
    if known.kind == "exact":
        classes = classes_of_rows(rng, pi, n_rows, n_draws)
        of_class = (atoms.rows * atoms.probability[:, None]).T
        return np.asarray(draw_rows(rng, of_class, classes) @ atoms.rows / n_rows - pi)
    counts = draw_rows(rng, atoms.probability[None], np.zeros((n_draws, n_rows), dtype=np.intp))
    if not isinstance(known, SurveyCounts):
        return np.asarray(counts @ atoms.rows / n_rows - pi)
    stated = survey_estimates(rng.multinomial(int(known.counts.sum()), pi, size=n_draws))
    if not follow:
        return np.asarray(counts @ atoms.rows / n_rows - stated)
    ratios = stated / pi
    normalised = counts / (ratios @ atoms.rows.T)
    return np.asarray(ratios * (normalised @ atoms.rows) / n_rows - stated)


def survey_estimates(counts: FloatArray | IndexArray) -> FloatArray:
    """The estimates of class rates that ``SurveyCounts.estimate`` makes of the counts in each row."""
    return np.asarray((counts + 0.5) / (counts.sum(axis=1, keepdims=True) + 0.5 * counts.shape[1]))


def classes_of_rows(rng: np.random.Generator, pi: FloatArray, n_rows: int, n_draws: int) -> IndexArray:
    """The class of each row of each batch, such that every batch has the class rates ``pi`` as closely as it can."""
    whole = np.floor(n_rows * pi + 1e-6).astype(np.intp)
    fixed = np.broadcast_to(np.repeat(np.arange(len(pi)), whole), (n_draws, int(whole.sum())))
    rest = np.maximum(n_rows * pi - whole, 0.0)
    n_rest = n_rows - fixed.shape[1]
    if n_rest <= 0:
        return np.asarray(fixed)
    return np.hstack([fixed, rng.choice(len(pi), size=(n_draws, n_rest), p=rest / rest.sum())])


def draw_rows(rng: np.random.Generator, of_class: FloatArray, classes: IndexArray) -> FloatArray:
    """How often each atom is drawn in each batch.

    Parameters
    ----------
    of_class : array of shape (c, m)
        Probabilities of the m atoms in each class, up to a factor per class.
    classes : array of shape (n_draws, n)
        The class of each row of each batch.

    Returns
    -------
    array of shape (n_draws, m)
    """
    n_atoms, n_draws = of_class.shape[1], len(classes)
    steps = np.cumsum(of_class, axis=1)
    steps = steps / steps[:, -1:] + np.arange(len(of_class))[:, None]
    # One sorted array for all classes: that of class j covers the numbers from j to j + 1.
    uniform = rng.random(classes.shape) * (1 - 1e-12) + classes
    drawn = np.minimum(np.searchsorted(steps.ravel(), uniform), steps.size - 1) % n_atoms
    flat = (drawn + n_atoms * np.arange(n_draws)[:, None]).ravel()
    return np.bincount(flat, minlength=n_draws * n_atoms).reshape(n_draws, n_atoms).astype(np.float64)


def _normal_differences(
    q: FloatArray, weights: FloatArray, pi: FloatArray, known: Rates, n_rows: int, n_draws: int, *, follow: bool
) -> FloatArray:
    """The same for many rows, whose mean is close to normal."""
    rng = np.random.default_rng(0)
    mean, second = weights @ q, (q * weights[:, None]).T @ q
    if known.certainty is None:  # variation of the rows within the classes
        covariance = second - second / np.maximum(mean, 1e-300) @ second
    else:
        covariance = second - np.outer(mean, mean)
    values, axes = np.linalg.eigh(covariance / n_rows)
    draws = rng.normal(size=(n_draws, len(pi))) * np.sqrt(np.maximum(values, 0.0)) @ axes.T
    if isinstance(known, SurveyCounts):
        stated = survey_estimates(rng.multinomial(int(known.counts.sum()), pi, size=n_draws))
        ratios, rows = stated / pi, q[:: len(q) // _MAX_SURVEYED + 1]
        draws -= stated - pi
        if follow:
            # Not to first order in the error of the survey: it may be much larger than that of the mean of the rows.
            draws += ratios * ((1.0 / (ratios @ rows.T)) @ rows) / len(rows) - rows.mean(axis=0)
    return np.asarray(draws)
