"""The columns that Spark sees, and the check of a user's own choice of them.

Reading gives the columns of Spark's Kafka source, with its names and types. A user may ask for fewer of them with
`.schema("value binary, offset long")`. This saves work, because Spark does not push its column pruning down to Python
sources (SPARK-51713). Writing takes the columns of Spark's Kafka sink.

The columns also carry the options of a table in SQL. Spark's catalog stores these, but does not pass them to a Python
data source when the table is read or written (PythonDataSourceV2.getTable drops its properties; Spark 4.3.0). It does
pass the columns, with the metadata that they had at the CREATE TABLE. So the schema of a table in a catalog keeps its
options in the metadata of the column `topic`. Any other schema carries nothing.

A column takes its metadata along into every frame that is made from it, and a write gets that of the frame where names
and types are the table's already: `INSERT INTO b SELECT … FROM a` would go to the topic of `a`. So the column `topic`
of each table has a type of its own for Spark's writes, a varchar whose length is a checksum of the options; then Spark
puts the columns of the written table in place of the frame's, unless both tables have the same options. A write to a
table always has all of its columns; to anything else than a table it needs its own options.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.config_keys import did_you_mean
from penstock.errors import ConfigError
from penstock.spark.options import (
    BOOTSTRAP_NAMES,
    SOURCE_NAMES,
    SPARKS_OWN,
    TOPIC_NAMES,
    check_table_options,
    without_other_direction,
)

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
SOURCE_TYPES: dict[str, Any] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}
GIVEN_BY_LOG = ("offset", "timestampType")
MAY_BE_NULL = ("key", "value", "headers")
SINK_TYPES: dict[str, tuple[Any, ...]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "headers": (HEADERS,),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "timestamp": (TimestampType(),),
}
CARRIER, EARLIER_CARRIER = "topic", "value"
METADATA_KEY = "penstock.options"
WRITE_TYPE_KEY = "__CHAR_VARCHAR_TYPE_STRING"
"""The key under which Spark keeps the declared type of a char or varchar column, which it compares before a write."""
TOPIC_LENGTH_MAX, CHECKSUM_MAX = 249, 1 << 30
CATALOGS_PREFIX = "option."
"""Spark's catalog gives each of a table's OPTIONS twice, once with this prefix, and its other properties once."""


def source_schema(include_headers: bool) -> StructType:
    """All columns; `headers` only when they were asked for."""
    names = [name for name in SOURCE_TYPES if include_headers or name != "headers"]
    return StructType([StructField(name, SOURCE_TYPES[name]) for name in names])


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema of a table whose OPTIONS these are; where they are not a table's, the schema as it is."""
    given = {key.lower(): value for key, value in options.items()}
    kept = {key: value for key, value in given.items() if CATALOGS_PREFIX + key in given}
    if not kept:
        return schema
    check_table_options(kept)
    return StructType(
        [
            StructField(field.name, field.dataType, field.nullable, _carried(kept)) if field.name == CARRIER else field
            for field in schema.fields
        ]
    )


def _carried(kept: Mapping[str, str]) -> dict[str, Any]:
    length = TOPIC_LENGTH_MAX + zlib.crc32(json.dumps(kept, sort_keys=True).encode()) % CHECKSUM_MAX
    return {METADATA_KEY: kept, WRITE_TYPE_KEY: f"varchar({length})"}


def read_options(options: Mapping[str, str], schema: StructType, *, streaming: bool) -> dict[str, str]:
    """The options of a read: those given for it, over those of its table that are meant for a read of its kind.

    Given options that name brokers stand alone: they are not a table's.
    """
    given = {key.lower(): value for key, value in options.items()}
    _check_direction(given, writing=False)
    if any(name in given for name in BOOTSTRAP_NAMES):
        return given
    carried = _options_in(schema, CARRIER) or _options_in(schema, EARLIER_CARRIER)
    if carried is not None:
        return {**without_other_direction(carried, streaming=streaming), **given}
    if given.keys() <= SPARKS_OWN:
        raise ConfigError(
            "no options are given; a table made with CREATE TABLE keeps its OPTIONS if its columns are not listed and "
            "come from no AS SELECT"
        )
    return given


def write_options(options: Mapping[str, str], schema: StructType, *, streaming: bool) -> dict[str, str]:
    """The options of a write: those given for it, over those of the table that is written."""
    given = {key.lower(): value for key, value in options.items()}
    _check_direction(given, writing=True)
    if any(name in given for name in BOOTSTRAP_NAMES):
        return given
    carried = None if streaming or not _is_table(schema) else _options_in(schema, CARRIER)
    if carried is not None:
        return {**carried, **given}
    if not given.keys() <= SPARKS_OWN:
        return given
    if streaming:
        raise ConfigError(
            "a stream is written with .format('penstock').options(bootstrap=…, topic=…).start(): Spark passes none of "
            "a table's options to toTable"
        )
    raise ConfigError(
        "a write needs the options bootstrap and topic; INSERT INTO needs neither for a table that CREATE TABLE made "
        "with OPTIONS, without a list of columns and without AS SELECT (DROP one of an earlier version and CREATE it "
        "again: its topic stays)"
    )


def _check_direction(given: Mapping[str, str], *, writing: bool) -> None:
    """ConfigError for an option of the other direction: a user that gives it here expects what it does there. `given`
    are the options of one read or write, without its table's, and in lower case."""
    both = {name.lower() for name in (*BOOTSTRAP_NAMES, "includeHeaders")}
    names_topics = any(name.lower() in given for name in TOPIC_NAMES)
    others = SOURCE_NAMES if writing else ("semantics", *(("topic",) if names_topics else ()))
    found = next((name for name in others if name.lower() in given and name.lower() not in both), None)
    if found is None:
        return
    if writing:
        remedy = "a write has the option topic" if found in TOPIC_NAMES else "give it where the rows are read from"
        raise ConfigError(f"option {found} is for reading; {remedy}")
    raise ConfigError(f"option {found} is for writing; give it where the rows are written, or leave it out")


def _options_in(schema: StructType, carrier: str) -> dict[str, str] | None:
    for field in schema.fields:
        if field.name == carrier and METADATA_KEY in field.metadata:
            return dict(field.metadata[METADATA_KEY])
    return None


def _is_table(schema: StructType) -> bool:
    return schema.fieldNames() in (source_schema(False).names, source_schema(True).names)


def check_source_schema(schema: StructType, include_headers: bool) -> None:
    """ConfigError when a user's `.schema(…)` asks for what a topic does not have."""
    for column in schema.fields:
        wanted = SOURCE_TYPES.get(column.name)
        if wanted is None:
            raise ConfigError(f"a topic has no column {column.name!r}{did_you_mean(column.name, SOURCE_TYPES)}")
        if column.name == "headers" and not include_headers:
            raise ConfigError("the column 'headers' is read only with the option includeHeaders=true")
        if _kind(column.dataType) != _kind(wanted):
            raise ConfigError(f"column {column.name!r} of a topic is {_kind(wanted)}, not {_kind(column.dataType)}")
        if not column.nullable and column.name in MAY_BE_NULL:
            raise ConfigError(f"column {column.name!r} of a topic may be null; leave out NOT NULL")


def check_sink_schema(schema: StructType, has_topic_option: bool) -> None:
    """ConfigError when rows of this schema cannot be written to a topic.

    INSERT INTO gives all columns of the table, those that the log itself gives as nulls; arrow_write.py checks that.
    """
    names = schema.fieldNames()
    is_table = _is_table(schema)
    for column in schema.fields:
        if is_table and column.name in GIVEN_BY_LOG:
            continue
        wanted = SINK_TYPES.get(column.name)
        if wanted is None:
            raise ConfigError(
                f"column {column.name!r} cannot be written to a topic{did_you_mean(column.name, SINK_TYPES)}; "
                "select key, value, headers, topic, partition or timestamp, for example: to_json(struct(*)) AS value"
            )
        if _kind(column.dataType) not in [_kind(kind) for kind in wanted]:
            kinds = " or ".join(_kind(kind) for kind in wanted)
            raise ConfigError(f"column {column.name!r} must be {kinds}, not {_kind(column.dataType)}")
    if "value" not in names:
        raise ConfigError("a write needs a column 'value' (string or binary)")
    if "topic" not in names and not has_topic_option:
        raise ConfigError("a write needs a topic: the option 'topic', or a column 'topic'")


def _kind(data_type: Any) -> str:
    """Spark's name of a type; nullability does not count."""
    return str(data_type.simpleString())
