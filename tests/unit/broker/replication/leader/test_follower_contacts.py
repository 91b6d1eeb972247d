"""Who is in sync as the leader itself sees it, when no controller changes the ISR."""

from __future__ import annotations

from broker.replication.leader.follower_contacts import FollowerContacts
from broker.replication.leader.leader_state import LeaderState
from metadata.registrations import PartitionRegistration

LAG_MS = 1_000


def leader_of_three(now_ms: int) -> LeaderState:
    return LeaderState.begin(0, PartitionRegistration("id", 0, (0, 1, 2), (0, 1, 2), 0, 5, 7), 0, now_ms)


class Contacts:
    """The contacts of broker 0, and their clock."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.contacts = FollowerContacts(0, lambda: self.now_ms, LAG_MS)

    def in_sync(self, state: LeaderState) -> set[int]:
        (found,) = self.contacts.in_sync([state])
        return set(found)


def test_a_follower_that_fetches_nothing_for_the_lag_time_is_not_in_sync_even_of_an_idle_partition() -> None:
    here, state = Contacts(), leader_of_three(0)
    here.now_ms = LAG_MS
    assert here.in_sync(state) == {0, 1, 2}, "each has the full lag time from the begin of the epoch"
    here.contacts.fetched(1)  # for whichever partition: a session does not name those without news
    here.now_ms += LAG_MS
    assert here.in_sync(state) == {0, 1}
    here.now_ms += 1
    assert here.in_sync(state) == {0}
    here.contacts.fetched(2)
    assert here.in_sync(state) == {0, 2}


def test_a_member_that_the_leader_wants_to_drop_is_not_in_sync_before_the_controller_agrees() -> None:
    here, state = Contacts(), leader_of_three(0)
    state.note_append(0, 0)
    state.note_fetch(1, 1, 10, 10, LAG_MS + 1)
    assert state.propose_shrink(10, 1, LAG_MS + 1, LAG_MS) is not None
    here.now_ms = LAG_MS + 1
    here.contacts.fetched(1)
    here.contacts.fetched(2)
    assert state.isr == {0, 1, 2} and here.in_sync(state) == {0, 1}


def test_a_follower_that_is_not_in_the_isr_yet_is_not_in_sync() -> None:
    here, state = Contacts(), leader_of_three(0)
    state.commit_isr((0,), 8)
    state.note_fetch(1, 1, 10, 10, 0)
    assert state.propose_expand(1, 0, 1, True) is not None
    here.contacts.fetched(1)
    assert here.in_sync(state) == {0}
