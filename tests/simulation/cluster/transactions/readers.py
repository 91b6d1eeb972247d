"""Readers of transactions' topics: of committed records, and of all; by polls and by raw ranges.

They read on through faults, now and then again from a little before or with a new client, and come to the end. Whatever
a reader was given, and how far it has come, the oracle hears at once. Not here: what may be true of it (oracle.py).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock import AsyncConsumer, TopicPartition
from penstock.errors import OffsetOutOfRangeError, PenstockError
from penstock.record.reader import read_columns
from tests.simulation.cluster.clients.cores import core_of
from tests.simulation.cluster.clients.readers import LOST, POLL_RECORDS_MAX, RETRY_SECONDS, opened
from tests.simulation.cluster.plan import StableReaderPlan
from tests.simulation.cluster.transactions.oracle import Reading

if TYPE_CHECKING:
    from tests.simulation.cluster.transactions.work import Transactions

AGAIN_SHARE, BACK_MAX = 0.01, 60
"""After so many of the polls a reader begins again, as a new client, up to so many offsets before."""
RANGE_MAX = 200
RANGE_FETCH_BYTES = 4_096


class StableReader:
    """One of them."""

    def __init__(self, work: Transactions, number: int, plan: StableReaderPlan) -> None:
        self.work, self.plan, self.clients = work, plan, work.clients
        self.name = f"stable-reader-{number}" if plan.is_committed else f"unstable-reader-{number}"
        self._draw = random.Random(self.clients.network.scheduler.draw.getrandbits(64))
        self._readings: dict[TopicPartition, Reading] = {}
        self._log = -1
        self._options: dict[str, Any] = {
            "isolation_level": "read_committed" if plan.is_committed else "read_uncommitted"
        }

    async def read(self) -> None:
        """Until everything that was written has been read."""
        while not self._is_at_end():
            log = self.clients.logs.get(self.plan.topic)
            if log is None:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if log != self._log:
                self._log, self._readings = log, {}
            await (self._ranges() if self.plan.by_ranges else self._polls())

    def _is_current(self) -> bool:
        return self.clients.logs.get(self.plan.topic) == self._log

    def _is_at_end(self) -> bool:
        """A range may have begun behind the first offset; the final readers go over everything."""
        ends = self.clients.ends
        partitions = self.clients.partitions(self.plan.topic)
        return ends is not None and all(
            tp in self._readings and self._readings[tp].next_offset >= ends[tp] for tp in partitions
        )

    def _begin(self, tp: TopicPartition, offset: int) -> Reading:
        found = self.work.reading(self.name, tp, self._log, offset, is_committed=self.plan.is_committed)
        self._readings[tp] = found
        return found

    def _lost(self, error: PenstockError) -> None:
        self.clients.refused[type(error).__name__] += 1
        if isinstance(error, LOST) and self._is_current():
            self.clients.ledger.report("told-lost", f"{self.name} of {self.plan.topic} was told {error!r}")

    # -- by polls ------------------------------------------------------------------------------------------------------

    async def _polls(self) -> None:
        """One client; a new one for another topic of that name, and now and then."""
        async with await opened(self.clients, **self._options) as consumer:
            is_assigned = False
            while not self._is_at_end() and self._is_current():
                try:
                    if not is_assigned:
                        await self._assign(consumer)
                        is_assigned = True
                    await self._poll(consumer)
                except OffsetOutOfRangeError as error:
                    if not await self._skips_deleted(consumer):
                        self._lost(error)
                except PenstockError as error:
                    self._lost(error)
                    await asyncio.sleep(RETRY_SECONDS)
                await asyncio.sleep(self.plan.pause_s)
                if self.clients.ends is None and self._draw.random() < AGAIN_SHARE:
                    self._go_back()
                    return

    async def _assign(self, consumer: AsyncConsumer) -> None:
        partitions = self.clients.partitions(self.plan.topic)
        await consumer.assign(partitions)
        for tp in partitions:
            reading = self._readings.get(tp) or self._begin(tp, 0)
            await consumer.seek(tp, reading.next_offset)

    def _go_back(self) -> None:
        for tp, reading in tuple(self._readings.items()):
            self._begin(tp, max(0, reading.next_offset - self._draw.randrange(BACK_MAX)))

    async def _poll(self, consumer: AsyncConsumer) -> None:
        """Records of an earlier topic of that name do not count."""
        records = await consumer.poll(200, max_records=POLL_RECORDS_MAX)
        topic_id, states = self.clients.topic_ids[self.plan.topic], core_of(consumer).positions.states
        if not self._is_current() or any(state.topic_id not in ("", topic_id) for state in states.values()):
            return
        for tp, reading in self._readings.items():
            mine = [record for record in records if record.partition == tp.partition]
            position = await consumer.position(tp)
            self.take(tp, reading, [r.offset for r in mine], [r.value for r in mine], position)

    def take(
        self,
        tp: TopicPartition,
        reading: Reading,
        offsets: Sequence[int],
        values: Sequence[bytes | None],
        position: int,
    ) -> None:
        self.work.was_read(tp, offsets, values)
        reading.advance(offsets, values, position)

    async def _skips_deleted(self, consumer: AsyncConsumer) -> bool:
        """Goes to the beginning of what is left where the reader is behind it; False: nothing was to be deleted."""
        ledger = self.clients.ledger
        behind = [tp for tp, found in self._readings.items() if found.next_offset < ledger.floor(*found.spot)]
        for tp, begin in (await consumer.beginning_offsets(behind)).items() if behind else ():
            self._begin(tp, max(begin, self._readings[tp].next_offset))
            await consumer.seek(tp, self._readings[tp].next_offset)
        return bool(behind)

    # -- by ranges -----------------------------------------------------------------------------------------------------

    async def _ranges(self) -> None:
        small = {"max_partition_fetch_bytes": RANGE_FETCH_BYTES, "fetch_max_bytes": RANGE_FETCH_BYTES}
        async with await opened(self.clients, **self._options, **small) as consumer:
            while not self._is_at_end() and self._is_current():
                tp = self._draw.choice(self.clients.partitions(self.plan.topic))
                try:
                    end = (await consumer.end_offsets([tp]))[tp]
                    begin = max(0, end - self._draw.randrange(1, RANGE_MAX))
                    await self._range(consumer, tp, max(begin, (await consumer.beginning_offsets([tp]))[tp]), end)
                except OffsetOutOfRangeError as error:
                    if not self.clients.ledger.floor(self._log, tp.partition):
                        self._lost(error)
                except PenstockError as error:
                    self._lost(error)
                await asyncio.sleep(RETRY_SECONDS / 4 + self.plan.pause_s)

    async def _range(self, consumer: AsyncConsumer, tp: TopicPartition, begin: int, end: int) -> None:
        reading = self._begin(tp, begin)
        topic_id = self.clients.topic_ids[tp.topic] if self.work.is_remade(tp.topic) else ""
        async for buffer in consumer.fetch_raw(tp.topic, tp.partition, begin, end, topic_id):
            if not self._is_current():
                return
            columns = read_columns(buffer.records, from_offset=buffer.from_offset, to_offset=end)
            self.take(tp, reading, columns.offsets, columns.values, min(buffer.next_offset, end))

    def __repr__(self) -> str:
        return f"StableReader({self.name})"


async def read_whole(work: Transactions, consumer: AsyncConsumer, topic: str, *, is_committed: bool) -> None:
    """A topic from its beginning to its end."""
    clients = work.clients
    partitions, ends = clients.partitions(topic), clients.ends or {}
    begins = await consumer.beginning_offsets(partitions)
    name = "the last stable reader" if is_committed else "the last reader"
    readings = {
        tp: work.reading(name, tp, clients.logs[topic], begins[tp], is_committed=is_committed) for tp in partitions
    }
    await consumer.assign(partitions)
    for tp in partitions:
        await consumer.seek(tp, begins[tp])
    while any(reading.next_offset < ends[tp] for tp, reading in readings.items()):
        records = await consumer.poll(200, max_records=POLL_RECORDS_MAX)
        for tp, reading in readings.items():
            mine = [record for record in records if record.partition == tp.partition]
            offsets, values = [record.offset for record in mine], [record.value for record in mine]
            work.was_read(tp, offsets, values)
            reading.advance(offsets, values, await consumer.position(tp))
