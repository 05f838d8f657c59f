"""Whether class rates agree with the predictions, and with validation data; what a disagreement may cost.

Two tests, both by simulation:

- :func:`check_rates` supposes that the model is calibrated **in the population of these rows**: the labels are drawn
  from the predictions. Then the rates of the batch are known up to chance. A true change of the class rates since
  training contradicts this as much as wrong rates do, and unlabelled rows alone cannot tell the two apart.
- :func:`check_label_shift` supposes that **only the class rates** have changed since the validation data. It does not
  need a calibrated model. A true change of the class rates passes, and wrong rates do not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baserate.analysis.premise import (
    check_premise,
    classes_of_rows,
    draw_rows,
    effective_rows,
    largest_entry,
    monte_carlo_p_value,
    multinomial_covariance,
    number_of_draws,
    survey_estimates,
)
from baserate.losses.base import Loss
from baserate.rates import Rates, SurveyCounts
from baserate.support.arrays import FloatArray, IndexArray

_MAX_DRAWN_VALUES = 5e7  # Above, the rates of simulated labels are drawn from a normal distribution.
_RIDGE = 0.01  # As in the premise test.
_MAX_ROWS = 20_000  # Rows of a simulated batch and of the validation data; more are not needed to tell rates apart.
_SIGMAS = 3.0  # Half the width of the interval around the rates that the predictions expect.


class RatesCheck(NamedTuple):
    """Result of comparing class rates with predictions.

    Attributes
    ----------
    p_value : float
    expected : array of shape (k,)
        The rates that the predictions expect: their mean.
    stated : array of shape (k,)
        The rates, or for a set its member nearest to ``expected``.
    deviation : array of shape (k,)
        Standard deviation of ``stated - expected`` by chance alone.
    """

    p_value: float
    expected: FloatArray
    stated: FloatArray
    deviation: FloatArray

    @property
    def largest(self) -> int:
        """The class with the largest difference."""
        return largest_entry(self.stated - self.expected)


class LabelShiftCheck(NamedTuple):
    """Result of comparing class rates with validation data.

    Attributes
    ----------
    p_value : float
        Of the hypothesis that only the class rates have changed, and that the stated rates are right.
    log_odds : float
        Log-likelihood of these rows under the stated rates, minus that under the rates of the validation data.
    """

    p_value: float
    log_odds: float


def check_rates(p: FloatArray, weights: FloatArray, known: Rates) -> RatesCheck:
    """Test whether rates are compatible with predictions that are calibrated in the population of these rows.

    Parameters
    ----------
    p : array of shape (n, k)
    weights : array of shape (n,)
        Weights that sum to 1.
    known : Rates
        For bounds and balls the nearest member is tested. For population rates and surveys the sampling
        variation of the rows, and of the survey, is allowed for.
    """
    expected = weights @ p
    if known.kind in ("counts", "population"):  # estimated rates and draws are a set, as bounds are
        found = check_premise(p, weights, known, prior_adjusted=False)
        return RatesCheck(found.p_value, expected, known.estimate(), found.deviation)
    draws = _label_rates(p, weights) - expected
    deviation = np.sqrt((draws**2).mean(axis=0))
    if known.kind == "exact":
        stated = known.estimate()
        ridge = _RIDGE * multinomial_covariance(expected, effective_rows(weights))
        p_value = monte_carlo_p_value(stated - expected, draws, ridge)
        return RatesCheck(p_value, expected, stated, deviation)
    rate_set = known.rate_set(None)
    scale = np.asarray(1.0 / np.maximum(deviation, 1e-9) ** 2)
    stated = rate_set.nearest(expected, scale)
    differences = np.vstack([stated - expected, draws])
    size = rate_set.region.squared_lengths(differences, scale)
    # The true rates, if in the set, are at least as far away as its nearest member, so this is conservative.
    return RatesCheck(float((size >= size[0] * (1 - 1e-9)).mean()), expected, stated, deviation)


def _label_rates(p: FloatArray, weights: FloatArray) -> FloatArray:
    """Class rates of simulated labels that are drawn from the rows, shape (n_draws, k)."""
    rng, n_draws = np.random.default_rng(0), number_of_draws(len(p))
    if p.size * n_draws > _MAX_DRAWN_VALUES:
        products = (p * (weights**2)[:, None]).T @ p
        np.fill_diagonal(products, 0.0)
        covariance = np.diag(products.sum(axis=1)) - products
        values, axes = np.linalg.eigh(covariance)
        normal = rng.normal(size=(max(n_draws, 499), p.shape[1]))
        return np.asarray(weights @ p + normal * np.sqrt(np.maximum(values, 0.0)) @ axes.T)
    uniform = rng.random((n_draws, len(p)))
    up_to = [(uniform < bound) @ weights for bound in np.cumsum(p, axis=1).T[:-1]]
    return np.diff(np.column_stack([np.zeros(n_draws), *up_to, np.ones(n_draws)]), axis=1)


def check_label_shift(
    p: FloatArray, weights: FloatArray, known: Rates, p_val: FloatArray, y_val: IndexArray
) -> LabelShiftCheck:
    """Test whether only the class rates have changed since the validation data, to the stated rates.

    If so, the mean prediction of these rows is the mean of the predictions within each class of the validation data,
    weighted by the stated rates. Simulated batches and simulated validation data are drawn from the validation data,
    class by class.

    Parameters
    ----------
    p : array of shape (n, k)
    weights : array of shape (n,)
    known : Rates
        Exact rates, rates of a population, or counts of a survey.
    p_val : array of shape (m, k)
        Predictions of the validation data.
    y_val : array of shape (m,)
        Their classes as column numbers; every class with a rate above 0 occurs.
    """
    step = len(y_val) // _MAX_ROWS + 1
    p_val, y_val = p_val[::step], y_val[::step]
    rng, k, n_rows = np.random.default_rng(0), p.shape[1], min(effective_rows(weights), _MAX_ROWS)
    n_draws, rates = number_of_draws(max(n_rows, len(p_val))), known.estimate()
    members, old = np.eye(k)[y_val].T, np.bincount(y_val, minlength=k) / len(y_val)
    stated = np.tile(rates, (n_draws, 1))
    if isinstance(known, SurveyCounts):
        stated = survey_estimates(rng.multinomial(int(known.counts.sum()), rates, size=n_draws))
    if known.kind == "exact":
        classes = classes_of_rows(rng, rates, n_rows, n_draws)
    else:
        classes = rng.choice(k, size=(n_draws, n_rows), p=rates)
    seen = members.any(axis=1)
    columns = np.cumsum(seen) - 1  # classes that do not occur have no atoms
    batches = draw_rows(rng, members[seen], columns[classes])
    repeated = draw_rows(rng, members[seen], np.tile(columns[y_val], (n_draws, 1)))
    per_row = stated / np.maximum(old, 1e-300) / len(y_val)
    draws = batches @ p_val / n_rows - (repeated * per_row[:, y_val]) @ p_val

    def difference(assumed: FloatArray) -> FloatArray:
        return np.asarray(weights @ p - (assumed / np.maximum(old, 1e-300) / len(y_val))[y_val] @ p_val)

    ridge = _RIDGE * multinomial_covariance(weights @ p, n_rows)
    metric = np.linalg.pinv(draws.T @ draws / n_draws + ridge, rcond=1e-12, hermitian=True)
    sizes = [float(d @ metric @ d) for d in (difference(old), difference(rates))]
    return LabelShiftCheck(monte_carlo_p_value(difference(rates), draws, ridge), 0.5 * (sizes[0] - sizes[1]))


def expected_rise(loss: Loss, p: FloatArray, a: FloatArray, weights: FloatArray) -> float:
    """Expected rise of the mean loss from ``p`` to ``a`` if the labels are drawn from ``p``; NaN if it is undefined."""
    if (a < loss.domain.low).any():
        return float("nan")
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(weights @ loss.divergence(a, p))


def may_be_exact(known: Rates, n_rows: int, *, weighted: bool) -> bool:
    """Whether exact rates can be those of this many rows: whole numbers of rows, up to the digits that were stated."""
    if known.kind != "exact" or weighted:
        return True
    rates = known.estimate()
    digits = next((d for d in range(8) if np.abs(rates.round(d) - rates).max() < 1e-7), 8)
    rounding = n_rows * (0.5 * 10.0**-digits + 1e-7) + 1e-6
    return bool(np.abs(n_rows * rates - np.round(n_rows * rates)).max() <= rounding)


def rates_between(known: Rates, other: FloatArray, p: FloatArray, weights: FloatArray, batch_size: int) -> Rates:
    """Bounds that contain the stated rates, and other rates with the variation of the labels of these rows."""
    low, high = known.bounds(batch_size)
    margin = _SIGMAS * np.sqrt((weights**2) @ (p * (1 - p)))
    low = np.clip(np.minimum(low, other - margin), 0.0, 1.0)
    high = np.clip(np.maximum(high, other + margin), 0.0, 1.0)
    return Rates.between(low.tolist(), high.tolist(), classes=known.classes)
