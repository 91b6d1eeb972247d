"""How large one request of each API may be: bytes of the message, and elements of every repeated field. The one copy.

A repeated element costs the node far more than its bytes on the wire (an empty one is two bytes, and becomes an object,
an error and an answer), so elements are limited apart from bytes. A nested field is counted over the whole request, not
for each parent. The decoder (grpc/limits.py) refuses to start without a row for every API and every repeated field,
and docs/request-limits.md is made from this table: `python -m broker.config.request_limits > docs/request-limits.md`.

Not here: how elements are counted (wire_walk.py), how many bytes may be in flight (network/memory_budget.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """The limits of one API. `elements` maps the path of a repeated field (`topics.config`) to its limit. A
    `message_bytes` of None means `socket.request.max.bytes`."""

    message_bytes: int | None
    elements: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""


PARTITIONS_MAX = 2_000
"""Partitions of one data request. A handler works 10 to 20 µs for each before the next request has its turn. Clients
and followers ask for the others in the next one."""
NAMES_MAX = 1_000
"""Topics or resources of one request; the answer for one may have 10,000 partitions."""
ASKED_MAX = 10_000
"""Partitions about which the controller is asked at once. It decides about 1,000 in 0.1 s, and does nothing else
meanwhile, so our clients ask for no more; those of an older release ask for all at once, and often in an incident."""
ENTRIES_MAX = 10_000
"""Configuration entries of one request, over all of its topics or resources."""

API_LIMITS: dict[str, ApiLimits] = {
    # the broker's
    "Produce": ApiLimits(None, {"partitions": PARTITIONS_MAX}, "the only request with records"),
    "Fetch": ApiLimits(
        4 * MIB,
        {"partitions": PARTITIONS_MAX, "forgotten": PARTITIONS_MAX},
        "a session of more partitions is built by several requests",
    ),
    "ListOffsets": ApiLimits(4 * MIB, {"partitions": PARTITIONS_MAX}),
    "OffsetForLeaderEpoch": ApiLimits(4 * MIB, {"partitions": PARTITIONS_MAX}),
    "DeleteRecords": ApiLimits(4 * MIB, {"partitions": 10_000}),
    "Metadata": ApiLimits(MIB, {"topics": NAMES_MAX}, "ask for all topics to learn of more"),
    "CreateTopics": ApiLimits(
        4 * MIB,
        {
            "topics": NAMES_MAX,
            "topics.config": ENTRIES_MAX,
            "topics.assignment": 100_000,
            "topics.assignment.replicas": 500_000,
        },
        "the largest topic has 10,000 partitions",
    ),
    "CreatePartitions": ApiLimits(
        4 * MIB,
        {"topics": NAMES_MAX, "topics.assignment": 100_000, "topics.assignment.replicas": 500_000},
        "the largest topic has 10,000 partitions",
    ),
    "DeleteTopics": ApiLimits(MIB, {"topic_ids": NAMES_MAX}),
    "InitProducerId": ApiLimits(4 * KIB),
    "AlterConfigs": ApiLimits(4 * MIB, {"resources": NAMES_MAX, "resources.changes": ENTRIES_MAX}),
    "ElectLeaders": ApiLimits(MIB, {"topics": NAMES_MAX, "topics.partitions": ASKED_MAX}, "no topic means all of them"),
    "AlterPartitionReassignments": ApiLimits(
        4 * MIB, {"partitions": ASKED_MAX, "partitions.replicas": ENTRIES_MAX}, "no replicas and `cancel` ends one"
    ),
    "UnregisterBroker": ApiLimits(4 * KIB),
    "DescribeConfigs": ApiLimits(
        MIB,
        {"resources": NAMES_MAX, "resources.keys": ENTRIES_MAX},
        "a topic's description is about 5 KiB, so the largest answer has 5 MiB",
    ),
    "DescribeCluster": ApiLimits(4 * KIB),
    "DescribeQuorum": ApiLimits(4 * KIB),
    "DescribeMetadata": ApiLimits(4 * KIB),
    "DescribeLogDirs": ApiLimits(MIB, {"topics": NAMES_MAX}, "no topic means all of them"),
    "AlterReplicaLogDirs": ApiLimits(
        MIB,
        {"dirs": 128, "dirs.topics": NAMES_MAX, "dirs.topics.partitions": NAMES_MAX},
        "a client sends 100 at a time",
    ),
    # between nodes
    "Vote": ApiLimits(4 * KIB),
    "BeginQuorumEpoch": ApiLimits(4 * KIB),
    "EndQuorumEpoch": ApiLimits(4 * KIB, {"preferred_successors": 100}, "a quorum has at most 9 voters"),
    "FetchMetadata": ApiLimits(4 * KIB),
    "FetchSnapshot": ApiLimits(4 * KIB),
    "RegisterBroker": ApiLimits(
        8 * MIB,
        {
            "log_dirs": 1_000,
            "lost_log_dirs": 1_000,
            "replicas": 200_000,
            "replicas.partitions": 200_000,
            "listeners": 100,
        },
        "a broker names every replica that its log dirs hold",
    ),
    "BrokerHeartbeat": ApiLimits(8 * KIB, {"offline_log_dirs": 128}),
    "AlterPartition": ApiLimits(
        4 * MIB, {"partitions": 10_000, "partitions.new_isr": 200_000}, "a broker sends 1,000 at a time"
    ),
    "AssignReplicasToDirs": ApiLimits(
        4 * MIB, {"replicas": 10_000, "replicas.partitions": 10_000}, "a broker sends 1,000 at a time"
    ),
    "AllocateProducerIds": ApiLimits(4 * KIB),
}

INTRODUCTION = """# Limits of one request

Made from `broker/config/request_limits.py` by `python -m broker.config.request_limits`; do not edit by hand.

A request over a limit is refused with INVALID_REQUEST, which names the field, the limit and the count. Nothing of it is
done, and the elements are counted before any of them costs work. A nested field is counted over the whole request. A
refused request ends its produce or fetch stream. `socket.request.max.bytes` ([configuration](configuration.md)) comes
before all of these: gRPC refuses a larger message with RESOURCE_EXHAUSTED.

| API | bytes of the request | elements | note |
| --- | --- | --- | --- |
"""


def reference() -> str:
    """The page."""
    return INTRODUCTION + "".join(_row(api, limits) for api, limits in API_LIMITS.items())


def _row(api: str, limits: ApiLimits) -> str:
    size = "`socket.request.max.bytes`" if limits.message_bytes is None else f"{limits.message_bytes:,}"
    elements = ", ".join(f"`{path}` {limit:,}" for path, limit in limits.elements.items()) or "none"
    return f"| {api} | {size} | {elements} | {limits.reason} |\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
