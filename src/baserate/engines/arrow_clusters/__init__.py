"""Rows in the partitions of a Spark DataFrame or a Ray Dataset, which arrive as Arrow record batches."""

from baserate.engines.arrow_clusters.ray import RayEngine
from baserate.engines.arrow_clusters.spark import SparkEngine

__all__ = ["RayEngine", "SparkEngine"]
