"""Whoever has still to log in is waited for briefly, and in few places, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, cast

import grpc.aio
import pytest

from broker.connections.accepted_sockets import AcceptedSockets
from broker.grpc.incoming.early_reads import SECONDS_MAX, WATCHED_MAX, EarlyReads
from penstock.errors import ResourceExhaustedError
from penstock.types import Endpoint
from tests.support.virtual_time import run_virtual

HERE = Endpoint("10.0.0.1", 4711)


class Call:
    """A call whose message comes when `arrives` is called."""

    def __init__(self) -> None:
        self._message: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def read(self) -> bytes:
        return await self._message

    def arrives(self) -> None:
        self._message.set_result(b"whole")

    @property
    def is_given_up(self) -> bool:
        return self._message.cancelled()


class Bench:
    def __init__(self) -> None:
        self.known: set[Endpoint] = set()
        self.early_reads = EarlyReads("OUTSIDE", self.known.__contains__)

    def begin(self, peer: Endpoint = HERE) -> tuple[Call, asyncio.Future[Any]]:
        call = Call()
        return call, asyncio.ensure_future(self.early_reads.read(cast(grpc.aio.ServicerContext, call), peer))


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtual(scenario())


async def refused(reading: Awaitable[Any], why: str) -> None:
    with pytest.raises(ResourceExhaustedError, match=why):
        await reading


def test_a_message_that_comes_with_its_call_is_read_and_nothing_is_looked_at() -> None:
    async def scenario() -> None:
        bench = Bench()
        call, reading = bench.begin()
        call.arrives()
        assert await reading == b"whole" and not bench.early_reads._watched

    run(scenario)


def test_a_small_message_may_be_late() -> None:
    async def scenario() -> None:
        bench = Bench()
        call, reading = bench.begin()
        await asyncio.sleep(SECONDS_MAX / 2)
        call.arrives()
        assert await reading == b"whole"

    run(scenario)


def test_a_message_that_never_comes_is_not_waited_for() -> None:
    async def scenario() -> None:
        call, reading = Bench().begin()
        await refused(reading, "has not come within 10 s")
        assert call.is_given_up

    run(scenario)


def test_a_connection_by_which_somebody_is_logged_in_is_not_watched() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.known.add(HERE)
        call, reading = bench.begin()
        await asyncio.sleep(2 * SECONDS_MAX)
        call.arrives()
        assert await reading == b"whole"

    run(scenario)


def test_a_watch_ends_with_the_log_in() -> None:
    """A stream of reflection, say, which asks on an hour later."""

    async def scenario() -> None:
        bench = Bench()
        call, reading = bench.begin()
        await asyncio.sleep(1)
        bench.known.add(HERE)
        await asyncio.sleep(2 * SECONDS_MAX)
        call.arrives()
        assert await reading == b"whole"

    run(scenario)


def test_a_connection_has_one_message_that_is_waited_for() -> None:
    async def scenario() -> None:
        bench = Bench()
        _, first = bench.begin()
        await asyncio.sleep(1)
        _, second = bench.begin()
        await refused(second, "is being waited for already")
        assert not first.done()
        first.cancel()

    run(scenario)


def test_whoever_holds_many_places_gives_one_to_a_newcomer() -> None:
    async def scenario() -> None:
        bench = Bench()
        alone = bench.begin(Endpoint("10.0.0.9", 1))
        await asyncio.sleep(1)
        many = [bench.begin(Endpoint("10.0.0.2", port)) for port in range(1, WATCHED_MAX)]
        await asyncio.sleep(1)
        newcomer = bench.begin(HERE)
        await refused(many[0][1], "too many messages")
        await asyncio.sleep(1)
        for call, reading in (alone, newcomer, *many[1:]):
            call.arrives()
            assert await reading == b"whole"
        assert not bench.early_reads._watched

    run(scenario)


def test_the_addresses_of_one_network_of_64_bits_hold_the_places_of_one() -> None:
    async def scenario() -> None:
        bench = Bench()
        alone = bench.begin(Endpoint("10.0.0.9", 1))
        await asyncio.sleep(1)
        many = [bench.begin(Endpoint(f"2001:db8::{number:x}", 1)) for number in range(1, WATCHED_MAX)]
        await asyncio.sleep(1)
        newcomer = bench.begin(HERE)
        await refused(many[0][1], "too many messages")
        for call, reading in (alone, newcomer, *many[1:]):
            call.arrives()
            assert await reading == b"whole"

    run(scenario)


@contextlib.contextmanager
def connected() -> Iterator[tuple[AcceptedSockets, socket.socket, socket.socket]]:
    """A client's end of a connection, and the one that was accepted."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        with socket.create_connection(address) as client, listening.accept()[0] as accepted:
            yield AcceptedSockets((address[1],)), client, accepted


@pytest.mark.skipif(sys.platform != "linux", reason="connections are looked at by /proc")
def test_the_bytes_of_a_connection_are_counted_before_anybody_reads_them() -> None:
    with connected() as (sockets, client, accepted):
        peer = Endpoint(*client.getsockname())
        assert sockets.peers() == [peer] and sockets.carried([peer])[peer].received == 0
        client.sendall(bytes(12_345))
        accepted.recv(1)
        assert sockets.carried([peer])[peer].received == 12_345


@pytest.mark.skipif(sys.platform != "linux", reason="connections are looked at by /proc")
def test_a_connection_that_is_cut_is_at_its_end_for_both_sides() -> None:
    with connected() as (sockets, client, accepted):
        assert sockets.cut([Endpoint("127.0.0.1", 1)]) == 0
        assert sockets.cut([Endpoint(*client.getsockname())]) == 1
        assert client.recv(1) == b"" and accepted.recv(1) == b""
