"""Carries hostile frames to a listener of Kafka's protocol, and says which answers no request may get.

A `Link` is one raw connection. Whole requests are answered in their order, each with what is a message of its API and
version; a node may also end the connection. Forbidden is the error code UNKNOWN_SERVER_ERROR, an answer that is none,
one out of order, and silence. What is sent is hostile.py's and attacks.py's.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from broker.kafka.schemas.table import REQUESTS, RESPONSES
from broker.kafka_codec.codec import decode, encode, is_flexible
from broker.kafka_codec.headers import HeaderStart, read_response_header, request_header
from broker.kafka_codec.structs import facts_of
from penstock.errors import InvalidRequestError, UnknownServerError

T = TypeVar("T")
CONNECT_TIMEOUT_S = 5.0
WRITE_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 20.0
SLOW_S = 5.0
"""An answer that takes longer is counted."""
FRAME_MAX = 1 << 28
ELEMENTS_MAX = 1 << 30
EXAMPLE_BYTES = 400
API_VERSIONS = 18
PRODUCE = 0


class Sent(NamedTuple):
    """One request as a frame. `is_answered`: its client waits for an answer."""

    key: int
    version: int
    frame: bytes
    is_answered: bool = True

    @property
    def name(self) -> str:
        return f"{REQUESTS[self.key].__name__} v{self.version}" if self.key in REQUESTS else f"key {self.key}"


def sent(message: Any, version: int, number: int, client_id: str | None = "fuzz") -> Sent:
    """A request in its frame."""
    facts = facts_of(type(message))
    key = facts.key if facts.key is not None else -1
    header = request_header(HeaderStart(key, version, number), client_id, version in facts.flexible)
    body = header + b"".join(bytes(part) for part in encode(message, version))
    return Sent(key, version, struct.pack(">i", len(body)) + body, key != PRODUCE or message.acks != 0)


@dataclass(slots=True)
class Answers:
    """The answers to attacks: ends of connections and error codes are counted, forbidden ones are reported with what
    they answered."""

    report: Callable[[str, str], None]
    statuses: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)

    def answer(self, request: Sent, number: int | None, frame: memoryview) -> None:
        """An answer came; to the request with that correlation id, if it is known."""
        version = request.version
        response = RESPONSES.get(request.key)
        if request.key == API_VERSIONS and (response is None or version not in facts_of(response).versions):
            version = 0  # a version that the node does not know
        try:
            if response is None:
                raise InvalidRequestError("an unknown API")
            found, at = read_response_header(frame, request.key, is_flexible(response, version))
            body, end = decode(response, version, frame, at, ELEMENTS_MAX)
        except InvalidRequestError as error:
            self.report(f"{request.name} answered what is no message", f"{error.message}; {_example(request)}")
            return
        if number is not None and found != number:
            self.report("an answer out of order", f"{request.name}: {found}, not {number}")
        if end != len(frame):
            self.report(f"{request.name} has bytes behind its answer", _example(request))
        self.statuses["answered"] += 1
        codes = error_codes(body)
        self.codes.update(codes)
        if UnknownServerError.code in codes:
            self.report(f"{request.name} answered UNKNOWN_SERVER_ERROR", f"{body!r:.300}; {_example(request)}")

    def silence(self, request: Sent) -> None:
        """No answer came."""
        self.report(f"{request.name} was not answered", f"in {ANSWER_TIMEOUT_S:g} s; {_example(request)}")


def error_codes(message: Any) -> list[int]:
    """Every error code in an answer, at any depth."""
    found: list[int] = []
    for name, wired in facts_of(type(message)).fields:
        value = getattr(message, name)
        if name.endswith("error_code"):
            found.append(value)
        elif value is not None and isinstance(wired.element, type):
            for one in value if wired.kind == "array" else [value]:
                found += error_codes(one)
    return found


class Link:
    """One connection. Answers are judged by those who wait for them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: Answers) -> None:
        self._reader, self._writer, self._answers = reader, writer, answers
        self._expected: deque[tuple[Sent, int | None]] = deque()

    @classmethod
    async def open(cls, host: str, port: int, answers: Answers) -> Link | None:
        """None if the node takes no connection."""
        try:
            opened = await asyncio.wait_for(asyncio.open_connection(host, port), CONNECT_TIMEOUT_S)
        except (OSError, TimeoutError):
            answers.statuses["not connected"] += 1
            return None
        return cls(*opened, answers)

    async def send(self, requests: Sequence[Sent]) -> None:
        """Whole requests. A node that ends the connection is met by `finish`."""
        for request in requests:
            if request.is_answered:
                (number,) = struct.unpack_from(">i", request.frame, 8)
                self._expected.append((request, number))
        await self.send_bytes(b"".join(request.frame for request in requests))

    async def send_bytes(self, data: bytes) -> bool:
        """False if the node does not take them."""
        try:
            self._writer.write(data)
            await asyncio.wait_for(self._writer.drain(), WRITE_TIMEOUT_S)
        except (OSError, TimeoutError):
            return False
        return True

    async def send_damaged(self, request: Sent) -> None:
        """One that may be answered, and that alone on its connection; then its half is closed."""
        self._expected.append((request, None))
        await self.send_bytes(request.frame)
        self.end_input()

    def end_input(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    async def finish(self, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
        """Until all is answered, or the node has ended the connection (False). Silence is reported."""
        while self._expected:
            request, number = self._expected[0]
            began = time.monotonic()
            try:
                frame = await asyncio.wait_for(self._frame(), timeout_s)
            except TimeoutError:
                self._answers.silence(request)
                return False
            except (OSError, asyncio.IncompleteReadError):
                self._answers.statuses["damaged: ended" if number is None else f"ended at {request.name}"] += 1
                return False
            if time.monotonic() - began > SLOW_S:
                self._answers.statuses[f"slow: {request.name}"] += 1
            self._expected.popleft()
            self._answers.answer(request, number, frame)
        return True

    async def answer_to(self, request: Sent, response: type[T]) -> T | None:
        """The answer to the only request on its connection; None if there is none."""
        await self.send_bytes(request.frame)
        try:
            frame = await asyncio.wait_for(self._frame(), ANSWER_TIMEOUT_S)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return None
        _, at = read_response_header(frame, request.key, is_flexible(response, request.version))
        return decode(response, request.version, frame, at)[0]

    async def ends(self, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
        """True if the node ends the connection, whatever it answers before."""
        with contextlib.suppress(OSError):
            while await asyncio.wait_for(self._reader.read(1 << 16), timeout_s):
                pass
        return True

    async def _frame(self) -> memoryview:
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        if not 0 <= size <= FRAME_MAX:
            raise OSError(f"a frame of {size} bytes")
        return memoryview(await self._reader.readexactly(size))

    def close(self) -> None:
        """At once."""
        self._writer.transport.abort()


def _example(request: Sent) -> str:
    return f"{len(request.frame)} bytes, the first {request.frame[:EXAMPLE_BYTES].hex()}"
