"""Has the markers of decided transactions written by the leaders of their partitions, each until it is.

    send ──► the partition's leader, by the image ──► its broker's calls ──► written: the last one ends it
                 ▲            └─ deleted: counts as written      │
                 └──── back-off, or another leads ◄──── failed ◄─┘    for ever: a decision is never undone

Each partition is tried alone: one without a leader, or a broker that hangs, holds up no other partition or transaction.
There is one object for each transaction that is decided and not ended, which are no more than the transactional ids.
Not here: the decision (ending.py), and the call of one broker (marker_calls.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Final

from broker.coordination.timers import Timers
from broker.coordination.wake_up import WakeUp
from broker.network.broker_calls import CallBroker
from broker.transactions.coordinator.marker_calls import CALL_MS, MarkerCalls
from broker.transactions.coordinator.sent_end import NOBODY, SentEnd
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from penstock.backoff import Backoff
from penstock.clock import Clock
from penstock.errors import LeaderNotAvailableError
from penstock.messages.transactions.markers import MarkedPartition
from penstock.throttled_lines import ThrottledLines
from penstock.types import NO_LEADER, TopicPartition

_log = logging.getLogger(__name__)

RETRY_MS, RETRY_MS_MAX = 20, 1_000
"""The pause between two tries of a partition, and between two calls of a broker that does not answer."""
FAILING_ATTEMPTS: Final = 8
"""The failed tries after which a partition counts as failing; that is after about 3 seconds."""


class MarkerSender:
    """Has the markers of decided transactions written. There is one per broker, used on the event loop, from its making
    to `stop`."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        call: CallBroker,
        clock: Clock,
        random: Random,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._image, self._call, self._clock, self._on_fatal = image, call, clock, on_fatal
        self._lines = ThrottledLines(clock.now_ms)
        self._backoff = Backoff(RETRY_MS, RETRY_MS_MAX, random)
        self._calls: dict[int, MarkerCalls] = {}
        self._ends: dict[SentEnd, None] = {}
        """The decided transactions that are not ended, in the order in which they came."""
        self._resting: Timers[None] = Timers()
        self._wake = WakeUp(clock.now_ms, self._woken)
        self._failing: set[tuple[SentEnd, TopicPartition]] = set()
        self._newest_ms = 0
        self.open_partitions = 0
        self.written = 0
        self.failures = 0

    def stamp_ms(self, decided_ms: int) -> int:
        """The stamp of the decision that is sent next: its time by the calendar. Invariant: it rises with each decision
        of this process, also where the calendar is set back. With version 1 a leader takes an end whose stamp is not
        above that of the last one for a call that comes late, and does not write it."""
        self._newest_ms = max(decided_ms, self._newest_ms + 1)
        return self._newest_ms

    def send(self, sent: SentEnd) -> None:
        """Sends a marker until every partition has it or it is withdrawn."""
        self._ends[sent] = None
        self.open_partitions += len(sent.open)
        if not sent.open:
            self._end(sent)
        for partition in tuple(sent.open):
            self._route(sent, partition)

    def withdraw(self, sent: SentEnd) -> None:
        """The coordinator's partition is led by another broker, which sends it."""
        if sent not in self._ends:
            return
        del self._ends[sent]
        sent.is_withdrawn = True
        self.open_partitions -= len(sent.open)
        for partition in sent.open:
            self._leave(sent, partition)

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A publisher of the metadata calls this. A marker whose partition has another leader now is sent to that one
        at once."""
        if not self._ends or not (delta.changed_topics or delta.deleted_topic_ids or delta.changed_brokers):
            return
        for sent in tuple(self._ends):
            for partition, state in tuple(sent.open.items()):
                if self._leader(image, partition) != state.broker_id:
                    self._leave(sent, partition)
                    self._route(sent, partition)

    async def stop(self) -> None:
        self._wake.cancel()
        for sent in tuple(self._ends):
            self.withdraw(sent)
        for calls in self._calls.values():
            await calls.stop()

    # -- each partition ------------------------------------------------------------------------------------------------

    @staticmethod
    def _leader(image: MetadataImage, partition: TopicPartition) -> int | None:
        """The broker that leads the partition; NOBODY if it has no leader now, None if the partition was deleted."""
        state = image.partition(*partition)
        if state is None:
            return None
        is_there = state.leader_id != NO_LEADER and state.leader_id in image.brokers
        return state.leader_id if is_there else NOBODY

    def _route(self, sent: SentEnd, partition: TopicPartition) -> None:
        leader_id = self._leader(self._image(), partition)
        if leader_id is None:
            self._written(sent, partition)
        elif leader_id == NOBODY:
            sent.open[partition].broker_id = NOBODY
            self._rest(sent, partition, LeaderNotAvailableError(f"{partition} has no leader"))
        else:
            self._calls_of(leader_id).add(sent, partition)

    def _calls_of(self, broker_id: int) -> MarkerCalls:
        calls = self._calls.get(broker_id)
        if calls is None:
            calls = self._calls[broker_id] = MarkerCalls(
                broker_id=broker_id,
                call=lambda request: self._call(broker_id, request, CALL_MS),
                named=self._named,
                marked=self._written,
                not_marked=self._failed,
                backoff=self._backoff,
                on_fatal=self._on_fatal,
            )
        return calls

    def _named(self, partition: TopicPartition) -> MarkedPartition:
        state = self._image().partition(*partition)
        if state is None:  # deleted a moment ago: it is told so by `published`
            return MarkedPartition(partition, "")
        return MarkedPartition(partition, state.topic_id, state.leader_epoch)

    def _written(self, sent: SentEnd, partition: TopicPartition) -> None:
        self._leave(sent, partition)
        del sent.open[partition]
        self.open_partitions -= 1
        self.written += 1
        if not sent.open:
            self._end(sent)

    def _end(self, sent: SentEnd) -> None:
        del self._ends[sent]
        asyncio.get_running_loop().call_soon(sent.when_written)

    def _failed(self, sent: SentEnd, partition: TopicPartition, error: Exception) -> None:
        self.failures += 1
        self._rest(sent, partition, error)

    def _rest(self, sent: SentEnd, partition: TopicPartition, why: Exception) -> None:
        state = sent.open[partition]
        state.asked = None
        state.attempts += 1
        if state.attempts == FAILING_ATTEMPTS and (more := self._lines.due(partition)) is not None:
            name = sent.end.transactional_id
            _log.warning("the marker of %r is not written in %s yet: %s%s", name, partition, why, more)
        if state.attempts >= FAILING_ATTEMPTS:
            self._failing.add((sent, partition))
        at_ms = self._clock.now_ms() + self._backoff.wait_ms(state.attempts)
        self._resting.set((sent, partition), at_ms, lambda _: self._route(sent, partition))
        self._wake.by(at_ms)

    def _leave(self, sent: SentEnd, partition: TopicPartition) -> None:
        """Takes the partition out of every queue; it rests no more, and the answer of a call that names it counts for
        nothing."""
        state = sent.open[partition]
        self._resting.cancel((sent, partition))
        self._failing.discard((sent, partition))
        if state.broker_id in self._calls:
            self._calls[state.broker_id].forget(sent, partition)
        state.asked = None

    def _woken(self) -> None:
        for action in self._resting.take_due(self._clock.now_ms()):
            action(None)
        self._wake.by(self._resting.next_ms)

    # -- figures -------------------------------------------------------------------------------------------------------

    @property
    def failing(self) -> int:
        """Partitions whose marker has failed for a while."""
        return len(self._failing)

    @property
    def oldest_ms(self) -> int:
        """The age of the oldest transaction that waits for markers; 0 without one. May be read in any thread."""
        ends = tuple(self._ends)
        return max(0, self._clock.now_ms() - ends[0].began_ms) if ends else 0

    def __repr__(self) -> str:
        return f"MarkerSender({len(self._ends)} transactions, {self.open_partitions} partitions open)"
