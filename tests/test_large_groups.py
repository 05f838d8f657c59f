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
