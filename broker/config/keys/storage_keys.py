"""The keys of a node that say how records are kept: defaults of topics, logs on disk, retention and compaction.

Rows of config_table.py. A key that gives the default of a topic's key has the type, range and default of that one
(metadata/topic_config.py), except where it says otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from metadata.topic_config import TOPIC_CONFIGS
from penstock.config_keys import (
    DAY_MS,
    MIB,
    ConfigKey,
    boolean,
    byte_count,
    byte_rate,
    duration_ms,
    for_all,
    for_one,
    integer,
)


def _of_topic(name: str, doc: str = "", *, low: float | None = None, high: float | None = None) -> ConfigKey:
    """The node's key that gives the default of a topic's key; its own meaning and bounds, where they are given."""
    key = TOPIC_CONFIGS[name]
    low, high = key.low if low is None else low, key.high if high is None else high
    return replace(key, name=key.broker_key, doc=doc or key.doc, low=low, high=high, broker_key="")


TOPICS = (
    integer("num.partitions", 1, "Partitions of a topic that is created without a number.", 1, 10_000),
    integer("default.replication.factor", 1, "Replicas of a topic that is created without a number.", 1, 32_767),
    *for_all(
        _of_topic("min.insync.replicas", "Replicas that must be in sync for a write with acks=all.", high=32_767),
    ),
    *for_one(
        _of_topic("max.message.bytes", "Largest record batch."),
        _of_topic("compression.type"),
        _of_topic("compression.gzip.level", "With compression.type=gzip; -1: its own."),
        _of_topic("compression.lz4.level", "With compression.type=lz4. As in Kafka, 9 is the fast compressor."),
        _of_topic(
            "compression.zstd.level",
            "With compression.type=zstd; above 9 is slow. Batches above 1 MiB have 12 at most.",
        ),
        _of_topic("message.timestamp.type"),
        _of_topic("message.timestamp.before.max.ms", "How old a producer's time may be."),
        _of_topic("message.timestamp.after.max.ms", "How far ahead a producer's time may be."),
        _of_topic("record.validation", "What a leader looks at: each record, or headers alone. Not of Kafka's."),
    ),
    *for_all(
        _of_topic("unclean.leader.election.enable", "Let a replica out of sync lead if no other lives: loses data."),
    ),
    boolean(
        "auto.create.topics.enable",
        False,
        "A client of Kafka's protocol that asks for an unknown topic has it made, with num.partitions and "
        "default.replication.factor (Kafka: true). Penstock's own clients never make one so.",
    ),
)

LOG = (
    *for_one(
        _of_topic("segment.bytes", low=64),
        _of_topic("segment.ms"),
        _of_topic("segment.jitter.ms", "A segment rolls earlier by a share of this, different for each segment."),
        _of_topic("index.interval.bytes", "Bytes of log between two index entries; 200 batches or 1 MiB at most."),
        _of_topic("segment.index.bytes"),
        _of_topic("flush.messages", "Records after which a log flushes."),
        _of_topic("flush.ms", "Age of unflushed records at which a log is flushed.", low=1),
    ),
    duration_ms("log.flush.scheduler.interval.ms", 1_000, "How often the two keys above are checked (Kafka: never)."),
    duration_ms(
        "log.flush.offset.checkpoint.interval.ms", 5_000, "Pause between writes of recovery points (Kafka: 60000)."
    ),
    duration_ms("log.flush.start.offset.checkpoint.interval.ms", 60_000, "Pause between writes of log start offsets."),
    integer("num.recovery.threads.per.data.dir", 2, "Logs of one log dir that are opened at the same time.", 1, 256),
    _of_topic(
        "flush.policy",
        "fsync: on stable storage before the ack. os: the page cache is enough, LOSSY on a power cut. Not of Kafka's.",
    ),
)

RETENTION = (
    *for_one(
        _of_topic("cleanup.policy"),
        _of_topic("retention.ms"),
        _of_topic("retention.bytes"),
    ),
    duration_ms("log.retention.check.interval.ms", 300_000, "How often retention looks for segments to delete."),
    *for_one(
        _of_topic("file.delete.delay.ms", "How long a deleted file stays on disk, renamed."),
    ),
    duration_ms(
        "producer.id.expiration.ms", DAY_MS, "How long a partition remembers an idempotent producer that is silent."
    ),
    integer(
        "producer.id.max.per.partition",
        5_000,
        "Idempotent producers that a partition remembers; 1,000 bytes of memory each. Above it, those that are "
        "silent for 10 minutes make room for new ones. Not a key of Kafka's.",
        1,
    ),
    integer(
        "producer.id.max.per.node",
        100_000,
        "The same of all partitions of a node together. Not a key of Kafka's.",
        1,
    ),
    boolean("log.cleaner.enable", True, "Whether compacted topics are compacted at all."),
    integer("log.cleaner.threads", 1, "Logs that are compacted at the same time.", 1, 64),
    byte_count("log.cleaner.dedupe.buffer.size", 128 * MIB, "Memory for the offset maps of all cleaner threads.", MIB),
    *for_one(
        byte_rate("log.cleaner.io.max.bytes.per.second", "Disk traffic of all cleaner threads."),
        duration_ms("log.cleaner.backoff.ms", 15_000, "Pause of a cleaner thread that found nothing to compact."),
        _of_topic(
            "min.cleanable.dirty.ratio",
            "Share of a log that must be uncompacted before it is compacted.",
            low=0,
            high=1,
        ),
        _of_topic("delete.retention.ms", "How long a compacted log keeps delete markers."),
        _of_topic("min.compaction.lag.ms", "How long a record stays uncompacted at least."),
        _of_topic("max.compaction.lag.ms", "How long a record stays uncompacted at most."),
    ),
)
