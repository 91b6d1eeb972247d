"""The sampler in virtual time: parts in their rhythms, a broker that hangs, a missing right, and a bounded cost."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pytest

from penstock.admin import (
    BrokerInfo,
    BrokerLogDirs,
    ClusterInfo,
    GroupDescription,
    GroupListing,
    GroupType,
    LogDirInfo,
    NodeStanding,
    OffsetInfo,
    PartitionInfo,
    PartitionLag,
    ReplicaLogInfo,
    TopicDescription,
)
from penstock.console.watching.last_hour import HourLimits, LastHour, Subject
from penstock.console.watching.sampler import PART_SECONDS, Sampler, next_pause_ms, record_bytes
from penstock.errors import ClusterAuthorizationFailedError, CoordinatorNotAvailableError
from penstock.types import CommittedOffset, TopicPartition
from tests.support.virtual_time import VirtualTimeLoop, run_virtual

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


class FakeAdmin:
    """Topic a is led by broker 1, topic b by broker 2; 10 records a second come to each."""

    def __init__(self) -> None:
        self.hangs: set[int] = set()
        self.calls: list[str] = []
        self.is_allowed = True
        self.group_error: Exception | None = None
        self.group_s = 0.0
        self.is_led_anew = False
        """Other brokers answer for the partitions, and the list of topics does not know it yet."""
        self.late_topics: Iterator[bool] = itertools.repeat(False)
        """True for each question about topics that meets a broker which does not answer, before it asks another."""
        self.fenced: set[int] = set()
        self.contact_s = 0.0
        """The time until the first broker that is asked has not answered, and another is asked."""

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def describe_cluster(self) -> ClusterInfo:
        await asyncio.sleep(self.contact_s)
        brokers = tuple(BrokerInfo(n, "h", 9192, fenced=n in self.fenced) for n in (1, 2))
        return ClusterInfo("c", 1, brokers, 0, NodeStanding(1, False, 0, 0, 0, 0, 0, 0, ()))

    async def describe_topics(self, *, ask_leaders: bool = True) -> list[TopicDescription]:
        assert not ask_leaders
        await asyncio.sleep(2.5 if next(self.late_topics) else 0)
        return [
            TopicDescription(name, f"id-{name}", (PartitionInfo(0, leader, 0, 0, (1, 2), (1, 2)),))
            for name, leader in (("a", 1), ("b", 2))
        ]

    async def list_offsets(
        self, partitions: Mapping[TopicPartition, int | str] | Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetInfo]:
        for tp in partitions:
            if {"a": 1, "b": 2}[tp.topic] in self.hangs:
                await asyncio.Event().wait()
        await asyncio.sleep(0.002)
        epoch = 1 if self.is_led_anew else 0
        return {tp: OffsetInfo(int(self._now_s() * 10), 0, epoch) for tp in partitions}

    async def list_groups(self) -> list[GroupListing]:
        if not self.is_allowed:
            raise ClusterAuthorizationFailedError("User:x may not DESCRIBE the cluster")
        self.calls.append("list_groups")
        return [GroupListing("g", "Stable", GroupType.CONSUMER, "consumer", 1)]

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        await asyncio.sleep(self.group_s)
        if self.group_error is not None:
            raise self.group_error
        return {group_id: GroupDescription(group_id, state="Stable") for group_id in group_ids}

    async def group_lags(self, group_ids: Iterable[str]) -> dict[str, dict[TopicPartition, PartitionLag]]:
        lag = PartitionLag(CommittedOffset(100), 107)
        return {group_id: {A0: lag, B0: PartitionLag(None, 5)} for group_id in group_ids}

    async def describe_log_dirs(self) -> dict[int, BrokerLogDirs]:
        replicas = {A0: ReplicaLogInfo("id-a", 5_000, 0, 100), B0: ReplicaLogInfo("id-b", 0, 7, 7)}
        return {1: BrokerLogDirs(1, (LogDirInfo("/d", "i", None, 0, 0, replicas),))}


def watch(admin: FakeAdmin, *, seconds: float, then: Callable[[], None] | None = None) -> tuple[LastHour, Sampler]:
    """The memory and the sampler after as long a time; `then` happens at half of it."""

    async def main() -> tuple[LastHour, Sampler]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        hour = LastHour(HourLimits(step_ms=1_000, steps=60))
        sampler = Sampler(admin, hour, loop)
        running = asyncio.create_task(sampler.run())
        await asyncio.sleep(seconds / 2)
        if then is not None:
            then()
        await asyncio.sleep(seconds / 2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return hour, sampler

    return run_virtual(main())


def test_every_part_reaches_the_core() -> None:
    hour, sampler = watch(FakeAdmin(), seconds=30)
    assert hour.newest(Subject.TOPIC_RECORDS, "a") == pytest.approx(10, abs=1)
    assert hour.newest(Subject.TOPIC_BYTES, "a") == pytest.approx(500, abs=50)
    assert hour.newest(Subject.TOPIC_BYTES, "b") is None
    assert hour.newest(Subject.GROUP_LAG, "g") == 7
    assert hour.newest(Subject.BROKER_PROBE_MS, "1") == pytest.approx(2, abs=1)
    assert hour.newest(Subject.BROKER_LEADERS, "2") == 1
    assert hour.read_by("g") == ("a",)
    assert sampler.statistics().errors == {}
    assert sampler.statistics().rounds["sizes"] == 3
    assert 25 <= sampler.statistics().rounds["brokers"] <= 31


def test_a_broker_that_hangs_holds_up_nothing_else() -> None:
    admin = FakeAdmin()
    hour, _ = watch(admin, seconds=60, then=lambda: admin.hangs.add(2))
    assert hour.newest(Subject.TOPIC_RECORDS, "a") == pytest.approx(10, abs=1)
    assert hour.series(Subject.TOPIC_RECORDS, "b")[-1] is None
    assert hour.silent_brokers == {2}
    assert [event.text for event in hour.timeline.about(broker=2)] == ["broker 2 does not answer the console"]


def test_an_answer_of_the_next_leader_is_none_of_the_broker_that_led_before() -> None:
    admin = FakeAdmin()
    admin.hangs.add(2)

    def another_leads() -> None:
        admin.hangs.clear()
        admin.is_led_anew = True

    hour, _ = watch(admin, seconds=20, then=another_leads)
    assert hour.silent_brokers == {2}
    assert [event.text for event in hour.timeline.about(broker=2)] == ["broker 2 does not answer the console"]


def test_a_part_that_may_not_be_asked_says_which_right_is_missing() -> None:
    admin = FakeAdmin()
    admin.is_allowed = False
    hour, sampler = watch(admin, seconds=30)
    assert sampler.statistics().errors == {"groups": "User:x may not DESCRIBE the cluster"}
    assert sampler.statistics().rounds["groups"] == 1
    assert hour.newest(Subject.TOPIC_RECORDS, "a") is not None


def test_a_coordinator_that_is_away_is_asked_again_and_its_error_goes() -> None:
    admin = FakeAdmin()
    admin.group_error = CoordinatorNotAvailableError("it is away")
    _, sampler = watch(admin, seconds=10)
    assert sampler.statistics().errors == {"groups": "it is away"}

    def mend() -> None:
        admin.group_error = None

    hour, sampler = watch(admin, seconds=20, then=mend)
    assert sampler.statistics().errors == {}
    assert hour.newest(Subject.GROUP_LAG, "g") == 7


def test_an_answer_of_an_odd_node_ends_the_watch_of_nothing() -> None:
    admin = FakeAdmin()
    admin.group_error = KeyError("a field that is not there")
    _, sampler = watch(admin, seconds=10)
    assert sampler.statistics().errors == {"groups": "the answer cannot be understood: KeyError"}

    def mend() -> None:
        admin.group_error = None

    hour, sampler = watch(admin, seconds=20, then=mend)
    assert sampler.statistics().errors == {} and hour.newest(Subject.GROUP_LAG, "g") == 7
    assert hour.newest(Subject.TOPIC_RECORDS, "a") is not None


def test_a_cluster_that_does_not_answer_at_all_is_told_of_as_such() -> None:
    admin = FakeAdmin()
    admin.hangs = {1, 2}
    _, sampler = watch(admin, seconds=2 * PART_SECONDS)
    assert "offsets" not in sampler.statistics().errors  # nobody answered, and the brokers are silent
    assert repr(sampler).startswith("Sampler(LastHour(")


def test_a_broker_that_is_gone_is_seen_in_time_although_others_are_asked_after_it() -> None:
    admin = FakeAdmin()

    def kill() -> None:
        admin.contact_s = 2.5

    hour, sampler = watch(admin, seconds=30, then=kill)
    assert sampler.statistics().rounds["brokers"] >= 18  # 15, and one in 2.5 s

    def fence() -> None:
        admin.fenced.add(2)

    hour, _ = watch(admin, seconds=10, then=fence)
    assert [event.text for event in hour.timeline.about(broker=2)] == ["broker 2 went out of service"]


def test_a_part_that_is_refused_by_an_error_late_is_asked_again_in_its_rhythm() -> None:
    admin = FakeAdmin()
    admin.group_error, admin.group_s = CoordinatorNotAvailableError("it is away"), 4.0
    _, sampler = watch(admin, seconds=30)
    assert sampler.statistics().rounds["groups"] >= 6


def test_a_part_that_takes_long_pauses_longer() -> None:
    assert next_pause_ms(5_000, 10, 10) == 4_990
    assert next_pause_ms(5_000, 1_000, 1_000) == 20_000
    assert next_pause_ms(5_000, 2_500, 200) == 4_000
    assert next_pause_ms(5_000, 60_000, 60_000) == 30_000
    assert next_pause_ms(60_000, 2_000, 2_000) == 58_000
    assert next_pause_ms(5_000, 2_500, 0) == 2_500
    assert next_pause_ms(5_000, 0, 0) == 5_000
    admin = FakeAdmin()
    admin.late_topics = itertools.repeat(True)
    _, sampler = watch(admin, seconds=60)
    assert sampler.statistics().rounds["topics"] <= 3


def test_a_single_round_that_waited_for_a_broker_makes_no_long_pause() -> None:
    admin = FakeAdmin()
    admin.late_topics = itertools.chain([False], itertools.cycle([True, False]))
    _, sampler = watch(admin, seconds=60)
    assert sampler.statistics().rounds["topics"] >= 30


def test_the_size_of_a_record_is_that_of_all_replicas() -> None:
    replicas = {A0: ReplicaLogInfo("id-a", 5_000, 0, 100)}
    dirs = {n: BrokerLogDirs(n, (LogDirInfo("/d", "i", None, 0, 0, replicas),)) for n in (1, 2)}
    assert record_bytes(dirs, {"a": None}) == {"a": 50.0}
    assert record_bytes(dirs, {"b": None}) == {}
