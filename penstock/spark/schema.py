"""The columns that Spark sees, and the check of a user's own choice of them.

Reading gives the columns of Spark's Kafka source, with its names and types. A user may ask for fewer of them with
`.schema("value binary, offset long")`. This saves work, because Spark does not push its column pruning down to Python
sources (SPARK-51713). Writing takes the columns of Spark's Kafka sink.

The columns also carry the options of a table in SQL. Spark's catalog stores these, but does not pass them to a Python
data source when the table is read or written (PythonDataSourceV2.getTable drops its properties; Spark 4.3.0). It does
pass the columns, with the metadata that they had at the CREATE TABLE. So the schema of a table in a catalog keeps its
options in the metadata of the column `value`. Any other schema carries nothing.
"""

from __future__ import annotations

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

from penstock.client.cluster.options import nearest
from penstock.errors import ConfigError
from penstock.spark.options import BOOTSTRAP_NAMES, SPARKS_OWN, check_table_options

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
GIVEN_BY_LOG = ("offset", "timestamp", "timestampType")
SINK_TYPES: dict[str, tuple[Any, ...]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "headers": (HEADERS,),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
}
CARRIER = "value"
METADATA_KEY = "penstock.options"
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
            StructField(field.name, field.dataType, field.nullable, {METADATA_KEY: kept})
            if field.name == CARRIER
            else field
            for field in schema.fields
        ]
    )


def table_options(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The options of a read or a write: those given for it, over those of its table.

    Given options that name brokers stand alone: they are not a table's.
    """
    given = {key.lower(): value for key, value in options.items()}
    if any(name in given for name in BOOTSTRAP_NAMES):
        return given
    for field in schema.fields:
        if field.name == CARRIER and METADATA_KEY in field.metadata:
            return {**field.metadata[METADATA_KEY], **given}
    if given.keys() <= SPARKS_OWN:
        raise ConfigError(
            "no options are given; a table made with CREATE TABLE keeps its OPTIONS if its columns are not listed and "
            "come from no AS SELECT"
        )
    return given


def check_source_schema(schema: StructType, include_headers: bool) -> None:
    """ConfigError when a user's `.schema(…)` asks for what a topic does not have."""
    for column in schema.fields:
        wanted = SOURCE_TYPES.get(column.name)
        if wanted is None:
            raise ConfigError(f"a topic has no column {column.name!r}{nearest(column.name, SOURCE_TYPES)}")
        if column.name == "headers" and not include_headers:
            raise ConfigError("the column 'headers' is read only with the option includeHeaders=true")
        if _kind(column.dataType) != _kind(wanted):
            raise ConfigError(f"column {column.name!r} of a topic is {_kind(wanted)}, not {_kind(column.dataType)}")


def check_sink_schema(schema: StructType, has_topic_option: bool) -> None:
    """ConfigError when rows of this schema cannot be written to a topic.

    INSERT INTO gives all columns of the table, those that the log itself gives as nulls; arrow_write.py checks that.
    """
    names = schema.fieldNames()
    is_table = names in (source_schema(False).names, source_schema(True).names)
    for column in schema.fields:
        if is_table and column.name in GIVEN_BY_LOG:
            continue
        wanted = SINK_TYPES.get(column.name)
        if wanted is None:
            raise ConfigError(
                f"column {column.name!r} cannot be written to a topic{nearest(column.name, SINK_TYPES)}; "
                "select key, value, headers, topic or partition, for example: to_json(struct(*)) AS value"
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
