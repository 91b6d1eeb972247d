"""Metadata older than metadata_max_age_ms is asked for again, by every client, though nothing fails."""

from __future__ import annotations

import asyncio

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.consumer.fetching.fetcher import Fetcher
from penstock.client.consumer.fetching.positions import Positions
from penstock.client.options.config import ConsumerConfig, consumer_config
from penstock.types import TopicPartition
from tests.support.client_environment import buffer_of, fake_environment, nothing
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual

TP = TopicPartition(TOPIC, 0)
MAX_AGE_MS = 10_000


def reader_config(max_age_ms: int = MAX_AGE_MS) -> ConsumerConfig:
    """A fetch may wait for longer than metadata is kept, so that nothing else has the metadata asked for."""
    return consumer_config({"metadata_max_age_ms": max_age_ms, "fetch_max_wait_ms": 100 * MAX_AGE_MS})


def connected(nodes: FakeNodes, config: ConsumerConfig) -> ClusterClient:
    return ClusterClient(nodes.bootstrap, config, fake_environment(nodes.network))


def test_a_reader_to_whom_nothing_fails_notices_a_new_leader_and_a_new_partition() -> None:
    async def scenario() -> None:
        nodes, config = FakeNodes({0: 1}, 2), reader_config()
        cluster = connected(nodes, config)
        fetcher = Fetcher(cluster, Positions("earliest", cluster.backoff), buffer_of(1 << 20), config, nothing)
        await fetcher.assign([TP])
        await asyncio.sleep(0.5)  # its fetch waits at node 1, which has nothing to tell
        nodes.elect(0, 2)
        nodes.add_partition(1, leader=1)
        await asyncio.sleep(MAX_AGE_MS / 1000 - 2)
        assert "brokers=[1]" in repr(fetcher)
        await asyncio.sleep(2)
        assert "brokers=[2]" in repr(fetcher)
        assert len((await cluster.topic(TOPIC, 1)).partitions) == 2
        await fetcher.close()
        await cluster.close()

    run_virtual(scenario())


def test_metadata_is_asked_for_once_in_every_max_age() -> None:
    async def scenario() -> list[int]:
        nodes = FakeNodes({0: 1}, 2)
        cluster = connected(nodes, reader_config())
        await cluster.topic(TOPIC, 1_000)
        nodes.forget_asked()
        await asyncio.sleep(5.5 * MAX_AGE_MS / 1000)
        asked = list(nodes.asked)
        await cluster.close()
        nodes.forget_asked()
        await asyncio.sleep(5 * MAX_AGE_MS / 1000)
        assert nodes.asked == [], "a closed client asks nobody"
        return asked

    assert len(run_virtual(scenario())) == 5


def test_an_age_shorter_than_the_back_off_ends_too() -> None:
    async def scenario() -> int:
        nodes = FakeNodes({0: 1}, 2)
        cluster = connected(nodes, reader_config(max_age_ms=1))
        await cluster.topic(TOPIC, 1_000)
        nodes.forget_asked()
        await asyncio.sleep(10)
        await cluster.close()
        return len(nodes.asked)

    assert 50 <= run_virtual(scenario()) <= 150, "once in retry_backoff_ms, which is 100"
