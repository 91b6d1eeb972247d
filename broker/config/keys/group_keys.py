"""The keys of a node for consumer groups: the topic of their state, committed offsets, both protocols, memory.

Rows of config_table.py. Names, defaults and ranges are Kafka's 4.1; like Kafka's, they change by a restart alone.
"""

from __future__ import annotations

from penstock.config_keys import INT32_MAX, INT64_MAX, KIB, MIB, byte_count, duration_ms, integer, string, strings
from penstock.messages.topics import USE_DEFAULT

MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
ASSIGNORS = ("uniform", "range")

GROUPS = (
    integer(
        "offsets.topic.num.partitions",
        50,
        "Partitions of `__consumer_offsets`, which is made when a group needs it first; they stay as many.",
        1,
        10_000,
    ),
    integer(
        "offsets.topic.replication.factor",
        USE_DEFAULT,
        "Its replicas. -1: 3, or fewer where the quorum's voters are brokers, and the cluster has fewer brokers and "
        "voters than that: 1 for a node alone. It is not made before so many brokers are in service (Kafka: 3).",
        1,
        32_767,
        besides=USE_DEFAULT,
    ),
    byte_count("offsets.topic.segment.bytes", 100 * MIB, "Its segment.bytes: a coordinator loads its log whole.", KIB),
    integer(
        "offsets.topic.compression.codec",
        0,
        "The codec of its batches: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        0,
        4,
    ),
    duration_ms(
        "offsets.commit.timeout.ms",
        5_000,
        "A coordinator waits so long for the commit of what a request has written; then COORDINATOR_NOT_AVAILABLE.",
    ),
    integer(
        "offsets.retention.minutes",
        10_080,
        "A committed offset goes so long after its group became empty; of a group without members, after the commit.",
        1,
        unit="min",
    ),
    duration_ms("offsets.retention.check.interval.ms", 600_000, "How often such offsets are looked for."),
    byte_count("offset.metadata.max.bytes", 4_096, "Largest text that is committed with an offset.", 0),
    integer("group.max.size", INT32_MAX, "Members of a group of the classic protocol.", 1),
    duration_ms("group.initial.rebalance.delay.ms", 3_000, "An empty classic group waits so long for more members.", 0),
    duration_ms("group.min.session.timeout.ms", 6_000, "Shortest session of a classic member."),
    duration_ms("group.max.session.timeout.ms", 1_800_000, "Longest session of a classic member."),
    duration_ms(
        "group.consumer.session.timeout.ms",
        45_000,
        "A member of a consumer group (KIP-848) that sends no heartbeat for this long is taken out.",
    ),
    duration_ms("group.consumer.heartbeat.interval.ms", 5_000, "How often such a member is told to send one."),
    integer("group.consumer.max.size", INT32_MAX, "Members of a consumer group.", 1),
    strings(
        "group.consumer.assignors",
        ASSIGNORS,
        "The assignors that members of consumer groups may choose, the default one first.",
        ASSIGNORS,
    ),
    string(
        "group.consumer.migration.policy",
        "bidirectional",
        "Which way a group changes its protocol when members of the other one join it, or the last one leaves.",
        MIGRATION_POLICIES,
    ),
    byte_count(
        "group.coordinator.memory.max.bytes",
        256 * MIB,
        "Memory for the state of groups, as a broker estimates it. A principal, or the network of anonymous clients,"
        " may add to what it holds while that is no more than what is free: half of the limit if it is alone. Offsets"
        " of open transactions have as much besides. Not Kafka's.",
        MIB,
        INT64_MAX,
    ),
)
