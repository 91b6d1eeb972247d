"""Promises of the two listeners of a broker, over real connections: what is served to clients, and what to brokers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from broker.config.config import parse_config
from broker.connections.connection_watch import ConnectionWatch
from broker.connections.listener_limits import ListenerLimits, shared_by_clients
from broker.connections.stream_quotas import StreamQuotas
from broker.grpc.access import ListenerAccess
from broker.grpc.broker_listeners import ServedListener
from broker.grpc.client_streams import StreamHandlers, StreamLimits
from broker.grpc.grpc_listeners import GrpcListeners
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.grpc.servers import add_broker_apis, add_client_apis, broker_server
from broker.load.busy_time import BusyTimes
from broker.network.client_names import ClientNames
from broker.network.connection_loop import Prepare
from broker.network.fetcher_session import NewSession
from broker.network.listeners import BrokerService
from broker.network.request_channel import Request, RequestChannel
from broker.network.request_memory import RequestMemory
from penstock.clock import SystemClock
from penstock.errors import InvalidRequestError
from penstock.messages.metadata import MetadataResponse
from penstock.pb import broker_pb2 as pb
from penstock.testing.ports import free_ports
from penstock.types import CONSUMER_REPLICA_ID, Endpoint
from tests.support.grpc_stub import Stub
from tests.support.machine import NOW_NS, THREADS

REPLICA = 2


class NoSession:
    """The session of a stream whose requests are not handled."""

    def __init__(self, host: str) -> None:
        """Nothing of it matters."""

    def close(self) -> None:
        """Nothing was begun."""


class Listeners:
    """Stubs of both, and where accepted requests arrive."""

    def __init__(self, channel: RequestChannel, names: ClientNames, clients: Any, brokers: Any) -> None:
        self.requests = channel
        self.names = names
        self.clients = Stub(clients, "Broker")
        self.brokers = Stub(brokers, "Replication")
        self.client_calls_at_brokers = Stub(brokers, "Broker")


def with_listeners(story: Callable[[Listeners], Awaitable[None]], prepare: Prepare = lambda request: None) -> None:
    async def run() -> None:
        requests, decoders = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS), RequestDecoders(1 << 20)
        no_session = cast(NewSession, NoSession)
        limits = StreamLimits(
            decoders=decoders,
            connections=StreamQuotas(1, 1),
            requests=RequestMemory(1 << 20),
            node_requests=RequestMemory(1 << 20),
        )
        listener = ListenerLimits(1 << 20, 1 << 20, 60_000, 10, 10, 60_000)
        access = ListenerAccess("OUTSIDE", "NODES")
        streams = StreamHandlers(requests, no_session, limits, access, prepare)
        access.open()
        ports = free_ports(1)[0]
        here = [Endpoint("127.0.0.1", port) for port in ports[:2]]
        outside, nodes = (
            ServedListener(
                name=name,
                endpoint=at,
                limits=listener,
                guard=listener.guard(name),
                held=limits,
                access=access,
                handlers=streams,
            )
            for name, at in zip(("OUTSIDE", "NODES"), here, strict=True)
        )
        servers = tuple(broker_server(served, SystemClock(), THREADS) for served in (outside, nodes))
        add_client_apis(servers[0], outside, requests)
        add_broker_apis(servers[1], nodes, requests)
        for server in servers:
            await server.start()
        async with (
            grpc.aio.insecure_channel(str(here[0])) as clients,
            grpc.aio.insecure_channel(str(here[1])) as followers,
        ):
            await story(Listeners(requests, limits.clients, clients, followers))
        for server in servers:
            await server.stop()

    asyncio.run(run())


async def one(message: Any) -> AsyncIterator[Any]:
    yield message


async def refusal(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (call.read() if hasattr(call, "read") else call)
    codes = dict(caught.value.trailing_metadata() or ())
    assert codes["penstock-error-code"] == str(InvalidRequestError.code)
    return caught.value.details() or ""


def test_clients_cannot_ask_as_a_replica_and_are_told_where_replicas_ask() -> None:
    async def story(at: Listeners) -> None:
        calls = (
            at.clients.Fetch(one(pb.FetchRequest(replica_id=REPLICA))),
            at.clients.ListOffsets(pb.ListOffsetsRequest(replica_id=REPLICA)),
            at.clients.OffsetForLeaderEpoch(pb.OffsetForLeaderEpochRequest(replica_id=REPLICA)),
        )
        for call in calls:
            message = await refusal(call)
            assert "replica id 2" in message and "NODES (inter.broker.listener.name)" in message
        at.clients.Fetch(one(pb.FetchRequest(replica_id=CONSUMER_REPLICA_ID, correlation_id=7)))
        assert (await at.requests.receive()).correlation_id == 7

    with_listeners(story)


def test_brokers_fetch_at_their_own_listener_and_nothing_of_a_client_is_served_there() -> None:
    async def story(at: Listeners) -> None:
        streams = [at.brokers.Fetch(one(pb.FetchRequest(replica_id=REPLICA))) for _ in range(3)]
        arrived = [cast(Any, (await at.requests.receive()).body).replica_id for _ in streams]
        assert arrived == [REPLICA] * 3, "max.connections is 1, and is for clients"
        assert "for brokers" in await refusal(at.brokers.Fetch(one(pb.FetchRequest(replica_id=CONSUMER_REPLICA_ID))))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await at.client_calls_at_brokers.Metadata(pb.MetadataRequest())
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    with_listeners(story)


def test_what_a_call_occupies_of_the_loop_counts_as_the_networks() -> None:
    async def story(at: Listeners) -> None:
        call = asyncio.ensure_future(at.clients.Metadata(pb.MetadataRequest(topics=["t"])))
        request = await at.requests.receive()
        assert request.caller.listener == "OUTSIDE"
        decoded_ns = at.requests.busy.network.total_ns
        assert decoded_ns > 0
        request.fail(InvalidRequestError("no"))
        assert await refusal(call) == "no"
        assert at.requests.busy.network.total_ns > decoded_ns, "its answer was encoded, too"

    with_listeners(story)


def test_a_stream_is_counted_under_the_name_of_its_client_and_one_of_a_broker_is_not() -> None:
    async def story(at: Listeners) -> None:
        call, of_broker = at.clients.Fetch(), at.brokers.Fetch()
        await of_broker.write(pb.FetchRequest(replica_id=REPLICA, client_id="not asked for"))
        for _ in range(2):
            await call.write(pb.FetchRequest(replica_id=CONSUMER_REPLICA_ID, client_id="billing"))
        for _ in range(3):
            await at.requests.receive()
        billing = next(client for client in at.names.statistics() if client.name == "billing")
        assert (billing.streams, billing.requests) == (1, 2) and billing.bytes_in > 0
        call.cancel()
        for _ in range(10_000):
            if any(client.streams for client in at.names.statistics()):
                await asyncio.sleep(0.001)
        assert not any(client.streams for client in at.names.statistics())
        of_broker.cancel()

    with_listeners(story)


def test_each_listener_for_clients_has_a_port_a_name_and_limits_of_its_own() -> None:
    async def run() -> None:
        channel, memory = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS), RequestMemory(1 << 20)
        inside, outside, of_brokers, of_kafka, _ = free_ports(1)[0]
        config = parse_config(
            {
                "node.id": 1,
                "process.roles": "broker",
                "listeners": f"BROKER://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside},INTERNAL://127.0.0.1:{of_brokers}"
                f",KAFKA://127.0.0.1:{of_kafka}",
                "controller.quorum.voters": "2@127.0.0.1:1",
                "log.dirs": "/nowhere",
                "listener.name.outside.max.connections": 1,
            }
        )
        new_session = cast(NewSession, NoSession)
        service = BrokerService(
            channel=channel,
            new_session=new_session,
            prepare=lambda body: None,
            client_requests=memory,
            node_requests=memory,
            client_connections_max=100,
            node_connections_max=100,
            shared=shared_by_clients(config, 100),
        )
        listeners = GrpcListeners(SystemClock(), THREADS).broker(config, service)
        listeners.open()
        await listeners.start()
        at = {"BROKER": f"127.0.0.1:{inside}", "OUTSIDE": f"127.0.0.1:{outside}"}
        for name, address in at.items():
            async with grpc.aio.insecure_channel(address) as client:
                call = asyncio.ensure_future(Stub(client, "Broker").Metadata(pb.MetadataRequest()))
                request = await channel.receive()
                assert request.caller.listener == name
                request.complete(MetadataResponse("c", 1, (), (), 0))
                await call
                silent = [socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) for _ in range(3)]
                watch = cast(ConnectionWatch, listeners.connections[name])
                await watch.look()
                while name == "OUTSIDE" and watch.statistics().cut_over_limit < 2:  # the kernel has them, gRPC not yet
                    await asyncio.sleep(0.01)
                    await watch.look()
                for connection in silent:
                    connection.close()
        found = {name: connections.statistics() for name, connections in listeners.connections.items()}
        await listeners.stop()
        assert list(found) == ["BROKER", "OUTSIDE", "INTERNAL"], "that of Kafka's clients speaks no gRPC"
        assert found["OUTSIDE"].connections_max == 1 and found["OUTSIDE"].cut_over_limit >= 2
        assert found["BROKER"].cut_over_limit == found["INTERNAL"].cut_over_limit == 0

    asyncio.run(run())


def test_a_call_of_a_client_or_of_a_broker_queues_once_what_is_prepared_for_it_is_ready() -> None:
    prepared, access = asyncio.Queue[str](), asyncio.Event()

    def prepare(request: Request) -> Awaitable[Any]:
        prepared.put_nowait(request.api)
        return access.wait()

    async def story(at: Listeners) -> None:
        for stub in (at.clients, at.brokers):
            access.clear()
            call = stub.ListOffsets(pb.ListOffsetsRequest(replica_id=REPLICA if stub is at.brokers else -1))
            received = asyncio.ensure_future(at.requests.receive())
            assert await prepared.get() == "ListOffsets" and not received.done()
            access.set()
            (await received).fail(InvalidRequestError("it came"))
            assert await refusal(call) == "it came"

    with_listeners(story, prepare)
