"""Promises of ListOffsets: only what a consumer can read, by place or by time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from broker.apis.list_offsets import LONG_LOOK_UP_US, LOOK_UPS_OF_PARTY, REST, TIMEOUT_MS_DEFAULT, ListOffsetsApi
from broker.network.failed_requests import FailedRequests
from broker.network.io_threads import IoWork
from broker.network.request_channel import Caller, Request
from broker.replication.hosting.hosted_partitions import PartitionLookup
from broker.replication.leader.follower_fetch import note_follower_fetch
from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.leader.record_deletion import delete_below
from broker.replication.partition import Partition
from penstock.errors import (
    ApiError,
    FencedLeaderEpochError,
    InvalidRequestError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    RequestTimedOutError,
    UnknownLeaderEpochError,
)
from penstock.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsResult
from penstock.record.batch import HEADER_BYTES, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.throttled_lines import SAY_INTERVAL_MS
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, TopicPartition
from storage.segment.timestamp_lookup import RECORD_US
from tests.support.cold_fs import ColdFileSystem, cold_log
from tests.support.machine import NOW_NS
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, flush, make_partition, state
from tests.support.sinks import CALLER, Sink
from tests.support.stepped_io import SteppedIo
from tests.support.undecided_log import said_transactions
from tests.support.virtual_time import run_virtual

T = 1_700_000_000_000


def asked(
    partition: Partition, timestamp_ms: int, leader_epoch: int = -1, *, read_committed: bool = False
) -> ListOffsetsResult:
    question = ListOffsetsPartition(PARTITION, TOPIC_ID, timestamp_ms, leader_epoch)
    body = ListOffsetsRequest((question,), read_committed=read_committed)
    request = Request("ListOffsets", body, Sink(), CALLER, NOW_NS)
    replicas = cast(PartitionLookup, SimpleNamespace(get=lambda key, topic_id: partition))
    ListOffsetsApi(replicas, SteppedIo(), FailedRequests(pytest.fail).fail, lambda: 0).handle(request, body)
    (result,) = cast(ListOffsetsResponse, request.response).partitions
    return result


def found(partition: Partition, timestamp_ms: int) -> tuple[int, int]:
    result = asked(partition, timestamp_ms)
    assert result.error is None
    return result.offset, result.timestamp_ms


def found_committed(partition: Partition, timestamp_ms: int) -> tuple[int, int]:
    result = asked(partition, timestamp_ms, read_committed=True)
    assert result.error is None
    return result.offset, result.timestamp_ms


def produce(partition: Partition, *times_ms: int) -> None:
    for time_ms in times_ms:
        partition.append_as_leader(build_batch([b"v"], timestamps_ms=time_ms), 1, 0, T)


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """Offsets 0 to 3 are committed, 4 and 5 are not, and the largest time is not."""
    made = make_partition(tmp_path)
    made.become_leader(state(isr=(1, 2)), 0)
    produce(made, T + 10, T + 30, T + 20, T + 30, T + 50, T + 40)
    flush(made)
    note_follower_fetch(made, 2, 102, ReplicaPosition(4, 5, 0), 5, now_ms=1)
    assert made.high_watermark == 4
    return made


def test_earliest_and_latest_are_the_readable_bounds(partition: Partition) -> None:
    delete_below(partition, 1)
    assert found(partition, EARLIEST_TIMESTAMP) == (1, -1)
    assert found(partition, LATEST_TIMESTAMP) == (4, -1)


def test_the_largest_timestamp_is_of_what_can_be_read(partition: Partition) -> None:
    """Kafka answers 'none' here; an idle reader would take the topic for empty while somebody writes to it."""
    assert found(partition, MAX_TIMESTAMP) == (1, T + 30)
    delete_below(partition, 2)
    assert found(partition, MAX_TIMESTAMP) == (3, T + 30)
    delete_below(partition, 4)
    assert found(partition, MAX_TIMESTAMP) == (-1, -1)


def test_a_time_finds_the_first_readable_record_at_or_after_it(partition: Partition) -> None:
    assert found(partition, 0) == (0, T + 10)
    assert found(partition, T + 11) == (1, T + 30)
    assert found(partition, T + 31) == (-1, -1), "the record that is late enough is not committed"
    assert found(partition, T + 51) == (-1, -1)


def test_an_empty_log_has_bounds_and_no_times(tmp_path: Path) -> None:
    empty = make_partition(tmp_path)
    empty.become_leader(state(isr=(1,)), 0)
    assert found(empty, EARLIEST_TIMESTAMP) == found(empty, LATEST_TIMESTAMP) == (0, -1)
    assert found(empty, MAX_TIMESTAMP) == found(empty, 0) == (-1, -1)


@pytest.mark.parametrize("timestamp_ms", [-4, -100, -(2**62)])
def test_a_negative_time_that_is_no_sentinel_is_refused(partition: Partition, timestamp_ms: int) -> None:
    assert isinstance(asked(partition, timestamp_ms).error, InvalidRequestError)


@pytest.mark.parametrize(("leader_epoch", "error"), [(4, FencedLeaderEpochError), (6, UnknownLeaderEpochError)])
def test_epochs_are_told_apart(partition: Partition, leader_epoch: int, error: type[ApiError]) -> None:
    assert isinstance(asked(partition, LATEST_TIMESTAMP, leader_epoch).error, error)


def test_who_does_not_lead_says_so_and_who_leads_anew_may_not_know_yet(partition: Partition) -> None:
    partition.become_leader(state(leader_epoch=6), 0)
    assert isinstance(asked(partition, MAX_TIMESTAMP).error, OffsetNotAvailableError)
    assert found(partition, EARLIEST_TIMESTAMP) == (0, -1)
    partition.become_follower(state(leader_id=2, leader_epoch=7), NOBODY)
    assert isinstance(asked(partition, LATEST_TIMESTAMP).error, NotLeaderOrFollowerError)


class ColdBroker:
    """Partitions of which the page cache holds nothing, each in the log dir given."""

    def __init__(self, *log_dirs: str) -> None:
        self.fs, self.io, self.now_ms = ColdFileSystem(), SteppedIo(), 0
        replicas = cast(PartitionLookup, SimpleNamespace(get=lambda key, topic_id: self.partitions[key]))
        self.api = ListOffsetsApi(replicas, self.io, FailedRequests(pytest.fail).fail, lambda: self.now_ms)
        for log_dir in set(log_dirs):
            self.fs.mkdir(log_dir)
        self.partitions = {}
        for number, log_dir in enumerate(log_dirs):
            key = TopicPartition("t", number)
            made = self.partitions[key] = Partition(1, cold_log(self.fs, key, log_dir), 0, 1)
            made.become_leader(state(isr=(1,)), 0)
            produce(made, T + 10, T + 30, T + 20)
            flush(made)
        self.fs.go_cold()

    def ask(
        self, *wanted: tuple[int, int], timeout_ms: int = 0, is_given_up: bool = False, caller: Caller = CALLER
    ) -> Request:
        """Each is a partition and a time."""
        parts = (ListOffsetsPartition(TopicPartition("t", number), TOPIC_ID, time_ms, -1) for number, time_ms in wanted)
        body = ListOffsetsRequest(tuple(parts), timeout_ms=timeout_ms)
        request = Request("ListOffsets", body, Sink(), caller, NOW_NS)
        if is_given_up:
            request.abandoned()
        self.api.handle(request, body)
        return request


def results(request: Request) -> list[ListOffsetsResult]:
    return list(cast(ListOffsetsResponse, request.response).partitions)


def test_a_look_up_that_must_ask_the_disk_goes_on_in_a_thread() -> None:
    async def main() -> None:
        broker = ColdBroker("/d")
        request = broker.ask((0, T + 11), (0, EARLIEST_TIMESTAMP), (0, MAX_TIMESTAMP))
        assert not request.is_complete and broker.io.step(broker.fs.go_cold) is IoWork.LOOK_UP
        assert not request.is_complete and broker.io.step() is IoWork.LOOK_UP
        assert [result.offset for result in results(request)] == [1, 0, 1]
        assert set(broker.fs.waited) == {"io"}

    run_virtual(main())


def test_a_look_up_is_answered_as_the_partition_stands_when_the_disk_has_answered() -> None:
    async def main() -> None:
        broker = ColdBroker("/d")
        request = broker.ask((0, T))
        (cold,) = broker.partitions.values()
        broker.io.step(lambda: cold.become_follower(state(leader_id=2, leader_epoch=6), NOBODY))
        (result,) = results(request)
        assert isinstance(result.error, NotLeaderOrFollowerError)

    run_virtual(main())


@pytest.mark.parametrize(("timeout_ms", "waits_ms"), [(0, TIMEOUT_MS_DEFAULT * 2 // 3), (30_000, 20_000)])
def test_a_disk_that_hangs_keeps_no_other_offset_from_the_client(timeout_ms: int, waits_ms: int) -> None:
    async def main() -> None:
        broker = ColdBroker("/d", "/d", "/d")
        asked = (0, T + 11), (1, T + 11), (2, EARLIEST_TIMESTAMP), (2, T + 11)
        request = broker.ask(*asked, timeout_ms=timeout_ms)
        broker.io.step()
        await asyncio.sleep((waits_ms - 1) / 1000)
        assert not request.is_complete
        await asyncio.sleep(2 / 1000)
        found = results(request)
        assert [result.offset for result in found] == [1, -1, 0, -1]
        assert [type(result.error) for result in found if result.error] == [RequestTimedOutError] * 2
        assert "the disk of /d has not answered" in str(found[1].error)
        broker.io.step()  # too late
        assert len(found) == 4 and not broker.io.queue

    run_virtual(main())


def test_a_disk_that_hangs_keeps_nothing_of_another_disk_from_the_client() -> None:
    async def main() -> None:
        broker = ColdBroker("/hangs", "/works", "/works", "/hangs")
        request = broker.ask((0, T + 11), (1, T + 11), (2, T + 11), (3, EARLIEST_TIMESTAMP), (3, T + 11))
        assert [log_dir for log_dir, *_ in broker.io.queue] == ["/hangs", "/works"], "one at a time in each"
        hung = broker.io.queue.pop(0)
        broker.io.step()
        broker.io.step()
        assert not request.is_complete and not broker.io.queue
        await asyncio.sleep(TIMEOUT_MS_DEFAULT / 1000)
        found = results(request)
        assert [result.offset for result in found] == [-1, 1, 1, 0, -1]
        assert [index for index, result in enumerate(found) if result.error] == [0, 4]
        broker.io.queue.append(hung)
        broker.io.step()  # too late
        assert results(request) == found and not broker.io.queue

    run_virtual(main())


def test_no_disk_is_asked_any_more_for_a_request_that_nobody_waits_for() -> None:
    async def main() -> None:
        broker = ColdBroker("/d", "/d")
        request = broker.ask((0, T + 11), (1, T + 11))
        request.abandoned()
        broker.io.step()
        assert not broker.io.queue
        await asyncio.sleep(TIMEOUT_MS_DEFAULT / 1000)
        assert not request.is_complete and not broker.io.queue

    run_virtual(main())


def test_a_request_that_was_given_up_while_it_was_queued_asks_no_disk() -> None:
    async def main() -> None:
        broker = ColdBroker("/d")
        request = broker.ask((0, T + 11), is_given_up=True)
        assert not broker.io.queue and not request.is_complete

    run_virtual(main())


def test_a_reader_of_committed_records_finds_nothing_behind_the_last_stable_offset(partition: Partition) -> None:
    said_transactions(partition).undecided[2] = 5
    assert found_committed(partition, EARLIEST_TIMESTAMP) == (0, -1)
    assert found_committed(partition, LATEST_TIMESTAMP) == (2, -1)
    assert found_committed(partition, MAX_TIMESTAMP) == (1, T + 30)
    assert found_committed(partition, T + 15) == (1, T + 30)
    assert found_committed(partition, T + 31) == (-1, -1)
    assert found(partition, LATEST_TIMESTAMP) == (4, -1)


def test_the_last_stable_offset_is_not_below_the_log_start(partition: Partition) -> None:
    """A deletion went past the begin of the transaction: a reader that seeks there must find itself in the log."""
    said_transactions(partition).undecided[1] = 5
    delete_below(partition, 3)
    assert found_committed(partition, EARLIEST_TIMESTAMP) == found_committed(partition, LATEST_TIMESTAMP) == (3, -1)


def test_a_time_that_only_an_undecided_record_has_is_not_found(partition: Partition) -> None:
    said_transactions(partition).undecided[1] = 5
    assert found_committed(partition, T + 15) == (-1, -1)
    assert found_committed(partition, MAX_TIMESTAMP) == (0, T + 10)


def test_a_party_has_few_look_ups_at_work_and_another_one_waits_for_none_of_the_others() -> None:
    async def main() -> None:
        broker = ColdBroker("/d")
        many = [broker.ask((0, T + 11)) for _ in range(LOOK_UPS_OF_PARTY + 3)]
        assert len(broker.io.queue) == LOOK_UPS_OF_PARTY
        gone = many[LOOK_UPS_OF_PARTY]
        gone.abandoned()
        other = broker.ask((0, T + 11), caller=CALLER._replace(principal="User:other"))
        assert len(broker.io.queue) == LOOK_UPS_OF_PARTY + 1
        while broker.io.queue:
            broker.io.step(broker.fs.go_cold)
        assert all(request.is_complete for request in (*many, other) if request is not gone)
        assert {result.offset for request in (many[-1], other) for result in results(request)} == {1}

    run_virtual(main())


def test_after_a_long_look_up_its_party_rests_and_no_other() -> None:
    async def main() -> None:
        broker = ColdBroker("/d")
        (made,) = broker.partitions.values()
        made.log.update_config(replace(made.log.config, record_validation="headers", segment_bytes=1 << 20))
        records = 2 * LONG_LOOK_UP_US // RECORD_US
        vain = build_batch([b""] * records, timestamps_ms=T)
        promising = pack_batch(read_header(vain)._replace(max_timestamp_ms=T + 60), vain[HEADER_BYTES:])
        made.append_as_leader(promising, 1, 0, T)
        flush(made)
        long, after = broker.ask((0, T + 50), timeout_ms=60_000), broker.ask((0, T + 50), timeout_ms=60_000)
        broker.io.step()
        assert long.is_complete and not broker.io.queue, "its answer waits for no rest, and the next one does"
        other = broker.ask((0, T + 50), caller=CALLER._replace(principal="User:other"))
        broker.io.step()
        assert other.is_complete
        rest_s = REST * LONG_LOOK_UP_US / 1e6
        await asyncio.sleep(rest_s - 0.01)
        assert not broker.io.queue
        await asyncio.sleep(0.02)
        broker.io.step()
        assert [result.offset for result in results(after)] == [-1]

    run_virtual(main())


def test_a_look_up_whose_turn_does_not_come_in_time_is_told_so_and_its_turn_goes_to_the_next() -> None:
    async def main() -> None:
        broker = ColdBroker("/d")
        for _ in range(LOOK_UPS_OF_PARTY):
            broker.ask((0, T + 11), timeout_ms=60_000)
        late = broker.ask((0, T + 11))
        await asyncio.sleep(TIMEOUT_MS_DEFAULT / 1000)
        (result,) = results(late)
        assert isinstance(result.error, RequestTimedOutError) and "too many other look-ups" in str(result.error)
        next_one = broker.ask((0, T + 11))
        while broker.io.queue:
            broker.io.step()
        assert [result.offset for result in results(next_one)] == [1]

    run_virtual(main())


def test_batches_that_no_look_up_can_decode_write_one_line_for_a_partition_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        broker = ColdBroker("/d")
        (made,) = broker.partitions.values()
        made.log.update_config(replace(made.log.config, record_validation="headers"))
        junk = pack_batch(read_header(build_batch([b"v"], timestamps_ms=T + 100)), b"\xff" * 30)
        for _ in range(40):
            made.append_as_leader(junk, 1, 0, T)
        flush(made)
        for count, now_ms in ((1, 0), (1, SAY_INTERVAL_MS - 1), (2, SAY_INTERVAL_MS)):
            broker.now_ms = now_ms
            request = broker.ask((0, T + 50))
            while broker.io.queue:
                broker.io.step()
            assert request.is_complete
            assert len(caplog.records) == count and "cannot be decoded" in caplog.text
        assert "(1 more times since the last such line)" in caplog.text

    run_virtual(main())
