"""Has the certificate of one node, and speaks as another one: votes, fetches, heartbeats, changes of an ISR.

Everything that it says in another's name must be refused, also by a node that is not the leader (I85). That the nodes
themselves are believed, each under its own name, the story shows by becoming whole.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import ApiError, ClusterAuthorizationFailedError, NetworkError, RequestTimedOutError
from penstock.messages.fetch import FetchPartition, FetchRequest
from penstock.messages.nodes.brokers import BrokerHeartbeatRequest, RegisterBrokerRequest
from penstock.messages.nodes.partitions import AlterPartitionRequest
from penstock.messages.offsets import ListOffsetsRequest
from penstock.messages.produce import AllocateProducerIdsRequest
from penstock.types import EpochEndOffset, TopicPartition
from raft import messages as raft
from tests.simulation.cluster.network import CLIENTS
from tests.simulation.cluster.rpc import SimulatedPeers

if TYPE_CHECKING:
    from tests.simulation.cluster.security.secured import Secured

FAR = 1 << 40
TIMEOUT_MS = 1_000


class Impostor:
    """See the module."""

    def __init__(self, secured: Secured) -> None:
        self._secured, self._oracle = secured, secured.oracle
        self._draw = random.Random(secured.clients.network.scheduler.draw.getrandbits(64))

    async def work(self) -> None:
        """Until it is over."""
        clients, plan = self._secured.clients, self._secured.plan
        nodes = range(len(clients.plan.nodes))
        while not clients.is_over and len(nodes) > 1:
            await asyncio.sleep(plan.pause_s * (0.5 + self._draw.random()))
            thief, victim = self._draw.sample(nodes, 2)
            peers = self._peers(thief)
            try:
                async with asyncio.timeout(TIMEOUT_MS / 1000):
                    await self._speak(peers, thief, victim)
            except (ApiError, TimeoutError):
                pass
            finally:
                await peers.close()

    def _peers(self, thief: int) -> SimulatedPeers:
        secured, clients = self._secured, self._secured.clients
        arguments = secured.controllers.get, secured.inter_broker.get, 1 << 20
        peers = SimulatedPeers(clients.network, clients.process, CLIENTS, *arguments)
        peers.certificate = secured.certificates[thief]
        return peers

    async def _speak(self, peers: SimulatedPeers, thief: int, victim: int) -> None:
        plan = self._secured.clients.plan
        place = self._draw.choice(("quorum", "controller", "broker", "fetch"))
        if place in ("quorum", "controller"):
            target = self._draw.choice(plan.voters)
            of_place = self._of_quorum(victim, target) if place == "quorum" else self._of_controller(victim)
            request = self._draw.choice(of_place)
            call = peers.send if place == "quorum" else peers.call_controller
            await self._judge(target, thief, victim, request, call(target, request, TIMEOUT_MS))
            return
        target = self._draw.choice(plan.brokers)
        if place == "broker":
            question = ListOffsetsRequest((), victim, TIMEOUT_MS)
            await self._judge(target, thief, victim, question, peers.call_broker(target, question, TIMEOUT_MS))
            return
        stream = peers.open_fetch_stream(target)
        try:
            wanted = FetchPartition(TopicPartition("topic-0", 0), "", FAR)
            fetch = FetchRequest(victim, -1, 0, 0, 1_000, (wanted,), ())
            stream.send(1, fetch)
            await self._judge(target, thief, victim, fetch, stream.receive())
        finally:
            stream.cancel()

    async def _judge(self, target: int, thief: int, victim: int, request: Any, answer: Any) -> None:
        what = f"{type(request).__name__} of node {thief} in the name of node {victim}"
        try:
            self._oracle.forged(target, what, await answer)
        except ClusterAuthorizationFailedError:
            self._oracle.count("forgeries refused")
        except (NetworkError, RequestTimedOutError):
            raise
        except ApiError as error:
            self._oracle.forged(target, what, error)

    def _of_quorum(self, victim: int, target: int) -> Sequence[raft.Request]:
        cluster_id, epoch = self._secured.cluster_id, self._oracle.newest.epoch
        return (
            raft.VoteRequest(cluster_id, epoch + 1, victim, target, epoch + 1, FAR, False),
            raft.VoteRequest(cluster_id, epoch, victim, target, epoch, FAR, True),
            raft.BeginQuorumEpochRequest(cluster_id, victim, epoch + 1, target),
            raft.EndQuorumEpochRequest(cluster_id, victim, epoch, (victim,)),
            raft.FetchMetadataRequest(cluster_id, victim, epoch, FAR, epoch, 0, 1_000),
            raft.FetchSnapshotRequest(cluster_id, victim, epoch, EpochEndOffset(1, 1), 0, 1_000),
        )

    def _of_controller(self, victim: int) -> Sequence[Any]:
        return (
            RegisterBrokerRequest(self._secured.cluster_id, victim, "thief", "10.6.6.6", 9192),
            BrokerHeartbeatRequest(self._secured.cluster_id, victim, FAR, FAR, want_shut_down=True),
            AlterPartitionRequest(victim, FAR),
            AllocateProducerIdsRequest(victim, FAR),
        )
