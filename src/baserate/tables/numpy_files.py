"""NumPy files: a single matrix (NPY), or several arrays, one of which is the matrix of predictions (NPZ)."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from baserate.errors import BadFile, BadOption, Option
from baserate.inputs.columns import Columns
from baserate.inputs.validation import as_matrix, quoted, quoted_name
from baserate.tables.base import BATCH_ROWS, Format, OutputFile, Part, Piece, Source, Writer
from baserate.tables.dialect import Dialect

_ARRAY_NAME = Option("columns", "'name'")


class MatrixPart(Part):
    """The matrix of a NumPy file, and the other arrays of an NPZ file.

    The columns of the matrix are called ``p_0``, ``p_1``, ..., or ``p_`` followed by the class name if the file has an
    array ``classes``. Other arrays with one value per row are also columns.

    Attributes
    ----------
    arrays : dict
        All arrays of an NPZ file; empty for an NPY file.
    matrix_name : str
        Name of the matrix among them.
    compressed : bool
    """

    def __init__(self, source: Source, kind: Format, matrix: NDArray[Any], classes: Sequence[str] | None) -> None:
        self.name, self.relative_path, self.partition = source.name, source.relative_path, source.partition
        self.format = kind
        as_matrix(matrix[:1] if matrix.ndim == 2 else matrix, what=self.name)
        self._matrix = matrix
        k = matrix.shape[1]
        columns = [f"p_{c}" for c in (range(k) if classes is None else classes)]
        self.fixed_columns = Columns(tuple(columns), None if classes is None else tuple(classes))
        has_arrow_type = matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 8
        dtype = matrix.dtype.newbyteorder("=") if has_arrow_type else np.dtype(np.float64)
        self.schema = pa.schema([(name, pa.from_numpy_dtype(dtype)) for name in columns])
        self.arrays: dict[str, NDArray[Any]] = {}
        self.matrix_name = ""
        self.compressed = False

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
        if self.fixed_columns is not None and name in self.fixed_columns.names:
            values = rows[:, self.fixed_columns.names.index(name)]
            return pa.array(np.ascontiguousarray(values, dtype=kind.to_pandas_dtype()), kind)
        values = self.arrays[name][start : start + len(rows)]
        return pa.array(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("=")), kind)

    @property
    def format_specific(self) -> list[str]:
        return [name for name in self.arrays if name not in (*self.schema.names, self.matrix_name, "classes")]


class Npy(Format):
    """NPY files."""

    name = "NPY"
    suffixes = (".npy",)
    magic = (b"\x93NUMPY",)

    def open_part(self, source: Source, dialect: Dialect, array_name: str | None) -> Part:
        if array_name is not None:
            raise BadOption(f"{source.name} contains one matrix without names, so columns cannot select a part of it")
        try:
            if source.path is not None:  # memory-mapped, so that only the rows in use are in memory
                matrix = np.load(source.path, mmap_mode="r", allow_pickle=False)
            else:
                matrix = np.load(io.BytesIO(source.open().read()), allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise BadFile(f"{source.name} is not a complete NPY file of numbers: {error}") from None
        return MatrixPart(source, self, matrix, None)

    def writer(self, file: BinaryIO, schema: pa.Schema, template: Part, output: OutputFile) -> Writer:
        return NpyWriter(file, schema, output)

    def unsupported_reason(self, schema: pa.Schema, template: Part, output: OutputFile) -> str | None:
        lost = [name for name in schema.names if name not in output.columns.names]
        return f"it contains only one matrix, so the columns {quoted(lost)} would be lost" if lost else None


class NpyWriter(Writer):
    """Writes the header of a matrix, and then its rows piece by piece."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, output: OutputFile) -> None:
        self._file, self._columns = file, [name for name in schema.names if name in output.columns.names]
        self._dtype = np.result_type(*(schema.field(name).type.to_pandas_dtype() for name in self._columns))
        shape = (output.n_rows, len(self._columns))
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)

    def write(self, table: pa.Table) -> None:
        columns = [table.column(name).to_numpy() for name in self._columns]
        self._file.write(np.stack(columns, axis=1).astype(self._dtype, copy=False).tobytes())

    def close(self) -> None:
        pass


class Npz(Format):
    """NPZ files. They are read and written as a whole, in memory."""

    name = "NPZ"
    suffixes = (".npz",)
    magic = (b"PK\x03\x04", b"PK\x05\x06")

    def open_part(self, source: Source, dialect: Dialect, array_name: str | None) -> Part:
        arrays, compressed = _read_arrays(source)
        matrix_name = _choose_matrix(arrays, array_name, source.name)
        matrix, classes = arrays[matrix_name], arrays.get("classes")
        class_names = None
        if classes is not None and classes.shape == (matrix.shape[1],):
            class_names = [str(c) for c in classes]
        part = MatrixPart(source, self, matrix, class_names)
        part.arrays, part.matrix_name, part.compressed = arrays, matrix_name, compressed
        for name, values in arrays.items():
            if values.shape == (len(matrix),) and name not in part.schema.names and values.dtype.kind in "biufUSmM":
                part.schema = part.schema.append(pa.field(name, pa.array(values[:1]).type))
        return part

    def writer(self, file: BinaryIO, schema: pa.Schema, template: Part, output: OutputFile) -> Writer:
        return NpzWriter(file, schema, template, output)

    def unsupported_reason(self, schema: pa.Schema, template: Part, output: OutputFile) -> str | None:
        nested = [field.name for field in schema if pa.types.is_nested(field.type)]
        return f"the columns {quoted(nested)} contain lists or structs" if nested else None


class NpzWriter(Writer):
    """Collects the rows, and writes the matrix and the other arrays when it is closed."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, template: Part, output: OutputFile) -> None:
        self._file, self._template = file, template
        self._columns = [name for name in schema.names if name in output.columns.names]
        class_of = dict(zip(output.columns.names, output.columns.classes or (), strict=False))
        has_classes = len(self._columns) == len(class_of)
        self._classes = [str(class_of[name]) for name in self._columns] if has_classes else None
        self._tables: list[pa.Table] = []

    def write(self, table: pa.Table) -> None:
        self._tables.append(table)

    def close(self) -> None:
        table, template = pa.concat_tables(self._tables), self._template
        matrix = np.stack([table.column(name).to_numpy() for name in self._columns], axis=1)
        compressed = False
        if isinstance(template, MatrixPart) and template.arrays:
            arrays, compressed = template.arrays | {template.matrix_name: matrix}, template.compressed
        else:
            others = [name for name in table.column_names if name not in self._columns]
            arrays = {name: _without_objects(table.column(name)) for name in others} | {"probs": matrix}
            if self._classes is not None:
                arrays["classes"] = np.array(self._classes)
        # Not np.savez(file, **arrays): it would fail for an array called "file".
        with zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _without_objects(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column as an array without Python objects, which could only be read by unpickling."""
    values = column.to_numpy()
    return values if values.dtype.kind != "O" else np.array(["" if v is None else str(v) for v in column.to_pylist()])


def _read_arrays(source: Source) -> tuple[dict[str, NDArray[Any]], bool]:
    """All arrays of an NPZ file, and whether they were compressed."""
    data = io.BytesIO(source.open().read())
    try:
        with zipfile.ZipFile(data) as archive:
            entries = archive.infolist()
        if any(entry.filename.startswith("xl/") for entry in entries):
            raise BadFile(f"{source.name} is an Excel file; save it as CSV")
        if not entries or not all(entry.filename.endswith(".npy") for entry in entries):
            raise BadFile(f"{source.name} is a zip archive, but not an NPZ file; extract the table from it first")
        with np.load(data, allow_pickle=False) as loaded:
            arrays = {name: loaded[name] for name in loaded.files}
        other = next((name for name, array in arrays.items() if not isinstance(array, np.ndarray)), None)
        if other is not None:  # np.load returns the bytes of a member that does not begin like an NPY file
            raise BadFile(f"the member {quoted_name(f'{other}.npy')} of {source.name} is not an array; save it again")
    except BadFile:
        raise
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise BadFile(f"{source.name} is not a complete NPZ file: {error}") from None
    return arrays, any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)


def _choose_matrix(arrays: dict[str, NDArray[Any]], array_name: str | None, name: str) -> str:
    """Name of the array that holds the predictions."""
    matrices = [n for n, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "fiub"]
    if array_name is not None and array_name not in matrices:
        raise BadOption(f"columns is {quoted_name(array_name)}, but the matrices of {name} are {quoted(matrices)}")
    if array_name is None and not matrices:
        raise BadOption(f"{name} contains no matrix of numbers")
    if array_name is None and len(matrices) > 1:
        raise BadOption(
            f"{name} contains {len(matrices)} matrices, {quoted(matrices)}; select one by {_ARRAY_NAME}",
            options=[_ARRAY_NAME],
        )
    return matrices[0] if array_name is None else array_name
