"""Shared tests that every registered loss must pass, including losses from outside the package."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from support import ALL_LOSSES, Array, loss_id

import baserate as br
from baserate.losses import Loss
from baserate.losses.registry import from_json, to_json

every_loss = pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)


def inner_points(k: int, n: int = 8, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return 0.98 * rng.dirichlet(np.ones(k), size=n) + 0.02 / k


def dual_points(loss: Loss, k: int, n: int = 12, seed: int = 1) -> Array:
    """Dual points whose predictions lie inside the simplex and on its faces."""
    rng = np.random.default_rng(seed)
    eta = loss.link(inner_points(k, n, seed))
    return eta + np.ptp(eta, axis=1, keepdims=True) * rng.normal(size=(n, k)) * rng.uniform(0, 2, size=(n, 1))


def tangent(k: int, seed: int) -> Array:
    d = np.random.default_rng(seed).normal(size=k)
    return (d - d.mean()) / np.linalg.norm(d - d.mean())


def brute_force(loss: Loss, x: Array) -> float:
    """The smallest ``phi(a) - <x, a>`` on the simplex that SLSQP finds from several starting points."""
    k = len(x)
    best = np.inf
    for start in [np.full(k, 1 / k), *(0.9 * np.eye(k) + 0.1 / k)]:
        found = minimize(
            lambda a: float(loss.phi(a[None])[0] - x @ a),
            start,
            jac=lambda a: loss.gradient(np.maximum(a, 1e-15)[None])[0] - x,
            bounds=[(1e-15, 1)] * k,
            constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(k)},
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-14},
        )
        a = np.clip(found.x, 1e-15, 1)
        a /= a.sum()
        best = min(best, float(loss.phi(a[None])[0] - x @ a))
    return best


@every_loss
def test_gradient_is_the_derivative_of_phi(loss: Loss, k: int) -> None:
    p, d, h = inner_points(k), tangent(k, 2), 1e-6
    numeric = (loss.phi(p + h * d) - loss.phi(p - h * d)) / (2 * h)
    np.testing.assert_allclose(loss.gradient(p) @ d, numeric, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("loss", "k"), [case for case in ALL_LOSSES if case[0].builtin], ids=loss_id)
def test_gradient_is_the_derivative_of_phi_off_the_simplex(loss: Loss, k: int) -> None:
    # Rounded rows do not sum to 1, and their divergence contains the gradient in every direction.
    p, h = inner_points(k), 1e-6
    for j in range(k):
        step = h * np.eye(k)[j]
        numeric = (loss.phi(p + step) - loss.phi(p - step)) / (2 * h)
        np.testing.assert_allclose(loss.gradient(p)[:, j], numeric, rtol=1e-5, atol=1e-8)


@every_loss
def test_link_is_the_gradient_up_to_a_constant_per_row(loss: Loss, k: int) -> None:
    p = inner_points(k)
    difference = loss.link(p) - loss.gradient(p)
    np.testing.assert_allclose(difference, np.broadcast_to(difference[:, :1], p.shape), rtol=1e-9, atol=1e-9)


@every_loss
def test_stiffness_is_the_derivative_of_the_gradient(loss: Loss, k: int) -> None:
    p, h = inner_points(k), 1e-6
    stiffness = loss.stiffness(p)
    if stiffness is None:
        assert not isinstance(loss, (br.losses.Log, br.losses.Brier)), "these losses define it"
        return
    for j in range(k):
        step = h * np.eye(k)[j]
        slope = (loss.gradient(p + step) - loss.gradient(p - step)) / (2 * h)
        np.testing.assert_allclose(slope, np.where(np.eye(k)[j] > 0, stiffness, 0), rtol=1e-4, atol=1e-6)


@every_loss
def test_row_map_is_the_inverse_of_link(loss: Loss, k: int) -> None:
    p = inner_points(k)
    np.testing.assert_allclose(loss.row_map(loss.link(p)), p, rtol=0, atol=1e-12)


@every_loss
def test_row_map_returns_probabilities_that_sum_to_one(loss: Loss, k: int) -> None:
    a = loss.row_map(dual_points(loss, k, n=50))
    assert a.min() >= 0
    np.testing.assert_allclose(a.sum(axis=1), 1, rtol=0, atol=1e-13)


@every_loss
def test_row_map_does_not_change_if_a_constant_is_added(loss: Loss, k: int) -> None:
    x = dual_points(loss, k)
    size = np.ptp(x)
    np.testing.assert_allclose(loss.row_map(x + size), loss.row_map(x), rtol=0, atol=1e-6)


@every_loss
def test_row_map_agrees_with_a_general_solver(loss: Loss, k: int) -> None:
    x = dual_points(loss, k)
    x -= x.max(axis=1, keepdims=True)
    a = loss.row_map(x)
    ours = loss.phi(a) - np.einsum("ij,ij->i", x, a)
    theirs = np.array([brute_force(loss, row) for row in x])
    scale = 1 + np.abs(theirs)
    assert (ours <= theirs + 1e-9 * scale).all()
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


@every_loss
def test_conjugate_agrees_with_its_definition(loss: Loss, k: int) -> None:
    x = dual_points(loss, k)
    a = loss.row_map(x)
    np.testing.assert_allclose(
        loss.conjugate(x, a), np.einsum("ij,ij->i", x, a) - loss.phi(a), rtol=1e-10, atol=1e-10 * np.abs(x).max()
    )


@every_loss
@pytest.mark.parametrize("bounded", [True, False])
def test_jacobian_is_the_derivative_of_row_map(loss: Loss, k: int, bounded: bool) -> None:
    if not bounded and loss.domain == br.losses.NONNEGATIVE:
        pytest.skip("unbounded adjustment equals bounded adjustment")
    # Unbounded row maps are tested near predictions, where all losses have one.
    x = dual_points(loss, k, n=40) if bounded else loss.link(inner_points(k, 12))
    d, compared = tangent(k, 3), 0
    for row in x:
        h = 1e-6 * max(1e-3, float(np.ptp(row)))
        up, down = (loss.row_map((row + s * h * d)[None], bounded=bounded)[0] for s in (1, -1))
        a = loss.row_map(row[None], bounded=bounded)
        if bounded and (((up > 0) != (a[0] > 0)) | ((down > 0) != (a[0] > 0)) | ((a[0] > 0) & (a[0] < 1e-3))).any():
            continue  # at or near a kink finite differences are not the derivative
        numeric = (up - down) / (2 * h)
        given = loss.jacobian(a, np.ones(1), bounded=bounded)
        np.testing.assert_allclose(given @ d, numeric, rtol=2e-4, atol=2e-5 * (1 + np.abs(numeric).max()))
        np.testing.assert_allclose(given, given.T, atol=1e-10 * np.abs(given).max() + 1e-15)
        np.testing.assert_allclose(given.sum(axis=1), 0, atol=1e-9 * np.abs(given).max() + 1e-15)
        compared += 1
    assert compared >= 3


@every_loss
def test_jacobian_is_the_weighted_sum_over_rows(loss: Loss, k: int) -> None:
    a = loss.row_map(dual_points(loss, k))
    w = np.random.default_rng(4).uniform(size=len(a))
    one_by_one = sum(w[i] * loss.jacobian(a[i : i + 1], np.ones(1)) for i in range(len(a)))
    np.testing.assert_allclose(loss.jacobian(a, w), one_by_one, rtol=1e-9, atol=1e-12 * np.abs(one_by_one).max())


@every_loss
def test_unbounded_row_map_satisfies_the_optimality_condition(loss: Loss, k: int) -> None:
    if loss.domain == br.losses.NONNEGATIVE:
        pytest.skip("unbounded adjustment equals bounded adjustment")
    x = loss.link(inner_points(k, 12)) + 0.05 * np.random.default_rng(5).normal(size=(12, k))
    a = loss.row_map(x, bounded=False)
    np.testing.assert_allclose(a.sum(axis=1), 1, rtol=0, atol=1e-12)
    slope = loss.gradient(a) - x
    np.testing.assert_allclose(slope, np.broadcast_to(slope.mean(axis=1, keepdims=True), x.shape), atol=1e-9)


@every_loss
def test_divergence_agrees_with_its_definition_and_is_zero_only_at_the_prediction(loss: Loss, k: int) -> None:
    p, q = inner_points(k, seed=6), inner_points(k, seed=7)
    assert np.abs(loss.divergence(p, p)).max() < 1e-14
    assert (loss.divergence(p, q) > 0).all()
    by_definition = loss.phi(q) - loss.phi(p) - np.einsum("ij,ij->i", q - p, loss.gradient(p))
    np.testing.assert_allclose(loss.divergence(p, q), by_definition, rtol=1e-7, atol=1e-12)


@every_loss
def test_true_probabilities_have_the_smallest_expected_score(loss: Loss, k: int) -> None:
    truth, other = inner_points(k, 1, seed=8), inner_points(k, 20, seed=9)
    scores = np.array([[loss.score(row[None], [j]) for j in range(k)] for row in [truth[0], *other]])
    expected = scores @ truth[0]
    assert (expected[0] < expected[1:]).all()


@every_loss
def test_corners_of_the_simplex(loss: Loss, k: int) -> None:
    corners = np.eye(k)
    assert np.isfinite(loss.phi(corners)).all()
    with np.errstate(divide="ignore"):
        edge = loss.link(corners)
    assert bool(np.isneginf(edge).any()) == loss.pins_zeros
    np.testing.assert_allclose(loss.row_map(edge), corners, atol=1e-7)
    own = loss.divergence(corners, corners)
    np.testing.assert_allclose(own, 0, atol=1e-12)
    others = loss.divergence(corners, np.roll(corners, 1, axis=0))
    assert (np.isposinf(others) if loss.pins_zeros else others > 0).all()


@every_loss
def test_scores_of_float32_and_float64_agree(loss: Loss, k: int) -> None:
    p, y = inner_points(k, 30, seed=10), np.random.default_rng(11).integers(k, size=30)
    assert loss.score(p.astype(np.float32), y) == pytest.approx(loss.score(p, y), rel=1e-4)


@every_loss
def test_adjustments_of_float32_and_float64_agree(loss: Loss, k: int) -> None:
    p = inner_points(k, 30, seed=12)
    rates = np.random.default_rng(13).dirichlet(np.full(k, 5.0))
    narrow, wide = (br.adjust(p.astype(t), rates, loss=loss) for t in (np.float32, np.float64))
    np.testing.assert_allclose(narrow.probs, wide.probs, atol=2e-5)


@every_loss
def test_losses_survive_saving_and_loading(loss: Loss, k: int) -> None:
    fields = json.loads(json.dumps(to_json(loss)))
    if isinstance(loss, br.losses.Separable):
        with pytest.raises(br.errors.BadLoss, match=r"br\.load\(path, loss=\.\.\.\)"):
            from_json(fields)
    else:
        again = from_json(fields)
        assert again == loss
        assert hash(again) == hash(loss)
        x = dual_points(loss, k)
        np.testing.assert_array_equal(again.row_map(x), loss.row_map(x))


@every_loss
def test_on_face_solves_the_problem_with_only_the_kept_classes(loss: Loss, k: int) -> None:
    if k < 3:
        pytest.skip("dropping one of two classes leaves a single point")
    keep = np.delete(np.arange(k), 1)
    face = loss.on_face(keep, k)
    x = loss.link(inner_points(k, 5, seed=14))
    a = np.zeros_like(x)
    a[:, keep] = face.row_map(x[:, keep])
    ours = loss.phi(a) - np.einsum("ij,ij->i", x, a)
    rng = np.random.default_rng(15)
    for _ in range(300):
        t = rng.choice([1e-3, 1e-2, 0.1, 1.0])
        b = np.zeros_like(x)
        b[:, keep] = rng.dirichlet(np.ones(k - 1), size=len(x))
        b = (1 - t) * a + t * b
        assert (ours <= loss.phi(b) - np.einsum("ij,ij->i", x, b) + 1e-12 * np.abs(x).max()).all()
    w = np.ones(len(a))
    d = tangent(k - 1, 16)
    h = 1e-6
    numeric = (face.row_map(x[:, keep] + h * d) - face.row_map(x[:, keep] - h * d)).sum(axis=0) / (2 * h)
    np.testing.assert_allclose(face.jacobian(a[:, keep], w) @ d, numeric, rtol=1e-4, atol=1e-5)


P = [[0.7, 0.2, 0.1]]


@pytest.mark.parametrize(
    ("loss", "y", "score"),
    [
        (br.losses.Log(), 0, -np.log(0.7)),
        (br.losses.Log(), 2, -np.log(0.1)),
        (br.losses.Brier(), 0, 0.09 + 0.04 + 0.01),
        (br.losses.Brier(), 1, 0.49 + 0.64 + 0.01),
        (br.losses.Spherical(), 0, 1 - 0.7 / np.sqrt(0.54)),
        (br.losses.RankedProbability(), 0, 0.3**2 + 0.1**2),
        (br.losses.RankedProbability(), 2, 0.7**2 + 0.9**2),
        (br.losses.WeightedBrier([1, 2, 3]), 1, 0.49 + 2 * 0.64 + 3 * 0.01),
        (br.losses.Quadratic(np.diag([1.0, 2.0, 3.0])), 1, 0.49 + 2 * 0.64 + 3 * 0.01),
        (br.losses.Quadratic(br.losses.RankedProbability.matrix(3)), 2, 0.7**2 + 0.9**2),
        # d(p, e_y) = (1 - beta p_y^(beta - 1)) / (beta - 1) + sum_j p_j^beta
        (br.losses.Power(3), 0, 0.5 * (1 - 3 * 0.49 + 2 * (0.343 + 0.008 + 0.001))),
        (br.losses.Power(0.5), 0, 2 * (-1 + 0.5 * 0.7**-0.5 + 0.5 * (0.7**0.5 + 0.2**0.5 + 0.1**0.5))),
    ],
    ids=loss_id,
)
def test_scores_agree_with_hand_calculations(loss: Loss, y: int, score: float) -> None:
    assert loss.score(P, [y]) == pytest.approx(score, rel=1e-12)
    assert loss.score(P, np.eye(3)[[y]]) == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize(("beta", "limit"), [(1.0, br.losses.Log()), (2.0, br.losses.Brier())])
def test_power_with_beta_1_and_2_is_log_and_brier(beta: float, limit: Loss) -> None:
    power, k = br.losses.Power(beta), 4
    p, q = inner_points(k, 40, seed=17), inner_points(k, 40, seed=18)
    rates = [0.1, 0.2, 0.3, 0.4]
    np.testing.assert_allclose(power.divergence(p, q), limit.divergence(p, q), rtol=0, atol=1e-15)
    ours, known = br.adjust(p, rates, loss=power), br.adjust(p, rates, loss=limit)
    np.testing.assert_allclose(ours.probs, known.probs, rtol=0, atol=1e-13)
    np.testing.assert_allclose(ours.shift, known.shift, rtol=0, atol=1e-12)


@pytest.mark.parametrize("side", [-1, 1])
def test_power_converges_to_log_as_beta_approaches_1(side: int) -> None:
    p, rates = inner_points(4, 40, seed=19), [0.1, 0.2, 0.3, 0.4]
    known = br.adjust(p, rates, loss="log").probs
    gaps = [np.abs(br.adjust(p, rates, loss=br.losses.Power(1 + side * e)).probs - known).max() for e in (1e-2, 1e-6)]
    assert gaps[1] < 1e-6
    assert gaps[1] == pytest.approx(1e-4 * gaps[0], rel=0.05)  # the difference is linear in beta - 1


def test_ranked_probability_is_the_quadratic_loss_with_its_matrix() -> None:
    ranked, k = br.losses.RankedProbability(), 6
    quadratic = br.losses.Quadratic(ranked.matrix(k))
    x = dual_points(ranked, k, n=200)
    np.testing.assert_allclose(ranked.row_map(x), quadratic.row_map(x), rtol=0, atol=1e-12)
    a = ranked.row_map(x)
    w = np.ones(len(a))
    np.testing.assert_allclose(ranked.jacobian(a, w), quadratic.jacobian(a, w), rtol=0, atol=1e-10)


def test_weighted_brier_with_equal_weights_is_brier() -> None:
    p, rates = inner_points(4, 40, seed=20), [0.1, 0.2, 0.3, 0.4]
    equal = br.adjust(p, rates, loss=br.losses.WeightedBrier([1, 1, 1, 1]))
    np.testing.assert_allclose(equal.probs, br.adjust(p, rates, loss="brier").probs, rtol=0, atol=1e-13)


def test_score_uses_sample_weights() -> None:
    p, y = [[0.5, 0.5], [0.9, 0.1]], [0, 1]
    assert br.losses.Brier().score(p, y, [3, 1]) == pytest.approx((3 * 0.5 + 1.62) / 4)
    assert br.losses.Log().score([[0.5, 0.5], [1.0, 0.0]], y, [1, 0]) == pytest.approx(np.log(2))
    assert br.losses.Log().score([[1.0, 0.0]], [1]) == np.inf


def test_names_and_objects_select_the_same_loss() -> None:
    for name, loss in {
        "log": br.losses.Log(),
        "brier": br.losses.Brier(),
        "spherical": br.losses.Spherical(),
        "ranked": br.losses.RankedProbability(),
    }.items():
        assert br.losses.as_loss(name) == loss
        assert br.adjust([[0.6, 0.4], [0.3, 0.7]], [0.5, 0.5], loss=name).loss == loss
