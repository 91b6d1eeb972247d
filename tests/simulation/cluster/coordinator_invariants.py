"""I75: a coordinator's partition has one writer, the coordinator of the present lead, and that has loaded it before.

What it answers follows from its state, which is what it has loaded and what it has written since. Looked at in the
moment of an append: the coordinator that leads is the one that serves, and the log ends where its last append ended, or
its load. A coordinator of an earlier lead that still acts is found when the one of this lead writes next.
"""

from __future__ import annotations

from typing import Any

from broker.coordination.led_shard import LedShard
from broker.coordination.shard_ports import ShardState
from broker.node.node import Node
from broker.replication.partition import Partition
from metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE


def wrong_append(node: Node, partition: Partition) -> str:
    """Why nobody may append to this log now; "" if the coordinator of the lead may, or it is no coordinator's."""
    topic, number = partition.topic_partition
    leading, broker = partition.leading, node.broker
    if topic not in (CONSUMER_OFFSETS, TRANSACTION_STATE) or leading is None or broker is None:
        return ""
    room = broker.coordinators.groups if topic == CONSUMER_OFFSETS else broker.coordinators.transactions
    shards: list[LedShard[Any]] = [shard for shard in room.coordinator.shards if shard.partition is partition]
    if [shard.lead.leader_epoch for shard in shards] != [leading.leader_epoch]:
        return f"{topic}-{number} has no coordinator in leader epoch {leading.leader_epoch}, and somebody writes to it"
    (shard,) = shards
    if shard.state is not ShardState.ACTIVE:
        return f"{shard} writes, and {shard.state.value}"
    end, known = partition.log.log_end_offset, shard.log.barrier.end
    return "" if end == known else f"{shard} knows its log up to {known}, and it ends at {end}: somebody else writes"
