"""I89: a coordinator that would answer leads in the newest metadata, or is in its ISR: nothing is committed without it.

A newer coordinator answers after a commit, so it has answered nothing while the old one is in the ISR. Looked at after
each step of a node, and of all nodes when the newest metadata has changed. A topic that an operator has deleted has no
coordinator; what its last one answers is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker.coordination.led_shard import LedShard
from broker.node.node import Node
from metadata.image import MetadataImage


def may_answer_deposed(node: Node, newest: MetadataImage) -> str:
    """The coordinator on this node that would answer, and must not; "" if there is none."""
    broker = node.broker
    if broker is None:
        return ""
    for shard in (
        *broker.coordinators.groups.coordinator.shards,
        *broker.coordinators.transactions.coordinator.shards,
    ):
        if shard.is_serving and (why := _deposed(shard, newest)):
            return why
    return ""


def first_deposed(nodes: Iterable[Node], newest: MetadataImage) -> str:
    """The first of these nodes that has one."""
    return next(filter(None, (may_answer_deposed(node, newest) for node in nodes)), "")


def _deposed(shard: LedShard[Any], newest: MetadataImage) -> str:
    partition, own_id = shard.partition, shard.partition.broker_id
    topic = newest.topics_by_id.get(partition.topic_id)
    state = topic.partitions.get(partition.topic_partition.partition) if topic is not None else None
    if state is None or state.leader_epoch <= shard.lead.leader_epoch or not state.has_leader or own_id in state.isr:
        return ""
    return f"broker {own_id} answers as {shard}, and the metadata has {state}: a newer coordinator may have answered"
