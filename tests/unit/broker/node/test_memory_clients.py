"""The clients that users import, and three whole nodes, in one event loop of virtual time: both seams meet."""

from __future__ import annotations

from typing import Any

from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from tests.support.client_environment import fake_environment
from tests.support.fake_network import FakeNetwork
from tests.support.memory_cluster import MemoryCluster, run_in_memory
from tests.support.node_service import open_to_clients

RECORDS = 30


async def produced_and_read(cluster: MemoryCluster) -> list[Any]:
    """The acked records as a consumer reads them, the time when it had them, and the calls of all clients."""
    cluster.format()
    await cluster.start()
    network = FakeNetwork(seed=cluster.random.getrandbits(32), latency_ms=(0, 2))
    open_to_clients(cluster, network)
    environment = fake_environment(network)
    bootstrap = ",".join(str(cluster.endpoint(index)) for index in range(3))
    async with (
        AsyncAdmin(bootstrap, environment=environment) as admin,
        AsyncProducer(bootstrap, environment=environment, acks="all", linger_ms=1) as producer,
        AsyncConsumer(bootstrap, environment=environment, auto_offset_reset="earliest") as consumer,
    ):
        await admin.create_topic("orders", partitions=1)
        for number in range(RECORDS):
            assert (await (await producer.send("orders", b"%d" % number))).offset == number
        await consumer.assign([TopicPartition("orders", 0)])
        found: list[Any] = []
        while len(found) < RECORDS:
            found += [(record.offset, record.value) for record in await consumer.poll(1_000)]
        assert found == [(number, b"%d" % number) for number in range(RECORDS)]
        found.append(environment.clock.now_ms())
    await cluster.stop()
    return found + network.asked


def test_clients_create_produce_and_read_through_three_nodes_and_a_seed_is_the_story() -> None:
    first = run_in_memory(1, produced_and_read)
    assert first == run_in_memory(1, produced_and_read)
    assert first != run_in_memory(2, produced_and_read)
