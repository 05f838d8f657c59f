"""Real predictions of published models, in the folder that the environment variable BASERATE_DATA names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support import COMMON_LOSSES, Array, assert_certified, loss_id

import baserate as br
from baserate.losses import Loss


def prediction_sets(folder: Path) -> Iterator[tuple[str, Array, NDArray[np.intp]]]:
    """Yield the name, the predictions and the labels of each set."""
    files = sorted((folder / "predictions").glob("*.npz"))
    assert files, f"no .npz file in {folder / 'predictions'}"
    for file in files:
        arrays = np.load(file)
        for name in (name for name in arrays.files if name.startswith("p__")):
            yield f"{file.stem} {name}", arrays[name], arrays["y"].astype(np.intp)


def assert_falls(loss: Loss, raw: Array, y: NDArray[np.intp], result: br.Adjustment, name: str) -> None:
    """Check that the loss on the labels falls by at least the guaranteed amount."""
    p, targets = raw.astype(np.float64), np.eye(raw.shape[1])[y]
    p /= p.sum(axis=1, keepdims=True)
    before, after = loss.divergence(p, targets), loss.divergence(result.probs, targets)
    finite = np.isfinite(before)  # rows that give their true class probability 0 keep an infinite loss
    if finite.all():
        assert before.mean() - after.mean() >= result.certificate.loss_reduction - 1e-9, name
    else:
        assert np.isinf(after[~finite]).all()


@pytest.mark.parametrize("loss", COMMON_LOSSES, ids=loss_id)
def test_true_rates_lower_the_loss_by_the_guaranteed_amount(loss: Loss, real_predictions: Path) -> None:
    for name, raw, y in prediction_sets(real_predictions):
        rates = np.bincount(y, minlength=raw.shape[1]) / len(y)
        result = br.adjust(raw, rates, loss=loss, normalize=True)
        assert_certified(result)
        assert_falls(loss, raw, y, result, name)


@pytest.mark.parametrize("loss", COMMON_LOSSES, ids=loss_id)
def test_rate_sets_lower_the_loss_by_the_guaranteed_amount_in_few_passes(loss: Loss, real_predictions: Path) -> None:
    rng = np.random.default_rng(0)
    for name, raw, y in prediction_sets(real_predictions):
        rates = np.bincount(y, minlength=raw.shape[1]) / len(y)
        passes = br.adjust(raw, rates, loss=loss, normalize=True).n_passes
        for known in (
            br.Rates.between(rates * 0.9, np.minimum(rates * 1.1, 1)),
            br.Rates.between(np.maximum(rates - 0.002, 0), np.minimum(rates + 0.002, 1)),
            br.Rates.near(rates, 0.01),
            br.Rates.near(rates, 0.05, metric="chi2"),
            br.Rates.from_counts(rng.multinomial(500, rates)),
            br.Rates.of_population(rates),
        ):
            result = br.adjust(raw, known, loss=loss, normalize=True)
            assert_certified(result)
            assert result.n_passes <= 2 * passes, (name, known)
            if result.certificate.holds_for(rates):  # by chance, a survey may exclude the true rates
                assert_falls(loss, raw, y, result, name)
