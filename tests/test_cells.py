"""Rates per group: agreement with problems without groups, passes over cells, special groups, number of passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cells_support import STOP, Ints, dual_of, margin, random_rows, rates_by_group, solve
from support import ALL_LOSSES, COMMON_LOSSES, KERNEL_LOSSES, Array, NoFallback, loss_id
from toy_engine import ChunkEngine

import baserate as br
from baserate.core.cells.fit import fit_cells
from baserate.core.cells.groups import Groups
from baserate.core.contracts import Block
from baserate.core.search import Stop
from baserate.errors import BadProbabilities, NotConvergedWarning
from baserate.inputs.reading import Reading
from baserate.losses import Loss
from baserate.rates.balls import Ball
from baserate.support.answer_types import AnswerTypes

LOSSES = [*COMMON_LOSSES, br.losses.Power(3), br.losses.Quadratic([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])]


def labelled_rows(seed: int, n: int, sizes: list[int], k: int = 3) -> tuple[Array, list[Ints], Array]:
    """Predictions, groups, and labels whose classes depend on the groups."""
    rng = np.random.default_rng(seed)
    groups = [rng.integers(size, size=n) for size in sizes]
    tilt = sum(rng.normal(size=(size, k))[g] for size, g in zip(sizes, groups, strict=True))
    p = random_rows(rng, n, k)
    labels = p * np.exp(0.5 * tilt)
    labels /= labels.sum(axis=1, keepdims=True)
    return p, groups, np.eye(k)[(rng.random((n, 1)) > labels.cumsum(axis=1)).sum(axis=1).clip(max=k - 1)]


def centred(shifts: Array) -> Array:
    """Shifts without the constant that makes no difference; 0 where a class is excluded."""
    finite = np.isfinite(shifts)
    values = np.where(finite, shifts, 0.0)
    return np.where(finite, values - values.sum(axis=1, keepdims=True) / finite.sum(axis=1, keepdims=True), 0.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=loss_id)
def test_each_group_of_one_margin_equals_a_problem_of_its_own(loss: Loss, weighted: bool) -> None:
    p, [groups], labels = labelled_rows(1, 400, [7])
    weights = np.random.default_rng(2).uniform(0.2, 2.0, size=400) if weighted else None
    rates = rates_by_group(labels, groups, 7, weights)
    rates[3] = [0.7, 0.3, 0.0]  # a class that a group does not have
    fit, rows = solve(p, [groups], [margin("region", rates)], loss, weights=weights)
    assert fit.converged
    for g in range(7):
        here = groups == g
        alone = br.adjust(p[here], rates[g], loss=loss, sample_weight=None if weights is None else weights[here])
        np.testing.assert_allclose(rows[here], alone.probs, rtol=0, atol=1e-12)
        np.testing.assert_allclose(fit.after[g], alone.rates, rtol=0, atol=1e-12)
        weight = fit.weights[g]
        assert fit.certified[g] == pytest.approx(weight * alone.certificate.loss_reduction, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("kind", ["bounds", "ball", "hard zeros"])
def test_groups_with_bounds_balls_and_hard_zeros_equal_problems_of_their_own(kind: str) -> None:
    p, [groups], labels = labelled_rows(3, 300, [5])
    rates = rates_by_group(labels, groups, 5)
    known: list[Any] = list(rates)
    table = margin("region", rates)
    if kind == "bounds":
        low, high = np.maximum(rates - 0.03, 0), np.minimum(rates + 0.02, 1)
        table, known = margin("region", low, high), [br.Rates.between(a, b) for a, b in zip(low, high, strict=True)]
    if kind == "ball":
        regions = {g: Ball(rates[g], np.ones(3), 0.05) for g in range(5)}
        table = margin("region", np.zeros((5, 3)), np.ones((5, 3)), regions=regions)
        known = [br.Rates.near(one, 0.05) for one in rates]
    if kind == "hard zeros":
        p = np.where((np.random.default_rng(4).random(p.shape) < 0.2) & (labels == 0), 0.0, p)
        p /= p.sum(axis=1, keepdims=True)
    fit, rows = solve(p, [groups], [table], br.losses.Log())
    for g in range(5):
        alone = br.adjust(p[groups == g], known[g])
        np.testing.assert_allclose(rows[groups == g], alone.probs, rtol=0, atol=1e-12)
        assert fit.certified[g] == pytest.approx(fit.weights[g] * alone.certificate.loss_reduction, abs=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", KERNEL_LOSSES, ids=loss_id)
@pytest.mark.parametrize("n_margins", [1, 2])
def test_compiled_passes_equal_numpy(loss: Loss, n_margins: int, dtype: Any) -> None:
    p, groups, labels = labelled_rows(5, 700, [9, 4])
    types, weights = AnswerTypes.of_array(np.dtype(dtype)), np.random.default_rng(1).uniform(0.1, 1, size=700)
    tables = [rates_by_group(labels, g, size, weights) for g, size in zip(groups, (9, 4), strict=True)]
    tables[0][2] = [0.4, 0.6, 0.0]
    margins = [margin("a", tables[0]), margin("b", tables[1])][:n_margins]
    if n_margins == 2:  # a table that some labels satisfy
        labels = np.where((groups[0] == 2)[:, None], [0.4, 0.6, 0.0], labels)
        margins[1] = margin("b", rates_by_group(labels, groups[1], 4, weights))
    found = [
        solve(p.astype(dtype), groups[:n_margins], margins, loss, weights=weights, kernels=kernels, answer_types=types)
        for kernels in ("off", "always")
    ]
    (numpy_fit, numpy_rows), (fit, rows) = found
    assert rows.dtype == dtype
    accuracy = 1e-7 if dtype == np.float32 else 1e-12 if n_margins == 1 else 1e-10
    np.testing.assert_allclose(rows, numpy_rows, rtol=0, atol=accuracy)
    np.testing.assert_allclose(centred(fit.cell_shifts), centred(numpy_fit.cell_shifts), rtol=0, atol=1e-9)
    for name in ("before", "after", "certified", "weights", "sizes"):
        np.testing.assert_allclose(
            getattr(fit, name), getattr(numpy_fit, name), rtol=accuracy, atol=accuracy, err_msg=name
        )
    np.testing.assert_allclose(fit.survey.squared_weights, numpy_fit.survey.squared_weights, rtol=1e-12)
    assert fit.n_passes == numpy_fit.n_passes
    assert (rows[groups[0] == 2, 2] == 0).all()


@pytest.mark.parametrize("answer", ["float64", "float32"])
@pytest.mark.parametrize("size", [1e-6, 1.0])
@pytest.mark.parametrize("loss", KERNEL_LOSSES, ids=loss_id)
def test_sums_of_compiled_passes_equal_numpy_for_rows_in_any_order(loss: Loss, size: float, answer: str) -> None:
    p, groups, labels = labelled_rows(6, 500, [30, 3])
    margins = [margin("a", rates_by_group(labels, groups[0], 30)), margin("b", rates_by_group(labels, groups[1], 3))]
    types = AnswerTypes.of_array(np.dtype(answer))
    duals = [dual_of(p, groups, margins, loss, kernels=kernels, answer_types=types) for kernels in ("off", "always")]
    shifts = size * np.random.default_rng(7).normal(size=(duals[0].design.n_cells, 3))
    shifts[4, 1] = -np.inf
    blocks = [next(iter(dual.rows.map(lambda block: block, 1 << 30))) for dual in duals]
    plain = duals[0].passes
    compiled = replace(duals[1].passes, fallback=NoFallback())  # type: ignore[call-arg]  # of the kernels alone
    allowed = ~np.isneginf(shifts)
    for one, other in (
        (plain.survey_cells(blocks[0], allowed), compiled.survey_cells(blocks[1], allowed)),
        (plain.reduce_cells(blocks[0], shifts), compiled.reduce_cells(blocks[1], shifts)),
        (plain.write_cells(blocks[0], shifts).sums, compiled.write_cells(blocks[1], shifts).sums),
    ):
        for name in one._fields:
            if name != "ceiling":  # a bound, which kernels compute less tightly
                np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-10, atol=2e-15)
    np.testing.assert_allclose(
        plain.write_cells(blocks[0], shifts).rows, compiled.write_cells(blocks[1], shifts).rows, rtol=0, atol=1e-14
    )


@pytest.mark.parametrize("loss", KERNEL_LOSSES, ids=loss_id)
@pytest.mark.parametrize("n_margins", [1, 2])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, np.nan, 0.5], "row 70, column 1 is nan"),
        ([0.6, -0.1, 0.5], "row 70, column 1 is -0.1"),
        ([0.3, 0.3, 0.41], "row 70, which sums to 1.01"),
        ([np.inf, 0.0, 0.0], "row 70, column 0 is inf"),
    ],
)
def test_compiled_passes_find_invalid_rows(loss: Loss, n_margins: int, row: list[float], message: str) -> None:
    p, groups, labels = labelled_rows(22, 200, [4, 3])
    margins = [margin(f"m{i}", rates_by_group(labels, g, g.max() + 1)) for i, g in enumerate(groups)]
    p[70] = row
    for kernels in ("off", "always"):
        with pytest.raises(BadProbabilities, match=message):
            solve(p, groups[:n_margins], margins[:n_margins], loss, kernels=kernels)


@pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)
@pytest.mark.parametrize("bounded", [True, False])
def test_jacobians_of_cells_are_those_of_their_rows(loss: Loss, k: int, bounded: bool) -> None:
    rng = np.random.default_rng(8)
    a, weights, starts = rng.dirichlet(np.ones(k), size=40), rng.random(40), np.array([0, 1, 7, 30])
    a[::5, 0], a[::5] = 0.0, a[::5] / np.maximum(a[::5, 1:].sum(axis=1, keepdims=True), 1e-9)
    a[::5, 0] = 0.0
    found = loss.jacobians(a, weights, starts, bounded=bounded)
    for c, rows in enumerate(np.split(np.arange(40), starts[1:])):
        expected = loss.jacobian(a[rows], weights[rows], bounded=bounded)
        np.testing.assert_allclose(found[c], expected, rtol=1e-9, atol=1e-12 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("loss", LOSSES, ids=loss_id)
def test_overlapping_margins_are_all_met(loss: Loss) -> None:
    p, groups, labels = labelled_rows(9, 500, [6, 5, 2])
    tables = [rates_by_group(labels, g, g.max() + 1) for g in groups]
    fit, rows = solve(p, groups, [margin(f"m{i}", t) for i, t in enumerate(tables)], loss)
    assert fit.converged
    for of_row, table in zip(groups, tables, strict=True):
        np.testing.assert_allclose(rates_by_group(rows, of_row, len(table)), table, rtol=0, atol=1e-10)
    assert np.abs(rows.sum(axis=1) - 1).max() < 1e-12
    assert rows.min() >= 0
    assert 0 <= fit.loss_reduction <= loss.divergence(p, rows).mean() + 1e-9
    np.testing.assert_allclose(fit.after @ np.ones(3), 1.0)


@pytest.mark.parametrize("loss", [br.losses.Brier(), br.losses.RankedProbability()], ids=loss_id)
def test_unbounded_adjustment_meets_overlapping_margins(loss: Loss) -> None:
    p, groups, labels = labelled_rows(10, 200, [4, 3])
    tables = [rates_by_group(labels, g, g.max() + 1) for g in groups]
    tables[0][0] = [0.5, 0.5, 0.0]  # no face: entries may be negative
    labels = np.where((groups[0] == 0)[:, None], tables[0][0], labels)
    tables[1] = rates_by_group(labels, groups[1], 3)
    fit, rows = solve(p, groups, [margin("a", tables[0]), margin("b", tables[1])], loss, bounded=False)
    assert fit.converged
    for of_row, table in zip(groups, tables, strict=True):
        np.testing.assert_allclose(rates_by_group(rows, of_row, len(table)), table, rtol=0, atol=1e-10)
    assert rows.min() < 0


def test_logits_and_smoothing_are_read_like_without_groups() -> None:
    p, [groups], labels = labelled_rows(11, 200, [3])
    rates = rates_by_group(labels, groups, 3)
    for kernels in ("off", "always"):
        reading = Reading(from_logits=True, smoothing=1e-3)
        _, rows = solve(np.log(p), [groups], [margin("a", rates)], br.losses.Log(), reading=reading, kernels=kernels)
        alone = br.adjust(np.log(p[groups == 1]), rates[1], from_logits=True, zeros=1e-3)
        np.testing.assert_allclose(rows[groups == 1], alone.probs, rtol=0, atol=1e-12)
        reading = Reading(smoothing=1e-3)
        _, rows = solve(p, [groups], [margin("a", rates)], br.losses.Log(), reading=reading, kernels=kernels)
        np.testing.assert_allclose(rows[groups == 1], alone.probs, rtol=0, atol=1e-10)


def test_groups_without_information_stay_as_they_are() -> None:
    p, groups, labels = labelled_rows(12, 150, [4, 3])
    tables = [rates_by_group(labels, g, g.max() + 1) for g in groups]
    known = np.array([True, False, True, True])
    for kernels in ("off", "always"):
        fit, rows = solve(p, groups[:1], [margin("a", tables[0], known=known)], br.losses.Log(), kernels=kernels)
        np.testing.assert_allclose(rows[groups[0] == 1], p[groups[0] == 1], rtol=1e-15)
        assert fit.components.tolist() == [0, -1, 2, 3]
        assert not fit.shifts[0][1].any()
    one = margin("a", tables[0], known=known)
    nothing = margin("b", tables[1], known=np.zeros(3, dtype=bool))
    fit, rows = solve(p, groups, [one, nothing], br.losses.Log())
    np.testing.assert_allclose(rows[groups[0] == 1], p[groups[0] == 1], rtol=1e-15)
    _, expected = solve(p, groups[:1], [one], br.losses.Log())
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-9)


def test_redundant_nested_repeated_empty_and_single_row_groups_change_nothing() -> None:
    p, [groups], labels = labelled_rows(13, 120, [6])
    groups[:3] = [0, 1, 2]
    groups[groups == 5] = 4  # no row is in the last group
    single = np.where(np.arange(120) == 7, 1, 0)
    tables = [rates_by_group(labels, g, size) for g, size in ((groups, 6), (groups // 2, 3), (single, 2))]
    _, once = solve(p, [groups], [margin("a", tables[0])], br.losses.Log())
    _, twice = solve(p, [groups, groups], [margin("a", tables[0]), margin("again", tables[0])], br.losses.Log())
    np.testing.assert_allclose(twice, once, rtol=0, atol=1e-9)
    _, nested = solve(p, [groups, groups // 2], [margin("a", tables[0]), margin("pairs", tables[1])], br.losses.Log())
    np.testing.assert_allclose(nested, once, rtol=0, atol=1e-9)
    everything = labels.mean(axis=0, keepdims=True)
    overall = [np.zeros(120, dtype=np.intp), groups]
    _, with_overall = solve(p, overall, [margin("all", everything), margin("a", tables[0])], br.losses.Log())
    np.testing.assert_allclose(with_overall, once, rtol=0, atol=1e-9)
    fit, rows = solve(p, [groups, single], [margin("a", tables[0]), margin("one", tables[2])], br.losses.Log())
    assert fit.converged
    np.testing.assert_allclose(rows[7], labels[7], atol=1e-12)  # its rates are its label


def test_margins_that_nearly_coincide_need_few_passes() -> None:
    rng = np.random.default_rng(14)
    p, [groups], labels = labelled_rows(14, 4000, [20])
    other = np.where(rng.random(4000) < 0.95, groups, rng.integers(20, size=4000))
    margins = [margin("a", rates_by_group(labels, groups, 20)), margin("b", rates_by_group(labels, other, 20))]
    fit, _ = solve(p, [groups, other], margins, br.losses.Log(), stop=Stop(1e-9, 100))
    assert fit.converged
    assert fit.n_passes <= 8


@pytest.mark.parametrize("loss", [br.losses.Log(), br.losses.Brier(), br.losses.Power(1.5)], ids=loss_id)
@pytest.mark.parametrize(("width", "limit"), [(0.0, 8), (0.02, 10)])
def test_four_margins_need_few_passes(loss: Loss, width: float, limit: int) -> None:
    p, groups, labels = labelled_rows(15, 6000, [25, 6, 5, 2])
    margins = []
    for i, g in enumerate(groups):
        t = rates_by_group(labels, g, g.max() + 1)
        margins.append(
            margin(f"m{i}", np.maximum(t - width, 0), np.minimum(t + width, 1)) if width else margin(f"m{i}", t)
        )
    fit, _ = solve(p, groups, margins, loss, stop=Stop(1e-9, 100))
    assert fit.converged
    assert fit.n_passes <= limit


def test_large_systems_are_solved_by_conjugate_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    p, groups, labels = labelled_rows(16, 3000, [40, 30])
    tables = [rates_by_group(labels, g, g.max() + 1) for g in groups]
    boxes = [margin(f"m{i}", np.maximum(t - 0.03, 0), np.minimum(t + 0.03, 1)) for i, t in enumerate(tables)]
    for margins in ([margin(f"m{i}", t) for i, t in enumerate(tables)], boxes):
        _, small = solve(p, groups, margins, br.losses.Log())
        with monkeypatch.context() as patch:
            patch.setattr("baserate.core.cells.system.DENSE_SIZE", 0)
            fit, rows = solve(p, groups, margins, br.losses.Log())
        assert fit.converged
        assert fit.n_passes <= 10
        np.testing.assert_allclose(rows, small, rtol=0, atol=1e-8)


def test_balls_of_overlapping_margins_contain_the_rates() -> None:
    p, groups, labels = labelled_rows(17, 300, [4, 3])
    tables = [rates_by_group(labels, g, g.max() + 1) for g in groups]
    margins, radius = [], 0.04
    for i, t in enumerate(tables):
        regions = {g: Ball(one, 1 / np.maximum(one, 0.05), radius) for g, one in enumerate(t)}
        margins.append(margin(f"m{i}", np.zeros_like(t), np.ones_like(t), regions=regions))
    fit, rows = solve(p, groups, margins, br.losses.Log())
    assert fit.converged
    binding = 0
    for of_row, table in zip(groups, margins, strict=True):
        achieved = rates_by_group(rows, of_row, table.n_groups)
        for g, ball in table.regions.items():
            assert ball.distance(achieved[g]) <= radius + 1e-9
            binding += ball.distance(achieved[g]) > radius - 1e-9
    assert binding > 0


class CellChunks(ChunkEngine):
    """Rows in chunks, with cells: no order, no copy, no weights of cells known in advance."""

    def __init__(self, pieces: list[Any], cells: Ints, n_cells: int) -> None:
        super().__init__(pieces, None)
        self.cells, self.n_cells = cells, n_cells

    def map(self, task: Any, block_values: int = 0) -> Any:
        start = 0
        for piece in self.pieces:
            stop = start + len(piece)
            yield task(Block(piece, self.weights[start:stop], start, cells=self.cells[start:stop]))
            start = stop


@pytest.mark.parametrize("n_margins", [1, 2])
def test_rows_that_are_not_in_memory_give_the_same_answer(n_margins: int) -> None:
    p, groups, labels = labelled_rows(18, 500, [8, 3])
    groups, tables = groups[:n_margins], [rates_by_group(labels, g, g.max() + 1) for g in groups]
    margins = [margin(f"m{i}", t) for i, t in enumerate(tables[:n_margins])]
    dual = dual_of(p, groups, margins, br.losses.Log())
    cells = np.unique(np.stack(groups), axis=1, return_inverse=True)[1].ravel()
    rows = CellChunks(np.array_split(p, 7), cells, dual.design.n_cells)
    fit = fit_cells(replace(dual, rows=rows), STOP, keep_rows=True)
    _, expected = solve(p, groups, margins, br.losses.Log())
    assert fit.converged
    np.testing.assert_allclose(rows.answer(), expected, rtol=0, atol=1e-9)


def test_without_rows_the_fit_is_the_same() -> None:
    p, groups, labels = labelled_rows(19, 300, [5, 4])
    margins = [margin(f"m{i}", rates_by_group(labels, g, g.max() + 1)) for i, g in enumerate(groups)]
    for n in (1, 2):
        for kernels in ("off", "always"):
            dual = dual_of(p, groups[:n], margins[:n], br.losses.Log(), kernels=kernels)
            fit, other = (fit_cells(dual, STOP, keep_rows=keep_rows) for keep_rows in (True, False))
            np.testing.assert_array_equal(fit.cell_shifts, other.cell_shifts)
            np.testing.assert_allclose(fit.certified, other.certified, rtol=1e-12)
            np.testing.assert_array_equal(fit.after, other.after)


def test_many_difficult_groups_are_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(20)
    p, groups = random_rows(rng, 3000, 3, 4.0), np.arange(3000) % 150
    rates = rates_by_group(rng.dirichlet(np.ones(3), size=3000), groups, 150)
    fit, rows = solve(p, [groups], [margin("a", rates)], br.losses.Log(), kernels="always")
    assert fit.converged
    np.testing.assert_allclose(rates_by_group(rows, groups, 150), rates, rtol=0, atol=1e-10)


def test_components_are_found() -> None:
    members = np.array([[0, 0, 1, 2, 2], [0, 1, 1, 2, 3]])
    rates = np.full((4, 2), 0.5)
    design = dual_of(
        np.full((5, 2), 0.5), [members[0], members[1]], [margin("a", rates[:3]), margin("b", rates)], br.losses.Log()
    ).design
    groups = Groups.of(design, bounded=True)
    assert groups.n_components == 2
    assert groups.component_of_cell.tolist() == [0, 0, 0, 1, 1]
    assert [one.tolist() for one in groups.by_margin(groups.component_of_group)] == [[0, 0, 1], [0, 0, 1, 1]]


def test_a_search_that_stops_early_warns_once() -> None:
    p, groups, labels = labelled_rows(21, 300, [5, 4])
    margins = [margin(f"m{i}", rates_by_group(labels, g, g.max() + 1)) for i, g in enumerate(groups)]
    for n in (1, 2):
        with pytest.warns(NotConvergedWarning, match="rates of a group off by") as caught:
            fit, _ = solve(p, groups[:n], margins[:n], br.losses.Log(), stop=Stop(1e-10, 1))
        assert len(caught) == 1
        assert not fit.converged
        assert fit.loss_reduction >= 0
