"""The reasons why batches of a producer are not acked, and the lines in the log that say so.

Runs on the loop, where batches move. Pure but for the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.cluster.waiting import Waiting, broker_name, error_text, grouped, no_leader
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)

STALL_MS, AGAIN_MS = 5_000, 30_000
"""The log says why batches wait after STALL_MS without an ack of any batch, then again every AGAIN_MS."""


@contextmanager
def stalls_not_logged() -> Iterator[None]:
    """Keeps these lines out of the log, for a program that reports by itself why its producers wait."""
    _log.disabled = True
    try:
        yield
    finally:
        _log.disabled = False


class StallNotice:
    """Tells the log that a partition's batches wait and none of them is acked, and when they are again. Without it an
    outage, or one disk that hangs, is silent until `delivery_timeout_ms` fails the records. Failed records are reported
    to the caller, and not to the log."""

    def __init__(
        self, queues: Callable[[], Iterable[PartitionQueue]], waits: Callable[[list[PartitionQueue]], Iterable[Waiting]]
    ) -> None:
        """`waits` says what these partitions wait for."""
        self._queues, self._waits = queues, waits
        self._acked = 0
        self._due_ms: int | None = None
        self._logged_since_ms: int | None = None

    def look(self, now_ms: int, acked: int, *, is_waiting: bool) -> int | None:
        """When to look again; `acked` counts the batches that were acked."""
        if not is_waiting:
            self._due_ms = None
        elif self._due_ms is None or now_ms >= self._due_ms:
            self._due_ms = self._log_stalled(now_ms)
        if self._logged_since_ms is not None and acked != self._acked and not self._stalled(now_ms):
            _log.warning("records are acked again after %d s", (now_ms - self._logged_since_ms) // 1000)
            self._logged_since_ms, self._due_ms = None, None
        self._acked = acked
        return self._due_ms if self._due_ms is not None or not is_waiting else now_ms + STALL_MS

    def _stalled(self, now_ms: int) -> list[PartitionQueue]:
        return [q for q in self._queues() if q.waits_since_ms is not None and now_ms - q.waits_since_ms >= STALL_MS]

    def _log_stalled(self, now_ms: int) -> int:
        """Returns when to look again."""
        stalled = self._stalled(now_ms)
        since = [queue.waits_since_ms for queue in (stalled or self._queues())]
        since_ms = min((since_ms for since_ms in since if since_ms is not None), default=now_ms)
        if not stalled:
            return since_ms + STALL_MS
        self._logged_since_ms = since_ms
        seconds = (now_ms - since_ms) // 1000
        for waiting in self._waits(stalled):
            _log.warning("nothing is acked for %d s: %s; the producer keeps trying", seconds, waiting)
        return now_ms + AGAIN_MS


def producer_waits(
    queues: Iterable[PartitionQueue],
    cache: MetadataCache,
    acks: int,
    throttled_ms: Callable[[int], int] = lambda node_id: 0,
) -> tuple[Waiting, ...]:
    """The reasons why the oldest batch of each partition waits. A batch that is still being filled waits for nobody.
    `throttled_ms`: how long a broker will read nothing yet."""
    return grouped(_each(queues, cache, acks, throttled_ms))


def _each(
    queues: Iterable[PartitionQueue], cache: MetadataCache, acks: int, throttled_ms: Callable[[int], int]
) -> Iterator[tuple[TopicPartition, tuple[object, ...], str]]:
    for queue in queues:
        tp, leader = queue.topic_partition, cache.leader(queue.topic_partition)
        if queue.in_flight and queue.asked is not None:
            name = broker_name(queue.asked, cache)
            of_it = ", which waits for its in-sync followers" if acks == -1 else ""
            of_it = _throttled(throttled_ms(queue.asked.node_id)) or of_it
            yield tp, ("answer", queue.asked.node_id), f"an answer of {name}{of_it}"
            continue
        batch = next((batch for batch in tuple(queue.ready) if not batch.done), None)
        if batch is None:
            continue
        if leader is None:
            yield tp, ("leader",), no_leader(tp, cache)
        elif queue.lacks_producer_id:
            yield tp, ("producer id",), "a producer id, which brokers get from the controller"
        elif batch.last_error is not None:
            text = f"the next attempt at {broker_name(leader, cache)}; the last one: {error_text(batch.last_error)}"
            yield tp, ("retry", leader.node_id, type(batch.last_error)), text
        else:
            of_it = _throttled(throttled_ms(leader.node_id))
            yield tp, ("turn", leader.node_id), f"its turn at {broker_name(leader, cache)}{of_it}"


def _throttled(left_ms: int) -> str:
    return f", which reads no more for {left_ms / 1_000:.1f} s: the client's quota is used up" if left_ms else ""
