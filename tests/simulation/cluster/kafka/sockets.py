"""Connections of bytes on the simulated network: the listeners' port, the transport of a server, and a client's end.

A connection is an exchange of the network whose messages are pieces of the stream: cut anywhere, delayed one by one, in
order. So the network's faults are those of every exchange. A server gets whatever has come as one read, as from a
socket: the rest of a frame and the beginning of the next one together. Nobody waits for a slow reader, but for one that
reads nothing at all: its sockets take SOCKET_BYTES, and the server keeps the rest. Not here: what the bytes mean.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from broker.kafka.connection.frame_connection import FrameConnection
from penstock.types import Endpoint
from tests.simulation.cluster.network import OK, UNAVAILABLE, Connection, Exchange, Listener, Network, Status
from tests.simulation.cluster.scheduler import Process

METHOD = "/kafka/Connection"
CUT_SHARE = 0.3
"""So many of the writes come in several pieces."""
SOCKET_BYTES = 32_768
RESET = Status(UNAVAILABLE, "Connection reset by peer")
UNASKED = Status(UNAVAILABLE, "a node that serves has closed the connection")


class ClosedByNode(ConnectionResetError):
    """The node has ended the connection, and is not about to stop."""


class SimulatedBind:
    """`Bind` of broker/kafka/connection/kafka_listener.py, for one process."""

    def __init__(self, network: Network, process: Process, machine: str, serves: Callable[[], bool]) -> None:
        """`serves`: the process has not been asked to stop."""
        self._network, self._process, self._machine, self._serves = network, process, machine, serves
        self.ends: dict[ServerEnd, None] = {}
        """The connections that there are."""

    async def __call__(self, protocol: Callable[[], FrameConnection], endpoint: Endpoint) -> SimulatedAddress:
        if endpoint in self._network.listeners:
            raise OSError(errno.EADDRINUSE, "the address is in use")
        return SimulatedAddress(
            self._network, self._process, self._machine, protocol, endpoint, self._serves, self.ends
        )


class SimulatedAddress:
    """`BoundAddress` of the same. Until it listens, connections are refused."""

    def __init__(
        self,
        network: Network,
        process: Process,
        machine: str,
        protocol: Callable[[], FrameConnection],
        endpoint: Endpoint,
        serves: Callable[[], bool],
        ends: dict[ServerEnd, None],
    ) -> None:
        self._network, self._process, self._protocol, self._endpoint = network, process, protocol, endpoint
        self._serves, self._ends = serves, ends
        self._listener = Listener(process, machine, {METHOD: self._accept})

    async def listen(self) -> None:
        self._network.listeners[self._endpoint] = self._listener

    def close(self) -> None:
        if self._network.listeners.get(self._endpoint) is self._listener:
            del self._network.listeners[self._endpoint]

    def _accept(self, exchange: Exchange) -> asyncio.Task[None]:
        assert self._process.loop is not None
        end = ServerEnd(self._network.scheduler.draw, exchange, self._protocol, self._serves)
        return self._process.loop.create_task(self._run(end))

    async def _run(self, end: ServerEnd) -> None:
        self._ends[end] = None
        try:
            await end.run()
        finally:
            del self._ends[end]


class ServerEnd:
    """A server's end: the transport that its protocol is given (`asyncio.Transport`, as far as it is used)."""

    def __init__(
        self,
        draw: random.Random,
        exchange: Exchange,
        make: Callable[[], FrameConnection],
        serves: Callable[[], bool],
    ) -> None:
        self._draw, self._exchange, self._make, self._serves = draw, exchange, make, serves
        self._task: asyncio.Task[Any] | None = None
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._is_closed = False
        self.protocol: FrameConnection | None = None
        self._unsent = bytearray()
        """Bytes that the sockets of a client which reads nothing do not take."""

    async def run(self) -> None:
        """From the first byte to the last: the protocol is told of each."""
        self._task = asyncio.current_task()
        protocol = self.protocol = self._make()
        protocol.connection_made(self)  # type: ignore[arg-type]
        error: Exception | None = None
        try:
            while not self._is_closed:
                got = await self._exchange.to_server.get()
                if got is OK:
                    if not protocol.eof_received():
                        self.close()
                    await asyncio.get_running_loop().create_future()
                elif isinstance(got, Status):
                    error = ConnectionResetError(got.details)
                    break
                else:
                    await self._give(protocol, b"".join((got, *self._exchange.to_server.more())))
        except asyncio.CancelledError:
            error = None if self._is_closed else ConnectionResetError("the client is gone")
        self._is_closed = True
        protocol.connection_lost(error)

    async def _give(self, protocol: FrameConnection, data: bytes) -> None:
        view = memoryview(data)
        while view:
            await self._resumed.wait()
            buffer = protocol.get_buffer(-1)
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            view = view[count:]
            protocol.buffer_updated(count)

    # -- the transport -------------------------------------------------------------------------------------------------

    def get_extra_info(self, name: str) -> Any:
        connection = self._exchange.connection
        return (connection.host, connection.port) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def writelines(self, parts: Iterable[bytes]) -> None:
        if self._is_closed:
            return
        data = b"".join(parts)
        if self._exchange.window is not None:
            data = self._taken(data, self._exchange.window)
        for piece in pieces(self._draw, data):
            self._exchange.answer(piece)

    def _taken(self, data: bytes, window: int) -> bytes:
        """As much as the sockets take."""
        taken = data[:window]
        self._exchange.window = window - len(taken)
        self._unsent += data[len(taken) :]
        if self._unsent and self.protocol is not None:
            self.protocol.pause_writing()
        return taken

    def pause_reading(self) -> None:
        self._resumed.clear()

    def resume_reading(self) -> None:
        self._resumed.set()

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """After what is written: never, if its client reads nothing."""
        if not self._unsent:
            self._end(UNASKED if self._serves() else OK)

    def abort(self) -> None:
        self._end(RESET)

    def _end(self, status: Status) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._exchange.finish(status)
            if self._task is not None:
                self._task.cancel()


class ClientEnd:
    """A client's end."""

    def __init__(
        self, network: Network, process: Process, machine: str, endpoint: Endpoint, host: str | None = None
    ) -> None:
        """`host`: the address that it comes from, if not that of all clients."""
        self._draw = network.scheduler.draw
        connection = None if host is None else Connection(next(network.ports), host)
        self._exchange = Exchange(network, process, machine, endpoint, METHOD, connection)

    @property
    def is_over(self) -> bool:
        return self._exchange.to_client.status is not None

    def read_no_more(self) -> None:
        """From now on nothing that the server sends is read."""
        self._exchange.window = SOCKET_BYTES

    def send(self, data: bytes) -> None:
        for piece in pieces(self._draw, data):
            self._exchange.send(piece)

    async def receive(self) -> bytes:
        """The next piece; ConnectionError when there is none."""
        got = await self._exchange.to_client.get()
        if isinstance(got, Status):
            error = ClosedByNode if got is UNASKED else ConnectionResetError
            raise error(got.details or "the connection was closed")
        return got

    def half_close(self) -> None:
        """Sends no more, and reads on."""
        self._exchange.end_input()

    def close(self) -> None:
        """At once: bytes on their way in either direction are lost."""
        self._exchange.cancel()

    def __repr__(self) -> str:
        return f"ClientEnd({self._exchange!r})"


def pieces(draw: random.Random, data: bytes) -> Iterator[bytes]:
    """The data as it comes: whole, or cut anywhere."""
    cuts: set[int] = set()
    if len(data) > 1 and draw.random() < CUT_SHARE:
        cuts = {draw.randrange(1, min(len(data), draw.choice((8, len(data))))) for _ in range(draw.randint(1, 3))}
    begin = 0
    for cut in sorted(cuts):
        yield data[begin:cut]
        begin = cut
    yield data[begin:]
