"""The life of one connection: room, turn, read, lease, decode, prepare, submit; and answers, written in their order.

A listener gives its bytes (`ByteConnection`) and its language (`Wire`); the rest is the same for all of them. A request
is read only when the connection may have another one open (processor.py), and when there is memory for it
(request_memory.py). What an API prepares before the request queues, such as a conversion, holds up this connection
alone, so its requests stay in order. Not here: which clients may connect, gRPC, and what a request means.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from broker.connections.turns import Turn
from broker.network.client_names import ClientNames, ClientTraffic
from broker.network.memory_budget import Lease
from broker.network.parties import party_of
from broker.network.processor import Processor, Way
from broker.network.request_channel import SMALL_BYTES, Caller, Request, RequestChannel
from broker.network.request_memory import RequestIntake, RequestMemory
from broker.network.small_answers import SMALL_ANSWERS
from penstock.tasks import watch

_log = logging.getLogger(__name__)

Raw = TypeVar("Raw")
"""The bytes of a request, as a connection has them."""
Message = TypeVar("Message", bound="Measured")
"""An answer, as a connection writes it."""

Prepare = Callable[[Request], Awaitable[None] | None]
"""Called with each request BEFORE it queues; what it returns is waited for."""


class Incoming(NamedTuple):
    """One request as its bytes have it: `api` is its name on the way through the node."""

    api: str
    correlation_id: int
    client_id: str
    body: Any
    is_large: bool = False
    """See `Request`."""


class Measured(Protocol):
    """Has a length, in bytes."""

    def __len__(self) -> int: ...


RawIn = TypeVar("RawIn", contravariant=True)
RawOut = TypeVar("RawOut", covariant=True)
MessageOut = TypeVar("MessageOut", covariant=True)
MessageIn = TypeVar("MessageIn", contravariant=True)


class Wire(Protocol[RawIn, MessageOut]):
    """A language of requests and answers."""

    def decode(self, raw: RawIn) -> Incoming | Awaitable[Incoming]:
        """The decoded request. InvalidRequestError for bytes that are no request, for one over a limit, or one that may
        not be sent here. A request that cannot be decoded yet, because there is no room for it, is awaited."""
        ...

    def encode(self, request: Request, answer: Any) -> MessageOut:
        """The bytes of the request's error, or else of this answer or part of one."""
        ...


class ByteConnection(Protocol[RawOut, MessageIn]):
    """The bytes of one connection, message by message."""

    async def receive(self, intake: RequestIntake) -> tuple[RawOut, Lease] | None:
        """The next message and the lease of its memory, by the way of the intake that fits the wire; None when the
        other side sends no more."""
        ...

    async def write(self, message: MessageIn) -> None:
        """Returns when there is room for another one."""
        ...


class Quotas(Protocol):
    """Takes from the quotas of its client what each request needs, and tells how long the client waits then (ms)."""

    @property
    def is_active(self) -> bool:
        """False: nobody has a quota."""
        ...

    def came(self, request: Request, size_bytes: int, now_ns: int, /) -> int: ...

    def answered(self, request: Request, worked: Request, size_bytes: int, now_ns: int, /) -> int:
        """`worked` is the request that the handlers had, whose own wait is not counted in; `size_bytes` is the
        answer's."""
        ...

    def owed(self, request: Request, now_ns: int, /) -> int:
        """How much of what its client was told to wait is left (ms), for a request that cannot be left unread."""
        ...


class ConnectionLoop(Generic[Raw, Message]):
    """One connection, from its first request to its last answer."""

    def __init__(
        self,
        channel: RequestChannel,
        caller: Caller,
        connection: ByteConnection[Raw, Message],
        wire: Wire[Raw, Message],
        memory: RequestMemory,
        pipelined_max: int,
        prepare: Prepare,
        session: object = None,
        names: ClientNames | None = None,
        way: Way | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        """`session` is that of its fetches; `names` counts the connection by the client's name, if given. `way` is
        that of its requests through the node, if it is not straight into the channel. `quotas`: those
        that its client is held to."""
        self._channel, self._connection, self._wire = channel, connection, wire
        self._memory, self._prepare, self._session, self._names = memory, prepare, session, names
        self._intake: RequestIntake | None = None
        self._way: Way = channel if way is None else way
        self._processor = Processor(channel, caller, pipelined_max, self._way, self._hold)
        self._is_writing = False
        self._held: dict[Request, tuple[Message, Lease]] = {}
        """Answers that are ready behind one that is not read, as their bytes."""
        self._client: ClientTraffic | None = None
        self._quotas = quotas
        self._muted_until_ns = 0
        """Nothing is read before, because the client has used its quota up (KIP-219)."""
        self.writing_since_ns: int | None = None
        """The time since which an answer is being written; None while none is."""

    async def run(self, turn: Turn | None = None) -> None:
        """Ends when the other side sends no more and has its answers; raises what ended it before. `turn` is waited for
        before anything is read."""
        busy = self._channel.busy.network
        reader = asyncio.create_task(busy.timed(self._read(turn)))
        watch(reader, _note_failure)
        try:
            await busy.timed(self._answer())
            reader.result()
        finally:
            reader.cancel()
            self._processor.close()
            for _, lease in self._held.values():
                lease.release()
            self._held.clear()
            if self._intake is not None:
                self._intake.close()
            del reader  # its error has this frame in its traceback, and the bytes of a request: a ring without this

    async def _read(self, turn: Turn | None) -> None:
        if turn is not None:
            await turn()
        processor = self._processor
        intake = self._intake = self._memory.open(party_of(processor.caller))
        try:
            while True:
                await processor.wait_room()
                if self._muted_until_ns:
                    await self._unmuted()
                received = await self._connection.receive(intake)
                if received is None:
                    return
                raw, lease = received
                try:
                    received_ns = self._channel.now_ns()
                    decoded = self._wire.decode(raw)
                    incoming = decoded if isinstance(decoded, Incoming) else await decoded
                    del raw, received
                    self._count_in(incoming.client_id, lease.size)
                    request = processor.request(incoming, self._session, lease, received_ns)
                    if self._quotas is not None and self._quotas.is_active:
                        self._mute(request, self._quotas.came(request, lease.size, received_ns))
                    preparing = self._prepare(request)
                    if preparing is not None:
                        await preparing
                    await processor.submit(request)
                    del decoded, incoming, request  # the next one may come late, and its lease is given back before
                except BaseException:
                    lease.release()
                    raise
        finally:
            intake.input_ended()
            if self._names is not None and self._client is not None:
                self._names.left(self._client)
            processor.input_ended()

    def _count_in(self, client_id: str, size: int) -> None:
        if self._names is None:
            return
        if self._client is None:
            self._client = self._names.joined(client_id, self._processor.caller)
        self._client.count_in(size)

    async def _answer(self) -> None:
        while (request := await self._processor.next_response()) is not None:
            await self._write(request)
            del request

    async def _write(self, request: Request) -> None:
        is_last, lease, intake = request.is_complete, None, self._intake
        self._is_writing = True
        try:
            if self._held and is_last and request in self._held:
                message, lease = self._held.pop(request)
            else:
                message = await self._encoded(request, intake)
                if is_last:
                    message = self._finished(request, message)
                else:
                    request.response = None  # the message has a copy of its records
                if request.response_lease is None and intake is not None:
                    lease = intake.answered(len(message))
            self.writing_since_ns = self._channel.now_ns()
            if self._client is not None:
                self._client.bytes_out += len(message)
            await self._connection.write(message)
        finally:
            self.writing_since_ns, self._is_writing = None, False
            if lease is not None:
                lease.release()
            if is_last:
                request.dropped()
            if intake is not None and not self._held:
                intake.unread = False
        if is_last:
            self._way.request_sent(request)

    def _hold(self, request: Request) -> None:
        """An answer is ready while another one is under way. Its objects would take more memory than its bytes, and
        count nowhere."""
        intake = self._intake
        if not self._is_writing or intake is None or request.response_lease is not None:
            return
        intake.unread = True
        if request.api in SMALL_ANSWERS:
            try:
                message = self._finished(request, self._built(request))
            except Exception:
                return  # it is met again, and ends the connection, when the answers before it are written
            self._held[request] = message, intake.held(len(message))

    def _finished(self, request: Request, message: Message) -> Message:
        """The whole answer, of which no more than its bytes is needed."""
        if self._quotas is not None and self._quotas.is_active:
            message = self._charged(request, message, self._quotas)
        self._way.answer_encoded(request)
        return message

    async def _encoded(self, request: Request, intake: RequestIntake | None) -> Message:
        """Built when its party may have one more that is unread, or at once if it is small."""
        if request.is_complete and request.response_lease is None and intake is not None and not intake.may_answer:
            if request.api in SMALL_ANSWERS and (small := self._small(request)) is not None:
                return small
            while not intake.may_answer:  # AGAIN, because all that wait are told at once
                await intake.answerable()
        return self._built(request)

    def _small(self, request: Request) -> Message | None:
        """None if it is a large one after all, of which nothing is kept."""
        message = self._built(request)
        return message if len(message) <= SMALL_BYTES else None

    def _built(self, request: Request) -> Message:
        return request.encoded(lambda answer: self._wire.encode(request, answer))

    def _charged(self, request: Request, message: Message, quotas: Quotas) -> Message:
        """The answer, with the time that its client must wait."""
        now_ns = self._channel.now_ns()
        answered_ms = request.throttle_ms
        worked = self._way.worked_on(request)
        self._mute(request, max(quotas.answered(request, worked, len(message), now_ns), worked.throttle_ms))
        if request.throttle_ms == answered_ms:
            return message
        return self._built(request)

    def _mute(self, request: Request, throttle_ms: int) -> None:
        if throttle_ms > request.throttle_ms:
            request.throttle_ms = throttle_ms
            self._muted_until_ns = max(self._muted_until_ns, self._channel.now_ns() + throttle_ms * 1_000_000)

    async def _unmuted(self) -> None:
        """Returns when the connection may be read. A request that was on its way when the wait began does not wait: it
        would hold memory that others need, and it counts for the next wait. It is one at most."""
        until_ns, self._muted_until_ns = self._muted_until_ns, 0
        left_ns = until_ns - self._channel.now_ns()
        if left_ns > 0:
            await asyncio.sleep(left_ns / 1_000_000_000)

    def identified(self, caller: Caller, memory: RequestMemory) -> None:
        """The caller has become known: requests that are read from now on are that caller's, and count in that
        memory."""
        self._processor.caller = caller
        if self._intake is not None:
            self._intake.move(memory, party_of(caller))
        if self._names is not None and self._client is not None:  # named anew with its next request
            self._names.left(self._client)
            self._client = None

    @property
    def is_idle(self) -> bool:
        """True if no request is open."""
        return self._processor.is_idle

    @property
    def client_name(self) -> str:
        """The name that its client gave; "" before that."""
        return "" if self._client is None else self._client.name

    def __repr__(self) -> str:
        return f"ConnectionLoop({self._processor.caller.peer})"


def _note_failure(error: BaseException) -> None:
    """A read fails if its connection has ended meanwhile, and then its result is not needed."""
    _log.debug("a connection ended while it was read: %r", error)
