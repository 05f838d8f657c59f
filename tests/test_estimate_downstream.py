"""The simulation of what estimated rates do to the loss: its point estimates, its samples and its summary are right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tool_support import ROOT, load_tool


@pytest.fixture(scope="module")
def tool() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        yield load_tool("estimate_downstream")


def population(tool: Any, n: int = 20_000) -> Any:
    """Calibrated predictions of three classes with equal rates."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n)
    scores = rng.normal(size=(n, 3)) + 2.0 * np.eye(3)[y]
    p = np.exp(2.0 * scores)
    return tool.Population(p / p.sum(axis=1, keepdims=True), y)


def test_point_estimates_find_the_rates_under_label_shift(tool: Any) -> None:
    sample = population(tool).draw(5000, 20_000, np.random.default_rng(1), "true")
    np.testing.assert_allclose(tool.em_rates(sample.p, sample.old_rates), sample.rates, atol=0.02)
    np.testing.assert_allclose(tool.bbse_rates(sample), sample.rates, atol=0.03)


@pytest.mark.parametrize("way", ["true", "noise", "temperature", "hard", "concept", "kind", "contamination"])
def test_adjusting_to_true_rates_never_raises_the_loss(tool: Any, way: str) -> None:
    rng = np.random.default_rng(2)
    sample = population(tool).draw(300, 1000, rng, way)
    assert sample.p.shape == (1000, 3)
    np.testing.assert_allclose(sample.p.sum(axis=1), 1.0)
    found = tool.procedures(sample, rng) if way == "true" else {"true rates": tool.adjusted(sample.p, sample.rates)}
    assert tool.log_loss(found["true rates"], sample.y) <= tool.log_loss(sample.p, sample.y) + 1e-9


def test_refused_batches_count_as_unchanged(tool: Any) -> None:
    line = tool._line(np.array([-0.1, np.nan, 0.2, np.nan]))
    assert line == (pytest.approx(25.0), 0.25, 0.5)
