"""What the dispatcher decides, as data: a request to send, and what became of each batch of one."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.errors import ApiError, PenstockError


@dataclass(frozen=True, slots=True)
class OutboundRequest:
    """Batches for one broker, in the order of the wire request; each with the queue it came from."""

    node_id: int
    correlation_id: int
    sent_ms: int
    deadline_ms: int
    entries: tuple[tuple[PartitionQueue, ProducerBatch], ...]
    size_bytes: int
    """Of the records."""

    def pending(self) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """The batches that were neither answered nor taken back: those that are still with this request."""
        return [entry for entry in self.entries if entry[1].request == self.correlation_id]


@dataclass(frozen=True, slots=True)
class Acked:
    """The batch stands in the log from `base_offset` on."""

    batch: ProducerBatch
    base_offset: int
    log_append_time_ms: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The batch will not be tried again."""

    batch: ProducerBatch
    error: PenstockError


@dataclass(frozen=True, slots=True)
class Again:
    """The batch, or its halves, is back in its queue, before all that is behind it."""

    batch: ProducerBatch
    error: ApiError


Outcome = Acked | Failed | Again
