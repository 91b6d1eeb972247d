"""The bytes of one connection in Kafka's protocol: frames in, frames out. An edge.

    frame    size int32 (of what follows) | API key int16 | rest of the header | body

Bytes come straight into a buffer of their own once the size of a frame is known: the connection's loop
(network/connection_loop.py) asks for the size, leases memory for it, and only then is the frame read
(incoming_frame.py). What comes before that goes through a buffer that all connections of a listener share, so an idle
one has none. Less than twice `AHEAD_BYTES_MAX` waits unasked for; then the socket is not read, and the sender feels it.

An answer is written at once, as much of it as the socket takes; `write` returns when the last byte has left this
process. TLS keeps what the socket does not take in a buffer of its own that tells nobody its size, so there an answer
goes in pieces of `PIECE_BYTES_MAX`, each AFTER the socket has taken most of the one before. Not here: what is in a
frame (kafka_wire.py), and which connections there may be (kafka_listener.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, cast

from broker.kafka.connection.bound_sockets import endpoint_of
from broker.kafka.connection.frame_size import SIZE_BYTES, frame_size
from broker.kafka.connection.incoming_frame import IncomingFrame, next_bytes
from broker.kafka.schemas.table import REQUESTS
from broker.network.memory_budget import Lease
from broker.network.request_channel import ANONYMOUS
from broker.network.request_memory import RequestIntake
from broker.network.small_answers import SMALL_ANSWERS
from penstock.types import Endpoint

KEY_BYTES = 2
AHEAD_BYTES_MAX: Final = 16 * 1024
"""Also the size of the shared buffer: a small request is read by one call."""
PIECE_BYTES_MAX: Final = 64 * 1024
LEAVING_SECONDS: Final = 0.1
SMALL_ANSWER_KEYS: Final = frozenset(
    key for key, request in REQUESTS.items() if request.__name__.removesuffix("Request") in SMALL_ANSWERS
)


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
        """The connection is there, and may be refused."""
        ...

    def identified(self, connection: FrameConnection) -> None:
        """The client of the connection has proved to be its principal."""
        ...

    def disconnected(self, connection: FrameConnection) -> None:
        """The connection is gone, whichever side ended it."""
        ...


class FrameConnection(asyncio.BufferedProtocol):
    """Made for every connection that is accepted. `receive` and `write` are `ByteConnection`'s."""

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_drained",
        "_ended",
        "_frame",
        "_given",
        "_is_lost",
        "_is_paused",
        "_listener",
        "_now_ms",
        "_shared",
        "_tls",
        "_transport",
        "_unsent",
        "_waiter",
        "_wanted",
        "active_ms",
        "answer_bytes",
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
        self._frame: IncomingFrame | None = None
        """The frame that is being read."""
        self._wanted = 0
        self._waiter: asyncio.Future[None] | None = None
        """The loop waits by it: for `_wanted` bytes ahead or for the rest of a frame."""
        self._drained: asyncio.Future[None] | None = None
        """Set while the socket takes no more."""
        self._unsent = 0
        """Bytes of the answer that is written which TLS has not been given."""
        self._given = self.answer_bytes = 0
        """The bytes of all answers so far, and of the last one."""
        self._ended = self._is_lost = self._is_paused = False
        self.active_ms = now_ms()
        """The time of the last whole frame, or of bytes of an answer that left. Single bytes make no client active."""
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
        """The rest of the frame, if memory is counted for more of it; a buffer that all connections share otherwise."""
        room = None if self._frame is None else self._frame.room()
        return self._shared if room is None else room

    def buffer_updated(self, nbytes: int) -> None:
        frame = self._frame
        if frame is not None and not frame.is_held and not frame.is_whole:
            self._came(frame, nbytes)
            return
        self._ahead += self._shared[:nbytes]
        if len(self._ahead) >= self._wanted:
            self._wake()
        if (self._waiter is None or frame is not None) and len(self._ahead) >= AHEAD_BYTES_MAX:
            self._pause()

    def _came(self, frame: IncomingFrame, count: int) -> None:
        frame.came(count, self._now_ms(), self._may_go_on)
        if frame.is_whole:
            self._wake()
        elif frame.is_held:
            self._pause()

    def _may_go_on(self, lease: Lease) -> None:
        """There is memory for more of the frame."""
        frame = self._frame
        if frame is not None:
            frame.go_on(self._now_ms())
            self._take_ahead(frame)
            if not frame.is_held:
                self._resume()

    def _take_ahead(self, frame: IncomingFrame) -> None:
        """Bytes that came before they were asked for go into the frame first."""
        while self._ahead and (room := frame.room()) is not None:
            count = min(len(self._ahead), len(room))
            room[:count] = self._ahead[:count]
            room.release()
            del self._ahead[:count]
            self._came(frame, count)

    def eof_received(self) -> bool:
        self.end_input()
        return self._tls is None  # a client that has only closed its half gets the answers that it is owed

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = self._ended = True
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
        size, has_small_answer = self._next_size(), False
        if not intake.may_read:
            while len(self._ahead) < min(size, KEY_BYTES):
                if not await self._more(min(size, KEY_BYTES)):
                    return None
            has_small_answer = int.from_bytes(self._ahead[:KEY_BYTES], "big") in SMALL_ANSWER_KEYS
        here = min(len(self._ahead), size)
        come = size if here == size else next_bytes(size, here)
        lease = await intake.leased(size, come, has_small_answer=has_small_answer)
        try:
            frame = await self._read(size, lease)
        except BaseException:
            lease.release()
            raise
        if frame is None:
            lease.release()
            return None
        self.active_ms = self._now_ms()
        return frame, lease

    def _next_size(self) -> int:
        """The size of the next frame. Read BEFORE a byte of the frame is kept for it."""
        size = frame_size(self._ahead, self.size_max)
        del self._ahead[:SIZE_BYTES]
        return size

    async def _read(self, size: int, lease: Lease) -> memoryview | None:
        if lease.size == size and len(self._ahead) >= size:
            whole = self._ahead[:size]
            del self._ahead[:size]
            return memoryview(whole)
        if self._ended:
            return None
        frame = self._frame = IncomingFrame(size, lease, self._now_ms())
        try:
            self._take_ahead(frame)
            if not frame.is_whole:
                await self._wait()
            return frame.whole() if frame.is_whole and not self._is_lost else None
        finally:
            self._frame = None

    async def _more(self, wanted: int) -> bool:
        if self._ended:
            return False
        self._wanted = wanted
        await self._wait()
        return True

    async def _wait(self) -> None:
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        if self._frame is None or not self._frame.is_held:
            self._resume()
        try:
            await waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
            self._waiter = None

    def _resume(self) -> None:
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    def _pause(self) -> None:
        if not self._is_paused and not self._ended and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    async def write(self, message: Frame) -> None:
        if not message.size:
            return
        if self._is_lost or self._transport is None:
            raise ConnectionResetError(f"{self.peer} is gone")
        self.active_ms, self.answer_bytes = self._now_ms(), message.size
        self._given += message.size
        if self._tls is None:
            await self._send(self._transport, message.parts)
            return
        self._unsent = message.size
        for parts in _pieces(message.parts):
            self._unsent -= sum(map(len, parts))
            await self._send(self._transport, parts)

    async def _send(self, transport: asyncio.Transport, parts: list[Any]) -> None:
        """Returns when the transport takes more."""
        transport.writelines(parts)
        if self._drained is not None:
            await self._drained
            if self._is_lost:
                raise ConnectionResetError(f"{self.peer} is gone")

    # -- the listener's side -------------------------------------------------------------------------------------------

    @property
    def unwritten(self) -> int:
        """Bytes of answers that the socket has not taken."""
        return 0 if self._transport is None else self._unsent + self._transport.get_write_buffer_size()

    @property
    def left(self) -> int:
        """Bytes of answers that the socket has taken, since the beginning."""
        return self._given - self.unwritten

    @property
    def certificate(self) -> bytes | None:  # in DER; TLS has verified it
        return self._tls.getpeercert(binary_form=True) if self._tls else None

    @property
    def has_ended(self) -> bool:
        """True if the other side sends no more."""
        return self._ended

    @property
    def frame(self) -> IncomingFrame | None:
        """The frame that has begun to come."""
        return self._frame

    def crawls_since_ms(self, now_ms: int) -> int | None:
        """The time since when a frame comes, if it comes too slowly for its size."""
        return None if self._frame is None else self._frame.crawls_since_ms(now_ms)

    def is_in_the_way(self, now_ms: int) -> bool:
        """True if its frame has memory above the limits for longer than another party should wait."""
        return self._frame is not None and self._frame.is_in_the_way(now_ms)

    def identified(self, principal: str) -> None:
        """The client has logged in, perhaps again."""
        self.principal = principal
        self._listener.identified(self)

    def end_input(self) -> None:
        """Reads no more, as if the other side sent nothing: what was read is answered."""
        self._ended = True
        self._wake()

    def close(self) -> None:
        """Closes the connection after what is written. With TLS it waits for no farewell: until that comes uvloop reads
        all that is sent."""
        if self._transport is not None:
            self._transport.close()
            if self._tls is not None:
                asyncio.get_running_loop().call_later(LEAVING_SECONDS if self.unwritten else 0, self._end)

    def _end(self) -> None:
        if not self._is_lost:
            self.close() if self.unwritten else self.abort()

    def abort(self) -> None:
        """Ends the connection at once: what is not written is dropped."""
        if self._transport is not None:
            self._transport.abort()

    def __repr__(self) -> str:
        return f"FrameConnection({self.peer})"


def _pieces(parts: Sequence[Any]) -> Iterator[list[Any]]:
    """The parts of an answer, in groups of at most PIECE_BYTES_MAX."""
    piece: list[Any] = []
    room = PIECE_BYTES_MAX
    for part in parts:
        view = memoryview(part).cast("B")
        while len(view) > room:
            piece.append(view[:room])
            view = view[room:]
            yield piece
            piece, room = [], PIECE_BYTES_MAX
        if view:
            piece.append(view)
            room -= len(view)
    if piece:
        yield piece
