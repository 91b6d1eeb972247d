"""The configuration of a topic: the table of keys, validation, and the typed view that storage and brokers use.

Keys, types, defaults and ranges are Kafka's (kafka.apache.org, "Topic configs"), with these exceptions: `flush.policy`
and `record.validation` are ours, and Kafka's keys that would do nothing here are those of idle_topic_keys.py. A topic
stores only its overrides, as text. Other values come from the node's configuration under `broker_key`, and then from
the default in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from metadata.idle_topic_keys import GONE_TOPIC_KEYS, IDLE_TOPIC_KEYS
from penstock.config_keys import (
    DAY_MS,
    GIB,
    HOUR_MS,
    INT64_MAX,
    MIB,
    ConfigKey,
    ConfigValue,
    boolean,
    byte_count,
    double,
    duration_ms,
    integer,
    nearest,
    string,
    strings,
)
from penstock.errors import InvalidConfigError

_LONGEST_KEY: Final = 64
"""An unknown key is shown, and compared with the known ones, up to this length."""
_MIN_SEGMENT_BYTES: Final = 1024
"""Smaller segments would make too many files. Kafka's minimum is 1 MiB since 4.1; our tests of rolling need less."""

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
FLUSH_POLICY: Final = "flush.policy"
RECORD_VALIDATION: Final = "record.validation"
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"


def _ms(name: str, default: int, doc: str, low: int = 0) -> ConfigKey:
    return duration_ms(name, default, doc, low, INT64_MAX)


_TABLE: Final = {
    "log.cleanup.policy": replace(
        strings(
            "cleanup.policy",
            ("delete",),
            "Old segments are deleted by age and size, compacted to the last value of each key, or both. Empty:"
            " neither, and the topic grows until its records are deleted by hand (KIP-1161).",
            ("delete", "compact"),
        ),
        may_be_empty=True,
    ),
    "compression.gzip.level": integer(
        "compression.gzip.level",
        -1,
        "The leader's level with compression.type=gzip: 1 (fast) to 9 (small); -1 is gzip's own choice.",
        1,
        9,
        besides=-1,
    ),
    "compression.lz4.level": integer(
        "compression.lz4.level",
        9,
        "The leader's level with compression.type=lz4. As in Kafka, 9 is the fast compressor.",
        1,
        17,
    ),
    "compression.type": string(
        "compression.type",
        "producer",
        "Codec of stored batches: the producer's, or one to which the leader converts them.",
        ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    ),
    "compression.zstd.level": integer(
        "compression.zstd.level",
        3,
        "The leader's level with compression.type=zstd; above 9 it takes much time and saves little. Batches "
        "above 1 MiB, uncompressed, have 12 at most.",
        -131_072,
        22,
    ),
    "log.cleaner.delete.retention.ms": _ms(
        "delete.retention.ms",
        DAY_MS,
        "How long a compacted topic keeps a delete marker. A reader must read it within this time.",
    ),
    "log.segment.delete.delay.ms": _ms(
        "file.delete.delay.ms",
        60_000,
        "How long a deleted segment's file stays on disk, for readers that still have it open. It goes at once where"
        " less than a hundredth of the disk is free.",
    ),
    "log.flush.interval.messages": integer(
        "flush.messages",
        INT64_MAX,
        "With flush.policy=os: force a flush after this many records. With fsync every ack is flushed already.",
        1,
        INT64_MAX,
        "messages",
    ),
    "log.flush.interval.ms": _ms(
        "flush.ms",
        INT64_MAX,
        "With flush.policy=os: force a flush after this time. With fsync every ack is flushed already.",
    ),
    "flush.policy": string(
        FLUSH_POLICY,
        "fsync",
        "When a write is acked: fsync (after it is on stable storage) or os (from the page cache; lossy).",
        ("fsync", "os"),
    ),
    "log.index.interval.bytes": byte_count(
        "index.interval.bytes", 4096, "Bytes of log between two index entries; 200 batches or 1 MiB at most.", 0
    ),
    "log.cleaner.max.compaction.lag.ms": _ms(
        "max.compaction.lag.ms",
        INT64_MAX,
        "The longest time that a record of a compacted topic may stay uncompacted.",
        1,
    ),
    "message.max.bytes": byte_count(
        "max.message.bytes",
        1_048_588,
        "The largest record batch that is accepted, before and after conversion to compression.type.",
        0,
    ),
    "log.message.timestamp.after.max.ms": _ms(
        "message.timestamp.after.max.ms", HOUR_MS, "How far a record's create time may be ahead of the broker's clock."
    ),
    "log.message.timestamp.before.max.ms": _ms(
        "message.timestamp.before.max.ms", INT64_MAX, "How far a record's create time may be behind the broker's clock."
    ),
    "log.message.timestamp.type": string(
        "message.timestamp.type",
        "CreateTime",
        "The time of a record: the producer's, or that of the append.",
        ("CreateTime", "LogAppendTime"),
    ),
    "log.cleaner.min.cleanable.ratio": double(
        "min.cleanable.dirty.ratio",
        0.5,
        "The share of a log that must be uncompacted before it is compacted.",
        0.0,
        1.0,
    ),
    "log.cleaner.min.compaction.lag.ms": _ms(
        "min.compaction.lag.ms", 0, "The shortest time that a record of a compacted topic stays uncompacted."
    ),
    "min.insync.replicas": integer(
        MIN_INSYNC_REPLICAS,
        1,
        "How many replicas, with the leader, must hold a write with acks=all before it is acked.",
        1,
    ),
    "log.record.validation": string(
        RECORD_VALIDATION,
        "records",
        "What a leader looks at before it takes a batch: its records, each, unpacked if they are compressed, as Kafka's"
        " leader does, or only its headers: cheaper, and one faulty producer can stop every reader of a partition, or"
        " give a batch a wrong largest timestamp, by which records are deleted and looked up.",
        ("records", "headers"),
    ),
    "log.retention.bytes": byte_count(
        "retention.bytes",
        -1,
        "The oldest segments are deleted as long as at least this much remains; -1: no limit.",
        -1,
        INT64_MAX,
    ),
    "log.retention.ms": _ms("retention.ms", 7 * DAY_MS, "How long a record is kept at least; -1: for ever.", -1),
    "log.segment.bytes": byte_count("segment.bytes", GIB, "A segment is rolled at this size.", _MIN_SEGMENT_BYTES),
    "log.index.size.max.bytes": byte_count(
        "segment.index.bytes", 10 * MIB, "An index of this size rolls its segment.", 24
    ),
    "log.roll.jitter.ms": _ms(
        "segment.jitter.ms",
        0,
        "A segment rolls by up to this time earlier, at random, so that partitions do not all roll at once.",
    ),
    "log.roll.ms": _ms("segment.ms", 7 * DAY_MS, "A segment is rolled at this age.", 1),
    "unclean.leader.election.enable": boolean(
        UNCLEAN_LEADER_ELECTION,
        False,
        "Whether a replica outside the ISR may lead if no member of the ISR lives. Loses acked records.",
    ),
}
"""A topic's key below the node's key that gives its default."""

TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = {
    key.name: replace(key, broker_key=broker_key) for broker_key, key in _TABLE.items()
}
"""The table of keys by name; the reference in the documentation is generated from it."""


EVERY_TOPIC_KEY: Final[Mapping[str, ConfigKey]] = {
    **TOPIC_CONFIGS,
    **{name: idle.key for name, idle in IDLE_TOPIC_KEYS.items()},
}
"""The keys that count, and those that do nothing."""


def parse_topic_config(key: str, text: str) -> ConfigValue:
    """The typed value of one key of a topic, or InvalidConfigError."""
    if (idle := IDLE_TOPIC_KEYS.get(key)) is not None:
        return idle.parse(text)
    return topic_config_definition(key).parse(text)


def validate_topic_config(overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """A topic's overrides, typed. InvalidConfigError for the first key that is unknown or has an unacceptable value,
    and for lags that contradict each other."""
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
    definition = EVERY_TOPIC_KEY[key]
    if key in overrides:
        return definition.parse(overrides[key])
    return broker_defaults.get(key, broker_defaults.get(definition.broker_key, definition.default))


def topic_config_definition(key: str) -> ConfigKey:
    """The definition of a key; InvalidConfigError, with the nearest key, if it is no key of a topic."""
    definition = EVERY_TOPIC_KEY.get(key)
    if definition is not None:
        return definition
    if (instead := GONE_TOPIC_KEYS.get(key)) is not None:
        raise InvalidConfigError(f"{key} is not a key of a topic any more: {instead}; leave it out")
    if key in _TABLE:
        raise InvalidConfigError(f"{key} is a broker's key; for a topic it is {_TABLE[key].name}")
    near = nearest(key[:_LONGEST_KEY], TOPIC_CONFIGS)
    hint = f"did you mean {near}?" if near else f"known are {', '.join(TOPIC_CONFIGS)}"
    raise InvalidConfigError(f"unknown topic config {key[:_LONGEST_KEY]!r}; {hint}")
