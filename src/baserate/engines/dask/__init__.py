"""Rows in the partitions of a Dask array or dataframe."""

from baserate.engines.dask.engine import DaskEngine

__all__ = ["DaskEngine"]
