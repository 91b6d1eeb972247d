"""What the batches of a producer wait for that are not acked yet. Pure; runs on the loop, where batches move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.cluster.waiting import Waiting, broker_name, error_text, grouped, no_leader
from penstock.client.producer.accumulator import PartitionQueue
from penstock.types import TopicPartition


def producer_waits(queues: Iterable[PartitionQueue], cache: MetadataCache, acks: int) -> tuple[Waiting, ...]:
    """Of each partition: its oldest batch. A batch that is still being filled waits for nobody."""
    return grouped(_each(queues, cache, acks))


def _each(
    queues: Iterable[PartitionQueue], cache: MetadataCache, acks: int
) -> Iterator[tuple[TopicPartition, tuple[object, ...], str]]:
    for queue in queues:
        tp, leader = queue.topic_partition, cache.leader(queue.topic_partition)
        if queue.in_flight is not None and queue.asked is not None:
            name = broker_name(queue.asked, cache)
            followers = ", which waits for its in-sync followers" if acks == -1 else ""
            yield tp, ("answer", queue.asked.node_id), f"an answer of {name}{followers}"
            continue
        batch = next((batch for batch in queue.ready if not batch.done), None)
        if batch is None:
            continue
        if leader is None:
            yield tp, ("leader",), no_leader(tp, cache)
        elif batch.last_error is not None:
            text = f"the next attempt at {broker_name(leader, cache)}; the last one: {error_text(batch.last_error)}"
            yield tp, ("retry", leader.node_id, type(batch.last_error)), text
        else:
            yield tp, ("turn", leader.node_id), f"its turn at {broker_name(leader, cache)}"
