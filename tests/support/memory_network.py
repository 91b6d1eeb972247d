"""The network of a cluster within one event loop: transports and doors without a socket.

    network = MemoryNetwork(delay_seconds=lambda: source.uniform(0, 0.002))
    replace(environment, transport=network.transport, doors=network.doors())

Requests pass the same request channel, sessions and budgets as at a gRPC door. Fetches and their answers are carried as
the bytes that gRPC would carry, everything else as frozen values. Every message takes `delay_seconds()`; the messages
of one stream keep their order. A listener that is stopped ends its streams. A call to an endpoint without a listener
gets a NetworkError.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from broker.config.node_config import NodeConfig
from broker.connections.connection_guard import ConnectionGuard
from broker.network.connection_loop import Incoming
from broker.network.doors import BrokerService, ControllerService
from broker.network.processor import Processor
from broker.network.request_channel import Caller, Request
from penstock.errors import ApiError, ConfigError, NetworkError, RequestTimedOutError, UnknownServerError
from penstock.messages.fetch import FetchRequest, FetchResponse
from penstock.types import Endpoint
from penstock.wire import streams
from penstock.wire.error_trailer import error_in_trailer, trailer_of

PIPELINED_MAX = 8
CLIENT_HOST = "memory"
CLIENT = Endpoint(CLIENT_HOST, 1)


class MemoryNetwork:
    """The listeners by endpoint, and the time that a message takes."""

    def __init__(self, delay_seconds: Callable[[], float] = lambda: 0.0) -> None:
        self._delay_seconds = delay_seconds
        self.brokers: dict[Endpoint, MemoryBroker] = {}
        self.controllers: dict[Endpoint, ControllerService] = {}

    def transport(
        self, controllers: Mapping[int, Endpoint], broker_endpoint: Callable[[int], Endpoint | None], bytes_max: int
    ) -> MemoryTransport:
        """Makes the transport of one node (`broker.network.transport.MakeTransport`)."""
        return MemoryTransport(self, controllers, broker_endpoint)

    def doors(self) -> MemoryDoors:
        return MemoryDoors(self)

    def forget_listeners(self) -> None:
        """Drops every listener, as when all nodes lose their power."""
        self.brokers.clear()
        self.controllers.clear()

    async def wait_carried(self) -> None:
        """Takes as long as a message does."""
        await asyncio.sleep(self._delay_seconds())

    def broker(self, endpoint: Endpoint) -> MemoryBroker:
        """The broker that listens at the endpoint; NetworkError if there is none."""
        found = self.brokers.get(endpoint)
        if found is None:
            raise NetworkError(f"broker at {endpoint}: unavailable: nobody listens")
        return found

    async def ask(
        self, endpoint: Endpoint, api: str, body: object, encode: Callable[[Any], Any] = lambda answer: answer
    ) -> Any:
        """A client's call at a broker's listener: returns the answer, `encode`d, or raises its typed error."""
        await self.wait_carried()
        request = await self.broker(endpoint).call(api, body, endpoint)
        answer = request.encoded(encode)
        await self.wait_carried()
        return answer


class MemoryDoors:
    """Implements `broker.network.doors.Doors`."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network

    def broker(self, config: NodeConfig, service: BrokerService) -> MemoryBroker:
        names = (*config.client_listeners, config.inter_broker_listener_name)
        return MemoryBroker(self._network, {config.listener(name): name for name in names}, service)

    def controller(self, config: NodeConfig, service: ControllerService) -> MemoryController:
        return MemoryController(self._network, config.listener("CONTROLLER"), service)


class MemoryController:
    """A controller's listener (`broker.network.doors.Listener`)."""

    def __init__(self, network: MemoryNetwork, endpoint: Endpoint, service: ControllerService) -> None:
        self._network, self._endpoint, self._service = network, endpoint, service
        self.is_serving = False

    async def start(self) -> None:
        if self._endpoint in self._network.controllers:
            raise ConfigError(f"listeners: CONTROLLER cannot listen on {self._endpoint}: the address is in use")
        self._network.controllers[self._endpoint] = self._service

    async def serving(self, is_serving: bool) -> None:
        self.is_serving = is_serving

    async def stop(self) -> None:
        self._network.controllers.pop(self._endpoint, None)


class MemoryBroker:
    """The listeners of one broker (`broker.network.doors.BrokerListeners`), all with one service."""

    def __init__(self, network: MemoryNetwork, endpoints: Mapping[Endpoint, str], service: BrokerService) -> None:
        """`endpoints` has the name of each listener."""
        self._network, self._endpoints, self.service = network, endpoints, service
        count_max = service.client_connections_max
        self.connections = {name: ConnectionGuard(count_max, count_max, 1) for name in endpoints.values()}
        self.streams: dict[MemoryFetchStream, None] = {}
        self.is_open = self.is_serving = False

    @property
    def decoders(self) -> MemoryBroker:
        return self

    def refused(self) -> Counter[str]:
        """Always empty: a value that never was bytes is not refused for its form."""
        return Counter()

    def open(self) -> None:
        self.is_open = True

    async def start(self) -> None:
        for endpoint in self._endpoints:
            if endpoint in self._network.brokers:
                raise ConfigError(f"listeners: cannot listen on {endpoint}: the address is in use")
            self._network.brokers[endpoint] = self

    async def serving(self, is_serving: bool) -> None:
        self.is_serving = is_serving

    async def stop(self) -> None:
        for endpoint in self._endpoints:
            self._network.brokers.pop(endpoint, None)
        for stream in tuple(self.streams):
            stream.end(NetworkError("the listener was stopped"))

    def must_be_open(self) -> None:
        if not self.is_open:
            raise NetworkError("this node has not caught up with the metadata yet; ask another one")

    def listener_at(self, endpoint: Endpoint) -> str:
        """Its name."""
        return self._endpoints[endpoint]

    async def call(self, api: str, body: Any, endpoint: Endpoint) -> Request:
        """One request of a client at one of the listeners, through the request channel; it is answered."""
        self.must_be_open()
        processor = Processor(self.service.channel, Caller(CLIENT, self.listener_at(endpoint)), PIPELINED_MAX)
        try:
            request = processor.request(Incoming(api, 0, "", body))
            if (preparing := self.service.prepare(request)) is not None:
                await preparing
            await processor.submit(request)
            answered = await processor.next_response()
            assert answered is not None
            return _over(self.service, answered)
        finally:
            processor.close()


def _over(service: BrokerService, request: Request) -> Request:
    request.dropped()
    service.channel.request_sent(request)
    if request.error is not None:
        raise _as_told(request.error)
    return request


class MemoryTransport:
    """The outgoing calls of one node (`broker.network.transport.Transport`)."""

    def __init__(
        self,
        network: MemoryNetwork,
        controllers: Mapping[int, Endpoint],
        broker_endpoint: Callable[[int], Endpoint | None],
    ) -> None:
        self._network, self._controllers, self._broker_endpoint = network, controllers, broker_endpoint
        self._streams: dict[MemoryFetchStream, None] = {}

    async def send(self, node_id: int, request: Any, timeout_ms: int) -> Any:
        return await self._call(node_id, timeout_ms, lambda service: service.quorum(request))

    async def call_controller(self, node_id: int, request: Any, timeout_ms: int) -> Any:
        return await self._call(node_id, timeout_ms, lambda service: service.controller(request))

    async def _call(self, node_id: int, timeout_ms: int, call: Callable[[ControllerService], Awaitable[Any]]) -> Any:
        endpoint = self._controllers.get(node_id)
        if endpoint is None:
            raise NetworkError(f"node {node_id} is not among controller.quorum.voters")
        name = f"controller {node_id} at {endpoint}"
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._network.wait_carried()
                service = self._network.controllers.get(endpoint)
                if service is None:
                    raise NetworkError(f"{name}: unavailable: nobody listens")
                answer = await _answered(call(service))
                await self._network.wait_carried()
        except TimeoutError:
            raise RequestTimedOutError(f"{name}: no answer in time") from None
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def open_fetch_stream(self, broker_id: int) -> MemoryFetchStream:
        endpoint = self._broker_endpoint(broker_id)
        if endpoint is None:
            raise NetworkError(f"broker {broker_id} is not in the metadata")
        stream = MemoryFetchStream(self._network, endpoint, f"broker {broker_id} at {endpoint}")
        self._streams[stream] = None
        return stream

    async def close(self) -> None:
        for stream in self._streams:
            stream.cancel()
        self._streams.clear()


def _as_told(error: ApiError) -> ApiError:
    """The error as it comes out of a trailer, which has its code and its message."""
    told = error_in_trailer(trailer_of(error), error.message)
    assert told is not None
    return told


async def _answered(handling: Awaitable[Any]) -> Any:
    """The answer, or the error as the caller gets it."""
    try:
        return await handling
    except ApiError as error:
        return _as_told(error)
    except Exception as error:
        return UnknownServerError(f"penstock: {type(error).__name__}: {error}")


class MemoryFetchStream:
    """Both ends of a fetch stream: the fetcher's (`ReplicaFetchStream`), and the broker's."""

    def __init__(self, network: MemoryNetwork, endpoint: Endpoint, peer: str) -> None:
        self._network, self._endpoint, self._peer = network, endpoint, peer
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        self._answers: asyncio.Queue[bytes | ApiError] = asyncio.Queue()
        self._over: ApiError | None = None
        self._tasks = [asyncio.create_task(self._serve(), name=f"memory-fetch-{peer}")]

    # -- the end that asks ---------------------------------------------------------------------------------------------

    def send(self, correlation_id: int, request: FetchRequest) -> None:
        self._requests.put_nowait(streams.fetch_request_to_bytes(streams.Header(correlation_id), request))

    async def receive(self) -> tuple[int, FetchResponse]:
        if self._over is not None and self._answers.empty():
            raise self._over
        raw = await self._answers.get()
        if isinstance(raw, ApiError):
            self._over = raw
            raise raw
        return streams.fetch_response_from_bytes(raw)

    def cancel(self) -> None:
        self.end(NetworkError(f"{self._peer}: the stream was cancelled"))

    # -- the end that answers ------------------------------------------------------------------------------------------

    def end(self, error: ApiError) -> None:
        """Stops serving; the error follows the answers that are under way."""
        for task in self._tasks:
            task.cancel()
        self._answers.put_nowait(error)

    async def _serve(self) -> None:
        try:
            await self._network.wait_carried()
            broker = self._network.broker(self._endpoint)
            broker.must_be_open()
        except ApiError as error:
            self._answers.put_nowait(error)
            return
        broker.streams[self] = None
        service = broker.service
        session = service.new_session(CLIENT_HOST)
        listener = broker.listener_at(self._endpoint)
        processor = Processor(service.channel, Caller(CLIENT, listener), PIPELINED_MAX)
        reader = asyncio.create_task(self._read(processor, session))
        self._tasks.append(reader)
        try:
            while (request := await processor.next_response()) is not None:
                number, answered = request.correlation_id, _over(service, request)
                encoded = answered.encoded(
                    lambda answer, number=number: streams.fetch_response_to_bytes(number, answer)
                )
                await self._network.wait_carried()
                self._answers.put_nowait(encoded)
        except ApiError as error:
            self._answers.put_nowait(error)
        finally:
            reader.cancel()
            processor.close()
            session.close()
            broker.streams.pop(self, None)

    async def _read(self, processor: Processor, session: object) -> None:
        while True:
            await processor.wait_room()
            raw = await self._requests.get()
            await self._network.wait_carried()
            header, body = streams.fetch_request_from_bytes(raw)
            api = "FetchFollower" if body.replica_id >= 0 else "FetchConsumer"
            await processor.submit(processor.request(Incoming(api, header.correlation_id, "", body), session))
