"""Shifts and pipelines as ONNX models: onnxruntime gives what ``apply`` and ``predict_proba`` give."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deploy_support import fitted, hard_rows
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support import loss_id

import baserate as br
from baserate.deploy import onnx_nodes

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}
MATRIX = [[2.0, 0.5, 0.0, 0.3], [0.5, 1.0, 0.1, 0.0], [0.0, 0.1, 1.0, 0.2], [0.3, 0.0, 0.2, 1.5]]
LOSSES = [
    (br.losses.Log(), 2, True),
    (br.losses.Log(), 5, True),
    (br.losses.Log(), 300, True),
    (br.losses.Brier(), 2, True),
    (br.losses.Brier(), 5, True),
    (br.losses.Brier(), 5, False),
    (br.losses.Brier(), 300, True),
    (br.losses.WeightedBrier([0.2, 1.0, 5.0, 1.0]), 4, True),
    (br.losses.Quadratic(MATRIX), 4, True),
    (br.losses.Quadratic(MATRIX), 4, False),
    (br.losses.Quadratic([[1, 0.3], [0.3, 2]]), 2, True),
    (br.losses.RankedProbability(), 2, True),
    (br.losses.RankedProbability(), 6, True),
    (br.losses.RankedProbability(), 6, False),
    (br.losses.Spherical(), 4, True),
    (br.losses.Spherical(), 300, True),
    (br.losses.Power(0.5), 3, True),
    (br.losses.Power(1 - 1e-6), 3, True),
    (br.losses.Power(1.0), 3, True),
    (br.losses.Power(1.05), 3, True),
    (br.losses.Power(1.5), 4, True),
    (br.losses.Power(2.0), 3, False),
]


def run(model: Any, rows: Any) -> list[Any]:
    """The outputs of a model, from its bytes or its path."""
    session = ort.InferenceSession(str(model) if isinstance(model, Path) else model)
    return session.run(None, {session.get_inputs()[0].name: rows})


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("loss", "k", "bounded"), LOSSES, ids=loss_id)
def test_models_give_what_apply_gives(loss: Any, k: int, bounded: bool, dtype: str, tmp_path: Path) -> None:
    result, rows = fitted(loss, k, bounded=bounded), hard_rows(k).astype(dtype)
    result.to_onnx(tmp_path / "shift.onnx", dtype=dtype)
    [found] = run(tmp_path / "shift.onnx", rows)
    assert found.dtype == dtype
    assert np.abs(found - result.apply(rows)).max() <= TOLERANCE[dtype]


def test_unbounded_spherical_loss(tmp_path: Path) -> None:
    p = np.random.default_rng(0).dirichlet(np.full(3, 5.0), size=50)
    result = br.adjust(p, p.mean(axis=0) + np.array([0.02, 0.0, -0.02]), loss="spherical", bounded=False)
    result.to_onnx(tmp_path / "shift.onnx", dtype="float64")
    assert np.abs(run(tmp_path / "shift.onnx", p)[0] - result.probs).max() <= 1e-12


@pytest.mark.parametrize("loss", ["log", "brier", "ranked", br.losses.Power(0.5)], ids=str)
@pytest.mark.parametrize("reading", ["logits", "smoothing", "rate of 0"])
def test_logits_smoothing_and_rates_of_zero(loss: Any, reading: str, tmp_path: Path) -> None:
    rows = hard_rows(4)
    given: dict[str, Any] = {"logits": {"from_logits": True}, "smoothing": {"zeros": 1e-4}}.get(reading, {})
    if reading == "rate of 0":
        given, rows = {"rates": [0.0, 0.3, 0.0, 0.7]}, rows[(rows[:, [1, 3]] > 0).any(axis=1)]
    if reading == "logits":
        with np.errstate(divide="ignore"):
            rows = 3.0 + np.log(rows)
    result = fitted(loss, 4, **given)
    result.to_onnx(tmp_path / "shift.onnx", dtype="float64")
    assert np.abs(run(tmp_path / "shift.onnx", rows)[0] - result.apply(rows)).max() <= 1e-12


def test_shifts_that_are_infinite_in_the_limit(tmp_path: Path) -> None:
    p = np.array([[0.5, 0.0, 0.5], [0.3, 0.7, 0.0], [0.6, 0.4, 0.0], [0.2, 0.0, 0.8]])
    rows = np.vstack([p, [[0.1, 0.2, 0.7], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [1 - 1e-16, 0.0, 1e-200]]])
    for loss in ("log", br.losses.Power(0.5)):
        result = br.adjust(p, [0.25, 0.25, 0.5], loss=loss)
        assert result.model.limit_levels is not None
        result.to_onnx(tmp_path / "shift.onnx", dtype="float64")
        assert np.abs(run(tmp_path / "shift.onnx", rows)[0] - result.apply(rows)).max() <= 1e-12


@pytest.mark.parametrize("from_logits", [False, True])
def test_one_column(from_logits: bool, tmp_path: Path) -> None:
    p = np.array([0.1, 0.4, 0.7, 0.0, 1.0, 1e-300])
    if from_logits:
        with np.errstate(divide="ignore"):
            p = np.log(p) - np.log1p(-p)
    result = br.adjust(p[:3], 0.2, from_logits=from_logits)
    result.to_onnx(tmp_path / "shift.onnx", dtype="float64")
    [found] = run(tmp_path / "shift.onnx", p)
    assert found.shape == (6,)
    assert np.abs(found - result.apply(p)).max() <= 1e-12


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("loss", ["log", "brier", "ranked", "spherical", br.losses.Power(0.5)], ids=str)
def test_rows_that_apply_refuses_are_nan(loss: Any, dtype: str, tmp_path: Path) -> None:
    result = fitted(loss, 3, rates=[0.0, 0.4, 0.6])
    result.to_onnx(tmp_path / "shift.onnx", dtype=dtype)
    valid = np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])
    invalid = [[np.nan, 0.5, 0.5], [0.5, 0.5, np.nan], [0.0, 0.0, 0.0], [np.inf, 0.5, 0.5], [-0.5, 0.5, 1.0]]
    if loss == "log" or isinstance(loss, br.losses.Power):
        invalid.append([1.0, 0.0, 0.0])  # only a class of rate 0
    for row in invalid:
        with pytest.raises(br.BaserateError):
            result.apply(np.array([row]))
    [found] = run(tmp_path / "shift.onnx", np.vstack([valid, invalid]).astype(dtype))
    assert np.abs(found[:2] - result.apply(valid)).max() <= TOLERANCE[dtype]
    assert np.isnan(found[2:]).all()


@pytest.mark.parametrize("from_logits", [False, True])
def test_one_invalid_row_does_not_make_the_others_fail_for_a_matrix_that_is_not_diagonal(
    from_logits: bool, tmp_path: Path
) -> None:
    result = fitted(br.losses.Quadratic(MATRIX), 4, from_logits=from_logits)
    result.to_onnx(tmp_path / "shift.onnx", dtype="float64")
    valid = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]])
    invalid = [[np.nan, 0.5, 0.25, 0.25], [np.inf, 0.5, 0.5, 0.0], [-np.inf] * 4]
    [found] = run(tmp_path / "shift.onnx", np.vstack([invalid, valid]))
    assert np.isnan(found[:3]).all()
    assert np.abs(found[3:] - result.apply(valid)).max() <= 1e-12


@pytest.mark.parametrize("from_logits", [False, True])
def test_nan_in_one_column_stays_nan(from_logits: bool, tmp_path: Path) -> None:
    br.adjust([0.1, 0.4, 0.7], 0.2, from_logits=from_logits).to_onnx(tmp_path / "shift.onnx")
    [found] = run(tmp_path / "shift.onnx", np.array([np.nan, 0.0, 0.5, 1.0], dtype=np.float32))
    assert np.isnan(found).tolist() == [True, False, False, False]


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_numbers_in_one_column_that_are_no_probabilities_are_nan(dtype: str, tmp_path: Path) -> None:
    result = br.adjust([0.1, 0.4, 0.7], 0.2)
    result.to_onnx(tmp_path / "shift.onnx", dtype=dtype)
    [found] = run(tmp_path / "shift.onnx", np.array([1.5, np.inf, -0.5, 1 + 1e-6, 1.0], dtype=dtype))
    assert np.isnan(found).tolist() == [True, True, True, False, False]


def test_positive_probabilities_do_not_become_zero(tmp_path: Path) -> None:
    result = fitted("log", 3)
    result.to_onnx(tmp_path / "shift.onnx")
    [found] = run(tmp_path / "shift.onnx", np.array([[1.0, 1e-38, 1e-38], [1.0, 0.0, 1e-30]], dtype=np.float32))
    assert (found[0] > 0).all()
    assert found[1, 1] == 0


@pytest.mark.parametrize("opset", [16, 17, 18, 21, 23])
@pytest.mark.parametrize("loss", ["log", "brier", "spherical", "ranked", br.losses.Quadratic(MATRIX)], ids=loss_id)
def test_versions_of_the_operators(loss: Any, opset: int, tmp_path: Path) -> None:
    result, rows = fitted(loss, 4), hard_rows(4)
    result.to_onnx(tmp_path / "shift.onnx", dtype="float64", opset=opset)
    assert np.abs(run(tmp_path / "shift.onnx", rows)[0] - result.apply(rows)).max() <= 1e-12
    model = onnx.load(tmp_path / "shift.onnx")
    assert [one.version for one in model.opset_import] == [opset]


def test_a_loaded_shift_gives_the_same_model(tmp_path: Path) -> None:
    result = fitted("log", 3, classes=["a", "b", "c"])
    result.save(tmp_path / "shift.json")
    result.to_onnx(tmp_path / "one.onnx")
    br.load(tmp_path / "shift.json").to_onnx(tmp_path / "two.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


# Pipelines

X, Y = load_iris(return_X_y=True)
RATES = [0.6, 0.3, 0.1]


def converted(model: Any, rows: Any) -> list[Any]:
    skl2onnx = pytest.importorskip("skl2onnx")
    br.register_onnx_converters()
    options = None if isinstance(model, br.Adjuster) else {"zipmap": False}
    return run(skl2onnx.to_onnx(model, rows[:1], options=options).SerializeToString(), rows)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("names", [[0, 1, 2], ["a", "b", "c"]], ids=["numbers", "names"])
def test_pipeline_with_logistic_regression(names: list[Any], dtype: str) -> None:
    classifier = br.AdjustedClassifier(LogisticRegression())
    model = make_pipeline(StandardScaler(), classifier).fit(X, np.array(names)[Y])
    classifier = model[-1].adapt(model[:-1].transform(X), RATES)
    label, probs = converted(model, X.astype(dtype))
    assert np.abs(probs - model.predict_proba(X)).max() <= (1e-5 if dtype == "float32" else 1e-12)
    assert (label == model.predict(X)).all()
    assert probs.mean(axis=0) == pytest.approx(RATES, abs=1e-6)


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_pipeline_with_gradient_boosting_inside(loss: str) -> None:
    trees = HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=5)
    rows = np.round(X * 64) / 64  # exact in float32, so that no row changes its branch
    model = br.AdjustedClassifier(make_pipeline(StandardScaler(with_std=False), trees), loss=loss).fit(rows, Y)
    model.adapt(rows, RATES)
    label, probs = converted(model, rows.astype(np.float32))
    found = np.abs(probs - model.predict_proba(rows)).max(axis=1)
    assert np.mean(found <= 1e-5) >= 0.95  # the trees of skl2onnx compare in float32
    assert np.mean(label == model.predict(rows)) >= 0.95


def test_frozen_classifier_and_prior_adjustment() -> None:
    fitted_model = LogisticRegression(max_iter=1000).fit(X, Y)
    model = br.AdjustedClassifier(FrozenEstimator(fitted_model), method="prior", old_rates=[1 / 3] * 3)
    model.adapt(rates=RATES)
    weighted = fitted_model.predict_proba(X) * RATES
    _, probs = converted(model, X)
    assert np.abs(probs - weighted / weighted.sum(axis=1, keepdims=True)).max() <= 1e-12


@pytest.mark.parametrize("rates", [RATES, None], ids=["adjusted", "without rates"])
def test_adjuster(rates: Any) -> None:
    p = hard_rows(3)
    adjuster = br.Adjuster(rates, loss="spherical").fit(p)
    [found] = converted(adjuster, p)
    assert np.abs(found - adjuster.transform(p)).max() <= 1e-12


# Messages

GROUPS = br.adjust([0.2, 0.4, 0.3, 0.1], br.Rates.by("r", {"n": 0.2, "s": 0.3}), groups=["n", "n", "s", "s"])
NOT_ADAPTED = br.AdjustedClassifier(LogisticRegression(max_iter=1000)).fit(X, Y)
BAD = [
    (lambda path: fitted("log", 2).to_onnx(path, dtype="float16"), "dtype must be 'float32' or 'float64'"),
    (lambda path: fitted("log", 2).to_onnx(path, opset=11), "opset must be a whole number from 16 to 23, not 11"),
    (lambda path: fitted("log", 2).to_onnx(path, opset=True), "opset must be a whole number"),
    (lambda path: GROUPS.to_onnx(path), "an ONNX model has one shift for all rows.*by 'r'; use to_sql"),
    (lambda path: fitted(br.losses.Power(3), 3).to_onnx(path), "Power.*for beta above 2, rounding errors"),
    (
        lambda path: fitted(br.losses.Separable(np.exp, np.exp, np.exp, np.log), 3).to_onnx(path),
        "cannot be exported, because it is defined by Python code. ONNX is possible for Log",
    ),
    (
        lambda path: fitted(br.losses.Quadratic(np.eye(9) + 0.1), 9).to_onnx(path),
        "a Quadratic loss of 9 classes whose matrix is not diagonal cannot be exported",
    ),
    (lambda path: fitted("ranked", 51).to_onnx(path), "RankedProbability with 51 classes cannot be exported to ONNX"),
    (lambda path: fitted("log", 2).to_onnx(path.parent / "no" / "x.onnx"), "there is no folder"),
    (lambda path: fitted("log", 2).to_onnx("."), "cannot be written: it is a folder; pass the name of a file in it"),
    (
        lambda path: converted(br.AdjustedClassifier(LogisticRegression(max_iter=1000)).fit(X, Y), X),
        "is not adapted.*call adapt",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_messages(call: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "shift.onnx"
    path.write_text("old")
    with pytest.raises((br.BaserateError, OSError), match=message):
        call(path)
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["shift.onnx"]


@pytest.mark.parametrize("package", ["onnx", "skl2onnx"])
def test_without_the_extra(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r'pip install "baserate\[onnx\]"'):
        fitted("log", 2).to_onnx(tmp_path / "x.onnx") if package == "onnx" else br.register_onnx_converters()


def test_numbers_of_types_are_those_of_onnx() -> None:
    for name in ("DOUBLE", "FLOAT", "INT64", "STRING"):
        assert getattr(onnx_nodes, name) == getattr(onnx.TensorProto, name)
