"""A writer of transactions: one transactional id, in one process after the other.

Most transactions are committed. Some are aborted; before some ends the process stands still for longer than the
transaction may take; some processes die in the middle of a transaction or of its commit, without a word; and some are
taken for dead, and go on beside the one that has replaced them. What cannot be told is asked for again, as the client's
documentation says, until it is told or the process dies. Not here: the producers (producers.py, kafka_producer.py).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock import TopicPartition
from penstock.errors import (
    FatalProducerError,
    PenstockError,
    ProducerFencedError,
    TimedOutError,
    TransactionAbortedError,
)
from tests.simulation.cluster.plan import TransactorKind, TransactorPlan
from tests.simulation.cluster.transactions.kafka_producer import KafkaProducer
from tests.simulation.cluster.transactions.oracle import Life, ReportedTransaction, Spot
from tests.simulation.cluster.transactions.producers import (
    LINGERS_MS,
    OurProducer,
    OutcomeUnknown,
    TransactionalProducer,
)

if TYPE_CHECKING:
    from tests.simulation.cluster.transactions.work import Transactions

ABORT_SHARE, STILL_SHARE, DIE_SHARE, DIE_IN_COMMIT_SHARE, REPLACE_SHARE = 0.12, 0.02, 0.02, 0.03, 0.02
AWAY_SECONDS = (0.5, 2.0, 2.0, 20.0)
"""An id has no process for up to so long."""
REST_SHARE = 0.1
"""After so many of the records a process rests within a transaction."""


class Over(Exception):
    """The process has ended."""


class TransactionalWriter:
    """One transactional id."""

    def __init__(self, work: Transactions, number: int, plan: TransactorPlan) -> None:
        self.work, self.plan, self.clients = work, plan, work.clients
        self.name = f"transactor-{number}"
        self.draw = random.Random(self.clients.network.scheduler.draw.getrandbits(64))

    async def write(self) -> None:
        """Until it is over, and every process has ended."""
        processes: list[WriterProcess] = []  # they are kept: a client that is forgotten is closed in order
        running: list[asyncio.Task[None]] = []
        while True:
            process = WriterProcess(self)
            processes.append(process)
            running.append(asyncio.ensure_future(process.run()))
            await process.has_left.wait()
            if self.clients.is_over:
                break
            if not process.is_left_alone:
                await self._be_away(self.draw.choice(AWAY_SECONDS) * self.draw.random())
        await asyncio.gather(*running)

    async def _be_away(self, seconds: float) -> None:
        """Not when the cluster is mended: then it writes to the end."""
        while seconds > 0 and not self.clients.is_mended:
            await asyncio.sleep(min(seconds, 0.2))
            seconds -= 0.2

    def producer(self) -> TransactionalProducer:
        if self.plan.kind is TransactorKind.KAFKA:
            return KafkaProducer(self.clients, self.name, self.plan)
        return OurProducer(self.clients, self.name, self.plan.timeout_ms, self.draw.choice(LINGERS_MS))

    def __repr__(self) -> str:
        return f"TransactionalWriter({self.name})"


class WriterProcess:
    """One process: a producer, from its making to its end."""

    def __init__(self, writer: TransactionalWriter) -> None:
        self._writer, self._work, self._clients, self._draw = writer, writer.work, writer.clients, writer.draw
        self._life: Life = writer.work.oracle.life(writer.name)
        self._producer = writer.producer()
        self.has_left = asyncio.Event()
        """Another one may take its place."""
        self.is_left_alone = False
        """It is taken for dead, and lives."""

    async def run(self) -> None:
        """Until it is over, or the process dies, or another one has its id."""
        try:
            while not self._clients.is_over:
                await self._transaction()
                await asyncio.sleep(self._writer.plan.pause_s * (0.5 + self._draw.random()))
            await self._producer.close()
        except Over:
            pass
        except FatalProducerError as error:
            self._count("transactional producers fenced")
            if not isinstance(error, ProducerFencedError):
                self._work.oracle.report("fatal", f"I67: {self._life} was told {error!r}")
            self._work.oracle.fenced(self._life, error)
            await self._producer.die()
        finally:
            self.has_left.set()

    def _count(self, what: str) -> None:
        self._clients.calls[what] += 1

    def _refused(self, error: PenstockError) -> None:
        self._clients.refused[type(error).__name__] += 1

    # -- a transaction -------------------------------------------------------------------------------------------------

    async def _transaction(self) -> None:
        try:
            await self._producer.begin()
        except TimedOutError as error:
            self._refused(error)
            return
        if not self._life.transactions:
            self._work.oracle.initialized(self._life)
        transaction = self._work.oracle.begins(self._life)
        try:
            await self._write(transaction)
            await self._end(transaction)
        except TransactionAbortedError as error:
            self._refused(error)
            await self._abort(transaction)
        except OutcomeUnknown as error:
            self._refused(error)
        except (Over, FatalProducerError):
            transaction.given_up()
            raise

    async def _write(self, transaction: ReportedTransaction) -> None:
        """Some records, in several partitions where there are some."""
        for _ in range(self._draw.randint(1, self._writer.plan.records)):
            tp = self._draw.choice(self._clients.partitions(self._draw.choice(self._writer.plan.topics)))
            spot = self._work.spot(tp)
            if spot is not None:
                await self._send(transaction, tp, spot)
            if self._draw.random() < REST_SHARE:
                await asyncio.sleep(self._draw.uniform(0.0, 0.3))

    async def _send(self, transaction: ReportedTransaction, tp: TopicPartition, spot: Spot) -> None:
        value = transaction.sends(spot)
        try:
            await self._producer.send(tp, value, lambda offset: self._work.acked(tp, spot, offset, value))
        except (TransactionAbortedError, FatalProducerError):
            raise
        except PenstockError as error:  # it was not taken
            transaction.takes_back()
            self._refused(error)

    async def _end(self, transaction: ReportedTransaction) -> None:
        number = self._draw.random()
        if self._writer.plan.is_troubled and not self._clients.is_mended:
            for share, trouble in self._troubles():
                number -= share
                if number < 0:
                    await trouble(transaction)
                    return
        await self._commit(transaction)

    async def _commit(self, transaction: ReportedTransaction) -> None:
        """Until it is told how the transaction ended."""
        transaction.asks_commit()
        while True:
            try:
                await self._producer.commit()
            except TimedOutError as error:
                self._refused(error)
                continue
            except TransactionAbortedError:
                transaction.ended(False)
                raise
            transaction.ended(True)
            return

    async def _abort(self, transaction: ReportedTransaction) -> None:
        transaction.given_up()
        while True:
            with suppress(TimedOutError):
                await self._producer.abort()
                transaction.ended(False)
                return

    # -- troubles ------------------------------------------------------------------------------------------------------

    def _troubles(self) -> tuple[tuple[float, Callable[[ReportedTransaction], Awaitable[None]]], ...]:
        return (
            (ABORT_SHARE, self._abort),
            (STILL_SHARE, self._stand_still),
            (DIE_SHARE, self._die),
            (DIE_IN_COMMIT_SHARE, self._die_in_commit),
            (REPLACE_SHARE, self._be_replaced),
        )

    async def _stand_still(self, transaction: ReportedTransaction) -> None:
        """For about as long as a transaction may take, or longer."""
        self._count("transactional producers stood still")
        await asyncio.sleep(self._draw.uniform(0.7, 2.5) * self._writer.plan.timeout_ms / 1000)
        await self._commit(transaction)

    async def _die(self, transaction: ReportedTransaction) -> None:
        self._count("transactional producers died")
        await self._producer.die()
        raise Over

    async def _die_in_commit(self, transaction: ReportedTransaction) -> None:
        """Nobody may ever be told how this ended."""
        self._count("transactional producers died in a commit")
        transaction.asks_commit()
        committing = asyncio.ensure_future(self._producer.commit())
        await asyncio.sleep(self._draw.choice((0.0, 0.003, 0.02, 0.2)) * self._draw.random())
        is_committed = committing.done() and committing.exception() is None
        await self._producer.die()
        committing.cancel()
        await asyncio.gather(committing, return_exceptions=True)
        if is_committed:
            transaction.ended(True)
        raise Over

    async def _be_replaced(self, transaction: ReportedTransaction) -> None:
        """Another process has its id meanwhile."""
        self._count("transactional producers replaced")
        self.is_left_alone = True
        self.has_left.set()
        await asyncio.sleep(self._draw.uniform(0.0, 1.5))
        await self._commit(transaction)

    def __repr__(self) -> str:
        return f"WriterProcess({self._life})"
