"""Dask arrays and dataframes: rows in partitions, on this machine or on others.

Collections are split into delayed partitions, and delayed partitions are put together to a collection of the same kind.
Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from baserate.errors import BadGroups, BadOption, BadProbabilities
from baserate.inputs.columns import Columns, ColumnSelection
from baserate.inputs.group_columns import missing_column
from baserate.inputs.validation import as_matrix, quoted


@dataclass(frozen=True, eq=False)
class Partitions:
    """A Dask collection of predictions.

    Attributes
    ----------
    collection : dask.array.Array of shape (n, k), or dask.dataframe.DataFrame
        The array in chunks of whole rows; the dataframe with all its columns.
    columns : Columns or None
        The columns of a dataframe that hold the probabilities.
    n_classes : int
    dtype : numpy.dtype or None
        The dtype of every partition, if it is the same for all.
    lengths : tuple of int, or None
        Rows of each partition, if they are known without computing anything.
    what : str
        Its name in messages.
    group_keys : tuple, optional
        Columns of a dataframe that hold the groups of the rows; None if there are no rates per group.
    """

    collection: Any
    columns: Columns | None
    n_classes: int
    dtype: np.dtype[Any] | None
    lengths: tuple[int, ...] | None
    what: str = "probs"
    group_keys: tuple[Any, ...] | None = None

    @property
    def names(self) -> list[Any] | None:
        """The chosen columns of a dataframe."""
        return None if self.columns is None else list(self.columns.names)

    @property
    def meta(self) -> Any:
        """A partition without rows."""
        return self.collection._meta if self.names is None else self.collection[self.names]._meta

    def delayed(self, extra: Sequence[Any] = (), *, optimized: bool = True) -> list[Any]:
        """The partitions as delayed objects; those of a dataframe have the chosen columns and some extra ones."""
        if self.names is None:
            return delayed_parts(self.collection, optimized=optimized)
        return delayed_parts(self.collection[[*self.names, *(name for name in extra if name not in self.names)]])

    def like(self, parts: list[Any], lengths: Sequence[int] | None, meta: Any) -> Any:
        """A collection of the same kind.

        Parameters
        ----------
        parts : list of delayed
            Adjusted partitions.
        lengths : sequence of int, optional
            Their rows.
        meta : dataframe or array
            One of them, without rows.
        """
        if self.columns is not None:
            import dask.dataframe as dd

            return dd.from_delayed(parts, meta=meta, divisions=self.collection.divisions, verify_meta=False)
        import dask.array as da
        from dask.base import tokenize
        from dask.highlevelgraph import HighLevelGraph

        # One layer for all: a concatenation of arrays of one block each would have two layers per partition.
        name = f"adjusted-{tokenize([part.key for part in parts])}"
        layer = {(name, i, 0): part.key for i, part in enumerate(parts)}
        graph = HighLevelGraph.from_collections(name, layer, dependencies=parts)
        rows = tuple(lengths) if lengths is not None else (np.nan,) * len(parts)
        return da.Array(graph, name, chunks=(rows, (self.n_classes,)), meta=meta)


def is_partitioned(probs: object) -> bool:
    """Whether this is a Dask array or dataframe, without importing anything."""
    return type(probs).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(type(probs), "dask")


def delayed_parts(collection: Any, *, optimized: bool = True) -> list[Any]:
    """The partitions of a Dask array in chunks of whole rows, of a dataframe or of a series, as delayed objects.

    Partitions that become part of another array should not be ``optimized``: that array will be optimized as a whole,
    and a cluster complains if the same tasks are fused in different ways.
    """
    if hasattr(type(collection), "numblocks"):
        return list(collection.to_delayed(optimize_graph=optimized).ravel())
    # Simplifying drops columns that are not needed. The last stage of the optimizer is left out: it would also merge
    # partitions of files from which few columns are read, and then weights and answer would not match the rows.
    return list(collection.simplify().to_delayed(optimize_graph=False))


def known_lengths(collection: Any) -> tuple[int, ...] | None:
    """Rows of each chunk of a Dask array, or None if they are unknown."""
    chunks = getattr(collection, "chunks", None)
    if chunks is None or any(np.isnan(size) for size in chunks[0]):
        return None
    return tuple(int(size) for size in chunks[0])


def partitioned(
    probs: Any, choice: ColumnSelection, *, what: str = "probs", group_keys: tuple[Any, ...] | None = None
) -> Partitions:
    """The rows of a Dask collection.

    Parameters
    ----------
    probs : Dask array or dataframe
    choice : ColumnSelection
        What is known about the columns of a dataframe.
    what : str
    group_keys : tuple
        Columns that hold the groups of the rows.
    """
    if hasattr(type(probs), "numblocks"):  # Of the type: a delayed object seems to have every attribute.
        if choice.columns is not None:
            raise BadOption(f"columns= selects columns of a dataframe, but {what} is a Dask {type(probs).__name__}")
        if group_keys:
            raise BadGroups(f"groups are columns of a Dask dataframe, but {what} is a Dask array")
        return replace(_array(probs, what), group_keys=group_keys)
    if hasattr(type(probs), "columns") and probs.ndim == 2:
        for key in group_keys or ():
            if key not in list(probs.columns):
                raise missing_column(key, list(probs.columns), what)
        return replace(_dataframe(probs, choice, what), group_keys=group_keys)
    raise BadProbabilities(
        f"{what} must have 2 dimensions (rows, classes), but is a Dask {type(probs).__name__}; pass a Dask array or "
        "dataframe"
    )


def _array(probs: Any, what: str) -> Partitions:
    if probs.ndim != 2:
        hint = "; for two classes pass da.stack([1 - p, p], axis=1)" if probs.ndim == 1 else ""
        raise BadProbabilities(f"{what} must have 2 dimensions (rows, classes), but has shape {probs.shape}{hint}")
    if np.isnan(probs.shape[1]):
        raise BadProbabilities(f"{what} has an unknown number of columns; call {what}.compute_chunk_sizes() first")
    lengths = known_lengths(probs)
    some = 1 if lengths is None else min(sum(lengths), 1)
    as_matrix(np.empty((some, probs.shape[1]), dtype=probs.dtype), what=what)
    if probs.numblocks[1] > 1:
        probs = probs.rechunk({1: -1})
    return Partitions(probs, None, int(probs.shape[1]), probs.dtype, lengths, what)


def _dataframe(probs: Any, choice: ColumnSelection, what: str) -> Partitions:
    there = list(probs.columns)
    if len(set(there)) < len(there):
        raise BadProbabilities(f"{what} has several columns of one name among {quoted(there)}; rename them")
    # A fitted adjustment finds the columns of its classes among others.
    columns = choice.among(there, what=what, all_of=not (choice.ordered and choice.named))
    dtypes = list(probs[list(columns.names)].dtypes)
    plain = all(isinstance(dtype, np.dtype) and dtype.kind == "f" for dtype in dtypes)
    if len(dtypes) < 2:
        as_matrix(np.empty((1, len(dtypes))), what=what)
    return Partitions(probs, columns, len(dtypes), np.result_type(*dtypes) if plain else None, None, what)
