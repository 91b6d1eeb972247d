"""Waiting for moves: what is progress, and when a wait has no end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from penstock import TopicPartition
from penstock.cli.moves import waiting
from penstock.client.admin.admin import Admin
from penstock.client.admin.admin_types import PartitionInfo
from penstock.client.admin.log_dirs import ReassignmentProgress
from penstock.types import NO_LEADER
from tests.unit.cli.moves.fake_cluster import FakeCluster

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_less_of_a_copy_than_ever_begins_the_standstill_anew() -> None:
    standstill = waiting.Standstill()
    seen = [moves(50), moves(50), moves(60), moves(60), moves(49), moves(55), moves(50)]
    assert [standstill.saw(each, at) for at, each in enumerate(seen)] == [0, 1, 2, 3, 0, 1, 2]


def test_a_move_that_begins_or_ends_or_is_known_at_last_begins_the_standstill_anew() -> None:
    standstill = waiting.Standstill()
    seen = [moves(None), moves(None), moves(9), moves(None), moves(9, 7), moves(9, 7), moves(9)]
    assert [standstill.saw(each, at) for at, each in enumerate(seen)] == [0, 1, 0, 1, 0, 1, 0]


def test_a_copy_that_keeps_up_with_its_producers_does_not_hide_one_that_stands_still() -> None:
    standstill = waiting.Standstill()
    seen = [moves(None, 40 if at % 2 else 0) for at in range(8)]
    assert [standstill.saw(each, at) for at, each in enumerate(seen)] == list(range(8))


def test_a_move_without_a_leader_names_the_brokers_that_are_out_of_service() -> None:
    cluster = FakeCluster((1, 2, 3), [(1, 2)], fenced=[1])
    stuck = {FIRST: ReassignmentProgress(PartitionInfo(0, NO_LEADER, 0, 0, (3, 2, 1), (1,), (3,), (2,)), None, {})}
    with pytest.raises(waiting.MoveStuckError, match=r"t-0 .* has no leader .* brokers \[1\], which have replicas"):
        waiting.check_can_end(cast(Admin, cluster), stuck)


def test_a_move_that_needs_a_replica_that_stays_names_the_brokers_that_are_out_of_service() -> None:
    """Broker 4 has its copy, but without broker 2 it would be in sync alone, and min.insync.replicas is more."""
    info = PartitionInfo(0, 2, 0, 0, (4, 1, 2), (2, 4), adding_replicas=(4,), removing_replicas=(2,))
    stuck = {FIRST: ReassignmentProgress(info, None, {})}
    with pytest.raises(waiting.MoveStuckError, match=r"t-0 .* without brokers \[2\] .* brokers \[1\], which keep"):
        waiting.check_can_end(cast(Admin, FakeCluster((1, 2, 3, 4), [(1, 2)], fenced=[1])), stuck)
    waiting.check_can_end(cast(Admin, FakeCluster((1, 2, 3, 4), [(1, 2)])), stuck)  # it catches up


def moves(*left: int | None) -> Mapping[TopicPartition, ReassignmentProgress]:
    """One copy of each partition, to broker 3."""
    info = PartitionInfo(0, 1, 0, 0, (3, 1, 2), (1, 2), adding_replicas=(3,), removing_replicas=(2,))
    return {tp: ReassignmentProgress(info, 100, {3: size}) for tp, size in zip((FIRST, SECOND), left, strict=False)}
