"""A member of a group that reads, processes and writes: AsyncConsumer and AsyncProducer, one process after the other.

It does what `penstock.process` does: what it makes of each poll's records goes into one transaction, with the offsets.
Most are committed. Some processes die, anywhere in that; some stand still, so that the group puts them out, and go on
in the middle of their transaction; some of these are taken for dead, and have been replaced meanwhile. Where to begin,
members learn from the group alone, and the oracle hears of it. Not here: what may be true (oracle.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock import ConsumerRecord, TopicPartition
from penstock.client.producer.future import RecordFuture
from penstock.errors import (
    FatalProducerError,
    PenstockError,
    ProducerFencedError,
    TimedOutError,
    TransactionAbortedError,
)
from tests.simulation.cluster.clients.cores import core_of
from tests.simulation.cluster.processing.oracle import Attempt
from tests.simulation.cluster.processing.standstill import Standstill
from tests.simulation.cluster.transactions.oracle import Life, ReportedTransaction

if TYPE_CHECKING:
    from tests.simulation.cluster.processing.group import ProcessingMember

RETRY_SECONDS, POLL_MS, LIMIT_MS, BLOCK_MS = 0.2, 100, 4_000, 3_000
BACKLOG_RECORDS = 1_000
"""In one transaction, when nobody writes any more; half as many after each that was aborted, which may have been too
large for its time, down to those of the plan."""
SESSION_SECONDS = 2.5
DIE_SHARE, STILL_SHARE, REPLACE_SHARE, LEAVE_SHARE, ABORT_SHARE = 0.015, 0.02, 0.01, 0.01, 0.03
"""At each of the three places in a transaction; the last two at its end."""


class Over(Exception):
    """The process has ended, or has left."""


class MemberProcess:
    """One process: a consumer and a producer, from their making to their end."""

    def __init__(self, member: ProcessingMember) -> None:
        self.member, self.group, self.clients, self.draw = member, member.group, member.clients, member.draw
        self.plan, self.work, self.oracle = member.group.plan, member.clients.transactions, member.group.oracle
        self.life: Life = self.work.oracle.life(member.name)
        self.has_left = asyncio.Event()
        """Another one may take its place."""
        self.is_left_alone = False
        """It is taken for dead, and lives."""
        self._backlog_records = BACKLOG_RECORDS
        self._new: dict[TopicPartition, float] = {}
        """Partitions of which it is to be told where to begin, and since when."""
        self.consumer = self.clients.consumer(
            group_id=self.plan.name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            request_timeout_ms=LIMIT_MS,
        )
        self._standstill = Standstill(self.consumer)
        self.producer = self.clients.transactional_producer(
            member.name,
            transaction_timeout_ms=self.plan.timeout_ms,
            linger_ms=self.draw.choice((0, 1, 20)),
            max_block_ms=BLOCK_MS,
        )

    # -- a life --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the group is done, or the process ends."""
        try:
            await self._subscribe()
            while not self.group.is_done:
                await self._step()
                await asyncio.sleep(self.plan.pause_s * (0.5 + self.draw.random()))
            await self.producer.close()
            await self.consumer.close()
        except Over:
            pass
        except FatalProducerError as error:
            self.clients.calls["processing members fenced"] += 1
            if not isinstance(error, ProducerFencedError):
                self.work.oracle.report("fatal", f"{self.life} was told {error!r}")
            self.work.oracle.fenced(self.life, error)
            await self._die()
        finally:
            self.has_left.set()

    async def _subscribe(self) -> None:
        while True:
            try:
                await self.consumer.subscribe(self.plan.topics, on_assigned=self._assigned, on_revoked=self._revoked)
                return
            except PenstockError as error:
                await self._refused(error)

    async def _refused(self, error: PenstockError) -> None:
        self.clients.refused[type(error).__name__] += 1
        await asyncio.sleep(RETRY_SECONDS)

    async def _die(self) -> None:
        """Without a word to anybody."""
        core = core_of(self.producer)
        core.begin_close()
        await core.finish_close()
        await core.transactions.close(0)
        self.member.ended.append(self.producer)
        await core_of(self.consumer).close_forgotten()

    # -- where to begin ------------------------------------------------------------------------------------------------

    def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._new |= dict.fromkeys(partitions, self.clients.network.scheduler.now_s)

    def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        for tp in partitions:
            self._new.pop(tp, None)

    async def _learn_begins(self, records: Sequence[ConsumerRecord]) -> None:
        """The first record of a partition, or its position while there is none."""
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        for tp, asked_s in list(self._new.items()):
            with suppress(PenstockError, ValueError):
                offset = first[tp] if tp in first else int((await self.consumer.position(tp)).offset)
                self.oracle.begins(self.life.owner, tp, offset, asked_s)
                self._new.pop(tp, None)

    async def _go_back(self, records: Sequence[ConsumerRecord]) -> None:
        """To the batch's first records, as `penstock.process` does, or to what is committed: they are read again."""
        if self.draw.random() < 0.5:
            now_s = self.clients.network.scheduler.now_s
            with suppress(PenstockError):
                await self.consumer.seek_to_committed()
                self._new |= dict.fromkeys(self.consumer.assignment(), now_s)
                return
        for record in reversed(records):
            with suppress(PenstockError, ValueError, KeyError):  # it has another owner
                await self.consumer.seek(TopicPartition(record.topic, record.partition), record.offset)

    # -- a transaction -------------------------------------------------------------------------------------------------

    async def _step(self) -> None:
        try:
            at_once = self._backlog_records if self.clients.is_over else self.plan.records
            records = await self.consumer.poll(POLL_MS, at_once)
            await self._learn_begins(records)
            if records:
                await self._process(records)
        except (TransactionAbortedError, FatalProducerError):
            raise
        except PenstockError as error:
            await self._refused(error)

    async def _process(self, records: Sequence[ConsumerRecord]) -> None:
        try:
            await self.producer.begin_transaction()
        except PenstockError:
            await self._go_back(records)
            raise
        if not self.life.transactions:
            self.work.oracle.initialized(self.life)
        transaction = self.work.oracle.begins(self.life)
        try:
            await self._write(transaction, records)
        except TransactionAbortedError as error:
            self.clients.refused[type(error).__name__] += 1
            await self._abort(transaction, records)
        except (Over, FatalProducerError):
            transaction.given_up()
            raise

    async def _write(self, transaction: ReportedTransaction, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            await self._send(transaction, record)
        await self._maybe_trouble()
        spans: dict[TopicPartition, tuple[int, int]] = {}
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            spans[tp] = spans.get(tp, (record.offset, 0))[0], record.offset + 1
        attempt = self.oracle.commits(transaction, spans)
        given = {tp: end for tp, (_, end) in spans.items()} if self.draw.random() < 0.5 else None
        try:
            await self.producer.send_offsets(self.consumer, given)
        except (TransactionAbortedError, FatalProducerError):
            raise
        except PenstockError as error:  # the consumer knows that it has lost the partition
            raise TransactionAbortedError(f"no offsets: {error}") from error
        self.oracle.taken(attempt)
        await self._maybe_trouble()
        if self._happens(ABORT_SHARE):
            raise TransactionAbortedError("the program does not like it")
        if self._happens(DIE_SHARE):
            await self._die_in_commit(transaction, attempt)
        await self._commit(transaction, attempt)
        if self._happens(LEAVE_SHARE):
            await self.producer.close()
            await self.consumer.close()
            raise Over

    async def _send(self, transaction: ReportedTransaction, record: ConsumerRecord) -> None:
        tp = self.draw.choice(self.clients.partitions(self.plan.output))
        spot = self.work.spot(tp)
        assert spot is not None
        value = transaction.sends(spot)
        self.oracle.makes(value, TopicPartition(record.topic, record.partition), record.offset)

        def answered(answer: RecordFuture) -> None:
            if answer.exception(0) is None:
                self.work.acked(tp, spot, answer.result(0).offset, value)

        try:
            future = await self.producer.send(tp.topic, value, value, partition=tp.partition)
            future.add_done_callback(answered)
        except (TransactionAbortedError, FatalProducerError):
            transaction.takes_back()
            raise
        except PenstockError as error:  # it was not taken
            transaction.takes_back()
            raise TransactionAbortedError(f"not sent: {error}") from error

    async def _commit(self, transaction: ReportedTransaction, attempt: Attempt) -> None:
        """Until it is told how the transaction ended."""
        transaction.asks_commit()
        while True:
            try:
                await self.producer.commit_transaction()
            except TimedOutError as error:
                self.clients.refused[type(error).__name__] += 1
                continue
            except TransactionAbortedError:
                transaction.ended(False)
                raise
            transaction.ended(True)
            self.oracle.committed(attempt)
            self.clients.calls["processing transactions committed"] += 1
            return

    async def _abort(self, transaction: ReportedTransaction, records: Sequence[ConsumerRecord]) -> None:
        transaction.given_up()
        if self.clients.is_over:
            self._backlog_records = max(self.plan.records, len(records) // 2)
        await self._go_back(records)
        while True:
            with suppress(TimedOutError):
                await self.producer.abort_transaction()
                transaction.ended(False)
                break
        self.clients.calls["processing transactions aborted"] += 1

    # -- troubles ------------------------------------------------------------------------------------------------------

    def _happens(self, share: float) -> bool:
        return self.plan.is_troubled and not self.clients.is_mended and self.draw.random() < share

    async def _maybe_trouble(self) -> None:
        number = self.draw.random()
        if not self._happens(1.0):
            return
        shares = {self._dies: DIE_SHARE, self._stand_still: STILL_SHARE, self._be_replaced: REPLACE_SHARE}
        for trouble, share in shares.items():
            number -= share
            if number < 0:
                await trouble()
                return

    async def _dies(self) -> None:
        self.clients.calls["processing members died"] += 1
        await self._die()
        raise Over

    async def _die_in_commit(self, transaction: ReportedTransaction, attempt: Attempt) -> None:
        """Nobody may ever be told how this ended."""
        self.clients.calls["processing members died in a commit"] += 1
        transaction.asks_commit()
        committing = asyncio.ensure_future(self.producer.commit_transaction())
        await asyncio.sleep(self.draw.choice((0.0, 0.003, 0.02, 0.2)) * self.draw.random())
        await self._die()
        (outcome,) = await asyncio.gather(committing, return_exceptions=True)
        if outcome is None:
            transaction.ended(True)
            self.oracle.committed(attempt)
        raise Over

    async def _stand_still(self) -> None:
        """For about a session, or longer: the group may put it out, and go on without it."""
        self.clients.calls["processing members stood still"] += 1
        await self._standstill.for_seconds(self.draw.uniform(0.5, 2.2) * SESSION_SECONDS)

    async def _be_replaced(self) -> None:
        """It stands still, and another process has its transactional id meanwhile."""
        self.clients.calls["processing members replaced"] += 1
        self.is_left_alone = True
        self.has_left.set()
        await self._stand_still()

    def __repr__(self) -> str:
        return f"MemberProcess({self.life})"
