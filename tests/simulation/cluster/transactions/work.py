"""The transactions of a simulated cluster: their writers, their readers, and the oracle that hears of both.

A transaction's records may go to several topics; which incarnation of a topic is written to or read is known by the
number of its log in the ledger. Not here: what may be true (oracle.py).
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from penstock import TopicPartition
from tests.simulation.cluster.clients.readers import opened
from tests.simulation.cluster.plan import Task, TopicKind, TransactorKind
from tests.simulation.cluster.transactions.oracle import Reading, Spot, TransactionOracle
from tests.simulation.cluster.transactions.plain_writer import PlainWriter
from tests.simulation.cluster.transactions.readers import StableReader, read_whole
from tests.simulation.cluster.transactions.writer import TransactionalWriter

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

WRITERS: dict[TransactorKind, type[TransactionalWriter] | type[PlainWriter]] = {
    TransactorKind.OURS: TransactionalWriter,
    TransactorKind.KAFKA: TransactionalWriter,
    TransactorKind.PLAIN: PlainWriter,
}


class Transactions:
    """See the module."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.oracle = TransactionOracle(clients.ledger.report)
        topics = [topic for topic in clients.plan.topics if topic.kind is TopicKind.TRANSACTED]
        self.topics = [topic.name for topic in topics]
        self._compacted = {topic.name for topic in topics if topic.is_compacted}

    def writes(self) -> list[Coroutine[Any, Any, None]]:
        plans = enumerate(self.clients.plan.transactors)
        return [WRITERS[plan.kind](self, number, plan).write() for number, plan in plans]

    def reads(self) -> list[Coroutine[Any, Any, None]]:
        plans = enumerate(self.clients.plan.stable_readers)
        return [StableReader(self, number, plan).read() for number, plan in plans]

    async def read_final(self) -> None:
        """Every topic whole, by a reader of committed records, and by one of all."""
        for topic in self.topics:
            for is_committed in (False, True):
                options = {"isolation_level": "read_committed" if is_committed else "read_uncommitted"}
                async with await opened(self.clients, **options) as consumer:
                    await read_whole(self, consumer, topic, is_committed=is_committed)

    def judge(self) -> None:
        """The ledger hears of everything that is wrong."""
        self.oracle.judge(self._is_promised)
        for what, number in self.oracle.counts().items():
            self.clients.calls[f"transactions {what}"] += number

    def _is_promised(self, spot: Spot, offset: int) -> bool:
        return spot.log in self.clients.logs.values() and offset >= self.clients.ledger.floor(*spot)

    # -- places --------------------------------------------------------------------------------------------------------

    def is_remade(self, topic: str) -> bool:
        return any(each.task is Task.REMAKE and each.topic == topic for each in self.clients.plan.operators)

    def spot(self, tp: TopicPartition) -> Spot | None:
        """None: the topic is being made anew."""
        log = self.clients.logs.get(tp.topic)
        return None if log is None else Spot(log, tp.partition)

    def acked(self, tp: TopicPartition, sent_to: Spot, offset: int, value: bytes) -> None:
        """A producer was told of the offset."""
        is_certain = self.spot(tp) == sent_to
        if is_certain and offset >= 0:
            is_certain = self.clients.ledger.is_kept(tp.topic, tp.partition, offset, value)
        self.oracle.acked(value, sent_to if is_certain else None, offset)
        self.clients.acked += 1

    def reading(self, reader: str, tp: TopicPartition, log: int, begin: int, *, is_committed: bool) -> Reading:
        if tp.topic in self._compacted:
            self.oracle.cleaned |= {log}
        return self.oracle.reading(reader, Spot(log, tp.partition), begin, is_committed=is_committed)

    def was_read(self, tp: TopicPartition, offsets: Sequence[int], values: Sequence[bytes | None]) -> None:
        """Some reader was given them: they are committed in the log."""
        if offsets and tp.topic not in self._compacted:
            self.clients.ledger.was_read(tp.topic, tp.partition, offsets, values)

    def __repr__(self) -> str:
        return f"Transactions({self.oracle!r})"
