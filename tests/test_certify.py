"""The guarantee of a fixed shift on other rows: never above the true change of the loss, for any possible labels.

The least and the largest change over all labels are found by brute force: all labellings of a few rows are tried, and
those whose class rates are possible are kept.
"""

from __future__ import annotations

import itertools
import pickle
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from support import ALL_LOSSES, COMMON_LOSSES, Array, loss_id, number_of_cases

import baserate as br
from baserate.losses import Loss

N = 6  # Rows of a batch, all of whose labellings are tried.


@cache
def labellings(n: int, k: int) -> Array:
    return np.array(list(itertools.product(range(k), repeat=n)))


class Extremes(NamedTuple):
    least: float
    most: float
    size: float


def falls(loss: Loss, p: Array, a: Array) -> Array:
    """The fall of the loss of each row if each of the classes is true; NaN if the loss is infinite before and after."""
    per_label = [[loss.divergence(q, np.tile(label, (len(q), 1))) for label in np.eye(p.shape[1])] for q in (p, a)]
    with np.errstate(invalid="ignore"):
        return np.asarray(np.transpose(np.array(per_label[0]) - np.array(per_label[1])))


def extremes(loss: Loss, p: Array, a: Array, certificate: Any, weights: Array | None = None) -> Extremes | None:
    """The least and the largest fall of the mean loss over all labels for which the certificate holds."""
    n, k = p.shape
    w = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    labels, fall = labellings(n, k), falls(loss, p, a)
    change = (fall[np.arange(n), labels] * w).sum(axis=1)
    rates = np.stack([((labels == j) * w).sum(axis=1) for j in range(k)], axis=1)
    distinct, number = np.unique(rates.round(12), axis=0, return_inverse=True)
    possible = np.array([certificate.holds_for(one / one.sum()) for one in distinct])[number.ravel()]
    kept = change[possible & ~np.isnan(change)]
    size = 1.0 + float(np.nanmax(np.abs(np.where(np.isfinite(fall), fall, 0.0))))
    return Extremes(float(kept.min()), float(kept.max()), size) if kept.size else None


def assert_never_above(result: Any, probs: Any, rates: Any, **options: Any) -> Any:
    """Check a certificate against all possible labels, and return it."""
    certificate = result.certify(probs, rates, **options)
    reading = {name: value for name, value in options.items() if name not in ("sample_weight", "progress")}
    after = np.asarray(result.apply(probs, **reading), dtype=np.float64)
    before = np.asarray(probs, dtype=np.float64)
    before = before / before.sum(axis=1, keepdims=True)
    found = extremes(result.loss, before, after, certificate, options.get("sample_weight"))
    if found is not None:
        assert certificate.loss_reduction <= found.least + 1e-12 * found.size
        assert certificate.largest_fall >= found.most - 1e-12 * found.size
    return certificate


def predictions(rng: np.random.Generator, k: int, n: int, *, zeros: bool = False) -> Array:
    p = rng.dirichlet(np.full(k, rng.choice([0.4, 1.0, 4.0])), size=n) + 1e-6
    if zeros:
        p[rng.random(p.shape) < 0.25] = 0.0
        p[np.arange(n), rng.integers(k, size=n)] += 0.1
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def kinds_of_rates(rng: np.random.Generator, k: int) -> dict[str, Any]:
    """Rates of N rows, as they may be known."""
    counts = rng.multinomial(N, rng.dirichlet(np.ones(k)))
    low, high = np.maximum(counts / N - 0.2, 0.0), np.minimum(counts / N + 0.2, 1.0)
    return {
        "exact": counts / N,
        "between": br.Rates.between(low, high),
        "near": br.Rates.near(counts / N, 0.3, metric="euclidean"),
        "chi2": br.Rates.near((counts + 1) / (N + k), 0.6, metric="chi2"),
        "counts": br.Rates.from_counts(5 * counts + 1, confidence=0.8),
        "population": br.Rates.of_population((counts + 1) / (N + k), confidence=0.8),
        "unknown": br.Rates.between(None, None),
    }


KINDS = list(kinds_of_rates(np.random.default_rng(0), 2))


def fitted(rng: np.random.Generator, loss: Loss, k: int, *, zeros: bool = False, **options: Any) -> Any:
    """An adjustment of other rows; of some, one class has rate 0."""
    rates = rng.dirichlet(np.ones(k))
    if k > 2 and rng.random() < 0.3 and options.get("bounded", True):
        rates[rng.integers(k)] = 0.0
    p = predictions(rng, k, 20, zeros=zeros)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.errors.NotConvergedWarning)
        return br.adjust(p, rates / rates.sum(), loss=loss, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("loss", "k"), [one for one in ALL_LOSSES if one[1] <= 3], ids=loss_id)
def test_no_possible_labels_do_worse_than_certified(loss: Loss, k: int, kind: str) -> None:
    for seed in range(number_of_cases(8)):
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        result = fitted(rng, loss, k)
        assert_never_above(result, predictions(rng, k, N), kinds_of_rates(rng, k)[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", COMMON_LOSSES, ids=loss_id)
def test_no_possible_labels_do_worse_where_predictions_have_zeros(loss: Loss, kind: str) -> None:
    for seed in range(number_of_cases(12)):
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        try:
            result = fitted(rng, loss, 3, zeros=True)
            assert_never_above(result, predictions(rng, 3, N, zeros=True), kinds_of_rates(rng, 3)[kind])
        except br.InfeasibleRates:  # a row that gives probability only to a class of rate 0; apply refuses it as well
            continue


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [br.losses.Brier(), br.losses.Spherical(), br.losses.RankedProbability()], ids=loss_id)
def test_no_possible_labels_do_worse_after_an_unbounded_adjustment(loss: Loss, kind: str) -> None:
    for seed in range(number_of_cases(8)):
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        result = br.adjust(predictions(rng, 3, 20), 0.7 / 3 + 0.3 * rng.dirichlet(np.ones(3)), loss=loss, bounded=False)
        try:
            assert_never_above(result, predictions(rng, 3, N), kinds_of_rates(rng, 3)[kind])
        except br.errors.BadProbabilities as error:
            assert "no unbounded adjustment" in str(error)  # noqa: PT017  # of a few random rows


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("loss", "k"), [one for one in ALL_LOSSES if one[1] == 3], ids=loss_id)
def test_the_guarantee_holds_for_rounded_predictions(loss: Loss, k: int, dtype: str) -> None:
    for seed in range(number_of_cases(40)):
        rng = np.random.default_rng(seed)
        result, p = fitted(rng, loss, k), predictions(rng, k, N).astype(dtype)
        assert_never_above(result, p, rng.multinomial(N, np.ones(k) / k) / N, normalize=True)


def test_a_probability_that_is_too_small_for_float32_is_no_infinite_loss() -> None:
    result = br.adjust([[0.5, 0.5], [0.9, 0.1]], [0.999999, 0.000001])
    p = np.array([[1.0, 1e-40], [0.5, 0.5]])
    certificate = result.certify(p, [0.5, 0.5], dtype="float32")
    assert_never_above(result, p.astype(np.float32), [0.5, 0.5])
    assert np.isfinite(certificate.loss_reduction)


def test_rows_with_weights_are_certified_with_weighted_rates() -> None:
    for seed in range(number_of_cases(20)):
        rng = np.random.default_rng(seed)
        result, p, w = fitted(rng, br.losses.Log(), 2), predictions(rng, 2, N), rng.integers(1, 4, size=N)
        rates = br.Rates.between(0.2, 0.5)
        assert_never_above(result, p, rates, sample_weight=w)
        repeated = result.certify(np.repeat(p, w, axis=0), rates)
        assert result.certify(p, rates, sample_weight=w).loss_reduction == pytest.approx(repeated.loss_reduction)


def test_the_log_loss_changes_by_exactly_what_is_certified() -> None:
    rng = np.random.default_rng(1)
    result, p = fitted(rng, br.losses.Log(), 3), predictions(rng, 3, 500)
    y = rng.integers(3, size=500)
    certificate = result.certify(p, br.theory.class_rates(y, 3))
    change = result.loss.score(p, y) - result.loss.score(result.apply(p), y)
    assert certificate.loss_reduction == pytest.approx(change, abs=1e-12)
    assert certificate.largest_fall == pytest.approx(change, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_shift_certifies_the_rows_that_it_was_fitted_on_as_its_own_certificate_does(kind: str) -> None:
    for loss, k in ALL_LOSSES:
        if k > 3:
            continue
        rng = np.random.default_rng(2)
        p, rates = predictions(rng, k, N), kinds_of_rates(rng, k)[kind]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", br.errors.NotConvergedWarning)
            result = br.adjust(p, rates, loss=loss)
        again = result.certify(p, rates)
        own = result.certificate.loss_reduction
        assert again.loss_reduction == pytest.approx(own, abs=1e-12, rel=1e-9), loss
        assert again.same_rows


def test_where_the_old_shift_no_longer_fits_the_certificate_is_negative_and_the_loss_rises() -> None:
    rng = np.random.default_rng(3)
    old = br.adjust(rng.beta(1, 3, size=1000), 0.05)  # the disease was rare
    p = rng.beta(2, 2, size=1000)
    y = (rng.random(1000) < p).astype(int)  # it is common now, and the predictions are calibrated
    certificate = old.certify(p, y.mean())
    change = br.losses.Log().score(p, y) - br.losses.Log().score(old.apply(p), y)
    assert certificate.loss_reduction < -0.2
    assert change < 0
    assert change == pytest.approx(certificate.loss_reduction, abs=1e-12)
    roughly = repr(old.certify(p, br.Rates.between(y.mean() - 0.05, y.mean() + 0.05)))
    assert "may rise" in roughly
    assert "certainly rises" in roughly


def test_a_rise_that_is_known_exactly_is_printed_as_one_number() -> None:
    result, y = br.adjust([0.1, 0.4, 0.7, 0.9], 0.25), np.array([0, 1, 1, 1])
    new = np.array([0.2, 0.4, 0.6, 0.8])
    rise = br.losses.Log().score(result.apply(new), y) - br.losses.Log().score(new, y)
    text = repr(result.certify(new, 0.75))
    assert f"mean log loss rises by {rise:.6g}, if these rows have the given class rates" in text
    assert "may rise" not in text
    assert "certainly" not in text


def test_a_guarantee_below_zero_is_not_rounded_up_but_printed_as_zero() -> None:
    p = np.random.default_rng(0).dirichlet([1, 1, 1], 50)
    rates = p.mean(axis=0)  # for which the predictions are best as they are, so that every shift raises the loss
    certificate = br.adjust(p, rates + np.array([1e-7, -1e-7, 0])).certify(p, rates)
    assert -1e-12 < certificate.loss_reduction < 0
    assert "mean log loss falls by at least 0, if" in repr(certificate)


def test_a_class_that_the_shift_excludes_makes_an_infinite_loss_possible() -> None:
    result = br.adjust([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], {"a": 0.5, "b": 0.5, "c": 0}, classes=["a", "b", "c"])
    p = [[0.3, 0.3, 0.4], [0.4, 0.5, 0.1]]
    certificate = result.certify(p, br.Rates.between({"c": 0.0}, {"c": 0.2}))
    assert certificate.loss_reduction == -np.inf
    assert certificate.infinite == ("c",)
    assert "may become infinite" in repr(certificate)
    assert "the shift gives probability 0 to classes that may occur: c" in repr(certificate)
    assert np.isfinite(result.certify(p, {"a": 0.5, "b": 0.5, "c": 0.0}).loss_reduction)


def test_labels_that_were_impossible_before_are_not_considered() -> None:
    result = br.adjust([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]], [0.5, 0.5, 0.0])
    p = [[0.3, 0.7, 0.0], [0.4, 0.6, 0.0]]
    open_rates = br.Rates.between([0.5, 0.0, 0.0], [0.5, 0.5, 0.5])
    exact = result.certify(p, [0.5, 0.5, 0.0])
    assert result.certify(p, open_rates).loss_reduction == pytest.approx(exact.loss_reduction)


def test_a_row_that_allows_only_excluded_classes_is_refused_as_by_apply() -> None:
    result = br.adjust([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], [0.5, 0.5, 0.0])
    for call in (result.apply, lambda p: result.certify(p, [0.5, 0.5, 0.0])):
        with pytest.raises(br.InfeasibleRates, match="row 1 gives probability only to classes whose rate is 0"):
            call([[0.3, 0.3, 0.4], [0.0, 0.0, 1.0]])


def test_a_limit_at_infinity_is_certified_only_where_its_rates_are_reached_again() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.5, 0.3, 0.2], [0.0, 0.4, 0.6], [0.3, 0.6, 0.1]])
    result = br.adjust(p, [0.75, 0.0625, 0.1875])  # class 0 needs all three rows that allow it
    own = result.certify(p, [0.75, 0.0625, 0.1875])
    assert own.loss_reduction == pytest.approx(result.certificate.loss_reduction)
    assert_never_above(result, np.tile(p, (2, 1))[:N], [1 / 2, 1 / 3, 1 / 6])
    assert result.certify(p, [0.5, 0.25, 0.25]).loss_reduction == -np.inf


def test_prior_adjustments_and_loaded_ones_are_certified(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    for result in (
        br.prior_adjust(predictions(rng, 3, 10), [0.2, 0.3, 0.5], [0.5, 0.25, 0.25]),
        fitted(rng, br.losses.Power(3.0), 3),
        fitted(rng, br.losses.Brier(), 3),
    ):
        p, rates = predictions(rng, 3, N), [1 / 2, 1 / 6, 1 / 3]
        certificate = assert_never_above(result, p, rates)
        result.save(tmp_path / "shift.json")
        loaded = br.load(tmp_path / "shift.json")
        assert loaded.certify(p, rates).loss_reduction == certificate.loss_reduction


def test_all_engines_certify_the_same(tmp_path: Path) -> None:
    dask_array = pytest.importorskip("dask.array")
    dask_frame = pytest.importorskip("dask.dataframe")
    rng = np.random.default_rng(5)
    p, names = predictions(rng, 3, 3000), ["a", "b", "c"]
    result = br.adjust(pd.DataFrame(predictions(rng, 3, 100), columns=names), {"a": 0.2, "b": 0.5, "c": 0.3})
    rates = {"a": 0.3, "b": 0.4, "c": 0.3}
    frame = pd.DataFrame(p, columns=names)
    frame.to_parquet(tmp_path / "new.parquet", row_group_size=500)
    frame[["c", "a", "b"]].to_csv(tmp_path / "new.csv", index=False)
    wanted = result.certify(p, rates)
    for probs in (
        frame,
        pl.from_pandas(frame[["b", "a", "c"]]),
        tmp_path / "new.parquet",
        tmp_path / "new.csv",
        dask_array.from_array(p, chunks=(700, 3)),
        dask_frame.from_pandas(frame, npartitions=4),
    ):
        found = result.certify(probs, rates)
        assert found.loss_reduction == pytest.approx(wanted.loss_reduction, rel=1e-12)
        assert found.n_rows == 3000
        bounds = [one.for_population(0.9).loss_reduction for one in (found, wanted)]
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)


def test_logits_and_sums_are_read_as_apply_reads_them() -> None:
    rng = np.random.default_rng(6)
    result, p = fitted(rng, br.losses.Log(), 3), predictions(rng, 3, N)
    wanted = result.certify(p, [0.5, 0.25, 0.25]).loss_reduction
    assert result.certify(np.log(p), [0.5, 0.25, 0.25], from_logits=True).loss_reduction == pytest.approx(wanted)
    assert result.certify(7 * p, [0.5, 0.25, 0.25], normalize=True).loss_reduction == pytest.approx(wanted)
    smoothed = br.adjust([[0.9, 0.1], [1.0, 0.0]], [0.8, 0.2], zeros=0.01)
    assert "relative to smoothed predictions: 0.01" in repr(smoothed.certify([[0.5, 0.5]], [0.8, 0.2]))


def test_a_certificate_is_printed_saved_and_pickled() -> None:
    result = br.adjust([0.1, 0.4, 0.7, 0.9], 0.25)
    certificate = result.certify([0.2, 0.3, 0.6, 0.9], br.Rates.between(0.2, 0.3))
    text = repr(certificate)
    assert text.startswith("Guarantee of a fixed shift for 4 rows, 2 classes\n  mean log loss falls by at least")
    assert "if the rate of class 1 in these rows is between 0.2 and 0.3" in text
    assert "at least" in certificate._repr_html_()
    again = pickle.loads(pickle.dumps(certificate))
    assert again.loss_reduction == certificate.loss_reduction
    facts = certificate.to_json()
    assert facts["loss_reduction"] == certificate.loss_reduction
    assert facts["rows"] == 4
    assert facts["classes"][1]["at_most"] == 0.3


def test_the_fitted_rows_are_recognised_by_their_number_and_mean() -> None:
    p = [0.1, 0.4, 0.7, 0.9]
    result = br.adjust(p, 0.25)
    assert result.certify(p, 0.3).same_rows
    assert "fitted: same number, same mean" in repr(result.certify(p, 0.3))
    assert "the bound does not hold" in repr(result.certify(p, 0.3).for_population())
    assert not result.certify([0.1, 0.4, 0.7, 0.8], 0.3).same_rows


def small() -> br.Adjustment:
    return br.adjust([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7], classes=["cat", "dog"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: small().certify([[0.2, 0.3, 0.5]], [0.5, 0.5]), "new_probs has 3 columns, but the adjustment was fit"),
        (lambda: small().certify(np.zeros((0, 2)), [0.5, 0.5]), "new_probs is empty"),
        (lambda: small().certify([[0.2, 0.9]], [0.5, 0.5]), "row 0 .* sums to 1.1"),
        (lambda: small().certify([[np.nan, 0.9]], [0.5, 0.5]), "row 0"),
        (lambda: small().certify([[0.2, 0.8]], [0.5, 0.6]), "rates sum to 1.1"),
        (lambda: small().certify([[0.2, 0.8]], {"cat": 0.2, "cow": 0.8}), "cow"),
        (lambda: small().certify([[0.2, 0.8]], br.Rates.by("g", {"x": 0.5})), "rates per group, but the adjustment ha"),
        (lambda: small().certify([[0.2, 0.8]], [0.5, 0.5], sample_weight=[1, 2]), "sample_weight"),
        (lambda: small().certify([[0.2, 0.8]], [0.5, 0.5], normalize="yes"), "normalize must be True or False"),
        (lambda: small().certify(pd.DataFrame({"cat": [0.2], "cow": [0.8]}), [0.5, 0.5]), "dog"),
        (lambda: small().certify("nothing.parquet", [0.5, 0.5]), "nothing.parquet"),
        (lambda: small().certify([[0.2, 0.8]], [0.5, 0.5], columns=["cat"]), "columns"),
        (lambda: small().certify([[0.2, 0.8]], [0.5, 0.5]).for_population(95), "between 0 and 1, such as 0.95, not 95"),
        (lambda: small().certify([[0.2, 0.8]], [0.5, 0.5]).for_population("high"), "confidence must be a number"),
        (
            lambda: small().certify([[0.2, 0.8]] * 2, [0.5, 0.5], sample_weight=[1, 2]).for_population(),
            "unequal weights; pass a random sample without weights",
        ),
        (
            lambda: br.adjust([[0.5, 0.5]] * 2, [1, 0]).certify([[0.2, 0.8]], [0.5, 0.5]).for_population(),
            "fitted for a rate of 0 of class 1, but it may occur in the population; fit again",
        ),
        (
            lambda: (
                br.adjust([[0.6, 0.4]] * 2, [0.5, 0.5], loss="spherical", bounded=False)
                .certify([[0.2, 0.8]], [0.5, 0.5])
                .for_population()
            ),
            "no bound for single rows; fit with bounded=True",
        ),
    ],
)
def test_messages_on_bad_input(call: Any, message: str) -> None:
    with pytest.raises(br.BaserateError, match=message):
        call()


def test_rates_that_were_estimated_for_one_batch_are_refused_for_another_of_the_same_size() -> None:
    rng = np.random.default_rng(0)

    def predictions(n: int, rate: float) -> tuple[np.ndarray, np.ndarray]:
        y = rng.random(n) < rate
        return 1 / (1 + np.exp(-rng.normal(4.0 * y - 2.0))), y

    (validation, y), (old, _), (new, _) = predictions(500, 0.5), predictions(400, 0.2), predictions(400, 0.2)
    rates = br.estimate(old, probs_val=validation, y_val=y)
    result = br.adjust(old, rates)
    assert result.certify(old, rates).loss_reduction == pytest.approx(result.certificate.loss_reduction)
    with pytest.raises(br.errors.BadRates, match="estimated for other predictions"):
        result.certify(new, rates)
    result.certify(new, br.estimate(new, probs_val=validation, y_val=y))
