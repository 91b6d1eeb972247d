"""The rows of benchmarks/groups.py with many groups: what they cost in memory, and how soon another node has them.

The groups are a client's: made through Kafka's door, each with a member and its committed offsets. Nobody beats for
the members, whose sessions are long.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from benchmarks import broker_systems as systems
from benchmarks import groups_wire as wire
from benchmarks.groups_members import SESSION_LONG_MS, ClassicMember
from benchmarks.groups_rows import BEAT_S_MIN, STABLE_S_MAX, lone

NODES = 3
OFFSETS_PARTITIONS = 50
COMMITTED = 10
"""Partitions that each group has committed."""
MAKERS = 24
"""Connections that make many groups at a time."""
BACK_S_MAX = 120.0
PROBE_S = 0.01
MEMBERS_EACH = 10
SETTLE_S = 1.0

Row = dict[str, Any]


def group_name(number: int) -> bytes:
    return b"many-%d" % number


async def make_groups(address: str, first: int, end: int) -> None:
    """Groups with one member and committed offsets each. Connections are shared: a member is no connection."""

    async def make(numbers: Sequence[int]) -> None:
        connections: dict[str, wire.Wire] = {}
        asked = await wire.connect(address)
        for number in numbers:
            place = lone(address, group_name(number), COMMITTED)
            member = ClassicMember(0, place, SESSION_LONG_MS)
            while True:
                with suppress(ConnectionError):
                    code, _, at = await wire.coordinator(asked, place.group)
                    if code == wire.NONE:
                        connections[at] = connections.get(at) or await wire.connect(at)
                        member.connection = connections[at]
                        await member.join()
                        break
                await asyncio.sleep(BEAT_S_MIN)
            offsets = [(index, number) for index in range(COMMITTED)]
            body = wire.commit_body(place.group, member.generation, member.member_id, place.topic, offsets)
            if code := wire.commit_code(await member.connection.send(wire.OFFSET_COMMIT, body)):
                raise RuntimeError(f"group {place.group.decode()} cannot commit: error code {code}")
        for connection in [asked, *connections.values()]:
            connection.close()

    await asyncio.gather(*(make(range(first + n, end, MAKERS)) for n in range(MAKERS)))


async def make_members(address: str, step: int, groups: int) -> None:
    """Groups of several members, of one generation each."""

    async def make(numbers: Sequence[int]) -> None:
        for number in numbers:
            place = lone(address, b"crowd-%d-%d" % (step, number))
            members = [ClassicMember(n, place, SESSION_LONG_MS) for n in range(MEMBERS_EACH)]
            tasks = [asyncio.create_task(member.run()) for member in members]
            await place.board.wait_stable(MEMBERS_EACH, STABLE_S_MAX)
            for task, member in zip(tasks, members, strict=True):
                task.cancel()
                member.die()
            await asyncio.wait(tasks)

    await asyncio.gather(*(make(range(n, groups, MAKERS)) for n in range(MAKERS)))


def partition_of(group: bytes) -> int:
    """The partition of __consumer_offsets that holds the group: Java's hash of the string."""
    found = 0
    for byte in group:
        found = (31 * found + byte) & 0xFFFF_FFFF
    return (found & 0x7FFF_FFFF) % OFFSETS_PARTITIONS


async def probes(address: str, groups: int) -> tuple[int, list[int], int]:
    """The node that coordinates most partitions; one group of each of these; how many groups it coordinates."""
    asked = await wire.connect(address)
    of_partition = {partition_of(group_name(number)): number for number in range(groups)}
    node_of = {p: (await wire.coordinator(asked, group_name(number)))[1] for p, number in of_partition.items()}
    asked.close()
    victim, _ = Counter(node_of.values()).most_common(1)[0]
    moved = sum(1 for number in range(groups) if node_of[partition_of(group_name(number))] == victim)
    return victim, [number for p, number in of_partition.items() if node_of[p] == victim], moved


async def wait_back(addresses: Sequence[str], numbers: Sequence[int], dead: int) -> Row:
    """Asks for the offsets of each group until another coordinator answers."""
    began = time.monotonic()
    seen: list[float] = []
    back: list[float] = []
    wrong = 0
    connections: dict[str, wire.Wire] = {}

    async def connected(address: str) -> wire.Wire:
        if address not in connections or not connections[address].is_open:
            connections[address] = await wire.connect(address)
        return connections[address]

    async def probe(number: int) -> None:
        nonlocal wrong
        expected = dict.fromkeys(range(COMMITTED), number)
        for attempt in range(1_000_000):
            with suppress(ConnectionError, OSError):
                asked = await connected(addresses[attempt % len(addresses)])
                code, node, address = await wire.coordinator(asked, group_name(number))
                if code == wire.NONE and node != dead:
                    code, offsets = await wire.fetch_offsets(await connected(address), group_name(number))
                    if code in (wire.NONE, wire.LOADS):
                        seen.append(time.monotonic())
                    if code == wire.NONE:
                        back.append(time.monotonic())
                        wrong += offsets != expected
                        return
            await asyncio.sleep(PROBE_S)

    async with asyncio.timeout(BACK_S_MAX):
        await asyncio.gather(*(probe(number) for number in numbers))
    for connection in connections.values():
        connection.close()
    return {
        "first_s": round(min(back) - began, 3),
        "p50_s": round(statistics.median(back) - began, 3),
        "last_s": round(max(back) - began, 3),
        "load_s": round(max(back) - min(seen), 3),
        "wrong": wrong,
    }


def failovers(system: systems.System, groups: int) -> Iterator[Row]:
    """An orderly stop and a kill of the node that coordinates most; after each, all nodes are there again."""
    for how in ("stop", "kill"):
        victim, numbers, moved = asyncio.run(probes(system.kafka_bootstrap.split(",")[0], groups))
        addresses = [at for n, at in enumerate(system.kafka_bootstrap.split(",")) if n != system.index_of(victim)]
        process = system.end(victim, gently=how == "stop")
        measured = asyncio.run(wait_back(addresses, numbers, victim))
        process()
        system.start(victim)
        _wait_in_sync(system)
        title = f"{how}-{groups}"
        shown = {f"{title}-last": measured["last_s"], f"{title}-p50": measured["p50_s"]}
        if how == "stop":
            shown[f"load-{groups}"] = round(moved / max(measured["load_s"], PROBE_S))
        row = {"row": "figures", "what": title, "groups": groups, "moved": moved, **measured, "figures": shown}
        yield row | ({"error": f"{measured['wrong']} groups came back with other offsets"} if measured["wrong"] else {})


def _wait_in_sync(system: systems.System) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": system.kafka_bootstrap})
    deadline = time.monotonic() + BACK_S_MAX
    while time.monotonic() < deadline:
        topics = admin.list_topics(timeout=30).topics.values()
        if all(len(p.isrs) == NODES and p.leader >= 0 for topic in topics for p in topic.partitions.values()):
            return
        time.sleep(0.2)
    raise RuntimeError("replicas are not in sync again")


def memory(system: systems.System, groups: int, steps: int) -> Row:
    """Bytes that a group, and a member, cost all nodes together; the slopes of straight lines."""
    address = system.kafka_bootstrap.split(",")[0]
    figures: Row = {}
    for what, each in (("group", groups // steps), ("member", groups // steps // MEMBERS_EACH)):
        points, heaps = [], []
        for step in range(steps + 1):
            time.sleep(SETTLE_S)
            count = step * each * (MEMBERS_EACH if what == "member" else 1)
            points.append((count, systems.rss_bytes(system)))
            heaps.append((count, heap_bytes(system)))
            if step == steps:
                break
            if what == "group":
                asyncio.run(make_groups(address, step * each, (step + 1) * each))
            else:
                asyncio.run(make_members(address, step, each))
        figures[f"bytes-{what}"] = round(slope(points))
        figures[f"heap-{what}"] = round(slope(heaps))
    return {"row": "figures", "what": "memory", "figures": figures}


def slope(points: Sequence[tuple[float, float]]) -> float:
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope


def heap_bytes(system: systems.System) -> int:
    """The live objects of a JVM's heap; for ours, the resident memory."""
    if not system.name.startswith("kafka") or shutil.which("jcmd") is None:
        return systems.rss_bytes(system)
    total = 0
    for pid in system.pids():
        subprocess.run(["jcmd", str(pid), "GC.run"], capture_output=True, check=True)
        printed = subprocess.run(["jcmd", str(pid), "GC.heap_info"], capture_output=True, text=True, check=True).stdout
        found = re.search(r"used (\d+)K", printed)
        total += 1024 * int(found[1]) if found else 0
    return total
