"""A client that is answered by another cluster says so: an address that moved would otherwise look like lost data."""

from __future__ import annotations

import logging

import pytest

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.options.config import consumer_config
from tests.support.client_environment import fake_environment
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual


def test_each_change_of_the_cluster_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        nodes = FakeNodes({0: 1}, 2)
        cluster = ClusterClient(nodes.bootstrap, consumer_config({}), fake_environment(nodes.network))
        await cluster.refresh((TOPIC,))
        assert caplog.messages == []
        nodes.cluster.cluster_id = "other"
        for _ in range(3):
            await cluster.refresh((TOPIC,))
        nodes.cluster.cluster_id = "fake"
        await cluster.refresh((TOPIC,))
        await cluster.close()

    with caplog.at_level(logging.WARNING, "penstock.client"):
        run_virtual(scenario())
    assert caplog.messages == [
        "the cluster behind bootstrap fake:1,fake:2 was fake and is other now: if it was not replaced on purpose, the"
        " addresses lead to two clusters",
        "the cluster behind bootstrap fake:1,fake:2 was other and is fake now: if it was not replaced on purpose, the"
        " addresses lead to two clusters",
    ]
