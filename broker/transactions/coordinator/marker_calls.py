"""The markers for one broker: all that wait when a call begins are in it, up to its limit.

The answer to a call comes when the last of its partitions has committed its marker. A call that takes longer than
PATIENCE_MS holds up nobody else: the next one begins beside it, without the partitions that it names. A partition whose
last call failed, or was so late, is troubled until a marker of it is written: it is in calls of such partitions alone,
which nobody waits for. At most LATE_MAX calls of either kind are beside each other, so a broker that hangs holds few of
them, and what waits for it is bounded by the transactions there are.

A partition is named by one call at a time. What failed is told to the sender, which looks for the leader anew and asks
again after its back-off (marker_sender.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from broker.call_queue import CallQueue
from broker.transactions.coordinator.sent_end import Marked, NotMarked, SentEnd
from penstock.backoff import Backoff
from penstock.errors import ApiError, NetworkError
from penstock.lazy_dataclass import dataclass
from penstock.messages.transactions.markers import MarkedPartition, WriteTxnMarkersRequest, WriteTxnMarkersResponse
from penstock.types import TopicPartition

PARTITIONS_MAX: Final = 5_000
"""Markers of one call; the API takes four times as many."""
CALL_MS: Final = 15_000
"""The time of one call, above that which a leader takes for its answer (transaction_markers.py). Its partitions are
then asked about anew, perhaps of another broker."""
PATIENCE_MS: Final = 100
"""Longer than a commit takes on disks that are well."""
LATE_MAX: Final = 8
"""Calls that were overtaken, at a time; of each kind."""

Call = Callable[[WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]]
Named = Callable[[TopicPartition], MarkedPartition]
"""A partition with what the metadata says of it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """One call: its transactions in the order of the request, each with its partitions."""

    request: WriteTxnMarkersRequest
    ends: tuple[tuple[SentEnd, tuple[TopicPartition, ...]], ...]
    is_of_troubled: bool

    @property
    def partitions(self) -> Counter[TopicPartition]:
        return Counter(partition for _, partitions in self.ends for partition in partitions)


class MarkerCalls:
    """Sends the markers for one broker; it is the core of its queue. Used on the event loop, from its making to
    `stop`."""

    def __init__(
        self,
        broker_id: int,
        call: Call,
        named: Named,
        marked: Marked,
        not_marked: NotMarked,
        backoff: Backoff,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.broker_id = broker_id
        self._call, self._named = call, named
        self._marked, self._not_marked, self._on_fatal = marked, not_marked, on_fatal
        self._waiting: dict[SentEnd, dict[TopicPartition, None]] = {}
        self._troubled: set[TopicPartition] = set()
        self._asked: _Asked | None = None
        self._slow: Counter[TopicPartition] = Counter()
        """Partitions of the calls that were overtaken."""
        self._late: dict[bool, set[asyncio.Future[WriteTxnMarkersResponse]]] = {False: set(), True: set()}
        """The overtaken calls that are under way; the key says if they are of troubled partitions."""
        self._queue: CallQueue[_Asked, WriteTxnMarkersResponse | None]
        self._queue = CallQueue(f"transaction-markers-{broker_id}", self, self._ask, backoff, on_fatal)
        self._queue.start()

    def add(self, sent: SentEnd, partition: TopicPartition) -> None:
        """Have the marker written there."""
        state = sent.open[partition]
        state.broker_id, state.asked = self.broker_id, self
        if state.attempts:
            self._troubled.add(partition)
        self._waiting.setdefault(sent, {})[partition] = None
        self._queue.wake()

    def forget(self, sent: SentEnd, partition: TopicPartition) -> None:
        """The marker of the partition need not be asked for; does nothing if it is not waiting."""
        of_end = self._waiting.get(sent)
        if of_end is not None and partition in of_end:
            del of_end[partition]
            if not of_end:
                del self._waiting[sent]

    async def stop(self) -> None:
        await self._queue.stop()
        late = [task for tasks in self._late.values() for task in tasks]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    # -- the core of the queue -----------------------------------------------------------------------------------------

    def next_request(self) -> _Asked | None:
        for is_of_troubled in (False, True):
            taken = self._take(is_of_troubled) if len(self._late[is_of_troubled]) < LATE_MAX else ()
            if taken:
                markers = tuple(sent.marker(tuple(map(self._named, partitions))) for sent, partitions in taken)
                asked = _Asked(WriteTxnMarkersRequest(markers), tuple(taken), is_of_troubled)
                for sent, partitions in taken:
                    for partition in partitions:
                        sent.open[partition].asked = asked
                self._asked = asked
                return asked
        self._asked = None
        return None

    def _take(self, is_of_troubled: bool) -> list[tuple[SentEnd, tuple[TopicPartition, ...]]]:
        taken: list[tuple[SentEnd, tuple[TopicPartition, ...]]] = []
        left, slow, troubled = PARTITIONS_MAX, self._slow, self._troubled
        for sent, of_end in self._waiting.items():
            partitions = tuple(one for one in of_end if (one in troubled) is is_of_troubled and one not in slow)[:left]
            if partitions:
                taken.append((sent, partitions))
                left -= len(partitions)
                if not left:
                    break
        for sent, partitions in taken:
            for partition in partitions:
                self.forget(sent, partition)
        return taken

    def answered(self, answer: WriteTxnMarkersResponse | None, attempt: int) -> bool:
        asked, self._asked = self._asked, None
        if answer is not None and asked is not None:
            self._tell(asked, answer)
        return True

    def failed(self, error: ApiError, attempt: int) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            self._give_back(asked, error)

    async def _ask(self, asked: _Asked) -> WriteTxnMarkersResponse | None:
        """None if the answer takes long: it is told when it is there."""
        task = asyncio.ensure_future(self._call(asked.request))
        try:
            await asyncio.wait((task,), timeout=0 if asked.is_of_troubled else PATIENCE_MS / 1000)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            return task.result()
        self._late[asked.is_of_troubled].add(task)
        self._slow.update(asked.partitions)
        self._troubled.update(asked.partitions)
        task.add_done_callback(lambda done: self._answered_late(asked, done))
        return None

    def _answered_late(self, asked: _Asked, task: asyncio.Future[WriteTxnMarkersResponse]) -> None:
        self._late[asked.is_of_troubled].discard(task)
        if task.cancelled():
            return
        self._slow -= asked.partitions
        error = task.exception()
        if error is None:
            self._tell(asked, task.result())
        elif isinstance(error, ApiError):
            self._give_back(asked, error)
        else:
            self._on_fatal(error)
        self._queue.wake()

    # -- answers -------------------------------------------------------------------------------------------------------

    def _tell(self, asked: _Asked, answer: WriteTxnMarkersResponse) -> None:
        if len(answer.markers) != len(asked.ends):
            self._give_back(asked, NetworkError(f"broker {self.broker_id} has answered another request"))
            return
        for (sent, partitions), answered in zip(asked.ends, answer.markers, strict=True):
            results = {result.partition: result for result in answered.partitions}
            for partition in partitions:
                result = results.get(partition)
                if result is None:
                    self._failed_one(asked, sent, partition, NetworkError("the answer leaves the partition out"))
                elif result.error is not None:
                    self._failed_one(asked, sent, partition, result.error)
                else:
                    self._troubled.discard(partition)
                    if partition in sent.open and not sent.is_withdrawn:
                        self._marked(sent, partition)

    def _give_back(self, asked: _Asked, error: ApiError) -> None:
        for sent, partitions in asked.ends:
            for partition in partitions:
                self._failed_one(asked, sent, partition, error)

    def _failed_one(self, asked: _Asked, sent: SentEnd, partition: TopicPartition, error: ApiError) -> None:
        self._troubled.add(partition)
        state = sent.open.get(partition)
        if state is not None and state.asked is asked and not sent.is_withdrawn:
            self._not_marked(sent, partition, error)

    def __repr__(self) -> str:
        late = sum(map(len, self._late.values()))
        return f"MarkerCalls(broker {self.broker_id}, {len(self._waiting)} transactions wait, {late} calls are late)"
