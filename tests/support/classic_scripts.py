"""Scripts of classic members. Whoever speaks is one client with one connection; each script has a group of its own.

What they are answered is a transcript (classic_transcript.py): of our core in tests, and of a real Kafka, which
record_classic_scripts.py wrote down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

SESSION_MS = 1_000
LONG_SESSION_MS = 20_000
REBALANCE_MS = 2_000
LARGE = "\0" * 1_100_000
"""An empty subscription, and more; with bytes that are no subscription Kafka never answers the join."""


def brief(value: Any) -> str:
    """A value as a line of a transcript has it."""
    text = repr(value)
    return text if len(text) <= 1_000 else f"<{len(text)} characters>"


class Step(NamedTuple):
    """`who` does `what`. A value `@A` in `fields` is the member id that A was told last."""

    who: str
    what: str
    fields: Mapping[str, Any] = {}

    def __str__(self) -> str:
        fields = " ".join(f"{name}={brief(value)}" for name, value in self.fields.items())
        return " ".join(part for part in (self.who, self.what, fields) if part)


def S(who: str, what: str, **fields: Any) -> Step:
    return Step(who, what, fields)


def _two(**fields: Any) -> list[Step]:
    """A leads a stable group of A and B, at generation 2."""
    return [
        S("A", "join", **fields),
        S("A", "join", **fields),
        S("B", "join", **fields),
        S("B", "join", **fields),
        S("A", "join", **fields),
        S("B", "sync"),
        S("A", "sync", assigned=("A", "B")),
    ]


def _two_static(**fields: Any) -> list[Step]:
    return [
        S("A", "join", instance="a", **fields),
        S("B", "join", instance="b", **fields),
        S("A", "join", instance="a", **fields),
        S("B", "sync", instance="b"),
        S("A", "sync", instance="a", assigned=("A", "B")),
    ]


LONG: dict[str, Any] = {"session": LONG_SESSION_MS}
DESCRIBE = S("admin", "describe")

SCRIPTS: dict[str, list[Step]] = {
    "one member comes and leaves": [
        DESCRIBE,
        S("A", "join", **LONG),
        DESCRIBE,
        S("A", "join", **LONG),
        DESCRIBE,
        S("A", "beat"),
        S("A", "commit"),
        S("A", "sync", assigned=("A",)),
        DESCRIBE,
        S("A", "sync"),
        S("A", "commit"),
        S("A", "leave"),
        DESCRIBE,
        S("A", "beat"),
        S("A", "commit"),
        S("A", "sync"),
        S("A", "leave"),
        S("admin", "commit"),
        S("A", "join", **LONG),
    ],
    "two members": [*_two(**LONG), DESCRIBE, S("A", "beat"), S("B", "beat")],
    "the leader joins again": [
        *_two(**LONG),
        S("A", "join", **LONG),
        DESCRIBE,
        S("B", "beat"),
        S("B", "sync"),
        S("B", "commit"),
        S("B", "join", **LONG),
        S("B", "commit"),
        S("B", "commit", generation=2),
        S("B", "commit", generation=-1),
        S("B", "sync", generation=2),
        S("B", "beat", generation=2),
        S("A", "beat"),
        S("A", "sync", assigned=("A",)),
        S("B", "sync"),
    ],
    "a follower joins again, unchanged and changed": [
        *_two(**LONG),
        S("B", "join", **LONG),
        DESCRIBE,
        S("B", "join", protocols={"range": "other"}, **LONG),
        DESCRIBE,
        S("A", "beat"),
        S("A", "join", **LONG),
    ],
    "joins are repeated before the assignment": [
        S("A", "join", **LONG),
        S("A", "join", **LONG),
        S("A", "join", **LONG),
        S("B", "join", **LONG),
        S("B", "join", **LONG),
        S("A", "join", **LONG),
        S("B", "join", **LONG),
        S("A", "join", **LONG),
        S("B", "join", protocols={"range": "other"}, **LONG),
        S("A", "beat"),
    ],
    "protocols are voted for": [
        S("A", "join", protocols={"x": "1", "y": "2"}, **LONG),
        S("A", "join", protocols={"x": "1", "y": "2"}, **LONG),
        S("B", "join", protocols={"z": "1"}, **LONG),
        S("B", "join", protocols={}, **LONG),
        S("B", "join", type="connect", protocols={"x": "1"}, **LONG),
        S("B", "join", type="", protocols={"x": "1"}, **LONG),
        S("B", "join", protocols={"z": "1", "y": "2"}, **LONG),
        S("B", "join", protocols={"z": "1", "y": "2"}, **LONG),
        S("A", "join", protocols={"x": "1", "y": "2"}, **LONG),
        S("A", "sync", assigned=("A", "B"), protocol="x"),
        S("A", "sync", assigned=("A", "B"), type="connect", protocol="y"),
        S("A", "sync", assigned=("A", "B"), type="consumer", protocol="y"),
        S("B", "sync", protocol="x"),
        S("B", "sync", version=4),
        S("B", "sync"),
        DESCRIBE,
    ],
    "bad first joins": [
        S("A", "join", protocols={}, **LONG),
        S("A", "join", type="", **LONG),
    ],
    "no group": [
        S("A", "join", session=99),
        S("A", "join", session=-1),
        S("A", "join", session=1_800_001),
        S("A", "join", member="nobody", **LONG),
        S("A", "join", member="nobody", instance="a", **LONG),
        DESCRIBE,
        S("A", "sync", member="nobody", generation=1),
        S("A", "beat", member="nobody", generation=1),
        S("A", "leave", member="nobody"),
        S("A", "commit", member="nobody", generation=1),
    ],
    "strangers": [
        *_two(**LONG),
        S("C", "join", member="nobody", **LONG),
        S("C", "sync", member="nobody", generation=2),
        S("C", "sync", member="", generation=2),
        S("C", "sync", member="@A", generation=1),
        S("C", "sync", member="@A", generation=2, instance="a"),
        S("C", "beat", member="nobody", generation=2),
        S("C", "beat", member="@A", generation=1),
        S("C", "beat", member="@A", generation=3),
        S("C", "beat", member="@A", generation=2, instance="a"),
        S("C", "leave", member="nobody"),
        S("C", "leave", member=""),
        S("C", "leave", member="", instance="a"),
        S("C", "leave", member="@A", instance="a"),
        S("C", "commit", member="nobody", generation=2),
        S("C", "commit", member="@A", generation=1),
        S("C", "commit", member="@A", generation=-1),
        S("C", "commit", member="", generation=2),
        S("C", "commit", member="", generation=-1),
        S("C", "commit", member="@A", generation=2, instance="a"),
        DESCRIBE,
    ],
    "ids that were handed out": [
        S("A", "join", **LONG),
        S("A", "join", **LONG),
        S("A", "sync", assigned=("A",)),
        S("B", "join", **LONG),
        S("B", "beat", generation=1),
        S("B", "sync", generation=1),
        S("B", "commit", generation=1),
        S("A", "join", **LONG),
        S("B", "leave"),
        S("B", "join", **LONG),
        S("B", "join", member="", session=SESSION_MS),
        S("A", "join", **LONG),
        S("A", "beat"),
        S("", "wait", ms=2 * SESSION_MS),
        S("B", "join", **LONG),
    ],
    "the leader leaves": [
        *_two(**LONG),
        S("A", "leave"),
        DESCRIBE,
        S("B", "join", **LONG),
        S("B", "sync", assigned=("B",)),
    ],
    "several leave at once": [
        *_two(**LONG),
        S("admin", "leave", members=(("@B", None), ("nobody", None), ("", None), ("@B", None))),
        S("A", "beat"),
        S("admin", "leave", members=(("nobody", None),)),
        S("admin", "leave", members=()),
    ],
    "a member is silent": [
        *_two(session=SESSION_MS),
        S("", "wait", ms=SESSION_MS * 7 // 10),
        S("A", "beat"),
        S("", "wait", ms=SESSION_MS * 7 // 10),
        S("A", "beat"),
        S("B", "beat"),
        S("A", "join", session=SESSION_MS),
        S("", "wait", ms=2 * SESSION_MS),
        S("A", "beat"),
        DESCRIBE,
    ],
    "a member does not join in time": [
        *_two(**LONG),
        S("B", "join", protocols={"range": "other"}, **LONG),
        S("", "wait", ms=REBALANCE_MS * 3 // 2),
        S("A", "beat"),
        S("B", "sync", assigned=("B",)),
    ],
    "a follower does not sync in time": [
        *_two(**LONG)[:-2],
        S("A", "sync", assigned=("A", "B")),
        S("", "wait", ms=REBALANCE_MS * 3 // 2),
        S("A", "beat"),
        S("B", "beat"),
    ],
    "the leader does not sync in time": [
        *_two(**LONG)[:-2],
        S("B", "sync"),
        S("", "wait", ms=REBALANCE_MS * 3 // 2),
        S("B", "join", **LONG),
        S("A", "beat"),
    ],
    "a third member comes before the assignment": [
        *_two(**LONG)[:-1],
        S("C", "join", **LONG),
        S("C", "join", **LONG),
        S("A", "sync", assigned=("A", "B")),
        S("A", "join", **LONG),
        S("B", "join", **LONG),
    ],
    "static members come back": [
        *_two_static(**LONG),
        DESCRIBE,
        S("B2", "join", instance="b", **LONG),
        S("B2", "sync", instance="b"),
        S("B", "beat", instance="b"),
        S("B", "beat"),
        S("B", "sync", instance="b"),
        S("B", "commit", instance="b"),
        S("B", "join", instance="b", **LONG),
        S("B", "leave", instance="b"),
        S("A2", "join", instance="a", **LONG),
        S("A2", "sync", instance="a"),
        S("A2", "beat"),
        DESCRIBE,
        S("admin", "leave", members=(("", "b"), ("", "c"), ("@A2", "b"))),
        S("A2", "beat", instance="a"),
        S("A2", "join", instance="a", **LONG),
        S("A2", "sync", instance="a", assigned=("A2",)),
        S("A2", "leave", instance="a"),
        DESCRIBE,
    ],
    "a static leader that cannot skip the assignment comes back": [
        *_two_static(**LONG),
        S("A2", "join", instance="a", version=8, **LONG),
        S("A2", "sync", instance="a"),
    ],
    "a static member comes back with other metadata": [
        *_two_static(**LONG),
        S("B2", "join", instance="b", protocols={"range": "other"}, **LONG),
        DESCRIBE,
    ],
    "a static member comes back with other protocols": [
        S("A", "join", instance="a", protocols={"x": "1", "y": "2"}, **LONG),
        S("B", "join", instance="b", protocols={"x": "1", "y": "2"}, **LONG),
        S("A", "join", instance="a", protocols={"x": "1", "y": "2"}, **LONG),
        S("A", "sync", instance="a", assigned=("A", "B")),
        S("B", "sync", instance="b"),
        S("B2", "join", instance="b", protocols={"y": "1"}, **LONG),
        S("A", "join", instance="a", protocols={"x": "1", "y": "2"}, **LONG),
    ],
    "a static member comes back before the assignment": [
        *_two_static(**LONG)[:-1],
        S("B2", "join", instance="b", **LONG),
        S("A", "beat", instance="a"),
        S("A", "join", instance="a", **LONG),
    ],
    "a static member comes back while it joins": [
        *_two_static(**LONG),
        S("B", "join", instance="b", protocols={"range": "other"}, **LONG),
        S("B2", "join", instance="b", **LONG),
        S("A", "join", instance="a", **LONG),
    ],
    "static and dynamic members": [
        S("A", "join", instance="a", **LONG),
        S("A", "sync", instance="a", assigned=("A",)),
        S("B", "join", **LONG),
        S("B", "join", **LONG),
        S("A", "join", instance="a", **LONG),
        S("A", "sync", instance="a", assigned=("A", "B")),
        S("C", "join", member="@B", instance="a", **LONG),
        S("C", "join", member="@B", instance="c", **LONG),
        S("C", "join", member="@A", **LONG),
        S("B", "sync"),
        S("B", "leave", instance="b"),
        S("B", "leave"),
    ],
    "a client of long ago": [
        S("A", "join", version=2, **LONG),
        S("A", "sync", assigned=("A",), version=0),
        S("A", "beat", version=0),
        S("A", "leave", version=1),
        S("A", "leave", version=1),
    ],
    "an empty group of another type": [
        S("A", "join", type="connect", **LONG),
        S("A", "join", type="connect", **LONG),
        S("A", "sync", assigned=("A",)),
        S("A", "leave"),
        DESCRIBE,
        S("A", "join", member="", **LONG),
        S("A", "join", **LONG),
        DESCRIBE,
    ],
    "an assignment that is too large": [
        *_two(**LONG)[:-1],
        S("A", "sync", assigned=("A", "B"), padding=1_100_000),
        DESCRIBE,
        S("A", "beat"),
        S("A", "join", **LONG),
        S("B", "join", **LONG),
        S("B", "sync"),
        S("A", "sync", assigned=("A", "B")),
    ],
    "a subscription that is too large": [
        S("A", "join", protocols={"range": LARGE}, **LONG),
        S("A", "join", protocols={"range": LARGE}, **LONG),
        S("A", "sync", assigned=("A",)),
        S("A", "beat"),
        S("A", "join", **LONG),
        S("A", "sync", assigned=("A",)),
    ],
    "a static member that comes back is too large": [
        *_two_static(**LONG),
        S("B2", "join", instance="b", protocols={"range": LARGE}, **LONG),
        S("B", "beat", instance="b"),
        S("A", "beat", instance="a"),
        DESCRIBE,
    ],
}
