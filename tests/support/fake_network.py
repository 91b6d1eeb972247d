"""A network in memory for a loop of virtual time (`ClientTransport`), and what listens on one.

    network = FakeNetwork(seed=7, latency_ms=(1, 5))
    network.listen(Endpoint("node", 1), service)
    channel = network.connect(Endpoint("node", 1))

Each message takes a time drawn from the seed; one stream's messages stay in order. A host that hangs lets no message in
or out until it resumes; one that leaves breaks every connection. `asked` has the port and the method of every call and
stream that a client began. The same service over gRPC: grpc_service.py.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from penstock.client.wire.tls_files import Tls
from penstock.client.wire.transport import Metadata, OnTrailer, unheard
from penstock.errors import ApiError, NetworkError, RequestTimedOutError, UnknownServerError
from penstock.types import Endpoint
from penstock.wire.error_trailer import error_in_trailer, trailer_of

RESOLUTION = 1e-6
"""In seconds. A loop runs timers that are due a nanosecond from now, without going on to that time."""


class ServedStream(Protocol):
    """A stream as its service sees it. A stream that the client cancels cancels the service's task."""

    async def read(self) -> bytes: ...

    async def write(self, message: bytes) -> None: ...


class Trailed(NamedTuple):
    """The answer to a call, or its error, and more in its trailer."""

    end: bytes | ApiError
    trailer: tuple[tuple[str, str], ...]


class Service(Protocol):
    """A listener's code. The client gets an ApiError that it raises; a stream ends in order when `stream` returns."""

    def is_stream(self, method: str) -> bool: ...

    async def call(self, method: str, request: bytes) -> bytes | Trailed: ...

    async def stream(self, method: str, stream: ServedStream) -> None: ...


class _Pipe:
    """Messages in one direction, in order. An error in their place is the last of them."""

    def __init__(self, delay: Callable[[], float], is_running: Callable[[], bool]) -> None:
        self._delay = delay
        self._is_running = is_running
        self._on_their_way: deque[tuple[float, bytes | ApiError]] = deque()
        self._due = 0.0
        self._ended: ApiError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def put(self, message: bytes | ApiError) -> None:
        self._due = max(self._due, asyncio.get_running_loop().time() + self._delay())
        self._on_their_way.append((self._due, message))
        self.poke()

    def end(self, error: ApiError) -> None:
        """Ends the pipe at once; messages that are on their way are lost."""
        self._ended = self._ended or error
        self.poke()

    @property
    def ended(self) -> ApiError | None:
        return self._ended

    def poke(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> bytes:
        loop = asyncio.get_running_loop()
        while True:
            if self._ended is not None:
                raise self._ended.with_traceback(None)
            due: float | None = None
            if self._on_their_way and self._is_running():
                due, message = self._on_their_way[0]
                if due <= loop.time() + RESOLUTION:
                    self._on_their_way.popleft()
                    if isinstance(message, ApiError):
                        self.end(message)
                        continue
                    return message
            await self._wait_until(due)

    async def _wait_until(self, time: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_at(time, self.poke) if time is not None else None
        try:
            await self._waiter
        finally:
            if timer is not None:
                timer.cancel()


class _Host:
    """One address: what listens there, and the exchanges with it."""

    def __init__(self) -> None:
        self.service: Service | None = None
        self.is_running = True
        self.exchanges: dict[_Exchange, None] = {}
        self.begun = 0

    @property
    def listened(self) -> int | None:
        """How often something has begun to listen; None if nothing does now."""
        return None if self.service is None else self.begun


class _Exchange:
    """One call or stream: the client's stream (penstock.client.wire.transport.Stream), and the task of the service."""

    def __init__(self, network: FakeNetwork, endpoint: Endpoint, method: str, *, is_call: bool) -> None:
        self._endpoint = endpoint
        self._method = method
        self._host = network.host(endpoint)
        self.up = _Pipe(network.delay, lambda: self._host.is_running)
        self.down = _Pipe(network.delay, lambda: self._host.is_running)
        self._host.exchanges[self] = None
        self._task: asyncio.Task[None] | None = None
        self.trailer: tuple[tuple[str, str], ...] | None = None
        if self._host.service is None:
            self.down.put(NetworkError(f"{endpoint}: UNAVAILABLE: nobody listens"))
        else:
            self._task = asyncio.ensure_future(self._serve(self._host.service, is_call))

    async def _serve(self, service: Service, is_call: bool) -> None:
        end: ApiError = NetworkError(f"{self._endpoint}: the broker closed the stream")
        try:
            if is_call:
                answer = await service.call(self._method, await self.up.get())
                response, self.trailer = answer if isinstance(answer, Trailed) else (answer, ())
                if isinstance(response, ApiError):
                    raise response
                self.down.put(response)
            else:
                await service.stream(self._method, _Served(self))
        except ApiError as error:  # what of it gets through a trailer
            end = error_in_trailer(trailer_of(error), str(error)) or error
        except Exception as error:
            end = UnknownServerError(f"{self._endpoint}: {error!r}")
        self.down.put(end)

    async def write(self, message: bytes) -> None:
        if self.down.ended is not None:
            raise self.down.ended
        self.up.put(message)

    async def read(self) -> bytes:
        return await self.down.get()

    def cancel(self) -> None:
        self.end(f"{self._endpoint}: the call was cancelled")

    def end(self, why: str) -> None:
        self.down.end(NetworkError(why))
        if self._task is not None:
            self._task.cancel()
        self._host.exchanges.pop(self, None)


class _Served:
    """The service's side of an exchange."""

    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange

    async def read(self) -> bytes:
        return await self._exchange.up.get()

    async def write(self, message: bytes) -> None:
        self._exchange.down.put(message)


class FakeChannel:
    """One client's way to one address."""

    def __init__(self, network: FakeNetwork, endpoint: Endpoint, on_trailer: OnTrailer) -> None:
        self._network = network
        self._endpoint = endpoint
        self._on_trailer = on_trailer
        self._exchanges: dict[_Exchange, None] = {}
        self._connection: int | None = None
        """How often something had begun to listen there when it was last used; None if nothing listens."""

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection == self._network.host(self._endpoint).listened

    def _begin(self, method: str, *, is_call: bool) -> _Exchange:
        self._connection = self._network.host(self._endpoint).listened
        self._network.asked.append((self._endpoint.port, method))
        exchange = _Exchange(self._network, self._endpoint, method, is_call=is_call)
        self._exchanges[exchange] = None
        return exchange

    async def call(self, method: str, request: bytes, timeout_ms: int, metadata: Metadata = ()) -> bytes:
        exchange = self._begin(method, is_call=True)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await exchange.write(request)
                try:
                    return await exchange.read()
                finally:
                    self._on_trailer(exchange.trailer)
        except TimeoutError:
            message = f"{self._endpoint}: DEADLINE_EXCEEDED: no answer within {timeout_ms} ms"
            raise RequestTimedOutError(message) from None
        finally:
            exchange.cancel()
            del self._exchanges[exchange]

    def open_stream(self, method: str, metadata: Metadata = ()) -> _Exchange:
        return self._begin(method, is_call=False)

    async def close(self) -> None:
        for exchange in tuple(self._exchanges):
            exchange.cancel()


class FakeNetwork:
    """Hosts by address."""

    def __init__(self, seed: int = 0, latency_ms: tuple[int, int] = (0, 0)) -> None:
        self._random = random.Random(seed)
        self._latency_ms = latency_ms
        self._hosts: dict[Endpoint, _Host] = {}
        self.asked: list[tuple[int, str]] = []

    def connect(self, endpoint: Endpoint, tls: Tls | None = None, on_trailer: OnTrailer = unheard) -> FakeChannel:
        return FakeChannel(self, endpoint, on_trailer)

    def delay(self) -> float:
        return self._random.randint(*self._latency_ms) / 1000

    def host(self, endpoint: Endpoint) -> _Host:
        return self._hosts.setdefault(endpoint, _Host())

    def listen(self, endpoint: Endpoint, service: Service) -> None:
        host = self.host(endpoint)
        host.service, host.begun = service, host.begun + 1

    def leave(self, endpoint: Endpoint) -> None:
        """Ends the listener and breaks its connections, as when a process is killed."""
        host = self.host(endpoint)
        host.service = None
        for exchange in tuple(host.exchanges):
            exchange.end(f"{endpoint}: UNAVAILABLE: the connection broke")

    def hang(self, endpoint: Endpoint) -> None:
        self.host(endpoint).is_running = False

    def resume(self, endpoint: Endpoint) -> None:
        host = self.host(endpoint)
        host.is_running = True
        for exchange in tuple(host.exchanges):
            exchange.up.poke()
            exchange.down.poke()
