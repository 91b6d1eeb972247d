"""The console's memory of an hour: rates and gauges by steps, a clock that goes back, and a bound in bytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping

from penstock.admin import BrokerInfo, ClusterInfo, NodeStanding, PartitionInfo, TopicDescription
from penstock.console.watching.last_hour import (
    MEMORY_MAX_BYTES,
    HourLimits,
    LastHour,
    Subject,
    partition_key,
)
from penstock.console.watching.round_sample import GroupSample, RoundSample
from penstock.types import TopicPartition

STEP_MS = 1_000
SMALL = HourLimits(step_ms=STEP_MS, steps=10)
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def ends(**offsets: int) -> RoundSample:
    """Partition 0 of each topic."""
    return RoundSample(ends={TopicPartition(name, 0): offset for name, offset in offsets.items()})


def topic(name: str, count: int = 1, isr: tuple[int, ...] = (1, 2), leader: int = 1) -> TopicDescription:
    return TopicDescription(
        name, f"id-{name}", tuple(PartitionInfo(n, leader, 0, 0, (1, 2), isr) for n in range(count))
    )


def test_records_between_two_looks_are_spread_over_the_steps_between() -> None:
    hour = LastHour(SMALL)
    hour.observe(10_000, ends(a=100))
    hour.observe(14_000, ends(a=500))
    assert hour.series(Subject.TOPIC_RECORDS, "a")[-5:] == [None, 100, 100, 100, 100]
    assert hour.series(Subject.CLUSTER_RECORDS)[-2:] == [100, 100]
    hour.observe(15_000, ends(a=500))
    assert hour.newest(Subject.TOPIC_RECORDS, "a") == 0


def test_partitions_that_are_looked_at_apart_add_up() -> None:
    hour = LastHour(SMALL)
    hour.observe(10_000, RoundSample(ends={A0: 0, A1: 0}))
    hour.observe(11_000, RoundSample(ends={A0: 10}))  # the leader of the other did not answer
    hour.observe(12_000, RoundSample(ends={A0: 20, A1: 100}))
    assert hour.series(Subject.TOPIC_RECORDS, "a")[-2:] == [60, 60]


def test_two_looks_in_one_step_lose_nothing() -> None:
    hour = LastHour(SMALL)
    hour.observe(10_000, ends(a=0))
    hour.observe(10_400, ends(a=40))
    hour.observe(11_000, ends(a=100))
    assert hour.newest(Subject.TOPIC_RECORDS, "a") == 100


def test_a_topic_made_anew_begins_again() -> None:
    hour = LastHour(SMALL)
    hour.observe(10_000, ends(a=1_000))
    hour.observe(11_000, ends(a=10))
    hour.observe(12_000, ends(a=30))
    assert hour.series(Subject.TOPIC_RECORDS, "a")[-2:] == [0, 20]


def test_bytes_are_told_where_the_size_of_a_record_is_known() -> None:
    hour = LastHour(SMALL)
    hour.observe(10_000, RoundSample(ends={A0: 0}, record_bytes={"a": 50.0}))
    hour.observe(11_000, ends(a=10, b=10))
    hour.observe(12_000, ends(a=20, b=20))
    assert hour.newest(Subject.TOPIC_BYTES, "a") == 500
    assert hour.newest(Subject.TOPIC_BYTES, "b") is None
    assert hour.newest(Subject.CLUSTER_BYTES) == 500


def test_a_clock_that_goes_back_changes_nothing_and_a_long_gap_is_not_spread() -> None:
    hour = LastHour(SMALL)
    hour.observe(10_000, ends(a=0))
    hour.observe(9_000, ends(a=1_000_000))
    hour.observe(11_000, ends(a=10))
    assert hour.series(Subject.TOPIC_RECORDS, "a")[-1] == 10
    hour.observe(11_000 + 3_600_000, ends(a=1_000_000))  # the machine slept for an hour
    assert hour.newest(Subject.TOPIC_RECORDS, "a") is None
    hour.observe(12_000 + 3_600_000, ends(a=1_000_010))
    assert hour.newest(Subject.TOPIC_RECORDS, "a") == 10
    assert hour.watched_ms == 3_602_000


def group(lags: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]) -> RoundSample:
    return RoundSample(groups={"g": GroupSample("Stable", 2, committed, lags)}, listed_groups=("g",))


def test_a_group_has_its_lag_by_partition_and_the_rate_of_its_commits() -> None:
    hour = LastHour(SMALL)
    hour.observe(10_000, group({A0: 5, A1: 7}, {A0: 100, A1: 100}))
    hour.observe(12_000, group({A0: 0, A1: 9}, {A0: 120, A1: 140}))
    assert hour.series(Subject.GROUP_LAG, "g")[-3:] == [12, 12, 9]
    assert hour.series(Subject.GROUP_RECORDS, "g")[-2:] == [30, 30]
    assert hour.newest(Subject.PARTITION_LAG, partition_key("g", A1)) == 9
    assert hour.lagging_partitions("g") == ["a-0 g", "a-1 g"]
    assert (hour.readers_of("a"), hour.readers_of("b"), hour.read_by("g")) == (["g"], [], ("a",))
    assert hour.newest(Subject.CLUSTER_LAG) == 9
    hour.observe(13_000, RoundSample(listed_groups=()))
    assert hour.series(Subject.GROUP_LAG, "g") == []
    assert (hour.lagging_partitions("g"), hour.readers_of("a")) == ([], [])


def test_of_a_group_with_many_partitions_those_that_lag_most_are_kept() -> None:
    hour = LastHour(HourLimits(step_ms=STEP_MS, steps=10, partitions_of_group_max=2))
    lags = {TopicPartition("a", n): n for n in range(10)}
    hour.observe(10_000, group(lags, {}))
    assert hour.lagging_partitions("g") == ["a-8 g", "a-9 g"]


def test_a_node_that_names_absurd_partitions_takes_no_memory() -> None:
    hour = LastHour(HourLimits(step_ms=STEP_MS, steps=10, offsets_max=100))
    absurd = {TopicPartition("a", n): 2**62 for n in (0, 99, 2**31 - 1)}
    hour.observe(10_000, RoundSample(ends=absurd, groups={"g": GroupSample("Stable", 1, absurd, absurd)}))
    hour.observe(11_000, RoundSample(ends=dict.fromkeys(absurd, 2**63 - 1), listed_groups=(), topics=[]))
    hour.observe(12_000, RoundSample(ends={A0: 5}))
    hour.observe(13_000, RoundSample(ends={A0: 15}))
    assert hour.newest(Subject.TOPIC_RECORDS, "a") == 10, "what was forgotten made place"


def test_leaders_replicas_and_probes_are_gauges() -> None:
    hour = LastHour(SMALL)
    topics = [topic("a", 3), topic("b", 2, isr=(1,)), topic("c", 1, isr=(), leader=-1)]
    hour.observe(10_000, RoundSample(topics=topics, probes={1: 2.5, 2: None}))
    assert hour.newest(Subject.TOPIC_UNDER_REPLICATED, "b") == 2
    assert hour.newest(Subject.CLUSTER_UNDER_REPLICATED) == 3
    assert hour.newest(Subject.CLUSTER_OFFLINE) == 1
    assert hour.newest(Subject.BROKER_LEADERS, "1") == 5
    assert hour.newest(Subject.BROKER_PROBE_MS, "1") == 2.5
    assert hour.newest(Subject.BROKER_PROBE_MS, "2") is None
    assert hour.silent_brokers == {2}
    hour.observe(11_000, RoundSample(topics=topics[:1]))
    assert hour.largest(Subject.TOPIC_UNDER_REPLICATED, 5) == [("a", 0)]
    hour.observe(12_000, RoundSample(topics=[]))
    assert hour.newest(Subject.BROKER_LEADERS, "1") == 0


def test_events_reach_the_timeline_with_the_moment_of_the_look() -> None:
    hour = LastHour(SMALL)
    status = NodeStanding(1, False, 0, 0, 0, 0, 0, 0, ())
    for at_ms, is_fenced in ((10_000, False), (11_000, True)):
        broker = BrokerInfo(2, "h", 9192, fenced=is_fenced)
        hour.observe(at_ms, RoundSample(cluster=ClusterInfo("c", 1, (broker,), 0, status)))
    assert [(event.at_ms, event.text) for event in hour.timeline.since()] == [(11_000, "broker 2 went out of service")]


def test_topics_and_groups_beyond_the_limits_are_counted() -> None:
    hour = LastHour(HourLimits(step_ms=STEP_MS, steps=10, topics_max=2, groups_max=1))
    hour.observe(10_000, RoundSample(topics=[topic(name) for name in "abc"]))
    hour.observe(11_000, RoundSample(topics=[topic(name) for name in "abc"], ends=ends(a=1, b=1, c=1).ends))
    hour.observe(12_000, RoundSample(topics=[topic(name) for name in "abc"], ends=ends(a=2, b=2, c=2).ends))
    statistics = hour.statistics()
    assert (statistics.topics, statistics.left_out, statistics.rounds) == (2, 1, 3)
    assert hour.series(Subject.TOPIC_RECORDS, "c") == []
    hour.observe(13_000, RoundSample(groups={name: GroupSample("Stable", 1) for name in "gh"}))
    assert hour.statistics().groups == 1
    assert repr(hour) == "LastHour(4 rounds over 3 s, Timeline(0 of 2000 events))"


def full(topics: int, groups: int, limits: HourLimits) -> tuple[LastHour, int]:
    """Two looks at as many topics of 12 partitions, and groups that read two of them each; and the bytes kept."""
    names = [f"topic-{n:05}" for n in range(topics)]
    tracemalloc.start()
    try:
        hour = LastHour(limits)
        for number in range(2):
            tps = [TopicPartition(name, p) for name in names for p in range(12)]
            isr = (1, 2) if number else (1,)
            read = {f"group-{n}": dict.fromkeys(tps[n * 24 % len(tps) :][:24], number * 100) for n in range(groups)}
            hour.observe(
                10_000 + number * limits.step_ms,
                RoundSample(
                    topics=[topic(name, 12, isr) for name in names],
                    ends=dict.fromkeys(tps, number * 100),
                    record_bytes=dict.fromkeys(names, 100.0),
                    listed_groups=tuple(read),
                    groups={name: GroupSample("Stable", 3, offsets, offsets) for name, offsets in read.items()},
                ),
            )
            del tps, read
        return hour, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_a_large_cluster_takes_less_than_half_of_the_memory() -> None:
    hour, taken = full(1_000, 500, HourLimits())
    statistics = hour.statistics()
    assert (statistics.topics, statistics.groups, statistics.left_out) == (1_000, 500, 0)
    assert statistics.memory_bytes < taken < MEMORY_MAX_BYTES / 2


def test_a_cluster_beyond_the_limits_takes_no_more_than_its_share() -> None:
    """The limits are a tenth of the default ones, and the cluster is larger than they are."""
    tenth = HourLimits(
        topics_max=200,
        groups_max=100,
        partition_lags_max=1_200,
        committed_max=800,
        partitions_max=5_000,
        events_max=200,
    )
    hour, taken = full(500, 300, tenth)
    assert (hour.statistics().topics, hour.statistics().groups) == (200, 100)
    assert hour.statistics().left_out > 0
    assert taken < MEMORY_MAX_BYTES / 10
