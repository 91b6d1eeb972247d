"""The rows of benchmarks/groups.py with a few groups: how long they take to be stable, and how much they commit."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from benchmarks import groups_wire as wire
from benchmarks.groups_members import SESSION_LONG_MS, Board, ClassicMember, ConsumerMember, Place, reach

TOPIC, TOPIC_PARTITIONS = "groups", 300
BEAT_S_MIN, BEATS_PER_S = 0.05, 330
"""A member beats that often, and all of a group no more than that."""
STABLE_S_MAX = 120.0
COMMITTERS, IN_FLIGHT, COMMITTED = 32, 4, 10
"""Groups that commit, requests in flight of each, and partitions in each request."""
AnyMember = ClassicMember | ConsumerMember
PROTOCOLS: dict[str, type[AnyMember]] = {"classic": ClassicMember, "consumer": ConsumerMember}

Row = dict[str, Any]


async def rebalances(address: str, protocol: str, members: int, ends: Sequence[str], turn: int) -> Row:
    """Seconds until a group of so many is stable, and until it is again after each end of a member: leave, or die."""
    board = Board(TOPIC_PARTITIONS)
    group = b"%s-%d-%d" % (protocol.encode(), members, turn)
    place = Place(address, group, TOPIC.encode(), board, max(BEAT_S_MIN, members / BEATS_PER_S))
    made = [PROTOCOLS[protocol](number, place) for number in range(members)]
    began = time.monotonic()
    tasks = [asyncio.create_task(member.run()) for member in made]
    try:
        row: Row = {"join": await board.wait_stable(members, STABLE_S_MAX) - began}
        for number, how in enumerate(ends):
            tasks[number].cancel()
            await asyncio.wait([tasks[number]])
            began = time.monotonic()
            if how == "leave":
                await made[number].leave()
            else:
                made[number].die()
            row[how] = await board.wait_stable(members - number - 1, STABLE_S_MAX) - began
        return {f"{name}-{protocol}-{members}": round(seconds, 3) for name, seconds in row.items()}
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for member in made:
            with suppress(ConnectionError):
                await member.leave()


async def commits(address: str, seconds: float, turn: int) -> Row:
    """OffsetCommit requests a second by members of groups, each with some in flight."""
    places = [lone(address, b"commits-%d-%d" % (turn, n)) for n in range(COMMITTERS)]
    members = [ClassicMember(0, place, SESSION_LONG_MS) for place in places]
    done: Counter[int] = Counter()

    async def commit(member: ClassicMember, connection: wire.Wire, ends: float) -> None:
        offsets = [(index, 1_000) for index in range(COMMITTED)]
        body = wire.commit_body(member.place.group, member.generation, member.member_id, TOPIC.encode(), offsets)
        while time.monotonic() < ends:
            done[wire.commit_code(await connection.send(wire.OFFSET_COMMIT, body))] += 1

    await asyncio.gather(*(_join(member) for member in members))
    ends = time.monotonic() + seconds
    await asyncio.gather(
        *(commit(m, m.connection, ends) for m in members for _ in range(IN_FLIGHT) if m.connection is not None)
    )
    for member in members:
        await member.leave()
    failed = {code: count for code, count in done.items() if code}
    return {"error": f"commits failed, by error code: {failed}"} if failed else {"commits": round(done[0] / seconds)}


def lone(address: str, group: bytes, partitions: int = TOPIC_PARTITIONS) -> Place:
    return Place(address, group, TOPIC.encode(), Board(partitions), BEAT_S_MIN)


async def _join(member: ClassicMember) -> None:
    """At its coordinator, which may not be there at once."""
    while True:
        member.connection = await reach(member.place)
        with suppress(ConnectionError):
            await member.join()
            return
        await asyncio.sleep(BEAT_S_MIN)
