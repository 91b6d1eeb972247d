"""Decides whether the voters may change now, and into which set: one voter at a time, by the leader alone.

A change is refused

- while the set is static: no record may change it, until `NameDirectories` has made it dynamic;
- while another change waits for its majority: two sets that differ by two voters may have two majorities without a
  voter in common (Ongaro, "Consensus: Bridging Theory and Practice", Stanford 2014, §4.1);
- before the leader has committed a record of its own epoch: an older leader's change may still wait in another log
  (Ongaro, "bug in single-server membership changes", raft-dev, 2015);
- if the newcomer has not caught up: it would be counted, and could ack nothing;
- if no majority of the new set has fetched of late: the change itself could not be committed, nor anything behind it.
  Of late is, for a change that was asked for at a time, since then: a voter that died just before would count else;
- if it is the first one, and a voter is away, or a node that fetches has a release that does not know the record.

Pure. Not here: the record (voter_records.py), and what follows from a set (quorum_state.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from penstock.errors import (
    DuplicateVoterError,
    InvalidRequestError,
    RequestTimedOutError,
    UnsupportedVersionError,
    VoterNotFoundError,
)
from penstock.lazy_dataclass import dataclass
from raft.progress import ReplicaProgress
from raft.voters import VOTERS_MAX, Voter, VoterSet

WAITS_FOR: Final = "if it runs, its log says what it waits for, such as room on its disk"


@dataclass(frozen=True, slots=True)
class AddVoter:
    """The observer becomes a voter (KIP-853)."""

    voter: Voter


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    """The voter becomes an observer. The directory id must be its own, so that nobody removes its successor."""

    voter_id: int
    directory_id: str


@dataclass(frozen=True, slots=True)
class UpdateVoter:
    """The voter, which is the same disk as before, is reached at other addresses."""

    voter: Voter


@dataclass(frozen=True, slots=True)
class NameDirectories:
    """The set names the disk of each of its voters from now on: a static set becomes a dynamic one, of the same
    voters."""


VoterChange = AddVoter | RemoveVoter | UpdateVoter | NameDirectories


@dataclass(frozen=True, slots=True)
class LeadersView:
    """The knowledge of a leader by which a change is judged."""

    node_id: int
    directory_id: str
    voters: VoterSet
    has_committed: bool
    """A record of its own epoch is committed."""
    is_changing: bool
    """The newest set is not committed yet."""
    find: Callable[[int, str], ReplicaProgress | None]
    """The progress of the node with this id and this disk; None if it has not fetched."""
    since_ms: int
    """A node that was caught up at this time or later is."""
    contact_since_ms: int
    """A node that fetched at this time or later is in contact."""
    older: Sequence[int] = ()
    """The observers in contact that name no disk: their release is older, and knows no record that names voters."""

    def is_in_contact(self, voter: Voter) -> bool:
        if voter.voter_id == self.node_id:
            return True
        found = self.find(voter.voter_id, voter.directory_id or "")
        return found is not None and found.acked_offset >= 0 and (found.last_fetch_ms or 0) >= self.contact_since_ms

    def has_caught_up(self, voter: Voter) -> bool:
        found = self.find(voter.voter_id, voter.directory_id or "")
        return found is not None and found.last_caught_up_ms is not None and found.last_caught_up_ms >= self.since_ms


def changed_voters(change: VoterChange, view: LeadersView) -> VoterSet:
    """The set that the change makes.

    RequestTimedOutError: not now; ask again. DuplicateVoterError, VoterNotFoundError, InvalidRequestError and
    UnsupportedVersionError: not in this way.
    """
    voters = _asked_for(change, view)
    if not view.has_committed:
        raise RequestTimedOutError("the leader has not committed a record of its own epoch yet; ask again")
    if view.is_changing:
        raise RequestTimedOutError("another change of the voters waits for its majority; ask again")
    if isinstance(change, AddVoter) and not view.has_caught_up(change.voter):
        raise RequestTimedOutError(
            f"node {change.voter.voter_id} with directory id {change.voter.directory_id} has not caught up with the "
            f"metadata log; start it ({WAITS_FOR}), and ask again"
        )
    answering = [voter.voter_id for voter in voters.voters if view.is_in_contact(voter)]
    away = sorted(set(voters.ids) - set(answering))
    if isinstance(change, NameDirectories) and away:
        raise RequestTimedOutError(
            f"voters {away} are away, and each must run: one that lost its disk, or runs with an older release, could"
            " not come back; start them, and ask again"
        )
    if len(answering) < voters.majority:
        raise RequestTimedOutError(
            f"of the voters {list(voters.ids)} only {answering} answer: the change could not be committed; start the "
            f"others ({WAITS_FOR}), or change those that are gone first"
        )
    return voters


def _asked_for(change: VoterChange, view: LeadersView) -> VoterSet:
    """The set as it was asked for, if that makes sense at all."""
    voters = view.voters
    if isinstance(change, NameDirectories):
        return _with_directories(view)
    if not voters.is_dynamic:
        raise UnsupportedVersionError("the voters are those of controller.quorum.voters: make the quorum dynamic first")
    match change:
        case AddVoter(voter):
            if voter.voter_id < 0 or not voter.directory_id:
                raise InvalidRequestError(f"a voter needs an id and a directory id: {voter}")
            if voters.is_voter(voter.voter_id):
                raise DuplicateVoterError(f"node {voter.voter_id} is a voter already; remove it first")
            if len(voters) >= VOTERS_MAX:
                raise InvalidRequestError(f"there are {len(voters)} voters; at most {VOTERS_MAX} are possible")
            return voters.with_voter(voter)
        case RemoveVoter(voter_id, directory_id):
            _find(voters, voter_id, directory_id)
            if len(voters) == 1:
                raise InvalidRequestError(f"voter {voter_id} is the last one; add another first")
            return voters.without(voter_id)
        case UpdateVoter(voter):
            known = _find(voters, voter.voter_id, voter.directory_id or "")
            return voters.without(voter.voter_id).with_voter(replace(known, endpoints=voter.endpoints))


def _find(voters: VoterSet, voter_id: int, directory_id: str) -> Voter:
    found = voters.find(voter_id)
    if found is None or found.directory_id != directory_id:
        raise VoterNotFoundError(f"no voter has the id {voter_id} and the directory id {directory_id or 'none'}")
    return found


def _with_directories(view: LeadersView) -> VoterSet:
    if view.voters.is_dynamic:
        raise InvalidRequestError("the quorum is dynamic already")
    named = []
    for voter in view.voters.voters:
        own = voter.voter_id == view.node_id
        found = None if own else view.find(voter.voter_id, "")
        directory_id = view.directory_id if own else found.directory_id if found else ""
        if not directory_id:
            raise RequestTimedOutError(
                f"voter {voter.voter_id} has not said which disk it has; start it with this release, and ask again"
            )
        named.append(replace(voter, directory_id=directory_id))
    if view.older:
        raise RequestTimedOutError(
            f"nodes {sorted(view.older)[:10]} run with an older release, which stops at a record that names voters:"
            " upgrade the brokers, too, and ask again"
        )
    return VoterSet(tuple(named))
