"""The dispatcher's decisions, as data: a request to send, the outcome of each batch of one, and its error."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.errors import ApiError, ClientClosedError, PenstockError
from penstock.lazy_dataclass import dataclass

Entry = tuple[PartitionQueue, ProducerBatch]


@dataclass(slots=True)
class OutboundRequest:
    """Batches for one broker, in the order of the wire request; each with the queue it came from."""

    node_id: int
    correlation_id: int
    sent_ms: int
    deadline_ms: int
    entries: tuple[Entry, ...]
    size_bytes: int
    """The size of the records."""
    part_ms: int | None = None
    """When the last part of its answer came; None as long as nothing was answered."""
    _unanswered: dict[tuple[str, int], Entry] | None = None
    """The entries that no part of the answer has named yet; None before the first part."""

    def entries_of(self, answered: Sequence[tuple[str, int]], *, more_follows: bool) -> Sequence[Entry] | None:
        """The entries that an answer tells of, in its order; None if it is no answer to this request."""
        if self._unanswered is None:
            if answered == [queue.topic_partition for queue, _ in self.entries]:
                return self.entries
            if not more_follows:
                return None
            self._unanswered = {queue.topic_partition: (queue, batch) for queue, batch in self.entries}
        if len(set(answered)) < len(answered) or not self._unanswered.keys() >= set(answered):
            return None
        found = [self._unanswered.pop(key) for key in answered]
        return None if self._unanswered and not more_follows else found

    def pending(self) -> list[Entry]:
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


@dataclass(frozen=True, slots=True)
class Refused:
    """Some records of the batch have failed; the batch of the others is back in its queue, in its place."""

    batch: ProducerBatch
    record_count: int


Outcome = Acked | Failed | Again | Refused


@dataclass(slots=True)
class Wishes:
    """Answers that the decisions lack; the sender takes a wish, and asks the cluster."""

    metadata: bool = False
    """A leader is unknown, or may have been wrong."""
    producer_id: bool = False
    """A partition waits for another producer id than the newest."""

    def take_metadata(self) -> bool:
        """True if there was such a wish since the last time."""
        wish, self.metadata = self.metadata, False
        return wish

    def take_producer_id(self) -> bool:
        """True if there was such a wish since the last time."""
        wish, self.producer_id = self.producer_id, False
        return wish


def attempts_text(batch: ProducerBatch) -> str:
    return f"{batch.attempts} attempts; the batch {'may be' if batch.unknown_attempts else 'was not'} written"


def closed_error(batch: ProducerBatch) -> ClientClosedError:
    what = f"{batch.topic_partition}: the producer was closed before {batch.record_count} records were acked"
    error = ClientClosedError(f"{what} ({attempts_text(batch)})")
    error.nothing_written = not batch.unknown_attempts
    return error


def of_all_attempts(error: ApiError) -> ApiError:
    """The error of a batch: it does not promise that nothing was written, because an earlier attempt may have."""
    if not error.nothing_written:
        return error
    found = type(error)(
        f"{error}; an attempt whose outcome is unknown may have written the records", leader=error.leader
    )
    found.nothing_written = False
    return found
