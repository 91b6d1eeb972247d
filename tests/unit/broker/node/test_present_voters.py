"""The parts of a real node around the quorum ask it for the voters: its way to other nodes, and its listeners."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.config.node_config import NodeConfig
from broker.network.listeners import BrokerListeners, BrokerService, ControllerService, Listener, NodeListeners
from broker.node.environment import Environment
from penstock.errors import NetworkError
from raft.messages import VoteRequest
from raft.quorum_state import QuorumState
from tests.support.memory_cluster import MemoryCluster, run_in_memory
from tests.support.voters import voters_at

VOTE = VoteRequest("another", 1, 0, 7, 0, 0, pre_vote=True)


class NotedListeners:
    """Listeners that keep the service for which they were made."""

    service: BrokerService

    def __init__(self, listeners: NodeListeners) -> None:
        self._listeners = listeners

    def broker(self, config: NodeConfig, service: BrokerService) -> BrokerListeners:
        self.service = service
        return self._listeners.broker(config, service)

    def controller(self, config: NodeConfig, service: ControllerService) -> Listener:
        return self._listeners.controller(config, service)


def test_a_changed_set_of_voters_reaches_every_part_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        environment = cluster.environment(0)
        listeners = NotedListeners(environment.listeners)
        whole: Environment = replace(environment, listeners=listeners)
        monkeypatch.setattr(cluster, "environment", lambda index: whole)
        await cluster.start()
        (node,) = cluster.nodes
        assert listeners.service.voters() == node.raft.voters == node.config.first_voters
        with pytest.raises(NetworkError, match="the address of controller 7 is not known here"):
            await node.quorum.peers.send(7, VOTE, 1_000)

        changed = voters_at(0, 7)
        monkeypatch.setattr(QuorumState, "voters", property(lambda state: changed))

        assert listeners.service.voters() is node.raft.voters is changed
        with pytest.raises(NetworkError, match="controller 7 at host-7:9193"):
            await node.quorum.peers.send(7, VOTE, 1_000)
        monkeypatch.undo()
        await cluster.stop()

    run_in_memory(1, story, nodes=1)
