"""gRPC's Python objects on the simulated network: servers, contexts, channels and calls, as far as Penstock uses them.

Below them are bytes, above them the code that ships: a node's listeners decode, check and encode every request, its
outgoing calls and its clients map every status. Messages have no flow control: a writer never waits for a reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping
from typing import Any, NoReturn

import grpc
import grpc.aio

from broker.config.node_config import NodeConfig
from broker.connections.listener_limits import listener_limits
from broker.grpc.broker_listeners import ServedListeners
from broker.grpc.callers import URIS, node_callers
from broker.grpc.handlers import Service, add_calls
from broker.grpc.outgoing_calls import Peers
from broker.grpc.servers import STOP_GRACE_SECONDS, add_broker_apis, add_client_apis, add_controller_apis
from broker.network.listeners import BrokerService, ControllerService
from penstock.client.wire.channel import GrpcChannel
from penstock.client.wire.tls_files import Tls
from penstock.client.wire.transport import OnTrailer, unheard
from penstock.clock import Clock
from penstock.errors import ConfigError
from penstock.types import Endpoint
from tests.simulation.cluster.network import (
    CANCELLED,
    OK,
    Connection,
    Exchange,
    Listener,
    Metadata,
    Network,
    Status,
)
from tests.simulation.cluster.scheduler import Process


class _Aborted(Exception):
    def __init__(self, status: Status) -> None:
        self.status = status


class ServedContext:
    """A server's side of an exchange (`grpc.aio.ServicerContext`)."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._peer = f"ipv4:10.0.0.1:{exchange.connection.port}"

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> Metadata:
        return self._exchange.metadata

    def auth_context(self) -> Mapping[str, list[bytes]]:
        """The names in the certificate that the client has shown, as gRPC tells them."""
        uri = self._exchange.certificate
        return {URIS: [uri.encode()]} if uri is not None else {}

    async def read(self) -> Any:
        got = await self._exchange.to_server.get()
        return grpc.aio.EOF if isinstance(got, Status) else got

    async def write(self, message: bytes) -> None:
        self._exchange.answer(message)

    def set_trailing_metadata(self, trailing_metadata: Metadata) -> None:
        """It reaches the client with the answer of a call."""
        self._exchange.trailing = trailing_metadata

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        raise _Aborted(Status(code, details, tuple(trailing_metadata)))


async def _serve(exchange: Exchange, handler: Any) -> None:
    context = ServedContext(exchange)
    try:
        if handler.stream_unary is not None:
            exchange.answer(await handler.stream_unary(None, context))
        else:
            await handler.stream_stream(None, context)
        status = OK
    except _Aborted as aborted:
        status = aborted.status
    except asyncio.CancelledError:
        exchange.finish(Status(CANCELLED, "the server ended the call"))
        raise
    except Exception as error:
        status = Status(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}")
    exchange.finish(status)


class SimulatedServer:
    """One listener of a process: what `add_calls` needs of a gRPC server, and `broker.network.listeners.Listener`."""

    def __init__(self, network: Network, process: Process, machine: str, endpoint: Endpoint) -> None:
        self._network, self._process, self._machine, self._endpoint = network, process, machine, endpoint
        self._serve: dict[str, Callable[[Exchange], asyncio.Task[None]]] = {}
        self._listener: Listener | None = None
        self.is_serving = False

    def add(self, service: Service) -> None:
        add_calls(self, service)

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Each method is registered by its name."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        for name, handler in handlers.items():
            self._serve[f"/{service}/{name}"] = lambda exchange, handler=handler: self._begin(exchange, handler)  # type: ignore[misc]

    def _begin(self, exchange: Exchange, handler: Any) -> asyncio.Task[None]:
        assert self._process.loop is not None
        return self._process.loop.create_task(_serve(exchange, handler))

    async def start(self) -> None:
        if self._endpoint in self._network.listeners:
            raise ConfigError(f"listeners: cannot listen on {self._endpoint}: the address is in use")
        self._listener = Listener(self._process, self._machine, self._serve)
        self._network.listeners[self._endpoint] = self._listener

    async def serving(self, is_serving: bool) -> None:
        self.is_serving = is_serving

    async def stop(self) -> None:
        if self._listener is None:
            return
        self._network.listeners.pop(self._endpoint, None)
        if self._network.of_listener(self._listener):
            await asyncio.sleep(STOP_GRACE_SECONDS)
        for exchange in self._network.of_listener(self._listener):
            exchange.break_off("the server was stopped")


class SimulatedListeners:
    """`broker.network.listeners.Listeners` of one process: the listeners that ship, on simulated servers."""

    def __init__(self, network: Network, process: Process, machine: str, clock: Clock) -> None:
        self._network, self._process, self._machine, self._clock = network, process, machine, clock

    def server(self, endpoint: Endpoint) -> SimulatedServer:
        return SimulatedServer(self._network, self._process, self._machine, endpoint)

    def broker(self, config: NodeConfig, service: BrokerService) -> SimulatedBroker:
        return SimulatedBroker(self, config, service)

    def controller(self, config: NodeConfig, service: ControllerService) -> SimulatedServer:
        limits = listener_limits(config, "CONTROLLER", service.connections_max)
        server = self.server(config.listener("CONTROLLER"))
        callers = node_callers(config, "CONTROLLER", service.cluster_id)
        add_controller_apis(server, limits, service, self._clock, callers)
        return server


class SimulatedBroker:
    """The listeners of a broker (`broker.network.listeners.BrokerListeners`)."""

    def __init__(self, listeners: SimulatedListeners, config: NodeConfig, service: BrokerService) -> None:
        self._served = ServedListeners(config, service)
        self.decoders, self.clients = self._served.decoders, self._served.names
        self.connections = {served.name: served.guard for served in self._served.all}
        self._servers = []
        for served in self._served.all:
            server = listeners.server(served.endpoint)
            if served is self._served.of_brokers:
                add_broker_apis(server, served, service.channel)
            else:
                add_client_apis(server, served, service.channel)
            self._servers.append(server)

    def open(self) -> None:
        self._served.open()

    async def start(self) -> None:
        for server in self._servers:
            await server.start()

    async def serving(self, is_serving: bool) -> None:
        for server in self._servers:
            await server.serving(is_serving)

    async def stop(self) -> None:
        await asyncio.gather(*(server.stop() for server in self._servers))


# -- the way out -------------------------------------------------------------------------------------------------------


def _rpc_error(status: Status) -> grpc.aio.AioRpcError:
    trailing = grpc.aio.Metadata(*status.trailing)
    return grpc.aio.AioRpcError(status.code, grpc.aio.Metadata(), trailing, status.details)


def _as_is(message: Any) -> Any:
    return message


class AioChannel:
    """A `grpc.aio.Channel` of one process to one address. `is_shared`: by several producers."""

    is_shared = False
    certificate: str | None = None
    """The URI in the certificate that it shows, where that is not its machine's."""

    def __init__(self, network: Network, process: Process, machine: str, endpoint: Endpoint) -> None:
        self._network, self._process, self._machine, self._endpoint = network, process, machine, endpoint
        self._open: dict[Exchange, None] = {}
        self._connection: Connection | None = None

    def begin(self, method: str, metadata: Metadata = ()) -> Exchange:
        """By the connection that there is, or by a new one."""
        connection = self._connection
        if connection is None or connection.is_broken:
            connection = self._connection = Connection(next(self._network.ports))
        exchange = Exchange(
            self._network, self._process, self._machine, self._endpoint, method, connection, tuple(metadata)
        )
        if self.certificate is not None:
            exchange.certificate = self.certificate
        self._open[exchange], exchange.channel = None, self
        return exchange

    def get_state(self) -> grpc.ChannelConnectivity:
        is_lost = self._connection is None or self._connection.is_broken
        return grpc.ChannelConnectivity.IDLE if is_lost else grpc.ChannelConnectivity.READY

    def over(self, exchange: Exchange) -> None:
        self._open.pop(exchange, None)

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Callable[..., AioCall]:
        serialize, deserialize = request_serializer or _as_is, response_deserializer or _as_is

        def call(request: Any, timeout: float | None = None, metadata: Metadata = ()) -> AioCall:
            exchange = self.begin(method, metadata)
            return AioCall(exchange, self._call(exchange, serialize(request), timeout), deserialize)

        return call

    async def _call(self, exchange: Exchange, request: bytes, timeout: float | None) -> bytes:
        exchange.send(request)
        try:
            async with asyncio.timeout(timeout):
                got = await exchange.to_client.get()
        except TimeoutError:
            raise _rpc_error(Status(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")) from None
        finally:
            exchange.cancel()
            self.over(exchange)
        if isinstance(got, Status):
            raise _rpc_error(got)
        return got

    def stream_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Callable[..., AioStream]:
        return lambda metadata=(): AioStream(
            self, self.begin(method, metadata), request_serializer or _as_is, response_deserializer or _as_is
        )

    async def close(self) -> None:
        for exchange in tuple(self._open):
            exchange.cancel("Channel closed!")
        self._open.clear()


class AioCall:
    """A `grpc.aio.UnaryUnaryCall` that somebody awaits."""

    def __init__(self, exchange: Exchange, answer: Coroutine[Any, Any, bytes], deserialize: Any) -> None:
        self._exchange, self._answer, self._deserialize = exchange, answer, deserialize

    async def _deserialized(self) -> Any:
        return self._deserialize(await self._answer)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._deserialized().__await__()

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        return grpc.aio.Metadata(*self._exchange.trailing)


class AioStream:
    """A `grpc.aio.StreamStreamCall`."""

    def __init__(self, channel: AioChannel, exchange: Exchange, serialize: Any, deserialize: Any) -> None:
        self._channel, self._exchange = channel, exchange
        self._serialize, self._deserialize = serialize, deserialize

    async def write(self, message: Any) -> None:
        status = self._exchange.to_client.status
        if status is not None:
            if status is OK:
                raise asyncio.InvalidStateError("the call has ended")
            self._raise(status)
        self._exchange.send(self._serialize(message))

    async def read(self) -> Any:
        got = await self._exchange.to_client.get()
        if isinstance(got, Status):
            self._channel.over(self._exchange)
            if got is OK:
                return grpc.aio.EOF
            self._raise(got)
        return self._deserialize(got)

    def _raise(self, status: Status) -> NoReturn:
        if status.code is CANCELLED and not status.trailing:
            raise asyncio.CancelledError
        raise _rpc_error(status)

    def cancel(self) -> None:
        self._exchange.cancel()
        self._channel.over(self._exchange)

    async def wait_for_connection(self) -> None:
        await asyncio.shield(self._exchange.is_connected)
        status = self._exchange.to_client.status
        if status is not None and status is not OK:
            self._raise(status)

    async def code(self) -> grpc.StatusCode:
        return self._status().code

    async def details(self) -> str:
        return self._status().details

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        return grpc.aio.Metadata(*self._status().trailing)

    def _status(self) -> Status:
        return self._exchange.to_client.status or OK

    def __await__(self) -> Generator[Any, None, AioStream]:
        yield from ()
        return self


class SimulatedPeers(Peers):
    """`broker.network.transport.NodeTransport`: the outgoing calls that ship, on simulated channels."""

    certificate: str | None = None
    """The URI in the certificate that it shows, where that is not its machine's."""

    def __init__(self, network: Network, process: Process, machine: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._way_out = (network, process, machine)

    def _channel(self, endpoint: Endpoint, listener: str, node_id: int) -> Any:
        channel: Any = self._channels.get(endpoint)
        if channel is None:
            channel = self._channels[endpoint] = AioChannel(*self._way_out, endpoint)  # type: ignore[assignment]
            channel.certificate = self.certificate
        return channel


class SimulatedTransport:
    """`penstock.client.wire.transport.ClientTransport` of the clients of one process."""

    is_shared = False
    """Several producers go by one channel to a broker, each by a stream of its own."""

    def __init__(self, network: Network, process: Process, machine: str, known: Collection[Endpoint]) -> None:
        """`known`: the only addresses that a client may have heard of."""
        self._way_out, self._known = (network, process, machine), known

    def connect(self, endpoint: Endpoint, tls: Tls | None = None, on_trailer: OnTrailer = unheard) -> GrpcChannel:
        if endpoint not in self._known:  # the client may catch what is raised here
            wrong = AssertionError(f"a client goes to {endpoint}; it may have heard of {self._known}")
            asyncio.get_running_loop().call_exception_handler({"message": "a wrong address", "exception": wrong})
            raise wrong
        channel = AioChannel(*self._way_out, endpoint)
        channel.is_shared = self.is_shared
        return _ClientChannel(endpoint, channel, on_trailer)


class _ClientChannel(GrpcChannel):
    def __init__(self, endpoint: Endpoint, channel: AioChannel, on_trailer: OnTrailer) -> None:
        super().__init__(endpoint, None, on_trailer)
        self._channel = channel
