"""Makes dead letters: the key and value of a bad record, and headers that say why it is bad and where it came from.

A record that is nearly as large as its topic allows has no room for headers. Such a letter has the beginning of the
value, and of the key if that alone is too large, and one header more: how many bytes both had. The whole record is at
the place that the headers name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client.admin.admin import Admin
from penstock.client.options.config import producer_config
from penstock.errors import ConfigError, TopicAuthorizationFailedError
from penstock.pipelines.frame.conf import RunConf
from penstock.spark.writing.sink_options import sink_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MAX_MESSAGE_BYTES, SEGMENT_BYTES = "max.message.bytes", "segment.bytes"
"""A batch must fit into a segment, too."""
DEFAULTS = {MAX_MESSAGE_BYTES: 1_048_588, SEGMENT_BYTES: 1024 * 1024 * 1024}
"""The defaults of topics, as Kafka has them."""
OWN_BYTES = 1024
"""The bytes for the headers, and for what a batch of one record has around it."""
CODEC_SHARE = 64
"""One part in CODEC_SHARE is left for a codec, which makes what it cannot compress a little larger."""
REASON, TRUNCATED = "dead.reason", "dead.truncated"
PLACE = {"dead.topic": "topic", "dead.partition": "partition", "dead.offset": "offset"}


def room_bytes(bootstrap: str, topic: str, run: RunConf) -> int:
    """How many bytes of key and value a letter may have: what the topic and the producer take, less what we add. Where
    this user may not describe the topic's configuration, the topic counts as one with the defaults."""
    options = sink_options({"bootstrap": bootstrap, "topic": topic, **run.client_options}).client
    limits = _limits(bootstrap, topic, run)
    limits["client.max.request.size"] = producer_config(options).max_request_size
    least = min(limits, key=limits.__getitem__)
    limit = limits[least]
    room = limit - OWN_BYTES - limit // CODEC_SHARE
    if room < OWN_BYTES:
        raise ConfigError(
            f"dead_letter_topic: {least} = {limit} leaves no room for a dead letter in topic {topic!r}; "
            f"it must be at least {4 * OWN_BYTES}"
        )
    return room


def _limits(bootstrap: str, topic: str, run: RunConf) -> dict[str, int]:
    with Admin(bootstrap, **run.admin_options) as admin:
        try:
            config = admin.describe_topic_config(topic)
        except TopicAuthorizationFailedError:
            return dict(DEFAULTS)
    return {name: int(str(config[name].value)) for name in DEFAULTS}


def dead_letters(bad: DataFrame, reason: str, room: int) -> DataFrame:
    """The letters of bronze rows whose column `reason` says why they are bad."""
    from pyspark.sql import functions as f

    key_bytes, value_bytes = (f.coalesce(f.length(name), f.lit(0)) for name in ("key", "value"))
    headers = [_header(REASON, f.col(reason)), *(_header(name, f.col(column)) for name, column in PLACE.items())]
    sizes = f.concat(f.lit("key "), key_bytes.cast("string"), f.lit(", value "), value_bytes.cast("string"))
    fits = key_bytes + value_bytes <= room
    key = f.substring("key", 1, room)
    value = f.expr(f"substring(value, 1, greatest(0, {room} - coalesce(length(key), 0)))")
    return bad.select(
        f.when(fits, f.col("key")).otherwise(key).alias("key"),
        f.when(fits, f.col("value")).otherwise(value).alias("value"),
        f.when(fits, f.array(*headers)).otherwise(f.array(*headers, _header(TRUNCATED, sizes))).alias("headers"),
    )


def _header(name: str, value: Column) -> Any:
    from pyspark.sql import functions as f

    return f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
