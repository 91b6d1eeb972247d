"""Promises of a fetch session whose answers may be lost: records and errors are told until the fetcher moves on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

from broker.apis.fetch_sessions.session_partitions import SESSION_PARTITION_BYTES
from broker.network.memory_budget import MemoryBudget
from broker.replication.leader.record_deletion import delete_below
from broker.replication.partition import Partition
from penstock.errors import (
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    ResourceExhaustedError,
    UnknownTopicIdError,
)
from penstock.messages.fetch import FetchPartition
from penstock.types import EpochEndOffset, TopicPartition
from tests.support.fetchers import Fetcher, at, produce, run
from tests.support.memory import unlimited
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, flush, make_log, state

OTHER = TopicPartition(PARTITION.topic, PARTITION.partition + 1)
NOWHERE = TopicPartition("nowhere", 0)


def other_partition(path: Path, fetcher: Fetcher) -> Partition:
    """A second partition that this node leads."""
    other = Partition(1, make_log(path / "other", partition=OTHER), 0, 1)
    other.become_leader(replace(state(isr=(1,)), partition=OTHER.partition), 0)
    fetcher.hosted[OTHER] = other
    return other


def of(partition: TopicPartition, offset: int = 0, max_bytes: int = 1 << 20) -> FetchPartition:
    return FetchPartition(partition, TOPIC_ID, offset, -1, max_bytes=max_bytes)


def answered(fetcher: Fetcher) -> list[tuple[TopicPartition, int]]:
    """The partitions of the last answer, and how many bytes of records each has."""
    return [(result.partition, len(result.records)) for result in fetcher.answers[-1].partitions]


lasting = partial(run, is_stream=False)


def test_records_are_sent_again_until_the_fetcher_asks_for_the_next_ones(tmp_path: Path) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        produce(partition, b"a")
        flush(partition)
        fetcher.ask(at(0))
        fetcher.ask()
        first, again = (answer.partitions[0].records for answer in fetcher.answers)
        assert first and again == first
        fetcher.ask(at(1), wait_ms=0)
        assert fetcher.answers[2].partitions == []

    lasting(tmp_path, scenario)


def test_an_error_is_told_in_every_answer_and_ends_only_the_first_wait(tmp_path: Path) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        fetcher.ask(at(99))
        fetcher.ask(wait_ms=0)
        assert [type(answer.partitions[0].error) for answer in fetcher.answers] == [OffsetOutOfRangeError] * 2
        fetcher.ask()
        assert len(fetcher.answers) == 2, "the fetcher knows it already"
        assert [wanted.fetch_offset for wanted in fetcher.session.partitions.in_trouble()] == [99]

    lasting(tmp_path, scenario)


def test_another_error_ends_the_wait_and_the_end_of_an_error_is_news(tmp_path: Path) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        fetcher.ask(at(99, epoch=-1))
        fetcher.ask()
        partition.become_follower(state(leader_id=2, leader_epoch=6), NOBODY)
        await asyncio.sleep(0)
        assert isinstance(fetcher.answers[1].partitions[0].error, NotLeaderOrFollowerError)
        partition.become_leader(state(leader_epoch=7), 0)
        fetcher.ask(at(0, epoch=-1), wait_ms=0)
        assert fetcher.answers[2].partitions[0].error is None

    lasting(tmp_path, scenario)


def test_a_partition_that_comes_to_this_node_is_found_without_another_word(tmp_path: Path) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        fetcher.ask(of(OTHER))
        assert isinstance(fetcher.answers[0].partitions[0].error, UnknownTopicIdError)
        produce(other_partition(tmp_path, fetcher), b"a")
        flush(fetcher.hosted[OTHER])
        fetcher.ask()
        assert fetcher.answers[1].partitions[0].records and not fetcher.session.partitions.in_trouble()

    lasting(tmp_path, scenario)


def test_a_diverging_position_is_told_again(tmp_path: Path) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        produce(partition, b"a", b"b")
        flush(partition)
        fetcher.ask(at(2, last_epoch=4))
        fetcher.ask(wait_ms=0)
        assert [answer.partitions[0].diverging_epoch for answer in fetcher.answers] == [EpochEndOffset(4, 0)] * 2

    lasting(tmp_path, scenario)


def test_news_without_records_are_in_the_next_answer(tmp_path: Path) -> None:
    """News are of the high watermark, and of the log start."""

    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        produce(partition, b"a", b"b")
        fetcher.ask(at(2), wait_ms=0)
        flush(partition)
        fetcher.ask(wait_ms=0)
        delete_below(partition, 1)
        fetcher.ask(wait_ms=0)
        fetcher.ask(wait_ms=0)
        bounds = [[(r.log_start_offset, r.high_watermark) for r in answer.partitions] for answer in fetcher.answers]
        assert bounds == [[(0, 0)], [(0, 2)], [(1, 2)], []]

    lasting(tmp_path, scenario)


def test_a_request_behind_one_that_waits_has_its_turn_after_it(tmp_path: Path) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        first = fetcher.ask(at(0))
        second = fetcher.ask(of(NOWHERE))
        third = fetcher.ask(wait_ms=0)
        assert not fetcher.written
        produce(partition, b"a")
        flush(partition)
        for _ in range(3):
            await asyncio.sleep(0)
        assert fetcher.written == [first, second, third]
        assert answered(fetcher)[-1] == (NOWHERE, 0)

    lasting(tmp_path, scenario)


def test_a_request_whose_turn_fails_holds_up_none_behind_it(tmp_path: Path) -> None:
    async def scenario(partition: Partition, _: Fetcher) -> None:
        memory = replace(unlimited(), session=MemoryBudget(2 * SESSION_PARTITION_BYTES, 1).open("a"))
        fetcher = Fetcher(partition, memory, is_stream=False)
        fetcher.ask(at(0))
        fetcher.ask(*(of(TopicPartition("more", n)) for n in range(3)))
        fetcher.ask(wait_ms=0)
        produce(partition, b"a")
        flush(partition)
        for _n in range(3):
            await asyncio.sleep(0)
        assert isinstance(fetcher.written[1].error, ResourceExhaustedError)
        assert answered(fetcher)[0][0] == PARTITION
        fetcher.session.close()

    lasting(tmp_path, scenario)


def test_a_request_whose_connection_is_gone_does_not_hold_up_the_session(tmp_path: Path) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        fetcher.ask(at(0)).abandoned()
        fetcher.ask(wait_ms=0)
        assert len(fetcher.answers) == 1

    lasting(tmp_path, scenario)


def test_a_full_request_is_answered_with_all_its_partitions_in_its_order(tmp_path: Path) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        other = other_partition(tmp_path, fetcher)
        produce(partition, b"a")
        flush(partition)
        fetcher.ask(of(NOWHERE), of(OTHER), of(PARTITION), is_full=True)
        assert [key for key, _ in answered(fetcher)] == [NOWHERE, OTHER, PARTITION]
        fetcher.ask(of(PARTITION, 1), of(OTHER), wait_ms=0, is_full=True)
        assert answered(fetcher) == [(PARTITION, 0), (OTHER, 0)]
        assert [result.high_watermark for result in fetcher.answers[1].partitions] == [1, 0]
        fetcher.ask(of(OTHER), is_full=True)
        produce(other, b"b")
        flush(other)
        await asyncio.sleep(0)
        assert [key for key, size in answered(fetcher) if size] == [OTHER]
        assert not partition.watchers, "it left the session"

    lasting(tmp_path, scenario)


def test_a_full_request_serves_first_what_it_names_first(tmp_path: Path) -> None:
    """The fetcher rotates its partitions itself."""

    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        other = other_partition(tmp_path, fetcher)
        for source in (partition, other):
            produce(source, b"x" * 1000)
            flush(source)
        for order in ((OTHER, PARTITION), (PARTITION, OTHER)):
            fetcher.ask(*map(of, order), is_full=True, max_bytes=10)
            assert [(key, size > 0) for key, size in answered(fetcher)] == [(order[0], True), (order[1], False)]

    lasting(tmp_path, scenario)


def test_only_the_first_records_of_an_answer_may_exceed_a_limit(tmp_path: Path) -> None:
    """KIP-74: of the whole, and of a partition. What was left out is first in the next answer."""

    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        other = other_partition(tmp_path, fetcher)
        produce(partition, b"small")
        produce(other, b"x" * 5000)
        for source in (partition, other):
            flush(source)
        fetcher.ask(of(PARTITION), of(OTHER, max_bytes=100), min_bytes=1 << 20)
        assert [key for key, _ in answered(fetcher)] == [PARTITION], "an answer without room for more does not wait"
        fetcher.ask(wait_ms=0)
        assert answered(fetcher)[0][0] == OTHER and answered(fetcher)[0][1] > 5000

    lasting(tmp_path, scenario)


def test_an_error_of_a_partition_for_which_there_is_no_room_is_told_in_a_full_answer(tmp_path: Path) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        other_partition(tmp_path, fetcher)
        produce(partition, b"x" * 1000)
        flush(partition)
        fetcher.ask(of(PARTITION), of(OTHER, 7), is_full=True, max_bytes=10)
        errors = [type(result.error) for result in fetcher.answers[0].partitions]
        assert errors == [type(None), OffsetOutOfRangeError]

    lasting(tmp_path, scenario)


def test_a_full_answer_tells_what_is_so_now_of_partitions_without_records(tmp_path: Path) -> None:
    """Their high watermarks and log starts, and an error that comes and goes without a word to their watchers."""

    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        def bounds() -> tuple[int, int]:
            fetcher.ask(of(PARTITION, 2), wait_ms=0, is_full=True)
            (result,) = fetcher.answers[-1].partitions
            return (-1, -1) if result.error is not None else (result.log_start_offset, result.high_watermark)

        produce(partition, b"a", b"b")
        assert [bounds(), bounds()] == [(0, 0), (0, 0)]
        flush(partition)
        assert [bounds(), bounds()] == [(0, 2), (0, 2)]
        delete_below(partition, 1)
        assert [bounds(), bounds()] == [(1, 2), (1, 2)]
        partition.become_follower(state(leader_id=2, leader_epoch=6), NOBODY)
        assert [bounds(), bounds()] == [(-1, -1), (-1, -1)]
        partition.become_leader(state(leader_epoch=7, isr=(1,)), 0)
        partition.hold(KafkaStorageError("it is moved"))
        assert [bounds(), bounds()] == [(-1, -1), (-1, -1)]
        partition.release()
        assert [bounds(), bounds()] == [(1, 2), (1, 2)]

    lasting(tmp_path, scenario)


def test_a_partition_goes_when_the_fetcher_forgets_it(tmp_path: Path) -> None:
    async def scenario(partition: Partition, fetcher: Fetcher) -> None:
        fetcher.ask(at(0), of(NOWHERE), wait_ms=0)
        assert len(fetcher.session.partitions) == 2
        fetcher.ask(forgotten=[PARTITION, NOWHERE], wait_ms=0)
        assert len(fetcher.session.partitions) == 0 and not partition.watchers
        assert not list(fetcher.session.partitions.wanted())

    lasting(tmp_path, scenario)
