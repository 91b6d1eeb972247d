"""The reasons why partitions of a consumer get no answer. Pure; runs on the loop.

A partition whose broker answers, and has no new record, waits for nobody: it is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.cluster.waiting import Waiting, broker_name, error_text, grouped, no_leader
from penstock.client.consumer.fetching.partition_state import PartitionState
from penstock.types import TopicPartition


def consumer_waits(
    states: Iterable[PartitionState], cache: MetadataCache, troubles: Mapping[int, str]
) -> tuple[Waiting, ...]:
    """`troubles`: of the brokers whose fetches fail or are late, what is wrong."""
    return grouped(_each(states, cache, troubles))


def _each(
    states: Iterable[PartitionState], cache: MetadataCache, troubles: Mapping[int, str]
) -> Iterator[tuple[TopicPartition, tuple[object, ...], str]]:
    for state in states:
        if state.is_stopped or state.is_at_end or state.paused:
            continue
        tp, leader = state.topic_partition, cache.leader(state.topic_partition)
        if leader is None:
            yield tp, ("leader",), no_leader(tp, cache)
        elif leader.node_id in troubles:
            yield tp, ("broker", leader.node_id), f"{broker_name(leader, cache)}: {troubles[leader.node_id]}"
        elif state.failures and state.last_error is not None:
            text = f"the next attempt at {broker_name(leader, cache)}; the last one: {error_text(state.last_error)}"
            yield tp, ("retry", leader.node_id, type(state.last_error)), text
        elif state.reset_timestamp is not None:
            yield tp, ("position", leader.node_id), f"where to begin, from {broker_name(leader, cache)}"
