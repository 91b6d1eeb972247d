"""Scripts of offsets that transactions commit, and their transcripts: what our core answers, and a real Kafka.

    python -m tests.support.record_txn_offsets ADDRESS   # kept in tests/unit/broker/groups/offsets/kafka_4_3_1.txt

P and Q are producers of transaction version 2. A place is a topic's name with a partition: t0. An answer is NONE, an
error's name, or those of the places that were named; a fetch tells offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

TOPICS = {"t": 3, "u": 1}


class Step(NamedTuple):
    """`what` is done; `who` is a producer or a member."""

    what: str
    who: str = ""
    places: Mapping[str, int] = MappingProxyType({})
    fields: Mapping[str, Any] = MappingProxyType({})

    def __str__(self) -> str:
        places = " ".join(f"{place}={offset}" for place, offset in self.places.items())
        fields = " ".join(f"{name}={value!r}"[:40] for name, value in self.fields.items())
        return " ".join(part for part in (self.what, self.who, places, fields) if part)


class Side(Protocol):
    """A coordinator that answers."""

    def act(self, group_id: str, step: Step) -> str: ...


def pends(producer: str, places: dict[str, int], **fields: Any) -> Step:
    """TxnOffsetCommit. `member`: a member's name, of whom the id and the epoch are said, but for what is given."""
    return Step("pend", producer, places, fields)


def commits(places: dict[str, int], **fields: Any) -> Step:
    """OffsetCommit."""
    return Step("commit", "", places, fields)


def ends(producer: str, how: str = "commit") -> Step:
    return Step("end", producer, fields={"how": how})


def fetches(*places: str, stable: bool = False) -> Step:
    """OffsetFetch; of all places without any."""
    return Step("fetch", "", dict.fromkeys(places, 0), {"stable": stable})


def looks(*places: str) -> tuple[Step, ...]:
    """All ways in which an offset may be asked for."""
    return fetches(*places), fetches(*places, stable=True), fetches(), fetches(stable=True)


def deletes(*places: str) -> Step:
    """OffsetDelete."""
    return Step("delete", "", dict.fromkeys(places, 0))


DELETES_GROUP, DESCRIBES = Step("delete-group"), Step("describe")


def joins(member: str, protocol: str) -> Step:
    """A member joins, and has its partitions; "classic-unsynced" has them not yet."""
    return Step("join", member, fields={"protocol": protocol})


SCRIPTS: dict[str, tuple[Step, ...]] = {
    "a transaction that is committed": (
        commits({"t0": 3}),
        pends("P", {"t0": 5, "t1": 6}),
        *looks("t0", "t1", "t2"),
        ends("P"),
        *looks("t0", "t1", "t2"),
    ),
    "a transaction that is aborted": (
        commits({"t0": 3}),
        pends("P", {"t0": 5, "t1": 6}),
        ends("P", "abort"),
        *looks("t0", "t1"),
    ),
    "a group that has nothing but pending offsets": (
        DESCRIBES,
        pends("P", {"t0": 5}),
        DESCRIBES,
        *looks("t0"),
        commits({"t1": 1}, epoch=1, member_id="nobody"),
        ends("P"),
        DESCRIBES,
    ),
    "a later commit without a transaction": (
        pends("P", {"t0": 5}),
        commits({"t0": 7}),
        *looks("t0"),
        ends("P"),
        *looks("t0"),
    ),
    "a later commit and an abort": (pends("P", {"t0": 5}), commits({"t0": 7}), ends("P", "abort"), *looks("t0")),
    "an earlier commit without a transaction": (commits({"t0": 7}), pends("P", {"t0": 5}), ends("P"), *looks("t0")),
    "the last offset of a transaction counts": (pends("P", {"t0": 5}), pends("P", {"t0": 4}), ends("P"), *looks("t0")),
    "two producers and the second ends first": (
        pends("P", {"t0": 5}),
        pends("Q", {"t0": 6}),
        ends("Q"),
        *looks("t0"),
        ends("P"),
        *looks("t0"),
    ),
    "two producers and the first ends first": (
        pends("P", {"t0": 5}),
        pends("Q", {"t0": 6}),
        ends("P"),
        *looks("t0"),
        ends("Q"),
        *looks("t0"),
    ),
    "two producers and one is aborted": (
        pends("P", {"t0": 5}),
        pends("Q", {"t0": 6}),
        ends("Q", "abort"),
        ends("P"),
        *looks("t0"),
    ),
    "an offset is deleted beside a pending one": (
        commits({"t0": 3}),
        pends("P", {"t0": 5}),
        deletes("t0", "t1"),
        *looks("t0"),
        ends("P"),
        *looks("t0"),
    ),
    "a pending offset is deleted": (
        commits({"t1": 3}),
        pends("P", {"t0": 5}),
        deletes("t0"),
        *looks("t0"),
        ends("P"),
        *looks("t0"),
    ),
    "the only offset of a group is deleted while it waits": (
        pends("P", {"t0": 5}),
        deletes("t0"),
        ends("P"),
        *looks("t0"),
    ),
    "an offset that comes after a deletion": (
        pends("P", {"t0": 5}),
        deletes("t0"),
        pends("P", {"t0": 6}),
        ends("P"),
        *looks("t0"),
    ),
    "a group is deleted beside a pending offset": (
        commits({"t1": 3}),
        pends("P", {"t0": 5}),
        DELETES_GROUP,
        DESCRIBES,
        *looks("t0", "t1"),
        ends("P"),
        *looks("t0", "t1"),
    ),
    "a classic member": (
        joins("A", "classic"),
        pends("P", {"t0": 1}, member="A"),
        pends("P", {"t0": 2}),
        pends("P", {"t0": 3}, member="A", epoch=7),
        pends("P", {"t0": 3}, member="A", epoch=-1),
        pends("P", {"t0": 4}, member="A", member_id="nobody"),
        pends("P", {"t0": 4}, member_id="nobody"),
        pends("P", {"t0": 5}, member="A", instance="nowhere"),
        pends("P", {"t0": 5}, epoch=1),
        ends("P"),
        *looks("t0"),
        commits({"t0": 9}),
    ),
    "a classic group that rebalances": (
        joins("A", "classic-unsynced"),
        DESCRIBES,
        commits({"t0": 1}, member="A"),
        pends("P", {"t0": 2}, member="A"),
        pends("P", {"t1": 2}),
        ends("P"),
        *looks("t0", "t1"),
    ),
    "a consumer group": (
        joins("a", "consumer"),
        pends("P", {"t0": 1}, member="a"),
        pends("P", {"t0": 2}),
        pends("P", {"t0": 3}, member="a", epoch=7),
        pends("P", {"t0": 3}, member="a", epoch=0),
        pends("P", {"t0": 3}, member="a", epoch=-1),
        pends("P", {"t0": 4}, member="a", member_id="nobody"),
        pends("P", {"t0": 4}, member_id="nobody"),
        pends("P", {"t0": 5}, epoch=1),
        deletes("t0"),
        ends("P"),
        *looks("t0"),
    ),
    "a member of no group": (
        pends("P", {"t0": 1}, epoch=1, member_id="nobody"),
        pends("P", {"t0": 1}, member_id="nobody"),
        ends("P"),
        pends("P", {"t0": 1}, epoch=1, member_id="nobody"),
        pends("P", {"t0": 1}, epoch=1),
        pends("P", {"t0": 1}, instance="nowhere"),
        ends("P", "abort"),
        *looks("t0"),
    ),
    "places that are refused alone": (
        pends("P", {"t0": 1, "t3": 2, "no0": 3}),
        pends("P", {"t0": 2}, metadata="x" * 4_097),
        ends("P"),
        *looks("t0"),
    ),
    "an epoch that is over": (
        pends("P", {"t0": 1}),
        ends("P"),
        pends("P", {"t0": 2}, bump=-1),
        pends("P", {"t0": 4}),
        ends("P"),
        *looks("t0"),
    ),
    "a transaction that stays open": (commits({"t0": 3}), pends("P", {"t0": 5, "u0": 6}), *looks("t0", "u0")),
}


def transcript(side: Side, names: Iterable[str] = SCRIPTS) -> str:
    lines = []
    for name in names:
        group_id = name.replace(" ", "-")
        lines += [f"== {name}", *(f"{step}: {side.act(group_id, step)}" for step in SCRIPTS[name]), ""]
    return "\n".join(lines)
