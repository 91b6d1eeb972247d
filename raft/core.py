"""The consensus core of one node: takes messages and the time, decides, and returns a `Ready` that says what to do.

No I/O, no clock, no randomness of its own. `step` and `tick` take what happened; `ready` hands out one Ready at a time,
and `advance` reports that it was performed, and how far the log is durable. This file joins the parts and decides which
state follows. validation.py refuses bad requests, election.py has the vote, following.py fetches, leadership.py leads,
rejoining.py knows what a voter that forgot must learn, quorum_state.py has the states, ready.py the order of effects.

KRaft's shape (KIP-595, KIP-996): followers fetch, truncation rides on the fetch, pre-vote, check-quorum, observers.
Voters are static. Snapshots are not built; `FetchResponse.snapshot_id` is the place for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from penstock.errors import InvariantViolation, NotControllerError, NotLeaderOrFollowerError
from penstock.types import LeaderHint
from raft.config import RaftConfig
from raft.decided_log import DecidedLog, LogView
from raft.election import Election, ElectionOutcome
from raft.following import Following
from raft.leadership import Leadership
from raft.messages import (
    AnswerReceived,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    Inbound,
    Request,
    RequestAbandoned,
    RequestFailed,
    RequestReceived,
    VoteRequest,
    VoteResponse,
)
from raft.outbox import OpenRequest, Outbox
from raft.quorum_state import EPOCH_MAX, ElectionState, Forgotten, QuorumState, State
from raft.ready import Ready
from raft.rejoining import Rejoining
from raft.shared import Contact, Shared
from raft.statistics import RaftStatistics
from raft.validation import objection


class RaftCore:
    """One node's consensus, pure."""

    def __init__(
        self, config: RaftConfig, election_state: ElectionState, log: LogView, random: Random, now_ms: int
    ) -> None:
        self.config = config
        self._quorum = QuorumState(config, election_state)
        self._log = DecidedLog(log)
        self._outbox = Outbox()
        self._shared = Shared(config, self._quorum, self._log, self._outbox, random, Contact(now_ms))
        self._election = Election(self._shared)
        self._following = Following(self._shared)
        self._rejoining = Rejoining(self._shared, now_ms)
        self._leadership: Leadership | None = None
        self._in_flight: Ready | None = None
        self._told_high_watermark = self._log.high_watermark
        self._start(now_ms)

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
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def log_end_offset(self) -> int:
        """The offset that the next proposed value would get."""
        return self._log.log_end_offset

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
        return self._leadership

    @property
    def last_fetch_ms(self) -> int | None:
        """When this node last fetched from a leader."""
        return self._following.last_fetch_ms

    def statistics(self) -> RaftStatistics:
        return RaftStatistics.of(self._shared, self._leadership.uncommitted_bytes if self._leadership else 0)

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
                    self._on_answer(question, response, now_ms)
            case RequestFailed(correlation_id):
                question = self._outbox.take_question(correlation_id)
                if question is not None:
                    self._on_failure(question, now_ms)
            case RequestAbandoned(request_id):
                self._outbox.drop_reply(request_id)
                if self._leadership is not None:
                    self._leadership.abandon(request_id)

    def tick(self, now_ms: int) -> None:
        """Time has passed. Cheap and harmless when nothing is due; `next_deadline_ms` says when something is."""
        match self.state:
            case State.LEADER:
                if self._leadership is not None and not self._leadership.tick(now_ms):
                    self.resign(now_ms)
            case State.FOLLOWER:
                self._tick_follower(now_ms)
            case _ if self.forgotten is Forgotten.VOTES:
                self._rejoining.maybe_ask(now_ms)
            case _ if not self._quorum.takes_part:
                self._following.maybe_fetch(now_ms)
            case _:
                self._election.retry(now_ms)
                if now_ms >= self._election.deadline_ms:
                    self._become_prospective(now_ms)

    def next_deadline_ms(self) -> int:
        """When `tick` has something to do at the latest; until then the driver may sleep."""
        if self._leadership is not None:
            return self._leadership.next_deadline_ms()
        if self.state is State.FOLLOWER:
            return self._following.next_deadline_ms()
        if self.forgotten is Forgotten.VOTES:
            return self._rejoining.next_deadline_ms()
        if not self._quorum.takes_part:
            return self._following.next_search_ms()
        return self._election.next_deadline_ms()

    def propose(self, values: Sequence[bytes]) -> int:
        """Append `values` as one batch; the offset of the last. It is committed when the high watermark passes that."""
        if self._leadership is None:
            hint = LeaderHint(self.leader_id, self.epoch)
            raise NotControllerError(f"node {self.config.node_id} is {self.state.value}, not leader", leader=hint)
        return self._leadership.propose(values)

    def resign(self, now_ms: int) -> None:
        """Give up leadership and tell the voters, most log first. Nothing happens on a node that does not lead."""
        if self._leadership is None:
            return
        successors = self._leadership.preferred_successors()
        self._quorum.to_resigned()
        self._shared.counters.resignations += 1
        self._left_old_state()
        self._election.arm(now_ms)
        self._send_end_quorum_epoch(successors)

    def ready(self) -> Ready | None:
        """The next round of work; None while one is in flight or when there is nothing to do."""
        if self._in_flight is not None:
            return None
        moved = self._log.high_watermark != self._told_high_watermark
        committed = self._log.high_watermark if moved else None
        self._in_flight = self._outbox.drain(self._quorum.take_unsaved(), committed)
        self._told_high_watermark = self._log.high_watermark
        return self._in_flight

    def advance(self, flushed_offset: int) -> None:
        """The Ready in flight was performed, and the log is durable below `flushed_offset`."""
        if self._in_flight is None:
            raise InvariantViolation("advance without a Ready in flight")
        self._in_flight = None
        self._log.note_flushed(flushed_offset)
        if self._leadership is not None:
            self._leadership.on_flushed()

    # -- requests of others --------------------------------------------------------------------------------------------

    def _on_request(self, request_id: int, request: Request, now_ms: int) -> None:
        wrong = objection(request, self.config, self.epoch, self._quorum.epoch_leader_id)
        if wrong is not None:
            self._shared.refuse(request_id, request, *wrong)
            return
        match request:
            case VoteRequest():
                self._on_vote(request_id, request, now_ms)
            case FetchRequest():
                self._on_fetch(request_id, request, now_ms)
            case BeginQuorumEpochRequest():
                self._learn_leader(request.leader_id, request.leader_epoch, now_ms)
                self._outbox.reply(request_id, BeginQuorumEpochResponse(self.leader_id, self.epoch))
            case EndQuorumEpochRequest():
                if request.leader_epoch > self.epoch or self._quorum.epoch_leader_id == request.leader_id:
                    self._on_leader_ended(request.leader_epoch, request.preferred_successors, now_ms)
                self._outbox.reply(request_id, EndQuorumEpochResponse(self.leader_id, self.epoch))

    def _on_vote(self, request_id: int, request: VoteRequest, now_ms: int) -> None:
        if request.candidate_epoch > self.epoch:
            self._become_unattached(request.candidate_epoch, now_ms)
        granted = self._election.grants(request, self._following.has_fetched)
        if granted and not request.pre_vote and self.state is not State.VOTED:
            self._quorum.to_voted(request.candidate_id)
            self._left_old_state()
            self._election.arm(now_ms)
        self._outbox.reply(request_id, self._election.answer(request, granted, self._following.has_fetched))

    def _on_fetch(self, request_id: int, request: FetchRequest, now_ms: int) -> None:
        if self._leadership is None:
            why = f"node {self.config.node_id} is {self.state.value}"
            self._shared.refuse(request_id, request, NotLeaderOrFollowerError, why)
        else:
            self._leadership.on_fetch(request_id, request, now_ms)

    def _on_leader_ended(self, epoch: int, successors: Sequence[int], now_ms: int) -> None:
        """No node follows it again in this epoch. The first successor tries at once, the others a little later."""
        if epoch > self.epoch or self.state is State.FOLLOWER:
            self._become_unattached(epoch, now_ms)
        self._quorum.note_leader_ended()
        if self.state is not State.UNATTACHED or not self._quorum.takes_part or self.config.node_id not in successors:
            return
        position = successors.index(self.config.node_id)
        if position == 0:
            self._become_prospective(now_ms)
        else:
            self._election.arm_as_successor(position, now_ms)

    # -- answers of others ---------------------------------------------------------------------------------------------

    def _on_answer(self, question: OpenRequest, response: object, now_ms: int) -> None:
        match question.request, response:
            case VoteRequest() as asked, VoteResponse() as answer:
                # A vote that was given counts before any news of a leader, which may be older than the vote.
                if answer.leader_epoch > self.epoch or not answer.vote_granted:
                    self._learn_leader(answer.leader_id, answer.leader_epoch, now_ms)
                if self.forgotten is Forgotten.VOTES:
                    self._on_epoch_told(question.to, answer, now_ms)
                elif asked.candidate_epoch == self.epoch and self.state in (State.PROSPECTIVE, State.CANDIDATE):
                    self._on_outcome(self._election.on_response(question.to, asked, answer, now_ms), now_ms)
            case FetchRequest() as fetch, FetchResponse() as answer:
                self._on_fetch_answer(question.to, fetch, answer, now_ms)
            case BeginQuorumEpochRequest(), BeginQuorumEpochResponse() as answer:
                self._learn_leader(answer.leader_id, answer.leader_epoch, now_ms)
                if self._leadership is not None:
                    self._leadership.on_begin_answered(question.to, now_ms)
            case _:
                self._shared.counters.answers_malformed += 1
                self._on_failure(question, now_ms)

    def _on_fetch_answer(self, sender: int, asked: FetchRequest, answer: FetchResponse, now_ms: int) -> None:
        if self._learn_leader(answer.leader_id, answer.leader_epoch, now_ms):
            return
        following_sender = self.state is State.FOLLOWER and sender == self.leader_id
        if (
            following_sender
            and answer.error_code == NotLeaderOrFollowerError.code
            and answer.leader_epoch == self.epoch
        ):
            self._become_unattached(self.epoch, now_ms)  # the leader itself says that it does not lead any more
            self._quorum.note_leader_ended()
        elif not following_sender or answer.error_code or answer.leader_epoch != self.epoch:
            self._following.on_failure(now_ms)
        elif self._following.on_success(asked, answer, now_ms):
            self._rejoining.on_fetched(asked, answer)

    def _on_epoch_told(self, voter: int, answer: VoteResponse, now_ms: int) -> None:
        """A voter's epoch is known. After the last one, this node's epoch is not below any in which it voted."""
        self._rejoining.on_response(voter, answer, now_ms)
        if not self._rejoining.unheard:
            self._quorum.remembers(Forgotten.RECORDS)
            self._following.search(now_ms)

    def _on_failure(self, question: OpenRequest, now_ms: int) -> None:
        match question.request:
            case VoteRequest() if self.forgotten is Forgotten.VOTES:
                self._rejoining.on_failure(question.to, now_ms)
            case VoteRequest():
                self._election.on_failure(question.to, now_ms)
            case FetchRequest():
                self._following.on_failure(now_ms)
            case BeginQuorumEpochRequest() if self._leadership is not None:
                self._leadership.on_begin_failed(question.to, now_ms)

    # -- changes of state ----------------------------------------------------------------------------------------------

    def _start(self, now_ms: int) -> None:
        """Go on from what was persisted. A leader that comes back tells the voters that its epoch has ended."""
        if self.state is State.FOLLOWER:
            self._following.attach(now_ms)
        elif self._quorum.takes_part and self.config.majority == 1:
            self._become_prospective(now_ms)
        else:
            self._wait_for_a_leader(now_ms)
            if self.state is State.RESIGNED:
                self._send_end_quorum_epoch(self.config.other_voters)

    def _learn_leader(self, leader_id: int, epoch: int, now_ms: int) -> bool:
        """News of a leader or an epoch; whether it changed this node's state."""
        if epoch >= EPOCH_MAX:
            return False
        # To follow is to fetch, and to fetch is to ack: not before the epoch of every vote is known.
        if self.forgotten is not Forgotten.VOTES and self._quorum.may_follow(leader_id, epoch):
            self._quorum.to_follower(epoch, leader_id)
            self._left_old_state()
            self._following.attach(now_ms)
            return True
        if epoch > self.epoch:
            self._become_unattached(epoch, now_ms)
            return True
        return False

    def _become_unattached(self, epoch: int, now_ms: int) -> None:
        self._quorum.to_unattached(epoch)
        self._left_old_state()
        self._wait_for_a_leader(now_ms)

    def _wait_for_a_leader(self, now_ms: int) -> None:
        if self._quorum.takes_part:
            self._election.arm(now_ms)
        elif self.forgotten is Forgotten.VOTES:
            self._rejoining.ask_again(now_ms)
        else:
            self._following.search(now_ms)

    def _become_prospective(self, now_ms: int) -> None:
        self._quorum.to_prospective()
        self._shared.counters.pre_vote_rounds += 1
        self._left_old_state()
        self._on_outcome(self._election.start_round(True, now_ms), now_ms)

    def _become_candidate(self, now_ms: int) -> None:
        self._quorum.to_candidate()
        self._shared.counters.elections += 1
        self._left_old_state()
        self._on_outcome(self._election.start_round(False, now_ms), now_ms)

    def _become_leader(self, now_ms: int) -> None:
        self._quorum.to_leader()
        self._shared.counters.elections_won += 1
        self._left_old_state()
        self._leadership = Leadership(self._shared, now_ms)

    def _on_outcome(self, outcome: ElectionOutcome, now_ms: int) -> None:
        if outcome is not ElectionOutcome.WON:
            return  # lost or open: the round's deadline brings the next one
        if self.state is State.PROSPECTIVE:
            self._become_candidate(now_ms)
        elif self.state is State.CANDIDATE:
            self._become_leader(now_ms)

    def _left_old_state(self) -> None:
        """The old state's open requests and parked answers end with it."""
        self._outbox.forget_questions()
        self._election.end_round()
        self._following.detach()
        if self._leadership is not None:
            self._leadership.close()
            self._leadership = None

    def _tick_follower(self, now_ms: int) -> None:
        if now_ms < self._following.deadline_ms:
            self._following.maybe_fetch(now_ms)
        elif self._quorum.takes_part:
            self._become_prospective(now_ms)
        else:
            self._become_unattached(self.epoch, now_ms)

    def _send_end_quorum_epoch(self, successors: tuple[int, ...]) -> None:
        request = EndQuorumEpochRequest(self.config.cluster_id, self.config.node_id, self.epoch, successors)
        for voter in self.config.other_voters:
            self._outbox.tell(voter, request)
