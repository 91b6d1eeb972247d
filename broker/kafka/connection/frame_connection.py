"""The bytes of one connection in Kafka's protocol: frames in, frames out. An edge.

    frame    size int32 (of what follows) | header | body

Bytes come straight into a buffer of their own once the size of a frame is known: the connection's loop
(network/connection_loop.py) asks for the size, leases memory for it, and only then is the frame read. What comes before
that goes through a buffer that all connections of a listener share, so an idle one has none. At most
`AHEAD_BYTES_MAX` wait unasked for; then the socket is not read, and the sender feels it.

An answer is written at once, as much of it as the socket takes; `write` returns when the last byte has left this
process. Not here: what is in a frame (kafka_wire.py), and which connections there may be (kafka_listener.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from broker.kafka.connection.bound_sockets import endpoint_of
from broker.network.memory_budget import Lease
from broker.network.request_channel import ANONYMOUS
from broker.network.request_memory import RequestIntake
from penstock.errors import InvalidRequestError
from penstock.types import Endpoint

SIZE_BYTES: Final = 4
AHEAD_BYTES_MAX: Final = 16 * 1024
"""Also the size of the shared buffer: a small request is read by one call."""
BYTES_PER_MS_MIN: Final = 1
"""1 kB a second. The memory of a frame is held from its size on, which is four bytes."""
_STRANGERS: Final = {
    b"\x16\x03": "TLS; this listener speaks plain text (listener.security.protocol.map)",
    b"GE": "HTTP",
    b"PO": "HTTP",
    b"PU": "HTTP",
    b"HE": "HTTP",
    b"OP": "HTTP",
    b"PR": "gRPC or HTTP/2; Penstock's own clients use the listener BROKER",
    b"SS": "SSH",
}
"""By the first two bytes: as a size they are all above 300 MB."""


class Frame:
    """One answer, ready to be written: its bytes in parts, which are not copied."""

    __slots__ = ("parts", "size")

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts
        self.size = sum(map(len, parts))

    def __len__(self) -> int:
        return self.size


NO_FRAME: Final = Frame([])
"""The answer to a request that gets none."""


class HearsOfConnection(Protocol):
    """The listener of a connection."""

    def connected(self, connection: FrameConnection) -> None:
        """It is there, and may be refused."""
        ...

    def disconnected(self, connection: FrameConnection) -> None:
        """It is gone, whoever ended it."""
        ...


class FrameConnection(asyncio.BufferedProtocol):
    """Made for every connection that is accepted. `receive` and `write` are `ByteConnection`'s."""

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_drained",
        "_ended",
        "_frame_bytes",
        "_frame_since_ms",
        "_is_lost",
        "_is_paused",
        "_listener",
        "_now_ms",
        "_rest",
        "_shared",
        "_tls",
        "_transport",
        "_waiter",
        "_wanted",
        "active_ms",
        "peer",
        "principal",
        "size_max",
    )

    def __init__(
        self, listener: HearsOfConnection, shared: memoryview, size_max: int, now_ms: Callable[[], int]
    ) -> None:
        """`shared` is the buffer that all connections of a listener read into, `size_max` the largest frame."""
        self._listener, self._shared, self.size_max, self._now_ms = listener, shared, size_max, now_ms
        self._transport: asyncio.Transport | None = None
        self._ahead = bytearray()
        """Bytes that came before they were asked for, at most those of two reads."""
        self._rest: memoryview | None = None
        """The part of the frame that is being read which is not there yet."""
        self._frame_bytes = self._frame_since_ms = 0
        self._wanted = 0
        self._waiter: asyncio.Future[None] | None = None
        """The loop waits by it: for `_wanted` bytes ahead or for the rest of a frame."""
        self._drained: asyncio.Future[None] | None = None
        """While the socket takes no more."""
        self._ended = self._is_lost = self._is_paused = False
        self.active_ms = now_ms()
        """When a frame last was whole, or bytes of an answer left: a client that sends single bytes is not active."""
        self.peer = Endpoint("", 0)
        self.principal = ANONYMOUS
        self._tls: Any = None

    # -- asyncio's side ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._tls = transport.get_extra_info("ssl_object")
        # Writes go out at once, and `write` waits for the last byte; with TLS a limit of 0 is always reached.
        self._transport.set_write_buffer_limits(high=1 if self._tls else 0)
        self.peer = endpoint_of(transport.get_extra_info("peername"))
        self._listener.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._shared if self._rest is None else self._rest

    def buffer_updated(self, nbytes: int) -> None:
        if self._rest is not None:
            self._rest = self._rest[nbytes:] if nbytes < len(self._rest) else None
            if self._rest is None:
                self._wake()
            return
        self._ahead += self._shared[:nbytes]
        if len(self._ahead) >= self._wanted:
            self._wake()
        if self._waiter is None and len(self._ahead) >= AHEAD_BYTES_MAX:
            self._pause()

    def eof_received(self) -> bool:
        self.end_input()
        return self._tls is None  # a client that has only closed its half gets the answers that it is owed

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = self._ended = True
        self._rest = None
        self._wake()
        self.resume_writing()
        self._listener.disconnected(self)

    def pause_writing(self) -> None:
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        self.active_ms = self._now_ms()
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # -- the loop's side -----------------------------------------------------------------------------------------------

    async def receive(self, intake: RequestIntake) -> tuple[memoryview, Lease] | None:
        """The next frame, without its size; None when the other side sends no more, or ended inside of one."""
        while len(self._ahead) < SIZE_BYTES:
            if not await self._more(SIZE_BYTES):
                return None
        size = self._next_size()
        lease = await intake.leased(size)
        try:
            frame = await self._read(size)
        except BaseException:
            lease.release()
            raise
        if frame is None:
            lease.release()
            return None
        self.active_ms = self._now_ms()
        return frame, lease

    def _next_size(self) -> int:
        """BEFORE a byte of the frame is kept for it."""
        size = int.from_bytes(self._ahead[:SIZE_BYTES], "big", signed=True)
        if not 0 < size <= self.size_max:
            stranger = _STRANGERS.get(bytes(self._ahead[:2]))
            if stranger is not None:
                raise InvalidRequestError(f"it speaks {stranger}")
            raise InvalidRequestError(
                f"a frame of {size} bytes; must be from 1 to {self.size_max} (socket.request.max.bytes)"
            )
        del self._ahead[:SIZE_BYTES]
        return size

    async def _read(self, size: int) -> memoryview | None:
        here = len(self._ahead)
        if here >= size:
            frame = self._ahead[:size]
            del self._ahead[:size]
            return memoryview(frame)
        if self._ended:
            return None
        self._frame_bytes, self._frame_since_ms = size, self._now_ms()
        whole = memoryview(bytearray(size))
        whole[:here] = self._ahead
        self._ahead.clear()
        self._rest = whole[here:]
        await self._wait()
        return None if (self._ended and self._rest is not None) or self._is_lost else whole

    async def _more(self, wanted: int) -> bool:
        if self._ended:
            return False
        self._wanted = wanted
        await self._wait()
        return True

    async def _wait(self) -> None:
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        try:
            await waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
            self._waiter = None

    def _pause(self) -> None:
        if not self._is_paused and not self._ended and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    async def write(self, message: Frame) -> None:
        if not message.size:
            return
        if self._is_lost or self._transport is None:
            raise ConnectionResetError(f"{self.peer} is gone")
        self.active_ms = self._now_ms()
        self._transport.writelines(message.parts)
        if self._drained is not None:
            await self._drained

    # -- the listener's side -------------------------------------------------------------------------------------------

    @property
    def unwritten(self) -> int:
        """Bytes of answers that the socket has not taken."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def certificate(self) -> bytes | None:  # in DER; TLS has verified it
        return self._tls.getpeercert(binary_form=True) if self._tls else None

    @property
    def has_ended(self) -> bool:
        """True if the other side sends no more."""
        return self._ended

    @property
    def is_in_frame(self) -> bool:
        """A frame has begun to come."""
        return self._rest is not None

    def crawls_since_ms(self, now_ms: int) -> int | None:
        """Since when a frame comes, if it comes so slowly that others should not wait for the memory that it holds."""
        if self._rest is None:
            return None
        received, took_ms = self._frame_bytes - len(self._rest), now_ms - self._frame_since_ms
        return self._frame_since_ms if received < took_ms * BYTES_PER_MS_MIN else None

    def end_input(self) -> None:
        """As if the other side sent no more: what was read is answered."""
        self._ended = True
        self._wake()

    def close(self) -> None:
        """After what is written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """At once: what is not written is dropped."""
        if self._transport is not None:
            self._transport.abort()

    def __repr__(self) -> str:
        return f"FrameConnection({self.peer})"
