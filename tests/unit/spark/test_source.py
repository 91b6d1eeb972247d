"""Promises about how Spark meets the source, without a JVM, and about the client behind it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from penstock.errors import ConfigError, MissingDependencyError
from penstock.spark import log_client as log_client_module
from penstock.spark.log_client import PenstockLogClient, log_client
from penstock.spark.planning import PlannedRange, PlannedTopic
from penstock.spark.source import PenstockDataSource
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from tests.support.fake_broker import FakeCluster

OPTIONS = {"bootstrap": "h:1", "subscribe": "orders"}


def source(**more: str) -> PenstockDataSource:
    return PenstockDataSource(CaseInsensitiveDict({**OPTIONS, **more}))


def test_spark_finds_the_source_by_the_name_of_a_module() -> None:
    import pyspark_penstock

    assert issubclass(pyspark_penstock.DefaultSource, DataSource)
    assert pyspark_penstock.DefaultSource.name() == "penstock"


def test_finding_it_loads_neither_grpc_nor_arrow_nor_numpy() -> None:
    heavy = "{'grpc', 'pyarrow', 'numpy', 'pandas', 'uvloop'}"
    code = (
        f"import sys, pyspark_penstock; sys.exit(repr({heavy} & set(sys.modules)) if {heavy} & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_schema_is_that_of_kafkas_source() -> None:
    kafkas = (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
    )
    assert source().schema().simpleString() == kafkas + ">"
    assert source(includeHeaders="true").schema().simpleString() == (
        kafkas + ",headers:array<struct<key:string,value:binary>>>"
    )


def test_readers_and_writers_are_checked_when_they_are_made() -> None:
    one = source()
    assert isinstance(one.streamReader(one.schema()), SupportsTriggerAvailableNow)
    with pytest.raises(ConfigError, match="did you mean 'failOnDataLoss'"):
        source(failOnDatalos="true").reader(one.schema())
    with pytest.raises(ConfigError, match="the penstock sink has no option 'subscrib'"):
        mistyped = CaseInsensitiveDict({"bootstrap": "h:1", "topic": "t", "subscrib": "x"})
        PenstockDataSource(mistyped).writer(schema=one.schema(), overwrite=False)
    with pytest.raises(ConfigError, match="option subscribe is for reading; a write has the option topic"):
        one.writer(schema=one.schema(), overwrite=False)


def test_spark_calls_the_stream_writer_by_keyword() -> None:
    from pyspark.sql.types import BinaryType, StructType

    sink = PenstockDataSource(CaseInsensitiveDict({"bootstrap": "h:1", "topic": "t", "checkpointLocation": "/c"}))
    sink.streamWriter(schema=StructType().add("value", BinaryType()), overwrite=True).commit([None], batchId=0)


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.spark.session import spark_session

    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'penstock\[spark\]'"):
        spark_session()


def test_the_client_asks_a_cluster_what_planning_needs() -> None:
    from penstock.client.producer.producer import Producer
    from penstock.record.arrow import to_arrow_columns

    tp = TopicPartition("orders", 1)
    with FakeCluster() as cluster, PenstockLogClient(cluster.bootstrap, {"request_timeout_ms": 5000}) as client:
        cluster.create_topic("orders", 2)
        with Producer(cluster.bootstrap) as producer:
            producer.send_many("orders", [b"%d" % i for i in range(50)], partition=1).result()
        assert client.list_topics() == ["orders"]
        assert client.describe(["orders", "nope"]) == {"orders": PlannedTopic("orders", "id-1-of-orders", 2)}
        assert client.list_offsets({tp: LATEST_TIMESTAMP})[tp].offset == 50
        assert client.list_offsets({tp: EARLIEST_TIMESTAMP})[tp].offset == 0
        pieces = client.fetch(PlannedRange("orders", "id-1-of-orders", 1, 7, 20))
        sample = client.sample(tp, 7, "id-1-of-orders")
        assert (sample.from_offset, sample.next_offset) == (7, 50)
        columns = [to_arrow_columns(p.records, from_offset=p.from_offset, to_offset=20) for p in pieces]
        assert [offset for part in columns for offset in part.offsets] == list(range(7, 20))
        assert "PenstockLogClient(127.0.0.1" in repr(client)


def test_one_process_has_one_client_for_the_same_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_client_module, "_open", {})
    assert log_client("h:1", {"a": 1}) is log_client("h:1", {"a": 1})
    assert log_client("h:1", {"a": 1}) is not log_client("h:1", {"a": 2})
    before = log_client("h:1", {})
    monkeypatch.setattr(log_client_module.os, "getpid", lambda: -1)
    assert log_client("h:1", {}) is not before
