"""Tables of rates per group: their forms, what they mean, and how groups and classes are matched."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import baserate as br
from baserate.errors import BadOption, BadRates
from baserate.inputs.group_columns import code_values
from baserate.inputs.group_combinations import CombinationIndex, Combinations
from baserate.inputs.group_labels import GroupIndex
from baserate.rates import GroupedRates, from_json

REGIONS, CLASSES = ["north", "south"], ("late", "early", "fine")
RATES = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
WIDE = pd.DataFrame(RATES, columns=list(CLASSES)).assign(region=REGIONS)
LONG = WIDE.melt(id_vars="region", var_name="class", value_name="rate")
SIZES = np.array([40, 1000])


def write_csv(folder: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(folder / "rates.csv", index=False)
    return folder / "rates.csv"


FORMS: dict[str, Any] = {
    "pandas with a column": WIDE,
    "pandas with an index": WIDE.set_index("region"),
    "pandas with an index without a name": WIDE.set_index("region").rename_axis(None),
    "polars": pl.from_pandas(WIDE),
    "pyarrow": pa.Table.from_pandas(WIDE),
    "dict of dicts": WIDE.set_index("region").to_dict("index"),
    "long pandas": LONG,
    "long polars": pl.from_pandas(LONG).sample(fraction=1, shuffle=True, seed=1),
    "long bounds": LONG.assign(low=LONG["rate"], high=LONG["rate"]).drop(columns="rate"),
    "Series with the class as a level": LONG.set_index(["region", "class"])["rate"],
    "dict of Rates": {
        g: br.Rates.exact(dict(zip(CLASSES, r, strict=True))) for g, r in zip(REGIONS, RATES, strict=True)
    },
}


@pytest.mark.parametrize("table", FORMS.values(), ids=FORMS)
def test_all_forms_of_a_table_mean_the_same(table: Any) -> None:
    known = br.Rates.by("region", table).on(CLASSES, 3)
    assert isinstance(known, GroupedRates)
    sets = known.group_sets(SIZES)
    order = [known.labels.index((name,)) for name in REGIONS]
    np.testing.assert_allclose(sets.low[order], RATES, atol=1e-15)
    np.testing.assert_allclose(sets.high[order], RATES, atol=1e-15)
    assert sets.known.all()


@pytest.mark.parametrize("frame", [WIDE, LONG], ids=["wide", "long"])
def test_a_table_may_be_a_csv_file(tmp_path: Path, frame: pd.DataFrame) -> None:
    known = br.Rates.by("region", write_csv(tmp_path, frame)).on(CLASSES, 3)
    np.testing.assert_allclose(known.bounds()[0], RATES)


@pytest.mark.parametrize(
    "table",
    [
        {"north": 0.2, "south": 0.1},
        pd.Series({"north": 0.2, "south": 0.1}),
        pd.DataFrame({"region": REGIONS, "rate": [0.2, 0.1]}),
        pl.DataFrame({"region": REGIONS, "low": [0.2, 0.1], "high": [0.2, 0.1]}),
    ],
    ids=["dict", "Series", "pandas", "polars"],
)
def test_one_number_per_group_is_about_the_second_of_two_classes(table: Any) -> None:
    low, high = br.Rates.by("region", table).bounds()
    np.testing.assert_allclose(low, [[0.8, 0.2], [0.9, 0.1]])
    np.testing.assert_allclose(high, low)


def test_missing_entries_are_unknown_and_a_single_one_has_the_rest() -> None:
    table = {"a": {"late": 0.2, "early": None, "fine": np.nan}, "b": {"late": 0.2, "early": 0.3}, "c": None}
    sets = br.Rates.by("g", table).on(CLASSES, 3).group_sets(None)
    np.testing.assert_allclose(sets.low, [[0.2, 0, 0], [0.2, 0.3, 0.5], [0, 0, 0]])
    np.testing.assert_allclose(sets.high, [[0.2, 0.8, 0.8], [0.2, 0.3, 0.5], [1, 1, 1]])
    assert sets.known.tolist() == [True, True, False]


def test_empty_cells_and_bounds_in_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("region,late,fine\nnorth,10%,\nsouth,0.1..0.2,\neast,,\n", encoding="utf-8")
    low, high = br.Rates.by("region", tmp_path / "r.csv").on(("late", "fine"), 2).bounds()
    np.testing.assert_allclose(low, [[0.1, 0.9], [0.1, 0.8], [0, 0]])
    np.testing.assert_allclose(high, [[0.1, 0.9], [0.2, 0.9], [1, 1]])


def test_a_group_of_several_columns_is_a_tuple() -> None:
    table = {("CA", 1): 0.2, ("CA", 2): 0.1, ("NY", 1): 0.4}
    known = br.Rates.by(["state", "age"], table)
    assert known.labels == [("CA", 1), ("CA", 2), ("NY", 1)]
    frame = pd.DataFrame(
        [0.2, 0.1, 0.4], index=pd.MultiIndex.from_tuples(table, names=["state", "age"]), columns=["rate"]
    )
    for same in (pd.Series(table), frame, frame.reset_index(), frame.swaplevel()):
        other = br.Rates.by(["state", "age"], same)
        assert other.labels == known.labels
        np.testing.assert_array_equal(other.low, known.low)


def test_rounding_turns_exact_rates_into_intervals() -> None:
    table = {"a": {"x": 0.33, "y": 0.33, "z": 0.33}, "b": {"x": 0.5, "y": 0.25, "z": 0.25}}
    for rounding in (0.005, "auto"):
        sets = br.Rates.by("g", table, rounding=rounding).on(("x", "y", "z"), 3).group_sets(None)
        np.testing.assert_allclose(sets.low[0], [0.33, 0.33, 0.33], atol=1e-12)
        np.testing.assert_allclose(sets.high[0], [0.335, 0.335, 0.335], atol=1e-12)
        np.testing.assert_allclose(sets.low[1], [0.495, 0.245, 0.245], atol=1e-12)
    with pytest.raises(BadRates, match=r"g 'a' sum to 0.99, not 1; .*rounding='auto'"):
        br.Rates.by("g", table).on(("x", "y", "z"), 3)
    assert br.Rates.by("g", {"a": 1 / 3}, rounding="auto").rounding == 0
    assert br.Rates.by("g", {"a": 0.5, "b": 2e-5}, rounding="auto").rounding == pytest.approx(5e-6)


def test_each_group_of_a_joint_survey_gets_its_share_of_the_level() -> None:
    counts = pd.DataFrame({"ill": [3, 10, 4], "well": [47, 90, 96]}, index=["a", "b", "c"])
    joint = br.Rates.by("clinic", counts, kind="counts").on(("ill", "well"), 2)
    single = br.Rates.by("clinic", counts, kind="counts", joint=False).on(("ill", "well"), 2)
    sizes = np.array([100, 200, 300])
    for known, confidence in ((joint, 1 - 0.05 / 3), (single, 0.95)):
        sets = known.group_sets(sizes)
        for i, size in enumerate(sizes.tolist()):
            low, high = br.Rates.from_counts(counts.iloc[i].tolist(), confidence).bounds(size)
            np.testing.assert_allclose(sets.low[i], low)
            np.testing.assert_allclose(sets.high[i], high)
    assert joint.certainty == pytest.approx(0.95)
    assert single.certainty == pytest.approx(0.85)
    assert "95 % confidence for all groups together" in joint.condition()
    assert "95 % confidence for each group by itself" in single.condition()


def test_groups_without_a_survey_get_no_share_of_the_level() -> None:
    counts = pd.DataFrame({"ill": [3, np.nan], "well": [47, np.nan]}, index=["a", "b"])
    known = br.Rates.by("clinic", counts, kind="counts").on(("ill", "well"), 2)
    sets = known.group_sets(np.array([100, 100]))
    np.testing.assert_allclose(sets.low[0], br.Rates.from_counts([3, 47]).bounds(100)[0])
    assert sets.known.tolist() == [True, False]


def test_objects_of_any_kind_may_be_mixed_in_one_table() -> None:
    table = {
        "a": br.Rates.between([0.1, None], [0.2, None]),
        "b": br.Rates.from_counts([3, 47]),
        "c": br.Rates.near([0.5, 0.5], 0.1),
        "d": br.Rates.of_population([0.3, 0.7]),
        "e": None,
    }
    known = br.Rates.by("g", table).on(None, 2)
    sets = known.group_sets(np.array([100, 200, 300, 400, 500]))
    np.testing.assert_allclose(sets.low[0], [0.1, 0.8])
    np.testing.assert_allclose(sets.low[1], br.Rates.from_counts([3, 47], 0.975).bounds(200)[0])
    np.testing.assert_allclose(sets.low[3], br.Rates.of_population([0.3, 0.7], 0.975).bounds(400)[0])
    assert sets.regions[2].radius == pytest.approx(0.1)
    assert sets.known.tolist() == [True, True, True, True, False]
    assert known.certainty == pytest.approx(0.95)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("design_effect", [1.0, 1.9])
def test_surveys_of_many_groups_have_the_bounds_of_single_surveys(k: int, design_effect: float) -> None:
    rng = np.random.default_rng(k)
    counts = rng.integers(0, rng.choice([2, 10, 300], (60, 1)), (60, k)) + (np.arange(k) == 0)
    sizes = rng.choice([1, 2, 30, 1000, 10**6], 60)
    table = pd.DataFrame(counts, columns=[f"c{j}" for j in range(k)])
    options = {"kind": "counts", "joint": False, "confidence": 0.9, "design_effect": design_effect}
    known = br.Rates.by("g", table.rename_axis("g").reset_index(), **options).on(tuple(table), k)
    for of_rows in (sizes, None):
        sets = known.group_sets(of_rows)
        for i in range(60):
            size = None if of_rows is None else int(sizes[i])
            low, high = br.Rates.from_counts(counts[i], 0.9, design_effect=design_effect).bounds(size)
            np.testing.assert_allclose(sets.low[i], low, atol=1e-12)
            np.testing.assert_allclose(sets.high[i], high, atol=1e-12)


def test_a_survey_of_nobody_says_nothing() -> None:
    table = pd.DataFrame({"x": [0, 3], "y": [0, 4]}, index=["a", "b"])
    sets = br.Rates.by("g", table, kind="counts").on(("x", "y"), 2).group_sets(np.array([10, 10]))
    assert sets.known.tolist() == [False, True]


def test_population_rates_agree_with_those_of_one_group() -> None:
    known = br.Rates.by("g", {"a": {"x": 0.2, "y": 0.3, "z": 0.5}}, kind="population").on(("x", "y", "z"), 3)
    sets = known.group_sets(np.array([50]))
    low, high = br.Rates.of_population([0.2, 0.3, 0.5]).bounds(50)
    np.testing.assert_allclose(sets.low[0], low)
    np.testing.assert_allclose(sets.high[0], high)


def test_a_table_can_be_checked_for_membership() -> None:
    known = br.Rates.by("g", {"a": {"x": (0.1, 0.2)}, "b": {"x": 0.5}}).on(("x", "y"), 2)
    assert known.contains({"a": {"x": 0.15, "y": 0.85}, "b": {"x": 0.5, "y": 0.5}})
    assert not known.contains({"a": {"x": 0.25, "y": 0.75}, "b": {"x": 0.5, "y": 0.5}})
    assert known.contains({"b": {"x": 0.5, "y": 0.5}})


@pytest.mark.parametrize(
    "table",
    [
        WIDE,
        {"a": {"x": (0.1, 0.2), "y": None}, "b": None},
        {"a": br.Rates.from_counts({"x": 3, "y": 4}), "b": br.Rates.exact({"x": 0.5, "y": 0.5})},
        {datetime.date(2024, 1, 1): 0.2, datetime.date(2024, 1, 2): 0.3},
    ],
    ids=["exact", "bounds", "objects", "days"],
)
def test_saved_rates_are_the_same_rates(table: Any) -> None:
    import json

    known = br.Rates.by("region", table)
    names = known.named_classes or None
    resolved = known.on(names, len(names) if names else 2)
    back = from_json(json.loads(json.dumps(resolved.to_json())), names)
    assert isinstance(back, GroupedRates)
    for mine, other in zip(resolved.group_sets(None)[:3], back.group_sets(None)[:3], strict=True):
        np.testing.assert_array_equal(mine, other)
    assert [GroupIndex(back.labels).find(label) for label in known.labels] == list(range(known.n_groups))


def test_margins_share_a_confidence() -> None:
    survey = br.Rates.by("g", pd.DataFrame({"x": [3, 4], "y": [47, 46]}, index=["a", "b"]), kind="counts")
    separate = br.Margins(survey, br.Rates.from_counts({"x": 7, "y": 93}))
    assert separate.certainty == pytest.approx(0.9)
    together = br.Margins(survey, br.Rates.from_counts({"x": 7, "y": 93}), br.Rates.between(None, 0.5), confidence=0.95)
    assert together.certainty == pytest.approx(0.95)
    with pytest.raises(BadOption, match="there are none among the parts"):
        br.Margins(br.Rates.by("g", {"a": 0.1}), confidence=0.9)


def test_margins_name_their_parts() -> None:
    by_day = br.Rates.by("day", {1: 0.2})
    margins = br.Margins(
        by_day, br.Margins(by_day, br.Rates.between(0.1, 0.2)), br.Rates.by(["day", "age"], {(1, 2): 0.1})
    )
    assert margins.names == ("day", "day (2)", "all rows", "day, age")
    assert margins.keys == ("day", "age")
    assert "by day: exact rates of 1 group" in repr(margins)
    assert "by day, age" in margins._repr_html_()


def test_rates_per_group_are_refused_where_one_rate_per_class_is_needed() -> None:
    rates = br.Rates.by("g", {"a": 0.1})
    for call in (
        lambda: br.prior_adjust([0.1, 0.2], 0.5, rates),
        lambda: br.compare([0.1, 0.2], [0, 1], rates),
        lambda: br.advise([0.1, 0.2], rates),
        lambda: br.sensitivity([0.1, 0.2], rates),
        lambda: br.prior_adjust([0.1, 0.2], 0.5, br.Margins(rates)),
    ):
        with pytest.raises(br.BaserateError):
            call()


@pytest.mark.parametrize(
    "column",
    [
        np.array(["b", "a", "b"]),
        ["b", "a", "b"],
        pd.Series(["b", "a", "b"]),
        pd.Series(["b", "a", "b"], dtype="category"),
        pd.Series(["b", "a", "b"], dtype="string"),
        pl.Series(["b", "a", "b"]),
        pl.Series(["b", "a", "b"], dtype=pl.Categorical),
        pa.chunked_array([["b", "a"], ["b"]]),
        np.array(["b", "a", "b"], dtype=object),
        np.array([b"b", b"a", b"b"]),
    ],
    ids=lambda c: f"{type(c).__module__}.{type(c).__name__}",
)
def test_columns_of_all_types_are_coded(column: Any) -> None:
    coded = code_values(column)
    assert [coded.values[code] for code in coded.codes] == ["b", "a", "b"]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (np.array([3, -1, 3]), [3, -1, 3]),
        (np.array([10**12, 5, 10**12]), [10**12, 5, 10**12]),
        (np.array([True, False, True]), [True, False, True]),
        (np.array([1.5, np.nan, 1.5]), [1.5, None, 1.5]),
        (pd.Series([1, None, 1], dtype="Int64"), [1, None, 1]),
        (pd.to_datetime(pd.Series(["2024-01-01", None, "2024-01-02 10:00"], dtype=object), format="ISO8601"), None),
        (np.array(["x", None, np.nan], dtype=object), ["x", None, None]),
        (np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]"), [datetime.date(2024, 1, d) for d in (1, 2)]),
    ],
    ids=range(8),
)
def test_numbers_dates_and_missing_values_are_coded(column: Any, values: list[Any] | None) -> None:
    coded = code_values(column)
    if values is None:
        values = [datetime.date(2024, 1, 1), None, datetime.datetime(2024, 1, 2, 10)]
    assert [None if code < 0 else coded.values[code] for code in coded.codes] == values


def test_labels_of_different_types_are_matched_by_their_text() -> None:
    index = GroupIndex([("1", datetime.date(2024, 1, 1)), ("2", datetime.date(2024, 1, 1)), (3.0, "2024-01-02")])
    assert index.find((1, "2024-01-01")) == 0
    assert index.find(("2", datetime.date(2024, 1, 1))) == 1
    assert index.find(("3", datetime.date(2024, 1, 2))) == 2
    assert index.find((3, datetime.date(2024, 1, 1))) is None
    assert index.find((None, "2024-01-01")) is None


def test_combinations_of_pieces_are_those_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    n = 5000
    columns = [
        rng.choice(["a", "b", "c"], n),
        rng.integers(0, 40, n),
        np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 5, n)),
    ]
    weights = rng.random(n)
    weights /= weights.sum()
    whole, at = Combinations.of("xyz", [code_values(c) for c in columns], n, weights)
    parts = [
        Combinations.of(
            "xyz", [code_values(c[i : i + 700]) for c in columns], len(columns[0][i : i + 700]), weights[i : i + 700]
        )[0]
        for i in range(0, n, 700)
    ]
    joined = Combinations.collected(parts)
    found = {label: i for i, label in enumerate(joined.labels(np.arange(len(joined.codes)), [0, 1, 2]))}
    labels = whole.labels(np.arange(len(whole.codes)), [0, 1, 2])
    assert len(found) == len(whole.codes)
    for i in range(len(whole.codes)):
        j = found[labels[i]]
        assert joined.n_rows[j] == whole.n_rows[i]
        np.testing.assert_allclose(
            [joined.weight[j], joined.squared_weight[j]], [whole.weight[i], whole.squared_weight[i]]
        )
    index = CombinationIndex.of(joined)
    numbers = index.find([code_values(c[:300]) for c in columns], 300)
    assert joined.labels(numbers, [0, 1, 2]) == whole.labels(at[:300], [0, 1, 2])


def test_many_key_columns_do_not_overflow() -> None:
    rng = np.random.default_rng(1)
    columns = [code_values(rng.integers(0, 10**6, 200)) for _ in range(8)]
    whole, at = Combinations.of(range(8), columns, 200, None)
    assert len(whole.codes) == 200
    np.testing.assert_array_equal(CombinationIndex.of(whole).find(columns, 200), at)


@pytest.mark.parametrize("kind", ["timestamps", "datetime64", "Series", "bytes"])
def test_a_mapping_in_which_two_keys_are_one_group_is_refused(kind: str) -> None:
    times = [pd.Timestamp(f"2026-01-01 10:00:00.00000000{i}") for i in (1, 2)]
    table: Any = {
        "timestamps": dict(zip(times, [0.1, 0.4], strict=True)),
        "datetime64": {time.to_numpy(): 0.1 * i for i, time in enumerate(times, 1)},
        "Series": pd.Series([0.1, 0.4], index=times),
        "bytes": {b"a": 0.1, "a": 0.4},
    }[kind]
    advice = "give each group once" if kind == "bytes" else "times must differ by microseconds"
    with pytest.raises(BadRates, match=f"the rates by 'time' have one group more than once, as .*, .*; {advice}"):
        br.Rates.by("time", table)
