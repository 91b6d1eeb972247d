"""Promises of who follows what while the node stops, and of what ends a node.

The metadata goes on telling of leaders until raft has stopped.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from broker.replication.follower.fetcher_config import FetcherConfig
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.follower.fetcher_ports import FetcherNode
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import Partition
from penstock.clock import ManualClock
from penstock.errors import InvariantViolation, KafkaStorageError
from penstock.messages.fetch import FetchRequest, FetchResponse
from penstock.types import TopicPartition
from tests.support.partitions import NOBODY, PARTITION, make_log, make_partition, state

OTHER = TopicPartition("t", 1)


class SilentStream:
    """Takes every request and answers none."""

    def send(self, correlation_id: int, request: FetchRequest) -> None:
        """Ignores the request."""

    async def receive(self) -> FetchResponse:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets the event")

    def cancel(self) -> None:
        """Nothing is open."""


@dataclass
class BrokenStream(SilentStream):
    """Meets a bug instead of an answer."""

    bug: InvariantViolation

    async def receive(self) -> FetchResponse:
        raise self.bug


def test_a_partition_gets_another_role_after_the_stop_and_nothing_breaks(tmp_path: Path) -> None:
    async def scenario() -> None:
        partition = make_partition(tmp_path, broker_id=2)
        partition.become_follower(state(), NOBODY)
        node = cast(FetcherNode, SimpleNamespace(broker_epoch=102, find=lambda key: partition))
        config = FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 0)
        fetchers = FetcherManager(
            config, 1, ManualClock(), Random(0), lambda leader_id: SilentStream(), node, pytest.fail, MoveThrottle()
        )
        fetchers.add(partition, 1, 5)
        assert fetchers.follows(PARTITION, 1)
        await fetchers.stop()
        fetchers.remove([PARTITION])  # it leads now, or was deleted
        fetchers.add(partition, 3, 6)
        assert not fetchers.follows(PARTITION, 3)
        fetchers.remove([PARTITION])

    asyncio.run(scenario())


def test_a_partition_that_goes_offline_is_followed_no_more_and_another_one_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        hosted = {key: Partition(2, make_log(tmp_path / str(key), partition=key), 0, 1) for key in (PARTITION, OTHER)}
        node = cast(FetcherNode, SimpleNamespace(broker_epoch=102, find=hosted.get))
        config = FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 0)
        fetchers = FetcherManager(
            config, 1, ManualClock(), Random(0), lambda leader_id: SilentStream(), node, pytest.fail, MoveThrottle()
        )
        for partition in hosted.values():
            partition.become_follower(state(), NOBODY)
            fetchers.add(partition, 1, 5)
        hosted[PARTITION].stop(KafkaStorageError("its disk failed"))
        assert [fetchers.follows(key, 1) for key in hosted] == [False, True]
        (known,) = fetchers.statistics().values()
        assert known.partitions == 1 and not hosted[PARTITION].watchers
        await fetchers.stop()

    asyncio.run(scenario())


def test_a_fetcher_that_meets_a_bug_ends_the_node(tmp_path: Path) -> None:
    async def scenario() -> None:
        partition = make_partition(tmp_path, broker_id=2)
        partition.become_follower(state(), NOBODY)
        node = cast(FetcherNode, SimpleNamespace(broker_epoch=102, find=lambda key: partition))
        config = FetcherConfig(2, "c", 500, 1 << 20, 1 << 20, 0)
        bug, reported = InvariantViolation("a bug"), asyncio.get_running_loop().create_future()
        fetchers = FetcherManager(
            config,
            1,
            ManualClock(),
            Random(0),
            lambda leader_id: BrokenStream(bug),
            node,
            reported.set_result,
            MoveThrottle(),
        )
        fetchers.add(partition, 1, 5)
        assert await reported is bug
        await fetchers.stop()

    asyncio.run(asyncio.wait_for(scenario(), 60))
