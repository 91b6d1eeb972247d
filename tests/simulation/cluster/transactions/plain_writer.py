"""A writer without transactions beside those with: each of its records is a transaction of its own to the oracle.

Its records are committed when they are acked. Readers of committed records may get one later, because a transaction
before it is open, and they get it in its place. Not here: writers of topics without transactions (workload.py).
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from penstock import AsyncProducer
from penstock.client.producer.future import RecordFuture
from penstock.errors import PenstockError
from tests.simulation.cluster.plan import TransactorPlan

if TYPE_CHECKING:
    from tests.simulation.cluster.transactions.work import Transactions

LINGER_MS = 1


class PlainWriter:
    """See the module."""

    def __init__(self, work: Transactions, number: int, plan: TransactorPlan) -> None:
        self.work, self.plan, self.clients = work, plan, work.clients
        self._draw = random.Random(self.clients.network.scheduler.draw.getrandbits(64))
        self._life = work.oracle.life(f"transactor-{number}")

    async def write(self) -> None:
        """Sends until it is over; then waits for every answer."""
        producer = self.clients.producer(LINGER_MS)
        self._life.repeats = lambda: producer.statistics().possible_duplicates > 0
        while not self.clients.is_over:
            for _ in range(self._draw.randint(1, self.plan.records)):
                await self._send(producer)
            await asyncio.sleep(self.plan.pause_s)
        await producer.close()

    async def _send(self, producer: AsyncProducer) -> None:
        tp = self._draw.choice(self.clients.partitions(self._draw.choice(self.plan.topics)))
        spot = self.work.spot(tp)
        if spot is None:
            return
        transaction = self.work.oracle.begins(self._life)
        value = transaction.sends(spot)

        def answered(answer: RecordFuture) -> None:
            if answer.exception(0) is None:
                self.work.acked(tp, spot, answer.result(0).offset, value)
                transaction.ended(True)
            else:
                self.clients.failed_records += 1

        transaction.asks_commit()
        try:
            future = await producer.send(tp.topic, value, value, partition=tp.partition)
            future.add_done_callback(answered)
        except PenstockError:
            transaction.takes_back()
