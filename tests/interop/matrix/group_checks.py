"""The features of a client that has to do with consumer groups: its members share a topic and go on where they stopped.

    eager, cooperative    the classic protocol, by the assignors `range` and `cooperative-sticky`
    consumer              the consumer protocol (KIP-848)

Records are the reference client's, and what was committed is looked up by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.interop.drivers.serve import LAST
from tests.interop.matrix.checks import Stage, equal
from tests.interop.matrix.process import ANSWER_S, DriverProcess, NoAnswerError

WAYS = ("eager", "cooperative", "consumer")
PARTITIONS, SOME = 4, 20
TURN_S = 0.2


def _fill(stage: Stage, topic: str, partition: int, values: list[str]) -> None:
    records = [{"key": None, "value": value} for value in values]
    stage.reference.ask(
        "produce", topic=topic, partition=partition, records=records, codec="none", acks="all", idempotent=False
    )


def _committed(stage: Stage, topic: str, group: str) -> dict[int, int]:
    found = stage.reference.ask("committed", topic=topic, group=group)["offsets"]
    return {int(partition): offset for partition, offset in found.items()}


def resumes(how: str) -> Callable[[Stage], None]:
    """A member commits and leaves; the next one of its group goes on there."""

    def check(stage: Stage) -> None:
        topic = stage.topic(2)
        group, seen = f"g-{topic}", list[list[Any]]()
        for number in range(2):
            for partition in range(2):
                _fill(stage, topic, partition, [f"{number}-{n}" for n in range(SOME)])
            seen += stage.client.ask("take", topic=topic, group=group, how=how, count=2 * SOME)["records"]
            equal(_committed(stage, topic, group), dict.fromkeys(range(2), (number + 1) * SOME))
        expected = [[p, i * SOME + n, f"{i}-{n}"] for p in range(2) for i in range(2) for n in range(SOME)]
        equal(sorted(seen), sorted(expected))

    return check


def shares(how: str) -> Callable[[Stage], None]:
    """Two members have half of the partitions each, and every record once."""

    def check(stage: Stage) -> None:
        topic = stage.topic(PARTITIONS)
        asked = {"topic": topic, "group": f"g-{topic}", "how": how}
        with stage.another_client() as other:
            members = (stage.client, other)
            stage.client.begin("share", **asked)
            equal(stage.client.answer()["assigned"], list(range(PARTITIONS)))
            other.begin("share", **asked)
            halves = _settled(members)
            for partition in range(PARTITIONS):
                _fill(stage, topic, partition, [f"{n}" for n in range(SOME)])
            for both in zip(*halves, strict=True):  # by turns: who is done leaves, and the other one begins anew
                for partition in both:
                    _fill(stage, topic, partition, [LAST])
            seen = [_records(member) for member in members]
        for half, records in zip(halves, seen, strict=True):
            equal(sorted({partition for partition, _, _ in records}), half)
        expected = [(p, n, str(n) if n < SOME else LAST) for p in range(PARTITIONS) for n in range(SOME + 1)]
        equal(sorted(record for records in seen for record in records), expected)
        equal(_committed(stage, topic, asked["group"]), dict.fromkeys(range(PARTITIONS), SOME + 1))

    return check


def _settled(members: tuple[DriverProcess, DriverProcess]) -> list[list[int]]:
    """The partitions of each, once each has half of them."""
    now: dict[DriverProcess, list[int]] = {member: [] for member in members}
    deadline = time.monotonic() + ANSWER_S
    while [len(some) for some in now.values()] != [PARTITIONS // 2] * 2 or len(
        {partition for some in now.values() for partition in some}
    ) != PARTITIONS:
        for member in members:
            try:
                now[member] = member.answer(TURN_S)["assigned"]
            except NoAnswerError:
                if time.monotonic() > deadline:
                    raise AssertionError(f"the members have {list(now.values())} of {PARTITIONS} partitions") from None
    return list(now.values())


def _records(member: DriverProcess) -> list[tuple[int, int, str]]:
    while "records" not in (answer := member.answer()):
        pass
    return [(partition, offset, value) for partition, offset, value in answer["records"]]


def administers(stage: Stage) -> None:
    topic = stage.topic(2)
    group = f"g-{topic}"
    for partition in range(2):
        _fill(stage, topic, partition, [str(n) for n in range(SOME)])
    stage.reference.ask("take", topic=topic, group=group, how="eager", count=2 * SOME)
    answer = stage.client.ask("administer", topic=topic, group=group)
    wrong = [f"{name}: {value}" for name, value in answer.items() if value is not True]
    if wrong:
        raise AssertionError(", ".join(wrong))
    equal(_committed(stage, topic, group), {} if "delete" in answer else dict.fromkeys(range(2), SOME))


GROUPS: dict[str, Callable[[Stage], None]] = {
    **{f"resume-{how}": resumes(how) for how in WAYS},
    **{f"share-{how}": shares(how) for how in WAYS},
    "groups": administers,
}
