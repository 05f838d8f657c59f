"""The guarantee is about the numbers that are returned, whatever rounding, underflow or softening did to them.

The reference is the worst case: of all labels with the stated rates, a linear program finds those on which the loss of
the returned rows falls least.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog
from support import ALL_LOSSES, Array, cases, kernel_setting, labelled_problems, loss_id, mean_loss, number_of_cases

import baserate as br
from baserate.losses import Loss

ROUNDING = 1e-12  # Relative to the losses.


def losses_per_label(loss: Loss, p: Array) -> Array:
    """The loss of each row if each of the classes is true."""
    return np.stack([loss.divergence(p, np.tile(label, (len(p), 1))) for label in np.eye(p.shape[1])], axis=1)


def least_fall(loss: Loss, p: Array, a: Array, low: Array, high: Array, weights: Array | None = None) -> float:
    """The least fall of the mean loss from ``p`` to ``a`` on any labels whose rates are between the bounds."""
    n, k = p.shape
    w = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    before, after = losses_per_label(loss, p), losses_per_label(loss, a)
    allowed = np.isfinite(before) & (high > 0)  # other labels have an infinite loss before, or are impossible
    assert np.isfinite(after[allowed]).all()
    fall = np.where(allowed, before, 0.0) - np.where(allowed, after, 0.0)
    one_label = np.kron(np.eye(n), np.ones(k))
    rates = np.kron(w, np.eye(k))
    bounds = np.where(allowed, 1.0, 0.0).ravel()
    found = linprog(
        (w[:, None] * fall).ravel(),
        A_eq=one_label,
        b_eq=np.ones(n),
        A_ub=np.vstack([rates, -rates]),
        b_ub=np.concatenate([high, -low]) + 1e-13,
        bounds=np.stack([np.zeros(n * k), bounds], axis=1),
        method="highs",
    )
    assert found.success
    return float(found.fun)


def assert_kept(result: br.Adjustment, p: Array, rates: Any, weights: Array | None = None) -> float:
    """Check the guarantee on the worst labels, and return the fall of the loss on them."""
    low, high = rates if isinstance(rates, tuple) else (rates, rates)
    worst = least_fall(result.loss, p, result.probs, np.asarray(low), np.asarray(high), weights)
    before = losses_per_label(result.loss, p)
    size = 1.0 + float(np.where(np.isfinite(before), before, 0.0).max())
    assert result.certificate.loss_reduction <= worst + ROUNDING * size
    return worst


@pytest.mark.parametrize("beta", [1 + 1e-7, 1.001, 1.005, 1.05])
def test_a_probability_that_underflows_under_power_loss_still_lowers_the_loss(beta: float) -> None:
    p = np.array([[1.0, 0.0], [0.3, 0.7], [0.2, 0.8], [0.5, 0.5], [0.6, 0.4]])
    loss, y = br.losses.Power(beta), [1, 0, 1, 1, 0]  # labels with exactly these rates, one of them on the hard zero
    result = br.adjust(p, [0.4, 0.6], loss=loss)
    assert result.converged
    assert result.certificate.loss_reduction > 0.04
    assert loss.score(p, y) - loss.score(result.probs, y) >= result.certificate.loss_reduction - ROUNDING
    assert_kept(result, p, np.array([0.4, 0.6]))


@pytest.mark.parametrize("kernels", ["off", "always"])
@pytest.mark.parametrize("k", [2, 60])
def test_log_loss_makes_no_hard_zero_of_a_positive_probability(k: int, kernels: str) -> None:
    rng = np.random.default_rng(3)
    p = np.full((40, k), 1e-300)
    p[np.arange(40), rng.integers(k, size=40)] = 1.0
    p[::3, 0] = 1e-320  # denormal
    rates = np.arange(1.0, k + 1) ** 2
    with kernel_setting(kernels):
        result = br.adjust(p, rates / rates.sum(), normalize=True)
        assert result.probs.min() > 0
        np.testing.assert_array_equal(result.apply(p, normalize=True), result.probs)


@pytest.mark.parametrize("kernels", ["off", "always"])
def test_digits_are_not_lost_where_most_of_a_row_is_on_a_class_of_rate_0(kernels: str) -> None:
    # The last class of row 0 gets exp(-240) of the others, though its product with the factor of the shift underflows.
    p = np.array([[1.0, 1e-210, 1e-314], [0.0, 0.5, 0.5], [0.0, 0.9, 0.1]])
    p /= p.sum(axis=1, keepdims=True)
    with kernel_setting(kernels):
        result = br.adjust(p, [0.0, 1 - 1e-50, 1e-50])
    move = np.log(result.probs[:, 1:]) - np.log(p[:, 1:]) - result.dual_shift
    np.testing.assert_allclose(np.ptp(move, axis=1), 0.0, atol=1e-3)  # p itself has few digits there


def test_logits_of_800_give_no_infinite_loss() -> None:
    logits = np.array([[800.0, -800.0], [-800.0, 800.0], [3.0, -3.0], [0.0, 0.1]])
    result = br.adjust(logits, [0.25, 0.75], from_logits=True)
    assert result.probs.min() > 0
    before = np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)) + logits.max(axis=1)
    for first in range(4):  # all labels of which one is class 0
        y = np.where(np.arange(4) == first, 0, 1)
        fall = np.mean(before - logits[np.arange(4), y] + np.log(result.probs[np.arange(4), y]))
        assert fall >= result.certificate.loss_reduction - 1e-10


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_a_loose_tolerance_does_not_buy_a_negative_guarantee(tol: float) -> None:
    rng = np.random.default_rng(1)
    p, rates = rng.dirichlet(np.full(4, 0.3), size=30), rng.dirichlet(np.ones(4))
    result = br.adjust(p, rates, loss=br.losses.Power(20), tol=tol)
    assert result.converged
    assert result.model.softness <= 1e-8
    assert result.certificate.loss_reduction > 0
    assert_kept(result, p, rates)


@pytest.mark.parametrize("ratio", [1e3, 1e5, 1e7])
@pytest.mark.parametrize("diagonal", [True, False])
def test_class_weights_of_different_size_do_not_make_the_guarantee_too_large(ratio: float, diagonal: bool) -> None:
    rng = np.random.default_rng(1)
    p, rates = rng.dirichlet(np.full(4, 0.3), size=12), np.array([0.1, 0.2, 0.3, 0.4])
    weights = np.array([1.0, ratio, 3.0, np.sqrt(ratio)])
    root = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    loss = br.losses.WeightedBrier(weights) if diagonal else br.losses.Quadratic((root * weights) @ root.T)
    result = br.adjust(p, rates, loss=loss)
    worst = assert_kept(result, p, rates)
    assert result.certificate.loss_reduction == pytest.approx(worst, rel=1e-6)
    assert mean_loss(loss, p, result.probs, None) - worst <= result.certificate.gap + ROUNDING * ratio


def test_rows_that_do_not_belong_to_the_shift_lower_the_guarantee() -> None:
    class Careless(br.losses.Brier):
        """The Brier score, with a row map that is wrong in the third digit."""

        kernel = None

        def row_map(self, x: Array, *, bounded: bool = True) -> Array:
            a = super().row_map(x, bounded=bounded)
            return a + 1e-3 * (np.roll(a, 1, axis=1) - a)

    rng = np.random.default_rng(2)
    p, rates = rng.dirichlet(np.ones(3), size=8), np.array([0.5, 0.3, 0.2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.errors.NotConvergedWarning)
        result = br.adjust(p, rates, loss=Careless(), max_passes=8)
    assert_kept(result, p, rates)
    exact = br.adjust(p, rates, loss="brier")
    assert result.certificate.loss_reduction < exact.certificate.loss_reduction - 1e-5
    assert result.certificate.gap > 1e-5


EDGES = [
    br.losses.Log(), br.losses.Brier(), br.losses.Spherical(), br.losses.RankedProbability(), br.losses.Power(1.001),
    br.losses.Power(1.5), br.losses.Power(3.0), br.losses.Power(6.0),
]  # fmt: skip


@pytest.mark.parametrize("loss", EDGES, ids=loss_id)
@cases(40)
@given(data=st.data())
def test_the_guarantee_is_the_least_fall_of_the_loss(loss: Loss, data: st.DataObject) -> None:
    problem = data.draw(labelled_problems(zeros=True, losses=[loss]))
    p, rates, weights = problem["probs"], problem["rates"], problem["sample_weight"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.errors.NotConvergedWarning)
        result = br.adjust(p, rates, loss=loss, sample_weight=weights)
    worst = assert_kept(result, p, rates, weights)
    if result.converged:
        assert result.certificate.loss_reduction >= worst - result.certificate.gap - 1e-9


@pytest.mark.parametrize("kernels", ["off", "always"])
@pytest.mark.parametrize("loss", ["log", "brier"])
def test_the_guarantee_holds_for_the_rows_of_compiled_kernels(loss: str, kernels: str) -> None:
    for seed in range(number_of_cases(10)):
        rng = np.random.default_rng(seed)
        k = int(rng.choice([3, 5]))
        p, rates = rng.dirichlet(np.full(k, 0.2), size=10), rng.dirichlet(np.ones(k))
        bounds = (np.maximum(rates - 0.02, 0.0), np.minimum(rates + 0.02, 1.0))
        with kernel_setting(kernels):
            assert_kept(br.adjust(p, rates, loss=loss), p, rates)
            assert_kept(br.adjust(p, br.Rates.between(*bounds), loss=loss), p, bounds)


@pytest.mark.parametrize("dtype", ["float16", "float32", "Float32", "float[pyarrow]"])
def test_narrow_columns_do_not_make_hard_zeros_under_log_loss(dtype: str) -> None:
    frame = pd.DataFrame({"a": [0.9999, 0.5, 0.3], "b": [0.0001, 0.5, 0.7]}).astype(dtype)
    result = br.adjust(frame, {"a": 1 - 1e-30, "b": 1e-30})
    assert (result.probs.dtypes.astype(str) == dtype).all()
    assert (result.probs["b"] > 0).all()
    polars_frame = pl.DataFrame({"a": [0.9999, 0.5], "b": [0.0001, 0.5]}, schema={"a": pl.Float32, "b": pl.Float32})
    probs = br.adjust(polars_frame, {"a": 1 - 1e-30, "b": 1e-60}, normalize=True).probs
    assert probs.schema == polars_frame.schema
    assert probs["b"].min() > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files_have_no_hard_zeros_under_log_loss(dtype: Any, tmp_path: Path) -> None:
    a = np.array([0.9, 0.5, 0.3], dtype=dtype)
    pq.write_table(pa.table({"a": a, "b": 1 - a}), tmp_path / "two.parquet")
    pq.write_table(pa.table({"p": a}), tmp_path / "one.parquet")
    rates = br.Rates.exact([1e-60, 1.0])
    for name, columns in (("two.parquet", ["a", "b"]), ("one.parquet", ["p"])):
        br.adjust(tmp_path / name, rates, out=tmp_path / f"out {name}", columns=columns)
    two, one = (pq.read_table(tmp_path / f"out {name}.parquet") for name in ("two", "one"))
    assert two.schema.types == [pa.from_numpy_dtype(dtype)] * 2
    assert min(two["a"].to_pylist()) > 0
    assert one.schema.types == [pa.from_numpy_dtype(dtype)]
    assert max(one["p"].to_pylist()) < 1  # the other class has 1 minus this


def test_a_rate_that_is_lost_in_rounding_does_not_make_the_guarantee_too_large() -> None:
    # Class 3 needs less weight than the rounding error of the others, so the check of what hard zeros allow misses it.
    p = np.array([[0, 4, 4, 0], [4, 2, 0, 2], [0, 6, 0, 2], [0, 8, 0, 0], [2, 0, 4, 2], [1, 2, 3, 2]]) / 8
    weights = np.array([0.9626, 0.0118, 4.4e-17, 0.0256, 3.7e-16, 1.8e-11])
    weights /= weights.sum()
    rates = np.array([weights[1] + weights[4], 0.0, weights[5], weights[2]])
    rates[1] = 1.0 - rates.sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.errors.NotConvergedWarning)
        result = br.adjust(p, rates, sample_weight=weights)
    worst = least_fall(result.loss, p, result.probs, rates, rates, weights)
    assert 0.6 < result.certificate.loss_reduction <= worst + 1e-8  # as accurate as the linear program


def falls_per_label(loss: Loss, before: Array, after: Array) -> list[Array]:
    """The fall of the loss of each row if each of the classes is true; for log loss also by its usual formula."""
    with np.errstate(divide="ignore", invalid="ignore"):
        falls = [losses_per_label(loss, before) - losses_per_label(loss, after)]
        if isinstance(loss, br.losses.Log):
            falls.append(np.log(after) - np.log(before))
    # Labels with an infinite loss before and after are not considered. Labels with one after must be impossible.
    return [np.nan_to_num(fall, nan=np.inf, posinf=np.inf, neginf=-1e9) for fall in falls]


def worst_labels(fall: Array, counts: Array) -> float:
    """The least mean fall over all labels with these numbers of rows per class, as an assignment problem."""
    slots = np.repeat(np.arange(len(counts)), counts)
    rows, columns = linear_sum_assignment(fall[:, slots])
    return float(np.mean(fall[rows, slots[columns]], dtype=np.longdouble))


def rows_with_extremes(rng: np.random.Generator, k: int, loss: Loss, tiny: float) -> Array:
    """Nine ordinary rows, and three whose entries are 0 (if the loss can move them), ``tiny`` and 1e-40."""
    rows = rng.dirichlet(np.full(k, rng.choice([0.3, 1.0, 5.0])), size=12) + 1e-9
    rows[9:] = np.eye(k)[rng.integers(k, size=3)]
    rows[9] = np.maximum(rows[9], tiny)
    rows[10] = np.maximum(rows[10], 1e-40)
    rows[11] = np.maximum(rows[11], tiny if loss.pins_zeros else 0.0)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def narrow_inputs(p: Array) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The same predictions in several forms whose adjusted predictions are float32 or float16, and options."""
    names = [f"p{j}" for j in range(p.shape[1])]
    frame = pd.DataFrame(p.astype(np.float32), columns=names)
    return {
        "float32 by row": (p.astype(np.float32), {}),
        "float32 by column": (np.asfortranarray(p, dtype=np.float32), {}),
        "float16": (p.astype(np.float16), {}),
        "float64 to float32": (p, {"dtype": "float32"}),
        "pandas": (frame, {}),
        "pandas, float16": (frame.astype(np.float16), {}),
        "pandas, float64 and float32": (frame.astype({"p0": np.float64}), {}),
        "pandas, nullable": (frame.astype("Float32"), {}),
        "polars": (pl.from_pandas(frame), {}),
        "pyarrow": (pa.Table.from_pandas(frame), {}),
    }


FORMS = list(narrow_inputs(np.full((2, 2), 0.5)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernels", ["off", "always"])
@pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)
def test_the_guarantee_holds_for_rounded_predictions(loss: Loss, k: int, kernels: str, form: str) -> None:
    if kernels == "always" and loss.kernel is None:
        pytest.skip("the loss has no kernel")
    for seed in range(number_of_cases(3)):
        rng = np.random.default_rng(seed)
        # For Power(0.1), 1e-300 has a dual point of 1e270.
        tiny = 1e-300 if not isinstance(loss, br.losses.Power) or loss.beta >= 1 - 1e-3 else 1e-9
        p, counts = rows_with_extremes(rng, k, loss, tiny), rng.multinomial(12 - k, rng.dirichlet(np.ones(k))) + 1
        probs, options = narrow_inputs(p)[form]
        with kernel_setting(kernels), warnings.catch_warnings():
            warnings.simplefilter("ignore", br.errors.NotConvergedWarning)
            result = br.adjust(probs, counts / 12, loss=loss, normalize=True, **options)
            exact = br.adjust(probs, counts / 12, loss=loss, normalize=True, dtype="float64")
        before = np.asarray(probs, dtype=np.float64)
        before = before / before.sum(axis=1, keepdims=True)
        after = np.asarray(result.probs, dtype=np.float64)
        size = 1.0 + float(np.nan_to_num(losses_per_label(loss, before), posinf=0.0).max())
        for fall in falls_per_label(loss, before, after):
            assert result.certificate.loss_reduction <= worst_labels(fall, counts) + ROUNDING * size
        np.testing.assert_allclose(result.rates, after.mean(axis=0), rtol=0, atol=1e-15)
        assert result.certificate.residual == pytest.approx(np.abs(after.mean(axis=0) - counts / 12).max(), abs=1e-15)
        assert result.converged == exact.converged
        if form != "pandas, float64 and float32":  # which kernels do not solve in one block
            np.testing.assert_array_equal(result.dual_shift, exact.dual_shift)
            assert result.n_passes == exact.n_passes


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("loss", ["log", "brier", "spherical"])
@pytest.mark.parametrize("names", [["p0", "p1"], ["p1"]], ids=["two columns", "one column"])
def test_the_guarantee_holds_for_the_rows_of_files(names: list[str], loss: str, dtype: Any, tmp_path: Path) -> None:
    for seed in range(number_of_cases(5)):
        rng = np.random.default_rng(seed)
        p = np.append(rng.beta(0.5, 0.5, size=11), 1e-7).astype(dtype)
        count = int(rng.integers(2, 11))
        pq.write_table(pa.table({"p0": 1 - p, "p1": p}).select(names), tmp_path / "in.parquet")
        options: dict[str, Any] = {"columns": names, "loss": loss, "normalize": True}
        rates = br.Rates.exact([1 - count / 12, count / 12])
        result = br.adjust(tmp_path / "in.parquet", rates, out=tmp_path / "out.parquet", **options)
        out = pq.read_table(tmp_path / "out.parquet")
        assert out.schema.types == [pa.from_numpy_dtype(dtype)] * len(names)
        second = out["p1"].to_numpy().astype(np.float64)
        first = out["p0"].to_numpy().astype(np.float64) if len(names) == 2 else 1 - second
        stated = p if len(names) == 2 else p.astype(np.float64)  # the other class has 1 - p, without rounding
        after, before = np.column_stack([first, second]), np.column_stack([1 - stated, stated]).astype(np.float64)
        before /= before.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(result.rates, after.mean(axis=0), rtol=0, atol=1e-15)
        for fall in falls_per_label(result.loss, before, after):
            assert result.certificate.loss_reduction <= worst_labels(fall, np.array([12 - count, count])) + 1e-11
        fitted = br.adjust(tmp_path / "in.parquet", rates, **options)
        assert fitted.certificate.loss_reduction == result.certificate.loss_reduction


@pytest.mark.parametrize("kernels", ["off", "always"])
@pytest.mark.parametrize("loss", ["log", "brier", "spherical"])
def test_the_guarantee_for_float32_is_only_lower_by_the_rounding(loss: str, kernels: str) -> None:
    for k in (3, 60):  # kernels by row and by class
        rng = np.random.default_rng(k)
        p, rates = rng.dirichlet(np.ones(k), size=500).astype(np.float32), rng.dirichlet(np.full(k, 3.0))
        with kernel_setting(kernels):
            narrow, wide = (br.adjust(p, rates, loss=loss, dtype=dtype).certificate for dtype in (None, "float64"))
        assert 0 < wide.loss_reduction - narrow.loss_reduction < 1e-7
        assert narrow.gap < 1e-7
        assert wide.gap < 1e-9
