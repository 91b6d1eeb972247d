"""The core of transactions without its driver: topics, producer ids, the sender of markers and time are the test's.

Every record goes through its encoding, so the state is what the log says; the log is kept, for a failover.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from broker.coordination.turn import Client, Turn
from broker.transactions.fresh_ids import NEEDS_PRODUCER_ID, WithProducerId
from broker.transactions.marker_port import MarkersTicket, MarkersWritten, TransactionEnd
from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_figures import TransactionCounters
from broker.transactions.transaction_memory import transaction_memory
from broker.transactions.transaction_metadata import TransactionMetadata
from broker.transactions.transaction_records import decode_transaction_record, encode_transaction_record
from broker.transactions.transaction_shard import TransactionShard
from penstock.errors import ApiError
from penstock.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from penstock.messages.transactions.producers import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    TransactionPartitions,
)
from penstock.types import TopicPartition
from tests.support.offsets_shard import SomeTopics

CLIENT = Client("client", "/127.0.0.1", party="User:client")
T0_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class SenderHere:
    """`MarkerPort` of a test: what leaves is kept until the test says that it is written."""

    def __init__(self) -> None:
        self.sent: list[TransactionEnd] = []
        self.unknown: list[TransactionEnd] = []

    def send(self, end: TransactionEnd) -> None:
        self.sent.append(end)

    def ask_again(self, end: TransactionEnd) -> None:
        self.unknown.append(end)


class TransactionsHere:
    """One led partition of `__transaction_state`."""

    def __init__(self, config: TransactionConfig | None = None, memory_bytes: int = 1 << 30) -> None:
        self.config = config or TransactionConfig()
        self.topics = SomeTopics(orders=4, invoices=2, __consumer_offsets=50)
        self.memory, self.counters = transaction_memory(memory_bytes), TransactionCounters()
        self.fresh = count(1000)
        self.now_ms, self.client = 5_000, CLIENT
        self.log: list[tuple[bytes, bytes | None]] = []
        self.sender = SenderHere()
        self.is_marked = False
        """The log has the watched time, too."""
        self.calendar_off_ms = 0
        self.shard = self._loaded()

    def _loaded(self) -> TransactionShard:
        shard = TransactionShard(self.config, self.sender, self.memory, self.counters)
        for key, value in self.log:
            record = decode_transaction_record(key, value)
            assert record is not None
            shard.replay(*record)
        return shard

    def failover(self) -> None:
        """Another broker leads: its state is the log, and what was being sent is forgotten."""
        self.shard.unloaded()
        self.sender = SenderHere()
        self.shard = self._loaded()
        for step in self.shard.loaded():
            self.take(step)

    # -- time and turns ------------------------------------------------------------------------------------------------

    @property
    def wall_ms(self) -> int:
        return T0_MS + self.now_ms + self.calendar_off_ms

    def turn(self) -> Turn:
        self.shard.watched.look(self.now_ms, self.wall_ms)
        return Turn(self.now_ms, self.wall_ms, self.topics, self.shard, lambda: "id")

    def take(self, decide: Any) -> Turn:
        """One turn; its records are in the log, and its ends have left."""
        turn = self.turn()
        decide(turn)
        if self.is_marked and (mark := self.shard.watched.mark(is_written=bool(turn.records))) is not None:
            self.log.append(encode_transaction_record(*mark))
        for key, value, *_ in turn.records:
            self.log.append(encode_transaction_record(key, value))
        for ticket, answer in turn.answers:
            if isinstance(ticket, MarkersTicket):
                ticket(answer)
        return turn

    def wait(self, ms: int) -> None:
        """Timers are taken when they are due."""
        until_ms = self.now_ms + ms
        while (at_ms := self.shard.timers.next_ms) is not None and at_ms <= until_ms:
            self.now_ms = max(self.now_ms, at_ms)
            for action in self.shard.timers.take_due(self.now_ms):
                self.take(action)
                break
        self.now_ms = until_ms

    # -- requests ------------------------------------------------------------------------------------------------------

    def ask(self, request: Any) -> Any:
        """The answer; an error is raised. A producer id is handed in where one is needed."""
        turn = self.take(lambda turn: self.shard.handle(turn, "asker", request, self.client))
        answer = {who: given for who, given in turn.answers if who == "asker"}["asker"]
        if answer is NEEDS_PRODUCER_ID:
            assert not turn.records
            return self.ask(WithProducerId(request, next(self.fresh)))
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def init(self, name: str = "t", named: tuple[int, int] = (-1, -1), timeout_ms: int = TIMEOUT_MS) -> tuple[int, int]:
        answer: InitProducerIdResponse = self.ask(InitProducerIdRequest(name, timeout_ms, *named))
        return answer.producer_id, answer.producer_epoch

    def add(
        self,
        producer: tuple[int, int],
        *partitions: TopicPartition,
        name: str = "t",
        version: int = 2,
        verify_only: bool = False,
    ) -> list[ApiError | None]:
        asked = TransactionPartitions(name, *producer, partitions or (P0,), verify_only, version == 2)
        answer = self.ask(AddPartitionsToTxnRequest((asked,)))
        return [one.error for one in answer.transactions[0].partitions]

    def add_group(self, producer: tuple[int, int], group_id: str, name: str = "t") -> None:
        self.ask(AddOffsetsToTxnRequest(name, *producer, group_id))

    def end(
        self, producer: tuple[int, int], is_committed: bool = True, name: str = "t", version: int = 2
    ) -> tuple[int, int]:
        answer: EndTxnResponse = self.ask(EndTxnRequest(name, *producer, is_committed, version == 2))
        return answer.producer_id, answer.producer_epoch

    def markers_written(self) -> list[TransactionEnd]:
        """Everything that was sent is written."""
        sent, self.sender.sent = self.sender.sent, []
        for end in sent:
            self.ask(MarkersWritten(end.transactional_id, end.producer_id, end.producer_epoch, end.decided_ms))
        return sent

    def state(self, name: str = "t") -> str:
        return self.transaction(name).state.value

    def transaction(self, name: str = "t") -> TransactionMetadata:
        found = self.shard.transaction(name)
        assert found is not None
        return found
