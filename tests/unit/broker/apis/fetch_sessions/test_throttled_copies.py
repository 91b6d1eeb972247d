"""Promises of a leader while the throttle has no room: a replica that moves is held, the others of its session not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.apis.fetch_sessions.fetch_session import FetchSession
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from broker.replication.move_throttle import CHUNK_BYTES, HOLD_MS_MAX, MoveThrottle
from broker.replication.partition import Partition
from penstock.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionFetchResult
from penstock.types import TopicPartition
from tests.support.machine import NOW_NS
from tests.support.memory import unlimited
from tests.support.partitions import TOPIC_ID, batch, flush, make_log, state
from tests.support.readers import leaders_alone
from tests.support.sinks import CALLER
from tests.support.stepped_io import SteppedIo
from tests.support.virtual_time import run_virtual, virtual_clock

STAYS, MOVES = TopicPartition("t", 0), TopicPartition("t", 1)
FOLLOWER = 2
WALL_MS = 1_700_000_000_000
SLOW = 4 * CHUNK_BYTES
"""Bytes a second."""


class Leader:
    """Leads two partitions with the same follower: of one it is in sync, to the other it moves."""

    def __init__(self, path: Path, throttle: MoveThrottle) -> None:
        self.throttle = throttle
        self.partitions = {key: Partition(1, make_log(path / str(key), partition=key), 0, 1) for key in (STAYS, MOVES)}
        self.partitions[STAYS].become_leader(state(isr=(1, FOLLOWER)), 0)
        self.partitions[MOVES].become_leader(replace(state(isr=(1,)), partition=1, adding_replicas=(FOLLOWER,)), 0)
        self.answers: list[FetchResponse] = []
        fail = FailedRequests(pytest.fail).fail
        self.session = FetchSession(
            lambda key, topic_id: self.partitions[key],
            virtual_clock(),
            1 << 20,
            lambda *_: None,
            unlimited(),
            fail,
            SteppedIo(),
            throttle,
            leaders_alone(),
        )

    def response_ready(self, request: Request) -> None:
        assert isinstance(request.response, FetchResponse)
        self.answers.append(request.response)

    def ask(self, *wanted: FetchPartition, min_bytes: int = 1) -> None:
        body = FetchRequest(FOLLOWER, 102, 10_000, min_bytes, 1 << 20, list(wanted), [])
        self.session.handle(Request("Fetch", body, self, CALLER, NOW_NS), body)

    def last(self) -> list[PartitionFetchResult]:
        """The results of the last answer that have records."""
        return [result for result in self.answers[-1].partitions if result.records]


def at(partition: TopicPartition, offset: int = 0) -> FetchPartition:
    return FetchPartition(partition, TOPIC_ID, offset, 5, 5 if offset else -1, max_bytes=1 << 20)


def run(path: Path, rate: int, scenario: Callable[[Leader], Awaitable[None]]) -> None:
    async def main() -> None:
        leader = Leader(path, MoveThrottle(rate))
        leader.throttle.room(virtual_clock().now_ms())
        for partition in leader.partitions.values():
            for _ in range(4):
                partition.append_as_leader(batch(bytes(CHUNK_BYTES)), -1, 0, WALL_MS)
            flush(partition)
        await scenario(leader)
        leader.session.close()
        assert not any(partition.watchers for partition in leader.partitions.values())

    run_virtual(main())


def test_a_copy_is_held_and_what_is_in_sync_is_served_meanwhile(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.ask(at(STAYS), at(MOVES))
        assert [result.partition for result in leader.last()] == [STAYS]
        leader.ask()
        assert len(leader.answers) == 1
        await asyncio.sleep(0.2)
        assert len(leader.answers) == 1
        await asyncio.sleep(0.1)
        (copied,) = leader.last()
        assert (copied.partition, leader.throttle.bytes_total) == (MOVES, len(copied.records))
        leader.ask(at(MOVES, 1))
        leader.partitions[STAYS].append_as_leader(batch(b"new"), -1, 0, WALL_MS)
        await asyncio.sleep(0)
        assert [result.partition for result in leader.last()] == [STAYS]

    run(tmp_path, SLOW, scenario)


def test_an_answer_copies_no_more_than_there_is_room(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        await asyncio.sleep(0.25)
        leader.ask(at(MOVES))
        (copied,) = leader.last()
        assert len(copied.records) < 2 * CHUNK_BYTES, "one batch, of four"

    run(tmp_path, SLOW, scenario)


def test_a_new_rate_counts_soon_although_a_copy_is_held(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.throttle.spend(10**9, virtual_clock().now_ms())
        leader.ask(at(MOVES))
        await asyncio.sleep(5)
        assert not leader.answers
        leader.throttle.set_rate(10**12)
        await asyncio.sleep(2 * HOLD_MS_MAX / 1000)
        assert len(leader.last()) == 1

    run(tmp_path, 1, scenario)


def test_a_copy_that_is_in_sync_by_now_is_held_no_more(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.throttle.spend(10**9, virtual_clock().now_ms())
        leader.ask(at(MOVES))
        joined = replace(state(isr=(1, FOLLOWER)), partition=1, adding_replicas=(FOLLOWER,), partition_epoch=1)
        leader.partitions[MOVES].become_leader(joined, 0)
        await asyncio.sleep(2 * HOLD_MS_MAX / 1000)
        assert len(leader.last()) == 1 and leader.throttle.bytes_total == 10**9, "it is no copy any more"

    run(tmp_path, 1, scenario)


def test_what_is_looked_at_and_not_sent_is_not_spent(tmp_path: Path) -> None:
    async def scenario(leader: Leader) -> None:
        leader.ask(at(MOVES), min_bytes=1 << 20)
        for _ in range(5):
            leader.partitions[MOVES].append_as_leader(batch(b"new"), -1, 0, WALL_MS)
            await asyncio.sleep(0.01)
        assert not leader.answers and not leader.throttle.bytes_total

    run(tmp_path, 10**9, scenario)
