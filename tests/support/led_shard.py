"""A led partition of `__consumer_offsets` over a real log, with a core that a test can follow, in virtual time.

The core keeps one number for each name, in records of committed offsets. A request is a function of turn and ticket.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.coordination.led_shard import LedShard, ShardPorts, ShardState
from broker.coordination.loading import ShardLoader
from broker.coordination.record_log import TxnProducer
from broker.coordination.timers import Timers
from broker.coordination.turn import Client, Ticket, Turn
from broker.coordination.watched_time import WatchedTime, WatchedTimeKey, WatchedTimeValue
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue, OffsetRun, OffsetRunKey
from broker.groups.records.record_log import read_group_records
from broker.groups.records.usual_offsets import UsualOffsetWriter
from broker.replication.follower.follower_log import truncate_to
from broker.replication.hosting.role_news import Lead
from broker.replication.leader.follower_fetch import note_follower_fetch
from broker.replication.leader.leader_appends import LeaderAppends
from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.partition import Partition
from broker.replication.replica_statistics import Traffic
from penstock.backoff import Backoff
from penstock.errors import ApiError, NotCoordinatorError
from penstock.record.codecs import Codec
from penstock.record.markers import Marker
from penstock.types import LeaderHint
from storage.log_config import LogConfig
from tests.support.partitions import flush, make_log, state
from tests.support.stepped_threads import SteppedThreads
from tests.support.virtual_time import virtual_clock

ME, OTHER, EPOCH = 1, 2, 5
CLIENT = Client("test", "/10.0.0.1")
Asks = Callable[[Turn, Ticket], None]


class Unmarked(WatchedTime):
    """Leaves no records of its own, so that a test sees those that it writes."""

    def mark(self, *, is_written: bool) -> tuple[WatchedTimeKey, WatchedTimeValue] | None:
        return None


class NumbersCore:
    """A `ShardCore` with a number for each name."""

    def __init__(self) -> None:
        self.timers: Timers[Turn] = Timers()
        self.watched: WatchedTime = Unmarked()
        self.numbers: dict[str, int] = {}
        self.pending: dict[TxnProducer, dict[str, int]] = {}
        self.waiting: list[Ticket] = []
        self.news: list[frozenset[str]] = []
        self.loads = 0
        self.markers: list[Marker] = []

    def replay_marker(self, marker: Marker) -> None:
        self.markers.append(marker)
        pending = self.pending.pop(TxnProducer(marker.producer_id, marker.producer_epoch), {})
        if marker.is_committed:
            self.numbers |= pending

    def replay(
        self,
        key: OffsetCommitKey | OffsetRunKey,
        value: OffsetCommitValue | OffsetRun | None,
        producer: TxnProducer | None = None,
    ) -> None:
        if producer is not None:
            assert isinstance(value, OffsetCommitValue)
            self.pending.setdefault(producer, {})[key.group] = value.offset
        elif isinstance(value, OffsetRun):
            self.numbers[key.group] = [one.offset for _, one in value.items()][-1]
        elif value is None:
            self.numbers.pop(key.group, None)
        else:
            self.numbers[key.group] = value.offset

    def loaded(self) -> Sequence[Callable[[Turn], None]]:
        def count(turn: Turn) -> None:
            self.loads += 1

        return (count,)

    def handle(self, turn: Turn, ticket: Ticket, request: Asks, client: Client) -> None:
        request(turn, ticket)

    def topics_changed(self, turn: Turn, changed: frozenset[str], deleted: frozenset[str]) -> None:
        self.news.append(changed)

    def unloaded(self) -> Sequence[tuple[Ticket, ApiError]]:
        waiting, self.waiting = self.waiting, []
        return [(ticket, NotCoordinatorError("unloaded")) for ticket in waiting]


def write(turn: Turn, name: str, number: int, producer: TxnProducer | None = None) -> None:
    value = OffsetCommitValue(offset=number, commit_timestamp=turn.wall_ms)
    turn.write(OffsetCommitKey(group=name, topic="t"), value, producer)


class FlushedByTests:
    """A test flushes."""

    def __init__(self) -> None:
        self.asked = 0

    def request_flush(self, partition: Partition) -> None:
        self.asked += 1


class Stage:
    """One broker's partition, which it leads with another broker in the ISR; `answers` are those that were given."""

    def __init__(self, path: Path, *, isr: tuple[int, ...] = (ME, OTHER), log_config: LogConfig | None = None) -> None:
        loop, clock = asyncio.get_running_loop(), virtual_clock()
        self.flushes = FlushedByTests()
        self.answers: dict[str, Any] = {}
        self.cores: list[NumbersCore] = []
        self.partition = Partition(ME, make_log(path, config=log_config), 0, min(2, len(isr)))
        self.logs = LeaderAppends(self.flushes, Traffic(), clock)
        self.threads = SteppedThreads(random.Random(0), loop.call_soon)
        self.ports = ShardPorts(
            logs=self.logs,
            loader=ShardLoader("group-load", read_group_records, self.threads, clock.now_ms, lambda: None),
            topics=None,  # type: ignore[arg-type]
            clock=clock,
            new_id=lambda: "new",
            commit_timeout_ms=5_000,
            codec=Codec.NONE,
            make_encode=lambda: UsualOffsetWriter().encode,
            backoff=Backoff(100, 1_000, random.Random(0)),
            on_fatal=pytest.fail,
            may_answer=lambda: self.holds_lease,
        )
        self.isr, self.holds_lease = isr, True
        self.shard = self.lead(EPOCH)

    def _make_core(self) -> NumbersCore:
        self.cores.append(NumbersCore())
        return self.cores[-1]

    def lead(self, epoch: int) -> LedShard[NumbersCore]:
        self.partition.become_leader(state(ME, epoch, isr=self.isr, replicas=self.isr), 0)
        return LedShard(Lead(self.partition, epoch), self.ports, self._make_core)

    def another_leads(self, epoch: int) -> None:
        self.partition.become_follower(state(OTHER, epoch, isr=self.isr, replicas=self.isr), LeaderHint(OTHER, epoch))

    def isr_becomes(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        registration = state(ME, self.shard.lead.leader_epoch, partition_epoch, isr, self.isr)
        self.partition.become_leader(registration, virtual_clock().now_ms())

    async def loaded(self) -> None:
        """Until the shard serves."""
        async with asyncio.timeout(60):
            while self.shard.state is not ShardState.ACTIVE:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def ask(self, name: str, request: Asks, shard: LedShard[NumbersCore] | None = None) -> None:
        def answered(answer: Any) -> None:
            assert name not in self.answers, f"{name} is answered twice"
            self.answers[name] = answer

        (shard or self.shard).submit(answered, request, CLIENT)

    def put(self, name: str, number: int) -> None:
        """Asks for a number to be written."""

        def request(turn: Turn, ticket: Ticket) -> None:
            write(turn, name, number)
            turn.answer(ticket, "written")

        self.ask(f"put {name}={number}", request)

    def get(self, name: str, as_name: str = "") -> None:
        """Asks for the number of a name."""
        self.ask(as_name or f"get {name}", lambda turn, ticket: turn.answer(ticket, self.numbers.get(name)))

    @property
    def numbers(self) -> dict[str, int]:
        return self.cores[-1].numbers

    def commit(self, offset: int | None = None) -> None:
        """Everything is on this broker's disk, and the follower has it, too."""
        flush(self.partition)
        if OTHER in self.isr:
            end = self.partition.log.log_end_offset if offset is None else offset
            position = ReplicaPosition(end, self.partition.log.epoch_for_offset(end - 1) if end else -1)
            note_follower_fetch(self.partition, OTHER, 7, position, self.partition.state.leader_epoch, 1)

    def cut(self, offset: int) -> None:
        """As a follower, the partition loses what its new leader does not have."""
        truncate_to(self.partition, offset)


async def turn_of_loop() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
