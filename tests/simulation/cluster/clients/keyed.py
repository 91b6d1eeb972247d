"""A compacted topic of a simulated cluster: its writer, its reader, and the judge of what compaction may leave.

Of each key, the newest acked record must stay, or a newer one of that key. Where the newest acked record deletes the
key, no older record may be left without it. At one offset there is one record for ever. Offsets may be missing, so the
ledger of the other topics does not fit. A value names its record; a deletion is known by its key and offset only.
Its two producers are idempotent: what each of them wrote to a partition stands there in its order, and once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.client.producer.future import RecordFuture
from penstock.errors import PenstockError
from tests.chaos.ledger import SEQUENCE_BITS, decode_value, encode_value
from tests.simulation.cluster.clients.readers import LOST, RETRY_SECONDS, opened
from tests.simulation.cluster.plan import BATCH_BYTES, TopicKind, TopicPlan

if TYPE_CHECKING:
    from penstock import AsyncConsumer, AsyncProducer
    from tests.simulation.cluster.workload import Clients

KEYS = 15
SELDOM = 20
"""Every so many records one comes from a second producer: its newest batches are in segments that are cleaned."""
DELETION_EVERY = 7
LINGER_MS, PAUSE_S, RECORDS = 1, 0.1, 2
SMALL_BATCH_BYTES = 200
"""One record. Every fourth seed has such batches, several of which are on their way at a time."""
PRODUCER = 1_000_000
"""The first part of the values of the first producer."""
Place = tuple[int, int]
"""Partition and offset."""
Row = tuple[bytes, bytes | None]
"""Key and value."""


class KeyedTopic:
    """See the module."""

    def __init__(self, clients: Clients, plan: TopicPlan) -> None:
        self.clients, self.plan = clients, plan
        self.sent: list[Row] = []
        self._known: set[Row] = set()
        self._acked: dict[Place, Row] = {}
        self._unacked_deletions: dict[bytes, set[int]] = {}
        self._seen: dict[Place, Row] = {}
        self._read: dict[Place, Row] = {}
        self._final: dict[Place, Row] = {}
        self._possible_duplicates = 0
        self.wrong: list[str] = []

    # -- clients -------------------------------------------------------------------------------------------------------

    async def write(self) -> None:
        batch_bytes = SMALL_BATCH_BYTES if self.clients.plan.seed % 4 == 1 else BATCH_BYTES
        producers = [self.clients.producer(LINGER_MS, batch_bytes=batch_bytes) for _ in range(2)]
        while not self.clients.is_over:
            for _ in range(RECORDS):
                await self._send(producers, len(self.sent))
            await asyncio.sleep(PAUSE_S)
        for producer in producers:
            await producer.flush()
            self._possible_duplicates += producer.statistics().possible_duplicates
            await producer.close()

    async def _send(self, producers: Sequence[AsyncProducer], sequence: int) -> None:
        which = sequence % SELDOM == 1
        key = b"key-%d" % (sequence * sequence % KEYS)
        row = key, None if sequence % DELETION_EVERY == 0 else encode_value(PRODUCER + which, sequence)
        self.sent.append(row)
        self._known.add(row)
        if row[1] is None:
            self._unacked_deletions.setdefault(key, set()).add(sequence)

        def answered(answer: RecordFuture) -> None:
            if answer.exception(0) is None:
                result = answer.result(0)
                self._acked[result.partition, result.offset] = row
                self._unacked_deletions.get(key, set()).discard(sequence)

        try:
            future = await producers[which].send(self.plan.name, row[1], key)
            future.add_done_callback(answered)
        except PenstockError:
            self.clients.failed_records += 1

    async def read(self) -> None:
        """From the beginning to the end, while it is written and compacted."""
        await self._read_whole(self._read)

    async def read_final(self) -> None:
        await self._read_whole(self._final)

    async def _read_whole(self, found: dict[Place, Row]) -> None:
        partitions = self.clients.partitions(self.plan.name)
        async with await opened(self.clients) as consumer:
            is_assigned = False
            while not is_assigned or not await self._is_at_end(consumer):
                try:
                    if not is_assigned:
                        await consumer.assign(partitions)
                        for tp in partitions:
                            await consumer.seek(tp, 0)
                        is_assigned = True
                    for record in await consumer.poll(200):
                        self._take(found, (record.partition, record.offset), (record.key or b"", record.value))
                except LOST as error:
                    self.wrong.append(f"told-lost: a reader of {self.plan.name} was told {error!r}")
                    return
                except PenstockError:
                    await asyncio.sleep(RETRY_SECONDS)

    async def _is_at_end(self, consumer: AsyncConsumer) -> bool:
        ends = self.clients.ends
        if ends is None:
            return False
        positions = [(await consumer.position(tp), ends[tp]) for tp in self.clients.partitions(self.plan.name)]
        return all(position >= end for position, end in positions)

    # -- the judge -----------------------------------------------------------------------------------------------------

    def _take(self, found: dict[Place, Row], place: Place, row: Row) -> None:
        if row not in self._known:
            self.wrong.append(f"phantom: {self.plan.name} {place} holds {row!r:.80}, which nobody sent")
        if self._seen.setdefault(place, row) != row:
            self.wrong.append(f"inconsistent: {self.plan.name} {place} was {self._seen[place]} and is {row}")
        if place in found:
            self.wrong.append(f"nonmonotonic: {self.plan.name} {place} was read twice")
        found[place] = row

    def judge(self) -> list[str]:
        """Everything that is wrong."""
        for place, row in self._acked.items():
            if self._seen.get(place, row) != row:
                self.wrong.append(f"inconsistent: {self.plan.name} {place} was acked as {row}, not {self._seen[place]}")
        read, final = newest(self._read), newest(self._final)
        for key, (offset, value) in newest(self._acked).items():
            for name, found in (("a reader", read), ("the final log", final)) if value is not None else ():
                is_cleaned = key not in found and self._may_be_deleted(key[1], value)
                if found.get(key, (-1, None))[0] < offset and not is_cleaned:
                    self.wrong.append(f"lost-write: {self.plan.name} {key} was acked at {offset}, not in {name}")
            if value is None and key in final and final[key][0] < offset:
                self.wrong.append(f"undeleted: {self.plan.name} {key} was deleted at {offset}, and is at {final[key]}")
        if not self._possible_duplicates:
            self._judge_order()
        return self.wrong

    def _may_be_deleted(self, key: bytes, value: bytes | None) -> bool:
        """True if a deletion that nobody acked may stand behind the record, or has stood there until it was cleaned."""
        by, sequence = divmod(decode_value(value) or 0, 1 << SEQUENCE_BITS)
        deletions = self._unacked_deletions.get(key, set())
        return any(deletion > sequence or PRODUCER + (deletion % SELDOM == 1) != by for deletion in deletions)

    def _judge_order(self) -> None:
        last: dict[tuple[int, int], int] = {}
        for (partition, offset), (_, value) in sorted(self._seen.items(), key=lambda row: row[0]):
            identity = decode_value(value)
            if identity is not None:
                producer, sequence = divmod(identity, 1 << SEQUENCE_BITS)
                before = last.get((partition, producer), -1)
                kind = "duplicates" if sequence == before else "out-of-order"
                if sequence <= before:
                    at = f"{self.plan.name}-{partition} offset {offset}"
                    self.wrong.append(f"{kind}: {at} holds record {sequence} behind record {before}")
                last[partition, producer] = max(sequence, before)


def newest(rows: dict[Place, Row]) -> dict[tuple[int, bytes], tuple[int, bytes | None]]:
    """The offset and the value of the last record of each key, by partition."""
    found: dict[tuple[int, bytes], tuple[int, bytes | None]] = {}
    for (partition, offset), (key, value) in sorted(rows.items(), key=lambda row: row[0]):
        found[partition, key] = (offset, value)
    return found


def keyed_topics(clients: Clients) -> list[KeyedTopic]:
    return [KeyedTopic(clients, topic) for topic in clients.plan.topics if topic.kind is TopicKind.COMPACTED]
