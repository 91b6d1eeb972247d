"""One look at the lag of all groups: what is added up, and what is worth a series of its own.

Groups and partitions are as many as users make, so a node shows GROUPS_SHOWN_MAX groups and PARTITIONS_SHOWN_MAX
partitions at most: those that lag most. The others are counted, and are in the sums. Pure. Not here: where the ends of
logs are from (log_ends.py), and when a look is taken (lag_watch.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from heapq import heappush, heappushpop
from typing import Any, Final, NamedTuple

from broker.groups.lag.end_history import EndHistories, EndHistory
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter, gauge, in_seconds, measured
from penstock.types import NO_TIMESTAMP, TopicPartition

GROUPS_SHOWN_MAX: Final = 500
PARTITIONS_SHOWN_MAX: Final = 500


class GroupFacts(NamedTuple):
    """A group, as its core has it."""

    group_type: str
    state: str
    members: int
    epoch: int
    """The generation of a classic group."""


@measured
class GroupLag:
    """The lag of one group."""

    lag: int = gauge("penstock_group_lag", "Records that a group has not committed, in all partitions it reads.")
    lag_ms: int = gauge(
        "penstock_group_lag_seconds",
        "Time since the oldest record that a group has not committed was seen, at the least; 0 without lag.",
        in_seconds,
    )
    members: int = gauge("penstock_group_members", "Members of a group.")
    epoch: int = gauge(
        "penstock_group_epoch", "Epoch of a group, or generation of a classic one: it rises with each rebalance."
    )
    stalled_ms: int = gauge(
        "penstock_group_stalled_seconds", "Time since what a group has committed last changed.", in_seconds
    )
    never_committed: int = gauge(
        "penstock_group_never_committed_records",
        "Of a group that has committed nothing at all: records that its members' partitions got since then, at the"
        " least.",
        default=0,
    )


class PartitionLagRow(NamedTuple):
    group_id: str
    partition: TopicPartition
    lag: int


@measured
class LagCounts:
    """Counts of one look at all groups."""

    groups: int = gauge("penstock_group_lag_groups", "Groups whose lag is shown by group.", default=0)
    hidden_groups: int = gauge(
        "penstock_group_lag_hidden_groups", "Groups that lag less than those that are shown.", default=0
    )
    hidden_partitions: int = gauge(
        "penstock_group_lag_hidden_partitions", "Lagging partitions of groups that have no series.", default=0
    )
    unknown_ends: int = gauge(
        "penstock_group_lag_unknown_partitions",
        "Committed partitions whose lag is not known, because no leader has told their end.",
        default=0,
    )
    passes: int = counter("penstock_group_lag_passes", "Looks at the lag of all groups here.", default=0)
    pass_ms: int = gauge(
        "penstock_group_lag_pass_seconds", "Time that the last look at all groups took.", in_seconds, default=0
    )
    asked: int = counter(
        "penstock_group_lag_partitions_asked",
        "Partitions without a replica here whose leaders were asked for the ends of their logs.",
        default=0,
    )


@dataclass(frozen=True, slots=True)
class LagSnapshot:
    """The result of one look; read in any thread."""

    groups: Mapping[str, GroupLag] = field(default_factory=dict)
    partitions: tuple[PartitionLagRow, ...] = ()
    states: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Groups by type and state."""
    counts: LagCounts = field(default_factory=LagCounts)


class GroupProgress(NamedTuple):
    """The sum of what a group has committed, and when that last changed (monotonic)."""

    committed: int
    since_ms: int


class LagPass:
    """One look at the lag of all groups. Groups come one after the other: `group`, then `offset` for each partition
    that the group has committed. A group that has committed nothing gets `held` for each partition of its members: it
    has no lag, as in Kafka, and may hang."""

    def __init__(self, histories: EndHistories, before: Mapping[str, GroupProgress], now_ms: int, wall_ms: int) -> None:
        """`before`: the progress of each group as the last look left it."""
        self._histories, self._before = histories, before
        self._now_ms, self._wall_ms = now_ms, wall_ms
        self.progress: dict[str, GroupProgress] = {}
        self._groups: list[tuple[int, int, str, GroupLag]] = []
        self._partitions: list[tuple[int, int, PartitionLagRow]] = []
        self._states: Counter[tuple[str, str]] = Counter()
        self._count = self._lagging = self._unknown = 0
        self._open: tuple[str, GroupFacts] | None = None
        self._lag = self._oldest_ms = self._committed = self._commit_ms = 0
        self._held: list[EndHistory] = []

    def group(self, group_id: str, facts: GroupFacts) -> None:
        """The offsets that follow are this group's."""
        self._close()
        self._open = group_id, facts
        self._states[facts.group_type, facts.state] += 1
        self._lag = self._committed = 0
        self._held = []
        self._oldest_ms, self._commit_ms = self._now_ms, NO_TIMESTAMP

    def offset(self, partition: TopicPartition, committed: int, commit_ms: int, end: int | None) -> None:
        """A committed offset, and the end of its log as far as it is known."""
        self._committed += committed
        self._commit_ms = max(self._commit_ms, commit_ms)
        if end is None:
            self._unknown += 1
            return
        history = self._histories.saw(partition, end, self._now_ms)
        if end <= committed or self._open is None:
            return
        self._lag += end - committed
        self._lagging += 1
        written_ms = history.written_ms(committed) if history is not None else None
        if written_ms is not None:
            self._oldest_ms = min(self._oldest_ms, written_ms)
        row = PartitionLagRow(self._open[0], partition, end - committed)
        _keep(self._partitions, (row.lag, self._lagging, row), PARTITIONS_SHOWN_MAX)

    def held(self, partition: TopicPartition, end: int | None) -> None:
        """A partition that a member has."""
        history = None if end is None else self._histories.saw(partition, end, self._now_ms)
        if history is not None:
            self._held.append(history)

    def _close(self) -> None:
        if self._open is None:
            return
        group_id, facts = self._open
        before = self._before.get(group_id)
        if before is None:  # its coordinator was another one until now, or it is new
            ago_ms = max(0, self._wall_ms - self._commit_ms) if self._commit_ms != NO_TIMESTAMP else 0
            before = GroupProgress(self._committed, self._now_ms - ago_ms)
        changed = before.committed != self._committed
        since_ms = self._now_ms if changed else before.since_ms
        self.progress[group_id] = GroupProgress(self._committed, since_ms)
        self._count += 1
        unread = sum(history.since(since_ms) for history in self._held)
        lag_ms, stalled_ms = self._now_ms - self._oldest_ms, self._now_ms - since_ms
        found = GroupLag(self._lag, lag_ms, facts.members, facts.epoch, stalled_ms, unread)
        _keep(self._groups, (self._lag + unread, self._count, group_id, found), GROUPS_SHOWN_MAX)

    def ended(self, passes: int, pass_ms: int, asked: int = 0) -> LagSnapshot:
        """The result. `passes`: how many there were, with this one; `asked`: for how many ends leaders were asked."""
        self._close()
        self._open = None
        self._histories.pass_ended()
        counts = LagCounts(
            groups=len(self._groups),
            hidden_groups=self._count - len(self._groups),
            hidden_partitions=self._lagging - len(self._partitions),
            unknown_ends=self._unknown,
            passes=passes,
            pass_ms=pass_ms,
            asked=asked,
        )
        groups = {group_id: lag for _, _, group_id, lag in sorted(self._groups, key=lambda one: one[:2], reverse=True)}
        rows = tuple(row for _, _, row in sorted(self._partitions, key=lambda one: one[:2], reverse=True))
        return LagSnapshot(groups, rows, dict(self._states), counts)


def _keep(heap: list[Any], entry: tuple[Any, ...], size_max: int) -> None:
    """Put the entry into a heap that keeps the largest ones."""
    if len(heap) < size_max:
        heappush(heap, entry)
    else:
        heappushpop(heap, entry)
