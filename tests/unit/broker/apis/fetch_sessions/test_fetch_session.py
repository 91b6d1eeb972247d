"""Promises of a fetch session: it answers what is new, waits when there is nothing, and never repeats itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.apis.fetch_sessions import fetch_session
from broker.apis.fetch_sessions.fetch_session import (
    ANSWER_BYTES_MIN,
    ANSWER_COPIES,
    SessionMemory,
)
from broker.apis.fetch_sessions.session_partitions import SESSION_PARTITION_BYTES
from broker.network.memory_budget import MemoryBudget
from broker.network.request_channel import Request
from broker.replication.leader.record_deletion import delete_below
from broker.replication.partition import Partition, PartitionReports
from penstock.errors import (
    CorruptFileError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    ResourceExhaustedError,
    StaleBrokerEpochError,
    UnknownServerError,
    UnknownTopicIdError,
)
from penstock.messages.fetch import FetchPartition, FetchRequest
from penstock.types import EpochEndOffset, TopicPartition
from tests.support.fetchers import Fetcher, at, produce, run
from tests.support.leader_stream import until
from tests.support.machine import NOW_NS
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, flush, state
from tests.support.sinks import CALLER


def test_records_that_are_there_are_answered_at_once(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        produce(partition, b"a")
        flush(partition)
        stream.ask(at(0))
        (answer,) = stream.answers
        assert answer.partitions[0].records and answer.partitions[0].high_watermark == 1
        assert stream.bytes_out == [(len(answer.partitions[0].records), False)]

    run(tmp_path, scenario)


def test_a_consumer_waits_for_the_high_watermark_and_not_for_the_append(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        stream.ask(at(0))
        produce(partition, b"a")
        await asyncio.sleep(0)
        assert not stream.answers
        flush(partition)
        await asyncio.sleep(0)
        assert stream.answers[0].partitions[0].records

    run(tmp_path, scenario)


def test_a_follower_is_woken_by_the_append(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        stream.ask(at(0), replica_id=2)
        produce(partition, b"a")
        await asyncio.sleep(0)
        assert stream.answers[0].partitions[0].records
        assert stream.bytes_out[0][1] is True

    run(tmp_path, scenario, isr=(1, 2))


def test_a_followers_next_position_acknowledges_what_is_below(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        produce(partition, b"a", b"b")
        flush(partition)
        stream.ask(at(0), replica_id=2)
        assert partition.high_watermark == 0
        stream.ask(at(2, last_epoch=5), replica_id=2)
        assert partition.high_watermark == 2

    run(tmp_path, scenario, isr=(1, 2))


def test_what_was_sent_is_not_sent_again_unless_asked(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        produce(partition, b"a")
        flush(partition)
        stream.ask(at(0))
        stream.ask(wait_ms=0)
        assert stream.answers[1].partitions == []

    run(tmp_path, scenario)


def test_a_new_request_ends_the_one_that_waits(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        stream.ask(at(0))
        stream.ask()
        assert len(stream.answers) == 1

    run(tmp_path, scenario)


def test_a_small_answer_waits_for_min_bytes(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        produce(partition, b"a")
        flush(partition)
        stream.ask(at(0), min_bytes=10_000)
        assert not stream.answers
        for _ in range(3):
            produce(partition, b"x" * 5_000)
        flush(partition)
        await asyncio.sleep(0)
        assert len(stream.answers[0].partitions[0].records) > 15_000

    run(tmp_path, scenario)


def test_no_answer_waits_for_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "WAIT_MS_MAX", 10)

    async def scenario(partition: Partition, stream: Fetcher) -> None:
        stream.ask(at(0), wait_ms=2**31 - 1, min_bytes=1)
        assert not stream.answers
        await asyncio.wait_for(until(lambda: bool(stream.answers)), 10)
        assert not stream.answers[0].partitions[0].records

    run(tmp_path, scenario)


def test_losing_leadership_wakes_and_tells(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        stream.ask(at(0, epoch=-1))
        partition.become_follower(state(leader_id=2, leader_epoch=6), NOBODY)
        await asyncio.sleep(0)
        assert isinstance(stream.answers[0].partitions[0].error, NotLeaderOrFollowerError)

    run(tmp_path, scenario)


def test_each_bad_partition_has_its_own_error(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        elsewhere = FetchPartition(TopicPartition("nowhere", 3), TOPIC_ID, 0)
        stream.ask(at(99), elsewhere)
        errors = [type(result.error) for result in stream.answers[0].partitions]
        assert errors == [OffsetOutOfRangeError, UnknownTopicIdError]
        stream.ask(at(0, topic_id="another"))
        assert isinstance(stream.answers[1].partitions[0].error, UnknownTopicIdError)
        stream.ask(at(0, topic_id=TOPIC_ID), wait_ms=0)
        assert stream.answers[2].partitions[0].error is None

    run(tmp_path, scenario)


def test_a_position_that_is_not_in_this_history_is_answered_with_where_it_left(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        produce(partition, b"a", b"b")
        flush(partition)
        stream.ask(at(2, last_epoch=4), replica_id=2)
        assert stream.answers[0].partitions[0].diverging_epoch == EpochEndOffset(4, 0)
        assert partition.high_watermark == 0

    run(tmp_path, scenario, isr=(1, 2))


def test_a_request_that_outlives_its_stream_watches_nothing(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        stream.session.close()
        stream.ask(at(0))
        assert not partition.watchers and not stream.answers

    run(tmp_path, scenario)


def test_a_follower_that_registered_anew_needs_another_session(tmp_path: Path) -> None:
    """Else the leader would know its idle partitions by the old epoch, by which nobody joins an ISR (KIP-903)."""

    async def scenario(partition: Partition, stream: Fetcher) -> None:
        stream.ask(at(0), replica_id=2, wait_ms=0)
        with pytest.raises(StaleBrokerEpochError):
            stream.ask(replica_id=2, broker_epoch=200)

    run(tmp_path, scenario, isr=(1, 2))


def test_a_waiting_follower_is_told_of_a_deletion_at_once_and_once(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        produce(partition, b"a", b"b")
        flush(partition)
        follower = FetchPartition(PARTITION, TOPIC_ID, 2, 5, 5, 0)
        stream.ask(follower, replica_id=2)
        delete_below(partition, 1)
        await asyncio.sleep(0)
        (answer,) = stream.answers
        assert (answer.partitions[0].log_start_offset, answer.partitions[0].records) == (1, b"")
        stream.ask(replica_id=2)
        partition.log_start_moved()
        await asyncio.sleep(0)
        assert len(stream.answers) == 1, "it has nothing more to hear"

    run(tmp_path, scenario, isr=(1, 2))


def test_a_follower_that_still_reports_what_was_deleted_is_told_again(tmp_path: Path) -> None:
    """It may have dropped the answer: it was to a question that it no longer asked."""

    async def scenario(partition: Partition, stream: Fetcher) -> None:
        produce(partition, b"a", b"b")
        flush(partition)
        follower = FetchPartition(PARTITION, TOPIC_ID, 2, 5, 5, 0)
        stream.ask(follower, replica_id=2)
        delete_below(partition, 2)
        await asyncio.sleep(0)
        stream.ask(follower, replica_id=2)
        assert [answer.partitions[0].log_start_offset for answer in stream.answers] == [2, 2]
        stream.ask(FetchPartition(PARTITION, TOPIC_ID, 2, 5, 5, 2), replica_id=2)
        assert len(stream.answers) == 2, "now it says that it has done it"

    run(tmp_path, scenario, isr=(1, 2))


def test_a_waiting_consumer_is_not_woken_by_a_deletion(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        produce(partition, b"a")
        flush(partition)
        stream.ask(at(1))
        delete_below(partition, 1)
        await asyncio.sleep(0)
        assert not stream.answers

    run(tmp_path, scenario)


def test_a_reader_of_deleted_records_is_told_both_bounds(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        produce(partition, b"a", b"b", b"c")
        flush(partition)
        delete_below(partition, 2)
        stream.ask(at(1))
        error = stream.answers[0].partitions[0].error
        assert isinstance(error, OffsetOutOfRangeError)
        assert (error.log_start_offset, error.log_end_offset) == (2, 3)

    run(tmp_path, scenario)


def rot(partition: Partition) -> None:
    """A bit of the last byte of the log."""
    path = Path(partition.log.segments[0].log_path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_a_follower_that_asks_again_for_what_it_was_sent_makes_the_leader_look_at_it(tmp_path: Path) -> None:
    """A process does not look at what it wrote itself: only the reader of a record can see that it has rotted since."""

    noticed: list[Exception] = []

    async def scenario(partition: Partition, stream: Fetcher) -> None:
        produce(partition, b"a", b"b")
        flush(partition)
        follower = FetchPartition(PARTITION, TOPIC_ID, 0, 5, -1, 0)
        stream.ask(follower, replica_id=2)
        rot(partition)
        stream.ask(follower, replica_id=2)
        assert stream.answers[0].partitions[0].records and not stream.answers[1].partitions[0].records
        assert isinstance(stream.answers[1].partitions[0].error, KafkaStorageError)
        assert [type(error) for error in noticed] == [CorruptFileError]

    reports = PartitionReports(disk_error=lambda _, error: noticed.append(error))
    run(tmp_path, scenario, (1, 2), reports)


def test_a_follower_that_asks_again_without_reason_gets_the_same_again(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        produce(partition, b"a", b"b")
        flush(partition)
        follower = FetchPartition(PARTITION, TOPIC_ID, 0, 5, -1, 0)
        for _ in range(3):
            stream.ask(follower, replica_id=2)
        records = [answer.partitions[0].records for answer in stream.answers]
        assert records[0] and records == [records[0]] * 3

    run(tmp_path, scenario, isr=(1, 2))


NOTHING_NEW = FetchRequest(-1, 102, 0, 1, 1 << 20, [], [])


class ClosedCatalog(dict[TopicPartition, Partition]):
    """Fails as a bug would: with an error that is no answer."""

    def get(self, key: object, default: object = None) -> Any:
        raise ValueError("closed")


def small_memory() -> tuple[MemoryBudget, SessionMemory]:
    """Room for one address to have one small answer."""
    answers = MemoryBudget(2 * ANSWER_COPIES * ANSWER_BYTES_MIN, 2)
    return answers, SessionMemory(answers.open("a"), MemoryBudget(10 * SESSION_PARTITION_BYTES, 1).open("a"))


def test_an_answer_is_not_built_before_there_is_room_and_is_no_larger_than_that(tmp_path: Path) -> None:
    async def scenario(partition: Partition, _: Fetcher) -> None:
        answers, memory = small_memory()
        unwritten = answers.open("a").take(ANSWER_COPIES * ANSWER_BYTES_MIN)
        for _n in range(4):
            produce(partition, b"x" * (ANSWER_BYTES_MIN // 2 - 1_000))
        flush(partition)
        stream = Fetcher(partition, memory)
        stream.ask(at(0))
        stream.ask(at(2))
        assert not stream.answers and answers.statistics().waiting == 1
        unwritten.release()
        (first,) = stream.answers
        assert ANSWER_BYTES_MIN // 2 < len(first.partitions[0].records) <= ANSWER_BYTES_MIN
        assert first.partitions[0].fetch_offset == 2, "the position that was asked for last"
        stream.written[0].dropped()
        assert len(stream.answers) == 1 and answers.statistics().used_bytes == 0, "the second waits for something new"
        stream.ask(at(3))
        assert [bool(answer.partitions) for answer in stream.answers] == [True, False, True]
        for request in stream.written:
            request.dropped()
        stream.session.close()
        assert answers.statistics().used_bytes == 0

    run(tmp_path, scenario)


def test_a_follower_is_counted_and_never_paused(tmp_path: Path) -> None:
    async def scenario(partition: Partition, _: Fetcher) -> None:
        answers, memory = small_memory()
        answers.open("a").take(2 * ANSWER_COPIES * ANSWER_BYTES_MIN)
        produce(partition, b"a")
        stream = Fetcher(partition, memory)
        stream.ask(at(0), replica_id=2)
        size = len(stream.answers[0].partitions[0].records)
        assert size and answers.statistics().used_bytes == ANSWER_COPIES * (2 * ANSWER_BYTES_MIN + size)
        stream.session.close()

    run(tmp_path, scenario, isr=(1, 2))


def test_an_answer_that_cannot_be_built_holds_no_memory(tmp_path: Path) -> None:
    async def scenario(partition: Partition, _: Fetcher) -> None:
        answers, memory = small_memory()
        stream = Fetcher(partition, memory)
        stream.ask(at(0))
        stream.hosted = ClosedCatalog()
        with pytest.raises(ValueError, match="closed"):
            stream.session.handle(Request("Fetch", NOTHING_NEW, stream, CALLER, NOW_NS), NOTHING_NEW)
        assert isinstance(stream.written[0].error, UnknownServerError), "the request that waited is answered, too"
        stream.session.close()
        assert answers.statistics().used_bytes == 0

    run(tmp_path, scenario)


def test_a_request_that_waits_for_records_holds_no_memory(tmp_path: Path) -> None:
    async def scenario(partition: Partition, _: Fetcher) -> None:
        answers, memory = small_memory()
        stream = Fetcher(partition, memory)
        stream.ask(at(0))
        assert not stream.answers and answers.statistics().used_bytes == 0
        stream.session.close()

    run(tmp_path, scenario)


def test_partitions_beyond_the_budget_of_sessions_are_refused_and_what_was_remembered_stays(tmp_path: Path) -> None:
    async def scenario(partition: Partition, _: Fetcher) -> None:
        _answers, memory = small_memory()
        stream = Fetcher(partition, memory)
        stream.ask(at(0))
        many = [FetchPartition(TopicPartition("other", n), "", 0) for n in range(5)]
        with pytest.raises(ResourceExhaustedError, match=r"fetch\.sessions\.max\.bytes"):
            stream.ask(*many)
        stream.ask(*many[:4])
        stream.session.close()
        assert memory.session.budget.statistics().used_bytes == 0

    run(tmp_path, scenario)
