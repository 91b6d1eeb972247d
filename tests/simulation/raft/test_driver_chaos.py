"""The real drivers under partitions, power cuts and slow disks: what was acked is kept, once, in order, everywhere.

The simulation of the core has the invariants; this one has the driver's own promises: futures, listeners, restarts.
"""

from __future__ import annotations

import asyncio
import os
from random import Random

import pytest

from penstock.errors import NotControllerError
from tests.support.amount import usually
from tests.support.raft_cluster import Cluster, SlowDisk, wait_until
from tests.support.virtual_time import run_virtual, virtual_clock

SEEDS = int(os.environ.get("PENSTOCK_SIMULATION_SEEDS", usually("1", long="5")))
CHAOS_MS = 12_000


async def client(cluster: Cluster, name: int, acked: list[tuple[int, bytes]], until_ms: int) -> None:
    """Proposes to whoever leads; notes what was acked, with its offset."""
    count = 0
    while virtual_clock().now_ms() < until_ms:
        await asyncio.sleep(0.02)
        leader = cluster.leader()
        if leader is None:
            continue
        value = b"%d-%d" % (name, count)
        count += 1
        try:
            offset = leader.driver.next_offset
            future = leader.driver.propose([value])
            assert await future == offset
        except NotControllerError:
            continue  # nothing written, or the outcome is unknown
        acked.append((offset, value))


async def trouble(cluster: Cluster, random: Random, until_ms: int) -> None:
    while virtual_clock().now_ms() < until_ms:
        await asyncio.sleep(random.randint(100, 900) / 1000)
        node = random.choice(list(cluster.nodes.values()))
        kind = random.randrange(4)
        if kind == 0:
            cluster.network.heal()
        elif kind == 1:
            cluster.network.isolate(node.node_id, [other for other in cluster.nodes if other != node.node_id])
        elif kind == 2:
            await node.power_cut()
            await asyncio.sleep(random.choice((0.01, 0.3)))
            await node.start()
        else:
            await node.restart()


async def live(seed: int) -> int:
    random = Random(seed)
    async with Cluster(random.choice((3, 3, 5)), executor=SlowDisk(random, random.choice((2, 40)))) as cluster:
        until_ms = virtual_clock().now_ms() + CHAOS_MS
        acked: list[tuple[int, bytes]] = []
        clients = [asyncio.create_task(client(cluster, name, acked, until_ms)) for name in range(3)]
        await trouble(cluster, random, until_ms)
        cluster.network.heal()
        await asyncio.gather(*clients)
        leader = await cluster.wait_leader()
        await leader.driver.propose([b"last"])
        await wait_until(lambda: all(node.recorder.values[-1:] == [b"last"] for node in cluster.nodes.values()))
        histories = [node.recorder.values for node in cluster.nodes.values()]
        assert all(history == histories[0] for history in histories)
        for offset, value in acked:
            assert histories[0][offset] == value
        own = [value for value in histories[0] if b"LeaderChange" not in value]
        assert len(own) == len(set(own))
        assert not [node for node in cluster.nodes.values() if node.fatal and "power cut" not in str(node.fatal)]
        return len(acked)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_acked_proposals_survive_on_every_node(seed: int) -> None:
    assert run_virtual(live(seed)) > 20
