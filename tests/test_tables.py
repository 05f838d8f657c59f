"""Tables in files: all formats, columns that are only passed on, and output that is complete or absent."""

from __future__ import annotations

import gzip
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import baserate as br
from baserate.engines import files as table_files
from baserate.engines import open_rows
from baserate.errors import BadFile, BadOption, BadProbabilities, BadWeights
from baserate.inputs.row_source import RowSource
from baserate.progress import Progress
from baserate.tables import Files

RATES = {"cat": 0.2, "dog": 0.5, "owl": 0.3}
COLUMNS = ["p_cat", "p_dog", "p_owl"]


def predictions(n: int, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.dirichlet([2.0, 1.0, 1.0], size=n).astype(dtype)


def table(n: int, seed: int = 0, dtype: Any = np.float64) -> pa.Table:
    """Predictions, and other columns that the adjustment must not change."""
    p = predictions(n, seed, dtype)
    ids = [f"{i:05d}" for i in range(n)]
    notes = [None if i % 7 == 0 else ('say "no", twice' if i % 3 else "plain") for i in range(n)]
    columns = {"id": ids, "p_cat": p[:, 0], "age": np.arange(n), "p_dog": p[:, 1], "p_owl": p[:, 2], "note": notes}
    return pa.table(columns)


def matrix(rows: pa.Table) -> np.ndarray:
    return np.column_stack([rows.column(name).to_numpy() for name in COLUMNS])


def write(rows: pa.Table, path: Path) -> Path:
    if path.name.endswith(".parquet"):
        pq.write_table(rows, path, row_group_size=40)
    elif path.name.endswith((".csv", ".tsv", ".csv.gz")):
        mark = "\t" if ".tsv" in path.name else ","
        text = pa.BufferOutputStream()
        pa.csv.write_csv(rows, text, pa.csv.WriteOptions(delimiter=mark))
        data = text.getvalue().to_pybytes()
        path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    elif path.name.endswith(".arrows"):
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, rows.schema) as out:
            out.write_table(rows, max_chunksize=40)
    else:
        pa.feather.write_feather(rows, str(path), chunksize=40)
    return path


def read(path: Path) -> pa.Table:
    if path.name.endswith(".parquet"):
        return pq.read_table(path)
    if ".csv" in path.name or ".tsv" in path.name:
        types = pa.csv.ConvertOptions(column_types={"id": pa.string(), "note": pa.string()}, strings_can_be_null=True)
        mark = "\t" if ".tsv" in path.name else ","
        return pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(delimiter=mark), convert_options=types)
    if path.name.endswith(".arrows"):
        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_stream(file).read_all()
    return pa.feather.read_table(path)


KINDS = ["parquet", "csv", "csv.gz", "tsv", "feather", "arrow", "arrows"]


@pytest.mark.parametrize("into", KINDS)
@pytest.mark.parametrize("of", KINDS)
def test_every_format_can_be_written_as_every_other(tmp_path: Path, of: str, into: str) -> None:
    rows = table(100)
    out = tmp_path / f"out.{into}"
    result = br.adjust(write(rows, tmp_path / f"in.{of}"), RATES, out=out)
    known = br.adjust(matrix(rows), list(RATES.values()))
    np.testing.assert_allclose(result.shift, known.shift, rtol=0, atol=1e-12)
    assert result.classes == ("cat", "dog", "owl")
    assert result.probs == out
    written = read(out)
    assert written.column_names == rows.column_names
    np.testing.assert_allclose(matrix(written), known.probs, rtol=0, atol=1e-15)
    for name in ("id", "age", "note"):
        if "csv" in of or "tsv" in of:  # In CSV, a missing value and an empty text look the same.
            assert [x or None for x in written.column(name).to_pylist()] == [
                x or None for x in rows.column(name).to_pylist()
            ]
        else:
            assert written.column(name).to_pylist() == rows.column(name).to_pylist()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([f"in.{of}", f"out.{into}"])


def test_parquet_output_keeps_schema_row_groups_and_compression(tmp_path: Path) -> None:
    fields = [
        pa.field("id", pa.int32(), nullable=False, metadata={"unit": "none"}),
        pa.field("when", pa.timestamp("us", "UTC")),
        *(pa.field(name, pa.float32()) for name in COLUMNS),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("kind", pa.dictionary(pa.int8(), pa.string())),
    ]
    p = predictions(90, dtype=np.float32)
    rows = pa.table(
        [
            pa.array(range(90), pa.int32()),
            pa.array([None, *range(89)], pa.timestamp("us", "UTC")),
            *(pa.array(p[:, j]) for j in range(3)),
            pa.array([["a"], None, []] * 30),
            pa.array(["x", "y", None] * 30).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
        ],
        schema=pa.schema(fields, metadata={"made by": "someone"}),
    )
    codecs = {"id": "zstd", "when": "gzip", "p_cat": "none", "p_dog": "snappy", "p_owl": "zstd"}
    codecs |= {"tags.list.element": "zstd", "kind": "none"}
    sorting = [pq.SortingColumn(0)]
    with pq.ParquetWriter(tmp_path / "in.parquet", rows.schema, compression=codecs, sorting_columns=sorting) as writer:
        for start, size in ((0, 50), (50, 30), (80, 10)):
            writer.write_table(rows.slice(start, size))
    br.adjust(tmp_path / "in.parquet", RATES, out=tmp_path / "out.parquet")
    before, after = pq.ParquetFile(tmp_path / "in.parquet"), pq.ParquetFile(tmp_path / "out.parquet")
    assert after.schema_arrow.equals(before.schema_arrow, check_metadata=True)
    groups = [[m.row_group(i) for i in range(m.num_row_groups)] for m in (before.metadata, after.metadata)]
    assert [group.num_rows for group in groups[1]] == [50, 30, 10]
    for old, new in zip(*groups, strict=True):
        columns = range(old.num_columns)
        assert [new.column(i).compression for i in columns] == [old.column(i).compression for i in columns]
        assert new.sorting_columns == old.sorting_columns
    old, new = before.read(), after.read()
    others = [name for name in rows.column_names if name not in COLUMNS]
    assert new.select(others).equals(old.select(others))
    known = br.adjust(p, list(RATES.values())).probs.astype(np.float32)
    np.testing.assert_allclose(matrix(new), known, rtol=0, atol=2e-7)


def test_a_partitioned_folder_is_written_with_the_same_file_names(tmp_path: Path) -> None:
    rows = table(120)
    for i, country in enumerate(["DE", "FR", "__HIVE_DEFAULT_PARTITION__"]):
        folder = tmp_path / "in" / f"country={country}" / "year=2026"
        folder.mkdir(parents=True)
        pq.write_table(rows.slice(40 * i, 40), folder / f"part-{i}.snappy.parquet")
    (tmp_path / "in" / "_SUCCESS").touch()
    (tmp_path / "in" / ".hidden.crc").write_text("?")
    known = br.adjust(matrix(rows), list(RATES.values())).probs
    br.adjust(tmp_path / "in", RATES, out=tmp_path / "out")
    files = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.parquet"))
    assert files == sorted(p.relative_to(tmp_path / "in").as_posix() for p in (tmp_path / "in").rglob("*.parquet"))
    assert (tmp_path / "out" / "_SUCCESS").exists()
    found = pq.ParquetFile(tmp_path / "out" / files[0]).read()
    assert found.column_names == rows.column_names
    together = ds.dataset(tmp_path / "out", partitioning="hive", exclude_invalid_files=True).to_table().sort_by("id")
    np.testing.assert_allclose(matrix(together), known, rtol=0, atol=1e-15)
    # In a single output file, the values from the folder names become columns.
    br.adjust(str(tmp_path / "in" / "*" / "*" / "*.parquet"), RATES, out=tmp_path / "one.parquet")
    one = pq.read_table(tmp_path / "one.parquet").sort_by("id")
    assert one.column("country").to_pylist() == ["DE"] * 40 + ["FR"] * 40 + [None] * 40
    assert one.column("year").to_pylist() == [2026] * 120
    np.testing.assert_allclose(matrix(one), known, rtol=0, atol=1e-15)


def test_pyarrow_datasets_are_adjusted(tmp_path: Path) -> None:
    rows = table(90)
    pq.write_table(rows.slice(0, 50), tmp_path / "a.parquet", row_group_size=20)
    pq.write_table(rows.slice(50), tmp_path / "b.parquet")
    pa.feather.write_feather(rows, str(tmp_path / "c.feather"))
    known = br.adjust(matrix(rows), list(RATES.values()))
    files = ds.dataset([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")])
    arrow = ds.dataset(tmp_path / "c.feather", format="feather")
    memory = ds.dataset(rows)
    for i, one in enumerate((files, arrow, memory)):
        out = tmp_path / f"out-{i}.parquet"
        result = br.adjust(one, RATES, out=out)
        np.testing.assert_allclose(result.shift, known.shift, rtol=0, atol=1e-12)
        np.testing.assert_allclose(matrix(pq.read_table(out)), known.probs, rtol=0, atol=1e-15)
        assert pq.read_table(out).select(["id", "note"]).equals(rows.select(["id", "note"]))
    some = br.adjust(files.filter(ds.field("age") < 30), RATES, out=tmp_path / "some.parquet")
    assert some.n_rows == 30
    np.testing.assert_allclose(some.shift, br.adjust(matrix(rows.slice(0, 30)), list(RATES.values())).shift, atol=1e-9)
    br.adjust(files, RATES, out=tmp_path / "folder")
    assert len(list((tmp_path / "folder").glob("*.parquet"))) == 2


def test_a_requested_dtype_is_that_of_the_columns_of_files(tmp_path: Path) -> None:
    for number, kind in enumerate((pa.float32(), pa.float64())):
        dtype = kind.to_pandas_dtype()
        path = write(table(90, dtype=np.float64 if dtype is np.float32 else np.float32), tmp_path / f"{number}.parquet")
        result = br.adjust(path, RATES, out=tmp_path / "out.parquet", dtype=dtype)
        result.apply(path, out=tmp_path / "again.parquet", dtype=dtype)
        for name in ("out", "again"):
            schema = pq.read_schema(tmp_path / f"{name}.parquet")
            assert [schema.field(column).type for column in COLUMNS] == [kind] * 3


def test_numpy_files_are_adjusted(tmp_path: Path) -> None:
    p = predictions(80, dtype=np.float32)
    known = br.adjust(p, list(RATES.values())).probs
    np.save(tmp_path / "c.npy", p)
    np.save(tmp_path / "f.npy", np.asfortranarray(p))
    np.save(tmp_path / "big-endian.npy", p.astype(">f4"))
    for name in ("c", "f", "big-endian"):
        br.adjust(tmp_path / f"{name}.npy", [0.2, 0.5, 0.3], out=tmp_path / "out.npy")
        out = np.load(tmp_path / "out.npy")
        assert out.dtype == np.float32
        np.testing.assert_allclose(out, known, rtol=0, atol=2e-7)
    w = np.arange(80.0)
    np.savez(tmp_path / "in.npz", p__net=p, p__tree=p[::-1], y=np.zeros(80), w=w, classes=["cat", "dog", "owl"])
    result = br.adjust(tmp_path / "in.npz", RATES, columns="p__net", sample_weight="w", out=tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        assert sorted(out.files) == ["classes", "p__net", "p__tree", "w", "y"]
        np.testing.assert_array_equal(out["p__tree"], p[::-1])
        weighted = br.adjust(p, [0.2, 0.5, 0.3], sample_weight=w)
        np.testing.assert_allclose(out["p__net"], weighted.probs, rtol=0, atol=2e-7)
    assert result.classes == ("cat", "dog", "owl")
    with pytest.raises(BadOption, match="contains 2 matrices, 'p__net', 'p__tree'; select one by columns='name'"):
        br.adjust(tmp_path / "in.npz", RATES)
    br.adjust(write(table(80), tmp_path / "t.parquet"), RATES, out=tmp_path / "t.npz")
    with np.load(tmp_path / "t.npz", allow_pickle=True) as out:
        assert out["probs"].shape == (80, 3)
    with pytest.raises(BadOption, match="contains only one matrix, so the columns 'id', 'age', 'note' would be lost"):
        br.adjust(tmp_path / "t.parquet", RATES, out=tmp_path / "t.npy")


@pytest.mark.parametrize("loss", ["log", "brier", "spherical"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_read_in_every_pass_give_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str, weighted: bool
) -> None:
    monkeypatch.setattr(table_files, "_HELD_VALUES", 0)
    rows = table(40_000).drop_columns(["note", "id"])
    weights = np.random.default_rng(1).random(40_000)
    rows = rows.append_column("w", pa.array(weights))
    pq.write_table(rows, tmp_path / "in.parquet", row_group_size=1_700)
    weight = {"sample_weight": "w"} if weighted else {}
    result = br.adjust(tmp_path / "in.parquet", RATES, loss=loss, out=tmp_path / "out.parquet", **weight)
    in_memory = {"sample_weight": weights} if weighted else {}
    known = br.adjust(matrix(rows), list(RATES.values()), loss=loss, tol=1e-13, **in_memory)
    np.testing.assert_allclose(result.shift, known.shift, rtol=0, atol=1e-9)
    np.testing.assert_allclose(matrix(pq.read_table(tmp_path / "out.parquet")), known.probs, rtol=0, atol=1e-9)
    if not weighted:
        assert result.n_passes <= 6, "the fit starts from a sample of the first pass"
    again = result.what_if([0.3, 0.4, 0.3])
    np.testing.assert_allclose(again.rates, [0.3, 0.4, 0.3], atol=1e-9)
    with pytest.raises(br.BaserateError, match="has a shift but no rows"):
        _ = again.probs


def test_large_row_groups_are_read_some_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "_HELD_VALUES", 0)
    monkeypatch.setattr("baserate.tables.parquet.PIECE_BYTES", 20_000)
    rows = table(5_000)
    pq.write_table(rows, tmp_path / "in.parquet")
    br.adjust(tmp_path / "in.parquet", RATES, out=tmp_path / "out.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    np.testing.assert_allclose(matrix(out), br.adjust(matrix(rows), list(RATES.values())).probs, rtol=0, atol=1e-9)
    assert out.select(["id", "note"]).equals(rows.select(["id", "note"]))


def test_apply_matches_columns_by_name(tmp_path: Path) -> None:
    rows = table(60)
    result = br.adjust(write(rows, tmp_path / "in.csv"), RATES)
    result.save(tmp_path / "shift.json")
    turned = rows.select(["p_owl", "id", "p_dog", "p_cat"])
    out = br.load(tmp_path / "shift.json").apply(write(turned, tmp_path / "new.parquet"), out=tmp_path / "new.csv")
    written = read(out)
    assert written.column_names == ["p_owl", "id", "p_dog", "p_cat"]
    np.testing.assert_allclose(matrix(written), br.adjust(matrix(rows), list(RATES.values())).probs, atol=1e-12)
    with pytest.raises(BadOption, match="say where the adjusted files should go"):
        result.apply(tmp_path / "new.parquet")
    renamed = write(rows.rename_columns(["id", "a", "age", "b", "c", "note"]), tmp_path / "renamed.csv")
    with pytest.raises(BadOption, match=r"no set of columns matches the classes 'cat', 'dog', 'owl'"):
        result.apply(renamed, out=tmp_path / "o.csv")
    with pytest.raises(BadProbabilities, match="belong to the classes 'a', 'b', 'c', but the adjustment was fitted on"):
        result.apply(renamed, columns=["a", "b", "c"], out=tmp_path / "o.csv")


def test_a_single_column_is_the_probability_of_the_second_class(tmp_path: Path) -> None:
    p = np.random.default_rng(0).beta(1, 9, size=70)
    pq.write_table(pa.table({"card": np.arange(70), "p_fraud": p}), tmp_path / "in.parquet")
    result = br.adjust(tmp_path / "in.parquet", br.Rates.parse("fraud=2%"), columns="p_*", out=tmp_path / "o.parquet")
    assert result.classes == ("not fraud", "fraud")
    known = br.adjust(np.column_stack([1 - p, p]), [0.98, 0.02]).probs
    out = pq.read_table(tmp_path / "o.parquet")
    assert out.column_names == ["card", "p_fraud"]
    np.testing.assert_allclose(out.column("p_fraud").to_numpy(), known[:, 1], rtol=0, atol=1e-12)
    result.apply(tmp_path / "in.parquet", out=tmp_path / "again.parquet")
    assert pq.read_table(tmp_path / "again.parquet").equals(out)
    with pytest.raises(BadOption, match="'p_fraud' is one column of logits"):
        br.adjust(tmp_path / "in.parquet", br.Rates.parse("fraud=2%"), columns=["p_fraud"], from_logits=True)


def test_columns_are_found_by_class_names(tmp_path: Path) -> None:
    rows = table(50)
    path = write(rows, tmp_path / "in.parquet")
    shift = br.adjust(path, RATES).shift
    for columns in ("p_*", COLUMNS, None):
        np.testing.assert_array_equal(br.adjust(path, RATES, columns=columns).shift, shift)
    np.testing.assert_array_equal(br.adjust(path, list(RATES.values()), columns="p_*").shift, shift)
    roughly = br.adjust(path, br.Rates.parse("dog=0.5..0.6"))
    assert roughly.classes == ("cat", "dog", "owl")
    with pytest.raises(BadOption, match=r"Select the columns with probabilities by a pattern, columns='p_\*'"):
        br.adjust(path, list(RATES.values()))
    with pytest.raises(BadProbabilities, match=r"no column matches 'q_\*'; the columns are 'id', 'p_cat'"):
        br.adjust(path, RATES, columns="q_*")
    twice = rows.append_column("q_cat", rows["p_cat"]).append_column("q_dog", rows["p_dog"])
    pq.write_table(twice.append_column("q_owl", rows["p_owl"]), tmp_path / "twice.parquet")
    with pytest.raises(BadOption, match="several sets of columns match the classes"):
        br.adjust(tmp_path / "twice.parquet", RATES)


def test_weights_are_a_column_of_the_file(tmp_path: Path) -> None:
    rows = table(50)
    weights = np.ones(50)
    weights[17] = -1
    pq.write_table(rows.append_column("w", pa.array(weights)), tmp_path / "in.parquet")
    with pytest.raises(BadWeights, match=r"row 17 of .*in\.parquet, column 'w' is -1.0"):
        br.adjust(tmp_path / "in.parquet", RATES, sample_weight="w")
    with pytest.raises(BadOption, match="has no column 'v' with weights"):
        br.adjust(tmp_path / "in.parquet", RATES, sample_weight="v")
    with pytest.raises(BadOption, match="must be the name of a column"):
        br.adjust(tmp_path / "in.parquet", RATES, sample_weight=weights)
    pq.write_table(rows.append_column("w", pa.array(np.zeros(50))), tmp_path / "in.parquet")
    with pytest.raises(BadWeights, match="all weights in column 'w' are zero"):
        br.adjust(tmp_path / "in.parquet", RATES, sample_weight="w")


def read_column(path: Any, name: str) -> list[Any]:
    rows = open_rows(RowSource(probs=path, columns="p_*", other_columns={"labels": name}))
    assert isinstance(rows, table_files.FilesEngine)
    found = rows.read_column(name)
    return [None if code < 0 else found.values[code] for code in found.codes]


@pytest.mark.parametrize("kind", KINDS)
def test_another_column_is_read_in_the_order_of_the_rows(tmp_path: Path, kind: str) -> None:
    rows = table(100)
    path = write(rows, tmp_path / f"in.{kind}")
    assert read_column(path, "note") == rows["note"].to_pylist()
    texts = [str(age) for age in range(100)]
    assert list(map(str, read_column(path, "age"))) == texts


def test_columns_of_several_files_and_of_folder_names_are_read(tmp_path: Path) -> None:
    for country, n in (("DE", 3), ("FR", 2)):
        (tmp_path / f"country={country}").mkdir()
        labels = pa.array(["dog", None] + ["cat"] * (n - 2)).dictionary_encode()
        write(table(n).append_column("y", labels), tmp_path / f"country={country}" / "in.parquet")
    assert read_column(tmp_path, "country") == ["DE", "DE", "DE", "FR", "FR"]
    assert read_column(tmp_path, "y") == ["dog", None, "cat", "dog", None]
    with pytest.raises(
        BadOption, match=r"in\.parquet has no column 'z' with labels; its columns are 'id', .*'country'"
    ):
        read_column(tmp_path, "z")
    with pytest.raises(BadOption, match="column 'p_cat' cannot contain both probabilities and labels"):
        read_column(tmp_path, "p_cat")
    nested = table(2).append_column("y", pa.array([[1], [2]]))
    with pytest.raises(BadOption, match=r"column 'y' of .*nested\.parquet contains list<.*> values, not labels"):
        read_column(write(nested, tmp_path / "nested.parquet"), "y")


def test_arrays_of_an_npz_file_are_read_as_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", probs=predictions(3), y=np.array([2.0, np.nan, 0.0]))
    rows = open_rows(RowSource(probs=tmp_path / "in.npz", other_columns={"labels": "y"}))
    assert isinstance(rows, table_files.FilesEngine)
    found = rows.read_column("y")
    assert (found.values, found.codes.tolist()) == ([2.0, 0.0], [0, -1, 1])


def test_existing_output_is_replaced_only_by_complete_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table(50)
    bad = matrix(rows)
    bad[33, 1] = np.nan
    path = write(rows, tmp_path / "in.parquet")
    broken = tmp_path / "broken.parquet"
    pq.write_table(rows.set_column(3, "p_dog", pa.array(bad[:, 1])), broken)
    out, folder = tmp_path / "out.csv", tmp_path / "folder"
    br.adjust(path, RATES, out=out)
    br.adjust(path, RATES, out=folder)
    before = out.read_bytes(), (folder / "in.parquet").read_bytes()
    for destination in (out, folder):
        with pytest.raises(BadProbabilities, match=r"row 33 of .*broken\.parquet, column 'p_dog' is nan"):
            br.adjust(broken, RATES, out=destination)
    # An error after the last row of the last pass also leaves the existing output unchanged.
    monkeypatch.setattr("baserate.tables.csv_files.CsvWriter.close", lambda self: 1 / 0)
    monkeypatch.setattr("baserate.tables.parquet.ParquetWriter.close", lambda self: 1 / 0)
    for destination in (out, folder):
        with pytest.raises(ZeroDivisionError):
            br.adjust(path, [0.1, 0.1, 0.8], columns="p_*", out=destination)
    monkeypatch.undo()
    assert (out.read_bytes(), (folder / "in.parquet").read_bytes()) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken.parquet", "folder", "in.parquet", "out.csv"]
    for destination in (out, folder):
        br.adjust(path, [0.1, 0.1, 0.8], columns="p_*", out=destination)
    assert out.read_bytes() != before[0]
    assert (folder / "in.parquet").read_bytes() != before[1]
    assert sorted(p.name for p in folder.iterdir()) == ["_SUCCESS", "in.parquet"]


def test_unsafe_destinations_are_refused(tmp_path: Path) -> None:
    path = write(table(20), tmp_path / "in.parquet")
    with pytest.raises(BadOption, match="is also an input; write to another path"):
        br.adjust(path, RATES, out=path)
    with pytest.raises(BadOption, match="is also an input"):
        br.adjust(path, RATES, out=tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear")
    with pytest.raises(BadOption, match="was not all written by baserate: it has no file _SUCCESS"):
        br.adjust(path, RATES, out=tmp_path / "mine")
    (tmp_path / "mine" / "_SUCCESS").touch()  # as Spark does
    with pytest.raises(BadOption, match="another program wrote its file _SUCCESS"):
        br.adjust(path, RATES, out=tmp_path / "mine")
    br.adjust(path, RATES, out=tmp_path / "ours")
    (tmp_path / "ours" / "notes.txt").write_text("dear")
    with pytest.raises(BadOption, match=r"was not all written by baserate: notes\.txt; choose another name"):
        br.adjust(path, RATES, out=tmp_path / "ours")
    with pytest.raises(BadFile, match=r"out\.parquet cannot be written: there is no folder .*nowhere"):
        br.adjust(path, RATES, out=tmp_path / "nowhere" / "out.parquet")
    with pytest.raises(BadOption, match="out= is where adjusted files go, but probs is a ndarray"):
        br.adjust(predictions(9), [0.2, 0.5, 0.3], out=tmp_path / "o.csv")
    tagged = write(table(20).append_column("tags", pa.array([["a"]] * 20)), tmp_path / "tagged.parquet")
    with pytest.raises(BadOption, match="'tags' contain lists, structs, bytes or"):
        br.adjust(tagged, RATES, out=tmp_path / "o.csv")
    for odd in ("/dev/null", path.rename(tmp_path / "table")):
        with pytest.raises(BadOption, match="exists and is not a table; choose a name with a suffix"):
            br.adjust(write(table(20), tmp_path / "in.parquet"), RATES, out=odd)


def test_output_that_a_later_run_would_read_as_input_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f" / "sub").mkdir(parents=True)
    write(table(20), tmp_path / "f" / "in.csv")
    write(table(20), tmp_path / "f" / "sub" / "in.csv")
    (tmp_path / "link").symlink_to("f")
    before = sorted(tmp_path.rglob("*"))
    for where, out in (
        ("f", "f/out/"),
        ("f", tmp_path / "f" / "out.csv"),
        ("link", "f/out"),
        ("f", "link/sub/out.csv"),
        ("f/../f", "f/out"),
        (["f/sub", "f/in.csv"], "f/sub/out.csv"),
    ):
        with pytest.raises(BadOption, match=r"is in the input folder .*, so a later run on this input would also read"):
            br.adjust(where, RATES, out=out)
    for where, out in (
        ("f/*.csv", "f/out.csv"),
        (tmp_path / "f" / "*.csv", "link/out.csv"),
        ("link/i*.csv", "f/in2.csv"),
        ("f/**/*.csv", "f/out"),
        ("f/*/*.csv", "f/sub/out.csv"),
        (["f/in.csv", "f/s*/in.csv"], "f/s2/"),
        ("f/s*/../*.csv", "f/out.csv"),
    ):
        with pytest.raises(BadOption, match=r"(out|s2|in2).* matches the input pattern (f/|link/|/)"):
            br.adjust(where, RATES, out=out)
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "f" / "in2.csv").symlink_to(tmp_path / "new.csv")
    with pytest.raises(BadOption, match=r"in2\.csv is in the input folder f"):
        br.adjust("f", RATES, out="f/in2.csv")
    for where, out in (("f/sub", "f/out.csv"), ("f/sub/in*.csv", "f/sub/out.csv"), ("f/sub/*.csv", "f/sub/out/")):
        br.adjust(where, RATES, out=out)
        assert Path(out).exists()


def test_output_in_the_folder_of_a_dataset_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f" / "k=x").mkdir(parents=True)
    for name in ("f/a.parquet", "f/b.parquet", "f/k=x/c.parquet"):
        write(table(20), tmp_path / name)
    (tmp_path / "f" / "_metadata").touch()
    (tmp_path / "link").symlink_to("f")
    before = sorted(tmp_path.rglob("*"))
    for where, out in (
        ("f", "f/out.parquet"),
        ("link", "f/out"),
        (tmp_path / "f", "link/k=y/"),
        ("f/k=x", "f/k=x/o.csv"),
    ):
        with pytest.raises(
            BadOption, match=r"is in the folder .*, all files of which are in the dataset, so a later run"
        ):
            br.adjust(ds.dataset(where), RATES, out=out)
    monkeypatch.chdir(tmp_path / "f")
    with pytest.raises(BadOption, match="all files of which are in the dataset"):
        br.adjust(ds.dataset("."), RATES, out="out.parquet")
    assert sorted(tmp_path.rglob("*")) == before
    br.adjust(ds.dataset(["a.parquet", str(tmp_path / "f" / "b.parquet")]), RATES, out="out.parquet")
    br.adjust(ds.dataset("."), RATES, out="../out.parquet")


def test_frame_of_files_says_where_the_rows_are(tmp_path: Path) -> None:
    path = write(table(20), tmp_path / "in.parquet")
    with pytest.raises(
        br.BaserateError, match=r"there is no dataframe: the adjusted rows, with all columns, are in .*out\.csv"
    ):
        _ = br.adjust(path, RATES, out=tmp_path / "out.csv").frame
    with pytest.raises(br.BaserateError, match=r"made from files without out=; use apply\(dataframe, whole=True\)"):
        _ = br.adjust(path, RATES).frame


def test_queries_are_not_names_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for query in ("select * from t", "WITH a AS (SELECT 1)\nSELECT p\nFROM a" + " JOIN b USING (id)" * 300):
        with pytest.raises(BadOption, match=r"is a query, not a file; pass a relation of DuckDB, such as duckdb\.sql"):
            br.adjust(query, RATES)
    name = "select p from t.csv"
    with pytest.raises(BadOption, match="is a query"):
        br.adjust(name, RATES)
    br.adjust(write(table(20), tmp_path / name), RATES)
    assert br.adjust(name, RATES).n_rows == 20


def test_output_to_a_dataset_in_a_store_is_refused() -> None:
    memory = fsspec.filesystem("memory")
    with memory.open("/shelf/data/a.parquet", "wb") as file:
        pq.write_table(table(20), file)
    dataset = ds.dataset("/shelf/data", filesystem=memory)
    with pytest.raises(BadOption, match=r"memory://shelf/data/a\.parquet is also an input"):
        br.adjust(dataset, RATES, out="memory://shelf/data/a.parquet")
    with pytest.raises(BadOption, match=r"memory://shelf/data/b\.parquet is in the folder /shelf/data"):
        br.adjust(dataset, RATES, out="memory://shelf/data/b.parquet")
    assert memory.find("/shelf/data") == ["/shelf/data/a.parquet"]


class Watcher(Progress):
    """Notes the permissions of temporary files while rows are written."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.modes = folder, set[int]()

    def rows(self, n_rows: int) -> None:
        self.modes |= {mode(path) for path in self.folder.glob(".*.tmp")}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_unfinished_output_is_not_readable_by_others(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(table(20), folder / "in.csv")
    (tmp_path / "plain").touch()
    usual = mode(tmp_path / "plain"), mode(folder)
    for out, private in (("new.csv", 0o600), ("new", 0o700)):
        watcher = Watcher(tmp_path)
        br.adjust(folder, RATES, out=tmp_path / out, progress=watcher)
        assert watcher.modes == {private}
    assert (mode(tmp_path / "new.csv"), mode(tmp_path / "new")) == usual
    assert mode(tmp_path / "new" / "in.csv") == usual[0]
    (tmp_path / "new.csv").chmod(0o640)
    (tmp_path / "new").chmod(0o750)
    (tmp_path / "new" / "in.csv").chmod(0o600)
    for out, during in (("new.csv", 0o640), ("new", 0o700)):
        watcher = Watcher(tmp_path)
        br.adjust(folder, RATES, out=tmp_path / out, progress=watcher)
        assert watcher.modes == {during}
    assert (mode(tmp_path / "new.csv"), mode(tmp_path / "new")) == (0o640, 0o750)
    assert mode(tmp_path / "new" / "in.csv") == 0o600


def test_files_in_subfolders_keep_their_permissions(tmp_path: Path) -> None:
    (tmp_path / "in" / "country=DE").mkdir(parents=True)
    write(table(20), tmp_path / "in" / "country=DE" / "in.csv")
    new = tmp_path / "out" / "country=DE"
    for _ in range(2):
        br.adjust(tmp_path / "in", RATES, out=tmp_path / "out")
        if new.stat().st_mode & 0o777 != 0o700:
            new.chmod(0o700)
            (new / "in.csv").chmod(0o400)
    assert (mode(new), mode(new / "in.csv")) == (0o700, 0o400)


def test_output_paths_that_the_system_cannot_use_are_refused(tmp_path: Path) -> None:
    path = write(table(20), tmp_path / "in.csv")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    with pytest.raises(BadFile, match=r"loop\.csv cannot be used: its symbolic links lead in a circle"):
        br.adjust(path, RATES, out=tmp_path / "loop.csv")
    with pytest.raises(BadFile, match=r"x+\.\.\.x+\.csv cannot be used: the path, or a name in it, is longer"):
        br.adjust(path, RATES, out=f"{'x' * 5000}.csv")
    with pytest.raises(BadFile, match="cannot be a path: it contains a zero character"):
        br.adjust(path, RATES, out="a\0b.csv")
    longest = tmp_path / f"{'ä' * 125}x.csv"  # 255 bytes
    br.adjust(path, RATES, out=longest)
    assert longest.exists(), "its temporary file has a shorter name"


def test_symbolic_links_are_kept_and_named_pipes_are_read(tmp_path: Path) -> None:
    path = write(table(20), tmp_path / "in.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    br.adjust(path, RATES, out=tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        pool.submit((tmp_path / "pipe").write_bytes, path.read_bytes())
        br.adjust(tmp_path / "pipe", RATES, out=tmp_path / "piped.csv")
    assert (tmp_path / "piped.csv").read_bytes() == (tmp_path / "real.csv").read_bytes()


def test_temporary_files_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(table(20), tmp_path / "in.parquet")
    abandoned = tmp_path / ".out.parquet.0123456789abcdef.tmp"
    abandoned.write_text("half")
    br.adjust(path, RATES, out=tmp_path / "out.parquet")
    assert abandoned.exists(), "another process may just have created it"
    monkeypatch.setattr("baserate.support.atomic_files._MIN_AGE", -1)
    br.adjust(path, RATES, out=tmp_path / "out.parquet")
    assert not abandoned.exists()


def test_error_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(table(20), tmp_path / "in.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'tables in files need pyarrow: pip install "baserate\[files\]"'):
        br.adjust(path, RATES)


def test_other_columns_of_csv_files_are_not_changed(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(
        b'id;note;p_cat;p_dog\n007;"semi; colon";0,25;0,75\n1e5;caf\xe9;0,5;0,5\n"two\nlines";NA;0,125;0,875\n'
    )
    files = Files(tmp_path / "in.csv", delimiter=";", decimal=",")
    br.adjust(files, {"cat": 0.4, "dog": 0.6}, out=tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_bytes().split(b"\n")
    assert lines[0] == b"id;note;p_cat;p_dog"
    assert lines[1].startswith(b'007;"semi; colon";0,')
    assert lines[2].startswith(b"1e5;caf\xe9;0,")
    assert (lines[3], lines[4][:7]) == (b'"two', b'lines";')
    with pytest.raises(BadFile, match=r"column 'note' .* is not UTF-8 text"):
        br.adjust(files, {"cat": 0.4, "dog": 0.6}, out=tmp_path / "out.parquet")


def test_csv_columns_get_types_that_fit_all_entries(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(
        "code,n,x,yes,empty,p_a,p_b\n007,-12,1.5,true,,0.5,0.5\n8,,2e-3,false,,0.25,0.75\n"
    )
    br.adjust(tmp_path / "in.csv", {"a": 0.3, "b": 0.7}, out=tmp_path / "out.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    types = dict(zip(out.column_names, map(str, out.schema.types), strict=True))
    assert types == {"code": "string", "n": "int64", "x": "double", "yes": "bool", "empty": "string"} | {
        "p_a": "double",
        "p_b": "double",
    }
    assert out.column("code").to_pylist() == ["007", "8"]
    assert out.column("n").to_pylist() == [-12, None]


def test_npz_files_keep_the_order_of_their_classes(tmp_path: Path) -> None:
    p = predictions(30)
    np.savez(tmp_path / "abc.npz", probs=p, classes=["cat", "dog", "owl"], row=np.arange(30))
    np.savez(tmp_path / "cba.npz", probs=p[:, ::-1], classes=["owl", "dog", "cat"], extra=np.zeros((2, 2, 2)))
    result = br.adjust(tmp_path / "abc.npz", RATES, out=tmp_path / "x.npz")
    result.apply(tmp_path / "cba.npz", out=tmp_path / "y.npz")
    with np.load(tmp_path / "x.npz") as x, np.load(tmp_path / "y.npz") as y:
        np.testing.assert_allclose(y["probs"][:, ::-1], x["probs"], atol=1e-15)
        assert y["classes"].tolist() == ["owl", "dog", "cat"]
        np.testing.assert_array_equal(x["row"], np.arange(30))
    with pytest.raises(BadOption, match=r"would lose 'extra'; write to a folder, or to NPZ"):
        result.apply(tmp_path / "cba.npz", out=tmp_path / "y.csv")
    br.adjust(write(table(30), tmp_path / "t.csv"), RATES, out=tmp_path / "t.npz")
    with np.load(tmp_path / "t.npz") as t:
        assert t["classes"].tolist() == ["cat", "dog", "owl"]
        assert t["id"][1] == "00001"


def test_long_numbers_in_csv_files_lose_no_digits(tmp_path: Path) -> None:
    rows = ["tweet,d,v,z,x,p_cat,p_dog"]
    rows += ["1234567890123456789,0.12345678901234567890123,-,-0,1e400,0.5,0.5", "12,0.5,1.5,0,1.5,0.3,0.7"]
    (tmp_path / "in.csv").write_text("\n".join(rows))
    br.adjust(tmp_path / "in.csv", {"cat": 0.2, "dog": 0.8}, out=tmp_path / "out.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    assert [str(kind) for kind in out.schema.types[:5]] == ["string"] * 5
    assert out.column("tweet").to_pylist() == ["1234567890123456789", "12"]


def test_csv_files_get_common_types(tmp_path: Path) -> None:
    for name, value in (("a", "1"), ("b", "1.5"), ("c", "")):
        (tmp_path / f"{name}.csv").write_text(f"v,w,p_cat,p_dog\n{value},{name if name == 'a' else 7},0.5,0.5\n")
    br.adjust(str(tmp_path / "*.csv"), {"cat": 0.2, "dog": 0.8}, out=tmp_path / "out.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.column("v").to_pylist() == [1.0, 1.5, None]
    assert out.column("w").to_pylist() == ["a", "7", "7"]


def test_parquet_files_may_differ_in_nullable_columns(tmp_path: Path) -> None:
    for name, nullable in (("a", False), ("b", True)):
        fields = [pa.field("id", pa.int64(), nullable=nullable), ("p_cat", pa.float64()), ("p_dog", pa.float64())]
        one = pa.table([[None if nullable else 1], [0.5], [0.5]], schema=pa.schema(fields))
        pq.write_table(one, tmp_path / f"{name}.parquet")
    br.adjust(str(tmp_path / "?.parquet"), {"cat": 0.2, "dog": 0.8}, out=tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").column("id").to_pylist() == [1, None]


def test_classes_must_match_whole_words_of_column_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p_fine,p_fraud\n0.5,0.5\n0.3,0.7\n")
    with pytest.raises(BadOption, match="no set of columns matches"):
        br.adjust(tmp_path / "a.csv", br.Rates.parse("frau=0.02"))
    (tmp_path / "b.csv").write_text("fine,fraud,other\n0.5,0.3,0.2\n0.3,0.2,0.5\n")
    with pytest.raises(BadOption, match=r"only 'fraud' is a class that the rates name\. Select the columns"):
        br.adjust(tmp_path / "b.csv", br.Rates.parse("fraud=0.02"))


def test_output_to_the_input_is_refused_for_every_spelling_of_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(table(20), tmp_path / "in.parquet")
    br.adjust(path, RATES, out=tmp_path / "first")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("first")
    for where, out in (("first", tmp_path / "first"), ("link", "first"), ("first/../first", "first")):
        with pytest.raises(BadOption, match="is also an input"):
            br.adjust(where, RATES, out=out)
    (tmp_path / "first" / "in.parquet").chmod(0o640)
    (tmp_path / "out.parquet").touch(mode=0o600)
    br.adjust(path, RATES, out="out.parquet")
    assert (tmp_path / "out.parquet").stat().st_mode & 0o777 == 0o600


def test_files_of_the_same_name_in_several_folders_are_kept_apart(tmp_path: Path) -> None:
    for country in ("DE", "007"):
        (tmp_path / f"country={country}").mkdir()
        write(table(20), tmp_path / f"country={country}" / "x.parquet")
    files = sorted(tmp_path.glob("*/x.parquet"))
    br.adjust(files, RATES, out=tmp_path / "out")
    assert (tmp_path / "out" / "country=DE" / "x.parquet").exists()
    br.adjust(files, RATES, out=tmp_path / "one.parquet")
    one = pq.ParquetFile(tmp_path / "one.parquet").read()
    assert one.column("country").to_pylist() == ["007"] * 20 + ["DE"] * 20


def test_csv_files_may_begin_like_other_formats(tmp_path: Path) -> None:
    for first in ("ORCID", "FEA1", "PAR1", "BZh9", "{id}"):
        (tmp_path / "in.csv").write_text(f"{first},p_cat,p_dog\n1,0.5,0.5\n")
        assert br.adjust(tmp_path / "in.csv", {"cat": 0.2, "dog": 0.8}).n_rows == 1
    with pytest.raises(
        BadOption, match=r"does not end with the suffix of a known format; for a folder, write .*res\.json/"
    ):
        br.adjust(tmp_path / "in.csv", {"cat": 0.2, "dog": 0.8}, out=tmp_path / "res.json")
    br.adjust(tmp_path / "in.csv", {"cat": 0.2, "dog": 0.8}, out=tmp_path / "OUT.CSV.GZ")
    assert (tmp_path / "OUT.CSV.GZ").read_bytes().startswith(b"\x1f\x8b")


def test_an_adjustment_fitted_on_a_file_applies_to_a_dataframe(tmp_path: Path) -> None:
    rows = table(30)
    result = br.adjust(write(rows, tmp_path / "in.csv"), RATES)
    out = result.apply(rows.select(COLUMNS).to_pandas())
    np.testing.assert_allclose(out.to_numpy(), br.adjust(matrix(rows), list(RATES.values())).probs, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("Int64", None), ("boolean", None), ("int8", None), ("Float32", "float64"), ("float64", "float32")],
)
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_pandas_reads_the_adjusted_types(kind: str, dtype: Any, suffix: str, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    yes = pd.Series([0, 1, 1, 0, 1, 1]).astype(kind)
    no = 1 - yes if kind != "boolean" else ~yes
    given = pd.DataFrame({"id": pd.Series(range(6), dtype="Int16"), "p_no": no, "p_yes": yes})
    write(pa.Table.from_pandas(given), tmp_path / f"in.{suffix}")
    out, rates = tmp_path / f"out.{suffix}", {"no": 0.5, "yes": 0.5}
    br.adjust(tmp_path / f"in.{suffix}", rates, columns="p_*", loss="brier", out=out, dtype=dtype)
    found = pd.read_parquet(out) if suffix == "parquet" else pd.read_feather(out)
    assert found.dtypes.astype(str).to_dict() == {"id": "Int16", **dict.fromkeys(["p_no", "p_yes"], dtype or "float64")}
    assert found["p_yes"].mean() == pytest.approx(0.5)


def test_an_empty_line_of_a_file_with_one_column_is_a_missing_value(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    for text, row in (("p\n0.7\n\n0.3\n", 1), ("p\r\n\r\n0.7\r\n", 0), ("p\n" + "0.7\n" * 300_000 + "\n0.3", 300_000)):
        path.write_bytes(text.encode())
        with pytest.raises(BadProbabilities, match=rf"row {row} of .*in.csv is nan; probabilities must"):
            br.adjust(path, 0.4, columns="p", out=tmp_path / "out.csv")


@pytest.mark.parametrize("new_line", ["\n", "\r\n"])
@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_empty_lines_at_the_ends_of_a_file_with_one_column_are_no_rows(
    new_line: str, suffix: str, tmp_path: Path
) -> None:
    path, open_file = tmp_path / f"in.{suffix}", gzip.open if suffix == "csv.gz" else open
    for before, after, n_rows in (("", "", 2), ("\n\n", "\n", 2), ("", "\n" * 5, 2), ("\n", "\n" * 200_000, 100_000)):
        text = f"{before}p\n" + "\n".join(["0.7", "0.3"] * (n_rows // 2)) + after
        with open_file(path, "wb") as file:
            file.write(text.replace("\n", new_line).encode())
        assert br.adjust(path, 0.4, columns="p", out=tmp_path / "out.csv").n_rows == n_rows
