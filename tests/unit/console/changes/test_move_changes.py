"""The moves that begin are those that the plan showed, a part at a time; what has changed since is left alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from penstock.client.admin.admin_types import TopicDescription
from penstock.client.admin.elections import ElectionResult
from penstock.client.admin.log_dirs import BrokerLogDirs
from penstock.console.changes.move_changes import MOVED_AT_ONCE, MOVED_AT_ONCE_MAX
from penstock.console.fields import FieldError
from penstock.errors import (
    ApiError,
    ElectionNotNeededError,
    InvalidReplicaAssignmentError,
    NoReassignmentInProgressError,
    PenstockError,
)
from penstock.messages.cluster import ClusterInfo, NodeStanding
from penstock.messages.metadata import BrokerInfo, PartitionInfo
from penstock.types import TopicPartition
from tests.support.console_changes import ChangeDesk, words_of

STANDING = NodeStanding(1, False, 0, 0, 0, 0, 0, 0, ())


class FakeBrokers:
    """Three brokers, of which the third has nothing."""

    def __init__(self, partitions: int, leader_id: int = 0) -> None:
        infos = tuple(PartitionInfo(n, leader_id, 1, 0, (0, 1), (0, 1)) for n in range(partitions))
        self.topics = {"t": TopicDescription("t", "id", infos)}
        self.moved: dict[TopicPartition, Sequence[int] | None] = {}
        self.elected: list[TopicPartition] = []
        self.errors: dict[TopicPartition, ApiError | None] = {}
        self.moving: dict[TopicPartition, PartitionInfo] = {}

    async def describe_cluster(self) -> ClusterInfo:
        return ClusterInfo("c", 0, tuple(BrokerInfo(n, "h", 1) for n in range(3)), 0, STANDING)

    async def describe_topics(
        self, names: Sequence[str] | None = None, *, ask_leaders: bool = True
    ) -> list[TopicDescription]:
        return [topic for name, topic in self.topics.items() if names is None or name in names]

    async def describe_log_dirs(self) -> dict[int, BrokerLogDirs]:
        return {}

    async def alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        self.moved |= replicas
        return {at: self.errors.get(at) for at in replicas}

    async def elect_leaders(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ElectionResult]:
        self.elected += partitions
        return {at: ElectionResult(0, ElectionNotNeededError("no need")) for at in partitions}

    async def list_partition_reassignments(self) -> dict[TopicPartition, PartitionInfo]:
        return self.moving

    def change(self, number: int, **fields: object) -> None:
        topic = self.topics["t"]
        changed = tuple(replace(p, **fields) if p.partition == number else p for p in topic.partitions)  # type: ignore[arg-type]
        self.topics["t"] = replace(topic, partitions=changed)


def test_the_moves_of_the_plan_begin_and_no_others() -> None:
    brokers = FakeBrokers(6)
    desk = ChangeDesk(brokers)
    plan = desk.plan("/balance")
    assert words_of(plan) == ["cluster", "balance", "--by", "replicas,leaders"] and brokers.moved == {}
    shown = [line for line in plan.lines if "replicas [0, 1] →" in line]
    again = desk.plan("/balance", **plan.fixed)
    assert again.fingerprint == plan.fingerprint and again.fixed == plan.fixed
    assert desk.perform("/balance", **plan.fixed) == "/moves"
    assert len(brokers.moved) == len(shown) > 0
    assert all(f"t:{at.partition}: replicas [0, 1] → {list(ids or ())}" in shown for at, ids in brokers.moved.items())
    copied = {at for at, ids in brokers.moved.items() if 2 in (ids or ())}
    assert copied and not copied & set(brokers.elected)


def test_leaders_alone_are_elected_at_once() -> None:
    brokers = FakeBrokers(4, leader_id=1)
    assert ChangeDesk(brokers).do_as_planned("/balance", by="leaders") == "/moves"
    assert brokers.elected and all(set(ids or ()) == {0, 1} for ids in brokers.moved.values())


def test_of_a_large_plan_a_part_begins_and_the_page_says_so() -> None:
    brokers = FakeBrokers(300)
    plan = ChangeDesk(brokers).plan("/balance", by="replicas")
    assert "more partitions are to move: plan again" in plan.lines[0]
    ChangeDesk(brokers).perform("/balance", **plan.fixed)
    assert len(brokers.moved) == MOVED_AT_ONCE
    whole = ChangeDesk(brokers).plan("/balance", by="replicas", count="1000")
    assert "plan again" not in whole.lines[0]
    ChangeDesk(brokers).perform("/balance", **whole.fixed)
    assert len(brokers.moved) == len(whole.lines) > MOVED_AT_ONCE


def test_a_partition_that_has_changed_since_makes_another_plan_or_none() -> None:
    brokers = FakeBrokers(6)
    desk = ChangeDesk(brokers)
    plan = desk.plan("/balance", by="replicas")
    number = int(plan.fixed["moves"].partition("=")[0].partition(":")[2])
    brokers.change(number, replicas=(1, 0))
    assert desk.plan("/balance", **plan.fixed).fingerprint != plan.fingerprint
    brokers.change(number, adding_replicas=(2,))
    with pytest.raises(FieldError, match="moved by somebody else"):
        desk.plan("/balance", **plan.fixed)
    brokers.topics.clear()
    with pytest.raises(FieldError, match="is gone"):
        desk.plan("/balance", **plan.fixed)


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"by": "dirs"}, "by"),
        ({"count": "0"}, "count"),
        ({"count": str(MOVED_AT_ONCE_MAX + 1)}, "count"),
        ({"by": ",".join(["leaders"] * 10_000)}, "by"),
        ({"moves": "t=1"}, "moves"),
        ({"moves": "t:0=1,x"}, "moves"),
        ({"moves": "t:0"}, "moves"),
        ({"elect": "0"}, "elect"),
        ({"moves": "\n".join(f"t:{n}=1" for n in range(MOVED_AT_ONCE_MAX + 1))}, "moves"),
    ],
)
def test_a_form_that_is_no_plan_names_its_field(form: dict[str, str], field: str) -> None:
    with pytest.raises(FieldError) as failure:
        ChangeDesk(FakeBrokers(2)).plan("/balance", **form)
    assert failure.value.field == field


def test_an_even_cluster_has_no_plan_and_a_form_without_one_does_nothing() -> None:
    brokers = FakeBrokers(0)
    for path in ("/balance", "/cancel-moves"):
        with pytest.raises(FieldError):
            ChangeDesk(brokers).plan(path)
        with pytest.raises(FieldError, match="make it again"):
            ChangeDesk(brokers).perform(path)
    assert brokers.moved == {} and brokers.elected == []


def test_a_refusal_is_raised_with_what_was_done_beside_it() -> None:
    brokers = FakeBrokers(6)
    plan = ChangeDesk(brokers).plan("/balance", by="replicas")
    moved = plan.fixed["moves"].splitlines()
    places = [TopicPartition("t", int(line.partition("=")[0].partition(":")[2])) for line in moved]
    brokers.errors = dict.fromkeys(places[1:], InvalidReplicaAssignmentError("no"))
    with pytest.raises(PenstockError, match=r"1 began to move, \d+ not"):
        ChangeDesk(brokers).perform("/balance", **plan.fixed)
    brokers.errors = dict.fromkeys(places, InvalidReplicaAssignmentError("no"))
    with pytest.raises(InvalidReplicaAssignmentError):
        ChangeDesk(brokers).perform("/balance", **plan.fixed)


def test_the_moves_that_were_shown_are_cancelled_and_those_that_are_done_stay() -> None:
    brokers = FakeBrokers(3)
    info = PartitionInfo(0, 0, 1, 0, (0, 1, 2), (0, 1), adding_replicas=(2,))
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    brokers.moving = {first: info, second: info}
    desk = ChangeDesk(brokers)
    plan = desk.plan("/cancel-moves")
    assert plan.lines[0] == "t:0: replicas [0, 1, 2] → [0, 1]"
    assert words_of(plan) == ["reassignments", "delete", "--all"]
    brokers.moving = {first: info, TopicPartition("t", 2): info}  # one is done, and somebody began another
    brokers.errors = {second: NoReassignmentInProgressError("done")}
    assert desk.plan("/cancel-moves", **plan.fixed).fingerprint == plan.fingerprint
    desk.perform("/cancel-moves", **plan.fixed)
    assert brokers.moved == {first: None, second: None}
