"""Promises of a node whose listeners speak both protocols: they start, open and stop as one, and are counted as one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from broker.config.config import parse_config
from broker.config.node_config import NodeConfig
from broker.connections.listener_limits import shared_by_clients
from broker.grpc.grpc_listeners import GrpcListeners
from broker.kafka.api_rows import api_rows
from broker.kafka.kafka_listeners import KafkaListeners
from broker.kafka.parts import PlanParts
from broker.kafka.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.kafka_codec.structs import facts_of
from broker.load.busy_time import BusyTimes
from broker.network.listeners import BrokerListeners, BrokerService
from broker.network.request_channel import RequestChannel
from broker.network.request_memory import RequestMemory
from broker.node.both_protocols import BothProtocols, JoinedListeners
from penstock.clock import SystemClock
from penstock.testing.layout import new_layout
from tests.support.kafka_listener import answer_in, frame, no_session
from tests.support.machine import NOW_NS, THREADS

ASK_NOTHING = ("CreateAcls", "DeleteAcls")
"""They have the same answer always, so nothing can fail."""
CLOCK = SystemClock()
PROTOCOLS = BothProtocols(GrpcListeners(CLOCK, THREADS), lambda config, service: KafkaListeners(config, service, CLOCK))


def a_free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def service_of(config: NodeConfig) -> BrokerService:
    channel, memory = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS), RequestMemory(1 << 20)
    return BrokerService(
        channel=channel,
        new_session=no_session,
        prepare=lambda request: None,
        client_requests=memory,
        node_requests=memory,
        client_connections_max=100,
        node_connections_max=100,
        shared=shared_by_clients(config, 100),
    )


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A listener begins to listen soon after it was opened."""
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.002)


def run(scenario: Callable[[BrokerListeners, BrokerService, int], Awaitable[None]], directory: Path) -> None:
    async def main() -> None:
        given = new_layout(directory, 1, None).node_config(0)
        port = a_free_port()
        outside = [name for name in given["listeners"] if not name.startswith("KAFKA:")]
        config = parse_config({**given, "listeners": [*outside, f"KAFKA://127.0.0.1:{port}"]})
        service = service_of(config)
        listeners = PROTOCOLS.broker(config, service)
        await listeners.start()
        try:
            async with asyncio.timeout(60):
                await scenario(listeners, service, port)
        finally:
            await listeners.stop()

    asyncio.run(main())


def test_the_listeners_of_both_protocols_are_one_set(tmp_path: Path) -> None:
    async def scenario(listeners: BrokerListeners, service: BrokerService, port: int) -> None:
        listeners.open()
        await listeners.serving(True)
        assert list(listeners.connections) == ["BROKER", "INTERNAL", "KAFKA"]
        assert listeners.clients is service.names
        reader, writer = await connected(port)
        asked = ApiVersionsRequest(client_software_name="kcat", client_software_version="1.7.1")
        writer.write(frame(asked, 3, 7))
        size = int.from_bytes(await reader.readexactly(4), "big")
        number, answer = answer_in(memoryview(await reader.readexactly(size)), ApiVersionsResponse, 3)
        assert number == 7 and answer.error_code == 0
        assert listeners.connections["KAFKA"].statistics().open == 1
        assert listeners.clients.software.statistics()["kcat", "1.7.1"] == 1
        assert listeners.decoders.received_bytes()["ApiVersions"] == len(frame(asked, 3)) - 4
        writer.close()

    run(scenario, tmp_path)


def test_a_node_without_a_listener_of_kafkas_protocol_has_grpc_alone(tmp_path: Path) -> None:
    given = new_layout(tmp_path, 1, None).node_config(0)
    outside = [name for name in given["listeners"] if not name.startswith("KAFKA:")]
    config = parse_config({**given, "listeners": outside})

    async def main() -> None:
        assert not isinstance(PROTOCOLS.broker(config, service_of(config)), JoinedListeners)

    asyncio.run(main())


def test_every_api_that_is_advertised_can_be_read_written_and_failed_in_every_version(tmp_path: Path) -> None:
    """An answer without a place for an error needs a function of its own; without it a failure ends the connection."""
    config = parse_config(new_layout(tmp_path, 1, None).node_config(0))

    async def main() -> None:
        for key, row in api_rows(PlanParts(config, service_of(config))).items():
            request, response = facts_of(row.request), facts_of(row.response)
            assert (request.key, response.key) == (key, key) and request.name == f"{row.name}Request"
            first, last = row.versions
            assert all(one in of for one in (first, last) for of in (request.versions, response.versions))
            if row.failed is None and row.name not in ASK_NOTHING:
                place = dict(response.fields)["error_code"].versions
                assert all(version in place for version in range(first, last + 1)), row.name

    asyncio.run(main())
