"""Every broker gets another address, and only the bootstrap address (a forwarder, a name) leads to the new ones:
clients that live on ask it again (KIP-899). And a first contact that comes before its broker waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from penstock.errors import BootstrapError
from penstock.types import Endpoint
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_network import FakeNetwork
from tests.support.fake_node import FakeNode
from tests.support.virtual_time import run_virtual, virtual_clock

TP = TopicPartition("t", 0)
FORWARDER = Endpoint("boot", 100)
RECOVERY_MS = 5_000

C = TypeVar("C")


class Moving:
    """A cluster behind a forwarder."""

    def __init__(self, nodes: int) -> None:
        self.network = FakeNetwork()
        self.cluster = FakeCluster(nodes, host=MemoryHost(self.network)).__enter__()
        self.cluster.create_topic("t")
        self.network.listen(FORWARDER, FakeNode(self.cluster, 1))

    def move(self) -> None:
        """All nodes end, and start anew at addresses that only the forwarder knows."""
        for node_id in self.cluster.node_ids:
            self.cluster.stop_node(node_id)
            self.cluster.endpoints[node_id] = Endpoint("moved", node_id)
            self.cluster.start_node(node_id)

    def client(self, kind: Callable[..., C], **options: Any) -> C:
        return kind(str(FORWARDER), environment=fake_environment(self.network), **options)


def played(story: Callable[[Moving], Awaitable[None]], nodes: int = 1) -> None:
    async def run() -> None:
        await story(Moving(nodes))

    run_virtual(run())


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("refreshes", range(4))
def test_a_producer_goes_on(nodes: int, refreshes: int) -> None:
    async def story(moving: Moving) -> None:
        async with moving.client(AsyncProducer, linger_ms=0) as producer:
            await (await producer.send("t", b"1"))
            for _ in range(refreshes):
                await producer._core.cluster.refresh()
            moving.move()
            began_ms = virtual_clock().now_ms()
            assert (await (await producer.send("t", b"2"))).offset == 1
            assert virtual_clock().now_ms() - began_ms < RECOVERY_MS

    played(story, nodes)


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("refreshes", range(4))
def test_a_consumer_goes_on_and_says_meanwhile_which_broker_it_cannot_reach(nodes: int, refreshes: int) -> None:
    async def story(moving: Moving) -> None:
        async with (
            moving.client(AsyncConsumer, auto_offset_reset="earliest") as consumer,
            moving.client(AsyncProducer, linger_ms=0) as producer,
        ):
            await (await producer.send("t", b"1"))
            await consumer.assign([TP])
            assert len(await consumer.poll(timeout_ms=1_000)) == 1
            for _ in range(refreshes):
                await consumer._core.cluster.refresh()
            moving.network.leave(FORWARDER)
            moving.move()
            await asyncio.sleep(3)
            (waiting,) = await consumer.waiting_for()
            assert waiting.partitions == (TP,)
            assert f"broker 1 at {Endpoint('fake', 1)}" in waiting.reason and "nobody listens" in waiting.reason
            moving.network.listen(FORWARDER, FakeNode(moving.cluster, 1))
            await (await producer.send("t", b"2"))
            assert [r.value for r in await consumer.poll(timeout_ms=RECOVERY_MS)] == [b"2"]
            assert await consumer.waiting_for() == ()

    played(story, nodes)


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("refreshes", range(4))
def test_an_admin_goes_on(nodes: int, refreshes: int) -> None:
    async def story(moving: Moving) -> None:
        async with moving.client(AsyncAdmin, default_api_timeout_ms=RECOVERY_MS) as admin:
            for _ in range(refreshes):
                await admin.list_topics()
            moving.move()
            assert (await admin.describe_topic("t")).partitions[0].leader_id == 1
            assert (await admin.list_offsets([TP]))[TP].offset == 0

    played(story, nodes)


def test_the_first_contact_waits_for_a_broker_that_is_not_there_yet() -> None:
    async def story(moving: Moving) -> None:
        moving.network.leave(FORWARDER)
        loop = asyncio.get_running_loop()
        loop.call_later(8, moving.network.listen, FORWARDER, FakeNode(moving.cluster, 1))
        began_ms = virtual_clock().now_ms()
        async with moving.client(AsyncProducer, linger_ms=0) as producer:
            assert (await (await producer.send("t", b"1"))).offset == 0
        assert 8_000 <= virtual_clock().now_ms() - began_ms <= 9_000 + 500

    played(story)


def test_a_broker_that_never_comes_is_waited_for_exactly_as_long_as_was_said() -> None:
    async def story(moving: Moving) -> None:
        moving.network.leave(FORWARDER)
        producer = moving.client(AsyncProducer, bootstrap_timeout_ms=4_000)
        began_ms = virtual_clock().now_ms()
        with pytest.raises(BootstrapError, match=f"{FORWARDER}: UNAVAILABLE"):
            await producer.start()
        assert virtual_clock().now_ms() - began_ms in (4_000, 4_001)
        moving.network.listen(FORWARDER, FakeNode(moving.cluster, 1))
        await producer.start()  # asked anew, the client makes another attempt
        await producer.close()

    played(story)
