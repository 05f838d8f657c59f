"""Rates per group: every kind of input gives the same rows, and results can be applied, saved and asked again."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import Array

import baserate as br
from baserate.errors import BadFile, BadGroups, BadOption, GroupsWarning

RNG = np.random.default_rng(0)
N, CLASSES = 3000, ["a", "b", "c"]
P = RNG.dirichlet([2, 1, 1], N)
REGION = RNG.choice(["north", "south", "east", "west"], N, p=[0.4, 0.3, 0.2, 0.1])
AGE = RNG.integers(20, 25, N)
Y = np.array([RNG.choice(3, p=row) for row in P @ np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7]])])
FRAME = pd.DataFrame(P, columns=[f"p_{name}" for name in CLASSES]).assign(region=REGION, age=AGE, id=np.arange(N))


def table_by(*keys: str) -> pd.DataFrame:
    """The class rates of the labels in each group."""
    labels = pd.get_dummies(pd.Series(np.array(CLASSES)[Y])).astype(float)
    return labels.groupby([FRAME[key] for key in keys]).mean()


def rates_by(*keys: str, **options: Any) -> br.Rates:
    return br.Rates.by(list(keys), table_by(*keys), **options)


def as_array(rows: Any) -> Array:
    return np.asarray(rows.to_pandas() if isinstance(rows, pa.Table) else rows, dtype=float)[:, :3]


def log_loss(rows: Array) -> Array:
    return -np.log(rows[np.arange(len(Y)), Y])


BY_REGION = rates_by("region")
EXPECTED = br.adjust(P, BY_REGION, groups=REGION, classes=CLASSES)


def test_each_group_is_adjusted_as_if_it_were_alone() -> None:
    for name, rates in table_by("region").iterrows():
        own = np.equal(REGION, name)
        alone = br.adjust(P[own], rates.to_numpy())
        np.testing.assert_allclose(EXPECTED.probs[own], alone.probs, atol=1e-12)
        table = EXPECTED.by_group()
        certified = table.loc[table["region"] == name, "certified"].iloc[0]
        assert certified == pytest.approx(alone.certificate.loss_reduction, abs=1e-10)
    assert EXPECTED.certificate.loss_reduction == pytest.approx(np.mean(log_loss(P) - log_loss(EXPECTED.probs)))


FRAMES: dict[str, Any] = {
    "pandas": (FRAME, {}),
    "polars": (pl.from_pandas(FRAME), {}),
    "pyarrow": (pa.Table.from_pandas(FRAME), {}),
    "groups as a dataframe": (P, {"groups": FRAME, "classes": CLASSES}),
    "groups as a dict": (P, {"groups": {"region": REGION.tolist()}, "classes": CLASSES}),
    "groups as categories": (P, {"groups": pd.Series(REGION, dtype="category"), "classes": CLASSES}),
    "groups as a polars Series": (P, {"groups": pl.Series(REGION), "classes": CLASSES}),
    "logits": (np.log(P), {"groups": REGION, "classes": CLASSES, "from_logits": True}),
    "rows that do not sum to 1": (3 * P, {"groups": REGION, "classes": CLASSES, "normalize": True}),
    "equal weights": (P, {"groups": REGION, "classes": CLASSES, "sample_weight": np.full(N, 2.0)}),
}


@pytest.mark.parametrize(("probs", "options"), FRAMES.values(), ids=FRAMES)
def test_all_kinds_of_predictions_and_groups_give_the_same_rows(probs: Any, options: dict[str, Any]) -> None:
    result = br.adjust(probs, BY_REGION, **options)
    np.testing.assert_allclose(as_array(result.probs), EXPECTED.probs, atol=1e-9)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("held", [True, False], ids=["held in memory", "read in every pass"])
def test_files_give_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, held: bool) -> None:
    path, out = tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}"
    writers = {"parquet": FRAME.to_parquet, "csv": lambda p: FRAME.to_csv(p, index=False), "arrow": FRAME.to_feather}
    readers = {"parquet": pd.read_parquet, "csv": pd.read_csv, "arrow": pd.read_feather}
    writers[suffix](path)
    if not held:
        monkeypatch.setattr("baserate.engines.files._HELD_VALUES", 0)
    result = br.adjust(path, BY_REGION, out=out)
    written = readers[suffix](out)
    np.testing.assert_allclose(written[["p_a", "p_b", "p_c"]].to_numpy(), EXPECTED.probs, atol=1e-9)
    assert written["region"].tolist() == REGION.tolist()
    assert result.certificate.loss_reduction == pytest.approx(EXPECTED.certificate.loss_reduction)
    again = result.apply(path, out=tmp_path / f"again.{suffix}")
    np.testing.assert_allclose(readers[suffix](again)[["p_a", "p_b", "p_c"]].to_numpy(), EXPECTED.probs, atol=1e-9)


def test_groups_may_be_the_folders_of_a_partitioned_table(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "in", partition_cols=["region"])
    br.adjust(tmp_path / "in", BY_REGION, out=tmp_path / "out.parquet")
    written = pq.read_table(tmp_path / "out.parquet").to_pandas().sort_values("id")
    np.testing.assert_allclose(written[["p_a", "p_b", "p_c"]].to_numpy(), EXPECTED.probs, atol=1e-9)


def test_weights_and_groups_in_files(tmp_path: Path) -> None:
    weights = RNG.random(N)
    FRAME.assign(w=weights).to_csv(tmp_path / "in.csv", index=False)
    margins = br.Margins(BY_REGION, br.Rates.between({"a": 0.1}, {"a": 0.9}))
    files = br.adjust(tmp_path / "in.csv", margins, sample_weight="w", out=tmp_path / "out.csv", columns="p_*")
    memory = br.adjust(FRAME, margins, sample_weight=weights)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")[["p_a", "p_b", "p_c"]], memory.probs, atol=1e-9)
    table = memory.by_group("region")
    for name, rates in table_by("region").iterrows():
        np.testing.assert_allclose(table.loc[table["region"] == name, "achieved"], rates, atol=1e-9)
    assert files.certificate.loss_reduction == pytest.approx(memory.certificate.loss_reduction)


def test_dask_dataframes_have_columns_of_groups() -> None:
    import dask.dataframe as dd

    frame = dd.from_pandas(FRAME, npartitions=4)
    result = br.adjust(frame, BY_REGION, columns="p_*")
    np.testing.assert_allclose(result.probs.compute(), EXPECTED.probs, atol=1e-9)
    np.testing.assert_allclose(result.apply(frame, columns="p_*").compute(), EXPECTED.probs, atol=1e-9)
    margins = br.Margins(rates_by("region", rounding=0.05), rates_by("age", rounding=0.05))
    both = br.adjust(frame, margins, columns="p_*", sample_weight="id")
    memory = br.adjust(FRAME, margins, columns="p_*", sample_weight=np.arange(N))
    np.testing.assert_allclose(both.probs.compute(), memory.probs, atol=1e-8)


@pytest.mark.parametrize("loss", ["log", "brier", "spherical", br.losses.Power(1.5)], ids=str)
@pytest.mark.parametrize("bounded", [True, False])
def test_every_group_gets_its_rates_under_overlapping_margins(loss: Any, bounded: bool) -> None:
    result = br.adjust(FRAME, br.Margins(BY_REGION, rates_by("age")), loss=loss, bounded=bounded)
    assert result.converged
    table = result.by_group()
    np.testing.assert_allclose(table["achieved"], table["wanted"], atol=1e-9)
    for key in ("region", "age"):
        means = result.probs.groupby(FRAME[key]).mean()
        np.testing.assert_allclose(means, table_by(key), atol=1e-9)
    assert set(table["certified_for"]) == {"all rows"}


def test_the_frame_keeps_its_other_columns() -> None:
    result = br.adjust(FRAME, BY_REGION)
    assert list(result.frame.columns) == list(FRAME.columns)
    assert result.frame["region"].tolist() == REGION.tolist()
    assert list(result.probs.columns) == ["p_a", "p_b", "p_c"]
    whole = result.apply(FRAME.iloc[:10], whole=True)
    np.testing.assert_allclose(whole[["p_a", "p_b", "p_c"]], result.probs.iloc[:10], atol=1e-12)


def test_new_rows_get_the_shifts_of_their_groups() -> None:
    result = br.adjust(FRAME, br.Margins(BY_REGION, rates_by("age")))
    order = RNG.permutation(N)[:200]
    np.testing.assert_allclose(result.apply(FRAME.iloc[order]), result.probs.iloc[order], atol=1e-10)
    one = br.adjust(
        P[:, 0] / P[:, :2].sum(axis=1), br.Rates.by("g", {"x": 0.3, "y": 0.6}), groups=["x", "y"] * (N // 2)
    )
    expected = one.probs[:4]
    np.testing.assert_allclose(one.apply(P[:4, 0] / P[:4, :2].sum(axis=1), groups=list("xyxy")), expected, atol=1e-12)


def test_unseen_groups_are_refused_or_get_the_mean_shift() -> None:
    new = FRAME.iloc[:5].assign(region=["north", "mars", "south", "mars", "east"])
    result = br.adjust(FRAME, BY_REGION)
    with pytest.raises(
        BadGroups, match=r"2 rows are of groups by region that were not there in the fit: region 'mars'"
    ):
        result.apply(new)
    pooled = result.apply(new, unseen="pooled").to_numpy()
    weights = pd.Series(REGION).value_counts(normalize=True)
    names = [label[0] for label in result.groups.margins[0].labels]
    shift = sum(weights[name] * row for name, row in zip(names, result.shift["region"], strict=True))
    expected = P[[1, 3]] * np.exp(shift)
    np.testing.assert_allclose(pooled[[1, 3]], expected / expected.sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(pooled[[0, 4]], result.apply(new.iloc[[0, 4]]))


def test_rows_that_are_not_in_the_table_stay_as_they_are_if_nothing_is_assumed() -> None:
    table = table_by("region").drop(index="west")
    with pytest.raises(BadGroups, match=r"rows have groups that are not in the table by region: region 'west'"):
        br.adjust(FRAME, br.Rates.by("region", table))
    free = br.adjust(FRAME, br.Rates.by("region", table, unlisted="free"))
    missing = br.adjust(FRAME, br.Rates.by("region", table.reindex([*table.index, "west"])))
    west = REGION == "west"
    for result in (free, missing):
        np.testing.assert_allclose(result.probs[west], FRAME.loc[west, ["p_a", "p_b", "p_c"]], rtol=1e-15)
        np.testing.assert_allclose(result.probs[~west], EXPECTED.probs[~west], atol=1e-12)
    rows = free.by_group()
    assert rows.loc[rows["region"].isna(), "n_rows"].unique().tolist() == [west.sum()]
    assert (rows.loc[rows["region"].isna(), "shift"] == 0).all()
    np.testing.assert_allclose(free.apply(FRAME.assign(region="mars")), FRAME[["p_a", "p_b", "p_c"]], rtol=1e-15)


def test_missing_groups_are_free_if_nothing_is_assumed() -> None:
    groups = [None if i < 10 else name for i, name in enumerate(REGION)]
    with pytest.raises(BadGroups, match=r"10 rows have no value of 'region'; fill in the missing values"):
        br.adjust(P, BY_REGION, groups=groups, classes=CLASSES)
    free = br.adjust(P, rates_by("region", unlisted="free"), groups=groups, classes=CLASSES)
    np.testing.assert_allclose(free.probs[:10], P[:10], rtol=1e-15)


def test_groups_without_rows_and_groups_of_one_row_are_worth_a_warning() -> None:
    with pytest.warns(GroupsWarning, match=r"1 group has rates but no rows, which changes nothing: g 'z'"):
        result = br.adjust([0.1, 0.2, 0.3, 0.4], br.Rates.by("g", {"x": 0.3, "y": 0.2, "z": 0.1}), groups=list("xyxy"))
    assert result.by_group()["g"].tolist() == ["x", "y"]
    with pytest.warns(GroupsWarning, match=r"1 group has a single row and exact rates: .*: g 'y'"):
        br.adjust([0.1, 0.2, 0.3], br.Rates.by("g", {"x": 0.3, "y": 0.2}), groups=list("xyx"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        br.adjust([0.1, 0.2, 0.3], br.Rates.by("g", {"x": 0.3, "y": (0.2, 0.3)}), groups=list("xyx"))


def test_a_rate_of_zero_in_one_group_is_ordinary() -> None:
    table = table_by("region")
    table.loc["north"] = [0.6, 0.4, 0.0]
    result = br.adjust(FRAME, br.Rates.by("region", table))
    north = REGION == "north"
    assert (result.probs.loc[north, "p_c"] == 0).all()
    assert (result.probs.loc[~north, "p_c"] > 0).all()
    assert np.isneginf(
        result.shift["region"][[label[0] for label in result.groups.margins[0].labels].index("north"), 2]
    )
    np.testing.assert_allclose(result.apply(FRAME), result.probs, atol=1e-12)


def test_groups_that_are_combinations_of_columns() -> None:
    crossed = br.adjust(FRAME, rates_by("region", "age"))
    for key in (["region"], ["age"], ["region", "age"]):
        means = crossed.probs.groupby([FRAME[one] for one in key]).mean()
        np.testing.assert_allclose(means, table_by(*key), atol=1e-9)
    table = crossed.by_group(["region", "age"])
    assert list(table.columns[:2]) == ["region", "age"]
    assert len(table) == 4 * 5 * 3


def test_rounded_tables_agree_within_their_rounding() -> None:
    margins = br.Margins(
        br.Rates.by("region", table_by("region").round(3), rounding="auto"),
        br.Rates.by("age", table_by("age").round(3), rounding=0.0005),
    )
    result = br.adjust(FRAME, margins)
    assert result.converged
    table = result.by_group()
    assert (table["achieved"] >= table["at_least"] - 1e-9).all()
    assert (table["achieved"] <= table["at_most"] + 1e-9).all()
    assert result.certificate.holds_for(table_by("region"), table_by("age"))
    assert not result.certificate.holds_for(table_by("region"), table_by("age").iloc[::-1].set_axis(range(20, 25)))


def test_surveys_per_group_and_a_pooled_survey() -> None:
    surveyed = RNG.random(N) < 0.1
    labels = pd.get_dummies(pd.Series(np.array(CLASSES)[Y]))[surveyed]
    counts = labels.groupby(REGION[surveyed]).sum()
    by_group = br.Rates.by("region", counts, kind="counts")
    pooled = br.Rates.from_counts(labels.sum().to_dict())
    result = br.adjust(FRAME, br.Margins(by_group, pooled, confidence=0.95))
    assert result.certificate.confidence == pytest.approx(0.95)
    assert "97.5 % confidence for all groups together" in result.certificate.condition
    assert result.certificate.holds_for(
        table_by("region"), table_by("region").mul(pd.Series(REGION).value_counts(normalize=True), axis=0).sum()
    )
    assert result.certificate.loss_reduction <= np.mean(log_loss(P) - log_loss(result.probs.to_numpy()))


def test_another_table_of_the_same_groups() -> None:
    table = table_by("region")
    other = (table + table.mean()) / 2
    again = EXPECTED.what_if(other)
    direct = br.adjust(P, br.Rates.by("region", other), groups=REGION, classes=CLASSES)
    np.testing.assert_allclose(again.probs, direct.probs, atol=1e-10)
    both = br.adjust(FRAME, br.Margins(BY_REGION, rates_by("age")))
    np.testing.assert_allclose(
        both.what_if(br.Rates.by("age", table_by("age"))).probs, br.adjust(FRAME, rates_by("age")).probs, atol=1e-9
    )
    with pytest.raises(BadGroups, match=r"has the margins region, age; pass br.Margins"):
        both.what_if(other)
    with pytest.raises(BadGroups, match="only read 'region'"):
        EXPECTED.what_if(rates_by("age"))


@pytest.mark.parametrize(
    "rates",
    [
        BY_REGION,
        br.Margins(BY_REGION, rates_by("age", rounding=0.01), br.Rates.between({"a": 0.1}, {"a": 0.9})),
        rates_by("region", "age"),
        br.Rates.by("region", table_by("region").drop(index="west"), unlisted="free"),
    ],
    ids=["one margin", "margins", "combinations", "unlisted rows"],
)
def test_a_saved_adjustment_adjusts_further_rows_in_the_same_way(tmp_path: Path, rates: br.Rates) -> None:
    result = br.adjust(FRAME, rates)
    result.save(tmp_path / "saved.json")
    loaded = br.load(tmp_path / "saved.json")
    assert isinstance(loaded, br.GroupedAdjustment)
    np.testing.assert_array_equal(loaded.apply(FRAME.iloc[:50]), result.apply(FRAME.iloc[:50]))
    pd.testing.assert_frame_equal(loaded.by_group(), result.by_group())
    assert repr(loaded) == repr(result)
    assert loaded.certificate.condition == result.certificate.condition
    with pytest.raises(br.BaserateError, match="has a shift but no rows"):
        loaded.what_if(rates)
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "saved.json").read_bytes()


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    import json

    from baserate.support.json_file import read_json, write_json

    EXPECTED.save(tmp_path / "saved.json")
    fields = read_json(tmp_path / "saved.json")
    for change in (
        lambda f: f["groups"]["margins"][0].pop("labels"),
        lambda f: f["groups"]["margins"][0]["shift"].pop(),
        lambda f: f["groups"]["margins"][0]["component"].__setitem__(0, 17),
        lambda f: f["groups"].__setitem__("margins", [3]),
        lambda f: f["known"].__setitem__("parts", []),
        lambda f: f.__setitem__("batch_sizes", [[1]]),
    ):
        damaged = json.loads(json.dumps(fields))
        change(damaged)
        write_json(tmp_path / "damaged.json", damaged)
        with pytest.raises(BadFile, match="does not describe an adjustment"):
            br.load(tmp_path / "damaged.json")


def test_results_can_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(EXPECTED))
    np.testing.assert_array_equal(copy.probs, EXPECTED.probs)
    pd.testing.assert_frame_equal(copy.by_group(), EXPECTED.by_group())


def test_the_text_says_what_is_guaranteed_for_which_rows() -> None:
    text = repr(EXPECTED)
    assert text.startswith("Bounded adjustment for Log(): 3,000 rows, 3 classes, 4 groups by region")
    assert "if each group of region has the requested class rates" in text
    assert "the groups do not overlap, so the guarantee splits" in text
    both = repr(br.adjust(FRAME, br.Margins(BY_REGION, rates_by("age"))))
    assert "4 groups by region, 5 groups by age" in both
    assert "if each group of region and of age has the requested class rates" in both
    assert "the loss of a single group may rise" in both
    assert "Guarantee for 3,000 rows, 3 classes, rates per group" in repr(EXPECTED.certificate)
    assert "<table>" in EXPECTED._repr_html_()


def test_thousands_of_groups_stay_readable() -> None:
    groups = np.arange(N) // 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = br.adjust(
            P[:, :2] / P[:, :2].sum(axis=1, keepdims=True),
            br.Rates.by("id", dict.fromkeys(range(N // 2), 0.4)),
            groups=groups,
        )
    text = repr(result)
    assert len(text.splitlines()) < 25
    assert "and 1,488 groups by id that changed less" in text
    assert len(result.by_group()) == N


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_by_group_is_a_dataframe_of_the_requested_kind(backend: str) -> None:
    table = EXPECTED.by_group(backend=backend)
    assert type(table).__module__.split(".")[0] == backend
    assert br.adjust(pl.from_pandas(FRAME), BY_REGION).by_group().__class__.__module__.startswith("polars")


def test_components_are_named_where_margins_overlap_only_in_parts() -> None:
    side = np.where(np.arange(40) < 20, "left", "right")
    groups = {"g": [f"{s}{i % 2}" for i, s in enumerate(side)], "h": [f"{s}{i % 3}" for i, s in enumerate(side)]}
    p = RNG.random(40)
    y = RNG.random(40) < p
    tables = [pd.Series(y.astype(float)).groupby(np.array(groups[key])).mean() for key in "gh"]
    result = br.adjust(
        p, br.Margins(*(br.Rates.by(key, table) for key, table in zip("gh", tables, strict=True))), groups=groups
    )
    assert result.certificate.guarantee_level == "each component"
    table = result.by_group("g")
    assert table["certified_for"].nunique() == 2
    for name in ("left", "right"):
        own = side == name
        loss = [-np.log(np.where(y, q, 1 - q))[own].mean() for q in (p, result.probs)]
        certified = table.loc[table["g"].str.startswith(name), "certified"].iloc[0]
        assert loss[0] - loss[1] >= certified - 1e-9


def test_margins_may_hold_rates_of_all_rows_only() -> None:
    margins = br.Margins(br.Rates.between({"a": 0.5}, {"a": 0.6}), {"a": 0.5, "b": 0.3, "c": 0.2})
    result = br.adjust(P, margins, classes=CLASSES)
    np.testing.assert_allclose(result.rates, [0.5, 0.3, 0.2], atol=1e-9)
    np.testing.assert_allclose(result.probs, br.adjust(P, [0.5, 0.3, 0.2]).probs, atol=1e-9)


def test_rates_of_all_rows_as_margins_of_files_and_dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask.dataframe as dd

    margins = br.Margins(br.Rates.between({"a": 0.5}, {"a": 0.6}), {"a": 0.5, "b": 0.3, "c": 0.2})
    expected = br.adjust(P, [0.5, 0.3, 0.2]).probs
    monkeypatch.setattr("baserate.engines.files._HELD_VALUES", 0)
    FRAME.to_parquet(tmp_path / "in.parquet", row_group_size=700)
    br.adjust(tmp_path / "in.parquet", margins, out=tmp_path / "out.parquet", columns="p_*")
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "out.parquet")[["p_a", "p_b", "p_c"]], expected, atol=1e-9)
    result = br.adjust(dd.from_pandas(FRAME, npartitions=3), margins, columns="p_*")
    np.testing.assert_allclose(result.probs.compute(), expected, atol=1e-9)


def test_a_table_that_is_given_twice_changes_nothing() -> None:
    twice = br.adjust(FRAME, br.Margins(BY_REGION, BY_REGION))
    np.testing.assert_allclose(twice.probs, EXPECTED.probs, atol=1e-8)
    assert [margin.name for margin in twice.groups.margins] == ["region", "region (2)"]


def test_nested_tables_are_the_finer_one() -> None:
    side = np.where(np.isin(REGION, ["north", "east"]), "left", "right")
    labels = pd.get_dummies(pd.Series(np.array(CLASSES)[Y])).astype(float)
    by_side = br.Rates.by("side", labels.groupby(side).mean())
    nested = br.adjust(FRAME.assign(side=side), br.Margins(BY_REGION, by_side))
    np.testing.assert_allclose(nested.probs, EXPECTED.probs, atol=1e-8)
    assert nested.certificate.guarantee_level == "each component"


def test_engines_without_groups_say_so() -> None:
    from toy_engine import Chunks

    with pytest.raises(BadGroups, match="rates per group are not available for rows of the engine 'chunks'"):
        br.adjust(Chunks([P[:10], P[10:20]]), br.Margins([0.5, 0.3, 0.2]))


def test_softened_losses_can_be_applied_and_saved(tmp_path: Path) -> None:
    # Under a loss that is flat at 0, rates near 0 need a trace of Brier loss.
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.dirichlet([1, 1, 1], 120), columns=CLASSES).assign(region=REGION[:120], age=AGE[:120])
    labels = pd.DataFrame(np.eye(3)[rng.choice(3, 120, p=[0.9, 0.08, 0.02])], columns=CLASSES)
    margins = br.Margins(*(br.Rates.by(key, labels.groupby(frame[key]).mean()) for key in ("region", "age")))
    result = br.adjust(frame, margins, loss=br.losses.Power(5.0))
    assert result.model.softness > 0
    np.testing.assert_allclose(result.apply(frame), result.probs, atol=1e-9)
    result.save(tmp_path / "saved.json")
    np.testing.assert_allclose(br.load(tmp_path / "saved.json").apply(frame), result.probs, atol=1e-9)
    assert result.what_if(margins).certificate.loss_reduction == pytest.approx(
        result.certificate.loss_reduction, abs=1e-7
    )


def test_groups_need_rates_per_group() -> None:
    with pytest.raises(BadOption, match="the rates are not given per group"):
        br.adjust(P, [0.5, 0.3, 0.2], groups=REGION)


def test_float32_rows_stay_float32() -> None:
    result = br.adjust(P.astype(np.float32), BY_REGION, groups=REGION, classes=CLASSES)
    assert result.probs.dtype == np.float32
    np.testing.assert_allclose(result.probs, EXPECTED.probs, atol=1e-6)


def test_many_batches_may_have_groups() -> None:
    results = br.adjust_many(
        [{"probs": P, "rates": BY_REGION, "groups": REGION, "classes": CLASSES}, (P, [0.5, 0.3, 0.2])]
    )
    np.testing.assert_allclose(results[0].probs, EXPECTED.probs, atol=1e-9)
    assert not isinstance(results[1], br.GroupedAdjustment)


def test_groups_whose_shift_is_infinite_can_be_applied_and_saved(tmp_path: Path) -> None:
    # Only the third row allows the third class, so it has to be certain, which needs an infinite shift of group x.
    rows = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.3, 0.0, 0.7], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]])
    groups = list("xxxyy")
    for y in ([0.5, 0.25, 0.25], [0.5, 0.5, 0.0]):
        result = br.adjust(rows, br.Rates.by("g", {"x": [1 / 3, 1 / 3, 1 / 3], "y": y}), groups=groups)
        assert result.converged
        assert list(result.groups.models) == [0]
        np.testing.assert_allclose(result.apply(rows, groups=groups), result.probs, atol=1e-12)
        result.save(tmp_path / "saved.json")
        np.testing.assert_allclose(
            br.load(tmp_path / "saved.json").apply(rows, groups=groups), result.probs, atol=1e-12
        )
