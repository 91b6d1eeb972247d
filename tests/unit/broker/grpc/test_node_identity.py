"""A node speaks only as itself: every API that the listeners between nodes serve, asked with every kind of certificate.

The listeners are those that ship, from the bytes on; the certificate is what gRPC says of a connection. Real
certificates are in tests/integration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from broker.authentication.refused_hosts import HOSTS_MAX
from broker.authentication.senders import Senders
from broker.connections.stream_quotas import StreamQuotas
from broker.grpc.access import ListenerAccess
from broker.grpc.callers import AnonymousCallers, Callers, NodeCallers
from broker.grpc.client_calls import broker_calls
from broker.grpc.client_streams import StreamHandlers, StreamLimits
from broker.grpc.controller_calls import controller_calls, quorum_calls
from broker.grpc.handlers import Service, add_calls
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.load.busy_time import BusyTime, BusyTimes
from broker.network.request_channel import RequestChannel
from broker.network.request_memory import RequestMemory
from penstock.certs.node_identity import NodeIdentity
from penstock.errors import ApiError, ClusterAuthorizationFailedError, UnknownTopicIdError
from penstock.messages.api import Api, ApiKind
from penstock.messages.apis import APIS
from penstock.messages.client_apis import FETCH
from penstock.pb import broker_pb2, controller_pb2, quorum_pb2, replication_pb2, transactions_pb2, voters_pb2
from penstock.types import Endpoint
from penstock.wire.error_trailer import error_in_trailer
from raft.messages import VoteRequest
from tests.support.machine import NOW_NS

CLUSTER, OTHER = "Mk3_OEYBSD34f-cwNTJENA", "AAAAAAAAAAAAAAAAAAAAAA"
PACKAGES = broker_pb2, controller_pb2, quorum_pb2, replication_pb2, transactions_pb2, voters_pb2
Handled = UnknownTopicIdError
"""The error in place of every answer of a handler."""
SENDERS = ("broker_id", "candidate_id", "leader_id", "replica_id", "voter_id")
"""The fields that name a sender."""


class Context:
    """A call over a connection with a certificate that has these URIs; one message, if it is a stream."""

    def __init__(self, *uris: str, message: bytes = b"") -> None:
        self._properties: dict[str, list[bytes]] = {"transport_security_type": [b"ssl"]}
        if uris:
            self._properties["peer_uri"] = [uri.encode() for uri in uris]
        self._messages = [message]
        self.refused: ApiError | None = None

    def peer(self) -> str:
        return "ipv4:10.0.0.1:4711"

    def auth_context(self) -> Mapping[str, list[bytes]]:
        return self._properties

    async def read(self) -> Any:
        return self._messages.pop() if self._messages else grpc.aio.EOF

    async def abort(self, code: grpc.StatusCode, details: str, trailer: Any) -> None:
        self.refused = error_in_trailer(trailer, details)
        raise grpc.aio.AbortError


class Node:
    """The listeners for nodes of one node, without a network."""

    def __init__(self, callers: Callers) -> None:
        self.served: dict[str, Any] = {}
        channel, memory = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS), RequestMemory(1 << 20)
        self.channel, decoders = channel, RequestDecoders(1 << 20)
        access = ListenerAccess("INTERNAL", "INTERNAL", callers)
        access.open()
        limits = StreamLimits(decoders=decoders, connections=StreamQuotas(9, 9), requests=memory, node_requests=memory)
        streams = StreamHandlers(channel, cast(Any, lambda host: self), limits, access)
        calls = broker_calls(channel, access) | quorum_calls(self._handle, callers)
        calls |= controller_calls(self._handle, callers)
        service = Service(
            name="any",
            calls=calls,
            streams=streams.replica_streams,
            decoders=decoders,
            memory=memory,
            busy=BusyTime(NOW_NS),
            caller_of=access.caller,
        )
        add_calls(self, service)

    def close(self) -> None:
        """It is every stream's session, too."""

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Each is registered by its name."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self.served |= handlers

    async def _handle(self, request: Any) -> Any:
        raise Handled

    async def _answer(self) -> None:
        while True:
            (await self.channel.receive()).fail(Handled())

    async def ask(self, api: str, context: Context) -> ApiError | None:
        """The error of a call; `Handled` if it got as far as that."""
        answering = asyncio.ensure_future(self._answer())
        handler = self.served[api]
        try:
            if handler.stream_unary is not None:
                await handler.stream_unary(None, context)
            else:
                context.write = self._wrote  # type: ignore[attr-defined]
                await handler.stream_stream(None, context)
                return Handled()
        except grpc.aio.AbortError:
            return context.refused
        finally:
            answering.cancel()
        raise AssertionError("not answered")

    async def _wrote(self, raw: bytes) -> None:
        """The answer of a stream has the error."""


def message_of(api: Api[Any, Any], sender: int) -> bytes:
    """A request that names its sender wherever it has a field for it."""
    name = f"{api.name}Request"
    cls = next(getattr(package, name) for package in PACKAGES if hasattr(package, name))
    fields = set(cls.DESCRIPTOR.fields_by_name) & set(SENDERS)
    made = cls(**dict.fromkeys(fields, sender))
    return cast(bytes, made.SerializeToString())


def of_node(node_id: int, cluster_id: str = CLUSTER) -> str:
    return NodeIdentity(cluster_id, node_id).uri


NODES = NodeCallers("INTERNAL", CLUSTER)
SERVED = sorted(name for name in Node(NODES).served if APIS[name].kind not in (ApiKind.FORWARDED, ApiKind.ASKED))
NAMING = sorted(name for name in SERVED if APIS[name].sender or APIS[name].replica_id)


def ask(callers: Callers, api: str, sender: int, *uris: str) -> ApiError | None:
    return asyncio.run(Node(callers).ask(api, Context(*uris, message=message_of(APIS[api], sender))))


def is_handled(error: ApiError | None) -> bool:
    return isinstance(error, Handled)


def test_these_are_all_that_nodes_serve_each_other() -> None:
    between = {api.name for api in APIS.values() if api.is_between_brokers or api.kind is ApiKind.QUORUM}
    assert set(SERVED) == between | {FETCH.name} | {n for n, api in APIS.items() if api.kind is ApiKind.CONTROLLER}


@pytest.mark.parametrize("api", SERVED)
def test_each_says_which_node_it_is_from_or_why_not(api: str) -> None:
    row = APIS[api]
    assert (row.sender is not None or row.replica_id is not None) != bool(row.no_sender)


@pytest.mark.parametrize("api", sorted(APIS.keys() - SERVED))
def test_what_clients_ask_has_no_sender(api: str) -> None:
    assert APIS[api].sender is None and not APIS[api].no_sender


@pytest.mark.parametrize("api", NAMING)
def test_a_request_in_the_name_of_another_node_is_refused_and_not_handled(api: str) -> None:
    error = ask(NODES, api, 2, of_node(1))
    assert isinstance(error, ClusterAuthorizationFailedError)
    assert f"{api} in the name of node 2" in str(error) and "certificate of node 1" in str(error)


@pytest.mark.parametrize("api", NAMING)
def test_a_request_in_its_own_name_is_handled(api: str) -> None:
    assert is_handled(ask(NODES, api, 2, of_node(2)))


@pytest.mark.parametrize("api", sorted(set(SERVED) - set(NAMING)))
def test_a_request_that_names_no_sender_is_handled_for_every_node(api: str) -> None:
    assert is_handled(ask(NODES, api, 2, of_node(1)))


@pytest.mark.parametrize("api", sorted(Node(NODES).served))
@pytest.mark.parametrize(
    ("uris", "found"),
    [
        ((), "of no node"),
        ((of_node(2, OTHER),), f"of node 2 of cluster {OTHER}"),
        ((of_node(2), of_node(3)), "of several nodes"),
        ((of_node(2), of_node(2, OTHER)), "of several nodes"),
        (("https://example.org/node/2", f"penstock://{CLUSTER}/node/02", "penstock://x/node/2"), "of no node"),
        ((f"penstock://{CLUSTER}/node/{2**31}",), "of no node"),
        (("\udce9".encode("utf-8", "surrogateescape").decode("latin-1"),), "of no node"),
    ],
    ids=["none", "other-cluster", "several", "two-clusters", "other-names", "too-large", "not-ascii"],
)
def test_who_has_no_certificate_of_a_node_of_this_cluster_is_refused(
    api: str, uris: tuple[str, ...], found: str
) -> None:
    message = message_of(APIS[api], 2) if api in SERVED else b""
    error = asyncio.run(Node(NODES).ask(api, Context(*uris, message=message)))
    assert isinstance(error, ClusterAuthorizationFailedError)
    assert found in str(error) and "penstock certs node" in str(error)


@pytest.mark.parametrize("api", NAMING)
def test_without_certificates_every_node_is_believed_as_before(api: str) -> None:
    assert is_handled(ask(AnonymousCallers("INTERNAL"), api, 2))


def test_a_request_is_not_even_decoded_for_who_may_not_ask() -> None:
    error = asyncio.run(Node(NODES).ask("Vote", Context(message=b"\xff\xff no message")))
    assert isinstance(error, ClusterAuthorizationFailedError)


def test_a_replica_stream_that_turns_to_another_name_ends_and_what_it_asked_before_is_answered() -> None:
    async def story() -> None:
        node = Node(NODES)
        context = Context(of_node(2), message=message_of(FETCH, 3))
        context._messages.append(message_of(FETCH, 2))
        answers: list[bytes] = []
        node._wrote = cast(Any, lambda raw: _note(answers, raw))  # type: ignore[method-assign]
        error = await node.ask(FETCH.name, context)
        assert isinstance(error, ClusterAuthorizationFailedError) and len(answers) == 1

    asyncio.run(story())


async def _note(answers: list[bytes], raw: bytes) -> None:
    answers.append(raw)


def test_refusals_are_logged_ever_more_rarely_for_each_host(caplog: pytest.LogCaptureFixture) -> None:
    senders = Senders("CONTROLLER", CLUSTER)
    for host in ("10.0.0.1", "10.0.0.2"):
        for _ in range(100):
            with pytest.raises(ClusterAuthorizationFailedError):
                senders.check(APIS["Vote"], VoteRequest(CLUSTER, 1, 2, 0, 0, 0, True), 1, Endpoint(host, 1))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2 * 7 and all("Vote in the name of node 2" in line for line in lines)
    assert "CONTROLLER: refused 10.0.0.2 (64 times so far)" in lines[-1]


def test_the_addresses_of_one_network_of_64_bits_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    senders = Senders("CONTROLLER", CLUSTER)
    for number in range(100):
        with pytest.raises(ClusterAuthorizationFailedError):
            senders.check(
                APIS["Vote"], VoteRequest(CLUSTER, 1, 2, 0, 0, 0, True), 1, Endpoint(f"2001:db8::{number:x}", 1)
            )
    assert len(caplog.records) == 7


def test_hosts_whose_refusals_are_counted_are_bounded() -> None:
    senders = Senders("CONTROLLER", CLUSTER)
    for number in range(3 * HOSTS_MAX):
        with pytest.raises(ClusterAuthorizationFailedError):
            senders.certified((), Endpoint(f"host-{number}", 1))
        assert len(senders._refused) <= HOSTS_MAX
