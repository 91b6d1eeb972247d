"""Promises about tables in SQL, without a JVM: the schema carries a table's options, and only a table's."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructField, StructType

from penstock.errors import ConfigError
from penstock.spark.options import sink_options, source_options
from penstock.spark.schema import source_schema, table_options, with_options
from penstock.spark.source import PenstockDataSource

OPTIONS = {"Bootstrap": "h:1", "topic": "orders", "kafka.linger.ms": "1", "kafka.max.partition.fetch.bytes": "9"}


def of_catalog(**properties: str) -> CaseInsensitiveDict:
    """The options as Spark's catalog gives them at CREATE TABLE."""
    return CaseInsensitiveDict(
        {**OPTIONS, **{f"option.{name}": value for name, value in OPTIONS.items()}, **properties}
    )


def test_a_table_keeps_its_options_in_its_schema() -> None:
    spark_adds = {"provider": "penstock", "owner": "me", "a.property": "of the user"}
    schema = PenstockDataSource(of_catalog(**spark_adds)).schema()
    stored = StructType.fromJson(schema.jsonValue())
    assert table_options({}, stored) == {key.lower(): value for key, value in OPTIONS.items()}
    assert PenstockDataSource(CaseInsensitiveDict({})).reader(stored)
    only_value = StructType([StructField("key", schema["key"].dataType), schema["value"]])
    assert PenstockDataSource(CaseInsensitiveDict({})).writer(only_value, False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kafka.sasl.jaas.config", "option 'kafka.sasl.jaas.config': Penstock connects without encryption and log-in"),
        ("startingOffset", "the penstock table has no option 'startingoffset'; did you mean 'startingOffsets'?"),
        ("kafka.fetch.mn.bytes", "is not an option of the Penstock client; did you mean 'kafka.fetch.min.bytes'?"),
    ],
)
def test_a_wrong_option_is_refused_before_a_catalog_keeps_it(name: str, message: str) -> None:
    source = PenstockDataSource(of_catalog(**{name: "secret", f"option.{name}": "secret"}))
    with pytest.raises(ConfigError) as told:
        source.schema()
    assert message in str(told.value) and "secret" not in str(told.value)


def test_the_schema_of_a_plain_read_carries_nothing() -> None:
    given = {"bootstrap": "h:1", "topic": "orders"}
    assert with_options(source_schema(False), given) == source_schema(False)


def test_options_of_one_query_go_over_those_of_the_table() -> None:
    schema = with_options(source_schema(False), of_catalog())
    assert table_options({"endingOffsets": "latest"}, schema)["endingoffsets"] == "latest"
    assert table_options({"topic": "bills"}, schema)["topic"] == "bills"
    assert table_options({"bootstrap": "other:1"}, schema) == {"bootstrap": "other:1"}


def test_one_set_of_options_serves_both_directions() -> None:
    source = source_options(OPTIONS, streaming=False)
    assert source.subscription.topics == ("orders",)
    assert source.client == {"max_partition_fetch_bytes": 9}
    assert sink_options(OPTIONS).client == {"linger_ms": 1}
    assert sink_options({**OPTIONS, "failOnDataLoss": "false"}).topic == "orders"


def test_a_table_whose_options_are_lost_says_why() -> None:
    with pytest.raises(ConfigError, match="keeps its OPTIONS if its columns are not listed"):
        table_options({"serialization.format": "1"}, source_schema(False))
