"""Decides what becomes of a batch that was not acked: again, in halves or in part, or failed.

Pure. An error tells whether the batch may have been written, whether a retry may help, and whether the leader or the
producer's sequence is in doubt. A batch that is tried again goes back into its place in the partition's queue, so
retries do not change the order; `retries` and `delivery_timeout_ms` end them. Not here: which batch is sent when, and
which batches an answer is about (dispatcher.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.backoff import Backoff
from penstock.base_error import without_frames
from penstock.client.cluster.error_meaning import needs_metadata, server_error_after, server_error_or_last
from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.cluster.waiting import broker_name, no_leader
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.sending.outcomes import (
    Again,
    Failed,
    Outcome,
    Refused,
    Wishes,
    attempts_text,
    of_all_attempts,
)
from penstock.client.producer.sequences import Refusal, SequenceError
from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    MessageTooLargeError,
    PenstockError,
    RecordListTooLargeError,
    RequestTimedOutError,
    TimedOutError,
)
from penstock.lazy_dataclass import dataclass
from penstock.record.codecs import Codec

LAST_TRANSACTION_WAIT_MS = 20
"""The markers of a producer's last transaction are written in a few ms; until then a leader refuses the next one."""


@dataclass(frozen=True, slots=True)
class DispatchLimits:
    """How long and how often."""

    delivery_timeout_ms: int
    request_timeout_ms: int
    retries: int
    backoff: Backoff


class FailedBatches:
    """The batches of one producer that are not acked."""

    def __init__(
        self,
        queues: Callable[[], Iterable[PartitionQueue]],
        codec: Codec,
        cache: MetadataCache,
        limits: DispatchLimits,
        wishes: Wishes,
    ) -> None:
        """`codec` is for the halves of a batch that was too large."""
        self._queues, self._codec, self._cache = queues, codec, cache
        self._limits, self._wishes = limits, wishes
        self._producer_id_error: PenstockError | None = None
        self.expiry_ms: int | None = None  # when the oldest batch reaches delivery_timeout_ms, as `expire` saw it

    def note_producer_id(self, error: PenstockError | None) -> None:
        """Why there is no producer id yet; None: there is one."""
        self._producer_id_error = error

    def on_failure(
        self, queue: PartitionQueue, batch: ProducerBatch, error: ApiError, now_ms: int, *, is_unknown: bool
    ) -> Outcome:
        """No answer, or an error. `is_unknown`: the batch may have been written."""
        queue.release(batch, is_unknown=is_unknown)
        batch.last_error = without_frames(error)
        batch.server_error = server_error_after(batch.server_error, batch.last_error)
        if isinstance(error, SequenceError) and batch.place is not None:
            return self._on_sequence_error(queue, batch, error, now_ms)
        if isinstance(error, MessageTooLargeError | RecordListTooLargeError) and batch.record_count > 1:
            queue.put_back(queue.split(batch, self._codec))
            return Again(batch, error)
        if error.record_errors and not is_unknown:
            return self._on_bad_records(queue, batch, error)
        if not error.retriable or batch.attempts > self._limits.retries:
            return failed(queue, batch, of_all_attempts(error) if batch.unknown_attempts else error)
        followed = error.leader is not None and self._cache.apply_hint(queue.topic_partition, error.leader)
        if not followed and needs_metadata(error):
            self._wishes.metadata = True
        wait_ms = 0 if followed else self._limits.backoff.wait_ms(batch.attempts)
        if isinstance(error, ConcurrentTransactionsError):
            wait_ms = min(wait_ms, LAST_TRANSACTION_WAIT_MS)
        return self._again(queue, batch, error, now_ms, wait_ms)

    def _on_bad_records(self, queue: PartitionQueue, batch: ProducerBatch, error: ApiError) -> Outcome:
        """Fails the records that the broker names, each with its own error, and tries the others again at once. That
        ends: each time there are fewer."""
        refused: dict[int, PenstockError] = {}
        for index, message in error.record_errors:
            refusal = type(error)(message)
            refusal.nothing_written = error.nothing_written
            refused[index] = of_all_attempts(refusal) if batch.unknown_attempts else refusal
        names_others = not all(0 <= index < batch.record_count for index in refused)
        if names_others or len(refused) == batch.record_count:
            if not names_others:
                batch.refused = refused
            return failed(queue, batch, of_all_attempts(error) if batch.unknown_attempts else error)
        queue.put_back((queue.without(batch, refused, self._codec),))
        return Refused(batch, len(refused))

    def _on_sequence_error(
        self, queue: PartitionQueue, batch: ProducerBatch, error: SequenceError, now_ms: int
    ) -> Outcome:
        """The batch does not follow what the log has. Its first new epoch begins without a back-off."""
        refusal = queue.refused(batch, error)
        self._wishes.metadata |= refusal is Refusal.DOUBTED
        if refusal is Refusal.WAITS:
            batch.attempts -= 1  # an older batch was not written, which is not the fault of this one
            return self._again(queue, batch, error, now_ms, 0)
        ends = queue.is_transactional and refusal is Refusal.BEGINS_EPOCH
        if ends or batch.attempts > self._limits.retries:
            return failed(queue, batch, of_all_attempts(error) if batch.unknown_attempts else error)
        is_first = refusal is Refusal.BEGINS_EPOCH and batch.place is not None and not batch.place.epochs_over
        return self._again(queue, batch, error, now_ms, 0 if is_first else self._limits.backoff.wait_ms(batch.attempts))

    def _again(
        self, queue: PartitionQueue, batch: ProducerBatch, error: ApiError, now_ms: int, wait_ms: int
    ) -> Outcome:
        left_ms = batch.created_ms + self._limits.delivery_timeout_ms - now_ms
        if left_ms <= 0:
            return failed(queue, batch, self._too_late(batch))
        wait_ms = min(wait_ms, left_ms)  # `expire` fails it then, and not a back-off earlier
        queue.put_back((batch,))
        if queue.ready[0] is batch:
            queue.not_before_ms = now_ms + wait_ms
        return Again(batch, error)

    def _too_late(self, batch: ProducerBatch) -> TimedOutError:
        last = "; no broker could be asked"
        if batch.last_error is not None:
            last = f"; the last error: {server_error_or_last(batch.server_error, batch.last_error)}"
        if batch.last_error is None and self._producer_id_error is not None:
            last = f"; the cluster has given no producer id: {self._producer_id_error}"
        limit_ms = self._limits.delivery_timeout_ms
        why = self._cache.why_offline(batch.topic_partition)
        if self._cache.topic(batch.topic_partition.topic) is None:
            last, why = f"; {no_leader(batch.topic_partition, self._cache)}", ""
        error = TimedOutError(
            f"{batch.topic_partition}: {batch.record_count} records not acked within delivery_timeout_ms={limit_ms}"
            f" ({attempts_text(batch)}){last}{why and f'; {why}'}"
        )
        error.nothing_written = not batch.unknown_attempts
        return error

    def expire(self, now_ms: int) -> list[Outcome]:
        """Fails batches that wait for longer than delivery_timeout_ms, in its queue or for an answer.

        A batch that a broker has may still be written, as one that is taken back may, and its late answer does not
        count. It is not sent again, so the order of acked batches stands.
        """
        expired: list[Outcome] = []
        limit_ms = self._limits.delivery_timeout_ms
        created_max_ms = now_ms - limit_ms
        oldest_ms: int | None = None
        for queue in self._queues():
            for sent in tuple(queue.in_flight):
                if sent.created_ms <= created_max_ms and queue.asked is not None:
                    queue.release(sent, is_unknown=True)
                    sent.last_error = RequestTimedOutError(f"{broker_name(queue.asked, self._cache)} has not answered")
                    expired.append(failed(queue, sent, self._too_late(sent)))
            while queue.ready and queue.ready[0].created_ms <= created_max_ms:
                batch = queue.ready[0]
                if batch.encoded is None and not batch.done:
                    break  # being encoded at this moment
                queue.ready.popleft()
                if not batch.done:
                    expired.append(failed(queue, batch, self._too_late(batch)))
            waits_since_ms = queue.oldest_ms
            if waits_since_ms is not None:
                oldest_ms = waits_since_ms if oldest_ms is None else min(oldest_ms, waits_since_ms)
        self.expiry_ms = None if oldest_ms is None else oldest_ms + limit_ms
        return expired

    def __repr__(self) -> str:
        return f"FailedBatches(delivery_timeout_ms={self._limits.delivery_timeout_ms}, expiry_ms={self.expiry_ms})"


def failed(queue: PartitionQueue, batch: ProducerBatch, error: PenstockError) -> Failed:
    """The batch is not tried again."""
    queue.failed(batch)
    return Failed(batch, error)
