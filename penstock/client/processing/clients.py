"""The consumer and the producer of a processor, plain or async, behind calls that the core awaits.

A plain client's call has its result at once, so awaiting it never suspends, and `finished` (faces.py) runs the core to
its end without an event loop. An async client's call gives a coroutine. So both faces have one core, and this is all
in which they differ.

A consumer is *unsettled* from before a poll until what the poll gave is committed, or read again: its positions may be
ahead of what is committed. That, and the partitions that a processor has paused, is marked on the consumer, so whatever
ends a processor, the next one with this consumer begins where the group has committed, and reads all partitions. Not
here: when that is so (processing_core.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.consumer.groups.auto_commit import user_positions
from penstock.client.consumer.groups.commits import ToCommit
from penstock.client.processing.output import Output
from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.messages.metadata import TopicInfo
from penstock.types import TopicPartition

T = TypeVar("T")

NAMED_MAX: Final = 8
"""Partitions that a warning names."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Mark:
    """The traces of processors on one consumer."""

    is_unsettled: bool = False
    held: set[TopicPartition] = field(default_factory=set)
    warned: set[TopicPartition] = field(default_factory=set)


_MARKS: Final[WeakKeyDictionary[Any, _Mark]] = WeakKeyDictionary()


class Clients:
    """The consumer and the producer of one processor. `awaits`: they are async clients."""

    def __init__(self, consumer: Any, producer: Any, *, awaits: bool) -> None:
        self._consumer, self._producer, self.awaits = consumer, producer, awaits
        self._mark = _MARKS.setdefault(consumer, _Mark())
        self._committed: dict[TopicPartition, int] = {}

    async def _result(self, called: Any) -> Any:
        return await called if self.awaits else called

    @property
    def batch_ms_max(self) -> int:
        """The age at which a batch is committed: half of the transaction's time-out, or half of the time that may pass
        between two polls if that is less."""
        consumer, producer = self._consumer._core.config, self._producer._core.config
        return min(int(consumer.max_poll_interval_ms), int(producer.transaction_timeout_ms)) // 2

    @property
    def names(self) -> tuple[str, str]:
        """The group, and the transactional id."""
        return self._consumer._core.config.group_id or "", self._producer._core.config.transactional_id or ""

    @property
    def has_something_to_read(self) -> bool:
        """True if the consumer has subscribed, or partitions are assigned to it."""
        return bool(self._consumer.subscription() or self._consumer.assignment())

    # -- the consumer --------------------------------------------------------------------------------------------------

    @property
    def is_unsettled(self) -> bool:
        return self._mark.is_unsettled

    def unsettle(self) -> None:
        """Marks the consumer as unsettled, BEFORE a poll."""
        self._mark.is_unsettled = True

    def settle(self) -> None:
        """Marks the consumer as settled, AFTER everything that polls gave is committed, or is the next again."""
        self._mark.is_unsettled = False

    async def poll(self, timeout_ms: int, records_max: int | None) -> Sequence[ConsumerRecord]:
        records: Sequence[ConsumerRecord] = await self._result(self._consumer.poll(timeout_ms, records_max))
        self._warn_of_what_is_skipped()
        return records

    def _warn_of_what_is_skipped(self) -> None:
        """A group that begins at the ends of its topics has passed over what was there: told once for a partition."""
        states = self._consumer._core.positions.states
        skipping = {partition for partition, state in states.items() if state.skips_what_is_there} - self._mark.warned
        if not skipping:
            return
        self._mark.warned |= skipping
        named = [str(partition) for partition in sorted(skipping)]
        more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
        _log.warning(
            "%s%s: group %r has committed nothing there, and auto_offset_reset is 'latest': records that are there"
            " already are not processed; make the consumer with auto_offset_reset='earliest' to process them",
            ", ".join(named[:NAMED_MAX]),
            more,
            self.names[0],
        )

    async def go_to(self, places: Mapping[TopicPartition, int]) -> None:
        """The next records are these, in each partition that the consumer still has."""
        for partition, offset in places.items():
            with suppress(PenstockError, ValueError, KeyError):  # it has another owner, or is gone
                await self._result(self._consumer.seek(partition, offset))

    async def go_to_committed(self) -> None:
        """Moves each partition that polls have read back to the group's committed offset. A partition that the user has
        sought since then stays where it is."""
        if polled := polled_partitions(self._consumer):
            await self._result(self._consumer.seek_to_committed(*polled))

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        """Polls give nothing of these partitions, and keep the consumer in its group."""
        for partition in partitions:
            self._mark.held.add(partition)
            with suppress(PenstockError, ValueError, KeyError):
                self._consumer.pause([partition])

    def release(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """The end of `hold`, for these partitions or for all."""
        for partition in tuple(self._mark.held) if partitions is None else partitions:
            with suppress(PenstockError, ValueError, KeyError):
                self._consumer.resume([partition])
            self._mark.held.discard(partition)

    def note_committed(self, ends: Mapping[TopicPartition, ConsumerRecord]) -> None:
        """Notes the positions behind these records, AFTER the transaction with them is committed."""
        self._committed |= {partition: record.offset + 1 for partition, record in ends.items()}

    async def commit_passed(self) -> None:
        """Commits positions that have moved without a record: past the ends of transactions. Nothing is made of those,
        so no transaction is needed."""
        positions = {partition: to.offset for partition, to in self._positions().items()}
        if any(self._committed.get(partition) != offset for partition, offset in positions.items()):
            await self._result(self._consumer.commit())
            self._committed = positions

    def _positions(self) -> dict[TopicPartition, ToCommit]:
        return user_positions(self._consumer._core.positions.states.values())

    async def topics_to_read(self) -> list[TopicInfo]:
        """The topics of the consumer, as far as they are told: a poll says what is wrong with others."""
        found: list[TopicInfo] = []
        assigned = {partition.topic for partition in self._consumer.assignment()}
        for topic in sorted(assigned | set(self._consumer.subscription())):
            with suppress(PenstockError, ValueError):
                await self._result(self._consumer.partitions_for(topic))
                if (info := self._consumer._core.cluster.cache.topic(topic)) is not None:
                    found.append(info)
        return found

    # -- the producer --------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        await self._result(self._producer.begin_transaction())

    async def send(self, output: Output) -> None:
        sent = self._producer.send(*output)
        if self.awaits:
            await sent

    async def topic_to_write(self, topic: str) -> TopicInfo | None:
        """The topic as the producer finds it; raises where it does not exist, or may not be seen."""
        await self._result(self._producer.partitions_for(topic))
        found: TopicInfo | None = self._producer._core.cluster.cache.topic(topic)
        return found

    @property
    def max_request_size(self) -> int:
        return int(self._producer._core.config.max_request_size)

    async def send_offsets(self, behind: Mapping[TopicPartition, ConsumerRecord] | None) -> None:
        """The positions behind these records, or where the consumer stands."""
        if behind is None:
            await self._result(self._producer.send_offsets(self._consumer))
        else:
            positions = {partition: record.position for partition, record in behind.items()}
            await self._result(self._producer.send_offsets(self._consumer, positions))

    async def commit(self) -> None:
        await self._result(self._producer.commit_transaction())

    async def abort(self) -> None:
        await self._result(self._producer.abort_transaction())

    def __repr__(self) -> str:
        return f"Clients({self._consumer!r}, {self._producer!r})"


def polled_partitions(consumer: Any) -> list[TopicPartition]:
    """The partitions whose positions polls may have moved since they were assigned, or sought."""
    states = consumer._core.positions.states
    return [tp for tp, state in states.items() if state.read.generation == state.generation]


def note_polls(consumer: Any) -> None:
    """A consumer that was polled by hand may be ahead of what is committed."""
    states = consumer._core.positions.states
    if any(states[partition].read.offset >= 0 for partition in polled_partitions(consumer)):
        _MARKS.setdefault(consumer, _Mark()).is_unsettled = True
