"""Which objects are read as streams of Arrow record batches. Imports no optional package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from baserate.errors import BadOption


@dataclass(frozen=True)
class ArrowRows:
    """Rows that a function reads, each time from the beginning.

    For sources that can be read only once: the result of an ADBC query, a Flight stream, a generator of record batches.

    Parameters
    ----------
    read : callable
        Called without arguments once per pass. Returns a ``pyarrow.RecordBatchReader``, or another object with the
        method ``__arrow_c_stream__``. It must return the same rows each time, in any order.
    name : str, default "the stream"
        The source, for messages.

    Examples
    --------
    >>> import baserate as br, pyarrow as pa
    >>> table = pa.table({"p_no": [0.7, 0.4, 0.8], "p_yes": [0.3, 0.6, 0.2]})
    >>> rows = br.ArrowRows(table.to_reader)
    >>> br.adjust(rows, {"no": 0.5, "yes": 0.5}, columns="p_*").rates.round(6)
    array([0.5, 0.5])
    """

    read: Callable[[], Any]
    name: str = "the stream"

    def __post_init__(self) -> None:
        if not callable(self.read):
            raise BadOption(
                f"ArrowRows needs a function that starts a new reading, not a {type(self.read).__name__}; write "
                "br.ArrowRows(lambda: ...)"
            )


def is_stream(source: Any) -> bool:
    """Whether rows are read as a stream. Dataframes and arrays in memory are not, although some could be."""
    if isinstance(source, ArrowRows) or is_relation(source) or is_lazy_frame(source):
        return True
    if not hasattr(type(source), "__arrow_c_stream__") or hasattr(type(source), "__array__"):
        return False
    import narwhals as nw

    return nw.from_native(source, eager_only=True, allow_series=True, pass_through=True) is source


def check_no_connection(source: Any) -> None:
    """Raise if this is a connection of DuckDB, which its ``execute`` returns, and which is read only once."""
    duckdb = sys.modules.get("duckdb")
    if duckdb is not None and isinstance(source, duckdb.DuckDBPyConnection):
        raise BadOption(
            "a DuckDB connection has the result of one query, which can be read only once; pass a relation: "
            "connection.sql(query), not connection.execute(query)"
        )


def is_relation(source: Any) -> bool:
    """Whether this is a relation of DuckDB, which is looked at only if the caller has imported it."""
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and isinstance(source, duckdb.DuckDBPyRelation)


def is_lazy_frame(source: Any) -> bool:
    """Whether this is a LazyFrame of polars."""
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(source, polars.LazyFrame)
