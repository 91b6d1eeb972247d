"""The last hour of a cluster as series and a timeline: the console's memory.

    hour = LastHour(HourLimits())
    hour.observe(now_ms, RoundSample(topics=..., ends=...))
    hour.series(Subject.TOPIC_RECORDS, "orders")      # a number for each step, the oldest first

Pure: it is given `now_ms` of a monotonic clock, and samples in that order; a sample that is older than the one before
is dropped. Rates come from end offsets: what a partition got between two looks is spread evenly over the steps
between, so a large cluster whose topics are looked at in turn has coarser lines and no peaks that were not there.
Gauges hold their last number over the looks that come in turn.

Memory: `HourLimits` bounds every table. With its defaults all of it is at most MEMORY_MAX_BYTES, and half of that for
1,000 topics of 12 partitions and 500 groups: tests/unit/console/watching/test_last_hour.py measures it. Topics and
groups beyond the limits have no lines, and are counted in `statistics()`.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from penstock.admin import TopicDescription
from penstock.console.watching.changes import PARTITIONS_MAX, ClusterChanges
from penstock.console.watching.round_sample import GroupSample, RoundSample
from penstock.console.watching.series_table import SeriesTable
from penstock.console.watching.timeline import EVENTS_MAX, Timeline
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_LEADER, TopicPartition

MEMORY_MAX_BYTES = 80 << 20
WHOLE_CLUSTER = "cluster"
"""The name of the one series of those that are about the cluster."""


@dataclass(frozen=True, slots=True)
class HourLimits:
    """A step and the number of steps, and how many of each kind have series."""

    step_ms: int = 5_000
    steps: int = 720
    topics_max: int = 2_000
    groups_max: int = 1_000
    brokers_max: int = 200
    partition_lags_max: int = 12_000
    """Partitions that groups read, all groups together; each has the last PARTITION_STEPS steps."""
    partitions_of_group_max: int = 100
    """The partitions of one group with the largest lags."""
    committed_max: int = 8_000
    """Pairs of a group and a topic whose committed offsets are remembered, for the group's rate."""
    topics_of_group_max: int = 200
    partitions_max: int = PARTITIONS_MAX
    offsets_max: int = 300_000
    """Offsets that are remembered between two looks, of topics and of groups; a node may name any partition."""
    events_max: int = EVENTS_MAX


PARTITION_STEPS = 60
HELD_STEPS_MAX = 24
"""A gauge that was not looked at for longer has a gap: two minutes at 5 s a step."""
SPREAD_MS_MAX = 10 * 60_000
"""Records that came in a time longer than this are not spread: nobody knows when they came."""


class Subject(StrEnum):
    """The kinds of series, with the name that each takes."""

    TOPIC_RECORDS = "topic-records"
    """Records a second that were written to a topic."""
    TOPIC_BYTES = "topic-bytes"
    """About how many bytes a second that were."""
    TOPIC_UNDER_REPLICATED = "topic-under-replicated"
    GROUP_LAG = "group-lag"
    GROUP_RECORDS = "group-records"
    """Records a second that a group committed."""
    PARTITION_LAG = "partition-lag"
    """The lag of a group in one partition; its name is that of `partition_key`."""
    BROKER_LEADERS = "broker-leaders"
    BROKER_PROBE_MS = "broker-probe-ms"
    CLUSTER_RECORDS = "cluster-records"
    CLUSTER_BYTES = "cluster-bytes"
    CLUSTER_LAG = "cluster-lag"
    CLUSTER_UNDER_REPLICATED = "cluster-under-replicated"
    CLUSTER_OFFLINE = "cluster-offline"


@dataclass(frozen=True, slots=True)
class HourStatistics:
    """A snapshot of how much is kept. `left_out`: topics and groups without series, because there are too many."""

    rounds: int
    topics: int
    groups: int
    events: int
    left_out: int
    memory_bytes: int


@dataclass(slots=True)
class _Offsets:
    """The offsets of one topic, or of one group in one topic, when each partition was looked at last."""

    offsets: array[int]
    times_ms: array[int]


def partition_key(group_id: str, partition: TopicPartition) -> str:
    """The name of the series of one partition of a group."""
    return f"{partition.topic}-{partition.partition} {group_id}"


def topic_of_key(key: str) -> str:
    """The topic of such a name. A topic's name has no space; a group's id may have any letters."""
    return key.partition(" ")[0].rpartition("-")[0]


class LastHour:
    """Series by subject and name, and the timeline."""

    def __init__(self, limits: HourLimits | None = None) -> None:
        self.limits = limits = limits or HourLimits()
        self.timeline = Timeline(limits.events_max)
        self._changes = ClusterChanges(limits.partitions_max)
        rows = {
            "topic": limits.topics_max,
            "group": limits.groups_max,
            "broker": limits.brokers_max,
            "partition": limits.partition_lags_max,
            "cluster": 1,
        }
        self._tables = {
            subject: SeriesTable[str](
                rows_max=rows[subject.partition("-")[0]],
                columns=PARTITION_STEPS if subject is Subject.PARTITION_LAG else limits.steps,
                single=subject not in (Subject.GROUP_LAG, Subject.CLUSTER_LAG),
            )
            for subject in Subject
        }
        self._ends: dict[str, _Offsets] = {}
        self._committed: dict[tuple[str, str], _Offsets] = {}
        self._offsets = 0
        self._record_bytes: dict[str, float] = {}
        self._lags: dict[str, int] = {}
        self._readers: dict[str, tuple[str, ...]] = {}
        self._now_ms: int | None = None
        self._first_ms: int | None = None
        self._rounds = 0

    def observe(self, now_ms: int, sample: RoundSample) -> None:
        """Takes one round's answers. A moment before the last one is dropped."""
        if self._now_ms is not None and now_ms < self._now_ms:
            return
        self._now_ms = now_ms
        self._first_ms = now_ms if self._first_ms is None else self._first_ms
        self._rounds += 1
        for table in self._tables.values():
            table.move_to(self._step(now_ms))
        events = []
        if sample.cluster is not None:
            events += list(self._changes.of_cluster(sample.cluster))
        if sample.topics is not None:
            events += list(self._changes.of_topics(sample.topics))
            self._note_topics(sample.topics)
        events += list(self._changes.of_probes(sample.probes))
        events += list(self._changes.of_groups({name: group.state for name, group in sample.groups.items()}))
        self.timeline.note(events, now_ms)
        for broker, ms in sample.probes.items():
            if ms is not None:
                self._gauge(Subject.BROKER_PROBE_MS, str(broker), ms)
        if sample.record_bytes is not None:
            self._record_bytes = dict(list(sample.record_bytes.items())[: self.limits.topics_max])
        self._note_ends(sample.ends)
        if sample.listed_groups is not None:
            self._keep_groups(frozenset(sample.listed_groups))
        for group_id, group in sample.groups.items():
            self._note_group(group_id, group)
        if sample.groups:
            self._gauge(Subject.CLUSTER_LAG, WHOLE_CLUSTER, sum(self._lags.values()))

    # -- questions -----------------------------------------------------------------------------------------------------

    def series(self, subject: Subject, name: str = WHOLE_CLUSTER) -> list[float | None]:
        """A number for each step, the oldest first; None where there is none. Empty for a name without a series."""
        return self._tables[subject].values(name)

    def newest(self, subject: Subject, name: str = WHOLE_CLUSTER) -> float | None:
        """The last number of a series."""
        return self._tables[subject].newest(name)

    def largest(self, subject: Subject, count: int) -> list[tuple[str, float]]:
        """The names with the largest last numbers, the largest first."""
        table = self._tables[subject]
        found = [(name, number) for name in table if (number := table.newest(name)) is not None]
        return sorted(found, key=lambda one: (-one[1], one[0]))[:count]

    def lagging_partitions(self, group_id: str) -> list[str]:
        """The names of the series of a group's partitions, sorted."""
        return sorted(key for key in self._tables[Subject.PARTITION_LAG] if key.partition(" ")[2] == group_id)

    def readers_of(self, topic: str) -> list[str]:
        """The groups that have committed offsets of a topic, sorted."""
        return sorted(group for group, topics in self._readers.items() if topic in topics)

    def read_by(self, group_id: str) -> tuple[str, ...]:
        """The topics of which a group has committed offsets, sorted."""
        return self._readers.get(group_id, ())

    @property
    def silent_brokers(self) -> frozenset[int]:
        """The brokers that did not answer the console's last probe."""
        return self._changes.silent

    @property
    def watched_ms(self) -> int:
        """The time between the first look and the last one."""
        return 0 if self._now_ms is None or self._first_ms is None else self._now_ms - self._first_ms

    @property
    def now_ms(self) -> int | None:
        """The moment of the last look; None before the first."""
        return self._now_ms

    def statistics(self) -> HourStatistics:
        """A snapshot."""
        tables = {subject: table.statistics() for subject, table in self._tables.items()}
        return HourStatistics(
            rounds=self._rounds,
            topics=tables[Subject.TOPIC_UNDER_REPLICATED].rows,
            groups=tables[Subject.GROUP_LAG].rows,
            events=len(self.timeline),
            left_out=tables[Subject.TOPIC_UNDER_REPLICATED].left_out + tables[Subject.GROUP_LAG].left_out,
            memory_bytes=sum(table.memory_bytes for table in tables.values()),
        )

    # -- what a round brings -------------------------------------------------------------------------------------------

    def _step(self, at_ms: int) -> int:
        return at_ms // self.limits.step_ms

    def _gauge(self, subject: Subject, name: str, number: float) -> None:
        if self._now_ms is not None:
            self._tables[subject].hold(name, self._step(self._now_ms), number, HELD_STEPS_MAX)

    def _note_topics(self, topics: Sequence[TopicDescription]) -> None:
        names = {topic.name for topic in topics}
        for name in {*self._ends, *self._tables[Subject.TOPIC_UNDER_REPLICATED]} - names:
            self._forget_topic(name)
        leaders: Counter[int] = Counter()
        under_replicated = offline = 0
        for topic in topics:
            short = 0
            for p in topic.partitions:
                leaders[p.leader_id] += 1
                short += len(p.isr) < len(p.replicas)
            self._gauge(Subject.TOPIC_UNDER_REPLICATED, topic.name, short)
            under_replicated += short
        offline = leaders.pop(NO_LEADER, 0)
        self._gauge(Subject.CLUSTER_UNDER_REPLICATED, WHOLE_CLUSTER, under_replicated)
        self._gauge(Subject.CLUSTER_OFFLINE, WHOLE_CLUSTER, offline)
        for broker in {*leaders, *(int(key) for key in self._tables[Subject.BROKER_LEADERS])}:
            self._gauge(Subject.BROKER_LEADERS, str(broker), leaders[broker])

    def _forget_topic(self, name: str) -> None:
        if (known := self._ends.pop(name, None)) is not None:
            self._offsets -= len(known.offsets)
        self._record_bytes.pop(name, None)
        for subject in (Subject.TOPIC_RECORDS, Subject.TOPIC_BYTES, Subject.TOPIC_UNDER_REPLICATED):
            self._tables[subject].forget(name)

    def _note_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        by_topic: dict[str, dict[int, int]] = {}
        for tp, end in ends.items():
            by_topic.setdefault(tp.topic, {})[tp.partition] = end
        for topic, offsets in by_topic.items():
            known = self._ends.get(topic)
            if known is None:
                if len(self._ends) >= self.limits.topics_max:
                    continue
                known = self._ends[topic] = _Offsets(array("q"), array("q"))
            for begin_ms, records in self._progress(known, offsets).items():
                self._spread(Subject.TOPIC_RECORDS, topic, begin_ms, records)
                self._spread(Subject.CLUSTER_RECORDS, WHOLE_CLUSTER, begin_ms, records)
                if (size := self._record_bytes.get(topic)) is not None:
                    self._spread(Subject.TOPIC_BYTES, topic, begin_ms, records * size)
                    self._spread(Subject.CLUSTER_BYTES, WHOLE_CLUSTER, begin_ms, records * size)

    def _progress(self, known: _Offsets, offsets: Mapping[int, int]) -> dict[int, int]:
        """The records since each partition was looked at, by the time of that look. A partition that went back, and one
        that is new, has none."""
        now_ms = self._now_ms or 0
        found: dict[int, int] = {}
        for partition, offset in offsets.items():
            missing = partition + 1 - len(known.offsets)
            if missing > 0:
                if self._offsets + missing > self.limits.offsets_max:
                    continue
                self._offsets += missing
                known.offsets.extend([0] * missing)
                known.times_ms.extend([-1] * missing)
            before, at_ms = known.offsets[partition], known.times_ms[partition]
            if at_ms >= 0 and self._step(at_ms) == self._step(now_ms) and offset >= before:
                continue  # too soon: the step that they share is told of by the next look
            if at_ms >= 0:
                found[at_ms] = found.get(at_ms, 0) + max(0, offset - before)
            known.offsets[partition], known.times_ms[partition] = offset, now_ms
        return found

    def _spread(self, subject: Subject, name: str, begin_ms: int, amount: float) -> None:
        """Adds what came since `begin_ms` to the steps after it, as a rate."""
        now_ms = self._now_ms or 0
        took_ms = now_ms - begin_ms
        if not 0 < took_ms <= SPREAD_MS_MAX:
            return
        rate = amount * 1000 / took_ms
        for step in range(self._step(begin_ms) + 1, self._step(now_ms) + 1):
            self._tables[subject].add(name, step, rate)

    def _keep_groups(self, listed: frozenset[str]) -> None:
        """Forgets the groups that are gone."""
        self._changes.keep_groups(listed)
        for group_id in self._lags.keys() - listed:
            del self._lags[group_id]
            self._readers.pop(group_id, None)
            for subject in (Subject.GROUP_LAG, Subject.GROUP_RECORDS):
                self._tables[subject].forget(group_id)
            for key in self.lagging_partitions(group_id):
                self._tables[Subject.PARTITION_LAG].forget(key)
        for pair in [pair for pair in self._committed if pair[0] not in listed]:
            self._offsets -= len(self._committed.pop(pair).offsets)

    def _note_group(self, group_id: str, group: GroupSample) -> None:
        if group_id not in self._lags and len(self._lags) >= self.limits.groups_max:
            return
        self._lags[group_id] = sum(group.lags.values())
        self._gauge(Subject.GROUP_LAG, group_id, self._lags[group_id])
        worst = sorted(group.lags.items(), key=lambda one: (-one[1], one[0]))[: self.limits.partitions_of_group_max]
        for tp, lag in worst:
            self._gauge(Subject.PARTITION_LAG, partition_key(group_id, tp), lag)
        by_topic: dict[str, dict[int, int]] = {}
        for tp, offset in group.committed.items():
            by_topic.setdefault(sys.intern(tp.topic), {})[tp.partition] = offset
        self._readers[group_id] = tuple(sorted(by_topic))[: self.limits.topics_of_group_max]
        for topic, offsets in by_topic.items():
            known = self._committed.get((group_id, topic))
            if known is None:
                if len(self._committed) >= self.limits.committed_max:
                    continue
                known = self._committed[group_id, topic] = _Offsets(array("q"), array("q"))
            for begin_ms, records in self._progress(known, offsets).items():
                self._spread(Subject.GROUP_RECORDS, group_id, begin_ms, records)

    def __repr__(self) -> str:
        return f"LastHour({self._rounds} rounds over {self.watched_ms // 1000} s, {self.timeline!r})"
