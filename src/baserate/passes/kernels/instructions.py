"""Vector instructions for the compiled passes that the compiler does not find on its own.

Rows lie one after the other in memory, and a tile has one line per class. A loop that copies rows to a tile moves one
number at a time, which takes longer than the arithmetic of a pass. Here eight columns of eight rows are read as eight
vectors, transposed in registers, and stored as eight vectors. The code is LLVM's, so it runs on every processor.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

SQUARE = 8
"""Rows and columns that are transposed together: numbers in a vector register of AVX-512."""


def _load_square(_: Any, raw: Any, row: Any, column: Any, tile: Any, lane: Any) -> Any:
    """Copy eight columns of eight rows to the lanes of a tile, as float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix, row, column, tile, lane = arguments
        source = _address(context, builder, signature.args[0], matrix, row, column)
        target = _address(context, builder, signature.args[3], tile, column, lane)
        _move(builder, source, target, context.get_value_type(signature.args[0].dtype), ir.DoubleType())
        return context.get_dummy_value()

    return types.void(raw, types.intp, types.intp, tile, types.intp), generate


def _store_square(_: Any, tile: Any, lane: Any, rows: Any, row: Any, column: Any) -> Any:
    """The reverse: copy eight lanes of eight classes of a tile to eight columns of eight rows, in their dtype."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        tile, lane, matrix, row, column = arguments
        source = _address(context, builder, signature.args[0], tile, column, lane)
        target = _address(context, builder, signature.args[2], matrix, row, column)
        _move(builder, source, target, ir.DoubleType(), context.get_value_type(signature.args[2].dtype))
        return context.get_dummy_value()

    return types.void(tile, types.intp, rows, types.intp, types.intp), generate


def _smaller(_: Any, one: Any, other: Any) -> Any:
    """The smaller of two numbers.

    The compiler turns a condition into a store of some lanes, whose result the next load can only read from the cache.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = ir.DoubleType()
        function_type = ir.FunctionType(number, [number, number])
        return builder.call(builder.module.declare_intrinsic("llvm.minnum", [number], function_type), arguments)

    return types.float64(types.float64, types.float64), generate


def _reinterpreted(from_type: Any, to_type: Any) -> Any:
    """A function that returns the bits of a number as a number of another type."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(to_type))

    return intrinsic(lambda _, number: (to_type(from_type), generate))


def _prefetch(write: int) -> Any:
    """A function that fetches an entry of a matrix into the cache without waiting for it, to read or to write it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, _ = _address(context, builder, signature.args[0], *arguments)
        pointer, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer, integer, integer, integer])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], fnty=function_type)
        near, is_data = integer(3), integer(1)
        builder.call(function, [builder.inttoptr(address, pointer), integer(write), near, is_data])
        return context.get_dummy_value()

    return intrinsic(lambda _, matrix, row, column: (types.void(matrix, types.intp, types.intp), generate))


load_square: Any = intrinsic(_load_square)
store_square: Any = intrinsic(_store_square)
smaller: Any = intrinsic(_smaller)
to_bits: Any = _reinterpreted(types.float64, types.int64)
from_bits: Any = _reinterpreted(types.int64, types.float64)
fetch_to_read: Any = _prefetch(0)
fetch_to_write: Any = _prefetch(1)


def _address(context: Any, builder: Any, array_type: Any, array: Any, row: Any, column: Any) -> tuple[Any, Any]:
    """The address of an entry of a matrix as an integer, and the distance between rows."""
    matrix = context.make_array(array_type)(context, builder, array)
    to_row, to_column = (builder.extract_value(matrix.strides, axis) for axis in range(2))
    offset = builder.add(builder.mul(row, to_row), builder.mul(column, to_column))
    return builder.add(builder.ptrtoint(matrix.data, row.type), offset), to_row


def _move(builder: Any, source: tuple[Any, Any], target: tuple[Any, Any], from_type: Any, to_type: Any) -> None:
    """Copy a square of numbers from one address to another, transposed."""
    double, wide = ir.DoubleType(), ir.VectorType(ir.DoubleType(), SQUARE)
    from_vector, to_vector = ir.VectorType(from_type, SQUARE), ir.VectorType(to_type, SQUARE)
    vectors = [builder.load(_pointer(builder, source, i, from_vector), align=4) for i in range(SQUARE)]
    if from_type != double:
        vectors = [builder.fpext(vector, wide) for vector in vectors]
    for i, vector in enumerate(_transposed(builder, vectors)):
        rounded = vector if to_type == double else builder.fptrunc(vector, to_vector)
        builder.store(rounded, _pointer(builder, target, i, to_vector), align=4)


def _pointer(builder: Any, first: tuple[Any, Any], i: int, vector_type: Any) -> Any:
    address, to_row = first
    return builder.inttoptr(builder.add(address, builder.mul(to_row.type(i), to_row)), vector_type.as_pointer())


def _transposed(builder: Any, vectors: list[Any]) -> list[Any]:
    """The columns of a square matrix whose rows are given, by exchanges of ever larger pieces of pairs of vectors."""
    vectors, size, step = list(vectors), len(vectors), 1
    while step < size:
        low = [i if not i & step else size + i - step for i in range(size)]
        high = [i + step if not i & step else size + i for i in range(size)]
        masks = [ir.Constant(ir.VectorType(ir.IntType(32), size), mask) for mask in (low, high)]
        for i in range(size):
            if not i & step:
                pair = vectors[i], vectors[i + step]
                vectors[i], vectors[i + step] = (builder.shuffle_vector(*pair, mask) for mask in masks)
        step *= 2
    return vectors
