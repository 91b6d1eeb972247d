"""Promises of a fetch session whose records are not in the page cache: the disk is asked in a thread, others are
answered meanwhile, and what was read is answered only if the partition would still give it."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from broker.apis.fetch_sessions.cold_fetches import READS_MAX
from broker.apis.fetch_sessions.fetch_session import (
    ANSWER_BYTES_MIN,
    ANSWER_COPIES,
    DISK_WAIT_MS,
    KEPT_MS,
    FetchSession,
    SessionMemory,
)
from broker.network.failed_requests import FailedRequests
from broker.network.memory_budget import MemoryBudget
from broker.network.request_channel import Request
from broker.node.parts.request_path import ANSWERS_STREAM_SHARE
from broker.replication.follower.follower_log import truncate_to
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import Partition, PartitionReports
from penstock.clock import ManualClock
from penstock.errors import KafkaStorageError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from penstock.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionFetchResult,
)
from penstock.record.batch import iter_headers
from penstock.types import TopicPartition
from storage.segment.transaction_index import AbortedRange
from tests.support.cold_fs import ColdFileSystem, cold_log
from tests.support.machine import NOW_NS
from tests.support.partitions import NOBODY, TOPIC_ID, batch, flush, state
from tests.support.readers import leaders_alone
from tests.support.sinks import CALLER
from tests.support.stepped_io import SteppedIo
from tests.support.undecided_log import said_transactions
from tests.support.virtual_time import run_virtual

WALL_MS = 1_700_000_000_000
LONG_WAIT_MS = 600_000
ANSWERS_BYTES_MAX = 1 << 30
MIB = 1 << 20
"""The least that queued.max.response.bytes can be."""


class Broker:
    """Partitions on a disk with a page cache, and one fetch stream."""

    def __init__(self, partitions: int, budget: MemoryBudget | None = None, *, is_stream: bool = True) -> None:
        self.fs = ColdFileSystem()
        self.looked_up: list[int] = []
        self.fs.mkdir("/d")
        self.partitions: dict[TopicPartition, Partition] = {}
        self.disk_errors: list[Exception] = []
        reports = PartitionReports(disk_error=lambda partition, error: self.disk_errors.append(error))
        for number in range(partitions):
            key = TopicPartition("t", number)
            made = self.partitions[key] = Partition(1, cold_log(self.fs, key), 0, 1, reports)
            made.become_leader(state(isr=(1,)), 0)
            for _ in range(10):
                self.produce(number)
        self.io = SteppedIo()
        self.answers: list[FetchResponse] = []
        self.requests: list[Request] = []
        self.budget = budget or MemoryBudget(ANSWERS_BYTES_MAX, 1)
        memory = SessionMemory(self.budget.open("test"), MemoryBudget(ANSWERS_BYTES_MAX, 1).open("test"))
        fail = FailedRequests(pytest.fail).fail
        self.throttle = MoveThrottle()
        self.session = FetchSession(
            self.get,
            ManualClock(),
            1 << 20,
            lambda *_: None,
            memory,
            fail,
            self.io,
            self.throttle,
            leaders_alone(),
            is_stream=is_stream,
        )

    def __getitem__(self, number: int) -> Partition:
        return self.partitions[TopicPartition("t", number)]

    def produce(self, number: int, value: bytes = bytes(500)) -> None:
        partition = self[number]
        partition.append_as_leader(batch(value), -1, 0, WALL_MS)
        flush(partition)

    def get(self, key: TopicPartition, topic_id: str) -> Partition:
        if key not in self.partitions:
            raise UnknownTopicOrPartitionError(f"no {key}")
        self.looked_up.append(key.partition)
        return self.partitions[key]

    def response_ready(self, request: Request) -> None:
        self.requests.append(request)
        assert isinstance(request.response, FetchResponse)
        self.answers.append(request.response)

    def ask(
        self,
        *wanted: FetchPartition,
        wait_ms: int = LONG_WAIT_MS,
        min_bytes: int = 1,
        replica_id: int = -1,
        read_committed: bool = False,
    ) -> None:
        body = FetchRequest(
            replica_id, -1, wait_ms, min_bytes, 1 << 20, list(wanted), [], read_committed=read_committed
        )
        self.session.handle(Request("Fetch", body, self, CALLER, NOW_NS), body)

    async def step(self, between: Callable[[], object] = lambda: None) -> None:
        self.io.step(between)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def at(number: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(TopicPartition("t", number), TOPIC_ID, offset, 5, -1)


def offsets(result: PartitionFetchResult) -> list[int]:
    return [header.base_offset for _, header in iter_headers(result.records)]


def sizes(answer: FetchResponse) -> dict[int, int]:
    """Batches of each partition in the answer."""
    return {result.partition.partition: len(offsets(result)) for result in answer.partitions}


def run(
    scenario: Callable[[Broker], Awaitable[None]],
    partitions: int = 1,
    budget: MemoryBudget | None = None,
    *,
    is_stream: bool = True,
) -> None:
    async def main() -> None:
        broker = Broker(partitions, budget, is_stream=is_stream)
        await scenario(broker)
        broker.session.close()
        while broker.io.queue:
            broker.io.step()
        for request in broker.requests:
            request.dropped()
        assert broker.budget.statistics().used_bytes == 0, "memory that nobody gives back"
        assert set(broker.fs.waited) <= {"io"}, "the event loop waited for the disk"

    run_virtual(main())


def test_a_cold_partition_is_read_in_a_thread_and_answered_then() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker.ask(at(0, 3))
        assert not broker.answers and len(broker.io.queue) == 1
        await broker.step()
        (answer,) = broker.answers
        assert offsets(answer.partitions[0]) == list(range(3, 10)) and broker.fs.waited == ["io"]

    run(scenario)


def test_a_cold_reader_of_committed_records_gets_no_undecided_ones_and_the_list_of_aborted_ones() -> None:
    async def scenario(broker: Broker) -> None:
        said = said_transactions(broker[0])
        said.undecided[7], said.ended = 2**60, [AbortedRange(1, 0, 2), AbortedRange(2, 4, 5), AbortedRange(3, 6, 9)]
        broker.fs.go_cold()
        broker.ask(at(0, 3), read_committed=True)
        await broker.step()
        (found,) = broker.answers[0].partitions
        assert offsets(found) == [3, 4, 5, 6] and broker.fs.waited == ["io"]
        assert list(found.aborted) == [AbortedTransaction(2, 4), AbortedTransaction(3, 6)]

    run(scenario)


def test_other_partitions_are_answered_while_one_is_read_from_the_disk() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker[1].log.reader.read(0, 1 << 20)
        broker.fs.waited.clear()
        broker.ask(at(0), at(1))
        assert sizes(broker.answers[0]) == {1: 10}
        broker.ask(at(1, 10))
        assert len(broker.answers) == 1
        await broker.step()
        assert sizes(broker.answers[1]) == {0: 10}

    run(scenario, partitions=2)


def test_a_consumer_that_does_not_wait_is_given_records_that_only_the_disk_has() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker.ask(at(0), wait_ms=0, min_bytes=10_000)
        assert not broker.answers
        await broker.step()
        assert [sizes(answer) for answer in broker.answers] == [{0: 10}]

    run(scenario)


def test_an_empty_answer_waits_for_a_disk_that_hangs_only_so_long() -> None:
    async def scenario(broker: Broker) -> None:
        for wait_ms, waited_ms in ((0, DISK_WAIT_MS), (300, 300 + DISK_WAIT_MS)):
            broker.fs.go_cold()
            broker.ask(at(0), wait_ms=wait_ms)
            await asyncio.sleep((waited_ms - 1) / 1000)
            assert not broker.answers
            await asyncio.sleep(2 / 1000)
            assert [sizes(answer) for answer in broker.answers] == [{}]
            broker.answers.clear()
        broker.ask(wait_ms=0)
        await broker.step()
        assert [sizes(answer) for answer in broker.answers] == [{0: 10}]

    run(scenario)


def test_a_request_that_follows_one_that_waits_for_the_disk_has_it_answered_at_once() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker.ask(at(0), wait_ms=0)
        broker.ask(wait_ms=0)
        assert [sizes(answer) for answer in broker.answers] == [{}]
        await broker.step()
        assert [sizes(answer) for answer in broker.answers] == [{}, {0: 10}] and broker.io.submitted == 1

    run(scenario)


def test_what_was_read_is_kept_until_there_is_enough_for_an_answer() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker.ask(at(0), at(1), min_bytes=10_000)
        await broker.step()
        assert not broker.answers
        broker.fs.go_cold()
        await broker.step()
        assert sizes(broker.answers[0]) == {0: 10, 1: 10} and broker.io.submitted == 2

    run(scenario, partitions=2)


def test_a_truncation_during_a_cold_read_leaves_nothing_of_the_old_history() -> None:
    async def scenario(broker: Broker) -> None:
        def truncate_and_lead_again() -> None:
            broker[0].become_follower(state(leader_id=2, leader_epoch=6), NOBODY)
            truncate_to(broker[0], 5)
            broker[0].become_leader(state(leader_epoch=7, isr=(1,)), 0)
            broker.produce(0, b"another history")

        broker.fs.go_cold()
        broker.ask(FetchPartition(TopicPartition("t", 0), TOPIC_ID, 0, -1, -1))
        await broker.step(truncate_and_lead_again)
        while broker.io.queue:
            await broker.step()
        records = b"".join(result.records for answer in broker.answers for result in answer.partitions)
        assert [header.leader_epoch for _, header in iter_headers(records)] == [5] * 5 + [7]

    run(scenario)


def test_a_role_change_during_a_cold_read_is_answered_at_once_and_nothing_that_was_read() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker.ask(at(0))
        broker[0].become_follower(state(leader_id=2, leader_epoch=5, partition_epoch=1), NOBODY)
        await asyncio.sleep(0)
        (result,) = broker.answers[0].partitions
        assert isinstance(result.error, NotLeaderOrFollowerError)
        await broker.step()
        assert len(broker.answers) == 1

    run(scenario)


def test_a_log_that_is_deleted_during_a_cold_read_is_answered_as_deleted() -> None:
    async def scenario(broker: Broker) -> None:
        def delete() -> None:
            partition = broker.partitions.pop(TopicPartition("t", 0))
            partition.stop(UnknownTopicOrPartitionError("deleted"))
            partition.log.abandon()

        broker.fs.go_cold()
        broker.ask(at(0))
        await broker.step(delete)
        (result,) = broker.answers[0].partitions
        assert isinstance(result.error, UnknownTopicOrPartitionError) and not result.records
        assert broker.disk_errors == [] and not broker.fs.descriptors

    run(scenario)


def test_a_connection_that_ends_during_a_cold_read_leaves_nothing_behind() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        descriptors = len(broker.fs.descriptors)
        broker.ask(at(0), at(1))
        broker.session.close()
        await broker.step()
        await broker.step()
        assert broker.answers == [] and broker.fs.waited == [] and len(broker.fs.descriptors) == descriptors

    run(scenario, partitions=2)


def test_an_error_of_the_disk_is_the_partitions_and_takes_the_way_of_every_disk_error() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker.fs.errors[".log"] = errno.EIO
        broker.ask(at(0))
        await broker.step()
        (result,) = broker.answers[0].partitions
        assert isinstance(result.error, KafkaStorageError) and "Input/output error" in str(result.error)
        (error,) = broker.disk_errors
        assert isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EIO

    run(scenario)


def test_a_fetcher_that_goes_elsewhere_is_not_given_what_it_wanted_before() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker.ask(at(0, 0), wait_ms=0)
        broker.ask(at(0, 7))
        await broker.step()
        await broker.step()
        assert [sizes(answer) for answer in broker.answers] == [{}, {0: 3}]
        assert offsets(broker.answers[1].partitions[0]) == [7, 8, 9]

    run(scenario)


def test_one_session_reads_only_so_many_partitions_at_a_time_and_all_in_the_end() -> None:
    many = 3 * READS_MAX

    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker.ask(*(at(number) for number in range(many)))
        assert len(broker.io.queue) == READS_MAX
        seen: dict[int, int] = {}
        for _ in range(2 * many):
            if broker.io.queue:
                assert len(broker.io.queue) <= READS_MAX
                await broker.step()
            if broker.answers:
                answer = broker.answers.pop()
                seen |= sizes(answer)
                broker.ask(*(at(number, 10) for number in sizes(answer)))
        assert seen == dict.fromkeys(range(many), 10)

    run(scenario, partitions=many)


def test_a_log_dir_that_hangs_keeps_no_session_from_reading_in_another() -> None:
    hung, good = range(READS_MAX + 2), range(READS_MAX + 2, 2 * READS_MAX + 6)

    async def scenario(broker: Broker) -> None:
        for number in good:
            broker[number].log.log_dir = "/good"
        broker.fs.go_cold()
        broker.ask(*(at(number) for number in (*hung, *good)))
        hanging = [work for work in broker.io.queue if work[0] != "/good"]
        assert len(hanging) == READS_MAX
        seen: dict[int, int] = {}
        for _ in good:
            broker.io.queue.sort(key=lambda work: work[0] != "/good")
            assert broker.io.queue[0][0] == "/good"
            await broker.step()
            answer = broker.answers.pop()
            seen |= sizes(answer)
            broker.ask(*(at(number, 10) for number in sizes(answer)))
        assert seen == dict.fromkeys(good, 10) and all(work in broker.io.queue for work in hanging)

    run(scenario, partitions=2 * READS_MAX + 6)


def test_partitions_that_wait_for_the_disk_cost_the_answers_of_others_nothing() -> None:
    many = 50

    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker[0].log.reader.read(0, 1 << 20)
        broker.fs.waited.clear()
        broker.ask(*(at(number) for number in range(many)))
        assert sizes(broker.answers[0]) == {0: 10}
        broker.looked_up.clear()
        broker.ask(at(0, 10))
        broker.produce(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sizes(broker.answers[1]) == {0: 1} and set(broker.looked_up) == {0}

    run(scenario, partitions=many)


def test_reads_that_wait_have_their_turn_when_the_one_before_them_is_not_needed_any_more() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker.io.queued_max = 0
        broker.ask(at(0), at(1), wait_ms=0)
        broker[0].high_watermark = 0  # as a new leader knows it
        broker.io.queued_max = 1
        broker.ask()
        await broker.io.wait_work()
        await broker.step()
        assert sizes(broker.answers[-1])[1] == 10

    run(scenario, partitions=2)


def test_the_smallest_budget_of_answers_lets_a_cold_partition_be_read() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker.ask(at(0))
        assert len(broker.io.queue) == 1
        await broker.step()
        assert sizes(broker.answers[0]) == {0: 10}

    run(scenario, budget=MemoryBudget(MIB, ANSWERS_STREAM_SHARE))


def test_a_session_that_holds_records_waits_for_no_memory_of_others() -> None:
    budget = MemoryBudget(MIB, 1)

    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker[1].log.reader.read(0, 1 << 20)
        broker.fs.waited.clear()
        broker.ask(at(0), at(1, 10))
        others = budget.open("other").take(2 * MIB)
        broker.session.partition_changed(TopicPartition("t", 1), True)
        await asyncio.sleep(0)
        assert not broker.answers and budget.statistics().waiting == 1
        await broker.step()
        assert sizes(broker.answers[0])[0] == 10 and budget.statistics().waiting == 0
        others.release()
        assert len(broker.answers) == 1

    run(scenario, partitions=2, budget=budget)


def test_requests_that_were_paused_together_are_all_answered_when_only_the_disk_has_their_records() -> None:
    budget = MemoryBudget(MIB, 1)

    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        others = budget.open("other").take(MIB)
        broker.ask(at(0))
        broker.ask()
        broker.ask()
        assert not broker.answers and budget.statistics().waiting == 1
        others.release()
        assert [sizes(answer) for answer in broker.answers] == [{}, {}]
        await broker.step()
        assert [sizes(answer) for answer in broker.answers] == [{}, {}, {0: 10}]

    run(scenario, budget=budget)


def test_a_session_that_ends_while_it_holds_records_and_waits_for_memory_leaves_nothing_behind() -> None:
    budget = MemoryBudget(MIB, 1)

    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker[1].log.reader.read(0, 1 << 20)
        broker.fs.waited.clear()
        broker.ask(at(0), at(1, 10))
        others = budget.open("other").take(MIB - ANSWER_COPIES * ANSWER_BYTES_MIN)
        broker.session.partition_changed(TopicPartition("t", 1), True)
        await asyncio.sleep(0)
        assert budget.statistics().waiting == 1
        broker.io.step()  # the records are there, and what they take is all that the waiting request lacks
        broker.session.close()
        assert budget.statistics().used_bytes == others.size and budget.statistics().waiting == 0
        assert not broker[0].watchers and not broker.answers
        others.release()

    run(scenario, partitions=2, budget=budget)


def test_a_read_that_ended_at_a_high_watermark_within_its_batch_is_made_again_when_that_has_risen() -> None:
    async def scenario(broker: Broker) -> None:
        broker[0].append_as_leader(batch(*[bytes(500)] * 3), -1, 0, WALL_MS)
        broker[0].log.flush()
        broker[0].high_watermark = 12  # of the offsets 10, 11 and 12
        broker.fs.go_cold()
        broker.ask(at(0, 10))
        await broker.step()
        assert not broker.answers and not broker.io.queue
        broker[0].flushed(13)
        while not broker.answers:
            await asyncio.sleep(0)
            if broker.io.queue:
                await broker.step()
        assert sizes(broker.answers[0]) == {0: 1}

    run(scenario)


def test_a_batch_that_is_larger_than_what_was_asked_for_is_counted_as_large_as_it_is() -> None:
    async def scenario(broker: Broker) -> None:
        broker.produce(0, bytes(50_000))
        broker.fs.go_cold()
        broker.ask(FetchPartition(TopicPartition("t", 0), TOPIC_ID, 10, 5, -1, max_bytes=1000), min_bytes=MIB)
        assert broker.budget.statistics().used_bytes == 1000
        await broker.step()
        assert not broker.answers and broker.budget.statistics().used_bytes > 50_000

    run(scenario)


def test_a_full_queue_delays_a_read_and_loses_none() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker.io.queued_max = 0
        broker.ask(at(0))
        broker.io.queued_max = 1
        await broker.io.wait_work()
        await broker.step()
        assert sizes(broker.answers[0]) == {0: 10}

    run(scenario)


def test_a_thread_that_stands_in_a_slow_disk_holds_up_no_answer() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker[1].log.reader.read(0, 1 << 20)
        broker.fs.waited.clear()
        broker.fs.at_gate.clear()
        broker.fs.access.clear()
        broker.ask(at(0), at(1))
        thread = threading.Thread(target=broker.io.step, name="test")
        thread.start()
        broker.fs.at_gate.wait()  # the read stands in the disk
        assert sizes(broker.answers[0]) == {1: 10}
        broker.produce(1)
        broker.ask(at(1, 10))
        assert sizes(broker.answers[1]) == {1: 1}
        broker.fs.access.set()
        thread.join()

    run(scenario, partitions=2)


def test_a_file_system_that_cannot_tell_is_read_at_once() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.tells = False
        broker.ask(at(0))
        assert sizes(broker.answers[0]) == {0: 10} and broker.io.submitted == 0

    run(scenario)


def test_a_copy_that_was_read_from_the_disk_goes_out_although_the_throttle_has_no_room_by_now() -> None:
    """Held, it would keep its place in the log dir from the reads of replicas that are in sync."""

    async def scenario(broker: Broker) -> None:
        moving = replace(state(isr=(1,)), adding_replicas=(2,), partition_epoch=1)
        broker[0].become_leader(moving, 0)
        broker.fs.go_cold()
        broker.ask(at(0), replica_id=2)
        assert not broker.answers and len(broker.io.queue) == 1
        broker.throttle.set_rate(1)
        broker.throttle.spend(10**9, 0)
        await broker.step()
        assert sizes(broker.answers[0]) == {0: 10}
        broker.ask(at(0), replica_id=2)
        assert len(broker.answers) == 1 and not broker.io.queue, "the next one is held"

    run(scenario)


def test_a_session_that_outlives_its_requests_keeps_records_for_a_moment_and_begins_again_later() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        for number in (2, 3):
            broker[number].log.reader.read(0, 1 << 20)
        broker.fs.waited.clear()
        broker.ask(at(0), at(1), at(2), at(3))
        assert sizes(broker.answers[0]) == {2: 10, 3: 10}
        broker.requests.pop().dropped()
        await broker.step()
        assert broker.budget.statistics().used_bytes, "the next request wants them"
        await asyncio.sleep((KEPT_MS - 1) / 1000)
        assert broker.budget.statistics().used_bytes
        await asyncio.sleep(2 / 1000)
        broker.io.step()  # one was under way
        assert not broker.budget.statistics().used_bytes, "the client may never come again"
        broker.ask(at(2, 10), at(3, 10))
        await broker.step()
        while broker.io.queue:
            await broker.step()
        assert sizes(broker.answers[1]) == {0: 10}
        broker.ask(at(0, 10))
        assert sizes(broker.answers[2]) == {1: 10}

    run(scenario, partitions=4, is_stream=False)


def test_a_session_whose_client_asks_again_in_time_reads_nothing_twice() -> None:
    async def scenario(broker: Broker) -> None:
        broker.fs.go_cold()
        broker[1].log.reader.read(0, 1 << 20)
        broker.fs.waited.clear()
        broker.ask(at(0), at(1))
        await broker.step()
        await asyncio.sleep((KEPT_MS - 1) / 1000)
        broker.ask(at(1, 10))
        assert [sizes(answer) for answer in broker.answers] == [{1: 10}, {0: 10}] and broker.io.submitted == 1

    run(scenario, partitions=2, is_stream=False)
