"""Between Arrow's columns and matrices of numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from baserate.inputs.columns import Columns
from baserate.support.arrays import FloatArray
from baserate.tables.base import Part

if TYPE_CHECKING:
    from baserate.tables import Table

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # 007 is a name


def dtype_of(kind: pa.DataType) -> np.dtype[Any]:
    """What a column of this type becomes: floats stay what they are."""
    return np.dtype(kind.to_pandas_dtype()) if pa.types.is_floating(kind) else np.dtype(np.float64)


def numbers(column: pa.Array | pa.ChunkedArray, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A column as numbers; what is missing is NaN."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if column.null_count or not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    values = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    return np.asarray(values).astype(dtype, copy=False)


def schemas_of(table: Table) -> list[pa.Schema]:
    """The columns of each part when they are adjusted: those with probabilities hold floats.

    One file for all of them also gets the columns that only their folders tell.
    """
    schemas = [_adjusted(part.schema, table.columns) for part in table.parts]
    if table.destination is None or table.destination.is_folder:
        return schemas
    return [_with_partition(_together(schemas), table.parts)] * len(schemas)


def _together(schemas: list[pa.Schema]) -> pa.Schema:
    """The first of schemas that differ at most in what may be missing."""
    may = {field.name for schema in schemas for field in schema if field.nullable}
    return pa.schema([f.with_nullable(f.name in may) for f in schemas[0]], metadata=schemas[0].metadata)


def replaced(old: pa.Table, answer: FloatArray, schema: pa.Schema, columns: Columns, part: Part) -> pa.Table:
    """Rows of a part with their adjusted columns."""
    new = {name: answer[:, j - len(columns.names)] for j, name in enumerate(columns.names)}  # of one, the last

    def made(one: pa.Field) -> Any:
        if one.name in new:
            values = np.ascontiguousarray(new[one.name], dtype=one.type.to_pandas_dtype())
            return pa.Array.from_buffers(one.type, len(values), [None, pa.py_buffer(values)])  # array() loads pandas
        if one.name in old.column_names:
            return old.column(one.name)
        value = part.partition.get(one.name)
        told = None if value is None else int(value) if one.type == pa.int64() else str(value)
        return pa.repeat(pa.scalar(told, one.type), len(answer))

    return pa.table([made(one) for one in schema], schema=schema)


def _adjusted(schema: pa.Schema, columns: Columns) -> pa.Schema:
    for name in columns.names:
        at = schema.get_field_index(name)
        kind = schema.field(at).type
        schema = schema.set(at, schema.field(at).with_type(kind if pa.types.is_floating(kind) else pa.float64()))
    return schema


def _with_partition(schema: pa.Schema, parts: list[Part]) -> pa.Schema:
    for name in dict.fromkeys(name for part in parts for name in part.partition):
        if name not in schema.names:
            schema = schema.append(pa.field(name, _narrow([part.partition.get(name) for part in parts])))
    return schema


def _narrow(values: list[Any]) -> pa.DataType:
    """Whole numbers, if all are; else text."""
    there = [str(value) for value in values if value is not None]
    whole = bool(there) and all(_WHOLE.fullmatch(value) for value in there)
    return pa.int64() if whole else pa.string()
