"""Promises of a listener of Kafka's protocol over real sockets, on the loop that a node has."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import uvloop

from broker.kafka.connection.bound_sockets import BoundSockets, bind_on_loop
from broker.kafka.connection.frame_connection import FrameConnection
from broker.kafka.connection.kafka_listener import Bind, BoundAddress
from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker.network.request_channel import Request
from penstock.errors import ConfigError
from penstock.types import Endpoint
from tests.support.kafka_listener import LIMITS, VERSION, ListenerBench, answer_in, frame, metadata

MIB = 1 << 20


class Port:
    """Binds, and tells the port that it got."""

    def __init__(self) -> None:
        self.number = 0

    async def bind(self, protocol: Callable[[], FrameConnection], endpoint: Endpoint) -> BoundAddress:
        address = await bind_on_loop(protocol, Endpoint(endpoint.host, self.number))
        self.number = address._sockets[0].getsockname()[1]
        return address


class Client:
    """A client at the port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self) -> tuple[int, str | None]:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        number, response = answer_in(memoryview(await self.reader.readexactly(size)), MetadataResponse, VERSION)
        return number, response.cluster_id

    async def over(self) -> bool:
        """The node has ended the connection."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True
        finally:
            self.close()

    def close(self) -> None:
        self.writer.close()


async def connect(port: Port) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", port.number))


async def opened(bench: ListenerBench) -> None:
    """The listener listens when this returns."""
    bench.listener.open()
    address = bench.listener._address
    assert isinstance(address, BoundSockets)
    await until(lambda: address._servers)


async def until(holds: Callable[[], object]) -> None:
    """Sockets take their time."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.002)


def run(scenario: Callable[[ListenerBench, Port], Awaitable[None]], bench_of: Callable[[Bind], ListenerBench]) -> None:
    async def main() -> None:
        port = Port()
        bench = bench_of(port.bind)
        bench.dispatcher.start()
        await bench.listener.start()
        try:
            async with asyncio.timeout(60):
                await scenario(bench, port)
        finally:
            await bench.listener.stop()
            await bench.dispatcher.stop()
        bench.check_all_is_given_back()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_requests_of_any_size_are_answered_in_order_to_several_clients() -> None:
    async def scenario(bench: ListenerBench, port: Port) -> None:
        await opened(bench)
        clients = [await connect(port) for _ in range(3)]
        name = "x" * 30_000
        for client in clients:
            topics = [MetadataRequestTopic(name=name) for _ in range(8)]
            large = frame(MetadataRequest(topics=topics), VERSION, 2)
            client.writer.write(metadata(1, "first") + large + metadata(3) + large[:5])
            await client.writer.drain()
            client.writer.write(large[5:])
        for client in clients:
            assert [await client.answer() for _ in range(4)] == [(1, "first"), (2, name), (3, "none"), (2, name)]
            client.close()

    limits = replace(LIMITS, message_bytes_max=4 * MIB)
    run(scenario, lambda bind: ListenerBench(limits=limits, bind=bind))


def test_nobody_is_accepted_before_the_node_has_caught_up() -> None:
    async def scenario(bench: ListenerBench, port: Port) -> None:
        with pytest.raises(ConnectionRefusedError):
            await connect(port)
        await opened(bench)
        client = await connect(port)
        client.writer.write(metadata(1))
        assert await client.answer() == (1, "none")
        (served,) = bench.listener._open.values()
        accepted = served.connection._transport.get_extra_info("socket")  # type: ignore[union-attr]
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), "a client that vanishes is noticed"
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "an answer waits for nothing"
        client.close()

    run(scenario, lambda bind: ListenerBench(bind=bind))


def test_a_port_where_another_process_listens_is_named_at_the_start() -> None:
    async def scenario(bench: ListenerBench, port: Port) -> None:
        await opened(bench)
        with pytest.raises(ConfigError, match=r"KAFKA cannot listen on .* the address is in use"):
            await ListenerBench(bind=port.bind).listener.start()

    run(scenario, lambda bind: ListenerBench(bind=bind))


def test_a_node_that_finds_its_port_taken_when_it_is_ready_ends_with_that_reason() -> None:
    async def scenario(bench: ListenerBench, port: Port) -> None:
        late = ListenerBench(bind=port.bind)
        await late.listener.start()
        await opened(bench)
        late.listener.open()
        await until(lambda: late.fatal)
        assert isinstance(late.fatal[0], ConfigError) and "the address is in use" in str(late.fatal[0])
        await late.listener.stop()

    run(scenario, lambda bind: ListenerBench(bind=bind))


def test_a_connection_over_a_limit_is_closed_at_once() -> None:
    async def scenario(bench: ListenerBench, port: Port) -> None:
        await opened(bench)
        clients = [await connect(port) for _ in range(3)]
        assert await clients[2].over()
        for client in clients[:2]:
            client.writer.write(metadata(1))
            assert await client.answer() == (1, "none")
            client.close()
        assert bench.listener.statistics().cut_over_limit == 1

    run(scenario, lambda bind: ListenerBench(limits=replace(LIMITS, connections_max_per_ip=2), bind=bind))


def test_a_stop_takes_nothing_more_and_lets_what_was_taken_finish() -> None:
    held: list[Request] = []

    async def scenario(bench: ListenerBench, port: Port) -> None:
        await opened(bench)
        client, silent = await connect(port), await connect(port)
        client.writer.write(metadata(1, "taken"))
        await until(lambda: held)
        stopping = asyncio.ensure_future(bench.listener.stop())
        await asyncio.sleep(0)
        assert await silent.over()
        with pytest.raises(ConnectionRefusedError):
            await connect(port)
        held[0].complete("finished")
        assert await client.answer() == (1, "finished") and await client.over()
        await stopping

    run(scenario, lambda bind: ListenerBench(held.append, bind=bind))


def test_a_client_that_never_reads_stops_its_own_connection_alone() -> None:
    """Its answers stay in the sockets' buffers and one in ours; no more of it is read."""

    async def scenario(bench: ListenerBench, port: Port) -> None:
        await opened(bench)
        greedy, other = await connect(port), await connect(port)
        greedy.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        greedy.reader._transport.pause_reading()  # type: ignore[attr-defined]
        greedy.writer.write(metadata(1, "x" * 32_000) * 2_000)
        other.writer.write(metadata(1, "a"))
        assert await other.answer() == (1, "a")
        await until(lambda: any(served.stands_since_ms(1) for served in bench.listener._open.values()))
        bench.clock.advance(LIMITS.write_stall_ms_max)
        bench.listener.sweep(bench.clock.now_ms())
        bench.clock.advance(LIMITS.write_stall_ms_max + 1)
        bench.listener.sweep(bench.clock.now_ms())
        await until(lambda: bench.listener.statistics().open == 1)
        assert bench.listener.statistics().cut_stalled == 1
        assert len(bench.sent) < 1_000, "most of it was not read"
        for client in (greedy, other):
            client.close()

    run(scenario, lambda bind: ListenerBench(bind=bind))


def test_one_port_serves_ipv4_and_ipv6_by_two_listeners() -> None:
    """Each socket takes its own family alone, also at every address of the machine."""

    async def main() -> None:
        first = await bind_on_loop(asyncio.Protocol, Endpoint("0.0.0.0", 0))
        port = first._sockets[0].getsockname()[1]
        try:
            second = await bind_on_loop(asyncio.Protocol, Endpoint("::", port))
            await first.listen()
            await second.listen()
            second.close()
        finally:
            first.close()

    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
