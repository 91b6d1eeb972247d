from __future__ import annotations

import gc
import tracemalloc
from array import array
from random import Random

import pytest

from broker.groups.offsets.offsets_state import GroupOffsetsState, OffsetStatistics
from broker.groups.offsets.topic_offsets import StoredOffset, TopicOffsets
from broker.groups.records.offset_records import (
    OFFSET_ENTRY,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetRun,
)

PLAIN = OffsetCommitValue(offset=5, leader_epoch=2, commit_timestamp=9, topic_id="id")
RICH = OffsetCommitValue(
    offset=5, leader_epoch=2, metadata="text", commit_timestamp=9, expire_timestamp=77, topic_id="other"
)
STORED_PLAIN = StoredOffset(5, 2, commit_ms=9, topic_id="id")
STORED_RICH = StoredOffset(5, 2, "text", 9, 77, "other")


def test_offsets_are_told_by_partition_whatever_their_order_was() -> None:
    offsets = TopicOffsets("id")
    for partition in (70_000, 3, 0, 1, 2_147_483_647, 2):
        offsets.put(partition, OffsetCommitValue(offset=partition))
    assert [(partition, one.offset) for partition, one in offsets.items()] == [
        (n, n) for n in (0, 1, 2, 3, 70_000, 2_147_483_647)
    ]
    offsets.pop(1)
    assert [offsets.get(n) is None for n in (0, 1, 2, 4, 70_000, 99_999)] == [False, True, False, True, False, True]


@pytest.mark.parametrize("seed", range(30))
def test_a_run_is_what_its_offsets_are_one_by_one(seed: int) -> None:
    """All new, all known, in between; of the same topic or of one that was made anew; what is aside is replaced."""
    random = Random(seed)
    at_once, one_by_one = TopicOffsets("id"), TopicOffsets("id")
    used = [0, 0]
    for step in range(40):
        if random.random() < 0.2:
            partition = random.randrange(12)
            used = [before + one.put(partition, RICH) for before, one in zip(used, (at_once, one_by_one), strict=True)]
        known = [partition for partition, _ in one_by_one.items()]
        chosen = known if random.random() < 0.3 else random.sample(range(12), random.randrange(1, 12))
        partitions = array("i", sorted(chosen))
        entries = b"".join(OFFSET_ENTRY.pack(step, random.randrange(-1, 3), 100 + step) for _ in partitions)
        run = OffsetRun("id" if random.random() < 0.8 else "anew", partitions, entries)
        if partitions:
            used[0] += at_once.put_run(run)
        for partition, value in run.items():
            used[1] += one_by_one.put(partition, value)
        assert list(at_once.items()) == list(one_by_one.items())
        assert used[0] == used[1]


def test_what_most_offsets_have_not_is_kept_aside_and_goes_with_the_next_commit() -> None:
    offsets = TopicOffsets("id")
    grown = [offsets.put(1, one) for one in (PLAIN, RICH, PLAIN, RICH)]
    assert sum(grown) + offsets.pop(1) == 0
    offsets.put(1, RICH)
    assert (offsets.get(1), offsets.has_other_id("id")) == (STORED_RICH, True)
    offsets.put(1, PLAIN)
    assert (offsets.get(1), offsets.has_other_id("id")) == (STORED_PLAIN, False)
    assert offsets.pop(2) == 0


def test_a_record_of_an_old_kafka_means_the_same() -> None:
    state = GroupOffsetsState()
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=1)
    state.replay_legacy(key, LegacyOffsetCommitValue(offset=4, metadata="m", commit_timestamp=6))
    assert state.get("g", "t", 1) == StoredOffset(4, metadata="m", commit_ms=6)
    state.replay_legacy(key, None)
    assert state.statistics() == OffsetStatistics(0, 0, 0)


def test_a_tombstone_of_what_is_not_there_changes_nothing() -> None:
    state = GroupOffsetsState()
    for key in (("g", "t", 1), ("g", "u", 1), ("h", "t", 1)):
        state.replay_offset(OffsetCommitKey(group="g", topic="t", partition=0), OffsetCommitValue(offset=1))
        group, topic, partition = key
        state.replay_offset(OffsetCommitKey(group=group, topic=topic, partition=partition), None)
        assert state.statistics().offsets == 1


def test_the_memory_is_about_what_is_estimated_and_an_offset_takes_few_bytes() -> None:
    groups, partitions = 40, 200
    keys = [OffsetCommitKey(group=f"g{n}", topic="t", partition=p) for n in range(groups) for p in range(partitions)]
    value = OffsetCommitValue(offset=1 << 40, commit_timestamp=1 << 40, topic_id="id")
    gc.collect()  # it empties the interpreter's lists of free objects, whose reuse would not be traced
    tracemalloc.start()
    state = GroupOffsetsState()
    before = tracemalloc.get_traced_memory()[0]
    for key in keys:
        state.replay_offset(key, value)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    assert taken < 50 * groups * partitions
    assert 0.5 < state.statistics().memory_bytes / taken < 2
