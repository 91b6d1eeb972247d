"""One look at the lag of groups: sums, the oldest record, progress, and the series that are shown."""

from __future__ import annotations

from broker.groups.lag.end_history import EndHistories
from broker.groups.lag.lag_pass import (
    GROUPS_SHOWN_MAX,
    PARTITIONS_SHOWN_MAX,
    GroupFacts,
    GroupLag,
    GroupProgress,
    LagPass,
    LagSnapshot,
)
from penstock.types import TopicPartition

STABLE = GroupFacts("consumer", "Stable", 2, 7)
EMPTY = GroupFacts("classic", "Empty", 0, 3)
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
WALL_MS = 1_000_000


class Looks:
    """One look after the other."""

    def __init__(self) -> None:
        self.histories = EndHistories()
        self.progress: dict[str, GroupProgress] = {}

    def look(
        self, now_ms: int, groups: dict[str, tuple[GroupFacts, dict[TopicPartition, tuple[int, int | None]]]]
    ) -> LagSnapshot:
        taken = LagPass(self.histories, self.progress, now_ms, WALL_MS + now_ms)
        for group_id, (facts, offsets) in groups.items():
            taken.group(group_id, facts)
            for tp, (committed, end) in offsets.items():
                taken.offset(tp, committed, WALL_MS, end)
        snapshot = taken.ended(1, 5)
        self.progress = taken.progress
        return snapshot


def test_lag_is_added_up_and_its_age_is_that_of_the_oldest_record() -> None:
    looks = Looks()
    first = looks.look(1_000, {"g": (STABLE, {A0: (10, 10), A1: (5, 5)})})
    assert first.groups["g"] == GroupLag(0, 0, 2, 7, 1_000)  # nothing was committed since WALL_MS
    looks.look(2_000, {"g": (STABLE, {A0: (10, 14), A1: (5, 6)})})
    looks.look(3_000, {"g": (STABLE, {A0: (14, 20), A1: (6, 6)})})
    last = looks.look(4_000, {"g": (STABLE, {A0: (14, 20), A1: (6, 6)}), "idle": (EMPTY, {A0: (12, 20)})})
    assert last.groups["g"] == GroupLag(6, 1_000, 2, 7, 1_000)
    assert last.groups["idle"] == GroupLag(8, 2_000, 0, 3, 4_000)
    assert [(row.group_id, row.partition, row.lag) for row in last.partitions] == [("idle", A0, 8), ("g", A0, 6)]
    assert last.states == {("consumer", "Stable"): 1, ("classic", "Empty"): 1}


def test_a_group_stalls_while_what_it_has_committed_stays_and_a_reset_counts_as_a_change() -> None:
    looks = Looks()
    stalled = []
    for now_ms, committed in ((1_000, 5), (2_000, 5), (3_000, 6), (4_000, 6), (5_000, 0), (6_000, 0)):
        snapshot = looks.look(now_ms, {"g": (STABLE, {A0: (committed, 100)})})
        stalled.append(snapshot.groups["g"].stalled_ms)
    assert stalled == [1_000, 2_000, 0, 1_000, 0, 1_000]


def test_an_end_that_is_not_known_is_no_lag_and_is_counted() -> None:
    snapshot = Looks().look(1_000, {"g": (STABLE, {A0: (5, None), A1: (5, 3)})})
    assert snapshot.groups["g"].lag == 0 and snapshot.counts.unknown_ends == 1 and not snapshot.partitions


def test_those_that_lag_most_are_shown_and_the_others_are_counted() -> None:
    partitions = {TopicPartition("a", number): (0, number) for number in range(PARTITIONS_SHOWN_MAX + 3)}
    groups = {f"g{number}": (EMPTY, {A1: (0, number)}) for number in range(GROUPS_SHOWN_MAX + 5)}
    snapshot = Looks().look(1_000, {"large": (STABLE, partitions), **groups})
    assert len(snapshot.groups) == GROUPS_SHOWN_MAX and len(snapshot.partitions) == PARTITIONS_SHOWN_MAX
    assert next(iter(snapshot.groups)) == "large" and "g0" not in snapshot.groups
    assert snapshot.groups["large"].lag == sum(range(PARTITIONS_SHOWN_MAX + 3))
    lags = [row.lag for row in snapshot.partitions]
    assert lags == sorted(lags, reverse=True) and min(lags) >= PARTITIONS_SHOWN_MAX // 2
    assert snapshot.counts.hidden_groups == 6
    assert snapshot.counts.hidden_partitions == PARTITIONS_SHOWN_MAX + 2 + GROUPS_SHOWN_MAX + 4 - PARTITIONS_SHOWN_MAX


def test_a_group_that_never_committed_has_what_came_since_it_was_first_seen() -> None:
    histories, progress, found = EndHistories(), dict[str, GroupProgress](), []
    for now_ms, ends in ((1_000, (50, None)), (2_000, (50, 7)), (3_000, (53, 7)), (4_000, (60, 9)), (5_000, (60, 9))):
        taken = LagPass(histories, progress, now_ms, WALL_MS + now_ms)
        taken.group("g", STABLE)
        if now_ms < 5_000:
            taken.held(A0, ends[0])
            taken.held(A1, ends[1])
        else:
            taken.offset(A0, 60, WALL_MS, 60)
        snapshot = taken.ended(1, 5)
        progress = taken.progress
        found.append(snapshot.groups["g"].never_committed)
        assert snapshot.groups["g"].lag == 0
    assert found == [0, 0, 3, 12, 0]
