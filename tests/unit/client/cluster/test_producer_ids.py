"""A client gets a producer id from any broker, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.client.cluster.any_node import SILENCE_MS
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.producer_ids import init_producer_id
from penstock.client.options.config import ConnectionConfig
from penstock.errors import (
    BootstrapError,
    NetworkError,
    RequestTimedOutError,
    ResourceExhaustedError,
    TimedOutError,
    UnsupportedVersionError,
)
from penstock.types import ProducerIdAndEpoch
from tests.support.client_environment import fake_environment
from tests.support.fake_nodes import FakeNodes
from tests.support.virtual_time import run_virtual

CONFIG = ConnectionConfig(request_timeout_ms=60_000, bootstrap_timeout_ms=1_000)
LIMIT_MS = 5_000


async def ask(cluster: ClusterClient) -> ProducerIdAndEpoch:
    return await init_producer_id(cluster, cluster.clock.now_ms() + LIMIT_MS)


def with_cluster(story: Callable[[FakeNodes, ClusterClient], Awaitable[None]]) -> None:
    async def run() -> None:
        nodes = FakeNodes({0: 1}, 3)
        cluster = ClusterClient(nodes.bootstrap, CONFIG, fake_environment(nodes.network))
        try:
            await story(nodes, cluster)
        finally:
            await cluster.close()

    run_virtual(run())


def test_each_call_brings_an_id_of_its_own_in_epoch_0() -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient) -> None:
        assert await asyncio.gather(*(ask(cluster) for _ in range(3))) == [(0, 0), (1, 0), (2, 0)]

    with_cluster(story)


@pytest.mark.parametrize(
    "refusal",
    [
        NetworkError("the connection broke"),
        RequestTimedOutError("this broker got no block of producer ids"),
        ResourceExhaustedError("1000 requests wait for a block already"),
    ],
    ids=lambda refusal: refusal.kafka_name,
)
def test_a_broker_that_has_no_id_is_left_for_the_next_one(refusal: NetworkError) -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient) -> None:
        nodes.cluster.producer_id_refusals += [refusal] * 4
        assert (await ask(cluster)).producer_id == 0
        asked = [port for port, method in nodes.network.asked if method.endswith("/InitProducerId")]
        assert len(asked) == 5 and set(asked) == {1, 2, 3}

    with_cluster(story)


def test_a_broker_that_is_silent_holds_up_the_call_no_longer_than_half_a_second() -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient) -> None:
        await cluster.wait_ready()
        for hung in (1, 2, 3):
            nodes.hang(hung)
            began_ms = cluster.clock.now_ms()
            await ask(cluster)
            assert cluster.clock.now_ms() - began_ms <= SILENCE_MS
            nodes.resume(hung)

    with_cluster(story)


def test_without_an_id_in_time_the_last_error_is_raised() -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient) -> None:
        await cluster.wait_ready()
        began_ms = cluster.clock.now_ms()
        nodes.cluster.producer_id_refusals += [ResourceExhaustedError("too many wait")] * 100
        with pytest.raises(ResourceExhaustedError, match="too many wait"):
            await ask(cluster)
        nodes.cluster.producer_id_refusals.clear()
        for node_id in (1, 2, 3):
            nodes.cluster.stop_node(node_id)
        with pytest.raises(TimedOutError, match="no broker answered in time"):
            await ask(cluster)
        assert cluster.clock.now_ms() - began_ms <= 2 * LIMIT_MS

    with_cluster(story)


def test_an_error_that_no_retry_mends_is_raised_at_once() -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient) -> None:
        nodes.cluster.producer_id_refusals.append(UnsupportedVersionError("an older node"))
        with pytest.raises(UnsupportedVersionError, match="an older node"):
            await ask(cluster)
        assert nodes.cluster.producer_ids_given == 0

    with_cluster(story)


def test_a_client_that_reaches_nobody_says_so() -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient) -> None:
        for node_id in (1, 2, 3):
            nodes.cluster.stop_node(node_id)
        with pytest.raises(BootstrapError):
            await ask(cluster)

    with_cluster(story)
