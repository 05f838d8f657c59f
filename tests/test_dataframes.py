"""Dataframes are adjusted to dataframes of the same kind."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import baserate as br
from baserate.errors import BadLabels, BadOption, BadProbabilities, BadRates, BaserateError

P = np.random.default_rng(0).dirichlet([1, 2, 3], size=40)
NAMES = ["cat", "dog", "owl"]
RATES = {"owl": 0.2, "cat": 0.5, "dog": 0.3}
INDEX = pd.Index([f"row {i}" for i in range(40)], name="id")

MAKE = {
    "pandas": lambda p: pd.DataFrame(p, columns=NAMES, index=INDEX[: len(p)]),
    "polars": lambda p: pl.DataFrame(p, schema=NAMES),
    "pyarrow": lambda p: pa.table({name: p[:, j] for j, name in enumerate(NAMES)}),
}


def matrix(frame: Any) -> np.ndarray:
    return frame.to_pandas().to_numpy() if isinstance(frame, pa.Table) else frame.to_numpy()


def columns(frame: Any) -> list[str]:
    return frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)


@pytest.fixture(params=list(MAKE))
def make(request: pytest.FixtureRequest) -> Any:
    return MAKE[request.param]


def test_adjusted_dataframe_has_the_same_type_and_columns(make: Any) -> None:
    frame = make(P)
    result = br.adjust(frame, RATES)
    assert type(result.probs) is type(frame)
    assert columns(result.probs) == NAMES
    assert result.classes == tuple(NAMES)
    np.testing.assert_allclose(matrix(result.probs), br.adjust(P, [0.5, 0.3, 0.2]).probs, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(matrix(frame), P)


def test_the_pandas_index_and_its_name_are_kept() -> None:
    result = br.adjust(MAKE["pandas"](P), RATES)
    pd.testing.assert_index_equal(result.probs.index, INDEX)
    assert result.apply(MAKE["pandas"](P[:3])).index.tolist() == ["row 0", "row 1", "row 2"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtypes_are_kept(make: Any, dtype: str) -> None:
    frame = make(P.astype(dtype))
    out = br.adjust(frame, RATES).probs
    after = [f.type for f in out.schema] if isinstance(out, pa.Table) else list(out.dtypes)
    before = [f.type for f in frame.schema] if isinstance(frame, pa.Table) else list(frame.dtypes)
    assert after == before


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_requested_dtype_is_that_of_all_columns(make: Any, dtype: str) -> None:
    frame = make(P.astype(np.float64 if dtype == "float32" else np.float32))
    result = br.adjust(frame, RATES, dtype=dtype)
    for out in (result.probs, result.what_if(RATES).probs, result.apply(frame, dtype=dtype)):
        assert type(out) is type(frame)
        assert matrix(out).dtype == dtype
    np.testing.assert_array_equal(
        matrix(result.probs), br.adjust(matrix(frame), RATES, classes=NAMES, dtype=dtype).probs
    )
    nullable = pd.DataFrame(P, columns=NAMES).astype("Float64")
    assert set(br.adjust(nullable, RATES, dtype=dtype).probs.dtypes.astype(str)) == {dtype}


def test_a_float32_dataframe_shares_its_memory_with_the_answer() -> None:
    result = br.adjust(MAKE["pandas"](P.astype(np.float32)), RATES)
    assert result.answer.dtype == np.float32
    assert np.shares_memory(result.answer, result.probs["dog"].to_numpy())


def test_mixed_and_nullable_dtypes_are_adjusted() -> None:
    frame = pd.DataFrame({"a": pd.array([1, 0, 0], dtype="Int64"), "b": np.float32([0, 0.5, 1]), "c": [0.0, 0.5, 0.0]})
    out = br.adjust(frame, [0.3, 0.4, 0.3], loss="brier").probs
    assert str(out["b"].dtype) == "float32"
    assert out.to_numpy().mean(axis=0) == pytest.approx([0.3, 0.4, 0.3], abs=1e-6)


@pytest.mark.parametrize("rates", [pd.Series(RATES), pd.Series(RATES).sample(frac=1, random_state=1), RATES])
def test_rates_are_matched_by_class_name_in_any_order(make: Any, rates: Any) -> None:
    expected = br.adjust(P, [0.5, 0.3, 0.2]).probs
    np.testing.assert_allclose(matrix(br.adjust(make(P), rates).probs), expected, atol=1e-12)
    np.testing.assert_allclose(br.adjust(P, rates, classes=NAMES).probs, expected, atol=1e-12)


def test_value_counts_are_matched_by_their_index() -> None:
    counts = pd.Series([2, 2, 2, 0, 0, 1]).value_counts(normalize=True)  # sorted by frequency
    assert counts.index.tolist() == [2, 0, 1]
    np.testing.assert_allclose(br.adjust(P, counts).rates, [2 / 6, 1 / 6, 3 / 6], atol=1e-10)
    survey = br.Rates.from_counts(pd.Series(["dog", "owl", "dog"]).value_counts(), classes=NAMES)
    np.testing.assert_array_equal(survey.bounds(10), br.Rates.from_counts([0, 2, 1]).bounds(10))
    np.testing.assert_allclose(br.adjust(P, pd.Series([0.5, 0.3, 0.2])).rates, [0.5, 0.3, 0.2], atol=1e-10)
    np.testing.assert_allclose(br.adjust(P, pl.Series([0.5, 0.3, 0.2])).rates, [0.5, 0.3, 0.2], atol=1e-10)


def test_message_on_unmatched_names_lists_both_sides(make: Any) -> None:
    with pytest.raises(
        BadRates, match=r"no entry for 'owl' \(.*\); 'emu' is not among the classes 'cat', 'dog', 'owl'"
    ):
        br.adjust(make(P), {"cat": 0.5, "dog": 0.3, "emu": 0.2})
    result = br.adjust(make(P), RATES)
    emu = ["cat", "dog", "emu"]
    other = {
        pd.DataFrame: lambda: pd.DataFrame(P, columns=emu),
        pl.DataFrame: lambda: pl.DataFrame(P, schema=emu),
        pa.Table: lambda: pa.table(list(P.T), names=emu),
    }[type(make(P))]()
    with pytest.raises(
        BadProbabilities,
        match="no column 'owl'; the columns 'cat', 'dog', 'owl' are needed, but it has 'cat', 'dog', 'emu'",
    ):
        result.apply(other)


def test_column_names_may_be_numbers_or_booleans() -> None:
    frame = pd.DataFrame(P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), columns=[1, 0])
    for rates in ({0: 0.3, 1: 0.7}, pd.Series([0.3, 0.7])):
        np.testing.assert_allclose(br.adjust(frame, rates).probs.mean(), [0.7, 0.3])
        np.testing.assert_allclose(br.Adjuster(rates).fit(frame).transform(frame).mean(axis=0), [0.7, 0.3])
    booleans = frame.set_axis([True, False], axis=1)
    answer = br.adjust(booleans, pd.Series([0.3, 0.7], index=[False, True])).probs
    assert answer[True].mean() == pytest.approx(0.7)
    with pytest.raises(BadRates, match="contains 'b' twice"):
        br.adjust(frame, pd.Series([0.3, 0.3, 0.7], index=["b", "b", "a"]))


def test_a_pandas_row_is_matched_by_column_name() -> None:
    result = br.adjust(MAKE["pandas"](P), RATES)
    row = MAKE["pandas"](P).iloc[3]
    np.testing.assert_allclose(result.apply(row[::-1]), result.probs.iloc[3], atol=1e-12)


def test_classes_that_contradict_the_columns_are_refused() -> None:
    with pytest.raises(BadOption, match="are the column names in another order"):
        br.adjust(MAKE["pandas"](P), RATES, classes=["owl", "dog", "cat"])


def test_column_index_and_pandas_dtypes_are_kept_and_the_input_is_not_changed() -> None:
    frame = pd.DataFrame(P, columns=pd.MultiIndex.from_product([["p"], NAMES], names=["what", "animal"]), index=INDEX)
    out = br.adjust(frame, [0.5, 0.3, 0.2]).probs
    pd.testing.assert_index_equal(out.columns, frame.columns)
    out.index.name = "changed"
    assert frame.index.name == "id"
    for dtype in ("Float64", "Float32", "float32", "double[pyarrow]"):
        typed = pd.DataFrame(P, columns=NAMES).astype(dtype)
        assert br.adjust(typed, RATES).probs.dtypes.astype(str).tolist() == [dtype] * 3


def test_probs_returns_the_same_object_each_time() -> None:
    result = br.adjust(MAKE["pandas"](P), RATES)
    assert result.probs is result.probs


def test_message_on_extra_numeric_columns_suggests_columns() -> None:
    frame = MAKE["pandas"](P).assign(id=1.0)
    with pytest.raises(BadRates, match=r"the columns are 'cat', 'dog', 'owl', 'id'; select .* columns=\[\.\.\.\]"):
        br.adjust(frame, [0.5, 0.3, 0.2])
    assert columns(br.adjust(frame, RATES).probs) == NAMES


def test_other_columns_are_ignored_if_the_rates_name_the_classes_or_columns_selects(make: Any) -> None:
    frame = make(P)
    extra = [f"id{i}" for i in range(40)]
    if isinstance(frame, pd.DataFrame):
        frame.insert(0, "id", extra)
    elif isinstance(frame, pl.DataFrame):
        frame = frame.insert_column(0, pl.Series("id", extra))
    else:
        frame = frame.add_column(0, "id", pa.array(extra))
    with pytest.raises(BadProbabilities, match=r"column 'id' of probs contains .* select .* columns=\[\.\.\.\]"):
        br.adjust(frame, [0.5, 0.3, 0.2])
    named = br.adjust(frame, RATES)
    assert columns(named.probs) == NAMES
    np.testing.assert_allclose(matrix(named.probs), br.adjust(P, [0.5, 0.3, 0.2]).probs, atol=1e-12)
    result = br.adjust(frame, RATES, columns=["owl", "cat", "dog"])
    assert columns(result.probs) == ["owl", "cat", "dog"]
    np.testing.assert_allclose(matrix(result.probs)[:, [1, 2, 0]], br.adjust(P, [0.5, 0.3, 0.2]).probs, atol=1e-12)
    np.testing.assert_allclose(matrix(result.apply(frame)), matrix(result.probs), atol=1e-12)


def test_a_whole_dataframe_comes_back_with_its_columns_order_index_and_dtypes(make: Any) -> None:
    frame = make(P.astype("float32"))
    extra = list(range(40))
    if isinstance(frame, pd.DataFrame):
        frame.insert(1, "id", extra)
    elif isinstance(frame, pl.DataFrame):
        frame = frame.insert_column(1, pl.Series("id", extra))
    else:
        frame = frame.add_column(1, "id", pa.array(extra))
    result = br.adjust(frame, RATES)
    for whole in (result.frame, result.apply(frame, whole=True)):
        assert type(whole) is type(frame)
        assert columns(whole) == columns(frame)
        assert (whole.schema if isinstance(whole, pa.Table) else list(whole.dtypes)) == (
            frame.schema if isinstance(frame, pa.Table) else list(frame.dtypes)
        )
        assert np.asarray(whole["id"]).tolist() == extra
        for name in NAMES:
            np.testing.assert_array_equal(np.asarray(whole[name]), np.asarray(result.probs[name]))
    if isinstance(frame, pd.DataFrame):
        pd.testing.assert_index_equal(result.frame.index, frame.index)
    assert columns(frame)[1] == "id"


def test_a_copied_result_has_its_rows_but_not_the_dataframe() -> None:
    result = br.adjust(MAKE["pandas"](P), RATES)
    copied = pickle.loads(pickle.dumps(result))
    pd.testing.assert_frame_equal(copied.probs, result.probs)
    with pytest.raises(BaserateError, match="there is no dataframe"):
        _ = copied.frame


@pytest.mark.parametrize("names", [(0, 1, 2), ("0", "1", "2")])
def test_class_names_that_differ_only_in_type_are_matched(names: tuple[Any, ...]) -> None:
    frame = pd.DataFrame(P, columns=names)
    expected = br.adjust(P, [0.5, 0.3, 0.2]).probs
    for given in (int, str):
        rates = {given(2): 0.2, given(0): 0.5, given(1): 0.3}
        for known in (rates, pd.Series(rates), br.Rates.exact(rates), br.Rates.between(rates, rates)):
            np.testing.assert_allclose(br.adjust(frame, known).probs.to_numpy(), expected, atol=1e-9)
        named = br.Rates.exact([0.5, 0.3, 0.2], classes=[given(name) for name in names])
        np.testing.assert_allclose(br.adjust(frame, named).probs.to_numpy(), expected, atol=1e-9)
        y = np.array([given(j % 3) for j in range(40)])
        assert br.compare(frame, y, known, n_bootstrap=20).mean[0, 0] > 0
    result = br.adjust(P, [0.5, 0.3, 0.2], classes=names)
    turned = pd.DataFrame(P, columns=[0, 1, 2])[[2, 0, 1]]
    np.testing.assert_allclose(result.apply(turned).to_numpy(), expected, atol=1e-9)


def test_names_with_the_same_text_are_not_guessed() -> None:
    frame = pd.DataFrame(P, columns=["1", 1, "2"])
    np.testing.assert_allclose(br.adjust(frame, {"1": 0.5, 1: 0.3, "2": 0.2}).rates, [0.5, 0.3, 0.2], atol=1e-9)
    with pytest.raises(BadRates, match="because several names have this text; rename one"):
        br.adjust(P, {"1": 0.5, 1: 0.3, 2: 0.2}, classes=["1", "2", "3"])


def test_apply_matches_columns_by_name(make: Any) -> None:
    result = br.adjust(make(P), RATES)
    turned = make(P)
    turned = turned.select(NAMES[::-1]) if not isinstance(turned, pd.DataFrame) else turned[NAMES[::-1]]
    np.testing.assert_allclose(matrix(result.apply(turned)), matrix(result.probs), atol=1e-12)
    assert isinstance(result.apply(P[:2]), np.ndarray)
    saved = br.adjust(P, RATES, classes=NAMES)
    assert columns(saved.apply(turned)) == NAMES


def test_what_if_prior_adjust_and_pickles_keep_the_type(make: Any) -> None:
    frame = make(P)
    result = br.adjust(frame, RATES)
    assert type(result.what_if({"cat": 0.4, "dog": 0.4, "owl": 0.2}).probs) is type(frame)
    assert type(br.prior_adjust(frame, [0.3, 0.3, 0.4], RATES).probs) is type(frame)
    assert type(pickle.loads(pickle.dumps(result)).probs) is type(frame)


def test_message_on_missing_values_names_row_and_column() -> None:
    p = P.copy()
    p[7, 1] = np.nan
    for frame in (pd.DataFrame(p), pl.DataFrame(p).fill_nan(None), pd.DataFrame(p).convert_dtypes()):
        with pytest.raises(BadProbabilities, match=r"row 7, column ('column_1'|1) is nan"):
            br.adjust(frame, [0.5, 0.3, 0.2])


def test_unsupported_dataframes_and_columns_are_refused() -> None:
    class Remote:
        columns = ("a", "b", "c")

    with pytest.raises(BadProbabilities, match=r"Remote, whose rows are not in memory; call \.collect\(\)"):
        br.adjust(Remote(), [0.5, 0.3, 0.2])
    with pytest.raises(BadOption, match=r"the LazyFrame has the columns 'column_0', 'column_1', 'column_2'\. Select"):
        br.adjust(pl.DataFrame(P).lazy(), [0.5, 0.3, 0.2])
    with pytest.raises(BadProbabilities, match="unique column names"):
        br.adjust(pd.DataFrame(P, columns=["a", "a", "b"]), [0.5, 0.3, 0.2])
    with pytest.raises(BadOption, match="columns= selects columns of a dataframe, but probs is a ndarray"):
        br.adjust(P, [0.5, 0.3, 0.2], columns=["a"])
    with pytest.raises(BadOption, match=r"a list of column names, or a pattern such as 'p_\*', not 3"):
        br.adjust(MAKE["pandas"](P), RATES, columns=3)
    with pytest.raises(BadRates, match="the rates name 3 classes, 'owl', 'cat', 'dog', but one column is for two"):
        br.adjust(MAKE["pandas"](P), RATES, columns="cat")
    with pytest.raises(BadOption, match="columns contains 'cat' more than once"):
        br.adjust(MAKE["pandas"](P), RATES, columns=["cat", "cat"])
    with pytest.raises(BadProbabilities, match="no column 'bat'; the columns 'cat', 'bat' are needed"):
        br.adjust(MAKE["pandas"](P), RATES, columns=["cat", "bat"])


def test_labels_are_matched_by_class_name() -> None:
    y = np.array(NAMES)[np.arange(40) % 3]
    table = br.compare(MAKE["polars"](P), y, RATES, losses=["brier"], n_bootstrap=20)
    assert isinstance(table.to_frame(), pl.DataFrame)
    by_number = br.compare(P, np.arange(40) % 3, [0.5, 0.3, 0.2], losses=["brier"], n_bootstrap=20)
    np.testing.assert_allclose(table.mean, by_number.mean)
    with pytest.raises(BadLabels, match="'emu', which is not among the classes 'cat', 'dog', 'owl'"):
        br.compare(MAKE["polars"](P), np.where(y == "cat", "emu", y), RATES)
