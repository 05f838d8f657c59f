"""Where the rows are: in memory, in files, in a query, on a GPU, or on a cluster (Dask, Spark, Ray).

A new engine is one file with a subclass of :class:`baserate.core.contracts.Engine`. The engine follows from the type
of the predictions.
"""

from baserate.engines.opening import open_rows

__all__ = ["open_rows"]
