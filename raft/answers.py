"""Takes the answers of other nodes, and news that none will come, to the part of the core that asked.

An answer is first news of a leader and its epoch; only what is left after that is about the question. An answer that
does not fit its question counts as none. What follows from a vote, a fetch or a notice is decided in election.py,
following.py and leadership.py; core.py has the requests of others.
"""

from __future__ import annotations

from penstock.errors import (
    InconsistentClusterIdError,
    NotLeaderOrFollowerError,
    PositionOutOfRangeError,
    SnapshotNotFoundError,
)
from raft.messages import (
    NO_ERROR,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchMetadataRequest,
    FetchMetadataResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from raft.outbox import OpenRequest
from raft.quorum_state import Forgotten, State
from raft.shared import Shared
from raft.transitions import Transitions

SNAPSHOT_IS_GONE = (SnapshotNotFoundError.code, PositionOutOfRangeError.code)
STANDS_FOR_ELECTION = (State.PROSPECTIVE, State.CANDIDATE)


class PeerAnswers:
    """The reaction of one core to an answer, by the question that it asked."""

    def __init__(self, shared: Shared, states: Transitions) -> None:
        self._shared, self._quorum, self._states = shared, shared.quorum, states
        self._election, self._following, self._rejoining = states.election, states.following, states.rejoining

    def on_answer(self, question: OpenRequest, response: object, now_ms: int) -> None:
        """An answer to an open question; one of another kind than was asked for counts as none, as does that of another
        cluster, whose epochs and leaders mean nothing here."""
        if getattr(response, "error_code", NO_ERROR) == InconsistentClusterIdError.code:
            self.on_failure(question, now_ms)
            return
        match question.request, response:
            case VoteRequest() as asked, VoteResponse() as answer:
                # A vote that was given counts before any news of a leader, which may be older than the vote.
                if answer.leader_epoch > self._quorum.epoch or not answer.vote_granted:
                    self._states.learn_leader(answer.leader_id, answer.leader_epoch, now_ms)
                if self._quorum.forgotten is Forgotten.VOTES:
                    self._on_epoch_known(question.to, answer, now_ms)
                elif asked.candidate_epoch == self._quorum.epoch and self._quorum.state in STANDS_FOR_ELECTION:
                    self._states.on_outcome(self._election.on_response(question.to, asked, answer, now_ms), now_ms)
            case FetchMetadataRequest() as fetch, FetchMetadataResponse() as answer:
                self._on_fetch_answer(question.to, fetch, answer, now_ms)
            case FetchSnapshotRequest() as fetch, FetchSnapshotResponse() as answer:
                self._on_fetch_answer(question.to, fetch, answer, now_ms)
            case BeginQuorumEpochRequest(), BeginQuorumEpochResponse() as answer:
                self._states.learn_leader(answer.leader_id, answer.leader_epoch, now_ms)
                if self._states.leadership is not None:
                    self._states.leadership.replicas.on_notice_answered(question.to, now_ms)
            case _:
                self._shared.counters.answers_malformed += 1
                self.on_failure(question, now_ms)

    def on_failure(self, question: OpenRequest, now_ms: int) -> None:
        """No answer will come."""
        match question.request:
            case VoteRequest() if self._quorum.forgotten is Forgotten.VOTES:
                self._rejoining.on_failure(question.to, now_ms)
            case VoteRequest():
                self._election.on_failure(question.to, now_ms)
            case FetchMetadataRequest() | FetchSnapshotRequest():
                self._following.on_failure(now_ms)
            case BeginQuorumEpochRequest() if self._states.leadership is not None:
                self._states.leadership.replicas.on_notice_failed(question.to, now_ms)

    def _on_fetch_answer(
        self,
        sender: int,
        asked: FetchMetadataRequest | FetchSnapshotRequest,
        answer: FetchMetadataResponse | FetchSnapshotResponse,
        now_ms: int,
    ) -> None:
        reported_leader = answer.leader_id, answer.leader_epoch
        if (
            answer.error_code
            and self._quorum.state in STANDS_FOR_ELECTION
            and reported_leader == (self._quorum.epoch_leader_id, self._quorum.epoch)
        ):
            return  # hearsay of the leader that this node has given up: whoever was asked may follow a dead one
        if self._states.learn_leader(*reported_leader, now_ms):
            return
        following_sender = self._quorum.state is State.FOLLOWER and sender == self._quorum.leader_id
        if (
            following_sender
            and answer.error_code == NotLeaderOrFollowerError.code
            and answer.leader_epoch == self._quorum.epoch
        ):
            # The leader itself says that it does not lead any more.
            self._states.become_unattached(self._quorum.epoch, now_ms)
            self._quorum.note_leader_ended()
        elif not following_sender or answer.error_code or answer.leader_epoch != self._quorum.epoch:
            if answer.error_code in SNAPSHOT_IS_GONE:
                self._following.on_snapshot_lost(now_ms)
            else:
                self._following.on_failure(now_ms)
        elif isinstance(asked, FetchSnapshotRequest) and isinstance(answer, FetchSnapshotResponse):
            self._following.on_snapshot_bytes(asked, answer, now_ms)
        elif not (isinstance(asked, FetchMetadataRequest) and isinstance(answer, FetchMetadataResponse)):
            self._following.on_failure(now_ms)
        elif self._following.on_success(asked, answer, now_ms):
            self._rejoining.on_fetched(asked, answer)

    def _on_epoch_known(self, voter: int, answer: VoteResponse, now_ms: int) -> None:
        """A voter's epoch is known. After the last one, this node's epoch is not below any in which it voted."""
        self._rejoining.on_response(voter, answer, now_ms)
        if not self._rejoining.unheard:
            self._quorum.remembers(Forgotten.RECORDS)
            self._following.search(now_ms)
