"""A broker that no controller answers tells its own standing and the age of its metadata, without a wait."""

from __future__ import annotations

import asyncio

from penstock.messages.cluster import ClusterInfo, DescribeClusterRequest
from penstock.messages.quorum import DescribeQuorumRequest, QuorumInfo
from tests.support.memory_cluster import MemoryCluster, run_in_memory

SILENCE_S = 20


async def described(cluster: MemoryCluster, index: int) -> tuple[ClusterInfo, QuorumInfo, float]:
    """Both descriptions, and how long that of the quorum took."""
    endpoint = cluster.endpoint(index)
    view = await cluster.ask(endpoint, "DescribeCluster", DescribeClusterRequest())
    began = asyncio.get_running_loop().time()
    quorum = await cluster.ask(endpoint, "DescribeQuorum", DescribeQuorumRequest())
    return view, quorum, asyncio.get_running_loop().time() - began


def metadata_ages(cluster: MemoryCluster) -> list[float]:
    """By the metrics of each node."""
    shown = [{reading.name: reading.value for reading in node.quorum.readings()} for node in cluster.nodes]
    return [readings["penstock_metadata_age_seconds"] for readings in shown]


def test_a_broker_without_a_quorum_tells_its_own_standing_and_how_old_its_metadata_is() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        for index in range(3):
            view, quorum, _ = await described(cluster, index)
            assert view.controller_id == quorum.leader_id >= 0 and not quorum.only_own_view
            assert view.standing.node_id == index and not view.standing.fenced
            assert view.standing.metadata_age_ms < 1_500
        for index in range(3):  # no node reaches another one's controller
            del cluster.network.listeners[cluster.config(index).listener("CONTROLLER")]
        await asyncio.sleep(SILENCE_S)
        for index in range(3):
            view, quorum, took_s = await described(cluster, index)
            assert (view.controller_id, view.standing.fenced) == (-1, True)
            assert (SILENCE_S - 2) * 1000 <= view.standing.metadata_age_ms <= (SILENCE_S + 9) * 1000
            assert quorum.only_own_view and quorum.leader_id == -1 and took_s < 3
            assert [voter.node_id for voter in quorum.voters] == [0, 1, 2]
        assert min(metadata_ages(cluster)) >= SILENCE_S - 2

    run_in_memory(1, story)


def test_a_single_voter_is_its_own_majority() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        await asyncio.sleep(60)
        assert metadata_ages(cluster) == [0]

    run_in_memory(1, story, nodes=1)
