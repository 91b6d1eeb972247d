"""Whole nodes, of which the quorum's leader finds its disk full: others decide, and it goes on once there is room.

Real disks that are full: `python -m tests.growth.trouble --only full`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock import AsyncAdmin
from penstock.errors import TimedOutError
from tests.support.filling_fs import FillingFileSystem
from tests.support.memory_cluster import MemoryCluster, run_in_memory

ROOM_BYTES = 1_000_000
DECIDED_MS = 15_000
"""An election, the wait of an answer for the metadata of its own node, and three sessions of a broker that stands:
the client waits for the brokers in service."""


async def until(true: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within a minute")


async def started(cluster: MemoryCluster) -> list[FillingFileSystem]:
    """The disks of the nodes, which are voters and run."""
    disks = [FillingFileSystem() for _ in cluster.disks]
    cluster.disks = list(disks)
    cluster.format_dynamic(0, 1, 2)
    await cluster.start()
    return disks


def test_what_is_decided_while_the_leaders_disk_is_full_is_answered_once_and_in_time() -> None:
    """The client asks any broker, that of the full node too, which cannot take the metadata that the others decide."""

    async def story(cluster: MemoryCluster) -> None:
        disks = await started(cluster)
        full = cluster.nodes[0].leader_id
        directory_id, (at,) = cluster.voter(full).directory_id or "", cluster.voter(full).endpoints
        others = [node for index, node in enumerate(cluster.nodes) if index != full]
        async with AsyncAdmin(cluster.bootstrap(), environment=cluster.clients()) as admin:
            disks[full].fill()
            began_ms = cluster.clock.now_ms()
            await admin.create_topic("made", 1, 3)
            assert cluster.clock.now_ms() - began_ms < DECIDED_MS
            assert {node.leader_id for node in others}.isdisjoint({full, -1})
            await admin.remove_voter(full, directory_id)
            assert all(full not in node.quorum.raft.voters.ids for node in others)
            assert cluster.nodes[full].quorum.raft.no_room is not None and not cluster.nodes[full].fatal.done()

            disks[full].size_bytes += ROOM_BYTES
            await until(lambda: full not in cluster.nodes[full].quorum.raft.voters.ids)
            await admin.add_voter(full, directory_id, str(at.endpoint))
            await admin.create_topic("after", 1, 3)
        images = [node.loader.image for node in cluster.nodes]
        assert all({"made", "after"} <= set(image.topics_by_name) for image in images)
        await cluster.stop()

    run_in_memory(6, story)


def test_a_call_says_that_nothing_can_be_decided_while_two_of_three_disks_are_full() -> None:
    async def story(cluster: MemoryCluster) -> None:
        disks = await started(cluster)
        leader_id = cluster.nodes[0].leader_id
        full = [disks[leader_id], disks[(leader_id + 1) % 3]]
        for disk in full:
            disk.fill()
        environment = cluster.clients()
        async with AsyncAdmin(cluster.bootstrap(), environment=environment, default_api_timeout_ms=10_000) as admin:
            with pytest.raises(TimedOutError, match=r"no leader|the disk of the metadata log is full"):
                await admin.create_topic("late", 1, 3)
            for disk in full:
                disk.size_bytes += ROOM_BYTES
            await admin.create_topic("later", 1, 3)
        await cluster.stop()

    run_in_memory(2, story)  # its fifth attempt would have 26 ms, and no reason
