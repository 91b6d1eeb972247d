"""A consumer's position moves only by answers to its own question; lost positions are reset or reported with both
bounds.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from penstock.backoff import Backoff
from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.consumer.fetching.effects import Deliver, FindLeader, LookUpReset, ReportError
from penstock.client.consumer.fetching.partition_state import GenerationOffset
from penstock.client.consumer.fetching.positions import UNKNOWN_PARTITION_GRACE_MS, Positions
from penstock.client.consumer.raw.raw_buffer import RawRange
from penstock.errors import (
    ApiError,
    CorruptMessageError,
    InvalidRequestError,
    KafkaStorageError,
    LogTruncationError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    UndecodableBatchError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.fetch import PartitionFetchResult
from penstock.messages.metadata import BrokerInfo, MetadataResponse, PartitionInfo, TopicInfo
from penstock.record.builder import build_batch
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, EpochEndOffset, LeaderHint, TopicPartition

TP = TopicPartition("t", 0)


def cache(topic_id: str = "id", count: int = 1) -> MetadataCache:
    found = MetadataCache()
    partitions = tuple(PartitionInfo(number, 1, 3, 0, (1,), (1,)) for number in range(count))
    found.update(MetadataResponse("c", 1, (BrokerInfo(1, "a", 1),), (TopicInfo("t", topic_id, partitions),), 0), 0)
    return found


def positions(reset: str = "none", offset: int = 10) -> Positions:
    made = Positions(reset, Backoff(100, 1_000, Random(0)))
    made.assign([TP])
    made.seek(TP, offset)
    made.on_metadata(cache(), 0)
    return made


def result(fetch_offset: int = 10, **changes: Any) -> PartitionFetchResult:
    return replace(PartitionFetchResult(TopicPartition("t", 0), "id", fetch_offset, None, 20, 0), **changes)


def batch(base_offset: int = 10, count: int = 3, epoch: int = 2) -> bytes:
    return build_batch([b"v"] * count, timestamps_ms=1, base_offset=base_offset, leader_epoch=epoch)


def test_an_answer_moves_the_fetch_offset_and_remembers_the_epoch() -> None:
    made = positions()
    (deliver,) = made.on_result(result(records=batch() + batch(13, epoch=3)), 0)
    assert isinstance(deliver, Deliver) and deliver.next_offset == 16
    part = made.wanted(1, cache(), 1_000, 0)[TP]
    assert (part.fetch_offset, part.last_fetched_epoch, part.current_leader_epoch) == (16, 3, 3)
    assert made.states[TP].position == 10


def test_an_answer_to_a_question_no_longer_asked_is_dropped() -> None:
    made = positions()
    made.seek(TP, 50)
    assert made.on_result(result(10, records=batch()), 0) == []
    assert made.states[TP].fetch_offset == 50


def test_out_of_range_without_a_policy_is_reported_with_both_bounds() -> None:
    made = positions("none", 99)
    error = OffsetOutOfRangeError("x", log_start_offset=5, log_end_offset=20)
    (report,) = made.on_result(result(99, error=error), 0)
    assert isinstance(report, ReportError) and isinstance(report.error, OffsetOutOfRangeError)
    assert (report.error.log_start_offset, report.error.log_end_offset) == (5, 20)
    assert "offset 99" in str(report.error) and "5 to 20" in str(report.error)
    assert made.wanted(1, cache(), 1_000, 0) == {}
    made.seek(TP, 5)
    made.on_metadata(cache(), 0)
    assert TP in made.wanted(1, cache(), 1_000, 0)


def test_out_of_range_with_a_policy_is_looked_up() -> None:
    made = positions("earliest", 99)
    (look_up,) = made.on_result(result(99, error=OffsetOutOfRangeError("x")), 0)
    assert isinstance(look_up, LookUpReset)
    (state,) = made.unresolved(cache(), 1_000)
    assert state.reset_timestamp == EARLIEST_TIMESTAMP
    made.complete_reset(TP, state.generation, 7)
    assert made.states[TP].position == 7 and made.unresolved(cache(), 0) == []


def test_a_look_up_does_not_undo_a_later_seek() -> None:
    made = positions("earliest")
    made.seek_to_timestamp(TP, EARLIEST_TIMESTAMP)
    generation = made.states[TP].generation
    made.seek(TP, 33)
    made.complete_reset(TP, generation, 0)
    assert made.states[TP].position == 33


def test_truncation_is_reported_with_the_divergent_offset() -> None:
    made = positions("none", 30)
    (report,) = made.on_result(result(30, diverging_epoch=EpochEndOffset(1, 22)), 0)
    assert isinstance(report, ReportError) and isinstance(report.error, LogTruncationError)
    assert (report.error.position, report.error.divergent_offset) == (30, 22)


def test_truncation_with_a_policy_goes_on_at_the_divergent_offset() -> None:
    made = positions("latest", 30)
    (effect,) = made.on_result(result(30, diverging_epoch=EpochEndOffset(1, 22)), 0)
    assert isinstance(effect, LookUpReset)
    assert made.states[TP].position == 22


def test_a_retriable_error_backs_off_and_looks_for_the_leader() -> None:
    made = positions()
    (effect,) = made.on_result(result(error=NotLeaderOrFollowerError()), 1_000)
    assert effect == FindLeader(hinted=False)
    assert made.wanted(1, cache(), 1_000, 1_000) == {}
    due_ms = made.next_due_ms(1_000)
    assert due_ms is not None and TP in made.wanted(1, cache(), 1_000, due_ms)


def test_a_hinted_error_is_retried_at_once() -> None:
    made = positions()
    error = NotLeaderOrFollowerError("moved", leader=LeaderHint(2, 4))
    assert made.on_result(result(error=error), 1_000) == [FindLeader(hinted=True)]
    assert TP in made.wanted(1, cache(), 1_000, 1_000)


def test_an_error_that_is_not_retriable_is_reported() -> None:
    made = positions()
    (report,) = made.on_result(result(error=InvalidRequestError("no")), 0)
    assert isinstance(report, ReportError) and isinstance(report.error, InvalidRequestError)


def test_a_partition_that_the_metadata_is_without_for_long_is_reported() -> None:
    made = positions()
    assert made.unknown(made.states[TP], 0) == []
    (report,) = made.unknown(made.states[TP], UNKNOWN_PARTITION_GRACE_MS)
    assert isinstance(report, ReportError) and "does not exist any more" in str(report.error)


def test_the_time_without_a_partition_is_counted_anew_once_the_metadata_has_it() -> None:
    made = positions()
    made.unknown(made.states[TP], 0)
    made.on_metadata(cache(), 1_000)
    assert made.unknown(made.states[TP], UNKNOWN_PARTITION_GRACE_MS + 1_000) == []


@pytest.mark.parametrize("error", [UnknownTopicOrPartitionError(), KafkaStorageError()], ids=["unknown", "disk"])
def test_a_broker_alone_ends_no_partition_that_the_metadata_has(error: ApiError) -> None:
    """It may be without its log until it is started again; what it has then must still be read."""
    made = positions()
    for now_ms in (0, 60_000, 600_000):
        assert made.on_result(result(error=error), now_ms) == [FindLeader(hinted=False)]
    assert TP in made.wanted(1, cache(), 1_000, 700_000)
    (deliver,) = made.on_result(result(records=batch()), 700_000)
    assert isinstance(deliver, Deliver)


def test_an_answer_without_a_whole_new_batch_is_corrupt_and_asked_again() -> None:
    made = positions()
    effects = made.on_result(result(records=batch()[:30]), 0)
    assert effects == [FindLeader(hinted=False)]
    assert made.states[TP].fetch_offset == 10 and CorruptMessageError.retriable


def test_damage_that_does_not_pass_is_reported() -> None:
    made = positions()
    effects = []
    for now_ms in range(0, 50_000, 10_000):
        effects = made.on_result(result(records=batch()[:-1]), now_ms)
    (report,) = effects
    assert isinstance(report, ReportError) and isinstance(report.error, UndecodableBatchError)
    assert made.states[TP].halted


def test_partitions_that_stay_assigned_keep_their_position() -> None:
    made = positions()
    other = TopicPartition("t", 1)
    made.assign([TP, other])
    assert made.states[TP].position == 10 and made.states[other].position == -1
    made.assign([other])
    assert TP not in made.states


def test_a_damaged_header_behind_good_batches_costs_only_itself() -> None:
    made = positions()
    broken = bytearray(batch(13))
    broken[16] = 9  # the magic
    (deliver,) = made.on_result(result(records=batch() + bytes(broken)), 0)
    assert deliver == Deliver(TP, made.states[TP].generation, batch(), 10, 13, deliver.origin)
    effects = [made.on_result(result(13, records=bytes(broken)), now_ms) for now_ms in range(0, 50_000, 10_000)]
    (report,) = effects[-1]
    assert isinstance(report, ReportError) and isinstance(report.error, UndecodableBatchError)
    assert (report.error.partition, report.error.offset) == (0, 13) and made.states[TP].position == 10


@pytest.mark.parametrize(
    "lost",
    [
        {"error": OffsetOutOfRangeError("x", log_start_offset=20, log_end_offset=90)},
        {"diverging_epoch": EpochEndOffset(1, 5)},
    ],
)
def test_a_reset_waits_until_the_user_has_what_was_fetched_before(lost: dict[str, Any]) -> None:
    made = positions("earliest")
    made.on_result(result(records=batch()), 0)
    state = made.states[TP]
    generation = state.generation

    assert made.on_result(result(13, **lost), 0) == []
    assert (state.generation, state.position) == (generation, 10)
    assert made.wanted(1, cache(), 1_000, 0) == {}, "it is not asked at once again"

    state.read = GenerationOffset(generation, 13)
    (effect,) = made.on_result(result(13, **lost), 1_000)
    assert isinstance(effect, LookUpReset) and state.generation != generation


def test_what_an_older_generation_has_read_moves_no_position() -> None:
    made = positions()
    old = made.states[TP].generation
    made.seek(TP, 50)
    made.states[TP].read = GenerationOffset(old, 13)  # a poll that ends while the loop resets
    assert made.states[TP].position == 50


def test_a_position_is_not_used_for_another_topic_of_the_same_name() -> None:
    made = positions("none")
    (report,) = made.on_metadata(cache("other"), 0)
    assert isinstance(report, ReportError) and isinstance(report.error, TopicRecreatedError)
    assert (report.error.expected_id, report.error.found_id) == ("id", "other")
    assert made.wanted(1, cache("other"), 1_000, 0) == {}
    made.seek(TP, 0)
    made.on_metadata(cache("other"), 0)
    assert made.wanted(1, cache("other"), 1_000, 0)[TP].topic_id == "other"


def test_with_a_policy_a_topic_made_anew_is_read_where_the_policy_says() -> None:
    made = positions("earliest")
    made.on_result(result(records=batch()), 0)
    assert made.on_metadata(cache("other"), 0) == [], "what was fetched of the old topic comes first"
    assert made.wanted(1, cache("other"), 1_000, 5_000) == {}
    made.states[TP].read = GenerationOffset(made.states[TP].generation, 13)
    (effect,) = made.on_metadata(cache("other"), 1_000)
    assert isinstance(effect, LookUpReset) and "deleted and created again" in effect.why
    (state,) = made.unresolved(cache(), 1_000)
    made.complete_reset(TP, state.generation, 0)
    assert made.wanted(1, cache("other"), 1_000, 1_000)[TP].topic_id == "other"


def test_a_topic_id_that_the_leader_does_not_know_is_asked_again_after_a_refresh() -> None:
    made = positions()
    assert made.on_result(result(error=UnknownTopicIdError()), 0) == [FindLeader(hinted=False)]
    assert made.on_metadata(cache(), 0) == []
    assert TP in made.wanted(1, cache(), 1_000, 10_000)


# -- a topic that gets more partitions ---------------------------------------------------------------------------------


def assigned(made: Positions, count: int, known: MetadataCache | None) -> list[int | None]:
    """Where each of the topic's partitions begins after an assignment of the first `count`."""
    made.assign([TopicPartition("t", number) for number in range(count)], known)
    return [made.states[TopicPartition("t", number)].reset_timestamp for number in range(count)]


def test_a_partition_that_was_added_while_its_topic_was_read_begins_at_its_first_record() -> None:
    """It was empty when this reader began; by 'latest' the records between its creation and this would be skipped."""
    made = Positions("latest", Backoff(100, 1_000, Random(0)))
    assert assigned(made, 2, cache(count=2)) == [LATEST_TIMESTAMP] * 2
    assert assigned(made, 3, cache(count=3)) == [LATEST_TIMESTAMP] * 2 + [EARLIEST_TIMESTAMP]
    assert assigned(made, 4, cache(count=4))[2:] == [EARLIEST_TIMESTAMP] * 2, "the count is that of the beginning"


def test_a_partition_that_was_there_all_the_time_begins_as_the_user_said() -> None:
    made = Positions("latest", Backoff(100, 1_000, Random(0)))
    assert assigned(made, 1, cache(count=2)) == [LATEST_TIMESTAMP]
    assert assigned(made, 2, cache(count=2)) == [LATEST_TIMESTAMP] * 2
    assert assigned(made, 0, cache(count=2)) == []
    assert assigned(made, 3, cache(count=3)) == [LATEST_TIMESTAMP] * 3, "nothing of the topic was read meanwhile"


def test_a_partition_that_was_added_between_the_look_at_a_topic_and_its_assignment_is_a_later_one() -> None:
    made = Positions("latest", Backoff(100, 1_000, Random(0)))
    topic = cache(count=1).topic("t")
    assert topic is not None
    made.announce(topic)
    assert assigned(made, 1, cache(count=2)) == [LATEST_TIMESTAMP]
    assert assigned(made, 2, cache(count=2)) == [LATEST_TIMESTAMP, EARLIEST_TIMESTAMP]
    made.announce(cache("other", 3).topic("t"))  # type: ignore[arg-type]
    assert assigned(made, 3, cache(count=3)) == [LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, EARLIEST_TIMESTAMP]


def test_a_topic_that_was_made_anew_with_more_partitions_is_another_one() -> None:
    made = Positions("latest", Backoff(100, 1_000, Random(0)))
    assigned(made, 1, cache("id", 1))
    assert assigned(made, 2, cache("other", 2)) == [LATEST_TIMESTAMP] * 2
    assert assigned(made, 3, cache("other", 3))[2] == EARLIEST_TIMESTAMP


def test_without_a_reset_the_user_says_where_to_begin_in_a_new_partition_too() -> None:
    made = Positions("none", Backoff(100, 1_000, Random(0)))
    assigned(made, 1, cache(count=1))
    assert assigned(made, 2, cache(count=2)) == [None, None]


def test_a_record_of_a_later_epoch_below_a_ranges_end_has_replaced_another_one() -> None:
    made = positions()
    made.seek_range(RawRange(TP, 10, 16, "id", leader_epoch=2))
    (deliver,) = made.on_result(result(records=batch() + batch(13, epoch=3)), 0)
    assert isinstance(deliver, Deliver) and deliver.next_offset == 13, "what is before it counts"
    (report,) = made.on_result(result(13, records=batch(13, epoch=3)), 0)
    assert isinstance(report, ReportError) and isinstance(report.error, LogTruncationError)
    assert (report.error.position, report.error.divergent_offset) == (13, 13)


@pytest.mark.parametrize(("end", "leader_epoch"), [(13, 2), (16, 3), (16, -1)])
def test_a_later_epoch_behind_a_ranges_end_or_that_was_known_is_none_of_its_business(
    end: int, leader_epoch: int
) -> None:
    made = positions()
    made.seek_range(RawRange(TP, 10, end, "id", leader_epoch=leader_epoch))
    (deliver,) = made.on_result(result(records=batch() + batch(13, epoch=3)), 0)
    assert isinstance(deliver, Deliver) and deliver.next_offset == 16
