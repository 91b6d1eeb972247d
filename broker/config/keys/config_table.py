"""Every configuration key of a node: name, type, default, range, unit and meaning. The one copy.

The loader (config.py), its messages and the generated reference are all made from this table, so a key that is not
here does not exist. Names are Kafka's; a key that Kafka does not have says so in `doc`, and so does a default that is
not Kafka's. Rules between two keys are in config_check.py. The keys of `for_one` and `for_all` change while nodes run
(KIP-226); dynamic_config.py says how a part of the node hears of it.
"""

from __future__ import annotations

from dataclasses import replace

from broker.config.keys.group_keys import GROUPS
from broker.config.keys.security_keys import AUDIT, AUTHORIZATION, SECURITY
from broker.config.keys.storage_keys import LOG, RETENTION, TOPICS
from broker.config.keys.transaction_keys import TRANSACTIONS
from penstock.config_keys import (
    INT32_MAX,
    INT64_MAX,
    KIB,
    MIB,
    REQUIRED,
    ConfigKey,
    boolean,
    byte_count,
    byte_rate,
    duration_ms,
    for_all,
    for_one,
    integer,
    string,
    strings,
)

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
        "listener.type.map",
        (),
        "The protocol of each listener, NAME:GRPC or NAME:KAFKA (that of Kafka's clients); default: a listener named "
        "KAFKA has KAFKA, every other one GRPC. BROKER and those of the nodes have GRPC. Not a key of Kafka's.",
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
    string(
        "metrics.listener",
        "",
        "host:port of the Prometheus endpoint; empty for none. METRICS is its name in the keys of security. Not a "
        "key of Kafka's.",
    ),
)

QUORUM = (
    strings(
        "controller.quorum.voters",
        (),
        "The controllers of a quorum that never changes: id@host:port, the same list on every node. Empty: the "
        "metadata log names the voters, and controller.quorum.bootstrap.servers leads to them.",
    ),
    strings(
        "controller.quorum.bootstrap.servers",
        (),
        "host:port of controllers, by which a node finds the quorum. This or controller.quorum.voters must be set.",
    ),
    boolean(
        "controller.quorum.auto.join.enable",
        False,
        "A controller that is no voter asks the quorum to make it one (KIP-853, KIP-1186). Not with "
        "controller.quorum.voters.",
    ),
    duration_ms(
        "controller.quorum.election.timeout.ms",
        500,
        "A voter that has no leader for this long asks for votes (Kafka: 1000).",
        50,
    ),
    duration_ms(
        "controller.quorum.fetch.timeout.ms", 2000, "A voter that cannot fetch for this long starts an election.", 50
    ),
    byte_count(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * MIB,
        "A snapshot of the metadata is written after so much of the metadata log.",
        1,
        INT64_MAX,
    ),
    duration_ms(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        "A snapshot of the metadata is written after this time, if anything has changed; 0: by size alone.",
        0,
    ),
    byte_count(
        "metadata.max.retention.bytes",
        100 * MIB,
        "Above it, older snapshots of the metadata go, and what the metadata log has before the next one.",
        1,
        INT64_MAX,
    ),
    duration_ms(
        "metadata.max.retention.ms",
        604_800_000,
        "A snapshot of the metadata goes when the next one is older, with what the metadata log has between them.",
        1,
    ),
    duration_ms(
        "broker.heartbeat.interval.ms", 500, "Pause between heartbeats (Kafka: 2000; shorter for a quicker failover)."
    ),
    duration_ms(
        "broker.session.timeout.ms", 3000, "Without a heartbeat for this long a broker is fenced (Kafka: 9000)."
    ),
    boolean("controlled.shutdown.enable", True, "A broker that stops moves its leaderships away first."),
    *for_all(
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
        boolean(
            "replica.placement.one.per.rack",
            False,
            "A partition never gets two replicas in one rack (broker.rack): what asks for more replicas than there are "
            "racks is refused. `penstock host` sets it, where a rack is a machine. Read by the active controller. Not "
            "a key of Kafka's.",
        ),
        integer(
            "max.partitions.per.principal.percent",
            50,
            "The most partitions that the topics of one principal may have: so many of the cluster's 100,000 as those "
            "of others leave; 100: all of them. Only with an authorizer, and not for super users. Read by the active "
            "controller. Not a key of Kafka's.",
            1,
            100,
            "%",
        ),
    ),
)

DIRECTORIES = (
    strings("log.dirs", REQUIRED, "Directories of partitions, each formatted once with `penstock node format`."),
    string("metadata.log.dir", "", "Which of log.dirs holds the metadata log; the first of them otherwise."),
    duration_ms(
        "log.dir.hang.ms.max", 30_000, "A log dir fails when one call to its disk takes so long. Not of Kafka's.", 1_000
    ),
    *for_one(
        replace(
            strings(
                "cordoned.log.dirs",
                (),
                "Which of log.dirs get no new replicas (KIP-1066); * for all of them. Those that are there stay, and "
                "are served.",
            ),
            may_be_empty=True,
        ),
    ),
)

LOGGER = (
    *for_one(
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
    byte_count(
        "socket.request.max.bytes",
        100 * MIB,
        "Largest request that is read at all. 1 MiB less than Kafka's largest number: gRPC has the sizes of messages in"
        " 32 bits, and answers may be so much larger.",
        16 * KIB,
        INT32_MAX - MIB,
    ),
    byte_count(
        "queued.max.request.bytes",
        128 * MIB,
        "Requests in memory; above it streams are not read. Half for one principal, or one network of anonymous"
        " clients, and less beside others (Kafka: no limit).",
        MIB,
        INT64_MAX,
    ),
    byte_count(
        "queued.max.response.bytes",
        256 * MIB,
        "Fetch answers in memory; above it none is built. Half for one principal or network, 1/16 for one stream. Large"
        " answers to other requests have a quarter as much besides. Not Kafka's.",
        MIB,
        INT64_MAX,
    ),
    byte_count(
        "fetch.sessions.max.bytes",
        256 * MIB,
        "Memory for the sessions of fetch streams, 800 bytes a partition; half for one principal or network."
        " Not Kafka's.",
        MIB,
        INT64_MAX,
    ),
    integer(
        "max.incremental.fetch.session.cache.slots",
        1_000,
        "Fetch sessions of Kafka's clients, which outlive a connection (KIP-227); 0: none. A client without one names "
        "all of its partitions in every fetch.",
        0,
    ),
    duration_ms(
        "min.incremental.fetch.session.eviction.ms",
        120_000,
        "A fetch session that no request used for this long gives its place to a new one, and one that is as old to a "
        "larger one.",
    ),
    integer(
        "max.connections",
        INT32_MAX,
        "Connections of all listeners for clients together, and their produce and fetch streams; never above a quarter "
        "of the open files. Those by which somebody has proved an identity come first, and a quarter is kept for the "
        "others. INTERNAL and CONTROLLER may have as many each, up to a sixteenth of the open files.",
        1,
    ),
    integer(
        "max.connections.per.ip",
        INT32_MAX,
        "The same for one address: its connections to one listener. Of IPv6 a network of 64 bits is one address, "
        "because one machine has as many of its addresses as it likes.",
        1,
    ),
    integer(
        "max.connection.creation.rate",
        INT32_MAX,
        "New connections of clients in a second, over 10 s; those above it are cut once they are seen.",
        1,
    ),
    duration_ms(
        "connections.max.idle.ms", 600_000, "A connection without a stream, call or request for this long is closed."
    ),
    duration_ms(
        "connections.max.write.stall.ms",
        30_000,
        "A connection whose client has read its answers too slowly for this long is cut. Not Kafka's.",
        1_000,
    ),
    byte_count(
        "fetch.max.bytes", 55 * MIB, "Largest answer to one fetch; the first batch is sent whole in any case.", KIB
    ),
    integer(
        "quota.window.num",
        11,
        "What a client has taken of its quota is remembered in so many windows. Who was quiet has the quota of one of "
        "them at once.",
        1,
        1_000,
    ),
    integer("quota.window.size.seconds", 1, "The length of each of these windows.", 1, 3_600),
    integer(
        "controller.quota.window.num",
        11,
        "Who made no changes of topics for so many windows may make those of all of them at once.",
        1,
        1_000,
    ),
    integer("controller.quota.window.size.seconds", 1, "The length of each of these windows.", 1, 3_600),
)

REPLICA_SELECTORS = ("rack-aware", "org.apache.kafka.common.replica.RackAwareReplicaSelector")

REPLICATION = (
    integer("num.replica.fetchers", 1, "Fetch streams to each source broker.", 1, 64),
    duration_ms("replica.lag.time.max.ms", 10_000, "A follower behind for this long leaves the ISR (Kafka: 30000)."),
    duration_ms("replica.fetch.wait.max.ms", 500, "How long a leader holds a follower's fetch for new records.", 0),
    byte_count(
        "replica.fetch.min.bytes",
        1,
        "A leader holds a follower's fetch for so many new bytes, at most replica.fetch.wait.max.ms. More than 1 saves "
        "work on both, and acks=all waits for it.",
    ),
    duration_ms(
        "replica.fetch.backoff.ms",
        200,
        "A follower waits so long before it fetches a partition again whose fetch its leader refused, or whose records "
        "it could not store (Kafka: 1000).",
    ),
    string(
        "replica.selector.class",
        "",
        "rack-aware: a consumer that names its rack (client.rack) reads from an in-sync replica there, if there is one "
        "(KIP-392, docs/follower-reads.md). Empty: consumers read from leaders alone.",
        ("", *REPLICA_SELECTORS),
    ),
    byte_count("replica.fetch.max.bytes", MIB, "Wanted bytes of one partition in one fetch."),
    byte_count("replica.fetch.response.max.bytes", 10 * MIB, "Wanted bytes of one fetch answer."),
    *for_one(
        byte_rate(
            "leader.replication.throttled.rate",
            "Bytes a second that this broker sends to replicas that move; one in sync is never held up.",
        ),
        byte_rate(
            "follower.replication.throttled.rate",
            "Bytes a second that this broker fetches for its replicas that move to it; likewise.",
        ),
        byte_rate("replica.alter.log.dirs.io.max.bytes.per.second", "Bytes a second of moves between log dirs."),
    ),
    duration_ms("replica.high.watermark.checkpoint.interval.ms", 5000, "Pause between writes of the high watermarks."),
)

_OF_ALL_ROOMS = (*IDENTITY, *QUORUM, *DIRECTORIES, *LOGGER, *REQUESTS, *TOPICS, *REPLICATION, *LOG, *RETENTION)
_OF_CLIENTS = (*GROUPS, *TRANSACTIONS, *SECURITY, *AUTHORIZATION, *AUDIT)
KEYS: dict[str, ConfigKey] = {key.name: key for key in (*_OF_ALL_ROOMS, *_OF_CLIENTS)}
