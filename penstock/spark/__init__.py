"""Spark's side of Penstock: the data source "penstock" (batch and streaming, read and write) and a local session.

    from penstock.spark import spark_session
    spark = spark_session("orders")
    spark.read.format("penstock").option("bootstrap", "127.0.0.1:9192").option("subscribe", "orders").load().show()

Spark finds the format by itself where Penstock is installed. Nothing is imported here before it is asked for: Spark's
workers import this package, and must do so quickly and without gRPC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.planning import DataLossError
    from penstock.spark.positions import lags
    from penstock.spark.session import spark_session
    from penstock.spark.source import PenstockDataSource
    from penstock.spark.writing.foreach_batch import write_batch

__all__ = ["DataLossError", "PenstockDataSource", "lags", "spark_session", "write_batch"]

_HOMES = {
    "DataLossError": "planning",
    "PenstockDataSource": "source",
    "lags": "positions",
    "spark_session": "session",
    "write_batch": "writing.foreach_batch",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
