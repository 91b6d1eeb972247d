"""The readers of a simulated cluster: each reads one topic, as its plan says, and tells the ledger what it was given.

`FOLLOW` polls from the beginning. `RESTART` does too, and now and then goes back a little, by a seek or as a new
consumer, and pauses and resumes partitions. `RANGES` asks for raw ranges of offsets, drawn from what can be read.
`SHORT` follows, and some of its polls fail for want of memory. A reader may be refused for a while and asks again; what
it may not do is go past a record. Nothing may be gone but what somebody may have deleted, of which the ledger knows.
Where a topic is deleted and made anew, its readers begin again with the new log. Partitions that a topic gets are read
from offset 0: by those that follow, with a consumer that finds their first record by itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock import AsyncConsumer, TopicPartition
from penstock.errors import (
    CorruptMessageError,
    LogTruncationError,
    OffsetOutOfRangeError,
    PenstockError,
    UndecodableBatchError,
)
from penstock.record.reader import RecordColumns, read_columns
from tests.simulation.cluster.clients.cores import core_of
from tests.simulation.cluster.clients.operators import require_deleted
from tests.simulation.cluster.plan import ReaderKind, ReaderPlan, TopicKind

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

RETRY_SECONDS = 0.2
POLL_RECORDS_MAX = 500
BACK_MAX = 200
"""A reader that begins again goes back by up to so many records."""
RESTART_SHARE = 0.05
"""A `RESTART` reader begins again after so many of its polls."""
LOOK_SHARE = 0.1
"""A reader looks before so many of its polls whether its topic has more partitions, where it has."""
PAUSE_SHARE = 0.1
"""A `RESTART` reader pauses a partition before so many of its polls, or resumes those that are paused."""
SHORT_SHARE = 0.1
"""A `SHORT` reader finds no memory for so many of the pieces that it decodes."""
RANGE_MAX = 400
RANGE_FETCH_BYTES = 4_096
LOST = (OffsetOutOfRangeError, LogTruncationError, CorruptMessageError, UndecodableBatchError)
"""The errors that no reader of a log may ever get, unless the records that it asked for may have been deleted."""


class Reader:
    """One of them; its name in the ledger is its own."""

    def __init__(self, clients: Clients, number: int, plan: ReaderPlan) -> None:
        self.clients, self.plan = clients, plan
        self.name = f"reader-{number}"
        self._draw = random.Random(clients.network.scheduler.draw.getrandbits(64))

    async def read(self) -> None:
        """Until everything that was written has been read."""
        while True:
            log = await self._next_log()
            is_over = await (self._ranges(log) if self.plan.kind is ReaderKind.RANGES else self._follow(log))
            if is_over:
                return

    async def _next_log(self) -> int:
        while True:
            log = self.clients.logs.get(self.plan.topic)
            if log is not None:
                return log
            await asyncio.sleep(RETRY_SECONDS)

    def _is_current(self, log: int) -> bool:
        return self.clients.logs.get(self.plan.topic) == log

    def _has_read(self, log: int) -> bool:
        return has_read(self.clients, self.name, log, self.clients.partitions(self.plan.topic))

    def _lost(self, log: int, error: PenstockError) -> None:
        """The ledger hears of an error that says that something is lost."""
        if isinstance(error, LOST) and self._is_current(log):
            self.clients.ledger.report("told-lost", f"{self.name} of {self.plan.topic} was told {error!r}")

    # -- by polls ------------------------------------------------------------------------------------------------------

    async def _follow(self, log: int) -> bool:
        """False: the topic is another one by now."""
        partitions: list[TopicPartition] = []
        self._meet(log, partitions, self.clients.partitions(self.plan.topic))
        # Of a topic that grows, what is new must be read from the beginning also by who begins others at the end.
        options = {"auto_offset_reset": "latest"} if self.clients.grows(self.plan.topic) else {}
        while not self._has_read(log):
            async with await opened(self.clients, **options) as consumer:
                if self.plan.kind is ReaderKind.SHORT:
                    self._be_short(consumer)
                if not await self._poll_on(consumer, log, partitions):
                    return False
        return True

    def _meet(self, log: int, known: list[TopicPartition], there: Sequence[TopicPartition]) -> bool:
        """Takes partitions that the reader did not know into `known`; False if there are none."""
        new = there[len(known) :]
        for tp in new:
            self.clients.ledger.begin_range(self.name, log, tp.partition, 0)
        known += new
        return bool(new)

    def _be_short(self, consumer: AsyncConsumer) -> None:
        """From now on decoding finds no memory now and then."""
        core = core_of(consumer)
        decode = core.read_columns

        def maybe_decode(records: bytes, from_offset: int) -> RecordColumns:
            if self._draw.random() < SHORT_SHARE:
                raise MemoryError
            return decode(records, from_offset)

        core.read_columns = maybe_decode  # type: ignore[method-assign]

    async def _poll_on(self, consumer: AsyncConsumer, log: int, partitions: list[TopicPartition]) -> bool:
        """Until the end, or a restart as a new consumer. False: the topic is another one by now."""
        is_assigned, has_news = False, False
        while not self._has_read(log):
            if not self._is_current(log):
                return False
            try:
                if not is_assigned:
                    await self._assign(consumer, log, partitions)
                    is_assigned, has_news = True, False
                elif has_news or self._looks(log, partitions):
                    has_news = True  # until the assignment worked: a broker may not have heard of them
                    await consumer.assign(partitions)
                    has_news = False
                is_assigned = await self._poll(consumer, log)
            except OffsetOutOfRangeError as error:
                if not await self._skip_deleted(consumer, log, partitions):
                    self._lost(log, error)
            except PenstockError as error:
                if not await self._notices_a_cut(consumer, log, error):
                    self._lost(log, error)
                    await asyncio.sleep(RETRY_SECONDS)
            except MemoryError:
                self.clients.refused["MemoryError"] += 1
            await asyncio.sleep(self.plan.pause_s)
            if self._begins_again():
                self._go_back(log, partitions)
                if self._draw.random() < 0.5:
                    return True
                is_assigned = False
        return True

    def _looks(self, log: int, partitions: list[TopicPartition]) -> bool:
        """True if the reader looks for new partitions now, and finds some. At the end it always looks."""
        there = self.clients.partitions(self.plan.topic)
        if len(there) <= len(partitions) or (self.clients.ends is None and self._draw.random() > LOOK_SHARE):
            return False
        return self._meet(log, partitions, there)

    async def _notices_a_cut(self, consumer: AsyncConsumer, log: int, error: PenstockError) -> bool:
        """Seeks in a topic that may lose records: back to where its records may be others now."""
        topic = next(topic for topic in self.clients.plan.topics if topic.name == self.plan.topic)
        if topic.kind is not TopicKind.LOSSY or not isinstance(error, LogTruncationError):
            return False
        self.clients.ledger.begin_range(self.name, log, error.partition, error.divergent_offset)
        await consumer.seek(TopicPartition(error.topic, error.partition), error.divergent_offset)
        return True

    def _begins_again(self) -> bool:
        is_wanted = self.plan.kind is ReaderKind.RESTART and self.clients.ends is None
        return is_wanted and self._draw.random() < RESTART_SHARE

    def _go_back(self, log: int, partitions: Sequence[TopicPartition]) -> None:
        ledger = self.clients.ledger
        for tp in partitions:
            offset = ledger.next_offset(self.name, log, tp.partition) - self._draw.randrange(BACK_MAX)
            ledger.begin_range(self.name, log, tp.partition, max(0, offset))

    async def _assign(self, consumer: AsyncConsumer, log: int, partitions: list[TopicPartition]) -> None:
        if self.clients.grows(self.plan.topic):
            self._meet(log, partitions, await consumer.partitions_for(self.plan.topic))
        await consumer.assign(partitions)
        for tp in partitions:
            await consumer.seek(tp, self.clients.ledger.next_offset(self.name, log, tp.partition))

    async def _poll(self, consumer: AsyncConsumer, log: int) -> bool:
        """False: what came is of an earlier topic of that name. A broker that does not hear of the newer one, because
        the disk of its metadata is full, still serves it to whoever asks that broker first."""
        self._maybe_pause(consumer)
        records = await consumer.poll(200, max_records=POLL_RECORDS_MAX)
        if given := {record.partition for record in records} & {tp.partition for tp in consumer.paused()}:
            self.clients.ledger.report("paused-read", f"{self.name} was given records of {given}, which are paused")
        if not self._is_current(log):
            return True
        topic_id, states = self.clients.topic_ids[self.plan.topic], core_of(consumer).positions.states
        if any(state.topic_id not in ("", topic_id) for state in states.values()):
            self.clients.calls["earlier topics read"] += 1
            return False
        for record in records:
            self.clients.ledger.read(self.name, log, record.partition, (record.offset,), (record.value,))
        return True

    def _maybe_pause(self, consumer: AsyncConsumer) -> None:
        """At the end nothing stays paused."""
        paused = consumer.paused()
        if paused and (self.clients.ends is not None or self._draw.random() < PAUSE_SHARE):
            consumer.resume(paused)
        elif self.plan.kind is ReaderKind.RESTART and self.clients.ends is None and self._draw.random() < PAUSE_SHARE:
            consumer.pause([self._draw.choice(consumer.assignment())])

    async def _skip_deleted(self, consumer: AsyncConsumer, log: int, partitions: Sequence[TopicPartition]) -> bool:
        """Goes to the beginning of what is left where the reader is behind it; False: nothing may have been deleted."""
        ledger = self.clients.ledger
        behind = [
            tp for tp in partitions
            if ledger.next_offset(self.name, log, tp.partition) < ledger.floor(log, tp.partition)
        ]  # fmt: skip
        if not behind:
            return False
        try:
            begins = await consumer.beginning_offsets(behind)
            for tp, begin in begins.items():
                if begin > ledger.next_offset(self.name, log, tp.partition):
                    ledger.begin_behind_deleted(self.name, log, tp.partition, begin)
                await consumer.seek(tp, ledger.next_offset(self.name, log, tp.partition))
        except PenstockError as error:
            self._lost(log, error)
        return True

    # -- by ranges -----------------------------------------------------------------------------------------------------

    async def _ranges(self, log: int) -> bool:
        """Ranges of drawn partitions, again and again; at last every partition whole."""
        small = {"max_partition_fetch_bytes": RANGE_FETCH_BYTES, "fetch_max_bytes": RANGE_FETCH_BYTES}
        async with await opened(self.clients, **small) as consumer:
            while self.clients.ends is None:
                if not self._is_current(log):
                    return False
                tp = self._draw.choice(self.clients.partitions(self.plan.topic))
                try:
                    end = (await consumer.end_offsets([tp]))[tp]
                    await self._range(consumer, log, tp, max(0, end - self._draw.randrange(1, RANGE_MAX)), end)
                except OffsetOutOfRangeError as error:
                    if self.clients.ledger.floor(log, tp.partition) == 0:
                        self._lost(log, error)
                except PenstockError as error:
                    self._lost(log, error)
                await asyncio.sleep(RETRY_SECONDS + self.plan.pause_s)
        async with await opened(self.clients) as consumer:
            for tp in self.clients.partitions(self.plan.topic):
                end = self.clients.ends[tp]
                begin = (await consumer.beginning_offsets([tp]))[tp]
                self.clients.ledger.begin_behind_deleted(self.name, log, tp.partition, begin)
                await self._range(consumer, log, tp, begin, end)
        return True

    async def _range(self, consumer: AsyncConsumer, log: int, tp: TopicPartition, begin: int, end: int) -> None:
        ledger = self.clients.ledger
        ledger.begin_range(self.name, log, tp.partition, begin)
        topic = next(topic for topic in self.clients.plan.topics if topic.name == tp.topic)
        topic_id = self.clients.topic_ids[tp.topic] if topic.kind is TopicKind.REMADE else ""
        async for buffer in consumer.fetch_raw(tp.topic, tp.partition, begin, end, topic_id):
            if not self._is_current(log):
                return
            columns = read_columns(buffer.records, from_offset=buffer.from_offset, to_offset=end)
            ledger.read(self.name, log, tp.partition, columns.offsets, columns.values)
            await asyncio.sleep(self.plan.pause_s / 10)
        if self._is_current(log):
            ledger.end_range(self.name, log, tp.partition, end)


async def opened(clients: Clients, **options: Any) -> AsyncConsumer:
    """A new consumer, when a broker has answered it."""
    while True:
        consumer = clients.consumer(**options)
        try:
            await consumer.start()
            return consumer
        except PenstockError:
            await consumer.close()
            await asyncio.sleep(RETRY_SECONDS)


def has_read(clients: Clients, reader: str, log: int, partitions: Sequence[TopicPartition]) -> bool:
    """True if a reader has come to the ends, which are known when nobody writes any more."""
    ends = clients.ends
    return ends is not None and all(
        clients.ledger.next_offset(reader, log, tp.partition) >= ends[tp] for tp in partitions
    )


async def find_ends(clients: Clients) -> None:
    """How far every partition can be read, once it can be told."""
    wanted = [tp for topic in clients.plan.topics for tp in clients.partitions(topic.name)]
    async with await opened(clients) as consumer:
        while clients.ends is None:
            try:
                clients.ends = await consumer.end_offsets(wanted)
            except PenstockError:
                await asyncio.sleep(RETRY_SECONDS)


async def read_final(clients: Clients) -> None:
    """Every topic from its beginning, by a new consumer: the truth with which everything else is compared."""
    for keyed in clients.keyed:
        await keyed.read_final()
    await clients.transactions.read_final()
    for topic in clients.plan.topics:
        if topic.kind in (TopicKind.COMPACTED, TopicKind.TRANSACTED):
            continue
        log, partitions = clients.logs[topic.name], clients.partitions(topic.name)
        async with await opened(clients) as consumer:
            await _assign_whole(clients, consumer, log, partitions)
            while not has_read(clients, "final", log, partitions):
                try:
                    records = await consumer.poll(200, max_records=POLL_RECORDS_MAX)
                except OffsetOutOfRangeError:
                    if not any(clients.ledger.floor(log, tp.partition) for tp in partitions):
                        raise
                    await _assign_whole(clients, consumer, log, partitions)
                    continue
                for record in records:
                    clients.ledger.read_final(log, record.partition, (record.offset,), (record.value,))


async def _assign_whole(
    clients: Clients, consumer: AsyncConsumer, log: int, partitions: Sequence[TopicPartition]
) -> None:
    begins = await consumer.beginning_offsets(partitions)
    require_deleted(clients, begins)
    await consumer.assign(partitions)
    for tp in partitions:
        clients.ledger.begins(log, tp.partition, begins[tp])
        await consumer.seek(tp, max(begins[tp], clients.ledger.next_offset("final", log, tp.partition)))
