"""Every transport keeps the same promises: gRPC's and that of forked children on a loopback port, in plain text and
encrypted, and the fake's in virtual time."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.client.wire.channel import GrpcTransport, dns_target
from penstock.client.wire.http2_channel import Http2Transport
from penstock.client.wire.tls_files import Tls, TlsOptions, tls_of
from penstock.client.wire.transport import Channel, ClientTransport
from penstock.errors import (
    ApiError,
    NetworkError,
    NotControllerError,
    PolicyViolationError,
    RequestTimedOutError,
)
from penstock.types import Endpoint
from tests.support.certificates import TestCa
from tests.support.fake_network import FakeNetwork, ServedStream, Trailed
from tests.support.grpc_service import serve, server_credentials
from tests.support.virtual_time import run_virtual

CALL, STREAM = "/penstock.v1.Test/Call", "/penstock.v1.Test/Stream"
PATIENCE_MS = 60_000
MORE = (("penstock-test", "more"),)
SHORT_MS = 50


@dataclass
class Echo:
    """Answers with the request's own bytes; some words make it fail, hang or end."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: asyncio.Event = field(default_factory=asyncio.Event)

    def is_stream(self, method: str) -> bool:
        return method == STREAM

    async def _hang(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise

    async def call(self, method: str, request: bytes) -> bytes | Trailed:
        if request == b"fail":
            raise NotControllerError("ask another node")
        if request == b"hang":
            await self._hang()
        if request == b"more":
            return Trailed(request, MORE)
        if request == b"fail and more":
            return Trailed(NotControllerError("ask another node"), MORE)
        return request

    async def stream(self, method: str, stream: ServedStream) -> None:
        while (message := await stream.read()) != b"end":
            if message == b"fail":
                raise PolicyViolationError("not from here")
            if message == b"hang":
                await self._hang()
            await stream.write(message)


@dataclass
class Bench:
    """One peer and a channel to it; `leave` kills the peer."""

    echo: Echo
    transport: ClientTransport
    channel: Channel
    nowhere: Endpoint
    leave: Callable[[], Awaitable[None]]
    trailers: list[dict[str, str | bytes]]
    """The trailers of the channel's calls that have ended."""


Story = Callable[[Bench], Awaitable[None]]


def over_grpc(story: Story) -> None:
    over_a_port(story, GrpcTransport())


def over_http2(story: Story) -> None:
    over_a_port(story, Http2Transport())


def over_grpc_tls(story: Story) -> None:
    over_a_port(story, GrpcTransport(), *encrypted())


def over_http2_tls(story: Story) -> None:
    over_a_port(story, Http2Transport(), *encrypted())


def encrypted() -> tuple[Any, Tls]:
    """The credentials of a server, and those of clients that trust it."""
    with tempfile.NamedTemporaryFile() as ca:
        ca.write(TestCa().pem)
        ca.flush()
        return server_credentials(TestCa().node(1)), tls_of(TlsOptions(ca.name))


def over_a_port(story: Story, transport: ClientTransport, credentials: Any = None, tls: Tls | None = None) -> None:
    async def main() -> None:
        echo = Echo()
        server, port = await serve(echo, 0, credentials)
        gone, nowhere = await serve(Echo())
        await gone.stop(None)
        trailers: list[dict[str, str | bytes]] = []
        channel = transport.connect(
            Endpoint("127.0.0.1", port), tls, lambda trailer: trailers.append(dict(trailer or ()))
        )

        async def leave() -> None:
            await server.stop(None)

        try:
            async with asyncio.timeout(PATIENCE_MS / 1000):
                await story(Bench(echo, transport, channel, Endpoint("127.0.0.1", nowhere), leave, trailers))
        finally:
            await channel.close()
            await server.stop(None)

    asyncio.run(main())


def over_the_fake(story: Story) -> None:
    async def main() -> None:
        echo, network, here = Echo(), FakeNetwork(latency_ms=(1, 3)), Endpoint("node", 1)
        network.listen(here, echo)

        async def leave() -> None:
            network.leave(here)

        trailers: list[dict[str, str | bytes]] = []
        channel = network.connect(here, None, lambda trailer: trailers.append(dict(trailer or ())))
        try:
            async with asyncio.timeout(PATIENCE_MS / 1000):
                await story(Bench(echo, network, channel, Endpoint("node", 2), leave, trailers))
        finally:
            await channel.close()

    run_virtual(main())


WAYS = {
    "grpc": over_grpc,
    "http2": over_http2,
    "grpc-tls": over_grpc_tls,
    "http2-tls": over_http2_tls,
    "fake": over_the_fake,
}


@pytest.fixture(params=list(WAYS.values()), ids=list(WAYS))
def run(request: pytest.FixtureRequest) -> Callable[[Story], None]:
    """Tells a story over one of the transports."""
    return request.param  # type: ignore[no-any-return]


async def raised_by(work: Awaitable[object], error: type[ApiError], message: str | None = None) -> None:
    with pytest.raises(error, match=message) as raised:
        await work
    assert type(raised.value) is error


def test_a_call_is_answered_with_the_peers_bytes(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        for request in (b"a", b"", b"\xff" * 100_000):
            assert await bench.channel.call(CALL, request, PATIENCE_MS) == request

    run(story)


def test_calls_at_the_same_time_get_their_own_answers(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        requests = [b"%d" % n for n in range(20)]
        calls = [bench.channel.call(CALL, request, PATIENCE_MS) for request in requests]
        assert await asyncio.gather(*calls) == requests

    run(story)


def test_the_peers_error_is_raised_with_its_type_and_message(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        await raised_by(bench.channel.call(CALL, b"fail", PATIENCE_MS), NotControllerError, "ask another node")
        assert await bench.channel.call(CALL, b"a", PATIENCE_MS) == b"a", "the channel is as good as before"

    run(story)


def test_the_trailer_of_a_call_is_told_with_its_answer_and_with_its_error(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        await bench.channel.call(CALL, b"more", PATIENCE_MS)
        await raised_by(bench.channel.call(CALL, b"fail and more", PATIENCE_MS), NotControllerError)
        await bench.channel.call(CALL, b"a", PATIENCE_MS)
        assert [trailer.get("penstock-test") for trailer in bench.trailers] == ["more", "more", None]

    run(story)


def test_a_call_to_a_peer_that_hangs_ends_at_its_deadline(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        await raised_by(bench.channel.call(CALL, b"hang", SHORT_MS), RequestTimedOutError, "DEADLINE_EXCEEDED")
        assert await bench.channel.call(CALL, b"a", PATIENCE_MS) == b"a"

    run(story)


def test_a_cancelled_call_is_cancelled_at_the_peer_too(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        call = asyncio.ensure_future(bench.channel.call(CALL, b"hang", PATIENCE_MS))
        await bench.echo.begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await bench.echo.given_up.wait()

    run(story)


def test_nobody_there_is_a_network_error(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        channel = bench.transport.connect(bench.nowhere)
        await raised_by(channel.call(CALL, b"a", PATIENCE_MS), NetworkError, "UNAVAILABLE")
        await raised_by(channel.open_stream(STREAM).read(), NetworkError, "UNAVAILABLE")
        await channel.close()

    run(story)


def test_a_peer_that_dies_in_mid_call_is_a_network_error(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        call = asyncio.ensure_future(bench.channel.call(CALL, b"hang", PATIENCE_MS))
        await bench.echo.begun.wait()
        await bench.leave()
        await raised_by(call, NetworkError)

    run(story)


def test_a_stream_carries_messages_in_order_and_does_not_wait_for_answers(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        stream = bench.channel.open_stream(STREAM)
        messages = [b"%d" % n for n in range(50)]
        for message in messages:
            await stream.write(message)
        assert [await stream.read() for _ in messages] == messages
        stream.cancel()

    run(story)


def test_a_stream_that_ends_in_order_is_a_network_error_behind_its_last_message(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        stream = bench.channel.open_stream(STREAM)
        for message in (b"a", b"b", b"end"):
            await stream.write(message)
        assert [await stream.read(), await stream.read()] == [b"a", b"b"]
        await raised_by(stream.read(), NetworkError, "the broker closed the stream")
        await raised_by(stream.read(), NetworkError, "the broker closed the stream")
        await raised_by(stream.write(b"late"), NetworkError)

    run(story)


def test_a_stream_that_breaks_raises_the_peers_error_from_read_and_write(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        stream = bench.channel.open_stream(STREAM)
        await stream.write(b"fail")
        await raised_by(stream.read(), PolicyViolationError, "not from here")
        await raised_by(stream.write(b"late"), PolicyViolationError, "not from here")

    run(story)


def test_a_peer_that_dies_breaks_its_streams(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        stream = bench.channel.open_stream(STREAM)
        await stream.write(b"hang")
        await bench.echo.begun.wait()
        await bench.leave()
        await raised_by(stream.read(), NetworkError)

    run(story)


def test_a_cancelled_stream_wakes_its_reader_and_the_peer(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        stream = bench.channel.open_stream(STREAM)
        await stream.write(b"hang")
        reader = asyncio.ensure_future(stream.read())
        await bench.echo.begun.wait()
        assert not reader.done(), "a stream has no deadline of its own"
        stream.cancel()
        await raised_by(reader, NetworkError, "the call was cancelled")
        await bench.echo.given_up.wait()

    run(story)


def test_a_task_that_is_cancelled_while_it_reads_is_cancelled(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        stream = bench.channel.open_stream(STREAM)
        await stream.write(b"hang")
        reader = asyncio.ensure_future(stream.read())
        await bench.echo.begun.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        stream.cancel()

    run(story)


def test_a_channel_knows_that_its_connection_is_lost(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        assert not bench.channel.is_connected
        await bench.channel.call(CALL, b"a", PATIENCE_MS)
        assert bench.channel.is_connected
        await bench.leave()
        for _ in range(PATIENCE_MS // 10):
            if not bench.channel.is_connected:
                return
            await asyncio.sleep(0.01)
        raise TimeoutError

    run(story)


def test_closing_a_channel_ends_what_waits(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        stream = bench.channel.open_stream(STREAM)
        await stream.write(b"a")
        assert await stream.read() == b"a"
        waiting = [
            asyncio.ensure_future(stream.read()),
            asyncio.ensure_future(bench.channel.call(CALL, b"hang", PATIENCE_MS)),
        ]
        await bench.echo.begun.wait()
        await bench.channel.close()
        for work in waiting:
            await raised_by(work, NetworkError)

    run(story)


def test_one_channel_knows_nothing_of_another(run: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        broken = bench.transport.connect(bench.nowhere)
        await raised_by(broken.call(CALL, b"a", PATIENCE_MS), NetworkError)
        await broken.close()
        await raised_by(bench.channel.call(CALL, b"fail", PATIENCE_MS), NotControllerError)
        assert await bench.channel.call(CALL, b"a", PATIENCE_MS) == b"a"

    run(story)


@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        (Endpoint("dns", 9192), "dns:///dns:9192"),
        (Endpoint("unix", 9192), "dns:///unix:9192"),
        (Endpoint("127.0.0.1", 9192), "dns:///127.0.0.1:9192"),
        (Endpoint("::1", 9192), "dns:///[::1]:9192"),
        (Endpoint("fe80::1%eth0", 9192), "dns:///[fe80::1%25eth0]:9192"),
    ],
)
def test_a_host_is_never_taken_for_a_scheme(endpoint: Endpoint, target: str) -> None:
    assert dns_target(endpoint) == target


def test_names_are_looked_up_as_every_other_program_does() -> None:
    assert os.environ["GRPC_DNS_RESOLVER"] == "native"
