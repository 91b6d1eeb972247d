"""The keys of a node for transactions: the topic of their state, their times, memory.

Rows of config_table.py. Names, defaults and ranges are Kafka's 4.3; they change by a restart alone.
"""

from __future__ import annotations

from penstock.config_keys import INT64_MAX, KIB, MIB, boolean, byte_count, duration_ms, integer
from penstock.messages.topics import USE_DEFAULT

TRANSACTIONS = (
    integer(
        "transaction.state.log.num.partitions",
        50,
        "Partitions of `__transaction_state`, which is made when a transactional producer needs it first; they stay as"
        " many.",
        1,
        10_000,
    ),
    integer(
        "transaction.state.log.replication.factor",
        USE_DEFAULT,
        "Its replicas; -1 as for offsets.topic.replication.factor (Kafka: 3).",
        1,
        32_767,
        besides=USE_DEFAULT,
    ),
    integer(
        "transaction.state.log.min.isr",
        2,
        "Its min.insync.replicas, or as many as it has replicas if these are fewer.",
        1,
        32_767,
    ),
    byte_count(
        "transaction.state.log.segment.bytes",
        100 * MIB,
        "Its segment.bytes: a coordinator loads its log whole.",
        KIB,
    ),
    duration_ms(
        "transaction.max.timeout.ms",
        900_000,
        "Longest time that a producer may keep a transaction open; an atomic batch may be open four times as long. A"
        " longer one is INVALID_TRANSACTION_TIMEOUT.",
    ),
    duration_ms(
        "transactional.id.expiration.ms",
        604_800_000,
        "A transactional id that is not used for so long, and has no transaction, is forgotten.",
    ),
    duration_ms(
        "transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, "How often such ids are looked for."
    ),
    boolean(
        "transaction.partition.verification.enable",
        True,
        "The leader of a partition asks the coordinator before it begins a transaction there (KIP-890). Without that,"
        " a batch that comes late can leave a transaction open for ever.",
    ),
    byte_count(
        "transaction.coordinator.memory.max.bytes",
        256 * MIB,
        "Memory for transactional ids, as a broker estimates it. A principal, or the network of anonymous clients, may"
        " add to what it holds while that is no more than what is free: half of the limit if it is alone. Open"
        " transactions have as much besides. Not Kafka's.",
        MIB,
        INT64_MAX,
    ),
)
