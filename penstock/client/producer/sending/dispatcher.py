"""Decides which batches go into which request, and what each answer means for them.

Pure: given what is ready and `now_ms`, it makes one request per broker that carries every partition of that broker with
something to send; given an answer, an error or a time-out, it says which batches that is about. At most one batch of a
partition is with a broker at a time, so retries cannot change the order. An idempotent producer has several there, all
with one broker and in the order of one stream; sequences.py says when that is safe.

A broker that hangs answers nothing. While one is silent, its batches stay with it, because it may only be slow; a batch
whose partition has another leader by now is taken back and sent there (`take_back`). Whether the old leader wrote it is
not known, and what it says later does not count. Not here: what becomes of a batch that was not acked
(failed_batches.py); sending, timers and completing futures (sender.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from penstock.client.cluster.error_meaning import needs_metadata, outcome_unknown
from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.broker_pace import BrokerPace
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.sending.failed_batches import DispatchLimits, FailedBatches, failed
from penstock.client.producer.sending.outcomes import Acked, OutboundRequest, Outcome, Wishes, of_all_attempts
from penstock.errors import (
    ApiError,
    MessageTooLargeError,
    PenstockError,
    RequestTimedOutError,
    ResourceExhaustedError,
    UnknownServerError,
)
from penstock.messages.produce import PartitionProduceResult, ProduceResponse
from penstock.types import ProducerIdAndEpoch, TopicPartition

REQUEST_PARTITIONS_MAX = 2_000
"""The most partitions that a broker takes in one request (docs/request-limits.md); the others come in the next."""
MAX_REQUEST_BYTES = 32 * 1024 * 1024
"""A request takes no further partition beyond this; far below what the channel and, by default, a broker take."""


class BatchDispatcher:
    """The sender's decisions; used by one thread."""

    def __init__(self, accumulator: Accumulator, cache: MetadataCache, limits: DispatchLimits) -> None:
        self._partitions, self._share, codec = accumulator.partitions, accumulator.share, accumulator.config.codec
        self.wishes = Wishes()
        self.failures = FailedBatches(self._partitions.queues, codec, cache, limits, self.wishes)
        self._cache = cache
        self._limits = limits
        self._correlation_id = 0
        self._request_bytes_max = MAX_REQUEST_BYTES  # less once a broker refused a request of several batches
        self._paces: defaultdict[int, BrokerPace] = defaultdict(BrokerPace)
        self._producer_id: ProducerIdAndEpoch | None = None  # the newest that this producer has got
        self.has_more = False  # a partition of the last requests could send another batch now
        self.next_ms: int | None = None  # when a back-off ends

    def on_producer_id(self, producer_id: ProducerIdAndEpoch) -> None:
        """The cluster has given this producer an id that nobody else has."""
        self._producer_id = producer_id
        self.failures.note_producer_id(None)

    def on_no_producer_id(self, error: PenstockError, *, is_final: bool) -> list[Outcome]:
        """There is no producer id yet. If no retry mends that, everything that waits for it fails."""
        self.failures.note_producer_id(error)
        ended: list[Outcome] = []
        for queue in self._partitions.queues() if is_final else ():
            while not queue.settle(self._producer_id) and (batch := queue.head()) is not None and batch.encoded:
                queue.ready.popleft()
                outcome = error
                if batch.unknown_attempts and isinstance(error, ApiError):
                    outcome = of_all_attempts(error)
                ended.append(failed(queue, batch, outcome))
        return ended

    def drain(self, now_ms: int, can_send: Callable[[int], bool]) -> list[OutboundRequest]:
        """One request per broker that has something to get and room for a request; its batches are now in flight."""
        by_node: dict[int, list[tuple[PartitionQueue, ProducerBatch]]] = {}
        sizes: dict[int, int] = {}
        self.next_ms = None
        for queue in self._partitions.queues():
            batch = queue.head()
            if batch is None or batch.encoded is None or not self._may_send(queue, batch):
                continue
            leader = self._cache.leader(queue.topic_partition)
            if queue.not_before_ms > now_ms and leader in (None, queue.asked):
                self._back_off(queue, batch, now_ms)
                continue
            if leader is None:
                self.wishes.metadata = True
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
            self.wishes.producer_id = True
            return False
        return queue.may_send(batch)

    def _back_off(self, queue: PartitionQueue, batch: ProducerBatch, now_ms: int) -> None:
        """Looks again when the wait ends; before that for another leader, if the last one may be gone.

        A back-off spares a broker that said no. It must not outlast an election: a new leader is asked at once.
        """
        look_ms = queue.not_before_ms
        if isinstance(batch.last_error, ApiError) and needs_metadata(batch.last_error):
            self.wishes.metadata = True
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
        entries = request.entries_of(answered, more_follows=answer.more_follows)
        if entries is None:
            asked = [queue.topic_partition for queue, _ in request.entries]
            message = f"the answer speaks of {_named(answered)}, the request of {_named(asked)}"
            return self.on_error(request, UnknownServerError(message), now_ms)
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
            is_unknown = outcome_unknown(result.error)
            return self.failures.on_failure(queue, batch, result.error, now_ms, is_unknown=is_unknown)
        queue.acked(batch)
        queue.not_before_ms = 0
        self._share.note_ack(now_ms)
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
            self.failures.on_failure(queue, batch, error, now_ms, is_unknown=is_unknown)
            for queue, batch in request.pending()
        ]

    def on_timed_out(self, request: OutboundRequest, now_ms: int) -> list[Outcome]:
        """A request that was answered in part; the rest did not come in time. The broker has all of its batches, so
        whatever is sent again comes behind them."""
        message = f"node {request.node_id} did not answer the rest within {self._limits.request_timeout_ms} ms"
        return self._all_failed(request, RequestTimedOutError(message), now_ms, is_unknown=True)

    def take_back(self, request: OutboundRequest, now_ms: int) -> list[Outcome]:
        """A request whose broker is silent: takes back the batches whose partition another broker leads by now."""
        outcomes: list[Outcome] = []
        for queue, batch in request.pending():
            leader = self._cache.leader(queue.topic_partition)
            if leader is not None and leader.node_id != request.node_id:
                message = (
                    f"node {request.node_id} is silent, and node {leader.node_id} leads {queue.topic_partition} now"
                )
                error = RequestTimedOutError(message)
                outcomes.append(self.failures.on_failure(queue, batch, error, now_ms, is_unknown=True))
        return outcomes

    def __repr__(self) -> str:
        return f"BatchDispatcher(requests={self._correlation_id}, {self.wishes})"


def _named(partitions: Sequence[tuple[str, int]]) -> str:
    """The number of partitions, and the first one by name."""
    first = f" from {TopicPartition(*partitions[0])} on" if partitions else ""
    return f"{len(partitions)} partitions{first}"
