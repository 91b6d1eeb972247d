"""The APIs whose answers are small, and that clients must get through whatever others of their party leave unread.

While the unread answers of a party fill its share, its connections are read no further (request_memory.py). That holds
up all clients of a principal, or behind one address, until the one that does not read is cut. A member that cannot say
that it lives loses its partitions meanwhile, and a producer its time. So requests of these APIs are read at any time,
but for those of a connection that leaves such answers unread itself. A request of many elements, whose answer may be
large after all, waits like others (answer_turns.py). APIs are listed by their names in Kafka, which gRPC's APIs have,
too.
"""

from __future__ import annotations

from typing import Final

SMALL_ANSWERS: Final = frozenset(
    {
        "AddOffsetsToTxn",
        "AddPartitionsToTxn",
        "ApiVersions",
        "ConsumerGroupHeartbeat",
        "EndTxn",
        "FindCoordinator",
        "Heartbeat",
        "InitProducerId",
        "JoinGroup",
        "LeaveGroup",
        "OffsetCommit",
        "Produce",
        "SaslAuthenticate",
        "SaslHandshake",
        "SyncGroup",
        "TxnOffsetCommit",
    }
)
