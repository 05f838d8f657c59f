"""Unusual files are adjusted correctly. Broken files raise an error that says what is wrong and where."""

from __future__ import annotations

import gzip
import json
import os
import re
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import baserate as br

A, B = [0.7, 0.2, 0.4, 0.5], [0.3, 0.8, 0.6, 0.5]
RATES = {"a": 0.3, "b": 0.7}
EXPECTED = br.adjust(np.column_stack([A, B]), [0.3, 0.7]).probs
GOOD = "id,p_a,p_b\n1,0.7,0.3\n2,0.2,0.8\n3,0.4,0.6\n4,0.5,0.5\n"


def rows(**columns: Any) -> pa.Table:
    return pa.table({"id": [1, 2, 3, 4], "p_a": A, "p_b": B} | columns)


def text(content: str | bytes, name: str = "in.csv") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def parquet(table: pa.Table, **options: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        pq.write_table(table, folder / "in.parquet", **options)
        return folder / "in.parquet"

    return make


def several(*tables: pa.Table) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        for i, table in enumerate(tables):
            pq.write_table(table, folder / f"{i}.parquet")
        return folder

    return make


def cut(make: Callable[[Path], Path], share: float) -> Callable[[Path], Path]:
    def made(folder: Path) -> Path:
        path = make(folder)
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * share)])
        return path

    return made


def feather(table: pa.Table, **options: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        pa.feather.write_feather(table, str(folder / "in.feather"), **options)
        return folder / "in.feather"

    return make


def stream(table: pa.Table, complete: bool = True) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table, max_chunksize=2)
        data = sink.getvalue().to_pybytes()
        (folder / "in.arrows").write_bytes(data if complete else data[:-200])
        return folder / "in.arrows"

    return make


def numpy_file(array: Any, **arrays: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        if arrays:
            np.savez(folder / "in.npz", **arrays)
            return folder / "in.npz"
        np.save(folder / "in.npy", array, allow_pickle=True)
        return folder / "in.npy"

    return make


def orc(folder: Path) -> Path:
    pyarrow.orc.write_table(rows(), folder / "in.orc")
    return folder / "in.orc"


def zipped(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "in.zip", "w") as archive:
        archive.writestr("in.csv", GOOD)
    return folder / "in.zip"


def empty_folder(folder: Path) -> Path:
    (folder / "sub").mkdir()
    return folder / "sub"


def with_notes(folder: Path) -> Path:
    pq.write_table(rows(), folder / "in.parquet")
    (folder / "notes.md").write_text("read me")
    return folder


def unreadable(folder: Path) -> Path:
    path = text(GOOD)(folder)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read all files")
    return path


def hive(folder: Path) -> Path:
    (folder / "p_a=0.5").mkdir()
    pq.write_table(rows().drop_columns("p_a"), folder / "p_a=0.5" / "x.parquet")
    return folder


def no_row_groups(folder: Path) -> Path:
    with pq.ParquetWriter(folder / "in.parquet", rows().schema):
        pass
    return folder / "in.parquet"


def one_file_without_rows(folder: Path) -> Path:
    return several(rows().slice(0, 2), rows().slice(0, 0), rows().slice(2))(folder)


UNUSUAL: dict[str, Callable[[Path], Path]] = {
    "plain CSV": text(GOOD),
    "byte order mark": text(b"\xef\xbb\xbf" + GOOD.encode()),
    "Windows line endings": text(GOOD.replace("\n", "\r\n")),
    "no line break at the end": text(GOOD.rstrip()),
    "empty lines at the end": text(GOOD + "\n\n"),
    "quoted numbers": text(GOOD.replace("0.7", '"0.7"').replace("0.8", '"0.8"')),
    "spaces around numbers": text(GOOD.replace(",0.3", ", 0.3 ")),
    "other notations of numbers": text(GOOD.replace("0.7", "7e-1").replace("0.5", ".5")),
    "quoted column names": text(GOOD.replace("p_a", '"p_a"')),
    "gzip without the suffix": text(gzip.compress(GOOD.encode())),
    "CSV with the suffix .txt": text(GOOD, "in.txt"),
    "Parquet with the suffix .csv": lambda folder: parquet(rows())(folder).rename(folder / "in.csv"),
    "line breaks in another column": text(GOOD.replace("1,", '"1\n1",', 1)),
    "columns in another order": parquet(rows().select(["p_b", "id", "p_a"])),
    "float16": parquet(rows(p_a=np.array(A, np.float16), p_b=np.array(B, np.float16))),
    "float32 and float64": parquet(rows(p_a=np.array(A, np.float32))),
    "decimals": parquet(rows(p_a=[Decimal(str(x)) for x in A], p_b=[Decimal(str(x)) for x in B])),
    "dictionary columns": parquet(rows(p_a=pa.array(A).dictionary_encode(), p_b=pa.array(B).dictionary_encode())),
    "nested other columns": parquet(rows(tags=[["x"], None, [], ["y"]], place=[{"x": 1}] * 4)),
    "another column of nulls": parquet(rows(nothing=pa.nulls(4))),
    "one row per row group": parquet(rows(), row_group_size=1),
    "Parquet version 1.0": parquet(rows(), version="1.0", compression="gzip"),
    "compressed Feather": feather(rows(), compression="zstd"),
    "Arrow stream": stream(rows()),
    "one of several files without rows": one_file_without_rows,
    "file name with special characters": lambda folder: parquet(rows())(folder).rename(folder / "ä b %20 [x].parquet"),
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_files_are_adjusted_correctly(kind: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = UNUSUAL[kind](tmp_path / "in")
    br.adjust(path, RATES, out=tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    got = np.column_stack([found.column("p_a").to_numpy(), found.column("p_b").to_numpy()])
    np.testing.assert_allclose(got, EXPECTED, rtol=0, atol=1e-3 if kind == "float16" else 1e-7)


def link_to_itself(name: str) -> Callable[[Path], Path]:
    """A folder with a link that leads to itself, and the path of the link or of something that contains it."""

    def make(folder: Path) -> Path:
        (folder / "in.csv").symlink_to("in.csv")
        (folder / "more.csv").write_text(GOOD)
        return folder / (name or "in.csv")

    return make


def not_an_array(folder: Path) -> Path:
    np.savez(folder / "in.npz", p=np.column_stack([A, B]))
    with zipfile.ZipFile(folder / "in.npz", "a") as archive:
        archive.writestr("note.npy", b"hello")
    return folder / "in.npz"


BROKEN: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no such file": (lambda folder: folder / "x.csv", "there is no file {in}/x.csv"),
    "nothing matches": (lambda folder: folder / "*.csv", "no file matches {in}/*.csv"),
    "a link that leads to itself": (
        link_to_itself(""),
        "{in}/in.csv cannot be used: its symbolic links lead in a circle; remove the link, or let it point to a file",
    ),
    "a pattern that matches such a link": (link_to_itself("*.csv"), "{in}/in.csv cannot be used: its symbolic links"),
    "a folder with such a link": (link_to_itself("."), "{in}/in.csv cannot be used: its symbolic links"),
    "a path of 5000 characters": (
        lambda folder: folder / ("x" * 5000),
        f"{'x' * 38} cannot be used: the path, or a name in it, is longer than the system allows; choose a shorter one",
    ),
    "empty folder": (empty_folder, "the folder {in}/sub contains no files"),
    "folder with other files": (
        with_notes,
        "the folder {in} also contains notes.md, which is not a table; select the files by",
    ),
    "unreadable": (unreadable, "{in}/in.csv cannot be read: permission denied"),
    "no bytes": (text(""), "{in}/in.csv is empty: it has no bytes at all"),
    "only white space": (text("\n \n"), "{in}/in.csv is empty"),
    "header only": (text("id,p_a,p_b\n"), "{in}/in.csv has no rows"),
    "wrong delimiter": (
        text(GOOD.replace(",", ";")),
        "{in}/in.csv has only one column, 'id;p_a;p_b'. If its columns are separated by ';', pass delimiter=';'",
    ),
    "semicolons and decimal commas": (
        text("id;p_a;p_b\n1;0,7;0,3\n2;0,2;0,8\n"),
        "{in}/in.csv cannot be split into columns by ','. If its columns are separated by ';', pass delimiter=';'; for "
        "decimal commas also pass decimal=','",
    ),
    "a comma in a name, and semicolons": (
        text('id;"p_a, first";p_b\n1;0.7;0.3\n'),
        "If its columns are separated by ';', pass delimiter=';'",
    ),
    "duplicate columns": (text(GOOD.replace("id", "p_a")), "{in}/in.csv has 2 columns named 'p_a'"),
    "words among numbers": (
        text(GOOD.replace("0.8", "high")),
        "row 1 of {in}/in.csv, column 'p_b' is 'high', which is not a number",
    ),
    "decimal commas": (
        text('id,p_a,p_b\n1,"0,7","0,3"\n'),
        "row 0 of {in}/in.csv, column 'p_a' is '0,7', which is not a number; for decimal commas pass decimal=','",
    ),
    "decimal commas without quotes": (text("p_a,p_b\n0,7,0,3\n"), "Expected 2 columns, got 4: 0,7,0,3"),
    "too few entries": (
        text(GOOD + "5,0.5\n"),
        "{in}/in.csv is not a valid CSV file: CSV parse error: Row #6: Expected 3 columns, got 2: 5,0.5",
    ),
    "too many entries": (text(GOOD + "5,0.5,0.5,0.5\n"), "Expected 3 columns, got 4: 5,0.5,0.5,0.5"),
    "missing entry": (text(GOOD.replace("0.8", "")), "row 1 of {in}/in.csv, column 'p_b' is nan"),
    "NA": (text(GOOD.replace("0.8", "NA")), "row 1 of {in}/in.csv, column 'p_b' is nan"),
    "infinity in text": (text(GOOD.replace("0.8", "inf")), "row 1 of {in}/in.csv, column 'p_b' is inf"),
    "percentages": (text(GOOD.replace("0.8", "80%")), "row 1 of {in}/in.csv, column 'p_b' is '80%'"),
    "missing class": (
        text("id,p_a\n1,0.7\n"),
        "{in}/in.csv has the columns 'id', 'p_a'; the rates name 2 classes, 'a', 'b', but 'b' has no column. If there "
        "is no such class, leave it out of the rates. Select the columns",
    ),
    "no class among the columns": (
        text("id,p_x,p_y\n1,0.7,0.3\n"),
        "no set of columns matches the classes 'a', 'b'. Select the columns",
    ),
    "UTF-16": (text(GOOD.encode("utf-16")), "{in}/in.csv is not UTF-8 text: it contains zero bytes, as UTF-16"),
    "zero bytes": (text(GOOD + "\0"), "{in}/in.csv is not UTF-8 text: it contains zero bytes"),
    "JSON": (text(json.dumps([{"p_a": 1}])[1:-1], "in.csv"), "{in}/in.csv is JSON; convert it to CSV or Parquet"),
    "an Excel file": (text(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "in.csv"), "is an old Excel file; save it as CSV"),
    "an ORC file": (orc, "{in}/in.orc is an ORC file; pass pyarrow.dataset.dataset(path, format='orc')"),
    "a zip archive": (zipped, "{in}/in.zip is a zip archive, but not an NPZ file; extract the table from it first"),
    "truncated gzip": (
        cut(text(gzip.compress(GOOD.encode() * 99), "in.csv.gz"), 0.5),
        "{in}/in.csv.gz cannot be read: Truncated compressed stream",
    ),
    "CSV with the suffix .parquet": (
        text(GOOD, "in.parquet"),
        "the name of {in}/in.parquet says that it is Parquet, but its content is not: it begins with b'id,p_a,p_b",
    ),
    "truncated Parquet": (cut(parquet(rows()), 0.6), "{in}/in.parquet is not a complete Parquet file: "),
    "damaged Parquet": (
        lambda folder: _damaged(parquet(rows(), compression="snappy", use_dictionary=False)(folder)),
        "{in}/in.parquet cannot be read: ",
    ),
    "zero row groups": (no_row_groups, "{in}/in.parquet has no rows"),
    "nulls": (parquet(rows(p_b=[0.3, None, 0.6, 0.5])), "row 1 of {in}/in.parquet, column 'p_b' is nan"),
    "infinities": (parquet(rows(p_b=[0.3, 0.8, np.inf, 0.5])), "row 2 of {in}/in.parquet, column 'p_b' is inf"),
    "negative": (parquet(rows(p_b=[0.3, 0.8, -0.6, 0.5])), "row 2 of {in}/in.parquet, column 'p_b' is -0.6"),
    "sums other than 1": (parquet(rows(p_b=[0.3, 0.8, 0.6, 0.9])), "the worst is row 3 of {in}/in.parquet, which sums"),
    "strings in a column": (
        parquet(rows(p_b=["0.3", "0.8", "0.6", "0.5"])),
        "column 'p_b' of {in}/in.parquet contains string values, not probabilities; select the columns with",
    ),
    "lists in a column": (parquet(rows(p_b=[[0.3]] * 4)), "column 'p_b' of {in}/in.parquet contains list<"),
    "a column of nulls": (parquet(rows(p_b=pa.nulls(4))), "column 'p_b' of {in}/in.parquet contains null values"),
    "dates in a column": (
        parquet(rows(p_b=pa.array([1] * 4, pa.date32()))),
        "contains date32[day] values, not probabilities",
    ),
    "a class in the path": (
        hive,
        "'a', 'b', but 'a' has no column. If there is no such class, leave it out of the rates. Select the columns",
    ),
    "a column that others lack": (
        several(rows(), rows().drop_columns("id")),
        "the files have different columns: compared with {in}/0.parquet, {in}/1.parquet has no column 'id'",
    ),
    "a column that changes its type": (
        several(rows(), rows(id=["x"] * 4)),
        "column 'id' has different types: it is int64 in {in}/0.parquet, but string in {in}/1.parquet",
    ),
    "a bad row in the second file": (
        several(rows(), rows(p_a=[0.7, 0.2, float("nan"), 0.5])),
        "row 2 of {in}/1.parquet, column 'p_a' is nan",
    ),
    "truncated Feather": (cut(feather(rows()), 0.7), "{in}/in.feather is not a complete Arrow file"),
    "truncated stream": (stream(rows(), complete=False), "{in}/in.arrows is not a complete Arrow stream"),
    "truncated NPY": (
        cut(numpy_file(np.column_stack([A, B])), 0.9),
        "{in}/in.npy is not a complete NPY file of numbers",
    ),
    "objects in NPY": (
        numpy_file(np.array([[A, None]], dtype=object)),
        "{in}/in.npy is not a complete NPY file of numbers",
    ),
    "one dimension in NPY": (numpy_file(np.array(A)), "{in}/in.npy must have 2 dimensions (rows, classes)"),
    "no matrix in NPZ": (numpy_file(None, y=np.zeros(3)), "{in}/in.npz contains no matrix of numbers"),
    "a member of NPZ that is not an array": (
        not_an_array,
        "the member 'note.npy' of {in}/in.npz is not an array; save it again",
    ),
    "truncated NPZ": (cut(numpy_file(None, p=np.eye(2)), 0.8), "{in}/in.npz is not a complete NPZ file"),
}


def _damaged(path: Path) -> Path:
    data = bytearray(path.read_bytes())
    data[20:60] = b"\xff" * 40
    path.write_bytes(bytes(data))
    return path


def test_long_column_names_are_shortened_in_messages(tmp_path: Path) -> None:
    name = "p_" + "x" * 100_000
    path = tmp_path / "in.csv"
    path.write_text(f"id,{name},p_b\n1,0.7,0.3\n")
    with pytest.raises(br.BaserateError, match=r"has the columns 'id', 'p_x+\.\.\.x+', 'p_b'") as caught:
        br.adjust(path, RATES)
    assert len(str(caught.value)) < 1000
    path.write_text(f"{name},p_b\n-1,2\n")
    with pytest.raises(br.BaserateError, match=r"row 0 of .*, column 'p_x+\.\.\.x+' is -1") as caught:
        br.adjust(path, [0.3, 0.7], columns="p_*")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_refused_with_a_reason(kind: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    make, message = BROKEN[kind]
    path = make(tmp_path / "in")
    (tmp_path / "out.csv").write_text("old content")
    with pytest.raises(br.BaserateError) as caught:
        br.adjust(path, RATES, out=tmp_path / "out.csv")
    assert message.replace("{in}", str(tmp_path / "in")) in str(caught.value)
    assert all(str(option) in str(caught.value) for option in caught.value.options)
    suggested = re.findall(r"(?<![\w'])(columns|delimiter|decimal|normalize|from_logits)=", str(caught.value))
    assert suggested == [option.name for option in caught.value.options]
    assert (tmp_path / "out.csv").read_text() == "old content"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out.csv"], "no temporary file is left"
