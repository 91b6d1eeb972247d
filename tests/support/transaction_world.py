"""The surroundings of a core of transactions in a campaign: a coordinator that fails over and loses what was not
committed, and leaders of partitions that take batches and markers.

A leader takes the first batch of a transaction only if the coordinator has said so since the last marker, and no batch
below the newest epoch of its producer; it refuses markers of a coordinator that is over. Such markers come late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from broker.coordination.turn import Turn
from broker.transactions.fresh_ids import NEEDS_PRODUCER_ID, WithProducerId
from broker.transactions.marker_port import MarkersWritten, SendMarkersAgain, TransactionEnd
from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_figures import TransactionCounters
from broker.transactions.transaction_memory import transaction_memory
from broker.transactions.transaction_metadata import VERSION_2
from broker.transactions.transaction_records import decode_transaction_record, encode_transaction_record
from broker.transactions.transaction_shard import TransactionShard
from penstock.errors import ApiError, CoordinatorNotAvailableError
from penstock.types import TopicPartition
from tests.support.offsets_shard import SomeTopics
from tests.support.transaction_core import CLIENT, T0_MS

Answer = Callable[[Any], None]
DAY_MS = 24 * 3_600_000


@dataclass
class Leader:
    """One partition. `ends` has the end of every datum, once a marker came."""

    epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, list[object]] = field(default_factory=dict)
    guards: dict[int, tuple[object, int | None]] = field(default_factory=dict)
    """With the epoch of a transaction of version 2."""
    coordinators: dict[int, int] = field(default_factory=dict)
    ends: dict[object, bool] = field(default_factory=dict)

    def takes(self, producer: tuple[int, int], datum: object, guard: object) -> bool:
        """The batch is appended."""
        producer_id, epoch = producer
        if epoch < self.epochs.get(producer_id, -1):
            return False
        if not self.open.get(producer_id) and self.guards.get(producer_id, (None, None))[0] is not guard:
            return False
        self.epochs[producer_id] = epoch
        self.open.setdefault(producer_id, []).append(datum)
        return True

    def mark(self, end: TransactionEnd, coordinator_epoch: int) -> None:
        if coordinator_epoch < self.coordinators.get(end.producer_id, -1):
            return
        self.coordinators[end.producer_id] = coordinator_epoch
        _, guarded = self.guards.get(end.producer_id, (None, None))
        if end.transaction_version < VERSION_2 or guarded is None or end.producer_epoch > guarded:
            self.guards.pop(end.producer_id, None)
        if end.producer_epoch < self.epochs.get(end.producer_id, -1):
            return
        self.epochs[end.producer_id] = end.producer_epoch
        for datum in self.open.pop(end.producer_id, []):
            assert self.ends.setdefault(datum, end.is_committed) is end.is_committed


class World:
    """One led partition of `__transaction_state` and some of data. `MarkerPort` of its core."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.topics = SomeTopics(data=4)
        self.leaders = {TopicPartition("data", number): Leader() for number in range(4)}
        self.now_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.committed = 0
        self.epoch = 0
        self._config = TransactionConfig(transactional_id_expiration_ms=DAY_MS)
        self._fresh = count(100)
        self._waiting: list[tuple[int, Answer, Any]] = []
        self.sent: list[TransactionEnd] = []
        self._unknown: list[TransactionEnd] = []
        self._ghosts: list[tuple[TransactionEnd, int]] = []
        self._sent_ends: list[TransactionEnd] = []
        self._load()

    def _load(self) -> None:
        self.shard = TransactionShard(self._config, self, transaction_memory(1 << 30), TransactionCounters())
        for entry in self.log:
            record = decode_transaction_record(*entry)
            assert record is not None
            self.shard.replay(*record)
        self.committed = len(self.log)
        for step in self.shard.loaded():
            self.take(step)

    # -- the driver ----------------------------------------------------------------------------------------------------

    def take(self, decide: Callable[[Turn], None], ticket: Answer | None = None) -> None:
        turn = Turn(self.now_ms, T0_MS + self.now_ms, self.topics, self.shard, lambda: "id")
        self.shard.watched.look(turn.now_ms, turn.wall_ms)
        try:
            decide(turn)
        except ApiError as error:
            assert not turn.records and ticket is not None
            turn.answer(ticket, error)
        for key, value, *_ in turn.records:
            self.log.append(encode_transaction_record(key, value))
        self._waiting += [(len(self.log), on_answer, answer) for on_answer, answer in turn.answers]

    def ask(self, request: Any, on_answer: Answer) -> None:
        """An id is handed in where one is needed."""

        def answered(answer: Any) -> None:
            if answer is NEEDS_PRODUCER_ID:
                self.ask(WithProducerId(request, next(self._fresh)), on_answer)
            else:
                on_answer(answer)

        self.take(lambda turn: self.shard.handle(turn, answered, request, CLIENT), answered)

    def commit(self, everything: bool = False) -> None:
        """Some more of the log is committed, and what waited for it is answered."""
        self.committed = len(self.log) if everything else self.random.randint(self.committed, len(self.log))
        ready = [one for one in self._waiting if one[0] <= self.committed]
        self._waiting = [one for one in self._waiting if one[0] > self.committed]
        for _, on_answer, answer in ready:
            on_answer(answer)

    def commit_unknown(self) -> None:
        """It takes too long: what waits gets an error, and the records stay."""
        waiting, self._waiting = self._waiting, []
        for _, on_answer, _ in waiting:
            on_answer(CoordinatorNotAvailableError("no commit in time"))

    def failover(self) -> None:
        """Another broker leads, with what was committed and a part of the rest."""
        del self.log[self.random.randint(self.committed, len(self.log)) :]
        self._ghosts += [(end, self.epoch) for end in self.sent]
        self.epoch += 1
        self.sent, self._unknown, self._sent_ends = [], [], []
        waiting, self._waiting = [on_answer for _, on_answer, _ in self._waiting], []
        waiting += [ticket for ticket, _ in self.shard.unloaded()]
        self._load()
        for on_answer in waiting:
            on_answer(CoordinatorNotAvailableError("the lead is over"))
        self._unknown = []

    def wait(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        while (at_ms := self.shard.timers.next_ms) is not None and at_ms <= until_ms:
            self.now_ms = max(self.now_ms, at_ms)
            for action in self.shard.timers.take_due(self.now_ms):
                self.take(action)
                break
        self.now_ms = until_ms

    # -- markers -------------------------------------------------------------------------------------------------------

    def send(self, end: TransactionEnd) -> None:
        last = self.last_committed(end.transactional_id)
        assert last is not None and not (last.update_ms < end.decided_ms), "markers before the commit of the decision"
        if end not in self.sent:
            self.sent.append(end)

    def ask_again(self, end: TransactionEnd) -> None:
        self._unknown.append(end)

    def last_committed(self, transactional_id: str) -> Any:
        for key, value in reversed(self.log[: self.committed]):
            record = decode_transaction_record(key, value)
            if record is not None and getattr(record[0], "transactional_id", "") == transactional_id:
                return record[1]
        return None

    def write_markers(self) -> None:
        """The markers of one decision are written; the core is told until it has said so."""
        if not self.sent:
            return
        end = self.random.choice(self.sent)
        if end not in self._sent_ends:
            for partition in end.partitions:
                self.leaders[partition].mark(end, self.epoch)
            self._sent_ends.append(end)
        self._tell_written(end)

    def _tell_written(self, end: TransactionEnd) -> None:
        def on_answer(answer: Any) -> None:
            if not isinstance(answer, ApiError) and end in self.sent:
                self.sent.remove(end)

        key = end.transactional_id, end.producer_id, end.producer_epoch, end.decided_ms
        self.ask(MarkersWritten(*key), on_answer)

    def late(self) -> None:
        """News of the past: markers of an earlier coordinator, and answers about decisions that are whole by now."""
        if self._ghosts:
            end, epoch = self.random.choice(self._ghosts)
            is_fenced = all(epoch < self.leaders[one].coordinators.get(end.producer_id, -1) for one in end.partitions)
            if is_fenced or end in self.sent:
                for partition in end.partitions:
                    self.leaders[partition].mark(end, epoch)
        if self._sent_ends:
            self._tell_written(self.random.choice(self._sent_ends))

    def ask_for_unknown(self) -> None:
        unknown, self._unknown = self._unknown, []
        for end in unknown:
            key = end.transactional_id, end.producer_id, end.producer_epoch, end.decided_ms
            self.ask(SendMarkersAgain(*key), lambda answer: None)
