"""Names that a coordinator keeps in memory, by the thousand: groups, members, offsets, transactional ids, producer ids.

A tenant may do all of it with its own names. The limits of a coordinator's memory are scaled down by the stage, so that
a few seconds are enough to reach them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from tests.attack.floods.herd import Steps, on_links
from tests.attack.floods.kafka_floods import TENANTS_TOPIC
from tests.attack.floods.links import DELETE_GROUPS, INIT_PRODUCER_ID, OFFSET_COMMIT, Target, text

JOIN_GROUP: Final = 11
GROWING: Final = 100
BATCH: Final = 20
"""Requests that are on their way at once: a coordinator writes each to its log."""


def _batches(
    target: Target,
    request: Callable[[int], tuple[int, int, bytes]],
    links: int = 2,
    code_of: Callable[[bytes], int] = lambda answer: 0,
    names: int = 0,
) -> Steps:
    """`request(n)` is the key, version and body of the n-th one; `names`: they are so many ones, again and again. The
    figure `taken` says how many the node has taken, by the error code of each answer."""
    number, taken = count(), set[int]()

    def act(link: Any) -> None:
        sent = [next(number) for _ in range(BATCH)]
        for one in sent:
            key, version, body = request(one)
            link.send(key, version, body)
        for one in sent:
            if not code_of(link.receive()):
                taken.add(one % names if names else one)
                target.figures["taken"] = len(taken)

    return on_links(target, target.kafka_link, act, links)


def _commit(group: str, topic: str, partitions: int, note: str) -> tuple[int, int, bytes]:
    parts = b"".join(struct.pack(">iq", index, 1) + text(note) for index in range(partitions))
    body = text(group) + struct.pack(">i", -1) + text("") + struct.pack(">qi", -1, 1) + text(topic)
    return OFFSET_COMMIT, 2, body + struct.pack(">i", partitions) + parts


def _last_code(answer: bytes) -> int:
    """The error code of a commit's last partition."""
    (code,) = struct.unpack_from(">h", answer, len(answer) - 2)
    return int(code)


def groups(target: Target) -> Steps:
    """A commit each, of names that are as long as they may be."""

    def request(number: int) -> tuple[int, int, bytes]:
        return _commit(f"tenant-{number}".ljust(240, "x"), TENANTS_TOPIC, 1, "")

    return _batches(target, request, code_of=_last_code)


def groups_that_grow(target: Target) -> Steps:
    """Some groups commit many partitions with the longest notes: 80 kB each."""
    note = "n" * 4_000

    def request(number: int) -> tuple[int, int, bytes]:
        return _commit(f"tenant-{number % GROWING}", TENANTS_TOPIC, 20, f"{number}{note}")

    return _batches(target, request, code_of=_last_code, names=GROWING)


def members(target: Target) -> Steps:
    """Members without end join groups and say nothing more."""

    def request(number: int) -> tuple[int, int, bytes]:
        join = text(f"tenant-{number % 10}") + struct.pack(">ii", 30_000, 30_000) + text("") + text("consumer")
        return JOIN_GROUP, 1, join + struct.pack(">i", 1) + text("range") + struct.pack(">i", 4_000) + bytes(4_000)

    number = count()

    def act(link: Any) -> None:
        key, version, body = request(next(number))
        link.send(key, version, body)

    return on_links(target, target.kafka_link, act, 60)


def transactional_ids(target: Target) -> Steps:
    return _batches(
        target,
        lambda number: (INIT_PRODUCER_ID, 0, text(f"tenant-{number}".ljust(250, "x")) + struct.pack(">i", 60_000)),
        links=4,
        code_of=lambda answer: int(struct.unpack_from(">h", answer, 8)[0]),
    )


def producer_ids(target: Target) -> Steps:
    """Idempotent producers without a name."""
    return _batches(target, lambda number: (INIT_PRODUCER_ID, 0, text(None) + struct.pack(">i", 60_000)))


def deletions(target: Target) -> Steps:
    """Groups that are not there are deleted, a hundred at a time."""
    names = b"".join(text(f"tenant-{number}") for number in range(100))
    return _batches(target, lambda number: (DELETE_GROUPS, 0, struct.pack(">i", 100) + names))


COORDINATOR_FLOODS: Final[dict[str, Callable[[Target], Steps]]] = {
    flood.__name__.replace("_", "-"): flood
    for flood in (groups, groups_that_grow, members, transactional_ids, producer_ids, deletions)
}
