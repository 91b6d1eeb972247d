"""Members of groups for benchmarks/groups.py, of both protocols: they join, acknowledge, beat and leave as clients do.

A member holds what it was assigned and says so on the group's board, which knows when the group is stable: all of its
members hold something of one epoch, no partition is held twice, none is left out, and shares differ by one at most.
How often members beat is the caller's choice, whatever the coordinator asks for: otherwise its interval would be what
is measured. They read nothing.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks import groups_wire as wire
from benchmarks.groups_wire import Reader, Wire

UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCES, MEMBER_ID_REQUIRED, FENCED_EPOCH = 25, 22, 27, 79, 110
SESSION_MS = 6_000
SESSION_LONG_MS = 1_800_000
"""For members that nobody beats for."""
RETRY_S = 0.05
PROTOCOL = b"range"


@dataclass(slots=True)
class Board:
    """The assignments of one group, as its members hold them."""

    partitions: int
    held: dict[int, tuple[int, frozenset[int]]] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def hold(self, member: int, epoch: int, partitions: Iterable[int]) -> None:
        self.held[member] = epoch, frozenset(partitions)
        self._changed.set()

    def drop(self, member: int) -> None:
        self.held.pop(member, None)

    def is_stable(self, members: int) -> bool:
        if len(self.held) != members or len({epoch for epoch, _ in self.held.values()}) != 1:
            return False
        sizes = [len(held) for _, held in self.held.values()]
        together: frozenset[int] = frozenset().union(*(held for _, held in self.held.values()))
        return sum(sizes) == len(together) == self.partitions and max(sizes) - min(sizes) <= 1

    async def wait_stable(self, members: int, timeout_s: float) -> float:
        """The time of the change that made it stable."""
        async with asyncio.timeout(timeout_s):
            while not self.is_stable(members):
                self._changed.clear()
                await self._changed.wait()
        return time.monotonic()


class Member(Protocol):
    """A member of either protocol."""

    async def run(self) -> None:
        """Joins and stays until it is cancelled."""
        ...

    async def leave(self) -> None: ...

    def die(self) -> None:
        """Without a word."""
        ...


@dataclass(slots=True)
class Place:
    """The group of a member, and where it is coordinated."""

    address: str
    group: bytes
    topic: bytes
    board: Board
    beat_s: float


async def reach(place: Place) -> Wire:
    """A connection to the group's coordinator."""
    while True:
        with suppress(ConnectionError, OSError):
            asked = await wire.connect(place.address)
            code, _, address = await wire.coordinator(asked, place.group)
            asked.close()
            if code == wire.NONE:
                return await wire.connect(address)
        await asyncio.sleep(RETRY_S)


@dataclass(slots=True)
class ClassicMember:
    """JoinGroup, SyncGroup, Heartbeat; the leader deals the partitions out one by one."""

    number: int
    place: Place
    session_ms: int = SESSION_MS
    member_id: bytes = b""
    generation: int = -1
    connection: Wire | None = None

    async def run(self) -> None:
        while True:
            with suppress(ConnectionError):
                self.connection = await reach(self.place)
                while True:
                    await self.join()
                    await self._beat()
            await asyncio.sleep(RETRY_S)

    async def join(self) -> None:
        """Returns when the member holds its part of a generation."""
        code = wire.LOST
        while code != wire.NONE:
            code, members = await self._join()
            if code == wire.NONE:
                code = await self._sync(members)
            if code in (UNKNOWN_MEMBER, ILLEGAL_GENERATION):
                self.member_id = b""
            elif code in wire.NOT_THERE:
                raise ConnectionError(f"error code {code}")

    async def _join(self) -> tuple[int, list[bytes]]:
        metadata = struct.pack(">h", 0) + wire.array([wire.string(self.place.topic)]) + struct.pack(">i", -1)
        times = struct.pack(">ii", self.session_ms, SESSION_LONG_MS)
        protocols = wire.array([wire.string(PROTOCOL) + wire.blob(metadata)])
        names = wire.string(self.member_id) + wire.string(None) + wire.string(b"consumer")
        answer = await self._ask(wire.JOIN, wire.string(self.place.group) + times + names + protocols)
        code, self.generation = answer.number("h"), answer.number("i")
        answer.string()
        answer.string()
        self.member_id = answer.string() or b""
        members = []
        for _ in range(answer.number("i")):
            members.append(answer.string() or b"")
            answer.string()
            answer.blob()
        return code, members

    async def _sync(self, members: list[bytes]) -> int:
        dealt = [wire.string(member) + wire.blob(self._part(n, len(members))) for n, member in enumerate(members)]
        answer = await self._ask(wire.SYNC, self._who() + wire.string(None) + wire.array(dealt))
        if code := answer.number("h"):
            return code
        self.place.board.hold(self.number, self.generation, _partitions(answer.blob()))
        return wire.NONE

    def _part(self, index: int, members: int) -> bytes:
        partitions = [struct.pack(">i", p) for p in range(index, self.place.board.partitions, members)]
        topic = wire.string(self.place.topic) + wire.array(partitions)
        return struct.pack(">h", 0) + wire.array([topic]) + struct.pack(">i", -1)

    async def _beat(self) -> None:
        """Until the group rebalances."""
        while True:
            await asyncio.sleep(self.place.beat_s)
            answer = await self._ask(wire.HEARTBEAT, self._who() + wire.string(None))
            if code := answer.number("h"):
                if code == UNKNOWN_MEMBER:
                    self.member_id = b""
                elif code not in (REBALANCES, ILLEGAL_GENERATION):
                    raise ConnectionError(f"error code {code}")
                return

    def _who(self) -> bytes:
        return wire.string(self.place.group) + struct.pack(">i", self.generation) + wire.string(self.member_id)

    async def _ask(self, api: wire.Api, body: bytes) -> Reader:
        """The answer behind its throttle time."""
        if self.connection is None:
            raise ConnectionError("the member has no connection")
        answer = await self.connection.ask(api, body)
        answer.number("i")
        return answer

    async def leave(self) -> None:
        who = wire.string(self.member_id) + wire.string(None)
        await self._ask(wire.LEAVE, wire.string(self.place.group) + wire.array([who]))
        self.die()

    def die(self) -> None:
        self.place.board.drop(self.number)
        if self.connection is not None:
            self.connection.close()


def _partitions(assignment: bytes) -> list[int]:
    if not assignment:
        return []
    found = Reader(assignment, 2)
    partitions = []
    for _ in range(found.number("i")):
        found.string()
        partitions += [found.number("i") for _ in range(found.number("i"))]
    return partitions


@dataclass(slots=True)
class ConsumerMember:
    """ConsumerGroupHeartbeat (KIP-848); gives up at once whatever it is to give up."""

    number: int
    place: Place
    epoch: int = 0
    member_id: bytes = b""
    connection: Wire | None = None
    _held: list[tuple[bytes, list[int]]] = field(default_factory=list)

    async def run(self) -> None:
        self.member_id = b"member-%d-%d" % (self.number, time.monotonic_ns())
        while True:
            with suppress(ConnectionError):
                self.connection = await reach(self.place)
                says_all = True
                while True:
                    is_news = await self._beat(says_all)
                    says_all = self.epoch == 0
                    if not is_news:
                        await asyncio.sleep(self.place.beat_s)
            await asyncio.sleep(RETRY_S)

    async def _beat(self, says_all: bool) -> bool:
        """True if there is something to acknowledge: the next beat does."""
        answer = await self._ask(self.epoch, says_all)
        answer.number("i")
        code = answer.number("h")
        if code in (FENCED_EPOCH, UNKNOWN_MEMBER):
            self.epoch, self._held = 0, []
            self.place.board.drop(self.number)
            return True
        if code != wire.NONE:
            raise ConnectionError(f"error code {code}")
        answer.compact_string()
        answer.compact_string()
        before, self.epoch = self.epoch, answer.number("i")
        answer.number("i")
        is_assigned = answer.number("b") >= 0
        if is_assigned:
            self._held = [self._topic(answer) for _ in range(answer.varint() - 1)]
        if is_assigned or before != self.epoch:
            self.place.board.hold(self.number, self.epoch, [p for _, partitions in self._held for p in partitions])
        return is_assigned

    @staticmethod
    def _topic(answer: Reader) -> tuple[bytes, list[int]]:
        topic_id = answer.raw(16)
        partitions = [answer.number("i") for _ in range(answer.varint() - 1)]
        answer.varint()
        return topic_id, partitions

    async def _ask(self, epoch: int, says_all: bool) -> Reader:
        if self.connection is None:
            raise ConnectionError("the member has no connection")
        held = [
            topic_id + wire.compact_array([struct.pack(">i", p) for p in partitions]) + b"\0"
            for topic_id, partitions in self._held
        ]
        body = [
            wire.compact_string(self.place.group) + wire.compact_string(self.member_id) + struct.pack(">i", epoch),
            wire.compact_string(None) + wire.compact_string(None) + struct.pack(">i", 60_000 if says_all else -1),
            wire.compact_array([wire.compact_string(self.place.topic)] if says_all else None),
            wire.compact_string(None) + wire.compact_string(None) + wire.compact_array(held) + b"\0",
        ]
        return await self.connection.ask(wire.CONSUMER_HEARTBEAT, b"".join(body))

    async def leave(self) -> None:
        await self._ask(-1, False)
        self.die()

    def die(self) -> None:
        self.place.board.drop(self.number)
        if self.connection is not None:
            self.connection.close()
