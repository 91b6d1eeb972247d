"""A caller that is refused again and again loses its connection, and callers that are served do not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from broker.connections.cuts import Cuts
from broker.connections.listener_limits import ListenerLimits
from broker.grpc.callers import NodeCallers
from broker.grpc.refused_calls import OF_CONNECTION_MAX, OF_NETWORK_MAX, WINDOW_MS, RefusalCounts, RefusedCalls
from broker.grpc.servers import add_controller_apis, controller_server
from broker.network.listeners import ControllerService
from penstock.clock import SystemClock
from penstock.errors import ClusterAuthorizationFailedError
from penstock.pb import quorum_pb2
from penstock.testing.ports import free_ports
from penstock.types import Endpoint
from penstock.wire.error_trailer import error_in_trailer
from raft.messages import VoteResponse
from tests.support.certificates import CLUSTER, Files, TestCa, key_and_chain, node_certificates
from tests.support.machine import THREADS

CA = TestCa()
LIMITS = ListenerLimits(1 << 20, 1 << 20, 60_000, 10, 10, 60_000)
HERE = Endpoint("10.0.0.1", 1)
VOTE = quorum_pb2.VoteRequest(cluster_id=CLUSTER, candidate_id=2).SerializeToString()


def test_a_connection_has_so_many_refusals_in_a_window_and_then_it_goes() -> None:
    counts = RefusalCounts()
    assert not any(counts.is_too_many(HERE, 0) for _ in range(OF_CONNECTION_MAX))
    assert counts.is_too_many(HERE, WINDOW_MS - 1)
    assert not counts.is_too_many(HERE, WINDOW_MS), "a new window"


def test_the_connections_of_one_network_share_a_number_and_those_of_others_have_their_own() -> None:
    counts = RefusalCounts()
    peers = [Endpoint(f"2001:db8::{number % 50:x}", number) for number in range(OF_NETWORK_MAX)]
    assert not any(counts.is_too_many(peer, 0) for peer in peers)
    assert counts.is_too_many(Endpoint("2001:db8::ffff", 7), 0)
    assert not counts.is_too_many(HERE, 0)


class Call:
    """One call by a connection."""

    def __init__(self, peer: Endpoint) -> None:
        self._peer = peer

    def peer(self) -> str:
        return f"ipv4:{self._peer.host}:{self._peer.port}"


class Cutting:
    """The refused calls of a listener, with what is cut and charged for them."""

    def __init__(self, *proven: Endpoint) -> None:
        self.cut: set[Endpoint] = set()
        self.charged: list[tuple[Endpoint, bool]] = []
        self._refused = RefusedCalls("OUT", self._cut, lambda: 0, self._charge, proven.__contains__)

    async def _cut(self, peer: Endpoint) -> None:
        self.cut.add(peer)

    def _charge(self, peer: Endpoint, is_one: bool) -> None:
        self.charged.append((peer, is_one))

    def refuse(self, peer: Endpoint, count: int) -> None:
        async def main() -> None:
            for _ in range(count):
                await self._refused.refused(cast(Any, Call(peer)), "no session")

        asyncio.run(main())


def test_a_network_is_charged_once_for_a_connection_however_many_of_its_calls_are_refused() -> None:
    listener = Cutting()
    listener.refuse(HERE, OF_CONNECTION_MAX)
    assert not listener.cut and not listener.charged
    listener.refuse(HERE, 400)
    assert listener.cut == {HERE} and listener.charged == [(HERE, True)]


def test_refused_calls_of_a_connection_that_is_logged_in_cost_its_network_nothing() -> None:
    users = [Endpoint("10.0.0.1", port) for port in range(1, 12)]
    listener = Cutting(*users)
    for user in users:
        listener.refuse(user, OF_CONNECTION_MAX)
    listener.refuse(users[0], 1)
    assert listener.cut == {users[0]} and not listener.charged
    listener.refuse(Endpoint("10.0.0.1", 99), 1)
    assert listener.cut == {users[0]}, "a neighbour that asks before its log-in"


def test_connections_to_be_cut_share_a_look_at_the_descriptors() -> None:
    looks: list[set[Endpoint]] = []
    peers = [Endpoint("10.0.0.1", port) for port in range(9)]

    async def main() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def cut(peers: Collection[Endpoint]) -> None:
            looks.append(set(peers))
            begun.set()
            await may_end.wait()

        cuts = Cuts(cut)
        first = asyncio.ensure_future(cuts.cut(peers[0]))
        await begun.wait()
        others = [asyncio.ensure_future(cuts.cut(peer)) for peer in peers[1:]]
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.gather(first, *others)

    asyncio.run(main())
    assert looks == [{peers[0]}, set(peers[1:])]


def run(story: Callable[[Endpoint], Awaitable[None]]) -> None:
    async def answer(request: Any) -> Any:
        return VoteResponse(1, 1, True)

    async def main() -> None:
        endpoint, certificates = (
            Endpoint("127.0.0.1", free_ports(1)[0][0]),
            node_certificates(Files(node=CA.node(1), ca=CA.pem)),
        )
        callers = NodeCallers("CONTROLLER", CLUSTER, certificates.of("CONTROLLER"))
        server = controller_server(endpoint, LIMITS, SystemClock(), THREADS, certificates, callers)
        add_controller_apis(
            server,
            LIMITS,
            ControllerService(quorum=answer, controller=answer, connections_max=10, cluster_id=CLUSTER),
            SystemClock(),
            callers,
        )
        await server.start()
        try:
            async with asyncio.timeout(60):
                await story(endpoint)
        finally:
            await server.stop()

    asyncio.run(main())


def channel(endpoint: Endpoint, keystore: bytes) -> grpc.aio.Channel:
    credentials = grpc.ssl_channel_credentials(CA.pem, *key_and_chain(keystore))
    return grpc.aio.secure_channel(f"localhost:{endpoint.port}", credentials, options=[("grpc.enable_retries", 0)])


async def failure_of(one: grpc.aio.Channel, path: str) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await one.unary_unary(path)(VOTE, timeout=60)
    return caught.value


@pytest.mark.parametrize("path", ["/penstock.v1.Quorum/Vote", "/penstock.v1.Quorum/Nothing"])
def test_who_asks_again_and_again_for_what_it_may_not_have_loses_its_connection(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(endpoint: Endpoint) -> None:
        async with channel(endpoint, CA.client("mallory")) as stranger, channel(endpoint, CA.node(2)) as node:
            vote = node.unary_unary("/penstock.v1.Quorum/Vote")
            await vote(VOTE, timeout=60)
            for _ in range(OF_CONNECTION_MAX):
                error = await failure_of(stranger, path)
                if path.endswith("Nothing"):
                    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
                else:
                    found = error_in_trailer(error.trailing_metadata(), error.details() or "")
                    assert isinstance(found, ClusterAuthorizationFailedError)
                await vote(VOTE, timeout=60)
            assert (await failure_of(stranger, path)).code() is grpc.StatusCode.UNAVAILABLE, "cut"
            await vote(VOTE, timeout=60)

    run(story)
    lines = [record.getMessage() for record in caplog.records if "cut the connection" in record.getMessage()]
    assert len(lines) == 1 and "too many of its calls were refused" in lines[0]
