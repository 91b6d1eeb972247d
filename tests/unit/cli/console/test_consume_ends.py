"""`penstock consume` reads what has a leader, says what has none, and fails only when nothing else is left."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from penstock.cli.console import consume
from penstock.cli.console.consume_ends import LOOK_MS, PATIENCE_MS, Ends, Leaders
from penstock.client.admin.admin_types import TopicDescription
from penstock.clock import ManualClock
from penstock.errors import ConfigError, LeaderNotAvailableError, TimedOutError
from penstock.messages.metadata import PartitionInfo
from penstock.record.builder import build_batch
from penstock.types import NO_LEADER, TopicPartition
from tests.support.fake_broker import FakeCluster

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
WHY = "no leader: start broker 2"


class Record(NamedTuple):
    """The place of a record."""

    topic: str
    partition: int
    offset: int


class FakeTopic:
    """The topic "t" as the cluster tells it, and a consumer of it that refuses to wait for a leader."""

    def __init__(self) -> None:
        self.offline: set[TopicPartition] = set()
        self.positions = {A: 0, B: 0}
        self.end_offset = 5
        self.answers = True

    def describe(self) -> list[TopicDescription]:
        if not self.answers:
            raise TimedOutError("no broker answered in time")
        error = LeaderNotAvailableError(WHY)
        partitions = (
            PartitionInfo(n, NO_LEADER, 3, 0, (1,), (1,), error)
            if tp in self.offline
            else PartitionInfo(n, 1, 3, 0, (1,), (1,))
            for n, tp in enumerate((A, B))
        )
        return [TopicDescription("t", "id", tuple(partitions))]

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        assert not self.offline & set(partitions), "would wait"
        return dict.fromkeys(partitions, self.end_offset)

    def position(self, tp: TopicPartition) -> int:
        assert tp not in self.offline or self.positions[tp] > 0, "would wait"
        return self.positions[tp]


class Bench:
    """A command with --exit-at-end, its topic and its clock."""

    def __init__(self, *offline: TopicPartition) -> None:
        self.topic, self.clock = FakeTopic(), ManualClock()
        self.topic.offline.update(offline)
        self.leaders = Leaders(self.topic.describe, self.clock)
        partitions = self.leaders.look()
        self.ends = Ends(self.topic, partitions, self.leaders, self.clock)  # type: ignore[arg-type]

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.leaders.maybe_look()


def test_a_partition_without_a_leader_is_told_of_once_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(B)
    for _ in range(3):
        bench.pass_time(LOOK_MS)
    assert capsys.readouterr().err == f"t-1 cannot be read now: it has {WHY}. The other partitions are read\n"


def test_a_partition_that_loses_its_leader_meanwhile_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench()
    bench.topic.offline.add(A)
    bench.pass_time(LOOK_MS - 1)
    assert capsys.readouterr().err == ""
    bench.pass_time(1)
    assert capsys.readouterr().err.startswith("t-0 cannot be read now")


def test_the_end_of_a_partition_is_learnt_when_it_has_a_leader_again() -> None:
    bench = Bench(B)
    bench.topic.positions[A] = 5
    assert not bench.ends.is_reached()
    bench.topic.offline.clear()
    assert not bench.ends.is_reached(), "not seen yet"
    bench.pass_time(LOOK_MS)
    assert not bench.ends.is_reached()
    bench.topic.positions[B] = 5
    assert bench.ends.is_reached()


def test_a_record_of_a_partition_that_was_not_seen_to_be_back_is_printed() -> None:
    bench = Bench(B)
    bench.topic.offline.clear()
    assert bench.ends.is_before(Record("t", 1, 4)) and not bench.ends.is_before(Record("t", 1, 5))


def test_a_partition_that_was_read_to_its_end_needs_no_leader_any_more() -> None:
    bench = Bench()
    assert not bench.ends.is_reached()
    bench.topic.positions.update({A: 5, B: 5})
    bench.topic.offline.add(B)
    bench.pass_time(LOOK_MS)
    assert bench.ends.is_reached()


def test_the_command_fails_when_only_partitions_without_a_leader_are_left_for_long() -> None:
    bench = Bench(B)
    for _ in range(2):  # the other partition is being read, for as long as that takes
        assert not bench.ends.is_reached()
        bench.pass_time(PATIENCE_MS)
    bench.topic.positions[A] = 5
    assert not bench.ends.is_reached()
    bench.pass_time(PATIENCE_MS - 1)
    assert not bench.ends.is_reached()
    bench.pass_time(1)
    with pytest.raises(LeaderNotAvailableError, match=f"without a leader: t-1 has {WHY}"):
        bench.ends.is_reached()


def test_what_was_seen_counts_on_while_nobody_answers() -> None:
    bench = Bench(B)
    bench.topic.answers = False
    bench.pass_time(LOOK_MS)
    assert bench.leaders.offline == {B: WHY}


def test_a_limit_before_the_end_is_the_end() -> None:
    bench = Bench()
    ends = Ends(bench.topic, [A, B], bench.leaders, bench.clock, {A: 2, B: 9})  # type: ignore[arg-type]
    assert not ends.is_reached()
    assert [ends.is_before(Record("t", 0, offset)) for offset in (1, 2)] == [True, False]
    assert [ends.is_before(Record("t", 1, offset)) for offset in (4, 5)] == [True, False]
    bench.topic.positions = {A: 2, B: 5}
    assert ends.is_reached()


def test_some_partitions_are_chosen_and_one_that_is_not_there_is_named() -> None:
    topic = FakeTopic()
    assert Leaders(topic.describe, ManualClock(), [1]).look() == [B]
    assert Leaders(topic.describe, ManualClock(), None, {B.topic: (1,), "another": (7,)}).look() == [B]
    with pytest.raises(ConfigError, match=f"^{B.topic}:7: {B.topic} has the partitions 0 to "):
        Leaders(topic.describe, ManualClock(), None, {B.topic: (0, 7)}).look()
    with pytest.raises(ConfigError, match="--partition 7: t has the partitions 0 to 1"):
        Leaders(topic.describe, ManualClock(), [0, 7]).look()


def test_the_records_of_the_others_are_printed(capfdbinary: Any) -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t", 2)
        cluster.append("t", 0, build_batch([b"v"], timestamps_ms=1_700_000_000_000))
        cluster.move_leader("t", 1, NO_LEADER)
        consume.consume(["t"], from_beginning=True, count=1, exit_at_end=True, bootstrap=cluster.bootstrap)
    printed = capfdbinary.readouterr()
    assert printed.out == b"v\n"
    found = b"t-1 cannot be read now: it has no leader now. The other partitions are read"
    assert [line for line in printed.err.splitlines() if line.startswith(b"t-")] == [found]  # others write there, too
