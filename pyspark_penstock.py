"""Spark imports every top-level module named `pyspark_*` and registers its `DefaultSource`: the format "penstock"."""

from penstock.spark.source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
