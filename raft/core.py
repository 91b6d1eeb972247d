"""The consensus core of one node: takes messages and the time, decides, and returns a `Ready` that says what to do.

No I/O, no clock, no randomness of its own. `step` and `tick` take what happened; `ready` hands out one Ready at a time,
and `advance` reports that it was performed, and how far the log is durable. This file joins the parts and takes the
requests of others; answers.py takes their answers. transitions.py decides which state follows, validation.py refuses
bad requests, election.py has the vote, following.py fetches, leadership.py leads, rejoining.py knows what a voter that
forgot must learn, quorum_state.py has the states, ready.py the order of effects.

KRaft's shape (KIP-595, KIP-996): followers fetch, truncation rides on the fetch, pre-vote, check-quorum, observers.
The voters are changed by records of the log, one at a time (voter_changes.py; KIP-853). A snapshot replaces the
beginning of the log (KIP-630); when one is written is not decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from penstock.errors import (
    InvariantViolation,
    NotControllerError,
    NotLeaderOrFollowerError,
)
from penstock.types import NO_OFFSET, EpochEntry, LeaderHint
from raft.answers import PeerAnswers
from raft.config import RaftConfig
from raft.decided_log import DecidedLog, LogView
from raft.leadership import Leadership
from raft.messages import (
    AnswerReceived,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchMetadataRequest,
    FetchSnapshotRequest,
    Inbound,
    Request,
    RequestAbandoned,
    RequestFailed,
    RequestReceived,
    SnapshotsKept,
    SnapshotTaken,
    VoteRequest,
)
from raft.outbox import Outbox
from raft.quorum_state import ElectionState, Forgotten, QuorumState, State
from raft.ready import Ready
from raft.shared import Contact, Shared
from raft.statistics import RaftStatistics
from raft.transitions import Transitions
from raft.validation import objection
from raft.voter_changes import VoterChange
from raft.voter_history import VoterHistory
from raft.voters import VoterSet


class RaftCore:
    """One node's consensus, pure."""

    def __init__(
        self, config: RaftConfig, election_state: ElectionState, log: LogView, random: Random, now_ms: int
    ) -> None:
        self.config = config
        self._log = DecidedLog(log)
        self._quorum = QuorumState(config, election_state, _history(config, log, self._log.high_watermark))
        self._outbox = Outbox()
        self._shared = Shared(
            config=config,
            quorum=self._quorum,
            log=self._log,
            outbox=self._outbox,
            random=random,
            contact=Contact(now_ms),
        )
        self._in_flight: Ready | None = None
        self._delivered_high_watermark = self._log.high_watermark
        self._states = states = Transitions(self._shared, now_ms)
        self._election, self._following, self._rejoining = states.election, states.following, states.rejoining
        self._answers = PeerAnswers(self._shared, states)

    def __repr__(self) -> str:
        return f"RaftCore({self._quorum!r}, {self._log!r})"

    @property
    def state(self) -> State:
        return self._quorum.state

    @property
    def epoch(self) -> int:
        return self._quorum.epoch

    @property
    def leader_id(self) -> int:
        """The leader this node follows or is; -1 when it has none."""
        return self._quorum.leader_id

    @property
    def voters(self) -> VoterSet:
        """The voters as this node knows them now."""
        return self._quorum.voters

    def voters_at(self, end_offset: int) -> VoterSet:
        """The voters in force where the log ends at `end_offset`: those that a snapshot with this end must name."""
        return self._quorum.history.at(end_offset)

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def log_end_offset(self) -> int:
        """The offset that the next proposed value would get."""
        return self._log.log_end_offset

    @property
    def flushed_offset(self) -> int:
        """The log is durable below it."""
        return self._log.flushed_offset

    @property
    def epoch_entries(self) -> Sequence[EpochEntry]:
        return self._log.epoch_entries

    @property
    def election(self) -> ElectionState:
        """The epoch, its leader and this node's vote, as it decided them; `Ready` has them saved."""
        return self._quorum.election

    @property
    def forgotten(self) -> Forgotten:
        return self._quorum.forgotten

    @property
    def unheard_voters(self) -> frozenset[int]:
        """The voters whose epoch a voter that has forgotten its votes does not know yet."""
        return self._rejoining.unheard if self.forgotten is Forgotten.VOTES else frozenset()

    @property
    def leadership(self) -> Leadership | None:
        """This node's state as leader, to describe it; None when it does not lead."""
        return self._states.leadership

    @property
    def is_installing(self) -> bool:
        """True if a snapshot of the leader is about to replace the log."""
        return self._following.is_installing

    @property
    def last_fetch_ms(self) -> int | None:
        """When this node last fetched from a leader."""
        return self._following.last_fetch_ms

    def statistics(self) -> RaftStatistics:
        return RaftStatistics.of(self._shared, self.leadership.uncommitted_bytes if self.leadership else 0)

    # -- what happens --------------------------------------------------------------------------------------------------

    def step(self, inbound: Inbound, now_ms: int) -> None:
        """One thing has happened: a request, an answer, or that none will come."""
        match inbound:
            case RequestReceived(request_id, request):
                self._on_request(request_id, request, now_ms)
            case AnswerReceived(correlation_id, response):
                question = self._outbox.take_question(correlation_id)
                if question is None:
                    self._shared.counters.answers_dropped += 1
                else:
                    self._answers.on_answer(question, response, now_ms)
            case RequestFailed(correlation_id):
                question = self._outbox.take_question(correlation_id)
                if question is not None:
                    self._answers.on_failure(question, now_ms)
            case RequestAbandoned(request_id):
                self._outbox.drop_reply(request_id)
                if self.leadership is not None:
                    self.leadership.abandon(request_id)
            case SnapshotTaken():
                self._states.on_snapshot_taken(inbound, now_ms)
            case SnapshotsKept(snapshot_ids):
                self._log.keep_snapshots(snapshot_ids)
                self._quorum.history.cut_prefix_to(self._log.log_start_offset)
                self._outbox.cut_prefix_to(self._log.log_start_offset)

    def tick(self, now_ms: int) -> None:
        """Time has passed. Cheap and harmless when nothing is due; `next_deadline_ms` says when something is."""
        self._states.tick(now_ms)

    def next_deadline_ms(self) -> int:
        """When `tick` has something to do at the latest; until then the driver may sleep."""
        return self._states.next_deadline_ms()

    def propose(self, values: Sequence[bytes]) -> int:
        """Append `values` as one batch; the offset of the last. It is committed when the high watermark passes that."""
        if self.leadership is None:
            hint = LeaderHint(self.leader_id, self.epoch)
            raise NotControllerError(f"node {self.config.node_id} is {self.state.value}, not leader", leader=hint)
        return self.leadership.propose(values)

    def change_voters(self, change: VoterChange, now_ms: int, asked_ms: int | None = None) -> int:
        """Append the set of voters that this change makes; the offset of its record. Every node goes by the new set
        from the moment at which the record is in its log. Raises what `changed_voters` raises; nothing is appended
        then. `asked_ms` is the time at which somebody asked for it: a majority of the new set must have fetched since.
        """
        if self.leadership is None:
            hint = LeaderHint(self.leader_id, self.epoch)
            raise NotControllerError(f"node {self.config.node_id} is {self.state.value}, not leader", leader=hint)
        return self.leadership.change_voters(change, now_ms, asked_ms)

    def resign(self, now_ms: int) -> None:
        """Give up leadership and tell the voters, most log first. Nothing happens on a node that does not lead."""
        self._states.resign(now_ms)

    def ready(self) -> Ready | None:
        """The next round of work; None while one is in flight or when there is nothing to do."""
        if self._in_flight is not None:
            return None
        moved = self._log.high_watermark != self._delivered_high_watermark
        committed = self._log.high_watermark if moved else None
        self._in_flight = self._outbox.drain(self._quorum.take_unsaved(), committed)
        self._delivered_high_watermark = self._log.high_watermark
        return self._in_flight

    def advance(self, flushed_offset: int) -> None:
        """The Ready in flight was performed, and the log is durable below `flushed_offset`."""
        if self._in_flight is None:
            raise InvariantViolation("advance without a Ready in flight")
        self._in_flight = None
        self._log.note_flushed(flushed_offset)
        if self.leadership is not None:
            self.leadership.on_flushed()

    # -- requests of others --------------------------------------------------------------------------------------------

    def _on_request(self, request_id: int, request: Request, now_ms: int) -> None:
        wrong = objection(request, self.config, self._quorum)
        if wrong is not None:
            self._shared.refuse(request_id, request, *wrong)
            return
        match request:
            case VoteRequest():
                self._on_vote(request_id, request, now_ms)
            case FetchMetadataRequest() | FetchSnapshotRequest():
                self._on_fetch(request_id, request, now_ms)
            case BeginQuorumEpochRequest():
                self._states.learn_leader(request.leader_id, request.leader_epoch, now_ms)
                self._outbox.reply(request_id, BeginQuorumEpochResponse(self.leader_id, self.epoch))
            case EndQuorumEpochRequest():
                if request.leader_epoch > self.epoch or self._quorum.epoch_leader_id == request.leader_id:
                    self._states.on_leader_ended(request.leader_epoch, request.preferred_successors, now_ms)
                self._outbox.reply(request_id, EndQuorumEpochResponse(self.leader_id, self.epoch))

    def _on_vote(self, request_id: int, request: VoteRequest, now_ms: int) -> None:
        if request.candidate_epoch > self.epoch:
            self._states.become_unattached(request.candidate_epoch, now_ms)
        granted = self._election.grants(request, self._following.has_fetched)
        if granted and not request.pre_vote and self.state is not State.VOTED:
            self._states.give_vote(request, now_ms)
        self._outbox.reply(request_id, self._election.answer(request, granted, self._following.has_fetched))

    def _on_fetch(self, request_id: int, request: FetchMetadataRequest | FetchSnapshotRequest, now_ms: int) -> None:
        if self.leadership is None:
            why = f"node {self.config.node_id} is {self.state.value}"
            self._shared.refuse(request_id, request, NotLeaderOrFollowerError, why)
        elif isinstance(request, FetchSnapshotRequest):
            self.leadership.on_fetch_snapshot(request_id, request, now_ms)
        else:
            self.leadership.on_fetch(request_id, request, now_ms)


def _history(config: RaftConfig, log: LogView, high_watermark: int) -> VoterHistory:
    """The voters as the log says them; before that, as the configuration does."""
    sets = log.voter_sets
    begins = bool(sets) and sets[0][0] == NO_OFFSET
    history = VoterHistory(sets[0][1], sets[1:]) if begins else VoterHistory(config.first_voters, sets)
    history.note_committed(high_watermark)
    return history
