"""Ellipsoids of rates: the sets, their constructors, and adjustments to them, compared with cone programs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import baserate as br
from baserate.errors import BadRates, BaserateError, InfeasibleRates
from baserate.rates.ellipsoids import Ellipsoid

Array = NDArray[Any]
COVARIANCE = np.array([[0.02, -0.015, -0.005], [-0.015, 0.02, -0.005], [-0.005, -0.005, 0.01]])


def random_problem(seed: int, k: int = 4, rank: int | None = None, n: int = 12) -> tuple[Array, Array, Array]:
    """Rows, a centre, and the root of a covariance matrix."""
    rng = np.random.default_rng(seed)
    root = 0.05 * rng.normal(size=(k, k if rank is None else rank))
    return rng.dirichlet(np.ones(k), n), rng.dirichlet(3 * np.ones(k)), root - root.mean(axis=0)


def least_divergence(p: Array, centre: Array, root: Array, radius: float, loss: str) -> float:
    """The smallest mean divergence of rows whose mean lies in the ellipsoid, as a cone program."""
    a, u = cp.Variable(p.shape), cp.Variable(root.shape[1])
    rows = [cp.sum(a, 1) == 1, a >= 0, cp.sum(a, 0) / len(p) == centre + root @ u, cp.norm(u) <= radius]
    if (p == 0).any() and loss == "log":
        rows.append(a[p == 0] == 0)
    positive = np.where(p > 0, p, 1.0)
    size = cp.sum(cp.kl_div(a, positive) - positive + p) if loss == "log" else cp.sum_squares(a - p)
    return float(cp.Problem(cp.Minimize(size / len(p)), rows).solve(solver="CLARABEL"))


@pytest.mark.parametrize("loss", ["log", "brier"])
@pytest.mark.parametrize(("seed", "k", "rank"), [(0, 3, None), (1, 4, None), (2, 5, 2), (3, 4, 1), (4, 6, None)])
def test_adjustments_solve_the_cone_program(seed: int, k: int, rank: int | None, loss: str) -> None:
    p, centre, root = random_problem(seed, k, rank)
    result = br.adjust(p, br.Rates.near(centre, 0.8, metric=root @ root.T), loss=loss)
    assert result.converged
    expected = least_divergence(p, centre, root, 0.8, loss)
    assert result.certificate.loss_reduction == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_the_guarantee_holds_for_labels_whose_rates_lie_in_the_ellipsoid(loss: str) -> None:
    rng = np.random.default_rng(5)
    for seed in range(20):
        p, _, root = random_problem(seed, n=30)
        y = rng.integers(4, size=30)
        true_rates = np.bincount(y, minlength=4) / 30
        centre = np.maximum(true_rates + 0.3 * root @ rng.normal(size=4), 0.01)
        rates = br.Rates.near(centre / centre.sum(), 1.5, metric=root @ root.T)
        if not rates.contains(true_rates):
            continue
        result = br.adjust(p, rates, loss=loss)
        at = np.arange(30)
        if loss == "log":
            falls = np.log(result.probs[at, y] / p[at, y])
        else:
            falls = ((p - np.eye(4)[y]) ** 2).sum(axis=1) - ((result.probs - np.eye(4)[y]) ** 2).sum(axis=1)
        assert falls.mean() >= result.certificate.loss_reduction - 1e-12


def test_members_support_points_and_bounds_agree_with_sampled_boundary_points() -> None:
    rng = np.random.default_rng(0)
    _, centre, root = random_problem(7)
    ellipsoid = Ellipsoid.of(centre, root @ root.T, 0.3)
    u = rng.normal(size=(20_000, 4))
    boundary = centre + 0.3 * (u / np.linalg.norm(u, axis=1, keepdims=True)) @ root.T
    assert all(ellipsoid.distance(t) <= 0.3 * (1 + 1e-9) for t in boundary[:200])
    for shift in rng.normal(size=(5, 4)):
        support = ellipsoid.support(shift)
        assert shift @ support <= (boundary @ shift).min() + 1e-12
        assert shift @ support == pytest.approx((boundary @ shift).min(), abs=2e-3)
    low, high = ellipsoid.bounds()
    np.testing.assert_allclose(low, np.maximum(boundary.min(axis=0), 0), atol=2e-3)
    np.testing.assert_allclose(high, boundary.max(axis=0), atol=2e-3)


def test_the_curvature_is_the_derivative_of_the_support_point() -> None:
    _, centre, root = random_problem(8)
    ellipsoid = Ellipsoid.of(centre, root @ root.T, 0.7)
    shift, step = np.array([0.5, -1.0, 0.2, 0.8]), 1e-6
    numeric = [
        (ellipsoid.support(shift + step * e) - ellipsoid.support(shift - step * e)) / (2 * step) for e in np.eye(4)
    ]
    np.testing.assert_allclose(ellipsoid.support_curvature(shift), -np.array(numeric).T, atol=1e-8)


def test_an_ellipsoid_of_two_classes_is_an_interval() -> None:
    rates = br.Rates.near([0.7, 0.3], 2.0, metric=[[0.01, -0.01], [-0.01, 0.01]])
    np.testing.assert_allclose(rates.bounds(), [[0.5, 0.1], [0.9, 0.5]])
    p = np.array([0.2, 0.9, 0.8, 0.9])
    np.testing.assert_allclose(br.adjust(p, rates).probs, br.adjust(p, br.Rates.between(0.1, 0.5)).probs, atol=1e-9)


def test_a_radius_of_zero_means_exact_rates() -> None:
    p, centre, root = random_problem(2)
    result = br.adjust(p, br.Rates.near(centre, 0, metric=root @ root.T))
    np.testing.assert_allclose(result.probs, br.adjust(p, centre).probs, atol=1e-12)


def test_predictions_whose_mean_lies_in_the_ellipsoid_stay_as_they_are() -> None:
    p, _, root = random_problem(3)
    result = br.adjust(p, br.Rates.near(p.mean(axis=0), 0.1, metric=root @ root.T))
    np.testing.assert_allclose(result.probs, p, rtol=1e-14)


def test_names_put_the_matrix_in_the_order_of_the_columns() -> None:
    p, centre, root = random_problem(4, k=3)
    covariance = root @ root.T
    expected = br.adjust(p, br.Rates.near(centre, 0.8, metric=covariance)).probs
    frame = pd.DataFrame(p, columns=["ant", "bee", "cat"])[["cat", "ant", "bee"]]
    names = ["ant", "bee", "cat"]
    by_classes = br.Rates.near(centre, 0.8, metric=covariance, classes=names)
    by_dict = br.Rates.near(dict(zip(names, centre, strict=True)), 0.8, metric=covariance)
    table = pd.DataFrame(covariance, index=names, columns=names).loc[["bee", "cat", "ant"], ["bee", "cat", "ant"]]
    by_table = br.Rates.near(centre, 0.8, metric=table, classes=names)
    for rates in (by_classes, by_dict, by_table):
        np.testing.assert_allclose(br.adjust(frame, rates).probs[names].to_numpy(), expected, atol=1e-9)


def test_saved_adjustments_and_pickles_keep_the_ellipsoid(tmp_path: Path) -> None:
    p, centre, root = random_problem(5)
    rates = br.Rates.near(centre, 0.8, metric=root @ root.T, classes=["a", "b", "c", "d"])
    result = br.adjust(p, rates)
    result.save(tmp_path / "shift.json")
    known = br.load(tmp_path / "shift.json").certificate.known
    np.testing.assert_allclose(known.bounds(), rates.bounds())
    assert str(known) == str(rates) == str(pickle.loads(pickle.dumps(rates)))


def test_what_if_and_prior_adjustment_accept_ellipsoids() -> None:
    p, centre, root = random_problem(6)
    rates = br.Rates.near(centre, 0.8, metric=root @ root.T)
    again = br.adjust(p, np.full(4, 0.25)).what_if(rates)
    np.testing.assert_allclose(again.rates, br.adjust(p, rates).rates, atol=1e-9)
    prior = br.prior_adjust(p, np.full(4, 0.25), rates)
    wanted = p * centre / 0.25
    np.testing.assert_allclose(prior.probs, wanted / wanted.sum(axis=1, keepdims=True))
    assert prior.certificate.loss_reduction <= again.certificate.loss_reduction


def test_a_class_that_no_row_predicts_gets_rate_zero_if_the_ellipsoid_allows_it() -> None:
    p, _, root = random_problem(9, k=4)
    p[:, 3] = 0
    p /= p.sum(axis=1, keepdims=True)
    centre = np.array([0.5, 0.2, 0.28, 0.02])
    result = br.adjust(p, br.Rates.near(centre, 1.0, metric=root @ root.T))
    assert result.rates[3] == 0
    assert result.certificate.loss_reduction == pytest.approx(least_divergence(p, centre, root, 1.0, "log"), abs=2e-6)
    with pytest.raises(InfeasibleRates):
        br.adjust(p, br.Rates.near([0.3, 0.2, 0.1, 0.4], 1.0, metric=root @ root.T))


def test_hard_zeros_that_allow_no_rates_of_the_ellipsoid_are_an_error() -> None:
    p = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    with pytest.raises(InfeasibleRates):
        br.adjust(p, br.Rates.near([0.3, 0.3, 0.4], 1.0, metric=COVARIANCE / 100))


def test_groups_may_have_ellipsoids() -> None:
    p, centre, root = random_problem(10, n=40)
    groups = np.repeat(["north", "south"], 20)
    rates = br.Rates.near(centre, 0.8, metric=root @ root.T)
    result = br.adjust(p, br.Rates.by("region", {"north": rates, "south": [0.25] * 4}), groups=groups)
    np.testing.assert_allclose(result.probs[:20], br.adjust(p[:20], rates).probs, atol=1e-8)


def test_overlapping_margins_may_have_ellipsoids() -> None:
    p, centre, root = random_problem(11, k=3, n=12)
    region, age = np.repeat([0, 1], 6), np.tile([0, 1], 6)
    near = br.Rates.near(centre, 0.5, metric=root @ root.T)
    tables = br.Margins(
        br.Rates.by("region", {0: near}, unlisted="free"), br.Rates.by("age", {0: [0.3, 0.3, 0.4]}, unlisted="free")
    )
    result = br.adjust(p, tables, groups={"region": region, "age": age})
    a, u = cp.Variable(p.shape), cp.Variable(root.shape[1])
    rows = [cp.sum(a, 1) == 1, cp.sum(a[age == 0], 0) / 6 == np.array([0.3, 0.3, 0.4]), cp.norm(u) <= 0.5]
    rows.append(cp.sum(a[region == 0], 0) / 6 == centre + root @ u)
    least = cp.Problem(cp.Minimize(cp.sum(cp.kl_div(a, p)) / 12), rows).solve(solver="CLARABEL")
    assert result.certificate.loss_reduction == pytest.approx(least, abs=2e-6)


def test_samples_give_an_ellipsoid_that_holds_the_stated_share() -> None:
    draws = np.random.default_rng(0).dirichlet([20, 30, 50], size=1000)
    rates = br.Rates.from_samples(draws, 0.9)
    share = np.mean([rates.contains(draw) for draw in draws])
    assert 0.9 <= share <= 0.903
    np.testing.assert_allclose(rates.estimate(), draws.mean(axis=0))
    assert "draws represent" in rates.condition()
    assert rates.certainty == 0.9


def test_samples_of_one_class_and_samples_that_never_vary() -> None:
    draws = np.random.default_rng(0).beta(20, 80, size=400)
    low, high = br.Rates.from_samples(draws).bounds()
    assert np.mean((draws >= low[1]) & (draws <= high[1])) >= 0.95
    fixed = br.Rates.from_samples(np.tile([0.2, 0.3, 0.5], (50, 1)))
    np.testing.assert_allclose(fixed.bounds(), [[0.2, 0.3, 0.5]] * 2)
    absent = np.insert(np.random.default_rng(0).dirichlet([20, 30], size=200), 1, 0.0, axis=1)
    low, high = br.Rates.from_samples(absent).bounds()
    assert low[1] == pytest.approx(0)
    assert high[1] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (np.eye(2), r"shape \(2, 2\), but there are 3 classes"),
        ([[1, 0, 0], [1, 1, 0], [0, 0, 1]], "not symmetric"),
        (-np.eye(3), "negative variance"),
        (np.full((3, 3), np.nan), "not finite"),
        (["a", "b", "c"], "matrix of numbers"),
        (COVARIANCE + 0j, "has dtype complex128; take the real part"),
        (COVARIANCE.astype(str), "has dtype <U32"),
        (np.ma.masked_array(COVARIANCE, mask=np.eye(3)), "metric is a masked array"),
        (pd.DataFrame(COVARIANCE, columns=list("aab")), "classes contains 'a' more than once"),
    ],
)
def test_bad_matrices_are_refused(metric: Any, message: str) -> None:
    with pytest.raises(BaserateError, match=message):
        br.Rates.near([0.2, 0.3, 0.5], 1.0, metric=metric)


def as_tables(values: Array, names: list[Any]) -> dict[str, Any]:
    """Dataframes of several libraries."""
    columns = dict(zip(names, values.T, strict=True))
    return {"pandas": pd.DataFrame(columns), "polars": pl.DataFrame(columns), "pyarrow": pa.table(columns)}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_matrices_in_dataframes_are_matched_by_name(library: str) -> None:
    expected = br.Rates.near([0.2, 0.3, 0.5], 1.0, metric=COVARIANCE, classes=["a", "b", "c"])
    order = [2, 0, 1]
    matrix = as_tables(COVARIANCE[np.ix_(order, order)], ["c", "a", "b"])[library]
    for found in (
        br.Rates.near([0.2, 0.3, 0.5], 1.0, metric=matrix, classes=["a", "b", "c"]),
        br.Rates.near({"a": 0.2, "b": 0.3, "c": 0.5}, 1.0, metric=matrix),
        br.Rates.near(pd.Series({"a": 0.2, "b": 0.3, "c": 0.5}), 1.0, metric=matrix),
        br.Rates.near([0.5, 0.2, 0.3], 1.0, metric=matrix).on(("a", "b", "c"), 3),
    ):
        assert found.classes == ("a", "b", "c")
        np.testing.assert_array_equal(found.covariance, expected.covariance)
    with pytest.raises(BadRates, match="of metric are 'c', 'a', 'b', but the classes are 'x', 'y', 'z'"):
        br.Rates.near([0.2, 0.3, 0.5], 1.0, metric=matrix, classes=["x", "y", "z"])


def test_rows_and_columns_of_a_pandas_matrix_may_have_different_orders() -> None:
    expected = br.Rates.near([0.2, 0.3, 0.5], 1.0, metric=COVARIANCE).covariance
    names = pd.Index(["a", "b", "c"])
    frame = pd.DataFrame(COVARIANCE, names, names).loc[["b", "c", "a"]]
    found = br.Rates.near([0.2, 0.3, 0.5], 1.0, metric=frame, classes=["a", "b", "c"])
    np.testing.assert_array_equal(found.covariance, expected)
    with pytest.raises(BadRates, match="the rows of metric are 'b', 'c', 'x', but the classes are 'a', 'b', 'c'"):
        br.Rates.near([0.2, 0.3, 0.5], 1.0, metric=frame.rename(index={"a": "x"}))


def test_names_in_the_index_or_the_columns_of_a_matrix_are_enough() -> None:
    rates = {"a": 0.2, "b": 0.3, "c": 0.5}
    expected = br.Rates.near([0.2, 0.3, 0.5], 1.0, metric=COVARIANCE, classes=["a", "b", "c"])
    order, names = [2, 0, 1], ["c", "a", "b"]
    matrix = COVARIANCE[np.ix_(order, order)]
    for frame in (pd.DataFrame(matrix, index=names), pd.DataFrame(matrix, columns=names)):
        for found in (
            br.Rates.near(rates, 1.0, metric=frame),
            br.Rates.near([0.2, 0.3, 0.5], 1.0, metric=frame, classes=["a", "b", "c"]),
            br.Rates.near([0.5, 0.2, 0.3], 1.0, metric=frame).on(("a", "b", "c"), 3),
        ):
            np.testing.assert_array_equal(found.covariance, expected.covariance)
    with pytest.raises(BadRates, match="the rows of metric are 'x', 'y', 'z', but the classes are 'a', 'b', 'c'"):
        br.Rates.near(rates, 1.0, metric=pd.DataFrame(COVARIANCE, index=["x", "y", "z"]))


@pytest.mark.parametrize(
    ("metric", "shape"),
    [(pd.DataFrame(), r"\(0, 0\)"), (np.ones(2), r"\(2,\)"), (np.ones((2, 3)), r"\(2, 3\)"), (2.0, r"\(\)")],
)
def test_a_matrix_must_have_as_many_rows_as_columns(metric: Any, shape: str) -> None:
    with pytest.raises(BadRates, match=f"^metric has shape {shape}; pass a matrix of shape"):
        br.Rates.near({"a": 0.5, "b": 0.5}, 1, metric=metric)


def test_a_default_index_numbers_the_classes_in_the_order_of_the_rates() -> None:
    matrix = pd.DataFrame(COVARIANCE)
    for rates in ([0.2, 0.3, 0.5], {"a": 0.2, "b": 0.3, "c": 0.5}, pd.Series({"a": 0.2, "b": 0.3, "c": 0.5})):
        found = br.Rates.near(rates, 1.0, metric=matrix).on(("a", "b", "c"), 3)
        np.testing.assert_allclose(found.covariance, COVARIANCE, atol=1e-15)
    named = br.Rates.near([0.2, 0.3, 0.5], 1.0, metric=matrix, classes=["a", "b", "c"])
    np.testing.assert_allclose(named.covariance, COVARIANCE, atol=1e-15)
    by_number = br.Rates.near({2: 0.2, 1: 0.3, 0: 0.5}, 1.0, metric=matrix)
    np.testing.assert_allclose(by_number.on((0, 1, 2), 3).covariance, COVARIANCE, atol=1e-15)


@pytest.mark.parametrize("rates", [{"a": 0.2, "b": 0.3, "c": 0.5}, pd.Series({"a": 0.2, "b": 0.3, "c": 0.5})])
def test_the_order_of_a_matrix_without_names_must_be_clear(rates: Any) -> None:
    with pytest.raises(BadRates, match=r"the rows of metric have the order of the rates; .* leave out classes="):
        br.Rates.near(rates, 1.0, metric=COVARIANCE, classes=["c", "b", "a"])
    with pytest.raises(BadRates, match="pass the rates of all 3 classes"):
        br.Rates.near(rates[["a", "b"]] if isinstance(rates, pd.Series) else {"a": 0.2}, 1.0, metric=COVARIANCE)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_draws_in_dataframes_are_matched_by_name(library: str) -> None:
    draws = np.random.default_rng(0).dirichlet([20, 30, 50], size=200)
    table = as_tables(draws, ["a", "b", "c"])[library]
    assert br.Rates.from_samples(table).classes == ("a", "b", "c")
    found = br.Rates.from_samples(table, classes=["c", "a", "b"])
    assert found.classes == ("c", "a", "b")
    np.testing.assert_allclose(found.estimate(), draws.mean(axis=0)[[2, 0, 1]])
    with pytest.raises(BadRates, match="the columns of draws are 'a', 'b', 'c', but the classes are 'x', 'y', 'z'"):
        br.Rates.from_samples(table, classes=["x", "y", "z"])


DRAWS_OF_ILL = np.random.default_rng(0).beta(2, 8, size=200)


@pytest.mark.parametrize(
    "draws",
    [
        DRAWS_OF_ILL,
        DRAWS_OF_ILL[:, None],
        pd.Series(DRAWS_OF_ILL),
        pd.DataFrame(DRAWS_OF_ILL),
        pd.DataFrame(DRAWS_OF_ILL)[0],
        pl.Series(DRAWS_OF_ILL),
    ],
    ids=["array", "matrix", "Series", "dataframe", "column 0", "polars"],
)
def test_a_column_of_draws_without_a_name_is_of_the_second_of_two_classes(draws: Any) -> None:
    mean = DRAWS_OF_ILL.mean()
    for classes in (None, ["ill", "well"], [0, 1]):
        np.testing.assert_allclose(br.Rates.from_samples(draws, classes=classes).estimate(), [1 - mean, mean])


@pytest.mark.parametrize(
    "draws",
    [
        pd.Series(DRAWS_OF_ILL, name="ill"),
        pd.DataFrame({"ill": DRAWS_OF_ILL}),
        pl.DataFrame({"ill": DRAWS_OF_ILL}),
        pa.table({"ill": DRAWS_OF_ILL}),
    ],
    ids=["Series", "pandas", "polars", "pyarrow"],
)
def test_a_column_of_draws_with_a_name_is_of_the_class_with_this_name(draws: Any) -> None:
    mean = DRAWS_OF_ILL.mean()
    rates = br.Rates.from_samples(draws)
    assert str(rates).startswith(f"Rates from 200 draws: ill {mean:.4g}; ")
    assert f"ill {mean:.4g}" in rates._repr_html_()
    for order in (("ill", "well"), ("well", "ill")):
        expected = [mean if name == "ill" else 1 - mean for name in order]
        np.testing.assert_allclose(br.Rates.from_samples(draws, classes=list(order)).estimate(), expected)
        np.testing.assert_allclose(rates.on(order, 2).estimate(), expected)
        probs = pd.DataFrame(np.random.default_rng(1).dirichlet([2, 2], 100), columns=list(order))
        both = br.Rates.from_samples(np.column_stack([DRAWS_OF_ILL, 1 - DRAWS_OF_ILL]), classes=["ill", "well"])
        pd.testing.assert_frame_equal(br.adjust(probs, rates).frame, br.adjust(probs, both).frame)
    with pytest.raises(BadRates, match=r"the column of draws is 'ill', but the classes are 'Ill', 'Well'"):
        br.Rates.from_samples(draws, classes=["Ill", "Well"])
    with pytest.raises(BadRates, match=r"'ill' is not among the classes 'Ill', 'Well'"):
        rates.on(("Ill", "Well"), 2)


def test_draws_of_a_class_that_are_all_one_need_the_name_of_the_other_class() -> None:
    draws = pd.Series(np.ones(50), name="ill")
    np.testing.assert_array_equal(br.Rates.from_samples(draws, classes=["ill", "well"]).estimate(), [1.0, 0.0])
    with pytest.raises(BadRates, match="all draws of 'ill' are 1; pass classes= with the names of both classes"):
        br.Rates.from_samples(draws)


def test_a_message_about_too_few_draws_names_the_number_that_is_enough() -> None:
    draws = np.random.default_rng(0).dirichlet([2, 8], 100)
    for confidence in (0.3, 0.5, 0.9, 0.95, 0.96):
        for m in range(1, 100):
            try:
                br.Rates.from_samples(draws[:m], confidence)
            except BadRates as error:
                least = int(str(error).rsplit(maxsplit=1)[-1])
                assert m < least
            else:
                assert m >= least
                break


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (np.ones((1, 3)) / 3, "1 draw is too few for a confidence of 0.95; pass at least 19"),
        (np.ones((50, 2, 2)), "one row per draw"),
        (np.ones((50, 3)), "does not sum to 1"),
        (np.full((50, 3), np.nan), "not finite"),
        (np.tile([1.2, -0.2], (50, 1)), "below 0"),
        (np.ones((10, 2)) / 2, "too few"),
        ([["a", "b"]], "must be numbers"),
        (np.full((50, 2), 0.5 + 0j), "has dtype complex128; take the real part"),
        (np.ma.masked_array(np.full((50, 2), 0.5), mask=np.arange(100) == 7), "draws is a masked array"),
    ],
)
def test_bad_draws_are_refused(draws: Any, message: str) -> None:
    with pytest.raises(BadRates, match=message):
        br.Rates.from_samples(draws)


def test_an_ellipsoid_prints_its_centre_and_its_bounds() -> None:
    rates = br.Rates.near([0.5, 0.3, 0.2], 1.0, metric=COVARIANCE, classes=["ant", "bee", "cat"])
    assert str(rates) == "Rates within 1 (distance by a matrix) of ant 0.5, bee 0.3, cat 0.2"
    assert "at most" in rates._repr_html_()
    assert "bee" in rates._repr_html_()


def test_an_ellipsoid_around_one_rate_is_printed() -> None:
    rates = br.Rates.near(0.2, 1.0, metric=[[4e-4, -4e-4], [-4e-4, 4e-4]])
    assert repr(rates) == "Rates within 1 (distance by a matrix) of class 0 0.8, class 1 0.2"
    np.testing.assert_allclose(rates.estimate(), [0.8, 0.2])
    np.testing.assert_allclose(rates.bounds(), [[0.78, 0.18], [0.82, 0.22]])
    assert "class 1 0.2" in rates._repr_html_()


def test_rounding_of_nearly_certain_rates_is_no_negative_variance() -> None:
    rates = np.array([1 - 3e-12, 1e-12, 2e-12])
    covariance = (np.diag(rates) - np.outer(rates, rates)) / 10  # its diagonal is a difference that cancels
    covariance[0, 0] -= 1e-16
    assert br.Rates.near(rates, 1.0, metric=covariance).contains(rates)
    with pytest.raises(BadRates, match="negative variance"):
        br.Rates.near([0.2, 0.3, 0.5], 1.0, metric=np.diag([1e-6, 1e-6, -1e-6]))._validated()
