"""Who a caller is by its certificate, over real connections: a node's, another node's, a client's, and none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import grpc
import grpc.aio
import pytest

from broker.connections.listener_limits import ListenerLimits
from broker.grpc.callers import Callers, CertifiedCallers, NodeCallers
from broker.grpc.outgoing_calls import Peers
from broker.grpc.servers import add_controller_apis, controller_server
from broker.network.listeners import ControllerService
from broker.network.request_channel import Caller
from broker.tls.certificates import NodeCertificates
from penstock.clock import SystemClock
from penstock.errors import ApiError, ClusterAuthorizationFailedError, SaslAuthenticationFailedError
from penstock.messages.api import Api
from penstock.messages.nodes import brokers
from penstock.pb import quorum_pb2
from penstock.testing.ports import free_ports
from penstock.types import Endpoint
from penstock.wire.error_trailer import error_in_trailer
from raft.messages import FetchMetadataRequest, VoteRequest, VoteResponse
from tests.support.certificates import CLUSTER, Files, TestCa, key_and_chain, node_certificates
from tests.support.machine import THREADS

CA = TestCa()
LIMITS = ListenerLimits(1 << 20, 1 << 20, 60_000, 10, 10, 60_000)
OTHER = "B" * 22
NOTHING: Mapping[str, object] = {}


class Heard:
    """The callers of a listener, as its own object tells them."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self.callers: list[Caller] = []

    def caller(self, context: grpc.aio.ServicerContext, api: Api[Any, Any]) -> Caller:
        self.callers.append(self._callers.caller(context, api))
        return self.callers[-1]

    def check_sender(self, api: Api[Any, Any], request: Any, caller: Caller) -> None:
        self._callers.check_sender(api, request, caller)

    def is_known(self, peer: Endpoint) -> bool:
        return self._callers.is_known(peer)

    def proven(self) -> Mapping[Endpoint, str]:
        return self._callers.proven()

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        self._callers.looked(connected, began_ms)


class Stage:
    """A node's controller listener, and what was asked of it."""

    def __init__(self, endpoint: Endpoint, heard: Heard) -> None:
        self.endpoint, self._heard = endpoint, heard
        self.handled: list[Any] = []

    @property
    def callers(self) -> list[Caller]:
        return self._heard.callers

    async def answer(self, request: Any) -> Any:
        self.handled.append(request)
        return VoteResponse(1, 1, True)

    async def ask(self, certificates: NodeCertificates, request: Any) -> Any:
        peers = Peers({1: self.endpoint}.get, lambda broker_id: None, 1 << 20, certificates)
        try:
            if isinstance(request, VoteRequest | FetchMetadataRequest):
                return await peers.send(1, request, 5_000)
            return await peers.call_controller(1, request, 5_000)
        finally:
            await peers.close()

    async def ask_with(self, keystore: bytes | None, raw: bytes) -> ApiError | None:
        """The error of a vote over a connection with this certificate, or without one."""
        pair = (None, None) if keystore is None else key_and_chain(keystore)
        credentials = grpc.ssl_channel_credentials(CA.pem, *pair)
        async with grpc.aio.secure_channel(f"localhost:{self.endpoint.port}", credentials) as channel:
            try:
                await channel.unary_unary("/penstock.v1.Quorum/Vote")(raw, timeout=60)
            except grpc.aio.AioRpcError as error:
                return error_in_trailer(error.trailing_metadata(), error.details() or "")
        return None


def certificates(node_id: int, changes: Mapping[str, object] = NOTHING, cluster_id: str = CLUSTER) -> NodeCertificates:
    files = Files(node=CA.node(node_id, cluster_id=cluster_id), ca=CA.pem)
    found = node_certificates(files, node_id, **changes)
    found.belong_to(cluster_id)
    return found


def run(story: Callable[[Stage], Awaitable[None]], callers: Callers | None = None) -> None:
    async def main() -> None:
        endpoint, own = Endpoint("127.0.0.1", free_ports(1)[0][0]), certificates(1)
        heard = Heard(callers or NodeCallers("CONTROLLER", CLUSTER))
        stage = Stage(endpoint, heard)
        server = controller_server(endpoint, LIMITS, SystemClock(), THREADS, own, heard)
        service = ControllerService(
            quorum=stage.answer, controller=stage.answer, connections_max=10, cluster_id=CLUSTER
        )
        add_controller_apis(server, LIMITS, service, SystemClock(), heard)
        await server.start()
        try:
            async with asyncio.timeout(60):
                await story(stage)
        finally:
            await server.stop()

    asyncio.run(main())


def vote(node_id: int) -> VoteRequest:
    return VoteRequest(CLUSTER, 1, node_id, 1, 0, 0, True)


def vote_bytes(node_id: int) -> bytes:
    raw: bytes = quorum_pb2.VoteRequest(cluster_id=CLUSTER, candidate_id=node_id).SerializeToString()
    return raw


def test_node_2_is_believed_as_node_2_and_refused_as_every_other_one() -> None:
    async def story(stage: Stage) -> None:
        own = certificates(2)
        await stage.ask(own, vote(2))
        forged = (
            vote(3),
            vote(1),
            FetchMetadataRequest(CLUSTER, 3, 0, 0, 0, 0, 0, ""),
            brokers.BrokerHeartbeatRequest(CLUSTER, 3, 1),
            brokers.RegisterBrokerRequest(CLUSTER, 3, "i", "h", 1),
        )
        for request in forged:
            with pytest.raises(ClusterAuthorizationFailedError, match=r"certificate of node 2: a node speaks only as"):
                await stage.ask(own, request)
        assert stage.handled == [vote(2)] and {caller.node_id for caller in stage.callers} == {2}

    run(story)


@pytest.mark.parametrize(
    ("keystore", "found"),
    [
        (CA.client("anna"), "is of no node"),
        (CA.node(2, cluster_id=OTHER), f"is of node 2 of cluster {OTHER}"),
    ],
    ids=["a client", "a node of another cluster"],
)
def test_a_certificate_of_the_same_ca_that_is_no_nodes_of_the_cluster_is_refused(keystore: bytes, found: str) -> None:
    async def story(stage: Stage) -> None:
        error = await stage.ask_with(keystore, vote_bytes(2))
        assert isinstance(error, ClusterAuthorizationFailedError) and found in str(error)
        assert not stage.handled

    run(story)


def at_clients_listener(changes: Mapping[str, object]) -> Callers:
    of_listener = certificates(1, changes).of("BROKER")
    assert of_listener is not None
    return CertifiedCallers("BROKER", of_listener)


RULES = {"ssl_principal_mapping_rules": "RULE:^CN=(a.*)$/$1/U"}


@pytest.mark.parametrize(
    ("keystore", "changes", "principal"),
    [
        (CA.client("anna"), {}, "User:CN=anna"),
        (CA.client("anna"), RULES, "User:ANNA"),
        (CA.node(2), {}, "User:CN=node-2"),
    ],
    ids=["whole name", "rule", "a node's is just a certificate"],
)
def test_a_client_is_the_owner_of_its_certificate(
    keystore: bytes, changes: Mapping[str, object], principal: str
) -> None:
    async def story(stage: Stage) -> None:
        for _ in range(2):
            await stage.ask_with(keystore, vote_bytes(2))
        assert [(caller.principal, caller.node_id) for caller in stage.callers] == [(principal, None)] * 2

    run(story, at_clients_listener(changes))


def test_a_client_whose_name_fits_no_rule_is_refused_and_its_certificate_is_not_told_back() -> None:
    async def story(stage: Stage) -> None:
        error = await stage.ask_with(CA.client("bert"), vote_bytes(2))
        assert isinstance(error, SaslAuthenticationFailedError) and "ssl.principal.mapping.rules" in str(error)
        assert "bert" not in str(error) and not stage.handled

    run(story, at_clients_listener(RULES))
