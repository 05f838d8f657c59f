"""The functions of baserate.theory, on an example that is small enough to compute by hand."""

from __future__ import annotations

import numpy as np
import pytest

import baserate as br

P = np.array([[0.8, 0.2], [0.6, 0.4], [0.9, 0.1]])
Y = np.array([0, 1, 1])


def test_class_rates_are_weighted_frequencies() -> None:
    np.testing.assert_allclose(br.theory.class_rates(Y, 2), [1 / 3, 2 / 3])
    np.testing.assert_allclose(br.theory.class_rates(Y, 3, [2, 1, 1]), [0.5, 0.5, 0])
    np.testing.assert_allclose(br.theory.class_rates(P, 2), P.mean(axis=0))


def test_decomposition_agrees_with_a_hand_computation() -> None:
    # The mean of P is (23/30, 7/30), so additive adjustment moves every row by 13/30.
    a = P + np.array([-13 / 30, 13 / 30])
    terms = br.theory.decomposition(P, a, Y, loss="brier")
    assert terms.total == pytest.approx((0.08 + 0.72 + 1.62) / 3)
    assert terms.adjustment == pytest.approx(2 * (13 / 30) ** 2)
    assert terms.remaining == pytest.approx(terms.total - terms.adjustment)
    assert terms.surplus == pytest.approx(0, abs=1e-15)


def test_spread_is_zero_only_for_the_adjustment_that_matches_the_loss() -> None:
    rates = br.theory.class_rates(Y, 2)
    additive, multiplicative = br.additive(P, rates).probs, br.multiplicative(P, rates).probs
    matching = br.theory.coherence(P, additive, loss="brier")
    assert matching.spread < 1e-12
    # d(a, c_0) - d(a, c_1) changes by -2 (a_0 - a_1) + 2 (p_0 - p_1) = 4 * 13/30 in every row.
    assert matching.constants[0, 1] == pytest.approx(4 * 13 / 30)
    np.testing.assert_allclose(matching.constants, -matching.constants.T)
    assert br.theory.coherence(P, multiplicative, loss="log").spread < 1e-12
    assert br.theory.coherence(P, multiplicative, loss="brier").spread > 0.01
    assert br.theory.coherence(P, np.clip(additive, 0.01, 0.99), loss="log").spread > 0.01


def test_bounded_adjustment_reduces_the_loss_more_where_unbounded_leaves_the_simplex() -> None:
    p = np.array([[0.99, 0.01], [0.98, 0.02], [0.02, 0.98], [0.6, 0.4]])
    chain = br.theory.inequality_chain(p, [0, 1, 1, 1], loss="brier")
    assert chain.bounded_fall > chain.bounded_move > chain.unbounded_move
    assert chain.unbounded_move == pytest.approx(chain.unbounded_fall)


def test_adjustment_loss_is_larger_for_bounded_adjustment() -> None:
    assert br.theory.adjustment_loss(P, Y, loss="brier", bounded=False) == pytest.approx(2 * (13 / 30) ** 2)
    assert br.theory.adjustment_loss(P, P, loss="log") == pytest.approx(0, abs=1e-15)
    bounded = br.theory.adjustment_loss([[0.99, 0.01], [0.9, 0.1], [0.1, 0.9]], [0, 1, 1], loss="brier")
    unbounded = br.theory.adjustment_loss(
        [[0.99, 0.01], [0.9, 0.1], [0.1, 0.9]], [0, 1, 1], loss="brier", bounded=False
    )
    assert bounded >= unbounded
