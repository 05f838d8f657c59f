"""Conversion between Arrow columns and NumPy arrays, and the schemas of the output files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from baserate.inputs.columns import Columns
from baserate.support.answer_types import AnswerTypes
from baserate.support.arrays import FloatArray
from baserate.tables.base import CodedColumn, Part

if TYPE_CHECKING:
    from baserate.tables import Table

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # not 007, which would become 7


def numpy_dtype(kind: pa.DataType) -> np.dtype[Any]:
    """NumPy dtype for a column of this type: floating types are kept, all others become float64."""
    return np.dtype(kind.to_pandas_dtype()) if pa.types.is_floating(kind) else np.dtype(np.float64)


def column_to_numpy(column: pa.Array | pa.ChunkedArray, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A column as a NumPy array. Missing values become NaN."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if column.null_count or not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    values = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    return np.asarray(values).astype(dtype, copy=False)


def float_array(values: NDArray[Any], dtype: np.dtype[Any]) -> pa.Array:
    """Numbers as an Arrow array of a floating type."""
    values = np.ascontiguousarray(values, dtype=dtype)
    # Not pa.array(values), which would import pandas.
    return pa.Array.from_buffers(pa.from_numpy_dtype(dtype), len(values), [None, pa.py_buffer(values)])


def coded_column(parts: Sequence[Part], name: str) -> CodedColumn:
    """A column of any type, also one that is encoded in the paths of the parts."""
    positions: dict[Any, int] = {}
    codes = [np.empty(0, dtype=np.intp)]
    for part in parts:
        for values, own in map(coded_array, _arrays(part, name)):
            here = [-1 if value is None else positions.setdefault(value, len(positions)) for value in values]
            codes.append(np.array([*here, -1], dtype=np.intp)[own])  # the code -1 selects the last entry, which is -1
    return CodedColumn(list(positions), np.concatenate(codes))


def _arrays(part: Part, name: str) -> Iterator[pa.Array]:
    if name not in part.schema.names:
        yield pa.repeat(pa.scalar(part.partition.get(name), pa.string()), part.n_rows)
        return
    for piece in part.pieces([name]):
        for batch in piece.read():
            yield batch.column(name)


def coded_array(column: pa.Array) -> CodedColumn:
    """Values and codes of one array. A value that counts as missing is None."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    indices = coded.indices.cast(pa.int64())  # which may be unsigned, as those of polars
    codes = indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return CodedColumn([_value(value) for value in coded.dictionary.to_pylist()], codes.astype(np.intp))


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    is_missing = value == "" or value != value  # NaN differs from itself
    return None if is_missing else value


def output_schemas(table: Table) -> list[pa.Schema]:
    """The schema of each part after the adjustment. Columns with probabilities have floating types.

    If all parts are written to one file, it also gets the columns that are encoded in the paths of the parts.
    """
    schemas = [_with_floats(part.schema, table.columns, table.dtype) for part in table.parts]
    if table.destination is None or table.destination.is_folder:
        return schemas
    return [_with_partition(_common_schema(schemas), table.parts)] * len(schemas)


def answer_types(table: Table) -> AnswerTypes:
    """The dtypes of the adjusted columns, which are the same in all parts."""
    schema = _with_floats(table.parts[0].schema, table.columns, table.dtype)
    return AnswerTypes.of_columns(numpy_dtype(schema.field(name).type) for name in table.columns.names)


def _common_schema(schemas: list[pa.Schema]) -> pa.Schema:
    """The common schema of schemas that differ only in which columns are nullable."""
    nullable = {field.name for schema in schemas for field in schema if field.nullable}
    return pa.schema([f.with_nullable(f.name in nullable) for f in schemas[0]], metadata=schemas[0].metadata)


def adjusted_table(old: pa.Table, answer: FloatArray, schema: pa.Schema, columns: Columns, part: Part) -> pa.Table:
    """Rows of a part with adjusted probabilities.

    Parameters
    ----------
    old : pyarrow.Table
        The rows as read.
    answer : array of shape (n, k)
        The adjusted probabilities, rounded to the types of their columns.
    schema : pyarrow.Schema
        Columns of the result. Columns that ``old`` lacks are filled from the path of the part.
    columns : Columns
        The columns with probabilities. A single column holds the probability of the second of two classes.
    part : Part
    """
    new = {name: answer[:, j - len(columns.names)] for j, name in enumerate(columns.names)}

    def column(field: pa.Field) -> Any:
        if field.name in new:
            return float_array(new[field.name], np.dtype(field.type.to_pandas_dtype()))
        if field.name in old.column_names:
            return old.column(field.name)
        text = part.partition.get(field.name)
        value = None if text is None else int(text) if field.type == pa.int64() else str(text)
        return pa.repeat(pa.scalar(value, field.type), len(answer))

    return pa.table([column(field) for field in schema], schema=schema)


def _with_floats(schema: pa.Schema, columns: Columns, dtype: np.dtype[Any] | None) -> pa.Schema:
    # Not schema.set for each column: it copies the schema, which takes minutes for 20,000 columns.
    names = frozenset(columns.names)

    def adjusted(field: pa.Field) -> pa.Field:
        kept = numpy_dtype(field.type) if dtype is None else dtype
        return field.with_type(pa.from_numpy_dtype(kept))

    fields = [adjusted(field) if field.name in names else field for field in schema]
    changed = {new.name: new.type for new, old in zip(fields, schema, strict=True) if new.type != old.type}
    return pa.schema(fields, metadata=_with_pandas_types(schema.metadata, changed))


def _with_pandas_types(metadata: Any, changed: Mapping[str, pa.DataType]) -> Any:
    """The metadata of a schema, in which the types that pandas will restore are those of the changed columns."""
    if not changed or b"pandas" not in (metadata or {}):
        return metadata
    try:
        stored = json.loads(metadata[b"pandas"])
        for column in stored["columns"]:
            kind = changed.get(column.get("field_name", column["name"]))
            if kind is not None:
                name = str(np.dtype(kind.to_pandas_dtype()))
                column |= {"pandas_type": name, "numpy_type": name, "metadata": None}
    except (ValueError, LookupError, TypeError, AttributeError):  # of another program; pandas cannot read it either
        return metadata
    return {**metadata, b"pandas": json.dumps(stored).encode()}


def _with_partition(schema: pa.Schema, parts: list[Part]) -> pa.Schema:
    for name in dict.fromkeys(name for part in parts for name in part.partition):
        if name not in schema.names:
            schema = schema.append(pa.field(name, _partition_type([part.partition.get(name) for part in parts])))
    return schema


def _partition_type(values: list[Any]) -> pa.DataType:
    """int64 if all values that are not None are integers, else string."""
    texts = [str(value) for value in values if value is not None]
    return pa.int64() if texts and all(_INTEGER.fullmatch(text) for text in texts) else pa.string()
