"""The keys of a node that say how records are kept: defaults of topics, logs on disk, retention and compaction.

Rows of config_table.py. A topic's own value wins over most of them; metadata/topic_config.py says which key of a topic
that is.
"""

from __future__ import annotations

from penstock.config_keys import (
    DAY_MS,
    GIB,
    HOUR_MS,
    INT64_MAX,
    MIB,
    boolean,
    byte_count,
    byte_rate,
    double,
    duration_ms,
    for_all,
    for_one,
    integer,
    string,
    strings,
)

TOPICS = (
    integer("num.partitions", 1, "Partitions of a topic that is created without a number.", 1, 10_000),
    integer("default.replication.factor", 1, "Replicas of a topic that is created without a number.", 1, 32_767),
    *for_all(
        integer("min.insync.replicas", 1, "Replicas that must be in sync for a write with acks=all.", 1, 32_767),
    ),
    *for_one(
        byte_count("message.max.bytes", 1_048_588, "Largest record batch.", 0),
        string(
            "compression.type",
            "producer",
            "Codec of stored batches: the producer's, or one to which the leader converts them.",
            ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        ),
        integer("compression.gzip.level", -1, "With compression.type=gzip; -1: its own.", 1, 9, besides=-1),
        integer("compression.lz4.level", 9, "With compression.type=lz4. As in Kafka, 9 is the fast compressor.", 1, 17),
        integer("compression.zstd.level", 3, "With compression.type=zstd; above 9 is slow.", -131_072, 22),
        string(
            "log.message.timestamp.type",
            "CreateTime",
            "The time of a record: the producer's, or that of the append.",
            ("CreateTime", "LogAppendTime"),
        ),
        duration_ms(
            "log.message.timestamp.before.max.ms", INT64_MAX, "How old a producer's time may be.", 0, INT64_MAX
        ),
        duration_ms(
            "log.message.timestamp.after.max.ms", HOUR_MS, "How far ahead a producer's time may be.", 0, INT64_MAX
        ),
    ),
    *for_all(
        boolean(
            "unclean.leader.election.enable", False, "Let a replica out of sync lead if no other lives: loses data."
        ),
    ),
    boolean("auto.create.topics.enable", False, "Only false: topics are created explicitly."),
)

LOG = (
    *for_one(
        byte_count("log.segment.bytes", GIB, "A segment is rolled at this size.", 64),
        duration_ms("log.roll.ms", 7 * DAY_MS, "A segment is rolled at this age.", 1, INT64_MAX),
        duration_ms(
            "log.roll.jitter.ms",
            0,
            "A segment rolls earlier by a share of this, different for each segment.",
            0,
            INT64_MAX,
        ),
        byte_count("log.index.interval.bytes", 4096, "Bytes of log between two index entries.", 0),
        byte_count("log.index.size.max.bytes", 10 * MIB, "An index of this size rolls its segment.", 24),
        integer(
            "log.flush.interval.messages", INT64_MAX, "Records after which a log flushes.", 1, INT64_MAX, "messages"
        ),
        duration_ms(
            "log.flush.interval.ms", INT64_MAX, "Age of unflushed records at which a log is flushed.", 1, INT64_MAX
        ),
    ),
    duration_ms("log.flush.scheduler.interval.ms", 1_000, "How often the two keys above are checked (Kafka: never)."),
    duration_ms(
        "log.flush.offset.checkpoint.interval.ms", 5_000, "Pause between writes of recovery points (Kafka: 60000)."
    ),
    duration_ms("log.flush.start.offset.checkpoint.interval.ms", 60_000, "Pause between writes of log start offsets."),
    integer("num.recovery.threads.per.data.dir", 2, "Logs of one log dir that are opened at the same time.", 1, 256),
    string(
        "flush.policy",
        "fsync",
        "fsync: on stable storage before the ack. os: the page cache is enough, LOSSY on a power cut. Not of Kafka's.",
        ("fsync", "os"),
    ),
)

RETENTION = (
    *for_one(
        strings(
            "log.cleanup.policy",
            ("delete",),
            "Old segments are deleted by age and size, compacted to the last value of each key, or both.",
            ("delete", "compact"),
        ),
        duration_ms("log.retention.ms", 7 * DAY_MS, "How long a record is kept at least; -1: for ever.", -1, INT64_MAX),
        byte_count(
            "log.retention.bytes",
            -1,
            "The oldest segments are deleted as long as at least this much remains; -1: no limit.",
            -1,
            INT64_MAX,
        ),
    ),
    duration_ms("log.retention.check.interval.ms", 300_000, "How often retention looks for segments to delete."),
    *for_one(
        duration_ms(
            "log.segment.delete.delay.ms", 60_000, "How long a deleted file stays on disk, renamed.", 0, INT64_MAX
        ),
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
        double(
            "log.cleaner.min.cleanable.ratio",
            0.5,
            "Share of a log that must be uncompacted before it is compacted.",
            0,
            1,
        ),
        duration_ms(
            "log.cleaner.delete.retention.ms", DAY_MS, "How long a compacted log keeps delete markers.", 0, INT64_MAX
        ),
        duration_ms(
            "log.cleaner.min.compaction.lag.ms", 0, "How long a record stays uncompacted at least.", 0, INT64_MAX
        ),
        duration_ms(
            "log.cleaner.max.compaction.lag.ms", INT64_MAX, "How long a record stays uncompacted at most.", 1, INT64_MAX
        ),
    ),
)
