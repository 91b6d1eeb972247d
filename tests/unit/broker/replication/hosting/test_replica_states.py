"""Promises of the table of a replica's states, and of the record that keeps to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.replication.hosting.replica_states import (
    LOST,
    MEANING,
    SERVED,
    TO_CREATE,
    TRANSITIONS,
    HostingEvent,
    LostReplica,
    Replica,
)
from broker.replication.hosting.replica_states import HostingState as S
from broker.replication.hosting.state_diagram import page_of_replica_states
from broker.replication.partition import Partition
from penstock.errors import CorruptFileError, InvariantViolation, KafkaStorageError
from tests.support.partitions import NOBODY, PARTITION, make_log, make_partition, state

ROT, BROKEN_DISK = CorruptFileError("/d/t-0/0.log", 0, "rot"), OSError("EIO")
OFFLINE, HELD = KafkaStorageError("offline"), KafkaStorageError("try again")


def lost(why: Exception) -> LostReplica:
    return LostReplica(why, broker_epoch=1)


def test_table_names_every_state_and_event_and_only_states_that_exist() -> None:
    assert set(TRANSITIONS) == set(MEANING) == set(S)
    assert {after for events in TRANSITIONS.values() for after in events.values()} == set(S)
    assert {event for events in TRANSITIONS.values() for event in events} == set(HostingEvent)


def test_the_page_of_states_is_drawn_from_the_table() -> None:
    drawn = Path(__file__).parents[5] / "docs" / "replica-states.md"
    command = "python -m broker.replication.hosting.state_diagram > docs/replica-states.md"
    assert drawn.read_text(encoding="utf-8") == page_of_replica_states(), command


def before(after: S) -> set[S]:
    return {state for state, events in TRANSITIONS.items() if after in events.values()} - {after}


def test_no_replica_is_served_but_over_a_log_that_was_opened_for_it() -> None:
    assert before(S.LED) | before(S.FOLLOWED) == SERVED
    assert before(S.OPENED) == {S.QUEUED, S.BLOCKED, S.CREATING, S.HELD}
    assert before(S.CREATING) == {S.QUEUED}


def test_a_damaged_log_makes_room_only_when_it_is_set_aside_and_a_disk_that_failed_never_does() -> None:
    assert before(S.QUEUED) == {
        S.ABSENT,
        S.BLOCKED,
        S.CREATING,
        S.WITHOUT_LOG,
    }
    assert before(S.WITHOUT_LOG) == {S.QUEUED, S.BLOCKED, S.CREATING, S.GIVEN_UP} and before(S.GIVEN_UP) == {S.DAMAGED}
    assert [state for state in S if HostingEvent.SET_ASIDE in TRANSITIONS[state]] == [S.GIVEN_UP]
    assert set(TRANSITIONS[S.OUT_OF_USE].values()) == {S.OUT_OF_USE, S.ABSENT}


def test_no_replica_is_deleted_while_its_log_is_between_two_dirs() -> None:
    for state_ in (S.HELD, S.BROKEN):
        assert HostingEvent.LEAVE not in TRANSITIONS[state_]
    assert before(S.HELD) == {S.LED, S.FOLLOWED} and before(S.BROKEN) == {S.HELD}


def test_an_event_that_the_table_does_not_have_is_an_invariant_violation() -> None:
    replica = Replica(PARTITION)
    with pytest.raises(InvariantViolation, match="t-0 is Absent, and cannot lead"):
        replica.lead()
    assert replica.state is S.ABSENT


def test_rot_in_a_log_whose_disk_has_failed_does_not_make_it_a_log_to_be_made_anew(tmp_path: Path) -> None:
    replica = served(tmp_path)
    replica.lose(lost(BROKEN_DISK), OFFLINE)
    replica.lose(lost(ROT), OFFLINE)
    assert replica.state is S.OUT_OF_USE and replica.lost is not None and replica.lost.why is BROKEN_DISK


@pytest.mark.parametrize(
    ("errors", "after"),
    [
        ((ROT,), S.DAMAGED),
        ((BROKEN_DISK,), S.OUT_OF_USE),
        ((ROT, BROKEN_DISK), S.OUT_OF_USE),
        ((BROKEN_DISK, ROT), S.OUT_OF_USE),
    ],
)
def test_a_replica_that_is_lost_while_it_is_held_waits_until_it_is_released(
    tmp_path: Path, errors: tuple[Exception, ...], after: S
) -> None:
    replica, done = served(tmp_path), list[str]()
    replica.hold(HELD)
    assert replica.postpones(lambda: done.append("removed"))
    for error in errors:
        replica.lose(lost(error), OFFLINE)
        assert replica.state is S.BROKEN
    (change,) = replica.release()
    change()
    assert replica.state is after and done == ["removed"] and not replica.postpones(lambda: None)
    assert replica.partition is not None and replica.partition.offline is OFFLINE


def served(path: Path) -> Replica:
    replica = Replica(PARTITION)
    replica.queue(starts_empty=True)
    replica.open(make_partition(path))
    replica.lead()
    return replica


class Walk:
    """One replica to which anything may happen at any time."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.random, self.replica = Random(seed), Replica(PARTITION)
        self.partition = make_partition(directory)
        self.log = make_log(directory / "other")
        self.refused = 0
        self.seen = {S.ABSENT}

    def events(self) -> dict[HostingEvent, Callable[[], Any]]:
        replica, registration = self.replica, state(2)
        return {
            HostingEvent.QUEUE: lambda: replica.queue(starts_empty=True),
            HostingEvent.BLOCK: replica.block,
            HostingEvent.CREATE: replica.create,
            HostingEvent.OPEN: lambda: replica.open(Partition(1, self.log, 0, 1)),
            HostingEvent.LACK_LOG: lambda: replica.lack_log(lost(BROKEN_DISK), starts_empty=False),
            HostingEvent.LEAD: replica.lead,
            HostingEvent.FOLLOW: lambda: (replica.follow(), self.partition.become_follower(registration, NOBODY)),
            HostingEvent.HOLD: lambda: replica.hold(HELD),
            HostingEvent.RELEASE: replica.release,
            HostingEvent.FIND_ROT: lambda: replica.lose(lost(ROT), OFFLINE),
            HostingEvent.FAIL: lambda: replica.lose(lost(BROKEN_DISK), OFFLINE),
            HostingEvent.GIVE_UP: replica.give_up,
            HostingEvent.KEEP_LOG: replica.keep_log,
            HostingEvent.SET_ASIDE: replica.set_aside,
            HostingEvent.LEAVE: lambda: replica.leave(OFFLINE),
        }

    def step(self) -> None:
        events, was = self.events(), self.replica.state
        event = self.random.choice([*events, *(set(TRANSITIONS[was]) & set(events))])
        data = self.data()
        try:
            events[event]()
        except InvariantViolation:
            self.refused += 1
            assert event not in TRANSITIONS[was] and (self.replica.state, self.data()) == (was, data)
        self.seen.add(self.replica.state)

    def data(self) -> tuple[object, ...]:
        replica = self.replica
        return replica.partition, replica.lost, replica.held, replica.rebuilds, replica.starts_empty

    def check(self) -> None:
        """A replica knows what its state says, and nothing else."""
        replica, now = self.replica, self.replica.state
        partition = replica.partition
        assert (replica.held is not None) == (now in (S.HELD, S.BROKEN)) == replica.postpones(lambda: None)
        if now in SERVED | {S.HELD, S.BROKEN}:
            assert partition is not None
        if now in {S.ABSENT, S.WITHOUT_LOG} | TO_CREATE:
            assert partition is None
        if now in LOST | {S.BROKEN, S.GIVEN_UP}:
            assert replica.lost is not None
        if now in SERVED | {S.ABSENT, S.HELD}:
            assert replica.lost is None
        if partition is not None:
            expected = None if now in SERVED else HELD if now is S.HELD else OFFLINE
            assert partition.offline is expected


def test_whatever_happens_a_replica_knows_what_its_state_says(tmp_path: Path) -> None:
    seen: set[S] = set()
    refused = 0
    for seed in range(20):
        walk = Walk(seed, tmp_path / str(seed))
        for _ in range(300):
            walk.step()
            walk.check()
        seen |= walk.seen
        refused += walk.refused
    assert seen == set(S) and refused > 100
