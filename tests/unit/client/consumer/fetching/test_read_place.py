"""A reader goes to the follower that its leader names, and back for any trouble; then the leader serves for a while."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from penstock.backoff import Backoff
from penstock.client.cluster.metadata_cache import Leader, MetadataCache
from penstock.client.consumer.fetching.effects import Deliver, FindLeader, ReadElsewhere
from penstock.client.consumer.fetching.positions import FOLLOWER_MS_MAX, Positions
from penstock.client.consumer.fetching.read_place import RETURN_MS, RETURN_MS_MAX, ReadPlace
from penstock.client.consumer.raw.raw_buffer import RawRange
from penstock.errors import (
    ApiError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
)
from penstock.messages.fetch import PartitionFetchResult
from penstock.messages.metadata import BrokerInfo, MetadataResponse, PartitionInfo, TopicInfo
from penstock.record.builder import build_batch
from penstock.types import EpochEndOffset, LeaderHint, TopicPartition

TP = TopicPartition("t", 0)
LEADER, FOLLOWER, EPOCH = 1, 2, 3
AWAY = ReadElsewhere(TP, is_at_follower=True)
BACK = ReadElsewhere(TP, is_at_follower=False)


def metadata(
    epoch: int = EPOCH, partition_epoch: int = 0, isr: tuple[int, ...] = (1, 2), brokers: tuple[int, ...] = (1, 2)
) -> MetadataResponse:
    infos = tuple(BrokerInfo(broker, "a", broker) for broker in brokers)
    partition = PartitionInfo(0, LEADER, epoch, partition_epoch, (1, 2), isr)
    return MetadataResponse("c", 1, infos, (TopicInfo("t", "id", (partition,)),), partition_epoch)


class Case:
    """Positions of a consumer in the follower's rack, and the metadata that it knows."""

    def __init__(self, span: RawRange | None = None) -> None:
        self.cache = MetadataCache()
        self.cache.update(metadata(), 0)
        self.made = Positions("earliest", Backoff(100, 1_000, Random(0)))
        self.made.assign([TP])
        if span is None:
            self.made.seek(TP, 10)
        else:
            self.made.seek_range(span)
        self.made.on_metadata(self.cache, 0)

    def source(self, now_ms: int = 0) -> int:
        """The node that is asked."""
        nodes = [node for node in (LEADER, FOLLOWER) if self.made.wanted(node, self.cache, 1_000, now_ms)]
        assert len(nodes) == 1
        return nodes[0]

    def answered(self, node: int, now_ms: int = 0, **changes: Any) -> list[object]:
        result = PartitionFetchResult(TP, "id", self.made.states[TP].fetch_offset, None, 20, 0)
        return list(self.made.on_result(replace(result, **changes), now_ms, node))

    def at_follower(self, now_ms: int = 0) -> Case:
        assert self.source(now_ms) == LEADER
        assert self.answered(LEADER, now_ms, preferred_read_replica=FOLLOWER) == [AWAY]
        assert self.source(now_ms) == FOLLOWER
        return self

    def learns(self, answer: MetadataResponse) -> list[object]:
        self.cache.update(answer, 0)
        return list(self.made.on_metadata(self.cache, 0))


def batch(base_offset: int = 10, count: int = 3) -> bytes:
    return build_batch([b"v"] * count, timestamps_ms=1, base_offset=base_offset, leader_epoch=2)


def test_the_named_follower_is_asked_in_the_leaders_epoch_at_the_same_offset() -> None:
    case = Case().at_follower()
    part = case.made.wanted(FOLLOWER, case.cache, 1_000, 0)[TP]
    assert (part.fetch_offset, part.current_leader_epoch) == (10, EPOCH)
    (deliver,) = case.answered(FOLLOWER, records=batch())
    assert isinstance(deliver, Deliver) and deliver.next_offset == 13
    assert case.source() == FOLLOWER


@pytest.mark.parametrize(
    "error",
    [
        OffsetNotAvailableError(),
        NotLeaderOrFollowerError(),
        OffsetOutOfRangeError("x", log_start_offset=0, log_end_offset=5),
        UnknownTopicIdError(),
        TopicAuthorizationFailedError("t"),
    ],
    ids=lambda error: error.kafka_name,
)
def test_whatever_a_follower_refuses_is_asked_of_the_leader_at_once(error: ApiError) -> None:
    case = Case().at_follower()
    assert case.answered(FOLLOWER, error=error) == [BACK, FindLeader(hinted=False)]
    assert case.source() == LEADER, "and no position is lost, nor anything backed off"
    assert case.made.states[TP].fetch_offset == 10


def test_only_the_leader_says_where_histories_part() -> None:
    case = Case().at_follower()
    assert case.answered(FOLLOWER, diverging_epoch=EpochEndOffset(1, 5)) == [BACK, FindLeader(hinted=False)]
    assert case.made.states[TP].position == 10


def test_damaged_records_of_a_follower_are_asked_of_the_leader() -> None:
    case = Case().at_follower()
    assert case.answered(FOLLOWER, records=b"x" * 100) == [BACK, FindLeader(hinted=False)]
    assert case.source() == LEADER and case.made.states[TP].failures == 0


def test_after_a_return_the_leader_is_asked_without_a_rack_for_a_while() -> None:
    case = Case().at_follower()
    case.answered(FOLLOWER, error=OffsetNotAvailableError())
    assert case.source() == LEADER
    assert case.made.must_name_no_rack(LEADER, RETURN_MS - 1)
    assert not case.made.must_name_no_rack(LEADER, RETURN_MS)
    assert case.answered(LEADER, 0, preferred_read_replica=FOLLOWER) == [], "an answer that was under way"
    assert case.source() == LEADER
    case.at_follower(RETURN_MS)


def test_a_follower_that_has_become_a_leader_is_told_the_rack_for_what_is_read_there_as_before() -> None:
    """Without the rack it would refuse all that it follows, and each partition would be away for a while."""
    case, other = Case(), TopicPartition("t", 1)

    def learns(led_by: int, epoch: int) -> None:
        infos = tuple(BrokerInfo(broker, "a", broker) for broker in (LEADER, FOLLOWER))
        first = PartitionInfo(0, led_by, epoch, epoch, (1, 2), (1, 2))
        topic = TopicInfo("t", "id", (first, PartitionInfo(1, LEADER, EPOCH, 0, (1, 2), (1, 2))))
        case.learns(MetadataResponse("c", 1, infos, (topic,), epoch))

    case.made.assign([TP, other])
    case.made.seek(other, 10)
    learns(LEADER, EPOCH)
    for tp in (TP, other):
        case.made.wanted(LEADER, case.cache, 1_000, 0)
        named = PartitionFetchResult(tp, "id", 10, None, 20, 0, preferred_read_replica=FOLLOWER)
        case.made.on_result(named, 0, LEADER)
    case.made.wanted(FOLLOWER, case.cache, 1_000, 0)
    case.answered(FOLLOWER, 0, error=OffsetNotAvailableError("it is behind"))
    learns(FOLLOWER, EPOCH + 1)
    assert list(case.made.wanted(FOLLOWER, case.cache, 1_000, 0)) == [TP, other]
    assert not case.made.must_name_no_rack(FOLLOWER, 0)


def test_returns_in_a_row_take_longer_and_longer_within_a_bound() -> None:
    place, now_ms, waits = ReadPlace(), 0, []
    for _ in range(9):
        assert place.named(FOLLOWER, EPOCH, now_ms, FOLLOWER_MS_MAX)
        place.go_back(now_ms)
        waits.append(place.leader_alone_until_ms - now_ms)
        now_ms = place.leader_alone_until_ms
    assert waits[:3] == [RETURN_MS, 2 * RETURN_MS, 4 * RETURN_MS] and waits[-1] == RETURN_MS_MAX
    place.named(FOLLOWER, EPOCH, now_ms, FOLLOWER_MS_MAX)
    place.go_back(now_ms + RETURN_MS_MAX)
    assert place.leader_alone_until_ms == now_ms + RETURN_MS_MAX + RETURN_MS, "a good while at one counts"


def test_the_leader_is_asked_again_when_the_time_at_the_follower_is_over() -> None:
    case = Case().at_follower()
    assert case.made.next_due_ms(0) == FOLLOWER_MS_MAX
    assert case.source(FOLLOWER_MS_MAX - 1) == FOLLOWER
    assert case.source(FOLLOWER_MS_MAX) == LEADER


@pytest.mark.parametrize("ends_by_time", [True, False])
def test_a_follower_that_is_named_again_after_its_time_or_by_another_leader_is_told_to_begin(
    ends_by_time: bool,
) -> None:
    """Its link has ended meanwhile, so without the word nobody asks it: the reader stood still until the metadata
    were refreshed, five minutes at most."""
    case = Case().at_follower()
    now_ms = FOLLOWER_MS_MAX if ends_by_time else 0
    if not ends_by_time:
        case.learns(metadata(EPOCH + 1, 1))
    assert case.source(now_ms) == LEADER
    assert case.answered(LEADER, now_ms, preferred_read_replica=FOLLOWER) == [AWAY]
    assert case.source(now_ms) == FOLLOWER
    assert case.answered(LEADER, now_ms, preferred_read_replica=FOLLOWER) == []


def test_another_leader_epoch_ends_it() -> None:
    case = Case().at_follower()
    case.learns(metadata(EPOCH + 1, 1))
    assert case.source() == LEADER


def test_a_follower_that_left_the_isr_since_is_left() -> None:
    case = Case().at_follower()
    assert case.learns(metadata(partition_epoch=0, isr=(1,))) == [], "the leader knew more than this"
    assert case.learns(metadata(partition_epoch=1, isr=(1,))) == [BACK]
    assert case.source() == LEADER


def test_a_follower_that_the_metadata_does_not_know_is_left_and_looked_for() -> None:
    case = Case().at_follower()
    assert case.learns(metadata(brokers=(1,))) == [BACK, FindLeader(hinted=False)]


def test_an_unknown_follower_is_left_also_when_only_a_hint_has_told_of_the_epoch() -> None:
    """The metadata is of an earlier epoch, from while that broker was out of service: nobody could connect to it."""
    case = Case()
    case.learns(metadata(brokers=(1,)))
    assert case.cache.apply_hint(TP, LeaderHint(LEADER, EPOCH + 1, topic_id="id"))
    case.at_follower()
    assert list(case.made.on_metadata(case.cache, 0)) == [BACK, FindLeader(hinted=False)]
    assert case.source() == LEADER


def test_all_that_is_read_at_a_silent_node_goes_back_and_nothing_else() -> None:
    case = Case().at_follower()
    assert case.made.leave_follower(LEADER, 0) == []
    assert case.source() == FOLLOWER
    assert case.made.leave_follower(FOLLOWER, 0) == [BACK]
    assert case.made.leave_follower(FOLLOWER, 0) == []


def test_an_error_of_a_node_that_is_not_read_any_more_means_nothing() -> None:
    case = Case().at_follower()
    case.made.leave_follower(FOLLOWER, 0)
    assert case.source() == LEADER
    assert case.answered(FOLLOWER, error=NotLeaderOrFollowerError()) == []
    assert case.source() == LEADER


def test_the_end_that_was_shown_never_goes_back_in_an_epoch() -> None:
    case = Case()
    case.source()
    case.answered(LEADER, high_watermark=20)
    case.at_follower()
    case.answered(FOLLOWER, high_watermark=15)
    assert case.made.states[TP].readable_end == 20
    case.answered(FOLLOWER, high_watermark=25)
    assert case.made.states[TP].readable_end == 25
    case.learns(metadata(EPOCH + 1, 1))
    case.source()
    case.answered(LEADER, high_watermark=22)
    assert case.made.states[TP].readable_end == 22, "a new leader may know less (KIP-207)"


def test_a_range_is_finished_at_the_leader_where_the_follower_is_behind_its_end() -> None:
    """The end was told by the leader: a reader that waits for the follower may wait for long, or give up."""
    case = Case(RawRange(TP, 10, 30)).at_follower()
    deliver, back = case.answered(FOLLOWER, records=batch(), high_watermark=13)
    assert isinstance(deliver, Deliver) and back == BACK
    assert case.source() == LEADER


def test_a_range_goes_on_at_a_follower_that_has_more() -> None:
    case = Case(RawRange(TP, 10, 30)).at_follower()
    (deliver,) = case.answered(FOLLOWER, records=batch(), high_watermark=20)
    assert isinstance(deliver, Deliver) and case.source() == FOLLOWER


def test_a_place_is_the_leaders_node_until_one_is_named() -> None:
    assert ReadPlace().source(Leader(7, 1), 0) == 7
