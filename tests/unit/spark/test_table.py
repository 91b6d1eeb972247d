"""Promises about tables in SQL, without a JVM: the schema carries a table's options, and only a table's."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from penstock.errors import ConfigError
from penstock.spark.boundary import BoundaryKind
from penstock.spark.options import source_options
from penstock.spark.schema import (
    METADATA_KEY,
    WRITE_TYPE_KEY,
    check_source_schema,
    read_options,
    source_schema,
    with_options,
    write_options,
)
from penstock.spark.source import PenstockDataSource
from penstock.spark.writing.sink_options import sink_options

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
    wanted = {key.lower(): value for key, value in OPTIONS.items()}
    assert read_options({}, stored, streaming=False) == wanted == write_options({}, stored, streaming=False)
    assert PenstockDataSource(CaseInsensitiveDict({})).reader(stored)
    assert PenstockDataSource(CaseInsensitiveDict({})).writer(stored, False)


def test_a_frame_that_was_read_from_a_table_does_not_take_its_destination_along() -> None:
    """Written without options, or by toTable("b"), what was read from a table a went to the topic of a."""
    schema = with_options(source_schema(False), of_catalog())
    some = StructType([schema["value"], schema["topic"]])
    for options in ({}, {"checkpointLocation": "/c"}):
        with pytest.raises(ConfigError, match=r"^a write needs the options bootstrap and topic; INSERT INTO needs"):
            write_options(options, some, streaming=False)
        with pytest.raises(ConfigError, match=r"^a stream is written with .format\('penstock'\).*none of a table's"):
            write_options(options, schema, streaming=True)
    assert write_options({"topic": "x"}, some, streaming=False) == {"topic": "x"}  # and then bootstrap is missing


def test_two_tables_never_have_one_type_so_that_spark_puts_in_the_columns_of_the_one_that_is_written() -> None:
    one = with_options(source_schema(False), of_catalog())
    other = with_options(source_schema(False), {**of_catalog(), "topic": "bills"})
    kinds = {schema["topic"].metadata[WRITE_TYPE_KEY] for schema in (one, other)}
    assert len(kinds) == 2 and all(249 <= int(kind[8:-1]) < 2**31 for kind in kinds)
    assert one == with_options(source_schema(False), of_catalog())


def test_a_table_of_an_earlier_version_is_read_and_to_be_made_anew_before_it_is_written() -> None:
    fields = [
        StructField(f.name, f.dataType, f.nullable, {METADATA_KEY: {"bootstrap": "h:1", "topic": "t"}})
        if f.name == "value"
        else f
        for f in source_schema(False)
    ]
    assert read_options({}, StructType(fields), streaming=False)["topic"] == "t"
    with pytest.raises(ConfigError, match="DROP one of an earlier version and CREATE it again"):
        write_options({}, StructType(fields), streaming=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kafka.sasl.jaas.config", "option 'kafka.sasl.jaas.config': write kafka.username and kafka.password.file"),
        ("kafka.password", "option kafka.password: a table's options are seen by whoever sees the table; write"),
        (
            "kafka.token",
            "option kafka.token: a table's options are seen by whoever sees the table; write kafka.token.file",
        ),
        ("startingOffset", "the penstock table has no option 'startingoffset'; did you mean 'startingOffsets'?"),
        ("kafka.fetch.mn.bytes", "is not an option of the Penstock client; did you mean 'kafka.fetch.min.bytes'?"),
    ],
)
def test_a_wrong_option_is_refused_before_a_catalog_keeps_it(name: str, message: str) -> None:
    source = PenstockDataSource(of_catalog(**{name: "secret", f"option.{name}": "secret"}))
    with pytest.raises(ConfigError) as raised:
        source.schema()
    assert message in str(raised.value) and "secret" not in str(raised.value)


def test_the_schema_of_a_plain_read_carries_nothing() -> None:
    given = {"bootstrap": "h:1", "topic": "orders"}
    assert with_options(source_schema(False), given) == source_schema(False)


def test_options_of_one_query_go_over_those_of_the_table() -> None:
    schema = with_options(source_schema(False), of_catalog())
    for find in (read_options, write_options):
        assert find({"topic": "bills"}, schema, streaming=False)["topic"] == "bills"
        assert find({"bootstrap": "other:1"}, schema, streaming=False) == {"bootstrap": "other:1"}
    assert read_options({"endingOffsets": "latest"}, schema, streaming=False)["endingoffsets"] == "latest"


def test_a_table_serves_batch_reads_and_streams_and_each_leaves_out_what_is_for_the_other() -> None:
    both = {"maxOffsetsPerTrigger": "5", "maxBytesPerTrigger": "1m", "endingOffsets": "latest"}
    given = {**OPTIONS, **both, "startingOffsets": "latest"}
    schema = with_options(source_schema(False), {**given, **{f"option.{name}": text for name, text in given.items()}})
    batch = source_options(read_options({}, schema, streaming=False), streaming=False)
    assert (batch.max_offsets_per_trigger, batch.starting.kind) == (0, BoundaryKind.EARLIEST)
    stream = source_options(read_options({}, schema, streaming=True), streaming=True)
    assert (stream.max_offsets_per_trigger, stream.starting.kind) == (5, BoundaryKind.LATEST)
    for more, streaming in (({"maxOffsetsPerTrigger": "5"}, False), ({"endingOffsets": "latest"}, True)):
        with pytest.raises(ConfigError, match="is for"):  # said of this very query, it is a mistake
            source_options(read_options(more, schema, streaming=streaming), streaming=streaming)


def test_a_column_that_may_be_null_cannot_be_asked_for_as_not_null() -> None:
    with pytest.raises(ConfigError, match=r"^column 'value' of a topic may be null; leave out NOT NULL$"):
        check_source_schema(StructType([StructField("value", BinaryType(), False)]), False)
    check_source_schema(StructType([StructField("offset", LongType(), False)]), False)


def test_one_set_of_options_serves_both_directions() -> None:
    source = source_options(OPTIONS, streaming=False)
    assert source.subscription.topics == ("orders",)
    assert source.client == {"max_partition_fetch_bytes": 9}
    assert sink_options(OPTIONS).client == {"linger_ms": 1}
    assert sink_options({**OPTIONS, "failOnDataLoss": "false"}).topic == "orders"


def test_a_table_whose_options_are_lost_says_why() -> None:
    with pytest.raises(ConfigError, match="keeps its OPTIONS if its columns are not listed"):
        read_options({"serialization.format": "1"}, source_schema(False), streaming=False)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    ("find", "option", "message"),
    [
        (write_options, "startingOffsets", "^option startingOffsets is for reading; give it where the rows are read"),
        (write_options, "SUBSCRIBE", "^option subscribe is for reading; a write has the option topic$"),
        (write_options, "maxOffsetsPerTrigger", "^option maxOffsetsPerTrigger is for reading; "),
        (read_options, "semantics", "^option semantics is for writing; give it where the rows are written"),
        (read_options, "topic", "^option topic is for writing; "),
    ],
)
def test_an_option_of_the_other_direction_is_refused_unless_it_is_a_tables(
    find: Any, option: str, message: str, streaming: bool
) -> None:
    given = {"bootstrap": "h:1", **({"subscribe": "t"} if find is read_options else {"topic": "t"}), option: "latest"}
    with pytest.raises(ConfigError, match=message):
        find(given, source_schema(False), streaming=streaming)


def test_a_read_may_name_its_topic_as_a_table_does_and_headers_are_for_both() -> None:
    given = {"bootstrap": "h:1", "topic": "t", "includeheaders": "true"}
    for find in (read_options, write_options):
        assert find(given, source_schema(True), streaming=False) == given
