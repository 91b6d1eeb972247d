"""Promises of what a follower says of answers that it does not take: enough to see why, and no flood."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from broker.replication.follower.fetcher_config import FetcherConfig
from broker.replication.follower.fetcher_core import SAID_AT_REFUSALS
from broker.replication.follower.fetcher_driver import ReplicaFetcher
from broker.replication.follower.fetcher_ports import FetcherNode
from broker.replication.partition import Partition
from penstock.errors import FencedLeaderEpochError, KafkaStorageError
from penstock.messages.fetch import FetchRequest, FetchResponse, PartitionFetchResult
from penstock.throttled_lines import SAY_INTERVAL_MS
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, batch, make_partition, state
from tests.support.virtual_time import run_virtual, virtual_clock

BACKOFF_MS = 200
ROUNDS = 2
SPOILT = PartitionFetchResult(PARTITION, TOPIC_ID, 0, high_watermark=1, records=b"\xff" * 70)
GOOD = PartitionFetchResult(PARTITION, TOPIC_ID, 0, high_watermark=1, records=batch())
FENCED = PartitionFetchResult(PARTITION, TOPIC_ID, 0, FencedLeaderEpochError("epoch 5 is over"))

REFUSED = PartitionFetchResult(PARTITION, TOPIC_ID, 0, KafkaStorageError("the disk failed"))


class SameAnswerStream:
    """Answers whoever asks for the partition with the same, and waits out a request that does not."""

    def __init__(self, result: PartitionFetchResult) -> None:
        self._result = result
        self._asked: asyncio.Queue[tuple[int, FetchRequest]] = asyncio.Queue()

    def send(self, correlation_id: int, request: FetchRequest) -> None:
        self._asked.put_nowait((correlation_id, request))

    async def receive(self) -> tuple[int, FetchResponse]:
        number, request = await self._asked.get()
        if not request.partitions:
            await asyncio.sleep(request.max_wait_ms / 1000)
        return number, FetchResponse([self._result] if request.partitions else [])

    def cancel(self) -> None:
        """Nothing is open."""


def follow(
    path: Path, answer: PartitionFetchResult, scenario: Callable[[ReplicaFetcher, Partition], Awaitable[None]]
) -> None:
    async def main() -> None:
        partition = make_partition(path, broker_id=2)
        partition.become_follower(state(), NOBODY)
        node = SimpleNamespace(broker_epoch=102, find=lambda key: partition)
        config = FetcherConfig(2, "c", 50, 1 << 20, 1 << 20, BACKOFF_MS)
        fetcher = ReplicaFetcher(
            "1-0",
            config,
            virtual_clock(),
            Random(0),
            lambda: SameAnswerStream(answer),
            cast(FetcherNode, node),
            pytest.fail,
        )
        fetcher.add(partition, 5)
        await scenario(fetcher, partition)
        await fetcher.stop()

    run_virtual(main())


def test_records_that_are_refused_again_and_again_are_counted_and_have_one_line_in_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(fetcher: ReplicaFetcher, _: Partition) -> None:
        await asyncio.sleep((ROUNDS * SAY_INTERVAL_MS - BACKOFF_MS) / 1000)
        assert fetcher.answers_refused > ROUNDS * SAY_INTERVAL_MS // BACKOFF_MS // 2
        assert fetcher.core.statistics().delayed_partitions == 1, "the next answer may be good"

    follow(tmp_path, SPOILT, scenario)
    lines = [line.getMessage() for line in caplog.records]
    assert len(lines) == ROUNDS and all("bad records from the leader" in line for line in lines)
    assert ["more times" in line for line in lines] == [False] + [True] * (ROUNDS - 1)


def test_a_partition_that_stops_for_an_error_that_is_not_the_disks_says_why_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(fetcher: ReplicaFetcher, partition: Partition) -> None:
        partition.log.abandon()
        await asyncio.sleep(1)
        assert fetcher.core.statistics().failed_partitions == 1

    follow(tmp_path, GOOD, scenario)
    (line,) = caplog.records
    assert "t-0: not fetched any more in this epoch" in line.getMessage() and line.levelno == logging.ERROR


def test_a_partition_that_stops_because_its_epoch_is_over_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(fetcher: ReplicaFetcher, _: Partition) -> None:
        await asyncio.sleep(1)
        assert fetcher.core.statistics().failed_partitions == 1

    with caplog.at_level(logging.INFO):
        follow(tmp_path, FENCED, scenario)
    assert [line.getMessage() for line in caplog.records] == [
        "fetcher 1-0: t-0: not fetched in this epoch: epoch 5 is over"
    ]


def test_a_partition_that_its_leader_refuses_for_long_says_why_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(_: ReplicaFetcher, __: Partition) -> None:
        await asyncio.sleep(SAID_AT_REFUSALS * BACKOFF_MS / 2 / 1000)
        assert not caplog.records, "a change of leader takes a while"
        await asyncio.sleep(10 * SAID_AT_REFUSALS * BACKOFF_MS / 1000)

    follow(tmp_path, REFUSED, scenario)
    assert [line.getMessage() for line in caplog.records] == [
        "fetcher 1-0: t-0: its leader keeps refusing the fetch: KAFKA_STORAGE_ERROR: the disk failed"
    ]
