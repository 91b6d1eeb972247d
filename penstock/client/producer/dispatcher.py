"""Decides which batches go into which request, and what each answer means for them.

Pure: given what is ready and `now_ms`, it makes one request per broker that carries every partition of that broker with
something to send; given an answer, an error or a time-out, it says for every batch: acked, failed or again. At most one
batch of a partition is with a broker at a time, so retries cannot change the order. An idempotent producer has several
there, all with one broker and in the order of one stream; sequences.py says when that is safe.

A broker that hangs answers nothing. While one is silent, its batches stay with it, because it may only be slow; a batch
whose partition has another leader by now is taken back and sent there (`take_back`). Whether the old leader wrote it is
not known, and what it says later does not count. Sending, timers and completing futures are sender.py's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.backoff import Backoff
from penstock.client.cluster.error_meaning import needs_metadata, outcome_unknown
from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.cluster.waiting import broker_name, no_leader
from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.broker_pace import BrokerPace
from penstock.client.producer.outcomes import (
    Acked,
    Again,
    Failed,
    OutboundRequest,
    Outcome,
    Refused,
    attempts_text,
    of_all_attempts,
)
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.sequences import Refusal, SequenceError
from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    MessageTooLargeError,
    PenstockError,
    RecordListTooLargeError,
    RequestTimedOutError,
    ResourceExhaustedError,
    TimedOutError,
    UnknownServerError,
)
from penstock.messages.produce import PartitionProduceResult, ProduceResponse
from penstock.tracebacks import without_frames
from penstock.types import ProducerIdAndEpoch, TopicPartition

REQUEST_PARTITIONS_MAX = 2_000
"""The most partitions that a broker takes in one request (docs/request-limits.md); the others come in the next."""
LAST_TRANSACTION_WAIT_MS = 20
"""The markers of a producer's last transaction are written in a few ms; until then a leader refuses the next one."""
MAX_REQUEST_BYTES = 32 * 1024 * 1024
"""A request takes no further partition beyond this; far below what the channel and, by default, a broker take."""


@dataclass(frozen=True, slots=True)
class DispatchLimits:
    """How long and how often."""

    delivery_timeout_ms: int
    request_timeout_ms: int
    retries: int
    backoff: Backoff


class BatchDispatcher:
    """The sender's decisions; used by one thread."""

    def __init__(self, accumulator: Accumulator, cache: MetadataCache, limits: DispatchLimits) -> None:
        self._accumulator = accumulator
        self._cache = cache
        self._limits = limits
        self._correlation_id = 0
        self._request_bytes_max = MAX_REQUEST_BYTES  # less once a broker refused a request of several batches
        self._wants_metadata = False  # a leader is unknown, or may be wrong
        self._paces: defaultdict[int, BrokerPace] = defaultdict(BrokerPace)
        self._producer_id: ProducerIdAndEpoch | None = None  # the newest that this producer has got
        self._wants_producer_id = False
        self._producer_id_error: PenstockError | None = None  # why there is none yet
        self.has_more = False  # a partition of the last requests could send another batch now
        self.next_ms: int | None = None  # when a back-off ends
        self.expiry_ms: int | None = None  # when the oldest batch reaches delivery_timeout_ms, as `expire` saw it

    def take_metadata_wish(self) -> bool:
        """True if, since the last time, a leader was unknown or may have been wrong."""
        wish, self._wants_metadata = self._wants_metadata, False
        return wish

    def take_producer_id_wish(self) -> bool:
        """True if, since the last time, a partition waited for another producer id than the newest."""
        wish, self._wants_producer_id = self._wants_producer_id, False
        return wish

    def on_producer_id(self, producer_id: ProducerIdAndEpoch) -> None:
        """The cluster has given this producer an id that nobody else has."""
        self._producer_id, self._producer_id_error = producer_id, None

    def on_no_producer_id(self, error: PenstockError, *, is_final: bool) -> list[Outcome]:
        """There is no producer id yet. If no retry mends that, everything that waits for it fails."""
        self._producer_id_error = error
        failed: list[Outcome] = []
        for queue in self._accumulator.queues() if is_final else ():
            while not queue.settle(self._producer_id) and (batch := queue.head()) is not None and batch.encoded:
                queue.ready.popleft()
                told = error
                if batch.unknown_attempts and isinstance(error, ApiError):
                    told = of_all_attempts(error)
                failed.append(self._failed(queue, batch, told))
        return failed

    def drain(self, now_ms: int, can_send: Callable[[int], bool]) -> list[OutboundRequest]:
        """One request per broker that has something to get and room for a request; its batches are now in flight."""
        by_node: dict[int, list[tuple[PartitionQueue, ProducerBatch]]] = {}
        sizes: dict[int, int] = {}
        self.next_ms = None
        for queue in self._accumulator.queues():
            batch = queue.head()
            if batch is None or batch.encoded is None or not self._may_send(queue, batch):
                continue
            leader = self._cache.leader(queue.topic_partition)
            if queue.not_before_ms > now_ms and leader in (None, queue.asked):
                self._back_off(queue, batch, now_ms)
                continue
            if leader is None:
                self._wants_metadata = True
                continue
            node = leader.node_id
            if queue.in_flight and queue.asked is not None and node != queue.asked.node_id:
                continue  # the old leader's answers come first, or their batches are taken back
            size = sizes.get(node, 0)
            if not can_send(node) or (size and size + len(batch.encoded) > self._request_bytes_max):
                continue
            if len(by_node.get(node, ())) == REQUEST_PARTITIONS_MAX:
                continue
            sizes[node] = size + len(batch.encoded)
            queue.asked = leader
            by_node.setdefault(node, []).append((queue, batch))
        requests = [self._request(node, entries, sizes[node], now_ms) for node, entries in by_node.items()]
        self.has_more = any(queue.sequences and queue.ready for request in requests for queue, _ in request.entries)
        return requests

    def _may_send(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        if not queue.settle(self._producer_id):
            self._wants_producer_id = True
            return False
        return queue.may_send(batch)

    def _back_off(self, queue: PartitionQueue, batch: ProducerBatch, now_ms: int) -> None:
        """Looks again when the wait ends; before that for another leader, if the last one may be gone.

        A back-off spares a broker that said no. It must not outlast an election: a new leader is asked at once.
        """
        look_ms = queue.not_before_ms
        if isinstance(batch.last_error, ApiError) and needs_metadata(batch.last_error):
            self._wants_metadata = True
            look_ms = min(look_ms, now_ms + max(self._limits.backoff.initial_ms, 1))
        self.next_ms = look_ms if self.next_ms is None else min(self.next_ms, look_ms)

    def _request(
        self, node: int, entries: list[tuple[PartitionQueue, ProducerBatch]], size_bytes: int, now_ms: int
    ) -> OutboundRequest:
        self._correlation_id += 1
        pace = self._paces[node]
        pace.on_sent(size_bytes, now_ms)
        for queue, batch in entries:
            queue.pace = pace
            queue.send(batch, self._correlation_id, now_ms)
        deadline_ms = now_ms + self._limits.request_timeout_ms
        return OutboundRequest(node, self._correlation_id, now_ms, deadline_ms, tuple(entries), size_bytes)

    # -- answers -------------------------------------------------------------------------------------------------------

    def on_answer(self, request: OutboundRequest, answer: ProduceResponse, now_ms: int) -> list[Outcome]:
        """The outcomes of an answer, or of a part of one; batches that it does not tell of are still with the
        broker."""
        if request.part_ms is None:
            self._paces[request.node_id].on_answer(request.size_bytes, now_ms - request.sent_ms, now_ms)
        if answer.error is not None:
            return self.on_error(request, answer.error, now_ms)
        answered = [result.partition for result in answer.partitions]
        entries = request.told(answered, more_follows=answer.more_follows)
        if entries is None:
            asked = [queue.topic_partition for queue, _ in request.entries]
            told = f"the answer speaks of {_named(answered)}, the request of {_named(asked)}"
            return self.on_error(request, UnknownServerError(told), now_ms)
        if answer.more_follows:
            request.part_ms = now_ms
        return [
            self._on_result(queue, batch, result, now_ms)
            for (queue, batch), result in zip(entries, answer.partitions, strict=True)
            if batch.request == request.correlation_id
        ]

    def _on_result(
        self, queue: PartitionQueue, batch: ProducerBatch, result: PartitionProduceResult, now_ms: int
    ) -> Outcome:
        if result.error is not None:
            return self._on_failure(queue, batch, result.error, now_ms, is_unknown=outcome_unknown(result.error))
        queue.acked(batch)
        queue.not_before_ms = 0
        self._accumulator.share.note_ack(now_ms)
        return Acked(batch, result.base_offset, result.log_append_time_ms)

    def on_unanswered(self, request: OutboundRequest) -> list[Outcome]:
        """acks=0: written to the connection is all there is to know."""
        pending = request.pending()
        for queue, batch in pending:
            queue.acked(batch)
        return [Acked(batch, -1, -1) for _, batch in pending]

    def on_error(self, request: OutboundRequest, error: ApiError, now_ms: int) -> list[Outcome]:
        """The broker's answer to the request as a whole is an error."""
        return self._all_failed(request, error, now_ms, is_unknown=outcome_unknown(error))

    def on_broken(self, requests: Sequence[OutboundRequest], error: ApiError, now_ms: int) -> list[Outcome]:
        """The connection broke, or was given up. The error is about one of these requests, but it is not known which;
        each of them may have been carried out."""
        if isinstance(error, MessageTooLargeError):
            return self._on_too_large(requests, error, now_ms)
        return [
            outcome for request in requests for outcome in self._all_failed(request, error, now_ms, is_unknown=True)
        ]

    def _on_too_large(
        self, requests: Sequence[OutboundRequest], error: MessageTooLargeError, now_ms: int
    ) -> list[Outcome]:
        """A message was over a limit of the transport (socket.request.max.bytes), so the largest one was. If that had
        one batch, the batch is too large; else requests become smaller, and no batch is to blame."""
        unanswered = [request for request in requests if request.part_ms is None]  # one with a part was not too large
        largest = max(unanswered or requests, key=lambda request: request.size_bytes)
        is_batch = len(largest.entries) == 1
        if not is_batch:
            self._request_bytes_max = largest.size_bytes // 2
        outcomes: list[Outcome] = []
        for request in requests:
            met = error if is_batch and request is largest else ResourceExhaustedError(str(error))
            outcomes += self._all_failed(request, met, now_ms, is_unknown=True)
        return outcomes

    def _all_failed(self, request: OutboundRequest, error: ApiError, now_ms: int, *, is_unknown: bool) -> list[Outcome]:
        return [
            self._on_failure(queue, batch, error, now_ms, is_unknown=is_unknown) for queue, batch in request.pending()
        ]

    def on_timed_out(self, request: OutboundRequest, now_ms: int) -> list[Outcome]:
        """A request that was answered in part; the rest did not come in time. The broker has all of its batches, so
        whatever is sent again comes behind them."""
        told = f"node {request.node_id} did not answer the rest within {self._limits.request_timeout_ms} ms"
        return self._all_failed(request, RequestTimedOutError(told), now_ms, is_unknown=True)

    def take_back(self, request: OutboundRequest, now_ms: int) -> list[Outcome]:
        """A request whose broker is silent: takes back the batches whose partition another broker leads by now."""
        outcomes: list[Outcome] = []
        for queue, batch in request.pending():
            leader = self._cache.leader(queue.topic_partition)
            if leader is not None and leader.node_id != request.node_id:
                told = f"node {request.node_id} is silent, and node {leader.node_id} leads {queue.topic_partition} now"
                error = RequestTimedOutError(told)
                outcomes.append(self._on_failure(queue, batch, error, now_ms, is_unknown=True))
        return outcomes

    def _on_failure(
        self, queue: PartitionQueue, batch: ProducerBatch, error: ApiError, now_ms: int, *, is_unknown: bool
    ) -> Outcome:
        queue.release(batch, is_unknown=is_unknown)
        batch.last_error = without_frames(error)
        if isinstance(error, SequenceError) and batch.place is not None:
            return self._on_sequence_error(queue, batch, error, now_ms)
        if isinstance(error, MessageTooLargeError | RecordListTooLargeError) and batch.record_count > 1:
            queue.put_back(queue.split(batch, self._accumulator.config.codec))
            return Again(batch, error)
        if error.record_errors and not is_unknown:
            return self._on_bad_records(queue, batch, error)
        if not error.retriable or batch.attempts > self._limits.retries:
            return self._failed(queue, batch, of_all_attempts(error) if batch.unknown_attempts else error)
        followed = error.leader is not None and self._cache.apply_hint(queue.topic_partition, error.leader)
        if not followed and needs_metadata(error):
            self._wants_metadata = True
        wait_ms = 0 if followed else self._limits.backoff.wait_ms(batch.attempts)
        if isinstance(error, ConcurrentTransactionsError):
            wait_ms = min(wait_ms, LAST_TRANSACTION_WAIT_MS)
        return self._again(queue, batch, error, now_ms, wait_ms)

    def _on_bad_records(self, queue: PartitionQueue, batch: ProducerBatch, error: ApiError) -> Outcome:
        """Fails the records that the broker names, each with its own error, and tries the others again at once. That
        ends: each time there are fewer."""
        refused: dict[int, PenstockError] = {}
        for index, message in error.record_errors:
            told = type(error)(message)
            told.nothing_written = error.nothing_written
            refused[index] = of_all_attempts(told) if batch.unknown_attempts else told
        names_others = not all(0 <= index < batch.record_count for index in refused)
        if names_others or len(refused) == batch.record_count:
            if not names_others:
                batch.refused = refused
            return self._failed(queue, batch, of_all_attempts(error) if batch.unknown_attempts else error)
        queue.put_back((queue.without(batch, refused, self._accumulator.config.codec),))
        return Refused(batch, len(refused))

    def _on_sequence_error(
        self, queue: PartitionQueue, batch: ProducerBatch, error: SequenceError, now_ms: int
    ) -> Outcome:
        """The batch does not follow what the log has. Its first new epoch begins without a back-off."""
        refusal = queue.refused(batch, error)
        self._wants_metadata |= refusal is Refusal.DOUBTED
        if refusal is Refusal.WAITS:
            batch.attempts -= 1  # an older batch was not written, which is not the fault of this one
            return self._again(queue, batch, error, now_ms, 0)
        ends = queue.is_transactional and refusal is Refusal.BEGINS_EPOCH
        if ends or batch.attempts > self._limits.retries:
            return self._failed(queue, batch, of_all_attempts(error) if batch.unknown_attempts else error)
        is_first = refusal is Refusal.BEGINS_EPOCH and batch.place is not None and not batch.place.epochs_over
        return self._again(queue, batch, error, now_ms, 0 if is_first else self._limits.backoff.wait_ms(batch.attempts))

    def _again(
        self, queue: PartitionQueue, batch: ProducerBatch, error: ApiError, now_ms: int, wait_ms: int
    ) -> Outcome:
        left_ms = batch.created_ms + self._limits.delivery_timeout_ms - now_ms
        if left_ms <= 0:
            return self._failed(queue, batch, self._too_late(batch))
        wait_ms = min(wait_ms, left_ms)  # `expire` fails it then, and not a back-off earlier
        queue.put_back((batch,))
        if queue.ready[0] is batch:
            queue.not_before_ms = now_ms + wait_ms
        return Again(batch, error)

    @staticmethod
    def _failed(queue: PartitionQueue, batch: ProducerBatch, error: PenstockError) -> Failed:
        queue.failed(batch)
        return Failed(batch, error)

    def _too_late(self, batch: ProducerBatch) -> TimedOutError:
        last = f"; the last error: {batch.last_error}" if batch.last_error is not None else "; no broker could be asked"
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
        """Fails what waits for longer than delivery_timeout_ms, in its queue or for an answer.

        What a broker has may still be written, like what is taken back, and its late answer does not count either. It
        is not sent again, so the order of what is acked stands.
        """
        expired: list[Outcome] = []
        limit_ms = self._limits.delivery_timeout_ms
        created_max_ms = now_ms - limit_ms
        oldest_ms: int | None = None
        for queue in self._accumulator.queues():
            for sent in tuple(queue.in_flight):
                if sent.created_ms <= created_max_ms and queue.asked is not None:
                    queue.release(sent, is_unknown=True)
                    sent.last_error = RequestTimedOutError(f"{broker_name(queue.asked, self._cache)} has not answered")
                    expired.append(self._failed(queue, sent, self._too_late(sent)))
            while queue.ready and queue.ready[0].created_ms <= created_max_ms:
                batch = queue.ready[0]
                if batch.encoded is None and not batch.done:
                    break  # being encoded at this moment
                queue.ready.popleft()
                if not batch.done:
                    expired.append(self._failed(queue, batch, self._too_late(batch)))
            waits_since_ms = queue.oldest_ms
            if waits_since_ms is not None:
                oldest_ms = waits_since_ms if oldest_ms is None else min(oldest_ms, waits_since_ms)
        self.expiry_ms = None if oldest_ms is None else oldest_ms + limit_ms
        return expired

    def __repr__(self) -> str:
        return f"BatchDispatcher(requests={self._correlation_id}, wants_metadata={self._wants_metadata})"


def _named(partitions: Sequence[tuple[str, int]]) -> str:
    """So many partitions, and the first by name."""
    first = f" from {TopicPartition(*partitions[0])} on" if partitions else ""
    return f"{len(partitions)} partitions{first}"
