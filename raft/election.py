"""Decides which candidate gets this node's vote, and counts the votes that it asks for.

`may_grant` is the rule for voters: one vote per epoch (I3), and only for a log that is not behind (I5; Ongaro and
Ousterhout, "In Search of an Understandable Consensus Algorithm", ATC'14, §5.4.1). A voter without a live leader grants
a pre-vote (KIP-996); it is not persisted. `Election` runs one round of requests, with retries, and says when it is won
or lost; the core decides what follows.
"""

from __future__ import annotations

from enum import Enum

from penstock.types import NO_LEADER
from raft.messages import VoteRequest, VoteResponse
from raft.quorum_state import QuorumState, State
from raft.shared import Shared


class ElectionOutcome(Enum):
    OPEN = "open"
    WON = "won"
    LOST = "lost"


def log_is_up_to_date(request: VoteRequest, own_last_epoch: int, own_log_end_offset: int) -> bool:
    """True if the candidate's log holds everything that may be committed here: its last epoch is later, or the same and
    its log is as long."""
    return (request.last_epoch, request.last_epoch_end_offset) >= (own_last_epoch, own_log_end_offset)


def may_grant(quorum: QuorumState, request: VoteRequest, up_to_date: bool, has_fetched: bool) -> bool:
    """True if this voter, already in the epoch of the request, gives its (pre-)vote."""
    if not quorum.may_vote:
        return False
    if request.pre_vote:
        has_live_leader = quorum.is_leader or (quorum.state is State.FOLLOWER and has_fetched)
        return up_to_date and not has_live_leader
    if quorum.epoch_leader_id != NO_LEADER or quorum.state is State.RESIGNED:
        return False
    # A candidate that has the vote already is checked again, too: it may have lost its log since, and rejoined.
    return up_to_date and quorum.has_vote_for(request.candidate_id, request.candidate_directory_id)


class Election:
    """One round of pre-votes or votes, and the randomised timer of a node without a leader."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.deadline_ms = 0
        self._granted: set[int] = set()
        self._rejected: set[int] = set()
        self._failures: dict[int, int] = {}
        self._retry_at_ms: dict[int, int] = {}
        self._pre_vote = False

    def __repr__(self) -> str:
        return f"Election(granted {sorted(self._granted)}, rejected {sorted(self._rejected)}, until {self.deadline_ms})"

    def arm(self, now_ms: int) -> None:
        """Wait for a leader or a request, 1 to 2 election time-outs."""
        timeout_ms = self._shared.config.election_timeout_ms
        self.deadline_ms = now_ms + self._shared.random.randint(timeout_ms, 2 * timeout_ms)

    def arm_as_successor(self, position: int, now_ms: int) -> None:
        """The leader has named this node as one that may follow it: each waits half a time-out for the one before."""
        self.deadline_ms = now_ms + position * self._shared.config.election_timeout_ms // 2

    def grants(self, request: VoteRequest, has_fetched: bool) -> bool:
        """True if this node, already in the epoch of the request, gives its (pre-)vote."""
        log = self._shared.log
        up_to_date = log_is_up_to_date(request, log.last_epoch, log.log_end_offset)
        return may_grant(self._shared.quorum, request, up_to_date, has_fetched)

    def answer(self, request: VoteRequest, granted: bool, has_fetched: bool) -> VoteResponse:
        """The answer, with the leader that this node knows: AFTER a vote that was given was noted."""
        quorum = self._shared.quorum
        # A leader from which nothing was fetched yet is known only by hearsay, and may be dead.
        hearsay = request.pre_vote and quorum.state is State.FOLLOWER and not has_fetched
        return VoteResponse(NO_LEADER if hearsay else quorum.leader_id, quorum.epoch, granted)

    def start_round(self, pre_vote: bool, now_ms: int) -> ElectionOutcome:
        """Ask every other voter; alone, the round is won at once."""
        self._pre_vote = pre_vote
        self._granted = {self._shared.config.node_id}
        self._rejected.clear()
        self._failures.clear()
        self._retry_at_ms.clear()
        self.arm(now_ms)
        for voter in self._shared.quorum.other_voters:
            self._ask(voter)
        return self._outcome()

    def on_response(self, voter: int, request: VoteRequest, response: VoteResponse, now_ms: int) -> ElectionOutcome:
        """Count one answer of this round. An error counts as a refusal: the round's end brings another."""
        if request.pre_vote != self._pre_vote:
            return ElectionOutcome.OPEN
        granted = response.vote_granted and not response.error_code
        (self._granted if granted else self._rejected).add(voter)
        outcome = self._outcome()
        if outcome is ElectionOutcome.LOST:
            # At once, the voters would give the same answers; a random pause also separates rival candidates.
            timeout_ms = self._shared.config.election_timeout_ms
            self.deadline_ms = now_ms + self._shared.random.randint(max(1, timeout_ms // 10), timeout_ms)
        return outcome

    def on_failure(self, voter: int, now_ms: int) -> None:
        self._failures[voter] = self._failures.get(voter, 0) + 1
        self._retry_at_ms[voter] = now_ms + self._shared.backoff_ms(self._failures[voter])

    def retry(self, now_ms: int) -> None:
        """Repeat failed requests whose back-off is over."""
        for voter, at_ms in list(self._retry_at_ms.items()):
            if now_ms >= at_ms:
                del self._retry_at_ms[voter]
                self._ask(voter)

    def next_deadline_ms(self) -> int:
        return min([self.deadline_ms, *self._retry_at_ms.values()])

    def end_round(self) -> None:
        self._retry_at_ms.clear()

    def _ask(self, voter: int) -> None:
        self._shared.ask_for_vote(voter, pre_vote=self._pre_vote)

    def _outcome(self) -> ElectionOutcome:
        voters = self._shared.quorum.voters
        if voters.has_majority(self._granted):
            return ElectionOutcome.WON
        if not voters.has_majority(set(voters.ids) - self._rejected):
            return ElectionOutcome.LOST
        return ElectionOutcome.OPEN
