"""The configuration of a topic: the table of keys, validation, and the typed view that storage and brokers use.

Keys, types, defaults and ranges are Kafka's (kafka.apache.org, "Topic configs"), with two exceptions: `flush.policy` is
ours, and Kafka's keys that would do nothing here are unknown. A topic stores only its overrides, as text. Other values
come from the node's configuration under `broker_key`, and then from the default in the table.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from metadata.config_types import ConfigDefinition, ConfigKind, ConfigValue
from penstock.errors import InvalidConfigError

_INT_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = (1 << 63) - 1
_DAY_MS: Final = 86_400_000
_LONGEST_KEY: Final = 64
"""An unknown key is shown, and compared with the known ones, up to this length."""
_MIN_SEGMENT_BYTES: Final = 1024
"""Smaller segments would make too many files. Kafka's minimum is 1 MiB since 4.1; our tests of rolling need less."""

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
FLUSH_POLICY: Final = "flush.policy"
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"

_TABLE: Final = (
    ConfigDefinition(
        "cleanup.policy",
        ConfigKind.LIST,
        ("delete",),
        "log.cleanup.policy",
        "Old segments are deleted by age and size, compacted to the last value of each key, or both.",
        choices=("delete", "compact"),
    ),
    ConfigDefinition(
        "compression.gzip.level",
        ConfigKind.INT,
        -1,
        "compression.gzip.level",
        "The leader's level with compression.type=gzip: 1 (fast) to 9 (small); -1 is gzip's own choice.",
        minimum=1,
        maximum=9,
        besides=-1,
    ),
    ConfigDefinition(
        "compression.lz4.level",
        ConfigKind.INT,
        9,
        "compression.lz4.level",
        "The leader's level with compression.type=lz4. As in Kafka, 9 is the fast compressor.",
        minimum=1,
        maximum=17,
    ),
    ConfigDefinition(
        "compression.type",
        ConfigKind.STRING,
        "producer",
        "compression.type",
        "Codec of stored batches: the producer's, or one to which the leader converts them.",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    ),
    ConfigDefinition(
        "compression.zstd.level",
        ConfigKind.INT,
        3,
        "compression.zstd.level",
        "The leader's level with compression.type=zstd; above 9 it takes much time and saves little.",
        minimum=-131_072,
        maximum=22,
    ),
    ConfigDefinition(
        "delete.retention.ms",
        ConfigKind.LONG,
        _DAY_MS,
        "log.cleaner.delete.retention.ms",
        "How long a compacted topic keeps a delete marker. A reader must read it within this time.",
        minimum=0,
        maximum=_LONG_MAX,
    ),
    ConfigDefinition(
        "file.delete.delay.ms",
        ConfigKind.LONG,
        60_000,
        "log.segment.delete.delay.ms",
        "How long a deleted segment's file stays on disk, for readers that still have it open.",
        minimum=0,
        maximum=_LONG_MAX,
    ),
    ConfigDefinition(
        "flush.messages",
        ConfigKind.LONG,
        _LONG_MAX,
        "log.flush.interval.messages",
        "With flush.policy=os: force a flush after this many records. With fsync every ack is flushed already.",
        minimum=1,
        maximum=_LONG_MAX,
    ),
    ConfigDefinition(
        "flush.ms",
        ConfigKind.LONG,
        _LONG_MAX,
        "log.flush.interval.ms",
        "With flush.policy=os: force a flush after this time. With fsync every ack is flushed already.",
        minimum=0,
        maximum=_LONG_MAX,
    ),
    ConfigDefinition(
        FLUSH_POLICY,
        ConfigKind.STRING,
        "fsync",
        "flush.policy",
        "When a write is acked: fsync (after it is on stable storage) or os (from the page cache; lossy).",
        choices=("fsync", "os"),
    ),
    ConfigDefinition(
        "index.interval.bytes",
        ConfigKind.INT,
        4096,
        "log.index.interval.bytes",
        "Bytes of log between two entries of the offset index.",
        minimum=0,
        maximum=_INT_MAX,
    ),
    ConfigDefinition(
        "max.compaction.lag.ms",
        ConfigKind.LONG,
        _LONG_MAX,
        "log.cleaner.max.compaction.lag.ms",
        "The longest time that a record of a compacted topic may stay uncompacted.",
        minimum=1,
        maximum=_LONG_MAX,
    ),
    ConfigDefinition(
        "max.message.bytes",
        ConfigKind.INT,
        1_048_588,
        "message.max.bytes",
        "The largest record batch that is accepted, before and after conversion to compression.type.",
        minimum=0,
        maximum=_INT_MAX,
    ),
    ConfigDefinition(
        "message.timestamp.after.max.ms",
        ConfigKind.LONG,
        3_600_000,
        "log.message.timestamp.after.max.ms",
        "How far a record's create time may be ahead of the broker's clock.",
        minimum=0,
        maximum=_LONG_MAX,
    ),
    ConfigDefinition(
        "message.timestamp.before.max.ms",
        ConfigKind.LONG,
        _LONG_MAX,
        "log.message.timestamp.before.max.ms",
        "How far a record's create time may be behind the broker's clock.",
        minimum=0,
        maximum=_LONG_MAX,
    ),
    ConfigDefinition(
        "message.timestamp.type",
        ConfigKind.STRING,
        "CreateTime",
        "log.message.timestamp.type",
        "The time of a record: the producer's, or that of the append.",
        choices=("CreateTime", "LogAppendTime"),
    ),
    ConfigDefinition(
        "min.cleanable.dirty.ratio",
        ConfigKind.DOUBLE,
        0.5,
        "log.cleaner.min.cleanable.ratio",
        "The share of a log that must be uncompacted before it is compacted.",
        minimum=0.0,
        maximum=1.0,
    ),
    ConfigDefinition(
        "min.compaction.lag.ms",
        ConfigKind.LONG,
        0,
        "log.cleaner.min.compaction.lag.ms",
        "The shortest time that a record of a compacted topic stays uncompacted.",
        minimum=0,
        maximum=_LONG_MAX,
    ),
    ConfigDefinition(
        MIN_INSYNC_REPLICAS,
        ConfigKind.INT,
        1,
        "min.insync.replicas",
        "How many replicas, with the leader, must hold a write with acks=all before it is acked.",
        minimum=1,
        maximum=_INT_MAX,
    ),
    ConfigDefinition(
        "retention.bytes",
        ConfigKind.LONG,
        -1,
        "log.retention.bytes",
        "The oldest segments are deleted as long as at least this much remains; -1: no limit.",
        minimum=-1,
        maximum=_LONG_MAX,
    ),
    ConfigDefinition(
        "retention.ms",
        ConfigKind.LONG,
        7 * _DAY_MS,
        "log.retention.ms",
        "How long a record is kept at least; -1: for ever.",
        minimum=-1,
        maximum=_LONG_MAX,
    ),
    ConfigDefinition(
        "segment.bytes",
        ConfigKind.INT,
        1 << 30,
        "log.segment.bytes",
        "A segment is rolled at this size.",
        minimum=_MIN_SEGMENT_BYTES,
        maximum=_INT_MAX,
    ),
    ConfigDefinition(
        "segment.index.bytes",
        ConfigKind.INT,
        10 << 20,
        "log.index.size.max.bytes",
        "An index of this size rolls its segment.",
        minimum=24,
        maximum=_INT_MAX,
    ),
    ConfigDefinition(
        "segment.jitter.ms",
        ConfigKind.LONG,
        0,
        "log.roll.jitter.ms",
        "A segment rolls by up to this time earlier, at random, so that partitions do not all roll at once.",
        minimum=0,
        maximum=_LONG_MAX,
    ),
    ConfigDefinition(
        "segment.ms",
        ConfigKind.LONG,
        7 * _DAY_MS,
        "log.roll.ms",
        "A segment is rolled at this age.",
        minimum=1,
        maximum=_LONG_MAX,
    ),
    ConfigDefinition(
        UNCLEAN_LEADER_ELECTION,
        ConfigKind.BOOLEAN,
        False,
        "unclean.leader.election.enable",
        "Whether a replica outside the ISR may lead if no member of the ISR lives. Loses acked records.",
    ),
)

TOPIC_CONFIGS: Final[Mapping[str, ConfigDefinition]] = {definition.name: definition for definition in _TABLE}
"""By key; the reference in the documentation is generated from this table."""
_BROKER_KEYS: Final = {definition.broker_key: definition.name for definition in _TABLE}


def parse_topic_config(key: str, text: str) -> ConfigValue:
    """The typed value of one key of a topic, or InvalidConfigError."""
    return topic_config_definition(key).parse(text)


def validate_topic_config(overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """A topic's overrides, typed; the first key that is unknown or has an unacceptable value is an error."""
    parsed = {key: parse_topic_config(key, text) for key, text in overrides.items()}
    least, most = parsed.get("min.compaction.lag.ms"), parsed.get("max.compaction.lag.ms")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise InvalidConfigError(f"min.compaction.lag.ms ({least}) must not be above max.compaction.lag.ms ({most})")
    return parsed


def effective_topic_config(
    overrides: Mapping[str, str], broker_defaults: Mapping[str, ConfigValue] | None = None
) -> dict[str, ConfigValue]:
    """Every key of the table, typed: the topic's own value, else the node's, else the default.

    `broker_defaults` holds typed values by the topic's key or by the broker's (`segment.bytes`, `log.segment.bytes`);
    keys that do not concern topics are ignored, so the node's whole configuration may be given. An override that
    this version does not know is ignored, too: the controller that wrote it has validated it.
    """
    return {key: effective_value(key, overrides, broker_defaults or {}) for key in TOPIC_CONFIGS}


def effective_value(key: str, overrides: Mapping[str, str], broker_defaults: Mapping[str, ConfigValue]) -> ConfigValue:
    """One key of `effective_topic_config`."""
    definition = TOPIC_CONFIGS[key]
    if key in overrides:
        return definition.parse(overrides[key])
    return broker_defaults.get(key, broker_defaults.get(definition.broker_key, definition.default))


def topic_config_definition(key: str) -> ConfigDefinition:
    """The definition of a key; InvalidConfigError, with the nearest key, if it is no key of a topic."""
    definition = TOPIC_CONFIGS.get(key)
    if definition is not None:
        return definition
    if key in _BROKER_KEYS:
        raise InvalidConfigError(f"{key} is a broker's key; for a topic it is {_BROKER_KEYS[key]}")
    near = difflib.get_close_matches(key[:_LONGEST_KEY], TOPIC_CONFIGS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(TOPIC_CONFIGS)}"
    raise InvalidConfigError(f"unknown topic config {key[:_LONGEST_KEY]!r}; {hint}")
