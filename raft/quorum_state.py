"""The state of this node, one of seven, and its epoch: the only place where either may change.

    UNATTACHED   knows the epoch but no leader that it could follow
    VOTED        has given its vote of this epoch
    FOLLOWER     fetches from the leader of this epoch (an observer is UNATTACHED or FOLLOWER, never anything else)
    PROSPECTIVE  asks whether it could win an election, without raising the epoch (KIP-996)
    CANDIDATE    has voted for itself in a new epoch and asks for the votes of the others
    LEADER       has the votes of a majority
    RESIGNED     led in this epoch and stopped: it may neither lead in it again nor vote in it

In a dynamic quorum a node that is no voter by its own log may still be VOTED: its log may not have the record yet that
made it a voter, and a candidate that asks it for its vote says for which disk the question is meant (KIP-853). It
never stands.

A voter that has forgotten promises (`Forgotten`) is UNATTACHED or FOLLOWER, like an observer, until it knows again what
it may have promised; raft/rejoining.py says when that is.

`TRANSITIONS` is the table; state_diagram.py draws docs/raft-states.md from it. What is persisted is `ElectionState`:
epoch, vote, the leader once one is known, and what was forgotten. Within an epoch a vote is never changed and a leader
is never another; the epoch never falls (I1, I2, I3). The present voters are here too, and in no other object
(voters.py). This file decides nothing about time, logs or messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from penstock.errors import InvariantViolation
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_LEADER
from raft.config import RaftConfig
from raft.voter_history import VoterHistory
from raft.voters import VoterSet

NO_VOTE = -1
EPOCH_MAX = 2**31 - 2
"""The wire's epochs are int32; one above must still be possible."""
EPOCH_JUMP_MAX = 1_000
"""How far above its own a node believes an epoch that a request brings. Pre-votes keep a voter that is cut off from
raising it, so a large jump is a mistake or an attack; two million of them would be needed to use all epochs up. A node
that is further behind learns the epoch from the answer to a question of its own, which goes to a configured voter."""


class State(Enum):
    UNATTACHED = "Unattached"
    VOTED = "Voted"
    FOLLOWER = "Follower"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    RESIGNED = "Resigned"


class Forgotten(Enum):
    """The promises that a voter may have forgotten. The values are those of the quorum-state file."""

    NOTHING = ""
    RECORDS = "records"
    """Records that it acked may be missing from its log; its votes are known."""
    VOTES = "votes"
    """Its epoch and its votes are not known either."""


_U, _V, _F, _P = State.UNATTACHED, State.VOTED, State.FOLLOWER, State.PROSPECTIVE
_C, _L, _R = State.CANDIDATE, State.LEADER, State.RESIGNED

_NEWER_EPOCH = "a newer epoch"
_NEWER_LEADER = "a leader of a newer epoch"
_HEARD = "heard of the leader"
_VOTED = "gave its vote away"
_TIME_OUT = "election time-out"

TRANSITIONS: Mapping[State, Mapping[State, str]] = {
    _U: {_U: _NEWER_EPOCH, _V: _VOTED, _F: _HEARD, _P: _TIME_OUT},
    _V: {_U: _NEWER_EPOCH, _F: _HEARD, _P: _TIME_OUT},
    _F: {_U: f"{_NEWER_EPOCH}, or the leader ended its epoch", _F: _NEWER_LEADER, _P: "fetch time-out"},
    _P: {_U: _NEWER_EPOCH, _V: _VOTED, _F: _HEARD, _P: "another round", _C: "a majority would vote for it"},
    _C: {_U: _NEWER_EPOCH, _F: "another won", _P: "lost, or election time-out", _L: "a majority voted for it"},
    _L: {
        _U: f"{_NEWER_EPOCH}, or its removal is committed",
        _F: _NEWER_LEADER,
        _R: "asked to stop, or no majority fetches",
    },
    _R: {_U: _NEWER_EPOCH, _F: _NEWER_LEADER, _P: _TIME_OUT},
}
"""The states that each state may go to, and the event of each change."""


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The facts that a node must never forget; the content of the quorum-state file."""

    epoch: int = 0
    leader_id: int = NO_LEADER
    voted_id: int = NO_VOTE
    forgotten: Forgotten = Forgotten.NOTHING
    voted_directory_id: str = ""
    """The disk of the candidate that got the vote: the same id on another disk is another candidate."""


class QuorumState:
    """The state machine of one node. `take_unsaved` hands over what has to be persisted before anything is sent."""

    def __init__(self, config: RaftConfig, stored: ElectionState, history: VoterHistory | None = None) -> None:
        """`history`: the voters as the log says them; the first ones of the configuration if it says nothing."""
        if stored.epoch < 0:
            raise InvariantViolation(f"stored epoch {stored.epoch} is negative")
        self._node_id, self._directory_id = config.node_id, config.directory_id
        self.history = history or VoterHistory(config.first_voters)
        """The voters by offset. Each change of the log changes this in the same step."""
        self._election = stored
        self._unsaved = False
        self._leader_ended = False
        """The leader of this epoch has said that it resigns: this node must not follow it again."""
        self._state = self._state_after_restart(stored)

    def _state_after_restart(self, stored: ElectionState) -> State:
        """The state after a restart. A leader is resigned, and a candidate is a voter that has voted for itself: voters
        elected them for a log that may have lost its unsynced end since."""
        if stored.leader_id == self._node_id and self.takes_part:
            return State.RESIGNED
        if stored.forgotten is Forgotten.VOTES:
            return State.UNATTACHED
        if stored.leader_id in self.other_voters:
            return State.FOLLOWER
        if stored.voted_id != NO_VOTE and self.may_vote:
            return State.VOTED
        return State.UNATTACHED

    def __repr__(self) -> str:
        return f"QuorumState(node {self._node_id}, {self._state.value}, {self._election})"

    @property
    def state(self) -> State:
        return self._state

    @property
    def election(self) -> ElectionState:
        return self._election

    @property
    def epoch(self) -> int:
        return self._election.epoch

    @property
    def voters(self) -> VoterSet:
        """The voters now. Ask for them at each use: the set may change while the node runs."""
        return self.history.newest

    @property
    def other_voters(self) -> tuple[int, ...]:
        """The ids of all voters but this node, now."""
        return self.voters.others(self._node_id)

    @property
    def is_voter(self) -> bool:
        return self.voters.names(self._node_id, self._directory_id)

    @property
    def is_only_voter(self) -> bool:
        """True if this node elects itself and commits alone."""
        return len(self.voters) == 1 and self.is_voter

    @property
    def forgotten(self) -> Forgotten:
        return self._election.forgotten

    @property
    def takes_part(self) -> bool:
        """True if this node may vote and stand for election: a voter that knows what it has promised. One whose removal
        is not known to be committed stands, too; its own vote does not count then."""
        needed = self.history.may_be_needed(self._node_id, self._directory_id)
        return needed and self._election.forgotten is Forgotten.NOTHING

    @property
    def may_vote(self) -> bool:
        """True if this node may give its vote to a candidate that asks for it by the id of its disk, too."""
        return self.takes_part or (self.voters.is_dynamic and self._election.forgotten is Forgotten.NOTHING)

    @property
    def is_leader(self) -> bool:
        return self._state is State.LEADER

    @property
    def leader_id(self) -> int:
        """The leader that this node follows or is, now."""
        return self._election.leader_id if self._state in (State.FOLLOWER, State.LEADER) else NO_LEADER

    @property
    def epoch_leader_id(self) -> int:
        """The node that was elected in this epoch, if known, even if it does not lead any more."""
        return self._election.leader_id

    @property
    def voted_id(self) -> int:
        return self._election.voted_id

    def may_be_led_by(self, node_id: int) -> bool:
        """True if this other node may be a candidate or leader as far as this node's log says. Among dynamic voters the
        log may not know it yet."""
        if self.voters.is_dynamic:
            return 0 <= node_id != self._node_id
        return node_id in self.other_voters

    def may_follow(self, leader_id: int, epoch: int) -> bool:
        """True if this node, from its present state, would follow a leader that it hears of. The leader need not be a
        voter that this node knows: the quorum may have become dynamic since its log or its file was written, and the
        answer that names the leader is of a node that it has asked. Whose *requests* it takes, validation.py says."""
        if not 0 <= leader_id != self._node_id or epoch < self.epoch:
            return False
        if epoch > self.epoch:
            return True
        known = self._election.leader_id
        waiting = self._state in (State.UNATTACHED, State.VOTED, State.PROSPECTIVE, State.CANDIDATE)
        return waiting and not self._leader_ended and known in (NO_LEADER, leader_id)

    def to_unattached(self, epoch: int) -> None:
        self._move(State.UNATTACHED, self._in_epoch(epoch))

    def to_voted(self, candidate_id: int, directory_id: str = "") -> None:
        self._move(State.VOTED, replace(self._election, voted_id=candidate_id, voted_directory_id=directory_id))

    def to_follower(self, epoch: int, leader_id: int) -> None:
        self._move(State.FOLLOWER, replace(self._in_epoch(epoch), leader_id=leader_id))

    def to_prospective(self) -> None:
        self._move(State.PROSPECTIVE, self._election)

    def to_candidate(self) -> None:
        own = replace(ElectionState(self.epoch + 1), voted_id=self._node_id, voted_directory_id=self.own_directory_id)
        self._move(State.CANDIDATE, own)

    def to_leader(self) -> None:
        self._move(State.LEADER, replace(self._election, leader_id=self._node_id))

    def to_resigned(self) -> None:
        self._move(State.RESIGNED, self._election)

    def remembers(self, forgotten: Forgotten) -> None:
        """Notes that only `forgotten` is forgotten now; persisted BEFORE any message that follows from it is sent."""
        self._election = replace(self._election, forgotten=forgotten)
        self._unsaved = True

    def note_leader_ended(self) -> None:
        self._leader_ended = True

    def has_vote_for(self, candidate_id: int, directory_id: str) -> bool:
        """True if nobody has this node's vote of the epoch, or this candidate has it."""
        own = self._election
        return own.voted_id == NO_VOTE or (own.voted_id, own.voted_directory_id) == (candidate_id, directory_id)

    def take_unsaved(self) -> ElectionState | None:
        """The election state if it has changed since the last call."""
        if not self._unsaved:
            return None
        self._unsaved = False
        return self._election

    @property
    def own_directory_id(self) -> str:
        """The id of this node's disk where voters are known by it."""
        return self._directory_id if self.voters.is_dynamic else ""

    def _in_epoch(self, epoch: int) -> ElectionState:
        return self._election if epoch == self.epoch else ElectionState(epoch, forgotten=self.forgotten)

    def _move(self, state: State, election: ElectionState) -> None:
        old = self._election
        if state not in TRANSITIONS[self._state]:
            raise InvariantViolation(f"no way from {self._state.value} to {state.value}")
        allowed = (State.UNATTACHED, State.FOLLOWER, *([State.VOTED] if self.may_vote else []))
        if not self.takes_part and state not in allowed:
            raise InvariantViolation(f"node {self._node_id}, which takes no part in elections, cannot be {state.value}")
        if election.epoch < old.epoch or election.epoch > EPOCH_MAX:
            raise InvariantViolation(f"epoch would go from {old.epoch} to {election.epoch}")
        if election.epoch == old.epoch:
            if not self.has_vote_for(election.voted_id, election.voted_directory_id):
                raise InvariantViolation(f"second vote in epoch {old.epoch}: {old.voted_id}, then {election.voted_id}")
            if old.leader_id not in (NO_LEADER, election.leader_id):
                raise InvariantViolation(f"second leader in epoch {old.epoch}: {old.leader_id}, {election.leader_id}")
        else:
            self._leader_ended = False
        self._state = state
        if election != old:
            self._election = election
            self._unsaved = True
