"""Promises of what a follower does to its log when the fetcher's core has decided."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from broker.replication.fetcher_core import StartOver, Truncate
from broker.replication.fetcher_driver import Fetcher, FetcherConfig, FetcherNode, perform
from broker.requests import FetchRequest, FetchResponse, PartitionFetchResult
from penstock.clock import ManualClock
from penstock.types import EpochEndOffset
from tests.support.partitions import NOBODY, PARTITION, make_partition, state


def test_a_log_that_starts_above_the_leaders_end_starts_over_there(tmp_path: Path) -> None:
    """After an unclean election; else the follower would ask for its own start for ever, and be sent back each time."""
    partition = make_partition(tmp_path, broker_id=2)
    partition.become_follower(state(), NOBODY)
    perform(StartOver(PARTITION, 500), partition)
    perform(Truncate(PARTITION, EpochEndOffset(-1, 400)), partition)
    log = partition.log
    assert (log.log_start_offset, log.log_end_offset, partition.high_watermark) == (400, 400, 400)


class SpoiltStream:
    """Answers the first request with bytes that are no batch, and keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[FetchRequest] = []
        self.asked_again = asyncio.Event()

    def send(self, request: FetchRequest) -> None:
        self.asked.append(request)
        if len(self.asked) == 2:
            self.asked_again.set()

    async def receive(self) -> FetchResponse:
        if len(self.asked) > 1:
            await asyncio.Event().wait()
        spoilt = PartitionFetchResult(PARTITION, 0, high_watermark=1, records=b"\xff" * 70)
        return FetchResponse(self.asked[-1].correlation_id, [spoilt])

    def cancel(self) -> None:
        """Nothing is open."""


def test_records_that_came_spoilt_are_asked_for_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        partition = make_partition(tmp_path, broker_id=2)
        partition.become_follower(state(), NOBODY)
        stream = SpoiltStream()
        node = SimpleNamespace(broker_epoch=102, find=lambda key: partition)
        fetcher = Fetcher(
            "1-0",
            FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 0),
            ManualClock(),
            lambda: stream,
            cast(FetcherNode, node),
        )
        fetcher.add(partition, 5)
        async with asyncio.timeout(10):
            await stream.asked_again.wait()
        assert [wanted.fetch_offset for wanted in stream.asked[1].partitions] == [0]
        await fetcher.stop()

    asyncio.run(scenario())
