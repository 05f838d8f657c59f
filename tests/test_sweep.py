"""The compiled solver of many small groups, against each group as a problem of its own and against definitions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from cells_support import random_rows
from numpy.typing import NDArray
from support import KERNEL_LOSSES, Array, kernel_setting, loss_id

import baserate as br
from baserate.core.contracts import CellChunk, SolvedCells
from baserate.core.newton import Target
from baserate.core.row_model import AdjustedRows, RowModel
from baserate.engines.memory import MemoryEngine
from baserate.inputs.reading import Reading
from baserate.losses import Loss
from baserate.passes import choose_passes
from baserate.support.answer_types import AnswerTypes

SIZES = [40, 1, 65, 300, 64, 128, 90]
FIRST = 20  # number of the first group, as in a later chunk

with_kernel = pytest.mark.parametrize("loss", KERNEL_LOSSES, ids=loss_id)


class Groups(NamedTuple):
    """Rows of several groups in random order, with the rates of each group."""

    p: Array
    weights: Array
    group: NDArray[np.intp]
    rates: Array

    @classmethod
    def random(cls, k: int, seed: int) -> Groups:
        """Groups that are easy: their rates are not far from their mean predictions."""
        rng = np.random.default_rng(seed)
        group = rng.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
        p, weights = random_rows(rng, len(group), k), rng.uniform(0.2, 2.0, size=len(group))
        rates = np.array([np.average(p[group == g], axis=0, weights=weights[group == g]) for g in range(len(SIZES))])
        rates *= rng.uniform(0.8, 1.25, size=rates.shape)
        return cls(p, weights, group, rates / rates.sum(axis=1, keepdims=True))


def swept(
    groups: Groups,
    loss: Loss,
    raw: NDArray[Any] | None = None,
    *,
    answer: str = "float64",
    weighted: bool = True,
    easy: NDArray[np.bool_] | None = None,
    **reading: Any,
) -> tuple[SolvedCells, NDArray[Any]]:
    """What the compiled solver returns, and the rows that it wrote."""
    raw, (n_groups, k) = groups.p if raw is None else raw, groups.rates.shape
    model = RowModel(
        loss, True, k, np.arange(k), Reading(**reading), answer_types=AnswerTypes.of_array(np.dtype(answer))
    )
    passes = choose_passes(model, MemoryEngine(raw, None), "always")
    order = np.argsort(groups.group, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(groups.group, minlength=n_groups))])
    rows = np.full(raw.shape, -1.0, dtype=answer)
    chunk = CellChunk(raw, groups.weights if weighted else None, order, starts, FIRST, rows)
    easy = np.ones(n_groups, dtype=bool) if easy is None else easy
    found = passes.solve_cells(chunk, groups.rates, easy, Target(1e-10, 500), store=True)
    assert found is not None
    return found._replace(cells=found.cells - FIRST), rows


def centred(shift: Array, rates: Array) -> Array:
    return np.where(rates > 0, shift - shift[rates > 0].mean(), 0.0)


@with_kernel
@pytest.mark.parametrize("k", [3, 10])
@pytest.mark.parametrize(
    "kind", ["weights", "no weights", "a rate of 0", "zeros", "smoothing", "normalize", "two classes"]
)
def test_all_easy_groups_are_solved(loss: Loss, k: int, kind: str) -> None:
    k = 2 if kind == "two classes" else k
    groups, reading, raw = Groups.random(k, seed=k), {}, None
    if kind == "a rate of 0":
        groups.rates[::2, k - 1] = 0.0
        groups.rates[1::2, 0] = 0.0
        groups.rates[:] /= groups.rates.sum(axis=1, keepdims=True)
    if kind == "zeros":
        if loss == br.losses.Log():
            pytest.skip("under log loss, groups with hard zeros are not easy")
        groups.p[::3, 0] = 0.0
        groups.p[:] /= groups.p.sum(axis=1, keepdims=True)
    if kind == "smoothing":
        reading = {"smoothing": 0.01}
    if kind == "normalize":
        raw, reading = groups.p * np.random.default_rng(1).uniform(0.1, 9, size=(len(groups.p), 1)), {"normalize": True}
    found, rows = swept(groups, loss, raw, weighted=kind != "no weights", **reading)
    assert found.cells.tolist() == list(range(len(SIZES)))
    for g, t in enumerate(groups.rates):
        here = groups.group == g
        p = (groups.p[here] + reading.get("smoothing", 0.0)) / (1 + k * reading.get("smoothing", 0.0))
        w = groups.weights[here] if kind != "no weights" else np.ones(here.sum())
        w = w / w.sum()
        with kernel_setting("off"):
            alone = br.adjust(p, t, loss=loss, sample_weight=w)
        np.testing.assert_allclose(rows[here], alone.probs, rtol=0, atol=1e-12)
        np.testing.assert_allclose(centred(found.shifts[g], t), centred(alone.shift, t), rtol=0, atol=1e-9)
        assert not found.shifts[g][t == 0].any()
        np.testing.assert_allclose(found.mean[g], w @ rows[here], rtol=0, atol=1e-14)
        np.testing.assert_array_equal(found.exact_mean[g], found.mean[g])
        np.testing.assert_allclose(found.before[g], w @ p, rtol=0, atol=1e-14)
        assert found.squared_weights[g] == pytest.approx(w @ w, rel=1e-13)
        assert found.divergence[g] == pytest.approx(w @ loss.divergence(p, rows[here]), rel=1e-9, abs=1e-15)
        assert found.shortfall[g] == 0
        # Without a class, the general method starts elsewhere.
        assert abs(found.n_passes[g] - alone.n_passes) <= (1 if kind == "a rate of 0" else 0)
        if loss == br.losses.Log():
            assert found.offset[g] == 0
            assert found.ceiling[g] == pytest.approx(-np.log(p.min()))
        else:
            squares = w @ np.square(p).sum(axis=1)
            assert found.offset[g] == pytest.approx(squares)
            assert found.ceiling[g] == pytest.approx(1 - 2 * p.min() + squares)


@with_kernel
@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_rows_that_are_rounded_to_float32_have_their_own_sums(loss: Loss, scale: float) -> None:
    groups = Groups.random(5, seed=5)
    for g in range(len(SIZES)):
        here = groups.group == g
        mean = np.average(groups.p[here], axis=0, weights=groups.weights[here])
        groups.rates[g] = mean + scale * (groups.rates[g] - mean)
    exact, rows = swept(groups, loss)
    found, rounded = swept(groups, loss, answer="float32")
    assert found.cells.tolist() == exact.cells.tolist() == list(range(len(SIZES)))
    np.testing.assert_array_equal(rounded, rows.astype(np.float32))
    np.testing.assert_allclose(found.exact_mean, exact.exact_mean, rtol=0, atol=1e-15)
    after = rounded.astype(float)
    model = RowModel(loss, True, 5, np.arange(5), Reading(), answer_types=AnswerTypes.of_array(np.dtype("float32")))
    for g, shift in enumerate(found.shifts):
        here = groups.group == g
        w = groups.weights[here] / groups.weights[here].sum()
        np.testing.assert_allclose(found.mean[g], w @ after[here], rtol=0, atol=1e-15)
        one = AdjustedRows(groups.p[here], loss.link(groups.p[here]), rows[here], after[here])
        assert found.divergence[g] == pytest.approx(w @ model.divergence(one), rel=1e-9, abs=1e-14)
        assert found.shortfall[g] == pytest.approx(w @ model.shortfall(one, shift), rel=1e-5, abs=1e-13)


@with_kernel
def test_groups_that_are_not_easy_are_left(loss: Loss) -> None:
    groups = Groups.random(4, seed=6)
    raw = groups.p.copy()
    raw[np.flatnonzero(groups.group == 2)[5], 1] = np.nan
    raw[np.flatnonzero(groups.group == 4)[63], 0] = -0.1
    raw[np.flatnonzero(groups.group == 5)[-1]] *= 1.01
    groups.weights[groups.group == 6] = 0.0
    easy = np.array([True, False, True, True, True, True, True])
    found, rows = swept(groups, loss, raw, easy=easy)
    assert found.cells.tolist() == [0, 3]
    assert (rows[~np.isin(groups.group, [0, 3])] == -1).all()
    _, others = swept(groups, loss, easy=easy)
    np.testing.assert_array_equal(rows[groups.group == 3], others[groups.group == 3])


def test_groups_with_hard_zeros_are_left_under_log_loss() -> None:
    groups = Groups.random(4, seed=7)
    raw = groups.p.copy()
    raw[np.flatnonzero(groups.group == 3)[7]] = [0.5, 0.0, 0.25, 0.25]
    found, _ = swept(groups, br.losses.Log(), raw)
    assert found.cells.tolist() == [0, 1, 2, 4, 5, 6]
