"""Promises of the fetcher's core: what it asks, and what it makes of each answer."""

from __future__ import annotations

from dataclasses import replace

from broker.replication.follower.fetcher_core import SAID_AT_REFUSALS, FetcherCore
from broker.replication.follower.fetcher_values import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    Append,
    FetcherStatistics,
    FetchState,
    SayRefused,
    SayStopped,
    StartOver,
    Truncate,
)
from broker.replication.move_throttle import CHUNK_BYTES, HOLD_MS_MAX, MoveThrottle, MovingCopies
from penstock.errors import (
    ApiError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from penstock.messages.fetch import PartitionFetchResult
from penstock.types import EpochEndOffset, TopicPartition

P = TopicPartition("t", 0)
Q = TopicPartition("t", 1)
BACKOFF_MS = 100


def core(*partitions: TopicPartition, offset: int = 10) -> FetcherCore:
    made = FetcherCore(BACKOFF_MS, 1 << 20)
    for partition in partitions:
        made.add(partition, FetchState("id", 5, offset, 4, 0))
    return made


def asked(made: FetcherCore, now_ms: int = 0) -> list[tuple[TopicPartition, int]]:
    return [(p.partition, p.fetch_offset) for p in made.next_turn(now_ms).partitions]


def error(made: FetcherCore, cause: ApiError, now_ms: int = 0) -> list[object]:
    return list(made.on_result(PartitionFetchResult(P, "id", 10, cause), 1, now_ms))


def test_a_partition_is_asked_for_once_until_something_changes() -> None:
    made = core(P, Q)
    assert asked(made) == [(P, 10), (Q, 10)]
    assert asked(made) == []


def test_the_next_fetch_acknowledges_only_what_the_driver_reports_as_durable() -> None:
    made = core(P)
    asked(made)
    effects = made.on_result(PartitionFetchResult(P, "id", 10, high_watermark=10, records=b"batch"), 1, 0)
    assert effects == [Append(P, b"batch", 10)]
    assert asked(made) == []
    made.appended(P, 5, 12, 5)
    assert asked(made) == [(P, 12)]


def test_an_answer_to_another_offset_is_dropped() -> None:
    made = core(P)
    asked(made)
    assert made.on_result(PartitionFetchResult(P, "id", 9, records=b"batch"), 1, 0) == []


def test_an_answer_after_a_new_epoch_is_dropped() -> None:
    made = core(P)
    asked(made)
    made.add(P, FetchState("id", 6, 10, 4, 0))
    assert made.on_result(PartitionFetchResult(P, "id", 10, records=b"batch"), 1, 0) == []


def test_an_answer_to_the_request_before_is_no_answer_for_a_partition_that_was_added_since() -> None:
    made = core(P)
    asked(made)
    made.add(P, FetchState("of the topic made anew", 5, 10, 4, 0))
    assert asked(made) == [(P, 10)]
    assert made.on_result(PartitionFetchResult(P, "id", 10, records=b"of the deleted topic"), 1, 0) == []
    assert made.on_result(PartitionFetchResult(P, "id", 10, FencedLeaderEpochError("of the epoch before")), 1, 0) == []
    assert made.statistics().failed_partitions == 0
    anew = PartitionFetchResult(P, "of the topic made anew", 10, records=b"new")
    assert made.on_result(replace(anew, topic_id="id"), 2, 0) == []
    assert made.on_result(anew, 2, 0) == [Append(P, b"new", -1)]


def test_what_was_flushed_in_an_older_epoch_acknowledges_nothing() -> None:
    made = core(P)
    asked(made)
    made.add(P, FetchState("id", 6, 10, 4, 0))
    made.appended(P, 5, 12, 5)
    assert asked(made) == [(P, 10)]


def test_a_diverging_epoch_truncates_before_anything_is_asked_or_appended() -> None:
    made = core(P)
    asked(made)
    answer = PartitionFetchResult(P, "id", 10, log_start_offset=2, diverging_epoch=EpochEndOffset(3, 7))
    effects = made.on_result(answer, 1, 0)
    assert effects == [Truncate(P, EpochEndOffset(3, 7), 2)]
    assert made.on_result(PartitionFetchResult(P, "id", 10, records=b"late"), 1, 0) == []
    assert asked(made) == []
    made.truncated(P, 5, 7, 3, 0)
    assert asked(made) == [(P, 7)]


def test_below_the_leaders_log_start_it_starts_over_there() -> None:
    made = core(P)
    asked(made)
    cause = OffsetOutOfRangeError("", log_start_offset=50, log_end_offset=90)
    assert error(made, cause) == [StartOver(P, 50)]


def test_above_the_leaders_log_end_it_truncates() -> None:
    made = core(P)
    asked(made)
    cause = OffsetOutOfRangeError("", log_start_offset=0, log_end_offset=6)
    assert error(made, cause) == [Truncate(P, EpochEndOffset(4, 6))]


def test_a_passing_error_is_asked_again_after_the_back_off() -> None:
    # The topic id of a leader that has not heard yet that the topic was made anew is no more final than its epoch.
    for cause in (NotLeaderOrFollowerError("x"), UnknownLeaderEpochError("x"), InconsistentTopicIdError("x")):
        made = core(P)
        asked(made)
        assert error(made, cause, now_ms=1_000) == []
        assert asked(made, 1_000 + BACKOFF_MS - 1) == []
        assert asked(made, 1_000 + BACKOFF_MS) == [(P, 10)]


def test_refusals_that_an_answer_comes_between_are_not_said() -> None:
    made, cause = core(P), NotLeaderOrFollowerError("x")

    def refused(times: int) -> list[object]:
        effects: list[object] = []
        for _ in range(times):
            asked(made, 10**9)
            effects += made.on_result(PartitionFetchResult(P, "id", 10, cause), 10**9, 0)
        return effects

    assert refused(SAID_AT_REFUSALS - 1) == []
    asked(made, 10**9)
    made.on_result(PartitionFetchResult(P, "id", 10, high_watermark=8), 10**9, 0)
    assert refused(SAID_AT_REFUSALS - 1) == []
    assert refused(1) == [SayRefused(P, cause)]


def test_a_fenced_epoch_waits_for_the_metadata_to_bring_the_partition_anew() -> None:
    made = core(P)
    asked(made)
    assert error(made, FencedLeaderEpochError("x")) == [SayStopped(P, "x")]
    assert error(made, FencedLeaderEpochError("x")) == [], "said once"
    assert asked(made, 10**9) == []
    assert made.statistics().failed_partitions == 1
    made.add(P, FetchState("id", 6, 10, 4, 0))
    assert asked(made) == [(P, 10)]


def test_one_failed_partition_leaves_the_others_alone() -> None:
    made = core(P, Q)
    asked(made)
    made.failed(P, "disk")
    made.appended(Q, 5, 20, 5)
    turn = made.next_turn(0)
    assert [p.partition for p in turn.partitions] == [Q]
    assert turn.forgotten == [P]


def test_lag_is_that_of_the_partition_furthest_behind_and_failed_ones_are_counted() -> None:
    made = core(P, Q)
    asked(made)
    made.on_result(PartitionFetchResult(P, "id", 10, high_watermark=17), 1, 0)
    made.on_result(PartitionFetchResult(Q, "id", 10, high_watermark=12), 1, 0)
    assert made.statistics() == FetcherStatistics(2, 0, 0, lag_max=7, truncating_partitions=0)
    made.failed(P, "disk")
    made.delayed(Q, 0)
    found = made.statistics()
    assert (found.failed_partitions, found.delayed_partitions) == (1, 1)


def test_a_removed_partition_is_forgotten_by_the_session() -> None:
    made = core(P, Q)
    asked(made)
    made.remove([P])
    assert made.next_turn(0).forgotten == [P]
    assert made.on_result(PartitionFetchResult(P, "id", 10, records=b"late"), 1, 0) == []


def test_a_new_stream_asks_for_everything_again() -> None:
    made = core(P, Q)
    asked(made)
    made.session_lost()
    assert asked(made) == [(P, 10), (Q, 10)]


def test_no_records_still_carry_the_high_watermark() -> None:
    made = core(P)
    asked(made)
    assert made.on_result(PartitionFetchResult(P, "id", 10, high_watermark=8), 1, 0) == [AdvanceHighWatermark(P, 8)]


def test_what_could_not_be_appended_for_want_of_room_is_asked_for_again() -> None:
    made = core(P)
    asked(made)
    made.on_result(PartitionFetchResult(P, "id", 10, high_watermark=10, records=b"batch"), 1, 0)
    made.delayed(P, 1_000)
    assert asked(made, 1_000 + BACKOFF_MS - 1) == []
    assert asked(made, 1_000 + BACKOFF_MS) == [(P, 10)]


def answered(made: FetcherCore, turn: int, log_start: int, *, offset: int = 10, records: bytes = b"") -> list[object]:
    result = PartitionFetchResult(P, "id", offset, high_watermark=10, log_start_offset=log_start, records=records)
    return list(made.on_result(result, turn, 0))


def log_starts(made: FetcherCore, now_ms: int = 0) -> list[int]:
    return [wanted.log_start_offset for wanted in made.next_turn(now_ms).partitions]


def test_what_the_leader_deleted_is_deleted_once_and_after_the_high_watermark_that_allows_it() -> None:
    made = core(P)
    assert log_starts(made) == [0]
    assert answered(made, 1, 4) == [AdvanceHighWatermark(P, 10), AdvanceLogStart(P, 4)]
    assert answered(made, 1, 4) == [AdvanceHighWatermark(P, 10)], "its checkpoint is being written"
    assert answered(made, 1, 6) == [AdvanceHighWatermark(P, 10), AdvanceLogStart(P, 6)]


def test_a_log_start_is_reported_only_when_it_is_durable() -> None:
    made = core(P)
    asked(made)
    answered(made, 1, 4)
    assert log_starts(made) == []
    made.log_start_durable(P, 5, 4)
    assert log_starts(made) == [4]
    assert answered(made, 3, 4) == [AdvanceHighWatermark(P, 10)]
    made.log_start_durable(P, 5, 4)
    made.log_start_durable(P, 4, 9)  # of an earlier leader epoch
    assert log_starts(made) == []


def test_a_log_start_that_becomes_durable_during_an_append_does_not_ask_for_the_same_records_again() -> None:
    made = core(P)
    asked(made)
    answered(made, 1, 4, records=b"batch")
    made.log_start_durable(P, 5, 4)
    assert asked(made) == []
    made.appended(P, 5, 12, 5)
    assert [(w.fetch_offset, w.log_start_offset) for w in made.next_turn(0).partitions] == [(12, 4)]


def test_a_log_start_that_the_disk_refuses_is_told_again_after_the_back_off() -> None:
    made = core(P)
    asked(made)
    answered(made, 1, 4)
    made.log_start_failed(P, 5, 0)
    assert log_starts(made) == []
    assert log_starts(made, BACKOFF_MS) == [0]
    assert answered(made, 3, 4) == [AdvanceHighWatermark(P, 10), AdvanceLogStart(P, 4)]


def test_a_log_start_that_a_full_disk_refuses_together_with_an_append_is_told_again() -> None:
    made = core(P)
    asked(made)
    answered(made, 1, 4, records=b"batch")
    made.delayed(P, 0)
    made.log_start_failed(P, 5, 0)
    assert log_starts(made, BACKOFF_MS) == [0]
    assert AdvanceLogStart(P, 4) in answered(made, 2, 4)


def test_a_turn_names_no_more_partitions_than_a_leader_takes_and_the_next_one_names_the_others() -> None:
    made = core(*(TopicPartition("many", n) for n in range(3_000)))
    assert len(asked(made)) == 2_000 and made.has_changes(0)
    assert len(asked(made)) == 1_000 and not made.has_changes(0)
    made.remove([TopicPartition("many", n) for n in range(3_000)])
    assert [len(made.next_turn(0).forgotten) for _ in range(3)] == [2_000, 1_000, 0]


def moving(throttle: MoveThrottle, *names: TopicPartition) -> FetcherCore:
    """P and Q are followed; those named move."""
    made = FetcherCore(BACKOFF_MS, 1 << 20, MovingCopies(throttle, lambda partition: partition in names))
    for partition in (P, Q):
        made.add(partition, FetchState("id", 5, 10, 4, 0))
    return made


def test_a_replica_that_moves_asks_for_no_more_than_the_throttle_has_room_for() -> None:
    throttle = MoveThrottle(4 * CHUNK_BYTES)
    made = moving(throttle, P)
    assert asked(made) == [(Q, 10)], "one that is in sync is never held"
    assert made.held_ms == 250 and not made.has_changes(249)
    (wanted,) = made.next_turn(250).partitions
    assert (wanted.partition, wanted.max_bytes, made.held_ms) == (P, CHUNK_BYTES, 0)
    made.on_result(PartitionFetchResult(P, "id", 10, high_watermark=90, records=bytes(CHUNK_BYTES)), 2, 250)
    made.appended(P, 5, 12, 5)
    assert asked(made, 475) == []
    assert asked(made, 501) == [(P, 12)]
    assert throttle.bytes_total == CHUNK_BYTES


def test_the_room_is_shared_by_the_replicas_of_a_turn() -> None:
    throttle = MoveThrottle(4 * CHUNK_BYTES)
    made = moving(throttle, P, Q)
    throttle.room(0)
    assert asked(made, 250) == [(P, 10)]
    assert made.held_ms > 0


def test_a_replica_that_is_in_sync_by_now_is_held_no_more() -> None:
    throttle, names = MoveThrottle(1), [P]
    made = FetcherCore(BACKOFF_MS, 1 << 20, MovingCopies(throttle, lambda partition: partition in names))
    made.add(P, FetchState("id", 5, 10, 4, 0))
    throttle.spend(10**9, 0)
    assert asked(made) == []
    names.clear()
    assert asked(made, HOLD_MS_MAX) == [(P, 10)]


def test_a_replica_that_is_held_leaves_the_session_until_it_is_asked_for_again() -> None:
    """Else the leader goes on sending the records from its old position, and they are dropped here."""
    throttle = MoveThrottle(4 * CHUNK_BYTES)
    made = moving(throttle, P)
    throttle.room(0)
    assert asked(made, 250) == [(P, 10), (Q, 10)]
    records = PartitionFetchResult(P, "id", 10, high_watermark=90, records=bytes(4 * CHUNK_BYTES))
    assert made.on_result(records, 1, 250)
    made.next_turn(250)
    made.appended(P, 5, 12, 5)
    made.session_lost()
    turn = made.next_turn(250)
    assert ([p.partition for p in turn.partitions], turn.forgotten) == ([Q], [])
    made.on_result(PartitionFetchResult(Q, "id", 10, high_watermark=10), turn.number, 250)
    again = made.next_turn(10_000)
    assert [p.partition for p in again.partitions] == [P] and made.held_ms == 0
    throttle.spend(10**9, 10_000)
    made.log_start_durable(P, 5, 3)
    held = made.next_turn(10_000)
    assert (held.partitions, held.forgotten, made.held_ms > 0) == ([], [P], True)
    throttle.set_rate(10**12)
    last = made.next_turn(20_000)
    assert ([p.partition for p in last.partitions], last.forgotten) == ([P], [])


def test_a_replica_that_has_all_that_is_committed_is_not_held() -> None:
    """The leader may count it as in sync before the metadata says so here: acks would wait for the throttle."""
    throttle = MoveThrottle()
    made = moving(throttle, P, Q)
    asked(made, 250)
    throttle.set_rate(1)
    made.on_result(PartitionFetchResult(P, "id", 10, high_watermark=10, records=b"new"), 1, 250)
    made.appended(P, 5, 11, 5)
    made.on_result(PartitionFetchResult(Q, "id", 10, high_watermark=11, records=b"new"), 1, 250)
    made.appended(Q, 5, 11, 5)
    throttle.spend(10**9, 250)
    assert asked(made, 251) == [(P, 11)]
