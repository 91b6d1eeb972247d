"""The compact state of committed offsets equals a dict, whatever is done to it, and is loaded again from its log."""

from __future__ import annotations

from random import Random

import pytest

from broker.coordination.watched_time import MARK_MS
from broker.groups.offsets.offsets_state import GroupOffsetsState, OffsetStatistics
from broker.groups.offsets.topic_offsets import StoredOffset
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from broker.groups.records.record_log import read_group_records
from tests.support.amount import usually
from tests.support.group_log import written_batches
from tests.support.offsets_shard import DAY_MS, OffsetsShard, SomeTopics, place

STEPS = 400
Place = tuple[str, str, int]


def drawn_value(random: Random) -> OffsetCommitValue:
    value = OffsetCommitValue(
        offset=random.choice((0, 1, 1 << 40, (1 << 63) - 1)),
        metadata=random.choice(("", "", "", "text", "ä" * 30)),
        commit_timestamp=random.randrange(1 << 41),
    )
    if random.random() < 0.2:
        value.expire_timestamp = random.randrange(1 << 41)
    else:
        value.leader_epoch, value.topic_id = (
            random.randrange(-1, 5),
            random.choice(("", "A" * 21 + "g", "A" * 21 + "w")),
        )
    return value


def stored(value: OffsetCommitValue) -> StoredOffset:
    return StoredOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )


def contents(state: GroupOffsetsState) -> dict[Place, StoredOffset]:
    return {(group, p.topic, p.partition): one for group in state.group_ids() for p, one in state.of_group(group)}


@pytest.mark.parametrize("seed", range(usually(4, long=20)))
def test_the_state_is_that_of_a_dict_and_of_its_log(seed: int) -> None:
    random = Random(seed)
    state, wanted, records = GroupOffsetsState(), dict[Place, StoredOffset](), []
    for _ in range(STEPS):
        partition = random.choice((random.randrange(6), random.randrange(2_000)))
        at = (random.choice("ab"), random.choice("tu"), partition)
        key = OffsetCommitKey(group=at[0], topic=at[1], partition=at[2])
        value = drawn_value(random) if random.random() < 0.7 else None
        if value is None:
            wanted.pop(at, None)
        else:
            wanted[at] = stored(value)
        state.replay_offset(key, value)
        records.append((key, value))
        assert state.get(*at) == wanted.get(at)

    assert contents(state) == wanted
    assert state.statistics().offsets == len(wanted)
    loaded = GroupOffsetsState()
    for batch in written_batches(records, 4_000):
        for key, value, *_ in read_group_records(batch, 0).records:
            loaded.replays[type(key)](key, value)
    assert contents(loaded) == wanted
    for group, topic, partition in wanted:
        state.replay_offset(OffsetCommitKey(group=group, topic=topic, partition=partition), None)
    assert state.statistics() == OffsetStatistics(0, 0, 0)


@pytest.mark.parametrize("seed", range(usually(4, long=20)))
def test_a_group_tells_its_last_commits_and_nothing_else(seed: int) -> None:
    """Commits, deletions, topics deleted and made anew, expiry, and loading: beside a dict that obeys the rules."""
    random = Random(seed)
    shard = OffsetsShard(SomeTopics(a=4, b=4))
    shard.reload()
    wanted: dict[tuple[str, str], tuple[int, int, int]] = {}
    unwatched_ms = 0  # at most, in all: each lead loses some of the time that it has watched
    for step in range(STEPS):
        group, where = random.choice("gh"), f"{random.choice('ab')}:{random.randrange(4)}"
        choice = random.random()
        topic = where[0]
        if choice < 0.6:
            if shard.commit(group, {where: step}) == [None]:
                wanted[group, where] = (step, shard.wall_ms, unwatched_ms)
        elif choice < 0.7:
            if group in shard.offsets.state and topic in shard.topics.facts:
                shard.delete(group, where)
                wanted.pop((group, where), None)
        elif choice < 0.8:
            if random.random() < 0.5 and topic in shard.topics.facts:
                del shard.topics.facts[topic]
            else:
                shard.topics.make(topic, 4)
            shard.topics_changed(topic)
            wanted = {at: one for at, one in wanted.items() if at[1][0] != topic}
        elif choice < 0.9:
            shard.pass_time(random.choice((1_000, DAY_MS, 4 * DAY_MS)) // 600_000 * 600_000 + 600_000)
            wanted = {
                at: one
                for at, one in wanted.items()
                if shard.wall_ms - one[1] < 7 * DAY_MS + 600_000 + unwatched_ms - one[2]
            }
        else:
            shard.reload(compacted=random.random() < 0.5)
            unwatched_ms += MARK_MS
            shard.pass_time(10)
        for each in "gh":
            answer = shard.fetched(each)
            aged = {at for at, one in wanted.items() if shard.wall_ms - one[1] >= 7 * DAY_MS}
            must = {at[1]: one[0] for at, one in wanted.items() if at[0] == each and at not in aged}
            may = {at[1]: one[0] for at, one in wanted.items() if at[0] == each}
            assert must.items() <= answer.items() <= may.items()
            for text, offset in answer.items():
                assert shard.offsets.state.get(each, *place(text)) is not None
                assert offset == may[text]
