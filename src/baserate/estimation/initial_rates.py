"""A first estimate of the class rates of a batch: maximum likelihood for label shift (Saerens, Latinne, Decaestecker).

It only chooses the features of the moments, which are valid for any choice, so it need not be exact. Steps of the EM
algorithm alone would need many passes over the rows; Newton's steps follow where the likelihood is concave enough.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from baserate.estimation.batch import Batch
from baserate.estimation.calibration import calibrated
from baserate.support.arrays import FloatArray

_PASSES = 12
_CLOSE = 1e-4  # Rates that change by less are close enough.
_LONGEST_STEP = 1.0  # of log rates


class PosteriorSums(NamedTuple):
    """Sums of re-weighted posteriors, and of their products."""

    sums: FloatArray
    products: FloatArray


def estimate_initial_rates(batch: Batch, theta: FloatArray, validation_rates: FloatArray) -> FloatArray:
    """Estimated rates, with as many pseudo-rows of the validation rates as there are classes."""
    k, n = len(validation_rates), batch.n_rows
    pseudo = float(k)
    rates = validation_rates
    for _ in range(_PASSES):
        found = batch.sum(partial(_posteriors, theta, np.log(rates / validation_rates)))
        new = (found.sums + pseudo * validation_rates) / (n + pseudo)
        newton = _newton(rates, new, found, n + pseudo)
        new = new if newton is None else newton
        change = float(np.abs(new - rates).max())
        rates = new
        if change < _CLOSE:
            break
    return rates


def _posteriors(theta: FloatArray, offset: FloatArray, logs: FloatArray) -> PosteriorSums:
    g = calibrated(logs, theta, offset)
    return PosteriorSums(np.ones(len(g)) @ g, g.T @ g)


def _newton(rates: FloatArray, em: FloatArray, found: PosteriorSums, total: float) -> FloatArray | None:
    """Newton's step in log rates, or None where the curvature has the wrong sign or the step is too long."""
    spread = np.diag(rates) - np.outer(rates, rates)
    curvature = total * spread - (np.diag(found.sums) - found.products)
    lifted = curvature + total * np.outer(rates, rates) + 1e-9 * total * np.eye(len(rates))
    try:
        root = np.linalg.cholesky(lifted)
    except np.linalg.LinAlgError:
        return None
    step = np.linalg.solve(root.T, np.linalg.solve(root, total * (em - rates)))
    if np.ptp(step) > _LONGEST_STEP:
        return None
    new = rates * np.exp(step - step.max())
    return np.asarray(new / new.sum())
