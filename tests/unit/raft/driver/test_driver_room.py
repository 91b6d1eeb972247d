"""A full disk under the quorum: it is waited for, others lead meanwhile, and nothing ends but by a real failure."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.quorum.metadata_log import MetadataLog
from penstock.clock import SystemClock
from penstock.errors import KafkaStorageError
from raft.driver.protocols import NoRoomError
from storage.log_config import LogConfig
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.partitions import make_log
from tests.support.raft_cluster import Cluster, Node, wait_until
from tests.support.virtual_time import run_virtual

ALL_CALLS = ("append_as_leader", "append_as_follower", "flush")


class Disk:
    """Under one node's log and quorum state; full or not."""

    def __init__(self, node: Node, calls: tuple[str, ...] = ALL_CALLS) -> None:
        self.is_full = False
        self.refused = 0
        for name in calls:
            self._guard(node.log, name)
        self._guard(node.store, "save")

    def _guard(self, owner: object, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def guarded(*args: object) -> Any:
            if self.is_full:
                self.refused += 1
                raise NoRoomError(f"{name}: full")
            return real(*args)

        setattr(owner, name, guarded)


def with_disks(count: int, test: Callable[[Cluster, dict[int, Disk]], Awaitable[None]], *calls: str) -> None:
    async def run() -> None:
        cluster = Cluster(count)
        disks = {id: Disk(node, calls) if calls else Disk(node) for id, node in cluster.nodes.items()}
        async with cluster:
            await test(cluster, disks)

    run_virtual(run())


@pytest.mark.parametrize("calls", [("append_as_leader",), ("flush",)])
def test_a_proposal_waits_until_the_only_voters_disk_has_room(calls: tuple[str, ...]) -> None:
    async def scenario(cluster: Cluster, disks: dict[int, Disk]) -> None:
        leader = await cluster.wait_leader()
        disks[1].is_full = True
        proposal = leader.driver.propose([b"a", b"b"])
        await asyncio.sleep(60)
        assert not proposal.done() and leader.fatal == [] and disks[1].refused > 50
        disks[1].is_full = False
        await proposal
        assert leader.recorder.own_values == [b"a", b"b"]

    with_disks(1, scenario, *calls)


def test_a_proposal_is_refused_with_the_reason_while_another_waits_for_room() -> None:
    async def scenario(cluster: Cluster, disks: dict[int, Disk]) -> None:
        leader = await cluster.wait_leader()
        disks[1].is_full = True
        waiting = leader.driver.propose([b"a"])
        await asyncio.sleep(1)
        with pytest.raises(KafkaStorageError, match="nothing was written: append_as_leader: full"):
            leader.driver.propose([b"b"])
        disks[1].is_full = False
        await waiting
        assert leader.driver.no_room is None
        await leader.driver.propose([b"c"])
        assert leader.recorder.own_values == [b"a", b"c"]

    with_disks(1, scenario)


def test_a_leader_on_a_full_disk_is_replaced_and_follows_once_there_is_room() -> None:
    async def scenario(cluster: Cluster, disks: dict[int, Disk]) -> None:
        leader = await cluster.wait_leader()
        disks[leader.node_id].is_full = True
        stuck = leader.driver.propose([b"stuck"])
        successor = await cluster.wait_leader(but_not=leader.node_id)
        await successor.driver.propose([b"kept"])
        disks[leader.node_id].is_full = False
        await wait_until(lambda: leader.recorder.own_values == [b"kept"])
        assert leader.fatal == [] and stuck.done() and stuck.exception() is not None

    with_disks(3, scenario)


def test_a_follower_on_a_full_disk_does_not_hold_up_the_majority() -> None:
    async def scenario(cluster: Cluster, disks: dict[int, Disk]) -> None:
        leader = await cluster.wait_leader()
        follower = next(node for node in cluster.nodes.values() if node is not leader)
        disks[follower.node_id].is_full = True
        for at in range(3):
            await leader.driver.propose([b"%d" % at])
        disks[follower.node_id].is_full = False
        await wait_until(lambda: follower.recorder.own_values == [b"0", b"1", b"2"])
        assert follower.fatal == []

    with_disks(3, scenario)


def test_fetched_batches_that_fill_the_disk_in_the_middle_are_taken_whole_once_there_is_room(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, fs: FaultyFileSystem) -> None:
        follower = cluster.nodes[3]
        leader = await cluster.wait_leader()
        cluster.network.isolate(3, [1, 2])
        if leader is follower:
            leader = await cluster.wait_leader(but_not=3)
        values = [b"%d" % at * 200 for at in range(6)]
        for value in values:
            await leader.driver.propose([value])
        with fs.failing("create", ".log", errno.ENOSPC) as full:
            cluster.network.heal()
            await wait_until(lambda: full.met > 2)
            assert follower.fatal == []
        await wait_until(lambda: follower.recorder.own_values == values)
        assert follower.fatal == []

    async def run() -> None:
        fs = FaultyFileSystem()
        cluster = Cluster(3)
        cluster.nodes[3].keep_log(
            MetadataLog(make_log(tmp_path / "log", fs=fs, config=LogConfig(segment_bytes=500)), SystemClock())
        )
        async with cluster:
            await scenario(cluster, fs)

    run_virtual(run())


def test_a_node_stops_although_its_disk_is_full() -> None:
    async def scenario(cluster: Cluster, disks: dict[int, Disk]) -> None:
        leader = await cluster.wait_leader()
        disks[1].is_full = True
        proposal = leader.driver.propose([b"a"])
        await asyncio.sleep(1)
        await asyncio.wait_for(leader.stop(), 10)
        assert leader.fatal == [] and proposal.exception() is not None

    with_disks(1, scenario)
