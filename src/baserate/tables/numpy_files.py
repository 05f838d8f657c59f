"""NumPy's files: a matrix (NPY), or several arrays of which one is the matrix (NPZ)."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from baserate.errors import BadFile, BadOption
from baserate.inputs.columns import Columns
from baserate.inputs.validation import as_matrix, listed
from baserate.tables.base import BATCH_ROWS, Format, Part, Piece, Rows, Source, Writer
from baserate.tables.dialect import Dialect


class MatrixPart(Part):
    """A matrix of which stretches of rows can be read.

    Its columns are called ``p_0``, ``p_1``, ..., or ``p_`` and the class where the file names the classes.
    """

    def __init__(self, source: Source, kind: Format, matrix: NDArray[Any], classes: Sequence[str] | None) -> None:
        self.name, self.below, self.partition, self.format = source.name, source.below, source.partition, kind
        as_matrix(matrix[:1] if matrix.ndim == 2 else matrix, what=self.name)
        self._matrix = matrix
        k = matrix.shape[1]
        columns = [f"p_{c}" for c in (range(k) if classes is None else classes)]
        self.own = Columns(tuple(columns), None if classes is None else tuple(classes))
        native = matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 8
        dtype = matrix.dtype.newbyteorder("=") if native else np.dtype(np.float64)
        self.schema = pa.schema([(name, pa.from_numpy_dtype(dtype)) for name in columns])
        self.arrays: dict[str, NDArray[Any]] = {}
        self.member = ""
        self.packed = False

    @property
    def n_rows(self) -> int:
        return len(self._matrix)

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        for start in range(0, self.n_rows, BATCH_ROWS):
            size = min(BATCH_ROWS, self.n_rows - start)
            yield Piece(size, partial(self._read, start, size, columns))

    def _read(self, start: int, n_rows: int, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        rows = self._matrix[start : start + n_rows]
        names = [f.name for f in self.schema if columns is None or f.name in columns]
        yield pa.record_batch([self._column(name, rows, start) for name in names], names=names)

    def _column(self, name: str, rows: NDArray[Any], start: int) -> pa.Array:
        kind = self.schema.field(name).type
        at = self.own.names.index(name) if self.own is not None and name in self.own.names else None
        values = self.arrays[name][start : start + len(rows)] if at is None else rows[:, at]
        if at is not None:
            return pa.array(np.ascontiguousarray(values, dtype=kind.to_pandas_dtype()), kind)
        return pa.array(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("=")), kind)

    @property
    def only_here(self) -> list[str]:
        return [name for name in self.arrays if name not in (*self.schema.names, self.member, "classes")]


class Npy(Format):
    """NPY."""

    name = "NPY"
    suffixes = (".npy",)
    magic = (b"\x93NUMPY",)

    def part(self, source: Source, dialect: Dialect, member: str | None) -> Part:
        if member is not None:
            raise BadOption(f"{source.name} is one matrix without names, of which no columns can be chosen")
        try:
            if source.path is not None:  # a map of the file: only what is read comes into memory
                matrix = np.load(source.path, mmap_mode="r", allow_pickle=False)
            else:
                matrix = np.load(io.BytesIO(source.open().read()), allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise BadFile(f"{source.name} is not a whole NPY file of numbers: {error}") from None
        return MatrixPart(source, self, matrix, None)

    def writer(self, file: BinaryIO, schema: pa.Schema, like: Part, rows: Rows) -> Writer:
        return NpyWriter(file, schema, rows)

    def refuses(self, schema: pa.Schema, like: Part, rows: Rows) -> str | None:
        lost = [name for name in schema.names if name not in rows.columns.names]
        return f"it holds one matrix, so the columns {listed(lost)} would be lost" if lost else None


class NpyWriter(Writer):
    """Writes a matrix, row by row."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, rows: Rows) -> None:
        self._file, self._columns = file, [name for name in schema.names if name in rows.columns.names]
        self._dtype = np.result_type(*(schema.field(name).type.to_pandas_dtype() for name in self._columns))
        shape = (rows.n_rows, len(self._columns))
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)

    def write(self, table: pa.Table) -> None:
        columns = [table.column(name).to_numpy() for name in self._columns]
        self._file.write(np.stack(columns, axis=1).astype(self._dtype, copy=False).tobytes())

    def close(self) -> None:
        pass


class Npz(Format):
    """NPZ, which is read and written as a whole, in memory."""

    name = "NPZ"
    suffixes = (".npz",)
    magic = (b"PK\x03\x04", b"PK\x05\x06")

    def part(self, source: Source, dialect: Dialect, member: str | None) -> Part:
        arrays, packed = _arrays(source)
        name = _matrix_among(arrays, member, source.name)
        matrix, classes = arrays[name], arrays.get("classes")
        named = classes is not None and classes.shape == (matrix.shape[1],)
        part = MatrixPart(source, self, matrix, [str(c) for c in classes] if named and classes is not None else None)
        part.arrays, part.member, part.packed = arrays, name, packed
        for one, values in arrays.items():
            if values.shape == (len(matrix),) and one not in part.schema.names and values.dtype.kind in "biufUSmM":
                part.schema = part.schema.append(pa.field(one, pa.array(values[:1]).type))
        return part

    def writer(self, file: BinaryIO, schema: pa.Schema, like: Part, rows: Rows) -> Writer:
        return NpzWriter(file, schema, like, rows)

    def refuses(self, schema: pa.Schema, like: Part, rows: Rows) -> str | None:
        nested = [field.name for field in schema if pa.types.is_nested(field.type)]
        return f"the columns {listed(nested)} hold lists or structures" if nested else None


class NpzWriter(Writer):
    """Collects the matrix, and writes it with the other arrays in the end."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, like: Part, rows: Rows) -> None:
        self._file, self._like = file, like
        self._columns = [name for name in schema.names if name in rows.columns.names]
        found = dict(zip(rows.columns.names, rows.columns.classes or (), strict=False))
        self._classes = [str(found[name]) for name in self._columns] if len(self._columns) == len(found) else None
        self._tables: list[pa.Table] = []

    def write(self, table: pa.Table) -> None:
        self._tables.append(table)

    def close(self) -> None:
        table = pa.concat_tables(self._tables)
        matrix = np.stack([table.column(name).to_numpy() for name in self._columns], axis=1)
        like, arrays, packed = self._like, {}, False
        if isinstance(like, MatrixPart) and like.arrays:
            arrays, packed = like.arrays | {like.member: matrix}, like.packed
        else:
            others = [name for name in table.column_names if name not in self._columns]
            arrays = {name: _plain(table.column(name)) for name in others} | {"probs": matrix}
            if self._classes is not None:
                arrays["classes"] = np.array(self._classes)
        # Not by savez, to which an array called "file" could not be told.
        with zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _plain(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column as an array without Python objects."""
    values = column.to_numpy()
    return values if values.dtype.kind != "O" else np.array(["" if v is None else str(v) for v in column.to_pylist()])


def _arrays(source: Source) -> tuple[dict[str, NDArray[Any]], bool]:
    data = io.BytesIO(source.open().read())
    try:
        with zipfile.ZipFile(data) as archive:
            entries = archive.infolist()
        if not entries or not all(entry.filename.endswith(".npy") for entry in entries):
            raise BadFile(f"{source.name} is a zip archive, but not one of NumPy; take out the table in it first")
        with np.load(data, allow_pickle=False) as loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    except BadFile:
        raise
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise BadFile(f"{source.name} is not a whole NPZ file: {error}") from None
    return arrays, any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)


def _matrix_among(arrays: dict[str, NDArray[Any]], member: str | None, name: str) -> str:
    matrices = [n for n, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "fiub"]
    if member is not None and member not in matrices:
        raise BadOption(f"columns names {member!r}, but the matrices of {name} are {listed(matrices)}")
    if member is None and len(matrices) != 1:
        raise BadOption(f"{name} has {len(matrices)} matrices, {listed(matrices)}; say which one by columns='name'")
    return matrices[0] if member is None else member
