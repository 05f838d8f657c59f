"""Whether stated class rates contradict labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baserate.analysis.premise import effective_rows
from baserate.inputs.validation import class_label
from baserate.rates import Rates
from baserate.rates.sets import ROUNDING
from baserate.support.arrays import FloatArray, IndexArray

LEVEL = 0.01
"""A note is made if the labels would be this improbable."""

_MAX_DRAWS = 20_000
_MAX_VALUES = 4_000_000  # Random numbers; with many classes there are fewer draws.


class LabelCheck(NamedTuple):
    """The result of a test.

    Attributes
    ----------
    p_value : float
        Probability of labels that are at least as far from the rates, if the rows are a random sample of a population
        with these rates, or with those of the rate set that are nearest to the labels.
    nearest : array of shape (k,)
        These rates.
    """

    p_value: float
    nearest: FloatArray


def check_against_labels(known: Rates, label_rates: FloatArray, n_rows: int, seed: int = 0) -> LabelCheck:
    """Test stated rates against the rates of labels, by a Monte Carlo test with Pearson's chi-square statistic.

    Parameters
    ----------
    known : Rates
    label_rates : array of shape (k,)
    n_rows : int
        Number of rows; the effective number if they have weights or groups.
    """
    rate_set = known.rate_set(n_rows)
    if rate_set.distance(label_rates) <= ROUNDING:
        return LabelCheck(1.0, label_rates)
    nearest = known.estimate() if known.kind == "population" else rate_set.nearest(label_rates)
    impossible = (nearest <= 0) & (label_rates > ROUNDING)
    if impossible.any():
        return LabelCheck(0.0, nearest)
    n_draws = int(np.clip(_MAX_VALUES // len(nearest), 999, _MAX_DRAWS))
    drawn = np.random.default_rng(seed).multinomial(n_rows, nearest / nearest.sum(), size=n_draws) / n_rows
    scale = np.where(nearest > 0, nearest, 1.0)
    statistic = ((drawn - nearest) ** 2 / scale).sum(axis=1)
    observed = ((label_rates - nearest) ** 2 / scale).sum()
    return LabelCheck(float(1 + (statistic >= observed * (1 - 1e-9)).sum()) / (1 + n_draws), nearest)


def independent_rows(targets: FloatArray, weights: FloatArray, groups: IndexArray | None) -> int:
    """The number of independent rows whose label rates vary as much as those of these rows.

    For weights it is Kish's effective number. For groups it follows from the mean design effect of the classes (Rao and
    Scott, 1981).
    """
    n_rows = effective_rows(weights)
    if groups is not None:
        rates = weights @ targets
        residuals = weights[:, None] * (targets - rates)
        sums = np.stack([np.bincount(groups, column) for column in residuals.T])
        n_groups = sums.shape[1]
        between = (sums**2).sum() * n_groups / max(n_groups - 1, 1)
        independent = float((rates * (1.0 - rates)).sum())
        n_rows = min(n_rows, max(int(independent / between * (1 + 1e-9)), 1)) if between > 0 else n_rows
    return n_rows


def contradiction(known: Rates, label_rates: FloatArray, n_rows: int) -> str | None:
    """A note on the class with the largest difference, if the rates contradict the labels; else None."""
    found = check_against_labels(known, label_rates, n_rows)
    if found.p_value >= LEVEL:
        return None
    j = int(np.abs(label_rates - found.nearest).argmax())
    how = "p = 0" if found.p_value == 0 else f"p = {found.p_value:.1g}"
    stated = "is stated as" if known.kind in ("exact", "population") else "is at best"
    return (
        f"the stated rates contradict the labels ({how}, multinomial test): the rate of "
        f"{class_label(known.classes, j)} {stated} {found.nearest[j]:.4g}, but {label_rates[j]:.4g} of the labels have "
        "this class; check the rates and the order of the classes"
    )
