"""Bugs of changes of the voters, to switch on: the histories of `ChangingWorld` must notice every one.

As mutants.py, whose `mutated` they use.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.types import NO_OFFSET
from raft import leadership as leadership_module
from raft import progress, validation, voter_changes
from raft.leadership import Leadership
from raft.progress import ReplicaProgress
from raft.quorum_replicas import QuorumReplicas
from raft.quorum_state import NO_VOTE, QuorumState
from raft.voter_changes import LeadersView, VoterChange, changed_voters
from raft.voter_history import VoterHistory
from raft.voters import VoterSet
from tests.simulation.raft.node import SimNode

_append_voters = Leadership._append_voters


def _while_another_waits(change: VoterChange, view: LeadersView) -> VoterSet:
    return changed_voters(change, replace(view, is_changing=False))


def _before_the_first_commit(change: VoterChange, view: LeadersView) -> VoterSet:
    return changed_voters(change, replace(view, has_committed=True))


def _commits_by_itself(self: Leadership) -> bool:
    shared = self._shared
    acked = [shared.log.flushed_offset, *(voter.acked_offset for voter in self.replicas.voters())]
    offset = progress.majority_offset(acked, shared.quorum.voters.majority)
    offset = progress.committed_offset(offset, self.epoch_start_offset, shared.log.high_watermark)
    if not shared.log.advance_high_watermark(offset):
        return False
    shared.quorum.history.note_committed(offset)
    return True


def _same_id_same_candidate(self: QuorumState, candidate_id: int, directory_id: str) -> bool:
    return self.voted_id in (NO_VOTE, candidate_id)


def _acks_of_any_disk(self: QuorumReplicas, replica_id: int, directory_id: str) -> tuple[int, str]:
    voter = self._quorum.voters.find(replica_id)
    return replica_id, (voter.directory_id or "") if voter else directory_id


def _first_set_for_ever(self: VoterHistory, end_offset: int) -> VoterSet:
    return next(voters for offset, voters in self._sets if offset == NO_OFFSET)


def _names_all_at_once(view: LeadersView) -> VoterSet:
    """A voter that has not fetched gets whatever comes to mind."""
    found = [(one, view.find(one.voter_id, "")) for one in view.voters.voters]
    said = [
        (one, view.directory_id if one.voter_id == view.node_id else seen and seen.directory_id) for one, seen in found
    ]
    return VoterSet(tuple(replace(one, directory_id=name or "not known") for one, name in said))


def _names_without_a_record(self: Leadership, voters: VoterSet) -> None:
    """The leader goes by the named set, and its log does not say so."""
    if self._shared.quorum.voters.is_dynamic:
        _append_voters(self, voters)
    else:
        self._append((b"another record",), 64)
        self._shared.quorum.history.append(self._shared.log.log_end_offset - 1, voters)


def _caught_up_at_the_end_alone(self: ReplicaProgress, offset: int, leader_end_offset: int, now_ms: int) -> None:
    self.acked_offset = offset
    if offset == leader_end_offset:
        self.last_caught_up_ms = now_ms


VOTER_PATCHES: dict[str, tuple[tuple[Any, str, Any], ...]] = {
    "two_changes_at_once": ((leadership_module, "changed_voters", _while_another_waits),),
    "change_before_the_epochs_first_commit": ((leadership_module, "changed_voters", _before_the_first_commit),),
    "votes_of_others_counted": ((VoterSet, "has_majority", lambda self, ids: len(ids) >= self.majority),),
    "removed_leader_goes_on": ((Leadership, "is_over", property(lambda self: False)),),
    "removed_leader_counts_itself": ((Leadership, "maybe_commit", _commits_by_itself),),
    "removed_voter_does_not_stand": (
        (VoterHistory, "may_be_needed", lambda self, node_id, disk: self.newest.names(node_id, disk)),
    ),
    "observer_does_not_vote": ((QuorumState, "may_vote", property(lambda self: self.takes_part)),),
    "snapshot_without_voters": ((SimNode, "snapshot_voters", lambda self: None),),
    "snapshot_of_other_voters": ((VoterHistory, "at", _first_set_for_ever),),
    "truncation_keeps_the_voters": ((VoterHistory, "truncate_to", lambda self, offset: None),),
    "acks_of_any_disk": ((QuorumReplicas, "_key", _acks_of_any_disk),),
    "votes_of_any_disk": (
        (validation, "_is_my_disk", lambda directory_id, config, quorum: True),
        (QuorumState, "has_vote_for", _same_id_same_candidate),
    ),
    "any_disk_is_the_voter": ((VoterSet, "names", lambda self, node_id, disk: self.is_voter(node_id)),),
    "caught_up_at_the_end_alone": ((ReplicaProgress, "note_acked", _caught_up_at_the_end_alone),),
    "change_without_a_majority": ((LeadersView, "is_in_contact", lambda self, voter: True),),
}

NAMING_PATCHES: dict[str, tuple[tuple[Any, str, Any], ...]] = {
    "disks_named_that_nobody_said": ((voter_changes, "_with_directories", _names_all_at_once),),
    "named_in_memory_alone": ((Leadership, "_append_voters", _names_without_a_record),),
    "static_candidate_refused": (
        (validation, "_is_my_disk", lambda directory_id, config, quorum: directory_id == config.directory_id),
    ),
}
"""Steps from static to dynamic that are half done: the histories of `NamingWorld` must notice them."""

NAMING_FIRST_SEED: dict[str, int] = {"disks_named_that_nobody_said": 286}

FIRST_SEED: dict[str, int] = {
    "votes_of_others_counted": 69,
    "removed_voter_does_not_stand": 53,
    "acks_of_any_disk": 26,
    "votes_of_any_disk": 135,
    "any_disk_is_the_voter": 44,
    "observer_does_not_vote": 7,
    "snapshot_of_other_voters": 6,
}
"""Where to look first for the rarer kills, to be quick. A change of the core or of the faults moves them."""

SEEN_BY_STORIES = ("two_changes_at_once", "change_before_the_epochs_first_commit", "change_without_a_majority")
"""Too rare to be drawn: tests/unit/raft/test_voter_changes.py plays the histories that show them."""
