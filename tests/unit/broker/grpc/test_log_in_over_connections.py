"""A session lives as long as its connection does, over real ones: gRPC's word for a connection's far end is the one by
which the listener's looks at its sockets know it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListRequest
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from broker.apis.security.sasl_authenticate import SaslAuthenticateApi
from broker.authentication.authentication import Authentication
from broker.authentication.authentication_counts import AuthenticationCounts
from broker.authentication.logins import LoginListener, Logins
from broker.authentication.sessions import Sessions
from broker.connections.connection_watch import NoStreams
from broker.connections.listener_limits import ListenerLimits
from broker.connections.stream_quotas import StreamQuotas
from broker.grpc.access import ListenerAccess
from broker.grpc.broker_listeners import ServedListener
from broker.grpc.callers import SessionCallers
from broker.grpc.client_streams import StreamHandlers, StreamLimits
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.grpc.servers import add_client_apis, broker_server
from broker.load.busy_time import BusyTimes
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import RequestChannel
from broker.network.request_memory import RequestMemory
from penstock.clock import SystemClock
from penstock.errors import AuthenticationRequiredError
from penstock.messages.metadata import MetadataResponse
from penstock.pb import broker_pb2 as pb
from penstock.sasl.credentials import ScramCredential, ScramMechanism
from penstock.testing.ports import free_ports
from penstock.types import Endpoint
from penstock.wire.error_trailer import error_in_trailer
from tests.support.grpc_stub import Stub
from tests.support.machine import NOW_NS, THREADS
from tests.support.raft_fakes import InlineExecutor

CLOCK = SystemClock()
LIMITS = ListenerLimits(1 << 20, 1 << 20, 60_000, 10, 10, 60_000)


class Anna:
    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        return ScramCredential.of_password(mechanism, "secret", b"salt", 4_096)


async def log_in(stub: Stub) -> tuple[tuple[str, str], ...]:
    """The metadata of later calls."""
    answer = await stub.SaslAuthenticate(pb.SaslAuthenticateRequest(mechanism="PLAIN", auth_bytes=b"\0anna\0secret"))
    return (("authorization", f"Bearer {answer.token}"),)


async def is_refused(call: Any) -> bool:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        error_of_trailer = error_in_trailer(error.trailing_metadata(), error.details() or "")
        return isinstance(error_of_trailer, AuthenticationRequiredError)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="connections are looked at by /proc")
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_session_is_its_connections_alone_and_ends_with_it(host: str) -> None:
    async def main() -> None:
        channel = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS)
        counts, sessions = AuthenticationCounts(), Sessions(10, iter("ab").__next__)
        logins = Logins(Anna(), lambda: "nonce", InlineExecutor(), counts, 0)
        by = Authentication({"OUT": LoginListener("OUT", ("PLAIN",), True)}, lambda _: 0, logins, sessions, counts)
        log_ins = SaslAuthenticateApi(by, CLOCK, FailedRequests(lambda error: None).fail)
        access = ListenerAccess("OUT", "INTERNAL", SessionCallers("OUT", sessions, CLOCK.now_ms))
        memory = RequestMemory(1 << 20)
        held = StreamLimits(
            decoders=RequestDecoders(1 << 20), connections=StreamQuotas(9, 9), requests=memory, node_requests=memory
        )
        streams = StreamHandlers(channel, cast(Any, None), held, access)
        access.open()
        here = Endpoint(host, free_ports(1)[0][0])
        served = ServedListener(
            name="OUT",
            endpoint=here,
            limits=LIMITS,
            guard=LIMITS.guard("OUT"),
            held=held,
            access=access,
            handlers=streams,
        )
        server = broker_server(served, CLOCK, THREADS)
        add_client_apis(server, served, channel)

        async def handle() -> None:
            while True:
                request = await channel.receive()
                if request.api == "SaslAuthenticate":
                    log_ins.handle(request, cast(Any, request.body))
                else:
                    request.complete(MetadataResponse("c", 1, (), (), 7))

        await server.start()
        handling = asyncio.ensure_future(handle())
        alone = [("grpc.use_local_subchannel_pool", 1)]
        first, second = (grpc.aio.insecure_channel(f"127.0.0.1:{here.port}", options=alone) for _ in range(2))
        one, other = Stub(first, "Broker"), Stub(second, "Broker")
        token = await log_in(one)
        assert await is_refused(one.Metadata(pb.MetadataRequest()))
        assert await is_refused(other.Metadata(pb.MetadataRequest(), metadata=token))
        await server.connections.look()
        await one.Metadata(pb.MetadataRequest(), metadata=token)
        await first.close()
        async with asyncio.timeout(60):
            while len(sessions):
                await server.connections.look()
                await asyncio.sleep(0.02)
        await second.close()
        handling.cancel()
        await server.stop()

    asyncio.run(main())


async def tells(call: Any, code: grpc.StatusCode) -> bool:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return bool(caught.value.code() is code)


def test_health_and_reflection_are_told_without_a_log_in_and_only_small_requests_are_read() -> None:
    async def main() -> None:
        access = ListenerAccess(
            "OUT", "INTERNAL", SessionCallers("OUT", Sessions(10, iter("ab").__next__), CLOCK.now_ms)
        )
        held = cast(Any, None)
        here = Endpoint("127.0.0.1", free_ports(1)[0][0])
        served = ServedListener(
            name="OUT",
            endpoint=here,
            limits=LIMITS,
            guard=LIMITS.guard("OUT"),
            held=held,
            access=access,
            handlers=cast(Any, NoStreams()),
        )
        server = broker_server(served, CLOCK, THREADS)
        await server.start()
        async with grpc.aio.insecure_channel(str(here)) as channel:
            health, ask = HealthStub(channel), HealthCheckRequest
            assert (await health.Check(ask())).status == HealthCheckResponse.NOT_SERVING
            assert (await health.Watch(ask()).read()).status == HealthCheckResponse.NOT_SERVING
            assert await tells(health.Check(ask(service="nobody's")), grpc.StatusCode.NOT_FOUND)
            assert await tells(health.List(HealthListRequest()), grpc.StatusCode.UNIMPLEMENTED)
            for large in (health.Check, lambda one: health.Watch(one).read()):
                assert await tells(large(ask(service="x" * 5_000)), grpc.StatusCode.INVALID_ARGUMENT)
            reflected = ServerReflectionStub(channel).ServerReflectionInfo()
            for _ in range(2):
                await reflected.write(ServerReflectionRequest(list_services=""))
                found = await reflected.read()
                assert "grpc.health.v1.Health" in {one.name for one in found.list_services_response.service}
            await reflected.write(ServerReflectionRequest(file_by_filename="x" * 5_000))
            assert await tells(reflected.read(), grpc.StatusCode.INVALID_ARGUMENT)
        await server.stop()

    asyncio.run(main())
