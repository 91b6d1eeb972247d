"""Sends what the accumulator holds: the producer's driver on the event loop.

`_pump` is the whole cycle, and plain code: close what is due, let the dispatcher make requests, hand them to the
links, set one timer for whatever comes next. It runs when a caller wakes it, an answer comes, the metadata changes,
or the timer fires. A caller's thread calls only `wake` and `wake_by`, which cross to the loop at most once per cycle,
because a tight loop of sends gives up the GIL only every 5 ms. While a broker is silent, the other brokers are asked
who leads its partitions now: the cluster replaces a leader that hangs when its session ends, which is sooner than a
request times out. The same goes for the rest of a request that was answered in part. Such a request does not count
against `max_in_flight`: partitions that do not commit hold up no others. Decisions are the dispatcher's; streams are
produce_link.py's.
"""

from __future__ import annotations

import asyncio

from penstock.client.cluster.any_node import SILENCE_MS
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.producer_ids import ProducerIdSource, init_producer_id
from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.producer_statistics import ProducerStatistics
from penstock.client.producer.sending.dispatcher import BatchDispatcher
from penstock.client.producer.sending.ended_batches import EndedBatches
from penstock.client.producer.sending.given_up_batches import abandon, fail_all, give_up
from penstock.client.producer.sending.outcomes import OutboundRequest
from penstock.client.producer.sending.produce_link import ProduceLink
from penstock.client.producer.sequences import IN_FLIGHT_MAX
from penstock.client.producer.stalled import StallNotice, producer_waits
from penstock.client.producer.transactions.open_transaction import OpenTransaction
from penstock.client.wire.connection import ANSWER_GRACE_MS
from penstock.errors import ApiError, NetworkError, PenstockError, RequestTimedOutError
from penstock.messages.produce import PartitionRecords, ProduceRequest, ProduceResponse
from penstock.types import Endpoint, ProducerIdAndEpoch

NEVER_MS = 2**62
DELIVERY_CHECK_MS = 1_000
"""The longest pause between two looks for delivery time-outs, while anything waits."""
ASK_AROUND_MS = 1_000
"""The pause between two requests for metadata while a broker is silent: little traffic, even if every client does
it."""


class Sender:
    """One producer's traffic with every broker."""

    def __init__(
        self,
        cluster: ClusterClient,
        accumulator: Accumulator,
        dispatcher: BatchDispatcher,
        acks: int,
        max_in_flight: int,
        transaction: OpenTransaction | None = None,
    ) -> None:
        self._transaction = transaction
        self._cluster = cluster
        self._accumulator, self._partitions = accumulator, accumulator.partitions
        self._dispatcher = dispatcher
        self._acks = acks
        self._max_in_flight = max_in_flight
        self._links: dict[int, ProduceLink] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._woken = False
        self._next_look_ms = NEVER_MS
        self._ask_around_at_ms = 0
        self._closed = False
        self._ids = ProducerIdSource(self._ask_id, cluster.backoff, self.on_producer_id, self._on_no_producer_id)
        self._stall = StallNotice(
            self._partitions.queues, lambda queues: producer_waits(queues, cluster.cache, acks, self.throttled_ms)
        )
        self._ended = EndedBatches(accumulator.memory, transaction, self.wake, cluster.clock)
        cluster.subscribe(self._pump)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the sender on `loop`."""
        self._loop = loop

    # -- any thread ----------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Wakes the loop: there may be something to send."""
        if not self._woken and self._loop is not None:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._on_wake)
            except RuntimeError:  # the loop has ended: at interpreter exit
                return
            except BaseException:  # Ctrl-C: left as it is, nobody would wake it again
                self._woken = False
                raise

    def wake_by(self, due_ms: int) -> None:
        """There will be something to send at `due_ms`; does nothing when the sender will look by then anyway."""
        if self._next_look_ms > due_ms:
            self.wake()

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _on_wake(self) -> None:
        self._woken = False  # BEFORE looking: a caller that comes later wakes it again
        self._pump()

    def _pump(self) -> None:
        if self._closed or self._loop is None:
            return
        self._next_look_ms = NEVER_MS  # BEFORE looking, for the same reason
        now_ms = self._cluster.clock.now_ms()
        self._leave_old_leaders(now_ms)
        self._check_time_outs(now_ms)
        due_ms = self._accumulator.close_due(now_ms)
        while expired := self._dispatcher.failures.expire(now_ms):
            self._ended.apply(expired)
            due_ms = self._accumulator.close_due(now_ms)  # also what has grown behind them
        if (transaction := self._transaction) is not None and transaction.doom is not None:
            self._ended.apply(fail_all(self._partitions.queues(), transaction.doom))
        for _ in range(IN_FLIGHT_MAX):
            for request in self._dispatcher.drain(now_ms, lambda node_id: self._can_send(node_id, now_ms)):
                self._submit(request)
            if not self._dispatcher.has_more:
                break
        if self._dispatcher.wishes.take_metadata():
            self._cluster.track({queue.topic_partition.topic for queue in self._partitions.queues()})
            self._cluster.refresh_soon()
        if self._dispatcher.wishes.take_producer_id() and transaction is None:
            self._ids.ask_soon()
        self._set_timer(now_ms, due_ms)

    def _can_send(self, node_id: int, now_ms: int) -> bool:
        link = self._links.get(node_id)
        return link is None or (link.in_flight < self._max_in_flight and link.throttled_until_ms <= now_ms)

    def throttled_ms(self, node_id: int) -> int:
        """How long this broker will read nothing yet, because the client's quota is used up; 0: it reads."""
        link = self._links.get(node_id)
        return 0 if link is None else max(0, link.throttled_until_ms - self._cluster.clock.now_ms())

    def _submit(self, request: OutboundRequest) -> None:
        connection = self._cluster.connection(request.node_id)
        link = self._links.get(request.node_id)
        if connection is None:
            self._on_broken([request], NetworkError(f"the endpoint of node {request.node_id} is not known"))
            return
        if link is None or link.connection is not connection or link.broken:
            if link is not None:
                link.break_off(NetworkError(f"node {request.node_id} moved to {connection.endpoint}"))
            link = self._links[request.node_id] = ProduceLink(
                connection, self._cluster.clock, self._on_answer, self._on_broken, self._ended.note_throttle
            )
        parts = [
            PartitionRecords(
                batch.topic_partition, self._cluster.cache.topic_id(batch.topic_partition.topic), batch.encoded
            )
            for _, batch in request.entries
            if batch.encoded is not None
        ]
        limit_ms = self._cluster.config.request_timeout_ms
        timeout_ms = limit_ms - min(ANSWER_GRACE_MS, limit_ms // 3)  # the answer names what waited in vain, and is here
        transactional_id = self._transaction.on_sent() if self._transaction is not None else ""
        call = ProduceRequest(self._acks, timeout_ms, parts, self._acks != 0, transactional_id)
        self._ended.note_request([batch for _, batch in request.entries], sum(len(part.records) for part in parts))
        link.submit(request, call)

    def _leave_old_leaders(self, now_ms: int) -> None:
        """Takes from silent brokers what others lead by now, and asks the others about the rest."""
        silent: list[Endpoint] = []
        for node_id, link in tuple(self._links.items()):
            since_ms = link.silent_since_ms
            is_silent = since_ms is not None and now_ms >= since_ms + SILENCE_MS
            waiting = link.unanswered if is_silent else link.aside_since(now_ms - SILENCE_MS)
            if not waiting:
                continue
            for request in waiting:
                self._ended.apply(self._dispatcher.take_back(request, now_ms))
                if not request.pending():
                    link.forget(request)
            if any(request.pending() for request in waiting):
                silent.append(link.connection.endpoint)
            elif is_silent:  # the stream may hold what was taken back: end it, so that it is not written late
                del self._links[node_id]
                link.break_off(NetworkError(f"{link.connection.endpoint}: silent, and leads nothing that waits"))
        if silent and now_ms >= self._ask_around_at_ms:
            self._ask_around_at_ms = now_ms + ASK_AROUND_MS
            self._cluster.refresh_soon(avoid=silent)

    def _next_look_at_silence_ms(self) -> int | None:
        """When the next broker counts as silent, or the others are asked again about one that does."""
        since = [link.silent_since_ms for link in self._links.values()]
        since += [request.part_ms for link in self._links.values() for request in link.aside]
        silent_at = [since_ms + SILENCE_MS for since_ms in since if since_ms is not None]
        return max(min(silent_at), self._ask_around_at_ms) if silent_at else None

    def _check_time_outs(self, now_ms: int) -> None:
        """Breaks the stream of an unanswered request: it is not known whether others on it will be answered. A request
        that was answered in part does not break its stream, which works."""
        for link in self._links.values():
            for request in link.aside:
                if request.deadline_ms <= now_ms:
                    link.forget(request)
                    self._ended.apply(self._dispatcher.on_timed_out(request, now_ms))
            deadline_ms = link.oldest_deadline_ms
            if deadline_ms is not None and deadline_ms <= now_ms:
                limit_ms = self._cluster.config.request_timeout_ms
                link.break_off(RequestTimedOutError(f"{link.connection.endpoint}: no answer within {limit_ms} ms"))

    def _set_timer(self, now_ms: int, due_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = [due_ms, self._dispatcher.next_ms, self._dispatcher.failures.expiry_ms]
        times += [link.oldest_deadline_ms for link in self._links.values()]
        times += [request.deadline_ms for link in self._links.values() for request in link.aside]
        times.append(self._next_look_at_silence_ms())
        throttled = [link.throttled_until_ms for link in self._links.values()]
        times += [until_ms for until_ms in throttled if until_ms > now_ms]
        has_ready = self._partitions.has_ready
        if has_ready:
            times.append(now_ms + DELIVERY_CHECK_MS)
        is_waiting = has_ready or any(link.unanswered for link in self._links.values())
        times.append(self._stall.look(now_ms, self._ended.batches_acked, is_waiting=is_waiting))
        if (known := [time_ms for time_ms in times if time_ms is not None]) and self._loop is not None:
            next_ms = max(min(known), now_ms)
            self._timer = self._loop.call_later(max(next_ms - now_ms, 1) / 1000, self._pump)
            self._next_look_ms = next_ms

    # -- what links report ---------------------------------------------------------------------------------------------

    def _on_answer(self, request: OutboundRequest, answer: ProduceResponse | None) -> None:
        """An answer, or None: acks=0, the request is written."""
        now_ms = self._cluster.clock.now_ms()
        if answer is None:
            self._ended.apply(self._dispatcher.on_unanswered(request))
        else:
            self._ended.note_latency(now_ms - request.sent_ms)
            self._ended.apply(self._dispatcher.on_answer(request, answer, now_ms))
        self._pump()

    def _on_broken(self, requests: list[OutboundRequest], error: ApiError) -> None:
        now_ms = self._cluster.clock.now_ms()
        self._ended.apply(self._dispatcher.on_broken(requests, error, now_ms))
        self.wake()

    async def _ask_id(self) -> ProducerIdAndEpoch:
        now_ms = self._cluster.clock.now_ms()
        return await init_producer_id(self._cluster, now_ms + self._cluster.config.request_timeout_ms)

    def on_producer_id(self, producer_id: ProducerIdAndEpoch) -> None:
        """New batches are of this id and epoch from now on."""
        self._dispatcher.on_producer_id(producer_id)
        self._pump()

    def _on_no_producer_id(self, error: PenstockError, is_final: bool) -> None:
        self._ended.apply(self._dispatcher.on_no_producer_id(error, is_final=is_final))
        self.wake()

    async def close(self) -> None:
        """Stops; whatever was not acked fails with ClientClosedError. Idempotent."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._accumulator.close_all()
        links, self._links = list(self._links.values()), {}
        for link in links:
            for request in link.take_unanswered():
                self._ended.apply(give_up(request))
        self._ended.apply(abandon(self._partitions.queues()))
        await asyncio.gather(self._ids.close(), *(link.close() for link in links))

    def statistics(self) -> ProducerStatistics:
        in_flight = sum(len(link.unanswered) for link in tuple(self._links.values()))
        return self._ended.statistics(in_flight)

    def __repr__(self) -> str:
        return f"Sender(brokers={sorted(self._links)}, {self._accumulator!r})"
