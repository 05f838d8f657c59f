"""Confidence sets from labelled rows: exact expectations by enumeration, brute force, SciPy and simulation."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import hypergeom
from tool_support import load_tool

import baserate as br
from baserate.estimation import betting, label_bounds
from baserate.estimation.betting import Bets
from baserate.estimation.calibration import FOR_BETS, fit_calibration, logarithms
from baserate.estimation.draws import Draws, random_order
from baserate.estimation.label_bounds import expected_widths
from baserate.estimation.label_tests import LabelTests
from baserate.estimation.labelled import estimate_from_labels
from baserate.estimation.two_tails import two_tails

tool = load_tool("betting_coverage")
Cell = tool.Cell


def in_this_order(rows: tuple[int, ...]) -> Draws:
    ones = np.ones(len(rows))
    return Draws(np.array(rows), np.arange(len(rows)), ones, ones)


def some_predictions(n: int, k: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.3), size=n)


@pytest.mark.parametrize("y", [[0, 1, 2, 0, 1, 1], [0, 0, 0, 0, 0, 1], [2, 2, 1, 1, 0, 0]])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_expected_wealth_is_exactly_1_at_the_true_totals(
    y: list[int], sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(betting, "_FIRST_REFIT", 2)  # so that recalibration takes part with 3 labels
    labels, totals = np.array(y), np.bincount(y, minlength=3).astype(float)
    for probs in (some_predictions(6, 3, 0), np.eye(3)[labels], np.eye(3)[(labels + 1) % 3]):
        wealth = []
        for rows in permutations(range(6), 3):
            bets = Bets.of(probs, in_this_order(rows), labels[list(rows)])
            wealth.append(np.exp(bets.log_wealth(totals, bets.sizes(np.full(3, 2.0), sign), sign)[-1]))
        np.testing.assert_allclose(np.mean(wealth, axis=0), 1.0, rtol=1e-9)


def test_the_expected_wealth_of_all_orders_of_stratified_draws_is_at_most_1() -> None:
    probs = some_predictions(6, 2, 2)
    weights = np.array([4 / 6 * 2, 2 / 6 * 2, 3 / 4 * 2, 1 / 4 * 2])  # of strata with 4 and 2 rows, then 3 and 1
    for sign, y in product([1, -1], product([0, 1], repeat=6)):
        labels, wealth = np.array(y), []
        for first, second in product(permutations(range(4), 2), permutations(range(4, 6), 2)):
            rows = np.array([first[0], second[0], first[1], second[1]])
            draws = Draws(rows, np.array([0, 0, 2, 2]), weights, np.repeat([8 / 6, 1.5], 2))
            bets = Bets.of(probs, draws, labels[rows])
            totals = np.array([6 - labels.sum(), labels.sum()], dtype=float)
            wealth.append(np.exp(bets.log_wealth(totals, bets.sizes(np.full(2, 1.0), sign), sign)[-1]))
        assert np.mean(wealth, axis=0).max() <= 1 + 1e-12


def test_rounds_have_rows_of_all_strata_with_weights_that_restore_their_sizes() -> None:
    strata = np.repeat([0, 1, 2], [60, 30, 4])
    draws = random_order(np.concatenate([np.arange(12), np.arange(60, 65), np.arange(90, 94)]), strata)
    assert (strata[draws.rows[:4]] == 2).all()  # labelled completely, so there is nothing to bet on
    assert (draws.weights[:4] == 0).all()
    left = np.array([60.0, 30.0])
    for start in np.unique(draws.before[4:]):
        at = np.flatnonzero((draws.before == start) & (draws.weights > 0))
        codes = strata[draws.rows[at]]
        for code in (0, 1):
            share = draws.weights[at][codes == code].sum() / len(at)
            assert share == pytest.approx(left[code] / left.sum())
        left -= np.bincount(codes, minlength=2)
        assert draws.largest_weights[at] == pytest.approx(draws.weights[at].max())


@pytest.mark.parametrize("kind", ["wrong", "random"])
def test_every_composition_of_eight_rows_is_covered(kind: str) -> None:
    n, m, confidence = 8, 3, 0.6
    for positives in range(n + 1):
        y = np.arange(n) < positives
        p = {"wrong": np.where(y, 0.1, 0.9), "random": some_predictions(n, 2, 3)[:, 1]}
        inside = []
        for rows in combinations(range(n), m):
            rates = estimate_from_labels(p[kind], list(rows), y[list(rows)], confidence=confidence)
            inside.append(rates.contains(positives / n))
        assert np.mean(inside) >= confidence


@pytest.mark.parametrize("y", [[0, 0, 0, 0, 1], [0, 1, 0, 1, 1], [0, 1, 2, 0, 1]])
def test_all_orders_of_draws_from_five_rows_cover_whatever_the_first_stage_shows(
    y: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_FEWEST_FIRST", 2), ("_MOST_FIRST", 2)):  # the first one or two labels
        monkeypatch.setattr(label_bounds, name, value)
    labels, k = np.array(y), 1 + max(y)
    predictions = (some_predictions(5, k, 4), np.eye(k)[labels], np.eye(k)[(labels + 1) % k] * 0.8 + 0.2 / k)
    for probs, confidence, m in zip(predictions, (0.3, 0.5, 0.7), (4, 4, 3), strict=True):
        inside = []
        for rows in permutations(range(5), m):
            low, high = label_bounds.label_bounds(probs, in_this_order(rows), labels[list(rows)], confidence)
            counts = np.bincount(labels)
            inside.append(((low <= counts) & (counts <= high)).all())
        assert np.mean(inside) >= confidence


def label_tests(probs: np.ndarray, draws: Draws, labels: np.ndarray, *, n_first: int, share: float) -> LabelTests:
    n, k = probs.shape
    alone = Bets.without_predictions(probs.mean(axis=0), n, draws, labels)
    levels, thresholds = np.full(k, 0.1), np.full(k, np.log(20))
    by_bets, has_first = (1 - share) * levels, np.full(k, n_first > 0)
    bets = Bets.of(probs, draws, labels)
    return LabelTests(bets, alone, labels, n_first, 0.75, thresholds, by_bets, share * levels, has_first)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_expected_joint_wealth_after_the_first_stage_is_exactly_1(sign: int) -> None:
    labels, totals, wealth = np.array([0, 1, 2, 0, 1, 1]), np.array([2.0, 3.0, 1.0]), []
    for rows in permutations(range(6), 3):
        one = label_tests(some_predictions(6, 3, 0), in_this_order(rows), labels[list(rows)], n_first=2, share=0.5)
        wealth.append(np.exp(one._joint_wealth(totals, sign)))
    np.testing.assert_allclose(np.mean(wealth, axis=0), 1.0, rtol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_ends_are_those_of_a_scan_of_all_totals(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    n, m, k = 120, 40, 3
    probs, labels = some_predictions(n, k, seed), rng.integers(0, k, m)
    strata = rng.integers(0, 2, n) if seed == 0 and share == 0 else None
    draws = random_order(rng.permutation(n)[:m], strata)
    one = label_tests(probs, draws, labels, n_first=10 if seed % 2 else 0, share=share)
    low, high = one.counts()
    counts, every = np.bincount(labels, minlength=k), np.ones(k, dtype=bool)
    scanned = [(counts + extra).astype(float) for extra in range(n - m + 1)]
    too_low, too_high = (np.array([one._rejecting(sign)(totals, every) for totals in scanned]) for sign in (1, -1))
    assert (np.diff(too_low.astype(int), axis=0) <= 0).all()
    assert (np.diff(too_high.astype(int), axis=0) >= 0).all()
    if share > 0:
        by_both = [[one._by_both_tails(totals, totals, sign, every) for totals in scanned] for sign in (1, -1)]
        too_low, too_high = too_low | by_both[0], too_high | by_both[1]
    np.testing.assert_array_equal([one.accepts(totals) for totals in scanned], ~np.asarray(too_low | too_high))
    for j in range(k):
        accepted = np.flatnonzero(~too_low[:, j] & ~too_high[:, j]) + counts[j]
        assert (low[j], high[j]) == (accepted.min(), accepted.max())


def test_useless_predictions_cost_little_and_adversarial_ones_help_after_calibration() -> None:
    for kind, at_most in (("useless", 1.02), ("adversarial", 0.9)):
        found = tool.simulate(Cell(2, 20000, 200, "equal", kind), 10)
        assert found.width < at_most * found.counted_width


def p_value_with_both_tails(x: int, total: int, n: int, m: int) -> float:
    """The probability of a count whose smaller tail is at most as probable as that of x, by enumeration."""
    counts = np.arange(m + 1)
    below, above = hypergeom.cdf(counts, n, total, m), hypergeom.sf(counts - 1, n, total, m)
    scores = np.minimum(below, above)
    return float(hypergeom.pmf(counts[scores <= scores[x] * (1 + 1e-9)], n, total, m).sum())


@pytest.mark.parametrize(("n", "m", "x"), [(500, 100, 17), (500, 100, 50), (60, 20, 0), (61, 7, 3), (300, 150, 149)])
def test_predictions_that_say_nothing_give_the_exact_interval_with_both_tails(n: int, m: int, x: int) -> None:
    y = np.arange(m) < x
    low, high = estimate_from_labels(np.full(n, 0.2), np.arange(m), y).bounds()
    possible = [total for total in range(x, n - m + x + 1) if p_value_with_both_tails(x, total, n, m) > 0.05]
    np.testing.assert_allclose([low[1] * n, high[1] * n], [possible[0], possible[-1]])


@pytest.mark.parametrize(("near", "far"), [(1.0, 1.0), (1.7, 0.4), (0.2, 3.0)])
def test_two_tails_are_a_p_value_for_any_weights_and_bound_it_for_all_totals_between(near: float, far: float) -> None:
    m, n = 9, 14
    counts = np.arange(m + 1)
    for total in range(m + n + 1):
        found = np.array([two_tails(int(x), (total, total), far / near, m, n) for x in counts])
        probabilities = hypergeom.pmf(counts, m + n, total, m)
        for level in (0.02, 0.1, 0.3):
            # The other end is tested with the counts of the other rows.
            other = np.array([two_tails(int(m - x), (m + n - total,) * 2, near / far, m, n) for x in counts])
            assert probabilities[(found <= level) | (other <= level)].sum() <= level * (1 + 1e-9)
            assert (found[hypergeom.cdf(counts, m + n, total, m) <= near / (near + far) * level] <= level).all()
        for x in range(m + 1):
            assert two_tails(x, (total, max(total - 3, 0)), far / near, m, n) >= found[x] * (1 - 1e-9)


@pytest.mark.parametrize("n_rows", [10**4, 10**7])
def test_two_tails_find_the_count_that_is_as_improbable_among_millions_of_rows(n_rows: int) -> None:
    # If half of the rows are of the class, 40 and 60 of 100 labels are equally improbable.
    near = float(hypergeom(n_rows, n_rows // 2, 100).cdf(40))
    assert two_tails(40, (n_rows // 2, n_rows // 2), 1.0, 100, n_rows - 100) == pytest.approx(2 * near, rel=1e-5)


def test_bounds_contain_the_estimate_and_what_the_labels_leave_possible() -> None:
    probs = some_predictions(300, 4, 5)
    y = np.random.default_rng(5).integers(0, 4, 300)
    for size in (1, 5, 150, 299, 300):
        drawn = br.draw_rows(probs, size, random_state=size)
        rates = estimate_from_labels(probs, drawn, y[drawn.rows], confidence=0.3)
        low, high = rates.bounds()
        counts = np.bincount(y[drawn.rows], minlength=4)
        assert (low >= counts / 300 - 1e-12).all()
        assert (high <= (counts + 300 - size) / 300 + 1e-12).all()
        assert rates.contains(rates.estimate())
    np.testing.assert_allclose(low, np.bincount(y) / 300)
    np.testing.assert_allclose(high, np.bincount(y) / 300)


def test_more_confidence_gives_wider_bounds() -> None:
    probs, y = tool.simulate_batch(Cell(3, 1000, 200, "equal", "good"), np.random.default_rng(0))
    drawn = br.draw_rows(probs, 200, random_state=0)
    previous = None
    for confidence in (0.5, 0.8, 0.95, 0.999):
        low, high = estimate_from_labels(probs, drawn, y[drawn.rows], confidence=confidence).bounds()
        if previous is not None:
            assert (low <= previous[0]).all()
            assert (high >= previous[1]).all()
        previous = low, high


def test_the_order_of_rows_and_of_classes_does_not_matter() -> None:
    probs, y = tool.simulate_batch(Cell(3, 1000, 150, "equal", "bad"), np.random.default_rng(1))
    rows = np.random.default_rng(2).permutation(1000)[:150]
    low, high = estimate_from_labels(probs, rows, y[rows]).bounds()
    mask = np.isin(np.arange(1000), rows)
    for other in (
        estimate_from_labels(probs, rows[::-1], y[rows[::-1]]),
        estimate_from_labels(probs, mask, y[mask]),
    ):
        np.testing.assert_array_equal(other.bounds(), (low, high))
    order = [2, 0, 1]
    permuted = estimate_from_labels(probs[:, order], rows, np.argsort(order)[y[rows]])
    np.testing.assert_allclose(permuted.bounds(), (low[order], high[order]), atol=0.0011)  # one row, by rounding


def test_two_classes_need_one_column() -> None:
    probs, y = tool.simulate_batch(Cell(2, 800, 100, "equal", "good"), np.random.default_rng(3))
    rows = np.random.default_rng(4).permutation(800)[:100]
    both = estimate_from_labels(probs, rows, y[rows])
    one = estimate_from_labels(probs[:, 1], rows, y[rows] == 1)
    np.testing.assert_array_equal(one.bounds(), both.bounds())
    low, high = both.bounds()
    np.testing.assert_allclose(low[0], 1 - high[1])
    flipped = estimate_from_labels(probs[:, ::-1], rows, 1 - y[rows])
    np.testing.assert_allclose(flipped.bounds()[0], low[::-1], atol=1 / 800 + 1e-12)


@pytest.mark.parametrize(
    ("cell", "narrower"),
    [
        (Cell(2, 2000, 200, "equal", "good"), 0.5),
        (Cell(3, 200, 50, "rare", "bad"), 1.0),
        (Cell(10, 2000, 200, "rare", "adversarial"), 1.1),
        (Cell(2, 2000, 50, "equal", "useless"), 1.2),
        (Cell(3, 2000, 200, "equal", "good", "predicted"), 0.5),
    ],
)
def test_simulated_sets_contain_the_rates_and_are_narrow(cell: tool.Cell, narrower: float) -> None:
    found = tool.simulate(cell, 40)
    assert not tool.is_too_low(found.coverage, 40)
    assert found.width < narrower * found.counted_width


@pytest.mark.parametrize("stratify", [None, "predicted"])
def test_the_simulation_counts_the_same_draws_with_and_without_widths(
    stratify: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "CONFIDENCE", 0.05)
    cell = Cell(2, 200, 50, "equal", "bad", stratify)
    found = [tool.draws_of(cell, 50, seed=1, chunk=0, with_widths=with_widths) for with_widths in (True, False)]
    assert found[0].covered == found[1].covered < 50
    assert found[1].measured < found[0].measured == 50


@pytest.mark.stress
def test_sets_contain_the_rates_in_every_cell() -> None:
    for cell in tool.CELLS:
        found = tool.simulate(cell, 60)
        assert not tool.is_too_low(found.coverage, 60), cell
        if cell.m >= 200:
            at_most = 1.02 if cell.predictions in ("good", "bad") else 1.1
            assert found.width < at_most * found.counted_width, cell


def test_validation_data_reveals_useless_predictions() -> None:
    cell, rng = Cell(2, 20000, 200, "equal", "useless"), np.random.default_rng(6)
    probs, y = tool.simulate_batch(cell, rng)
    drawn = br.draw_rows(probs, 200, random_state=0)
    p_val, y_val = tool.simulate_batch(cell, rng)
    rates = estimate_from_labels(probs, drawn, y[drawn.rows], probs_val=p_val, y_val=y_val)
    counted = br.Rates.from_counts(np.bincount(y[drawn.rows])).bounds(20000)
    assert np.subtract(*rates.bounds()[::-1]).mean() < np.subtract(*counted[::-1]).mean()


def test_calibration_minimises_the_penalised_log_loss() -> None:
    rng = np.random.default_rng(7)
    logits, labels = logarithms(some_predictions(80, 4, 7), FOR_BETS), rng.integers(0, 4, 80)

    def loss(at: np.ndarray) -> float:
        scores = at[0] * logits + at[1:]
        log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        penalty = 5.0 * (at[0] - 1) ** 2 + (at[1:] ** 2).sum()
        return float(-log_p[np.arange(80), labels].sum() + penalty)

    found = fit_calibration(logits, labels, shrinkage=FOR_BETS)
    expected = minimize(loss, [1.0, 0, 0, 0, 0], method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("cell", [Cell(2, 2000, 200, "equal", "good"), Cell(10, 2000, 400, "rare", "good")])
def test_expected_widths_are_about_those_that_come_out(cell: tool.Cell) -> None:
    probs, _ = tool.simulate_batch(cell, np.random.default_rng(8))
    expected = expected_widths(probs, cell.m, 0.95).mean()
    assert tool.simulate(cell, 10).width == pytest.approx(expected, rel=0.35)
