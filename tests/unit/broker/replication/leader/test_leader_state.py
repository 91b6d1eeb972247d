"""Promises of the leader's view of one partition: what counts, what is committed, and which ISR is wanted."""

from __future__ import annotations

from broker.replication.leader.leader_state import LeaderState
from metadata.registrations import PartitionRegistration

LAG_MS = 1_000


def leader(isr: tuple[int, ...] = (1, 2, 3), log_end_offset: int = 10) -> LeaderState:
    return LeaderState.begin(1, PartitionRegistration("id", 0, (1, 2, 3), isr, 1, 5, 7), log_end_offset, now_ms=0)


def test_nothing_is_committed_before_every_isr_member_fetched_in_this_epoch() -> None:
    state = leader()
    state.note_fetch(2, 100, 10, 10, now_ms=1)
    assert state.committed_offset(10, 1) is None


def test_committed_is_the_smallest_durable_end_of_the_isr() -> None:
    state = leader()
    state.note_fetch(2, 100, 8, 10, now_ms=1)
    state.note_fetch(3, 100, 9, 10, now_ms=1)
    assert state.committed_offset(10, 1) == 8


def test_the_leader_counts_only_up_to_its_own_flushed_offset() -> None:
    state = leader()
    state.note_fetch(2, 100, 10, 10, now_ms=1)
    state.note_fetch(3, 100, 10, 10, now_ms=1)
    assert state.committed_offset(own_flushed_offset=6, min_insync_replicas=1) == 6


def test_a_follower_out_of_the_isr_does_not_count() -> None:
    state = leader(isr=(1, 2))
    state.note_fetch(2, 100, 10, 10, now_ms=1)
    state.note_fetch(3, 100, 3, 10, now_ms=1)
    assert state.committed_offset(10, 1) == 10


def test_a_replica_that_is_being_added_counts_already() -> None:
    state = leader(isr=(1, 2))
    state.note_fetch(2, 100, 20, 20, now_ms=1)
    state.note_fetch(3, 100, 12, 20, now_ms=1)
    assert state.propose_expand(3, high_watermark=12, own_epoch=50, eligible=True) is not None
    assert state.committed_offset(20, 1) == 12


def test_a_replica_that_is_being_dropped_counts_until_the_controller_agrees() -> None:
    state = leader()
    state.note_fetch(2, 100, 10, 10, now_ms=0)
    state.note_fetch(3, 100, 4, 10, now_ms=0)
    state.note_fetch(2, 100, 20, 20, now_ms=LAG_MS + 1)
    proposed = state.propose_shrink(20, 50, now_ms=LAG_MS + 1, lag_time_ms_max=LAG_MS)
    assert proposed is not None and proposed.ids == {1, 2}
    assert state.committed_offset(20, 1) == 4
    state.commit_isr((1, 2), 8)
    assert state.committed_offset(20, 1) == 20


def test_the_high_watermark_stands_still_below_min_isr() -> None:
    state = leader(isr=(1,))
    assert state.committed_offset(10, min_insync_replicas=2) is None


def test_a_member_that_is_only_proposed_does_not_lift_the_isr_to_min_isr() -> None:
    state = leader(isr=(1,))
    state.note_fetch(2, 100, 10, 10, now_ms=1)
    assert state.propose_expand(2, high_watermark=10, own_epoch=50, eligible=True) is not None
    assert state.committed_offset(10, min_insync_replicas=2) is None
    state.commit_isr((1, 2), 8)
    assert state.committed_offset(10, min_insync_replicas=2) == 10


def test_a_follower_that_had_everything_gets_the_whole_lag_time_after_the_next_append() -> None:
    state = leader()
    for follower in (2, 3):
        state.note_fetch(follower, 100, 10, 10, now_ms=0)
    state.note_append(end_offset_before=10, now_ms=50_000)
    assert state.propose_shrink(20, 50, now_ms=50_000 + LAG_MS, lag_time_ms_max=LAG_MS) is None
    assert state.propose_shrink(20, 50, now_ms=50_001 + LAG_MS, lag_time_ms_max=LAG_MS) is not None


def test_a_follower_that_keeps_the_pace_is_caught_up_though_never_at_the_end() -> None:
    state = leader()
    end = 10
    for now_ms in range(0, 10 * LAG_MS, 100):
        state.note_fetch(2, 100, end, end + 5, now_ms)
        state.note_fetch(3, 100, end, end + 5, now_ms)
        end += 5
    assert state.propose_shrink(end + 5, 50, now_ms, LAG_MS) is None


def test_nobody_joins_before_the_high_watermark_and_the_epochs_start() -> None:
    state = leader(isr=(1, 2), log_end_offset=10)
    state.note_fetch(3, 100, 9, 20, now_ms=1)
    assert state.propose_expand(3, high_watermark=5, own_epoch=50, eligible=True) is None
    state.note_fetch(3, 100, 10, 20, now_ms=1)
    assert state.propose_expand(3, high_watermark=11, own_epoch=50, eligible=True) is None
    assert state.propose_expand(3, high_watermark=10, own_epoch=50, eligible=False) is None


def test_a_proposal_names_the_epoch_under_which_each_member_fetched() -> None:
    state = leader(isr=(1, 2))
    state.note_fetch(2, 102, 10, 10, now_ms=1)
    state.note_fetch(3, 103, 10, 10, now_ms=1)
    proposed = state.propose_expand(3, high_watermark=10, own_epoch=101, eligible=True)
    assert proposed is not None
    assert [(m.broker_id, m.broker_epoch) for m in proposed.members] == [(1, 101), (2, 102), (3, 103)]
    assert proposed.partition_epoch == 7


def test_one_proposal_at_a_time() -> None:
    state = leader(isr=(1,))
    for follower in (2, 3):
        state.note_fetch(follower, 100, 10, 10, now_ms=1)
    assert state.propose_expand(2, 10, 50, True) is not None
    assert state.propose_expand(3, 10, 50, True) is None


def test_an_older_word_of_the_controller_is_ignored() -> None:
    state = leader()
    state.commit_isr((1,), 6)
    assert state.isr == {1, 2, 3}


def test_a_stranger_is_not_counted() -> None:
    assert leader().note_fetch(9, 100, 10, 10, now_ms=1) is None


def test_a_member_that_has_not_fetched_from_this_leader_yet_is_proposed_as_it_is_registered() -> None:
    """Else the controller takes it for restarted and refuses the whole ISR, and an idle partition never asks again."""
    state = leader(isr=(1, 2))
    state.registered_epochs = {1: 101, 2: 102, 3: 103}
    state.note_fetch(3, 103, 10, 10, now_ms=1)
    proposed = state.propose_expand(3, high_watermark=10, own_epoch=101, eligible=True)
    assert proposed is not None
    assert [(m.broker_id, m.broker_epoch) for m in proposed.members] == [(1, 101), (2, 102), (3, 103)]


def test_the_low_watermark_counts_who_lives_and_who_may_be_elected() -> None:
    state = leader()
    state.active_brokers = frozenset({1})
    state.commit_isr((1, 2), 9)
    assert state.low_watermark(7) == -1, "replica 2 is in the ISR and has told nothing"
    state.followers[2].log_start_offset = 5
    assert state.low_watermark(7) == 5
    state.active_brokers = frozenset({1, 3})
    assert state.low_watermark(7) == -1, "replica 3 lives, and a consumer may read from it one day"
    state.followers[3].log_start_offset = 9
    assert state.low_watermark(7) == 5
    state.followers[2].log_start_offset = 8
    assert state.low_watermark(7) == 7


def test_the_low_watermark_counts_an_eligible_replica_because_it_may_be_elected() -> None:
    state = leader()
    state.active_brokers = frozenset({1})
    state.commit_isr((1,), 9, elr=(2,))
    assert state.low_watermark(7) == -1
    state.followers[2].log_start_offset = 5
    assert state.low_watermark(7) == 5


def test_nothing_is_committed_while_there_are_eligible_replicas_whatever_minimum_the_leader_knows() -> None:
    """The answer to AlterPartition may come before the metadata with a higher min.insync.replicas."""
    state = leader(isr=(1, 2))
    state.note_fetch(2, 102, 8, 10, now_ms=1)
    assert state.committed_offset(10, min_insync_replicas=1) == 8
    state.commit_isr((1,), 8, elr=(2,))
    assert state.committed_offset(10, min_insync_replicas=1) is None and not state.may_commit(1)
    state.commit_isr((1,), 9)
    assert state.committed_offset(10, min_insync_replicas=1) == 10 and state.may_commit(1)
    state.commit_isr((1,), 8, elr=(2,))
    assert state.may_commit(1), "an older word of the controller is ignored"


def test_a_leader_begins_with_the_eligible_replicas_of_its_election() -> None:
    state = LeaderState.begin(1, PartitionRegistration("id", 0, (1, 2), (1,), 1, 5, 7, elr=(2,)), 10, now_ms=0)
    assert state.committed_offset(10, min_insync_replicas=1) is None


def test_a_replica_that_comes_is_followed_in_the_same_epoch_and_one_that_goes_is_not() -> None:
    """A reassignment (KIP-455)."""
    state = leader()
    state.note_fetch(2, 100, 10, 10, now_ms=1)
    state.note_fetch(3, 100, 10, 10, now_ms=1)
    moving = PartitionRegistration("id", 0, (4, 2, 1, 3), (1, 2, 3), 1, 5, 8, adding_replicas=(4,))
    state.metadata_changed(moving, now_ms=5)
    assert state.followers[2].log_end_offset == 10 and state.followers[4].log_end_offset == -1
    assert state.committed_offset(10, 1) == 10, "what is being copied is waited for by nobody"
    state.note_fetch(4, 100, 10, 10, now_ms=6)
    assert state.propose_expand(4, high_watermark=10, own_epoch=50, eligible=True) is not None
    state.metadata_changed(PartitionRegistration("id", 0, (2, 1), (1, 2), 1, 5, 9), now_ms=7)
    assert state.followers.keys() == {2} and state.proposed is None and state.isr == {1, 2}


def test_a_proposal_that_names_a_replica_which_is_gone_is_given_up() -> None:
    """The answer to an earlier proposal may have brought the partition epoch before the metadata brought the rest."""
    state = leader(isr=(1, 2))
    state.note_fetch(2, 100, 10, 10, now_ms=1)
    state.note_fetch(3, 100, 10, 10, now_ms=1)
    assert state.propose_expand(3, high_watermark=10, own_epoch=50, eligible=True) is not None
    state.metadata_changed(PartitionRegistration("id", 0, (2, 1), (1, 2), 1, 5, 7), now_ms=2)
    assert state.proposed is None and state.committed_offset(10, 1) == 10
