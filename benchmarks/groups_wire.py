"""A small client of Kafka's protocol for benchmarks/groups.py: the requests of groups as bytes, made here by hand.

It holds no thread and no buffer of its own, so that a thousand of them in one process leave the machine to the nodes.
The versions are old ones without tagged fields, which every broker of Kafka 4 serves; ConsumerGroupHeartbeat has none
of these. Not here: members, which join and beat (groups_members.py).
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Iterable, Sequence

FIND_COORDINATOR, JOIN, SYNC, HEARTBEAT, LEAVE = (10, 2), (11, 5), (14, 3), (12, 3), (13, 3)
OFFSET_COMMIT, OFFSET_FETCH, CONSUMER_HEARTBEAT = (8, 7), (9, 5), (68, 1)
"""API keys with the versions that are spoken here."""
CLIENT_ID = b"groups"
NONE, LOADS, NOT_AVAILABLE, NOT_COORDINATOR = 0, 14, 15, 16
NOT_THERE = frozenset({LOADS, NOT_AVAILABLE, NOT_COORDINATOR})
"""The errors of a coordinator that is not there yet, or no more."""
LOST = -1000
"""The code of a request whose connection broke."""
REQUEST_S = 60.0

Api = tuple[int, int]


class Reader:
    """The fields of an answer, in their order."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def number(self, form: str) -> int:
        found: int = struct.unpack_from(">" + form, self._data, self._at)[0]
        self._at += struct.calcsize(form)
        return found

    def raw(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def string(self) -> bytes | None:
        size = self.number("h")
        return None if size < 0 else self.raw(size)

    def blob(self) -> bytes:
        return self.raw(max(0, self.number("i")))

    def varint(self) -> int:
        shift = found = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    def compact_string(self) -> bytes | None:
        size = self.varint() - 1
        return None if size < 0 else self.raw(size)


def string(text: bytes | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text


def blob(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def compact_string(text: bytes | None) -> bytes:
    return varint(0) if text is None else varint(len(text) + 1) + text


def compact_array(items: Sequence[bytes] | None) -> bytes:
    return varint(0) if items is None else varint(len(items) + 1) + b"".join(items)


class Wire(asyncio.Protocol):
    """One connection. Answers come in the order of the requests."""

    def __init__(self) -> None:
        self._here = bytearray()
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._number = 0
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.WriteTransport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._here += data
        at = 0
        while len(self._here) - at >= 4:
            (size,) = struct.unpack_from(">i", self._here, at)
            if len(self._here) - at - 4 < size:
                break
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_result(bytes(self._here[at + 4 : at + 4 + size]))
            at += 4 + size
        del self._here[:at]

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        while self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(ConnectionError("the node has closed the connection"))

    def send(self, api: Api, body: bytes) -> asyncio.Future[bytes]:
        """Writes the request; its answer is the frame with its header."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._transport is None:
            answer.set_exception(ConnectionError("the connection is closed"))
            return answer
        self._number += 1
        head = struct.pack(">hhi", *api, self._number) + string(CLIENT_ID)
        if api == CONSUMER_HEARTBEAT:
            head += b"\0"
        self._waiting.append(answer)
        self._transport.write(struct.pack(">i", len(head) + len(body)) + head + body)
        return answer

    async def ask(self, api: Api, body: bytes) -> Reader:
        """The answer's body; ConnectionError without one in time."""
        try:
            async with asyncio.timeout(REQUEST_S):
                frame = await self.send(api, body)
        except TimeoutError as error:
            raise ConnectionError("no answer in time") from error
        return Reader(frame, 5 if api == CONSUMER_HEARTBEAT else 4)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_open(self) -> bool:
        return self._transport is not None


async def connect(address: str) -> Wire:
    host, _, port = address.rpartition(":")
    _, wire = await asyncio.get_running_loop().create_connection(Wire, host, int(port))
    return wire


async def coordinator(wire: Wire, group: bytes) -> tuple[int, int, str]:
    """An error code; the id and address of the group's coordinator."""
    answer = await wire.ask(FIND_COORDINATOR, string(group) + b"\0")
    answer.number("i")
    code = answer.number("h")
    answer.string()
    node = answer.number("i")
    return code, node, f"{(answer.string() or b'').decode()}:{answer.number('i')}"


def commit_body(
    group: bytes, generation: int, member: bytes, topic: bytes, offsets: Iterable[tuple[int, int]]
) -> bytes:
    """An OffsetCommit of partitions with their offsets."""
    partitions = [struct.pack(">iqi", index, offset, -1) + string(b"") for index, offset in offsets]
    head = string(group) + struct.pack(">i", generation) + string(member) + string(None)
    return head + array([string(topic) + array(partitions)])


def commit_code(frame: bytes) -> int:
    """The first error of the answer, or 0. The frame has its header."""
    answer = Reader(frame, 8)
    for _ in range(answer.number("i")):
        answer.string()
        for _ in range(answer.number("i")):
            answer.number("i")
            if code := answer.number("h"):
                return code
    return NONE


async def fetch_offsets(wire: Wire, group: bytes) -> tuple[int, dict[int, int]]:
    """An error code, and by partition what the group has committed."""
    answer = await wire.ask(OFFSET_FETCH, string(group) + struct.pack(">i", -1))
    answer.number("i")
    found, worst = {}, NONE
    for _ in range(answer.number("i")):
        answer.string()
        for _ in range(answer.number("i")):
            index, offset = answer.number("i"), answer.number("q")
            answer.number("i")
            answer.string()
            worst = answer.number("h") or worst
            found[index] = offset
    return answer.number("h") or worst, found
