"""Predictions that other people's models made; their folder comes from the environment variable BASERATE_DATA."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import assert_certified, loss_id

import baserate as br
from baserate.losses import Loss


@pytest.mark.parametrize(
    "loss",
    [
        br.losses.Log(),
        br.losses.Brier(),
        br.losses.Spherical(),
        br.losses.Power(1.5),
        br.losses.RankedProbability(),
    ],
    ids=loss_id,
)
def test_true_rates_lower_the_loss_by_the_guaranteed_amount(loss: Loss, real_predictions: Path) -> None:
    files = sorted((real_predictions / "predictions").glob("*.npz"))
    assert files, f"no .npz file in {real_predictions / 'predictions'}"
    for file in files:
        arrays = np.load(file)
        y = arrays["y"].astype(np.intp)
        for name in (name for name in arrays.files if name.startswith("p__")):
            raw = arrays[name]
            rates = np.bincount(y, minlength=raw.shape[1]) / len(y)
            result = br.adjust(raw, rates, loss=loss, normalize=True)
            assert_certified(result)
            p = raw.astype(np.float64)
            p /= p.sum(axis=1, keepdims=True)
            before, after = (
                loss.divergence(p, np.eye(p.shape[1])[y]),
                loss.divergence(result.probs, np.eye(p.shape[1])[y]),
            )
            known = np.isfinite(before)  # rows that give their true class probability 0 stay at infinite loss
            if known.all():
                assert before.mean() - after.mean() >= result.certificate.loss_reduction - 1e-9, (file.name, name)
            else:
                assert np.isinf(after[~known]).all()
