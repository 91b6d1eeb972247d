"""I46 to I48 can be broken: each wrong change of replicas, and each leader that counts or holds up the wrong ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.registrations import PartitionRegistration
from tests.simulation.cluster.mutants.edit import switched_on
from tests.simulation.cluster.mutants.hunt import failure_of, named
from tests.simulation.cluster.reassignment_invariants import Least, wrong_in
from tests.simulation.cluster.test_invariants import LIE_SECONDS, Lie, Scene, judged

MOVING = PartitionRegistration(
    "id", 0, (4, 5, 1, 2, 3), (1, 2, 3, 4, 5), 1, 7, 30, adding_replicas=(4, 5), removing_replicas=(2, 3)
)
"""From 1, 2, 3 to 4, 5, 1, with all in sync."""
COMPLETE = replace(
    MOVING,
    replicas=(4, 5, 1),
    isr=(1, 4, 5),
    leader_epoch=8,
    partition_epoch=31,
    adding_replicas=(),
    removing_replicas=(),
)
CANCELLED = replace(COMPLETE, replicas=(1, 2, 3), isr=(1, 2, 3))
MIN_ISR = 2


def wrong(after: PartitionRegistration, before: PartitionRegistration = MOVING) -> str:
    return wrong_in(before, after, Least(MIN_ISR, MIN_ISR, MIN_ISR))


def test_a_reassignment_that_is_complete_or_cancelled_is_right() -> None:
    assert wrong(COMPLETE) == wrong(CANCELLED) == ""


def test_copies_that_nobody_counts_may_go_whatever_is_in_sync() -> None:
    assert wrong(replace(CANCELLED, isr=(1,)), replace(MOVING, isr=(1,))) == ""


WRONG = (
    ("no leader epoch begins", replace(COMPLETE, leader_epoch=7), MOVING),
    ("neither with its target", replace(COMPLETE, replicas=(4, 1), isr=(1, 4)), MOVING),
    ("neither with its target", replace(CANCELLED, replicas=(1, 2, 3, 4, 5)), MOVING),
    ("forgets that", replace(MOVING, replicas=(4, 5, 1, 3, 2)), MOVING),
    ("is complete, and not all", COMPLETE, replace(MOVING, isr=(1, 2, 3, 4))),
    ("complete with 1 in sync", replace(COMPLETE, isr=(4,)), replace(MOVING, isr=(2, 4, 5))),
    ("are left in sync", replace(CANCELLED, isr=(1,)), replace(MOVING, isr=(1, 4, 5))),
    ("are left in sync", replace(CANCELLED, isr=(1,)), replace(MOVING, isr=(1,), elr=(4,))),
    ("shall have 1 replicas", replace(MOVING, adding_replicas=(), removing_replicas=(5, 1, 2, 3)), CANCELLED),
    ("no reassignment that removes them", replace(MOVING, replicas=(4, 5, 1, 2), leader_epoch=8), MOVING),
)


@pytest.mark.parametrize(("what", "after", "before"), WRONG)
def test_what_is_wrong_with_replicas_that_go_is_said(
    what: str, after: PartitionRegistration, before: PartitionRegistration
) -> None:
    assert what in wrong(after, before)


def a_leader_follows_a_stranger(scene: Scene) -> None:
    leading = scene.leader[1].leading
    assert leading is not None
    leading.followers[9] = replace(next(iter(leading.followers.values())), broker_id=9, log_end_offset=-1)
    leading.isr = frozenset(list(leading.isr))


def a_leader_waits_for_a_stranger(scene: Scene) -> None:
    leading = scene.leader[1].leading
    assert leading is not None
    leading.isr |= {9}


@pytest.mark.parametrize("lie", [a_leader_follows_a_stranger, a_leader_waits_for_a_stranger])
def test_a_leader_that_counts_a_stranger_breaks_i47(lie: Lie) -> None:
    outcome = judged(lie)
    assert [failure.partition(":")[0] for failure in outcome.failures] == ["I47"], outcome.failures
    assert outcome.seconds < LIE_SECONDS + 1.5


def a_leader_calls_one_in_sync_a_copy(scene: Scene) -> None:
    leading = scene.leader[1].leading
    assert leading is not None
    leading.isr = frozenset(list(leading.isr))
    with switched_on(named("the throttle holds up replicas in sync")):
        scene.invariants.partitions.check_maximal_isr(*scene.leader, leading)


def test_a_leader_that_calls_one_in_sync_a_copy_breaks_i48() -> None:
    (failure,) = judged(a_leader_calls_one_in_sync_a_copy).failures
    assert failure.startswith("I48: ")


def test_a_move_that_is_complete_too_early_breaks_i46() -> None:
    mutant = named("a move is complete before its copies are in sync")
    assert failure_of(mutant.stories[0], mutant).startswith("I46: ")
