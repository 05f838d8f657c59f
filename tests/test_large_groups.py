"""Rates per group of files and Dask dataframes whose pieces are cut into several blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import baserate as br
from baserate.support.arrays import BLOCK_VALUES

N_CLASSES, NAMES = 3, ["p_a", "p_b", "p_c"]
N = 2 * BLOCK_VALUES // N_CLASSES + 1000


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """More rows than two blocks hold. Not every block has rows of every group."""
    rng = np.random.default_rng(5)
    p = np.exp(rng.normal(size=(N, N_CLASSES)))
    site = np.sort(rng.integers(7, size=N))
    return pd.DataFrame(p / p.sum(axis=1, keepdims=True), columns=NAMES).assign(site=site, day=rng.integers(5, size=N))


def known(*keys: str) -> br.Margins:
    """Tables of the same labels, as rates of each key."""
    sizes = {"site": 7, "day": 5}
    tables = ({g: {"a": 0.5, "b": 0.3, "c": 0.2} for g in range(sizes[key])} for key in keys)
    return br.Margins(*(br.Rates.by(key, table) for key, table in zip(keys, tables, strict=True)))


def group_means(rows: Any, frame: pd.DataFrame, key: str) -> Any:
    return pd.DataFrame(np.asarray(rows), columns=NAMES).groupby(frame[key].to_numpy()).mean()


@pytest.mark.parametrize("keys", [("site",), ("site", "day")], ids="+".join)
def test_groups_of_a_file_with_large_row_groups(
    frame: pd.DataFrame, keys: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", "off")  # whose blocks are smaller than those of compiled code
    monkeypatch.setattr("baserate.engines.files._HELD_VALUES", 0)  # as if the file were larger than memory
    frame.to_parquet(tmp_path / "in.parquet")
    result = br.adjust(tmp_path / "in.parquet", known(*keys), out=tmp_path / "out.parquet", columns="p_*")
    written = pd.read_parquet(tmp_path / "out.parquet")[NAMES]
    for key in keys:
        np.testing.assert_allclose(
            group_means(written, frame, key), np.tile([0.5, 0.3, 0.2], (len(set(frame[key])), 1))
        )
    memory = br.adjust(frame, known(*keys), columns="p_*")
    assert result.certificate.loss_reduction == pytest.approx(memory.certificate.loss_reduction, abs=1e-9)


def test_groups_of_dask_dataframes_with_large_partitions(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask.dataframe as dd

    monkeypatch.setenv("BASERATE_KERNELS", "off")

    result = br.adjust(dd.from_pandas(frame, npartitions=1), known("site", "day"), columns="p_*")
    rows = result.probs.compute()
    for key in ("site", "day"):
        np.testing.assert_allclose(group_means(rows, frame, key), np.tile([0.5, 0.3, 0.2], (len(set(frame[key])), 1)))


@pytest.mark.parametrize(
    ("loss", "options"), [("log", {"rounding": 0.02}), ("brier", {"rounding": 0.02}), ("spherical", {})]
)
def test_many_groups_that_need_the_general_method_are_solved_like_single_ones(
    loss: str, options: dict[str, Any]
) -> None:
    rng = np.random.default_rng(6)
    p, group = rng.dirichlet([2, 1, 1], 3000), rng.integers(300, size=3000)
    table = pd.DataFrame(rng.dirichlet([3, 3, 3], 3000)).groupby(group).mean()
    result = br.adjust(p, br.Rates.by("group", table, **options), groups=group, loss=loss)
    assert result.converged
    certified = result.by_group().groupby("group")["certified"].first()
    for name in (0, 17, 299):
        rates = table.loc[name].to_numpy()
        known = br.Rates.between(rates - 0.02, rates + 0.02) if options else rates
        alone = br.adjust(p[group == name], known, loss=loss)
        np.testing.assert_allclose(result.probs[group == name], alone.probs, atol=1e-8)
        assert certified[name] == pytest.approx(alone.certificate.loss_reduction, abs=1e-9)


def test_groups_may_be_arrays_of_pyarrow() -> None:
    import pyarrow as pa

    names, known = ["b", "a", "b", "a"], br.Rates.by("g", {"a": 0.2, "b": 0.4})
    expected = br.adjust([0.1, 0.2, 0.3, 0.4], known, groups=names).probs
    for column in (pa.array(names), pa.chunked_array([names]), pa.array(names).dictionary_encode()):
        np.testing.assert_array_equal(br.adjust([0.1, 0.2, 0.3, 0.4], known, groups=column).probs, expected)
