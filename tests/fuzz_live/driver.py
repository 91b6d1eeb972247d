"""Carries hostile bytes to a node, and says which answers no request may get.

A request is bytes and an answer is bytes: what protobuf would refuse to build can still be sent. Forbidden is the
status UNKNOWN or INTERNAL, and the error code UNKNOWN_SERVER_ERROR in an answer: each says that the node met what it
had not thought of. What is sent is hostile.py's and attacks.py's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from penstock.errors import UnknownServerError
from tests.fuzz_live.surface import Method

FORBIDDEN = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)
CALL_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 0.3
ANSWERS_READ_MAX = 20
EXAMPLE_BYTES = 600
WRITTEN_TOO_LATE = "Internal error from Core"
"""The words of grpc.aio itself, instead of the node's status, when a stream ends while something is written to it."""
OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_send_message_length", 1 << 30),
    ("grpc.max_receive_message_length", 1 << 30),
]


class Ending(Enum):
    """How a stream is left."""

    HALF_CLOSED = "half-closed"
    CANCELLED = "cancelled"
    NEVER_READ = "never read"
    READ = "read"


Stream = grpc.aio.UnaryStreamCall | grpc.aio.StreamStreamCall


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what is sent, and how it ends. `port` is the listener."""

    method: Method
    port: int
    requests: tuple[bytes, ...]
    ending: Ending = Ending.HALF_CLOSED


@dataclass(slots=True)
class Answers:
    """The answers to attacks: statuses and error codes are counted, forbidden ones are reported with what they
    answered."""

    report: Callable[[str, str], None]
    statuses: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)

    def status(self, call: Call, error: grpc.aio.AioRpcError) -> None:
        """A call ended with an error status."""
        if error.details() == WRITTEN_TOO_LATE:
            self.statuses["written too late"] += 1
            return
        self.statuses[error.code().name] += 1
        if error.code() in FORBIDDEN:
            self.report(f"{call.method} answered {error.code().name}", f"{error.details()!s:.300}; {_example(call)}")

    def message(self, call: Call, data: bytes) -> None:
        """An answer came."""
        self.statuses["OK"] += 1
        try:
            codes = list(error_codes(call.method.parse_response(data)))
        except DecodeError:
            self.report(f"{call.method} answered what is no message", _example(call))
            return
        self.codes.update(codes)
        if UnknownServerError.code in codes:
            self.report(f"{call.method} answered UNKNOWN_SERVER_ERROR", f"{data!r:.300}; {_example(call)}")


def error_codes(message: Message) -> list[int]:
    """Every error code in an answer."""
    found: list[int] = []
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        for one in value if descriptor.is_repeated else [value]:
            if descriptor.message_type.name == "Error":
                found.append(one.code)
            else:
                found += error_codes(one)
    return found


class Driver:
    """Channels to every listener, one connection each; runs on one event loop."""

    def __init__(self, host: str, answers: Answers) -> None:
        self._host = host
        self._answers = answers
        self._channels: dict[int, grpc.aio.Channel] = {}

    async def run(self, calls: Sequence[Call]) -> None:
        """All at once."""
        await asyncio.gather(*(self._run(call) for call in calls))

    async def close(self) -> None:
        """Leaves everything."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    def channel(self, port: int) -> grpc.aio.Channel:
        """The connection to one listener."""
        if port not in self._channels:
            self._channels[port] = grpc.aio.insecure_channel(f"{self._host}:{port}", options=OPTIONS)
        return self._channels[port]

    async def _run(self, call: Call) -> None:
        stream: Stream | None = None
        try:
            stream = await self._open(call)
            if call.ending is Ending.CANCELLED:
                stream.cancel()
            elif call.ending is Ending.NEVER_READ:
                await asyncio.sleep(READ_TIMEOUT_S)
                stream.cancel()
            else:
                await self._read(call, stream)
        except grpc.aio.AioRpcError as error:
            self._answers.status(call, error)
        except (TimeoutError, asyncio.InvalidStateError, asyncio.CancelledError):
            if stream is not None:
                stream.cancel()
            self._answers.statuses["gave up"] += 1

    async def _open(self, call: Call) -> Stream:
        """Everything is sent. One request goes together with its half-close, so that no status is lost to a race."""
        channel, path = self.channel(call.port), call.method.path
        ends = call.ending is Ending.HALF_CLOSED or not call.method.takes_stream
        if len(call.requests) == 1 and ends:
            return channel.unary_stream(path)(call.requests[0], timeout=CALL_TIMEOUT_S)
        # A unary method takes exactly one request; more, or none, is what a stream call can send it all the same.
        stream = channel.stream_stream(path)(timeout=CALL_TIMEOUT_S)
        for request in call.requests:
            await asyncio.wait_for(stream.write(request), CALL_TIMEOUT_S)
        if ends:
            await stream.done_writing()
        return stream

    async def _read(self, call: Call, stream: Stream) -> None:
        waits = call.ending is Ending.HALF_CLOSED or not call.method.takes_stream
        for _ in range(ANSWERS_READ_MAX):
            answer = await asyncio.wait_for(stream.read(), CALL_TIMEOUT_S if waits else READ_TIMEOUT_S)
            if answer is grpc.aio.EOF:
                code = await stream.code()
                if code is not grpc.StatusCode.OK:
                    details = await stream.details()
                    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)
                    self._answers.status(call, error)
                return
            self._answers.message(call, answer)
        stream.cancel()


def _example(call: Call) -> str:
    shown = [request[:EXAMPLE_BYTES].hex() for request in call.requests[:3]]
    return f"port {call.port}, {call.ending.value}, {len(call.requests)} requests, the first {shown}"
