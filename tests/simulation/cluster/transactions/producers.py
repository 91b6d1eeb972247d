"""The calls that a writer of transactions makes of its producer, and the producer that is AsyncProducer.

Errors are the client's own: TimedOutError of an end says that the same end is to be asked for again, TransactionAborted
that the transaction can only be aborted, and a FatalProducerError is the end. Not here: what a writer does (writer.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from penstock import TopicPartition
from penstock.client.producer.future import RecordFuture
from penstock.errors import PenstockError
from tests.simulation.cluster.clients.cores import core_of

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

BLOCK_MS = 3_000
"""So long a call waits before it says that it does not know."""
LINGERS_MS = (0, 1, 20)


class OutcomeUnknown(PenstockError):
    """Nobody will ever tell the producer how its transaction has ended."""


class TransactionalProducer(Protocol):
    """One process's."""

    async def begin(self) -> None: ...

    async def send(self, tp: TopicPartition, value: bytes, acked: Callable[[int], None]) -> None:
        """`acked` is told of the offset, now or later. An error: the record is not taken, or has failed."""
        ...

    async def commit(self) -> None: ...

    async def abort(self) -> None: ...

    async def close(self) -> None: ...

    async def die(self) -> None:
        """Without a word to anybody."""
        ...


class OurProducer:
    """AsyncProducer, which ends transactions in version 2."""

    def __init__(self, clients: Clients, transactional_id: str, timeout_ms: int, linger_ms: int) -> None:
        self._clients = clients
        self._producer = clients.transactional_producer(
            transactional_id, transaction_timeout_ms=timeout_ms, linger_ms=linger_ms, max_block_ms=BLOCK_MS
        )
        self.begin = self._producer.begin_transaction
        self.commit = self._producer.commit_transaction
        self.abort = self._producer.abort_transaction
        self.close = self._producer.close

    async def send(self, tp: TopicPartition, value: bytes, acked: Callable[[int], None]) -> None:
        def answered(answer: RecordFuture) -> None:
            if answer.exception(0) is None:
                acked(answer.result(0).offset)
            else:
                self._clients.failed_records += 1

        future = await self._producer.send(tp.topic, value, value, partition=tp.partition)
        future.add_done_callback(answered)

    async def die(self) -> None:
        core = core_of(self._producer)
        core.begin_close()
        await core.finish_close()
        await core.transactions.close(0)  # its end is asked for no more, and the network is gone

    def __repr__(self) -> str:
        return f"OurProducer({self._producer!r})"
