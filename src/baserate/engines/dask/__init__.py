"""Rows in the partitions of a Dask array or dataframe."""

from baserate.engines.dask.engine import DaskPartitions

__all__ = ["DaskPartitions"]
