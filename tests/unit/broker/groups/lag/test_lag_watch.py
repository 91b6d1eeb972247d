"""The watch walks in short steps, learns ends from leaders, and replaces its snapshot as a whole; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

from broker.coordination.turn import KnownTopics
from broker.groups.lag.lag_pass import GroupFacts
from broker.groups.lag.lag_watch import LOOK_MS, PAUSE_MS, LagWatch
from broker.groups.lag.log_ends import PARTITIONS_PER_ASK, LogEnds
from penstock.clock import ManualClock
from penstock.errors import NetworkError, UnknownTopicOrPartitionError
from penstock.messages.offsets import ListOffsetsRequest, ListOffsetsResponse, ListOffsetsResult
from penstock.types import LATEST_TIMESTAMP, TopicPartition
from tests.support.virtual_time import run_virtual, virtual_clock

TOPICS: Any = object()
STABLE = GroupFacts("consumer", "Stable", 2, 7)


class Kept(NamedTuple):
    offset: int
    commit_ms: int = 0
    topic_id: str = ""


class FakeOffsets(dict[int, Kept]):
    def items(self) -> Iterator[tuple[int, Any]]:  # type: ignore[override]
        return iter(tuple(super().items()))


class FakeShard:
    """`groups`: group → topic → partition → committed offset; a facts of None is a group that is gone."""

    def __init__(self, groups: dict[str, dict[str, dict[int, Kept]]], facts: GroupFacts | None = STABLE) -> None:
        self.groups, self._facts = groups, facts
        self.partitions: list[TopicPartition] = []

    def group_ids(self) -> Iterator[str]:
        return iter(self.groups)

    def facts(self, group_id: str) -> GroupFacts | None:
        return self._facts

    def topics_of(self, group_id: str) -> Mapping[str, FakeOffsets]:
        return {topic: FakeOffsets(found) for topic, found in self.groups[group_id].items()}

    def held(self, group_id: str, topics: KnownTopics) -> Iterator[TopicPartition]:
        assert topics is TOPICS
        return iter(self.partitions)


class FakeLookup:
    """The replicas here."""

    def __init__(self, **ends: int) -> None:
        self.ends = {TopicPartition(name, 0): end for name, end in ends.items()}

    def find(self, tp: TopicPartition) -> Any:
        end = self.ends.get(tp)
        return (
            None
            if end is None
            else SimpleNamespace(last_stable_offset=end, high_watermark=end + 5, topic_id=f"id-{tp.topic}")
        )


class FakeImage:
    """Every partition is led by the broker of its number modulo 3."""

    def partition(self, topic: str, number: int) -> Any:
        return SimpleNamespace(leader_id=number % 3 - (topic == "offline") * 9, topic_id=f"id-{topic}")


class Leaders:
    """Brokers that are asked; `gone` do not answer."""

    def __init__(self, gone: frozenset[int] = frozenset()) -> None:
        self.asked: list[tuple[int, ListOffsetsRequest, float]] = []
        self.gone = gone

    async def ask(self, broker_id: int, request: ListOffsetsRequest, timeout_ms: int) -> ListOffsetsResponse:
        self.asked.append((broker_id, request, asyncio.get_running_loop().time()))
        if broker_id in self.gone:
            raise NetworkError("gone")
        return ListOffsetsResponse(
            tuple(
                ListOffsetsResult(q.partition, UnknownTopicOrPartitionError())
                if q.partition.topic == "bad"
                else ListOffsetsResult(q.partition, offset=100)
                for q in request.partitions
            )
        )


def ends_of(leaders: Leaders, lookup: FakeLookup | None = None) -> LogEnds:
    image: Any = FakeImage()
    found: Any = lookup or FakeLookup()
    return LogEnds(5, found, lambda: image, leaders.ask)


def no_failure(error: BaseException) -> None:
    raise error


def test_a_replica_here_is_looked_at_and_leaders_of_others_are_asked_for_the_next_look() -> None:
    async def main() -> None:
        leaders = Leaders()
        shard = FakeShard(
            {
                "g": {"here": {0: Kept(4, topic_id="id-here")}, "there": {1: Kept(40)}, "bad": {1: Kept(1)}},
                "old": {"here": {0: Kept(4, topic_id="of one that was deleted")}},
                "h": {"offline": {0: Kept(1)}},
            }
        )
        watch = LagWatch(lambda: [shard], ends_of(leaders, FakeLookup(here=10)), TOPICS, virtual_clock(), no_failure)
        watch.start()
        await asyncio.sleep(LOOK_MS / 1000 + 0.1)
        assert watch.snapshot.groups["g"].lag == 6 and watch.snapshot.counts.unknown_ends == 4
        await asyncio.sleep(LOOK_MS / 1000 + 1)
        assert watch.snapshot.groups["g"].lag == 66 and watch.snapshot.counts.unknown_ends == 3
        assert watch.snapshot.counts.passes == 2
        (broker_id, request, _), *_ = leaders.asked
        assert broker_id == 1 and request.replica_id == 5 and request.read_committed
        assert {(q.partition.topic, q.topic_id, q.timestamp_ms) for q in request.partitions} == {
            ("there", "id-there", LATEST_TIMESTAMP),
            ("bad", "id-bad", LATEST_TIMESTAMP),
        }
        await watch.stop()

    run_virtual(main())


def test_an_offset_below_0_is_none_and_has_no_lag() -> None:
    async def main() -> None:
        shard = FakeShard({"g": {"here": {0: Kept(-2, topic_id="id-here")}}})
        watch = LagWatch(lambda: [shard], ends_of(Leaders(), FakeLookup(here=10)), TOPICS, virtual_clock(), no_failure)
        await watch.look()
        assert (watch.snapshot.groups["g"].lag, watch.snapshot.counts.unknown_ends) == (0, 0)

    run_virtual(main())


def test_leaders_are_asked_one_after_the_other_and_one_that_is_gone_leaves_no_old_end() -> None:
    async def main() -> None:
        leaders = Leaders()
        ends = ends_of(leaders)
        many = [TopicPartition("there", number) for number in range(3 * PARTITIONS_PER_ASK + 3)]

        def known() -> int:
            return sum(ends.of(tp, "") is not None for tp in many)

        assert known() == 0
        await ends.learn()
        assert known() == len(many) and ends.partitions_asked == len(many)
        assert [broker_id for broker_id, _, _ in leaders.asked] == [0, 0, 1, 1, 2, 2]
        times = [at for _, _, at in leaders.asked]
        assert all(after - before >= 0.2 for before, after in pairwise(times))
        leaders.gone = frozenset({1})
        await ends.learn()
        assert known() == len(many) * 2 // 3
        assert ends.of(many[0], "another topic's id") is None

    run_virtual(main())


class SlowClock(ManualClock):
    """Each look at it takes a third of a step."""

    def now_ns(self) -> int:
        self.looked = getattr(self, "looked", 0) + 1
        return self.looked * 400_000


def test_the_loop_has_its_turns_while_very_many_offsets_are_looked_at() -> None:
    async def main() -> None:
        groups = {f"g{number}": {"here": {0: Kept(number)}} for number in range(100)}
        groups["large"] = {"there": {number: Kept(1) for number in range(10_000)}}
        watch = LagWatch(
            lambda: [FakeShard(groups)], ends_of(Leaders(), FakeLookup(here=100)), TOPICS, SlowClock(), no_failure
        )
        looking, turns = asyncio.ensure_future(watch.look()), 0
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not looking.done():
            turns += 1
            await asyncio.sleep(PAUSE_MS / 1000)
        assert turns > 40 and loop.time() - began >= 40 * PAUSE_MS / 1000
        assert watch.snapshot.groups["g0"].lag == 100 and watch.snapshot.counts.hidden_groups == 0

    run_virtual(main())


def test_a_group_that_is_gone_is_not_looked_at() -> None:
    async def main() -> None:
        shard = FakeShard({"g": {"here": {0: Kept(1)}}}, facts=None)
        watch = LagWatch(lambda: [shard], ends_of(Leaders(), FakeLookup(here=9)), TOPICS, virtual_clock(), no_failure)
        await watch.look()
        assert not watch.snapshot.groups and not watch.snapshot.states

    run_virtual(main())


def test_of_a_group_that_never_committed_the_partitions_of_its_members_are_looked_at() -> None:
    async def main() -> None:
        shard, lookup = FakeShard({"g": {}, "committed": {"here": {0: Kept(9)}}}), FakeLookup(here=9)
        shard.partitions = [TopicPartition("here", 0), TopicPartition("there", 1)]
        leaders = Leaders()
        watch = LagWatch(lambda: [shard], ends_of(leaders, lookup), TOPICS, virtual_clock(), no_failure)
        found = []
        for end in (9, 9, 12):
            lookup.ends[TopicPartition("here", 0)] = end
            await watch.look()
            await watch._ends.learn()
            found.append(watch.snapshot.groups["g"].never_committed)
            await asyncio.sleep(5)
        assert found == [0, 0, 3] and leaders.asked
        assert watch.snapshot.groups["committed"].never_committed == 0
        assert watch.snapshot.groups["committed"].lag == 3

    run_virtual(main())
