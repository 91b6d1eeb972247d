"""Promises of what a follower does to its log when the fetcher's core has decided."""

from __future__ import annotations

import asyncio
import errno
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from broker.replication.durability import Durability
from broker.replication.follower.effect_runner import perform
from broker.replication.follower.fetcher_config import FetcherConfig
from broker.replication.follower.fetcher_core import FetcherCore
from broker.replication.follower.fetcher_driver import ReplicaFetcher
from broker.replication.follower.fetcher_ports import FetcherNode, ReplicaFetchStream
from broker.replication.follower.fetcher_values import AdvanceLogStart, Append, FetchState, StartOver, Truncate
from broker.replication.follower.follower_log import append_as_follower
from broker.replication.leader.log_start_commit import LogStartCommit
from broker.replication.partition import Partition
from penstock.clock import ManualClock
from penstock.errors import CorruptMessageError, NetworkError
from penstock.messages.fetch import FetchRequest, FetchResponse, PartitionFetchResult
from penstock.record.builder import build_batch
from penstock.types import EpochEndOffset, TopicPartition
from storage.log.group_commit import GroupCommit
from storage.log_config import LogConfig
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.leader_stream import LeaderStream, until
from tests.support.machine import THREADS, stop_wait
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, batch, flush, make_log, make_partition, state
from tests.support.virtual_time import run_virtual, virtual_clock


def test_a_log_that_starts_above_the_leaders_end_starts_over_there(tmp_path: Path) -> None:
    """After an unclean election; else the follower would ask for its own start for ever, and be sent back each time."""
    partition = make_partition(tmp_path, broker_id=2)
    partition.become_follower(state(), NOBODY)
    perform(StartOver(PARTITION, 500), partition)
    perform(Truncate(PARTITION, EpochEndOffset(-1, 400)), partition)
    log = partition.log
    assert (log.log_start_offset, log.log_end_offset, partition.high_watermark) == (400, 400, 400)


@pytest.mark.parametrize(("leader_log_start", "left"), [(15, (15, 15)), (14, (0, 15))])
def test_what_a_leader_deleted_is_not_kept_where_histories_diverge(
    tmp_path: Path, leader_log_start: int, left: tuple[int, int]
) -> None:
    """A leader that has deleted everything below its first epoch answers with where that begins, whatever was there."""
    partition = make_partition(tmp_path, broker_id=2)
    partition.become_follower(state(), NOBODY)
    for first in range(0, 20, 5):
        records = build_batch([b"v"] * 5, timestamps_ms=0, base_offset=first, leader_epoch=6)
        append_as_follower(partition, records)
    perform(Truncate(PARTITION, EpochEndOffset(6, 15), leader_log_start), partition)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == left


class OneAnswerStream:
    """Gives this result to the first request, nothing to later ones, and keeps what it is asked."""

    def __init__(self, result: PartitionFetchResult) -> None:
        self.result = result
        self.asked: list[FetchRequest] = []
        self._number = 0
        self.asked_again = asyncio.Event()

    def send(self, correlation_id: int, request: FetchRequest) -> None:
        self.asked.append(request)
        self._number = correlation_id
        if len(self.asked) == 2:
            self.asked_again.set()

    async def receive(self) -> tuple[int, FetchResponse]:
        if len(self.asked) > 1:
            await asyncio.Event().wait()
        return self._number, FetchResponse([self.result])

    def cancel(self) -> None:
        """Nothing is open."""


def test_records_that_came_spoilt_are_asked_for_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        partition = make_partition(tmp_path, broker_id=2)
        partition.become_follower(state(), NOBODY)
        stream = OneAnswerStream(PartitionFetchResult(PARTITION, TOPIC_ID, 0, high_watermark=1, records=b"\xff" * 70))
        node = SimpleNamespace(broker_epoch=102, find=lambda key: partition)
        fetcher = ReplicaFetcher(
            "1-0",
            FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 0),
            ManualClock(),
            Random(0),
            lambda: stream,
            cast(FetcherNode, node),
            pytest.fail,
        )
        fetcher.add(partition, 5)
        async with asyncio.timeout(10):
            await stream.asked_again.wait()
        assert [wanted.fetch_offset for wanted in stream.asked[1].partitions] == [0]
        await fetcher.stop()

    asyncio.run(scenario())


def test_a_follower_deletes_no_more_than_it_knows_to_be_committed(tmp_path: Path) -> None:
    partition = make_partition(tmp_path, broker_id=2)
    partition.become_follower(state(), NOBODY)
    perform(Append(PARTITION, batch(b"a", b"b", b"c"), 2), partition)
    perform(AdvanceLogStart(PARTITION, 3), partition)
    assert partition.log.log_start_offset == 2
    perform(AdvanceLogStart(PARTITION, 1), partition)
    assert partition.log.log_start_offset == 2, "a log start never goes back"


def test_a_log_that_starts_over_inside_a_batch_takes_it_whole(tmp_path: Path) -> None:
    """A deletion ended inside the leader's first batch; else the follower would ask for it for ever."""
    partition = make_partition(tmp_path, broker_id=2)
    partition.become_follower(state(), NOBODY)
    perform(StartOver(PARTITION, 501), partition)
    first = build_batch([b"a", b"b", b"c"], timestamps_ms=1_700_000_000_000, base_offset=500, leader_epoch=5)
    assert perform(Append(PARTITION, first, 503), partition) is True
    log = partition.log
    assert (log.segments[0].base_offset, log.log_start_offset, log.log_end_offset) == (500, 501, 503)
    assert partition.high_watermark == 503
    following = build_batch([b"d"], timestamps_ms=1_700_000_000_000, base_offset=503, leader_epoch=5)
    assert perform(Append(PARTITION, following, 503), partition) is False


def test_a_log_of_another_history_that_was_cut_inside_the_leaders_first_batch_takes_it_whole(tmp_path: Path) -> None:
    """Deleted records cannot be compared: a batch of the other history may end where the leader's log starts."""
    partition = make_partition(tmp_path, broker_id=2)
    partition.become_follower(state(), NOBODY)
    perform(Append(PARTITION, batch(b"x", b"y"), 0), partition)
    first = build_batch([b"a", b"b", b"c"], timestamps_ms=1_700_000_000_000, leader_epoch=5)
    with pytest.raises(CorruptMessageError):
        perform(Append(PARTITION, first, 3, 1), partition)  # offset 1 is not deleted: that would be another history
    assert perform(Append(PARTITION, first, 3, 2), partition) is True
    assert (partition.log.log_start_offset, partition.log.log_end_offset, partition.high_watermark) == (2, 3, 3)


@pytest.mark.parametrize(("begins_anew_at", "reported"), [(None, 2), (1, 1)])
def test_a_follower_reports_its_log_start_as_soon_as_it_is_durable_and_not_before(
    tmp_path: Path, begins_anew_at: int | None, reported: int
) -> None:
    """A checkpoint that was on its way says nothing of a log that has begun anew meanwhile."""

    async def scenario() -> None:
        partition = make_partition(tmp_path, broker_id=2)
        partition.become_follower(state(), NOBODY)
        perform(Append(PARTITION, batch(b"a", b"b", b"c"), 3), partition)
        partition.log.flush()
        deleted = PartitionFetchResult(PARTITION, TOPIC_ID, 3, high_watermark=3, log_start_offset=2)
        stream, waiting = OneAnswerStream(deleted), []
        node = SimpleNamespace(
            broker_epoch=102,
            find=lambda key: partition,
            make_log_start_durable=lambda partition, done: waiting.append((partition.log.written_start.note(), done)),
        )
        fetcher = ReplicaFetcher(
            "1-0",
            FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 0),
            ManualClock(),
            Random(0),
            lambda: stream,
            cast(FetcherNode, node),
            pytest.fail,
        )
        fetcher.add(partition, 5)
        async with asyncio.timeout(10):
            await stream.asked_again.wait()
            assert partition.log.log_start_offset == 2
            assert stream.asked[1].partitions == [], "its checkpoint is not written"
            ((is_durable, written),) = waiting
            if begins_anew_at is not None:
                partition.log.truncate_fully_and_start_at(begins_anew_at)
            is_durable()
            written(None)
        assert [wanted.log_start_offset for wanted in stream.asked[2].partitions] == [reported]
        await fetcher.stop()

    asyncio.run(scenario())


def test_a_log_start_that_is_durable_is_reported_from_the_first_fetch_on_whenever_it_is_followed_again(
    tmp_path: Path,
) -> None:
    """Else the low watermark, which a deletion was told, would go back with each election and each move."""

    async def scenario() -> None:
        partition = make_partition(tmp_path, broker_id=2)
        partition.become_follower(state(), NOBODY)
        perform(Append(PARTITION, batch(b"a", b"b", b"c"), 3), partition)
        partition.log.flush()
        perform(AdvanceLogStart(PARTITION, 2), partition)
        log_starts = LogStartCommit(lambda log_dir: None, THREADS.executor("log-starts", 1))
        durability = Durability(GroupCommit(lambda log_dir, error: None, THREADS), log_starts, lambda partition: False)
        node = SimpleNamespace(
            broker_epoch=102, find=lambda key: partition, make_log_start_durable=durability.make_log_start_durable
        )

        async def first_reported() -> int:
            stream = OneAnswerStream(PartitionFetchResult(PARTITION, TOPIC_ID, 3, high_watermark=3, log_start_offset=2))
            fetcher = ReplicaFetcher(
                "1-0",
                FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 0),
                ManualClock(),
                Random(0),
                lambda: stream,
                cast(FetcherNode, node),
                pytest.fail,
            )
            fetcher.add(partition, 5)
            async with asyncio.timeout(10):
                await stream.asked_again.wait()
            await fetcher.stop()
            return stream.asked[0].partitions[0].log_start_offset

        assert await first_reported() == 0, "its checkpoint is not written"
        is_written = asyncio.Event()
        durability.make_log_start_durable(partition, lambda error: is_written.set())
        await is_written.wait()
        assert await first_reported() == 2
        await log_starts.close(stop_wait())

    asyncio.run(scenario())


def test_the_log_start_of_a_deleted_topic_is_not_reported_of_the_one_that_was_made_anew(tmp_path: Path) -> None:
    """Its checkpoint may be written late, and both topics are followed in epoch 5 by the same fetcher."""

    async def scenario() -> None:
        partition = make_partition(tmp_path / "old", broker_id=2)
        successor = make_partition(tmp_path / "new", broker_id=2)
        for either in (partition, successor):
            either.become_follower(state(), NOBODY)
        perform(Append(PARTITION, batch(b"a", b"b", b"c"), 3), partition)
        partition.log.flush()
        deleted = PartitionFetchResult(PARTITION, TOPIC_ID, 3, high_watermark=3, log_start_offset=2)
        stream, waiting = OneAnswerStream(deleted), []
        hosted = {PARTITION: partition}
        node = SimpleNamespace(
            broker_epoch=102,
            find=hosted.get,
            make_log_start_durable=lambda partition, done: waiting.append(done),
        )
        config = FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 0)
        fetcher = ReplicaFetcher(
            "1-0", config, ManualClock(), Random(0), lambda: stream, cast(FetcherNode, node), pytest.fail
        )
        fetcher.add(partition, 5)
        async with asyncio.timeout(10):
            await stream.asked_again.wait()
        fetcher.remove([PARTITION])
        hosted[PARTITION] = successor
        fetcher.add(successor, 5)
        (written,) = waiting
        written(None)
        asked = [*stream.asked[-1].partitions, *fetcher.core.next_turn(0).partitions]
        assert [(wanted.fetch_offset, wanted.log_start_offset) for wanted in asked] == [(0, 0)]
        await fetcher.stop()

    asyncio.run(scenario())


class SilentStream:
    """A source that hangs."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()

    def send(self, correlation_id: int, request: FetchRequest) -> None:
        self.asked.set()

    async def receive(self) -> tuple[int, FetchResponse]:
        await self.cancelled.wait()
        raise NetworkError("the stream was cancelled")

    def cancel(self) -> None:
        self.cancelled.set()


def test_a_source_that_hangs_is_left_when_nothing_is_followed_from_it_and_asked_at_once_when_it_leads_again(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        partition = make_partition(tmp_path, broker_id=2)
        partition.become_follower(state(), NOBODY)
        streams = (SilentStream(), SilentStream())
        unopened = iter(streams)
        node = SimpleNamespace(broker_epoch=102, find=lambda key: partition)
        config = FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 0)
        fetcher = ReplicaFetcher(
            "1-0", config, ManualClock(), Random(0), lambda: next(unopened), cast(FetcherNode, node), pytest.fail
        )
        fetcher.add(partition, 5)
        async with asyncio.timeout(10):
            await streams[0].asked.wait()
            fetcher.remove([PARTITION])
            fetcher.add(partition, 6)  # the same leader in a new epoch: the stream stays
            await asyncio.sleep(0)
            assert not streams[0].cancelled.is_set()
            fetcher.remove([PARTITION])
            await streams[0].cancelled.wait()
            fetcher.add(partition, 7)
            began_ms = virtual_clock().now_ms()
            await streams[1].asked.wait()
            assert virtual_clock().now_ms() == began_ms, "without a back-off"
        await fetcher.stop()

    run_virtual(scenario())


def test_a_log_dir_whose_flush_hangs_stalls_only_its_own_partitions(tmp_path: Path) -> None:
    here, there = PARTITION, TopicPartition("t", 1)
    leaders = {here: make_log(tmp_path / "leader"), there: make_log(tmp_path / "leader", partition=there)}
    followers = {key: Partition(2, make_log(tmp_path / str(key), partition=key), 0, 1) for key in leaders}
    hung: list[Partition] = []

    def produce() -> None:
        for log in leaders.values():
            log.append.as_leader(batch(b"value"), 5, 1_700_000_000_000)

    def request_flush(partition: Partition) -> None:
        if partition.topic_partition == there:
            hung.append(partition)
        else:
            asyncio.get_running_loop().call_soon(flush, partition)

    async def scenario() -> None:
        stream = LeaderStream(leaders)
        node = SimpleNamespace(broker_epoch=102, find=followers.get, request_flush=request_flush)
        config = FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 0)
        fetcher = ReplicaFetcher(
            "1-0", config, virtual_clock(), Random(0), lambda: stream, cast(FetcherNode, node), pytest.fail
        )

        async def reached(key: TopicPartition, offset: int) -> None:
            await until(lambda: stream.acked.get(key) == offset)

        for partition in followers.values():
            partition.become_follower(state(), NOBODY)
            fetcher.add(partition, 5)
        for offset in range(1, 6):
            produce()
            await reached(here, offset)
        assert stream.acked[there] == 0, "what is not on its disk is not acknowledged"
        assert (stream.sent[there], len(hung)) == (1, 1), "nor sent again and again"

        flush(hung[0])
        await until(lambda: len(hung) == 2)
        assert stream.acked[there] == 1
        flush(hung[1])
        await reached(there, 5)
        assert followers[there].log.reader.read(0, 1 << 20).records == leaders[there].reader.read(0, 1 << 20).records
        await fetcher.stop()

    run_virtual(scenario())


def test_a_stream_that_breaks_while_a_flush_is_under_way_asks_for_nothing_twice(tmp_path: Path) -> None:
    leader = make_log(tmp_path / "leader")
    leader.append.as_leader(batch(b"value"), 5, 1_700_000_000_000)
    follower = Partition(2, make_log(tmp_path / "follower"), 0, 1)
    follower.become_follower(state(), NOBODY)
    core = FetcherCore(5, 1 << 20)
    core.add(PARTITION, FetchState(TOPIC_ID, 5, 0, -1, 0))
    turn = core.next_turn(0)
    records = leader.reader.read(0, 1 << 20).records
    core.on_result(PartitionFetchResult(PARTITION, TOPIC_ID, 0, None, 1, 0, records), turn.number, 0)

    core.session_lost()
    assert core.next_turn(0).partitions == []
    core.appended(PARTITION, 5, 1, 5)
    assert [wanted.fetch_offset for wanted in core.next_turn(0).partitions] == [1]


def test_a_follower_that_found_no_room_in_the_middle_of_an_append_goes_on_where_it_was(tmp_path: Path) -> None:
    """The append spans a segment boundary, and there is no room for the second segment; later there is."""
    fs, small = FaultyFileSystem(), LogConfig(segment_bytes=400)
    leader = make_log(tmp_path / "leader")
    for _ in range(6):
        leader.append.as_leader(batch(b"x" * 100), 5, 1_700_000_000_000)
    follower = Partition(2, make_log(tmp_path / "follower", fs=fs, config=small), 0, 1)
    follower.become_follower(state(), NOBODY)

    async def scenario() -> None:
        stream = LeaderStream({PARTITION: leader})
        node = SimpleNamespace(
            broker_epoch=102,
            find=lambda key: follower,
            request_flush=lambda partition: asyncio.get_running_loop().call_soon(flush, partition),
        )
        config = FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 5)
        fetcher = ReplicaFetcher(
            "1-0", config, virtual_clock(), Random(0), lambda: stream, cast(FetcherNode, node), pytest.fail
        )
        with fs.failing("create", ".log", errno.ENOSPC) as fault:
            fetcher.add(follower, 5)
            await asyncio.sleep(1.1)
            assert fault.met > 1 and follower.log.log_end_offset == 0
        await until(lambda: stream.acked[PARTITION] == 6)
        assert len(follower.log.segments) > 1
        await fetcher.stop()

    run_virtual(scenario())


def test_a_source_that_is_gone_is_asked_less_and_less_often_and_not_by_all_fetchers_at_once(tmp_path: Path) -> None:
    def opened_ms(seed: int) -> list[int]:
        async def scenario() -> list[int]:
            follower = make_partition(tmp_path / str(seed), broker_id=2)
            follower.become_follower(state(), NOBODY)
            clock, times = virtual_clock(), list[int]()

            def broken() -> ReplicaFetchStream:
                times.append(clock.now_ms())
                raise NetworkError("nobody listens")

            config = FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 5)
            node = cast(FetcherNode, SimpleNamespace(broker_epoch=102, find=lambda key: follower))
            fetcher = ReplicaFetcher("1-0", config, clock, Random(seed), broken, node, pytest.fail)
            fetcher.add(follower, 5)
            await asyncio.sleep(10)
            await fetcher.stop()
            return times

        return run_virtual(scenario())

    one, other = opened_ms(1), opened_ms(2)
    for times in (one, other):
        fulls = [50, 100, 200, 400, 800] + [1_000] * len(times)
        waits = [later - earlier for earlier, later in pairwise(times)]
        assert len(waits) > 8
        assert all(full * 4 // 5 <= wait <= full + 1 for wait, full in zip(waits, fulls, strict=False))
    assert not set(one[1:]) & set(other[1:])
