"""Every configuration key of a node: name, type, default, range, unit and meaning. The one copy.

The loader (config.py), its messages and the generated reference are all made from this table, so a key that is not
here does not exist. Names are Kafka's; a key that Kafka does not have says so in `doc`, and so does a default that is
not Kafka's. Rules between two keys are in config_check.py. The keys of `_for_one` and `_for_all` change while nodes run
(KIP-226); dynamic_config.py says how a part of the node hears of it.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.config_keys import (
    DAY_MS,
    GIB,
    HOUR_MS,
    INT32_MAX,
    INT64_MAX,
    KIB,
    MIB,
    REQUIRED,
    ConfigKey,
    Update,
    boolean,
    double,
    integer,
    string,
    strings,
)


def _bytes(name: str, default: int, doc: str, low: int = 1, high: int = INT32_MAX) -> ConfigKey:
    return integer(name, default, doc, low, high, "bytes")


def _rate(name: str, doc: str) -> ConfigKey:
    return _bytes(name, INT64_MAX, doc, 1, INT64_MAX)


def _ms(name: str, default: int, doc: str, low: int = 1, high: int = INT32_MAX) -> ConfigKey:
    return integer(name, default, doc, low, high, "ms")


def _for_all(*keys: ConfigKey) -> tuple[ConfigKey, ...]:
    """Keys that change while nodes run, for all brokers at once."""
    return tuple(replace(key, update=Update.CLUSTER) for key in keys)


def _for_one(*keys: ConfigKey) -> tuple[ConfigKey, ...]:
    """Keys that change while nodes run, for all brokers or for one."""
    return tuple(replace(key, update=Update.NODE) for key in keys)


IDENTITY = (
    integer("node.id", REQUIRED, "This node's id, unique in the cluster and kept for ever."),
    strings("process.roles", REQUIRED, "What this node is: broker, controller, or both.", ("broker", "controller")),
    strings(
        "listeners",
        REQUIRED,
        "Where this node listens: BROKER://host:port for clients; INTERNAL and CONTROLLER for the nodes alone; any "
        "other name is one more listener for clients.",
    ),
    strings(
        "advertised.listeners",
        (),
        "The addresses that other nodes and clients connect to, by listener; default: the listeners. A client is told "
        "those of the listener that it uses.",
    ),
    string(
        "inter.broker.listener.name",
        "INTERNAL",
        "The listener at which brokers fetch from each other; neither BROKER nor CONTROLLER.",
    ),
    string("broker.rack", "", "The node's rack; the replicas of a partition are spread over racks."),
    string("metrics.listener", "", "host:port of the Prometheus endpoint; empty for none. Not a key of Kafka's."),
)

QUORUM = (
    strings("controller.quorum.voters", REQUIRED, "The controllers: id@host:port, the same list on every node."),
    _ms(
        "controller.quorum.election.timeout.ms",
        500,
        "A voter that has no leader for this long asks for votes (Kafka: 1000).",
        50,
    ),
    _ms("controller.quorum.fetch.timeout.ms", 2000, "A voter that cannot fetch for this long starts an election.", 50),
    _bytes(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * MIB,
        "A snapshot of the metadata is written after so much of the metadata log.",
        1,
        INT64_MAX,
    ),
    _ms(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        "A snapshot of the metadata is written after this time, if anything has changed; 0: by size alone.",
        0,
    ),
    _bytes(
        "metadata.max.retention.bytes",
        100 * MIB,
        "Above it, older snapshots of the metadata go, and what the metadata log has before the next one.",
        1,
        INT64_MAX,
    ),
    _ms(
        "metadata.max.retention.ms",
        604_800_000,
        "A snapshot of the metadata goes when the next one is older, with what the metadata log has between them.",
        1,
    ),
    _ms("broker.heartbeat.interval.ms", 500, "Pause between heartbeats (Kafka: 2000; shorter for a quicker failover)."),
    _ms("broker.session.timeout.ms", 3000, "Without a heartbeat for this long a broker is fenced (Kafka: 9000)."),
    boolean("controlled.shutdown.enable", True, "A broker that stops moves its leaderships away first."),
    *_for_all(
        boolean(
            "auto.leader.rebalance.enable",
            True,
            "Leaderships go back by schedule to the first replica of each partition, the preferred leader, when it is "
            "in sync. Read by the active controller, as the next two.",
        ),
        integer(
            "leader.imbalance.per.broker.percentage",
            10,
            "A broker that lacks more than this share of the leaderships that it should have gets them back; 100: none "
            "ever does.",
            0,
            100,
            "%",
        ),
        integer(
            "leader.imbalance.check.interval.seconds",
            300,
            "How often that share is looked at. A new active controller waits so long, too.",
            1,
            unit="s",
        ),
        boolean(
            "auto.replica.balance.enable",
            False,
            "Replicas move by schedule until brokers differ by one at most, a few partitions at a time, and only while "
            "every broker is in service. Read by the active controller, as the next one. Not a key of Kafka's.",
        ),
        integer(
            "auto.replica.balance.check.interval.seconds",
            300,
            "How often that is looked at; so long every broker must have been in service. Not a key of Kafka's.",
            1,
            unit="s",
        ),
    ),
)

DIRECTORIES = (
    strings("log.dirs", REQUIRED, "Directories of partitions, each formatted once with `penstock node format`."),
    string("metadata.log.dir", "", "Which of log.dirs holds the metadata log; the first of them otherwise."),
    _ms(
        "log.dir.hang.ms.max", 30_000, "A log dir fails when one call to its disk takes so long. Not of Kafka's.", 1_000
    ),
)

LOGGER = (
    *_for_one(
        strings(
            "logger.level",
            ("info",),
            "Levels of the node's log: debug, info, warning, error; of a part with its name: "
            "info,broker.replication=debug. Not a key of Kafka's, which has log4j.",
        ),
        string(
            "logger.format",
            "text",
            "How a line of the node's log is written. Not of Kafka's.",
            ("text", "json"),
        ),
    ),
)

REQUESTS = (
    integer(
        "num.io.threads",
        8,
        "Threads for work that may wait for a disk: reads that are not in the page cache, look-ups by time. Divided"
        " among the log dirs, at least one each. The rest of a request is handled on the event loop.",
        1,
        1024,
    ),
    integer("queued.max.requests", 500, "Requests that may wait for a handler before connections are paused.", 1),
    _bytes("socket.request.max.bytes", 100 * MIB, "Largest request that is read at all.", 16 * KIB),
    _bytes(
        "queued.max.request.bytes",
        128 * MIB,
        "Produce and fetch requests in memory; above it streams are not read. Half for one address (Kafka: no limit).",
        MIB,
        INT64_MAX,
    ),
    _bytes(
        "queued.max.response.bytes",
        256 * MIB,
        "Fetch answers in memory; above it none is built. Half for one address, 1/16 for one stream. Not Kafka's.",
        MIB,
        INT64_MAX,
    ),
    _bytes(
        "fetch.sessions.max.bytes",
        256 * MIB,
        "Memory for the sessions of fetch streams, 800 bytes a partition; half for one address. Not Kafka's.",
        MIB,
        INT64_MAX,
    ),
    integer(
        "max.connections",
        INT32_MAX,
        "Connections of all listeners for clients together, and their produce and fetch streams; never above a quarter "
        "of the open files. INTERNAL and CONTROLLER may have as many each, up to a sixteenth of the open files.",
        1,
    ),
    integer("max.connections.per.ip", INT32_MAX, "The same for one address: its connections to one listener.", 1),
    integer(
        "max.connection.creation.rate",
        INT32_MAX,
        "New connections of clients in a second, over 10 s; those above it are cut once they are seen.",
        1,
    ),
    _ms("connections.max.idle.ms", 600_000, "A connection without a stream or call for this long is closed."),
    _ms(
        "connections.max.write.stall.ms",
        30_000,
        "A connection whose client has not read an answer for this long is cut. Not Kafka's.",
        1_000,
    ),
    _bytes("fetch.max.bytes", 55 * MIB, "Largest answer to one fetch; the first batch is sent whole in any case.", KIB),
)

TOPICS = (
    integer("num.partitions", 1, "Partitions of a topic that is created without a number.", 1, 10_000),
    integer("default.replication.factor", 1, "Replicas of a topic that is created without a number.", 1, 32_767),
    *_for_all(
        integer("min.insync.replicas", 1, "Replicas that must be in sync for a write with acks=all.", 1, 32_767),
    ),
    *_for_one(
        _bytes("message.max.bytes", 1_048_588, "Largest record batch.", 0),
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
        _ms("log.message.timestamp.before.max.ms", INT64_MAX, "How old a producer's time may be.", 0, INT64_MAX),
        _ms("log.message.timestamp.after.max.ms", HOUR_MS, "How far ahead a producer's time may be.", 0, INT64_MAX),
    ),
    *_for_all(
        boolean(
            "unclean.leader.election.enable", False, "Let a replica out of sync lead if no other lives: loses data."
        ),
    ),
    boolean("auto.create.topics.enable", False, "Only false: topics are created explicitly."),
)

REPLICATION = (
    integer("num.replica.fetchers", 1, "Fetch streams to each source broker.", 1, 64),
    _ms("replica.lag.time.max.ms", 10_000, "A follower behind for this long leaves the ISR (Kafka: 30000)."),
    _ms("replica.fetch.wait.max.ms", 500, "How long a leader holds a follower's fetch for new records.", 0),
    _bytes(
        "replica.fetch.min.bytes",
        1,
        "A leader holds a follower's fetch for so many new bytes, at most replica.fetch.wait.max.ms. More than 1 saves "
        "work on both, and acks=all waits for it.",
    ),
    _ms(
        "replica.fetch.backoff.ms",
        200,
        "A follower waits so long before it fetches a partition again whose fetch its leader refused, or whose records "
        "it could not store (Kafka: 1000).",
    ),
    _bytes("replica.fetch.max.bytes", MIB, "Wanted bytes of one partition in one fetch."),
    _bytes("replica.fetch.response.max.bytes", 10 * MIB, "Wanted bytes of one fetch answer."),
    *_for_one(
        _rate(
            "leader.replication.throttled.rate",
            "Bytes a second that this broker sends to replicas that move; one in sync is never held up.",
        ),
        _rate(
            "follower.replication.throttled.rate",
            "Bytes a second that this broker fetches for its replicas that move to it; likewise.",
        ),
        _rate("replica.alter.log.dirs.io.max.bytes.per.second", "Bytes a second of moves between log dirs."),
    ),
    _ms("replica.high.watermark.checkpoint.interval.ms", 5000, "Pause between writes of the high watermarks."),
)

LOG = (
    *_for_one(
        _bytes("log.segment.bytes", GIB, "A segment is rolled at this size.", 64),
        _ms("log.roll.ms", 7 * DAY_MS, "A segment is rolled at this age.", 1, INT64_MAX),
        _ms(
            "log.roll.jitter.ms",
            0,
            "A segment rolls earlier by a share of this, different for each segment.",
            0,
            INT64_MAX,
        ),
        _bytes("log.index.interval.bytes", 4096, "Bytes of log between two index entries.", 0),
        _bytes("log.index.size.max.bytes", 10 * MIB, "An index of this size rolls its segment.", 24),
        integer(
            "log.flush.interval.messages", INT64_MAX, "Records after which a log flushes.", 1, INT64_MAX, "messages"
        ),
        _ms("log.flush.interval.ms", INT64_MAX, "Age of unflushed records at which a log is flushed.", 1, INT64_MAX),
    ),
    _ms("log.flush.scheduler.interval.ms", 1_000, "How often the two keys above are checked (Kafka: never)."),
    _ms("log.flush.offset.checkpoint.interval.ms", 5_000, "Pause between writes of recovery points (Kafka: 60000)."),
    _ms("log.flush.start.offset.checkpoint.interval.ms", 60_000, "Pause between writes of log start offsets."),
    integer("num.recovery.threads.per.data.dir", 2, "Logs of one log dir that are opened at the same time.", 1, 256),
    string(
        "flush.policy",
        "fsync",
        "fsync: on stable storage before the ack. os: the page cache is enough, LOSSY on a power cut. Not of Kafka's.",
        ("fsync", "os"),
    ),
)

RETENTION = (
    *_for_one(
        strings(
            "log.cleanup.policy",
            ("delete",),
            "Old segments are deleted by age and size, compacted to the last value of each key, or both.",
            ("delete", "compact"),
        ),
        _ms("log.retention.ms", 7 * DAY_MS, "How long a record is kept at least; -1: for ever.", -1, INT64_MAX),
        _bytes(
            "log.retention.bytes",
            -1,
            "The oldest segments are deleted as long as at least this much remains; -1: no limit.",
            -1,
            INT64_MAX,
        ),
    ),
    _ms("log.retention.check.interval.ms", 300_000, "How often retention looks for segments to delete."),
    *_for_one(
        _ms("log.segment.delete.delay.ms", 60_000, "How long a deleted file stays on disk, renamed.", 0, INT64_MAX),
    ),
    _ms("producer.id.expiration.ms", DAY_MS, "How long a partition remembers an idempotent producer that is silent."),
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
    _bytes("log.cleaner.dedupe.buffer.size", 128 * MIB, "Memory for the offset maps of all cleaner threads.", MIB),
    *_for_one(
        _rate("log.cleaner.io.max.bytes.per.second", "Disk traffic of all cleaner threads."),
        _ms("log.cleaner.backoff.ms", 15_000, "Pause of a cleaner thread that found nothing to compact."),
        double(
            "log.cleaner.min.cleanable.ratio",
            0.5,
            "Share of a log that must be uncompacted before it is compacted.",
            0,
            1,
        ),
        _ms("log.cleaner.delete.retention.ms", DAY_MS, "How long a compacted log keeps delete markers.", 0, INT64_MAX),
        _ms("log.cleaner.min.compaction.lag.ms", 0, "How long a record stays uncompacted at least.", 0, INT64_MAX),
        _ms(
            "log.cleaner.max.compaction.lag.ms", INT64_MAX, "How long a record stays uncompacted at most.", 1, INT64_MAX
        ),
    ),
)

KEYS: dict[str, ConfigKey] = {
    key.name: key
    for key in (*IDENTITY, *QUORUM, *DIRECTORIES, *LOGGER, *REQUESTS, *TOPICS, *REPLICATION, *LOG, *RETENTION)
}
