"""The columns that Spark sees, and the check of a user's own choice of them.

Reading gives the columns of Spark's Kafka source, with its names and types. A user may ask for fewer of them with
`.schema("value binary, offset long")`. This saves work, because Spark does not push its column pruning down to Python
sources (SPARK-51713). Writing takes the columns of Spark's Kafka sink.
"""

from __future__ import annotations

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
SINK_TYPES: dict[str, tuple[Any, ...]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "headers": (HEADERS,),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
}


def source_schema(include_headers: bool) -> StructType:
    """All columns; `headers` only when they were asked for."""
    names = [name for name in SOURCE_TYPES if include_headers or name != "headers"]
    return StructType([StructField(name, SOURCE_TYPES[name]) for name in names])


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
    """ConfigError when rows of this schema cannot be written to a topic."""
    for column in schema.fields:
        wanted = SINK_TYPES.get(column.name)
        if wanted is None:
            raise ConfigError(
                f"column {column.name!r} cannot be written to a topic{nearest(column.name, SINK_TYPES)}; "
                "select key, value, headers, topic or partition, for example: to_json(struct(*)) AS value"
            )
        if _kind(column.dataType) not in [_kind(kind) for kind in wanted]:
            kinds = " or ".join(_kind(kind) for kind in wanted)
            raise ConfigError(f"column {column.name!r} must be {kinds}, not {_kind(column.dataType)}")
    names = schema.fieldNames()
    if "value" not in names:
        raise ConfigError("a write needs a column 'value' (string or binary)")
    if "topic" not in names and not has_topic_option:
        raise ConfigError("a write needs a topic: the option 'topic', or a column 'topic'")


def _kind(data_type: Any) -> str:
    """Spark's name of a type; nullability does not count."""
    return str(data_type.simpleString())
