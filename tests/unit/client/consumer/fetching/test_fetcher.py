"""A broker of which something is wanted is asked: a fetcher says which it neglects, and a touch ends that."""

from __future__ import annotations

import asyncio

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.consumer.fetching.fetcher import Fetcher
from penstock.client.consumer.fetching.positions import Positions
from penstock.client.options.config import consumer_config
from penstock.types import TopicPartition
from tests.support.client_environment import buffer_of, fake_environment, nothing
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual

TP = TopicPartition(TOPIC, 0)


def test_a_broker_is_neglected_from_a_change_that_nobody_tells_to_the_next_touch() -> None:
    async def scenario() -> None:
        nodes, config = FakeNodes({0: 1}, 2), consumer_config({"fetch_max_wait_ms": 100})
        cluster = ClusterClient(nodes.bootstrap, config, fake_environment(nodes.network))
        positions = Positions("earliest", cluster.backoff)
        fetcher = Fetcher(cluster, positions, buffer_of(1 << 20), config, nothing)
        await fetcher.assign([TP])
        await asyncio.sleep(1)
        assert not fetcher.neglected, "it asks again and again"
        positions.states[TP].paused = True
        await asyncio.sleep(1)
        assert not fetcher.neglected, "nothing is wanted"
        positions.states[TP].paused = False
        await asyncio.sleep(1)
        assert fetcher.neglected == {1}
        fetcher.touch()
        assert not fetcher.neglected
        nodes.elect(0, 2)
        cluster.refresh_soon()
        await asyncio.sleep(1)
        assert not fetcher.neglected, "the new leader is asked"
        await fetcher.close()
        await cluster.close()

    run_virtual(scenario())
