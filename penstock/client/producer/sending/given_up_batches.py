"""Ends batches that are not sent any more: the producer closes, or their transaction is aborted.

Pure; on the sender's thread. Batches that a broker has may be written all the same, and its late answer does not count.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.sending.outcomes import Failed, OutboundRequest, Outcome, closed_error
from penstock.errors import PenstockError


def give_up(request: OutboundRequest) -> list[Outcome]:
    """Fails what is with a broker: the producer closes before its answer."""
    given_up: list[Outcome] = []
    for queue, batch in request.pending():
        queue.release(batch, is_unknown=True)
        queue.failed(batch)
        given_up.append(Failed(batch, closed_error(batch)))
    return given_up


def abandon(queues: Iterable[PartitionQueue]) -> list[Outcome]:
    """Fails everything that waits: the producer closes without having been able to send it."""
    left: list[Outcome] = []
    for queue in queues:
        left += [Failed(batch, closed_error(batch)) for batch in queue.ready if not batch.done]
        queue.ready.clear()
    return left


def fail_all(queues: Iterable[PartitionQueue], error: PenstockError) -> list[Outcome]:
    """Fails everything that is closed, sent or not, with the error of its transaction."""
    doomed: list[Outcome] = []
    for queue in queues:
        for batch in tuple(queue.in_flight):
            queue.release(batch, is_unknown=True)
            queue.failed(batch)
            doomed.append(Failed(batch, error))
        while queue.ready and (queue.ready[0].encoded is not None or queue.ready[0].done):  # else it is being encoded
            batch = queue.ready.popleft()
            if not batch.done:
                queue.failed(batch)
                doomed.append(Failed(batch, error))
    return doomed
