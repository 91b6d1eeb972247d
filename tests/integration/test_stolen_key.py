"""A thief with the key of node 2 speaks to real nodes as node 1: everything is refused, and nothing has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.grpc.outgoing_calls import Peers
from penstock import Admin, Producer
from penstock.certs.authority import CA_FILE
from penstock.errors import ClusterAuthorizationFailedError
from penstock.messages.fetch import FetchPartition, FetchRequest
from penstock.messages.nodes.brokers import BrokerHeartbeatRequest, RegisterBrokerRequest
from penstock.messages.nodes.partitions import AlterPartitionRequest
from penstock.messages.offsets import ListOffsetsRequest
from penstock.messages.produce import AllocateProducerIdsRequest
from penstock.types import Endpoint, EpochEndOffset, TopicPartition
from raft import messages as raft
from tests.integration.test_tls import NODES, Secured
from tests.support.certificates import Files, node_certificates

VICTIM, THIEF, TARGET = 1, 2, 0
FAR = 1 << 40


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    found = Secured(tmp_path)
    with found.cluster:
        found.cluster.topic("orders", partitions=3)
        yield found


class Attack:
    """The thief's connections, with its own certificate."""

    def __init__(self, secured: Secured) -> None:
        self.cluster_id, ports = secured.cluster_id, [secured.cluster.ports(node) for node in range(NODES)]
        ca = (secured.directory / "first" / CA_FILE).read_bytes()
        own = node_certificates(Files(node=secured.keystore(THIEF).read_bytes(), ca=ca), THIEF)
        own.belong_to(self.cluster_id)
        controllers = {node: Endpoint("127.0.0.1", one.controller) for node, one in enumerate(ports)}
        brokers = {node: Endpoint("127.0.0.1", one.internal) for node, one in enumerate(ports)}
        self.peers = Peers(controllers.get, brokers.get, 1 << 20, own)

    def of_quorum(self, node_id: int, epoch: int) -> list[raft.Request]:
        cluster_id = self.cluster_id
        return [
            raft.VoteRequest(cluster_id, epoch + 100, node_id, TARGET, epoch + 99, FAR, False),
            raft.VoteRequest(cluster_id, epoch, node_id, TARGET, epoch, FAR, True),
            raft.BeginQuorumEpochRequest(cluster_id, node_id, epoch + 100, TARGET),
            raft.EndQuorumEpochRequest(cluster_id, node_id, epoch, (node_id,)),
            raft.FetchMetadataRequest(cluster_id, node_id, epoch, FAR, epoch, 0, 1_000),
            raft.FetchSnapshotRequest(cluster_id, node_id, epoch, EpochEndOffset(1, 1), 0, 1_000),
        ]

    def of_controller(self, node_id: int) -> list[Any]:
        return [
            RegisterBrokerRequest(self.cluster_id, node_id, "thief", "10.6.6.6", 9192),
            BrokerHeartbeatRequest(self.cluster_id, node_id, FAR, FAR, want_shut_down=True),
            AlterPartitionRequest(node_id, FAR),
            AllocateProducerIdsRequest(node_id, FAR),
        ]

    async def refused(self, epoch: int) -> int:
        """How many requests in the name of the victim were refused; each has to be."""
        refused = 0
        for request in self.of_quorum(VICTIM, epoch):
            for node in (TARGET, VICTIM):
                with pytest.raises(ClusterAuthorizationFailedError, match="in the name of node 1"):
                    await self.peers.send(node, request, 5_000)
                refused += 1
        for request in self.of_controller(VICTIM):
            for node in (TARGET, VICTIM, THIEF):
                with pytest.raises(ClusterAuthorizationFailedError, match="certificate of node 2"):
                    await self.peers.call_controller(node, request, 5_000)
                refused += 1
        with pytest.raises(ClusterAuthorizationFailedError):
            await self.peers.call_broker(TARGET, ListOffsetsRequest((), VICTIM, 1_000), 5_000)
        stream = self.peers.open_fetch_stream(TARGET)
        wanted = FetchPartition(TopicPartition("orders", 0), "", FAR)
        stream.send(1, FetchRequest(VICTIM, -1, 0, 0, 1_000, (wanted,), ()))
        with pytest.raises(ClusterAuthorizationFailedError, match="Fetch in the name of node 1"):
            await stream.receive()
        stream.cancel()
        return refused + 2

    async def run(self, epoch: int) -> tuple[int, raft.Response]:
        """How many were refused, and the answer to the thief as itself."""
        try:
            own = raft.VoteRequest(self.cluster_id, epoch, THIEF, TARGET, 0, 0, True)
            return await self.refused(epoch), await self.peers.send(TARGET, own, 5_000)
        finally:
            await self.peers.close()


def test_nothing_that_is_said_in_the_name_of_another_node_counts(secured: Secured) -> None:
    with Admin(secured.cluster.bootstrap) as admin, Producer(secured.cluster.bootstrap, acks="all") as producer:
        producer.send("orders", value=b"before").result(60)
        quorum, topic = admin.describe_quorum(), admin.describe_topic("orders")

        async def attack() -> tuple[int, raft.Response]:
            return await Attack(secured).run(quorum.leader_epoch)

        refused, own = asyncio.run(attack())
        assert refused == 26
        assert isinstance(own, raft.VoteResponse) and not own.vote_granted and own.leader_epoch == quorum.leader_epoch
        producer.send("orders", value=b"after").result(60)
        after = admin.describe_quorum()
        assert (after.leader_id, after.leader_epoch) == (quorum.leader_id, quorum.leader_epoch)
        assert admin.describe_topic("orders") == topic
    lines = [tail for name, tail in secured.cluster.log_tails() if "in the name of node 1" in tail]
    assert lines, "whoever looks for it finds it in the log"
