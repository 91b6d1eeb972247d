"""The states of one node in the quorum, and which follows when: from news of a leader, from time, from votes.

Every change of state ends the requests and the parked answers of the state before. Pure, as the whole core; core.py
takes what happens and calls this; quorum_state.py knows what a state may follow on which, and what must be durable.
"""

from __future__ import annotations

from collections.abc import Sequence

from raft.election import Election, ElectionOutcome
from raft.following import Following
from raft.leadership import Leadership
from raft.messages import EndQuorumEpochRequest, SnapshotTaken, VoteRequest
from raft.quorum_state import EPOCH_MAX, Forgotten, State
from raft.rejoining import Rejoining
from raft.shared import Shared


class Transitions:
    """The parts of one core, and the state that it is in."""

    def __init__(self, shared: Shared, now_ms: int) -> None:
        self._shared = shared
        self._config, self._quorum, self._outbox = shared.config, shared.quorum, shared.outbox
        self.election = Election(shared)
        self.following = Following(shared)
        self.rejoining = Rejoining(shared, now_ms)
        self.leadership: Leadership | None = None
        """The leading half, while this node leads."""
        self._start(now_ms)

    def __repr__(self) -> str:
        return f"Transitions({self._quorum!r})"

    def tick(self, now_ms: int) -> None:
        """Does what is due at this time."""
        match self._quorum.state:
            case State.LEADER:
                if self.leadership is not None and not self.leadership.tick(now_ms):
                    self.resign(now_ms)
            case State.FOLLOWER:
                self._tick_follower(now_ms)
            case _ if self._quorum.forgotten is Forgotten.VOTES:
                self.rejoining.maybe_ask(now_ms)
            case _ if not self._quorum.takes_part:
                self.following.maybe_fetch(now_ms)
            case _:
                self.election.retry(now_ms)
                if now_ms >= self.election.deadline_ms:
                    self._become_prospective(now_ms)

    def next_deadline_ms(self) -> int:
        """The latest time at which `tick` has something to do."""
        if self.leadership is not None:
            return self.leadership.next_deadline_ms()
        if self._quorum.state is State.FOLLOWER:
            return self.following.next_deadline_ms()
        if self._quorum.forgotten is Forgotten.VOTES:
            return self.rejoining.next_deadline_ms()
        if not self._quorum.takes_part:
            return self.following.next_search_ms()
        return self.election.next_deadline_ms()

    def resign(self, now_ms: int) -> None:
        """Give up leadership and tell the voters, most log first. Nothing happens on a node that does not lead."""
        if self.leadership is None:
            return
        successors = self.leadership.replicas.preferred_successors()
        if self._quorum.takes_part:
            self._quorum.to_resigned()
        else:  # it led until its own removal was committed, or as long as a majority fetched
            self._quorum.to_unattached(self._quorum.epoch)
        self._shared.counters.resignations += 1
        self.left_old_state()
        self._wait_for_a_leader(now_ms)
        self._send_end_quorum_epoch(successors)

    def learn_leader(self, leader_id: int, epoch: int, now_ms: int) -> bool:
        """News of a leader or an epoch; whether it changed this node's state."""
        if epoch >= EPOCH_MAX:
            return False
        # To follow is to fetch, and to fetch is to ack: not before the epoch of every vote is known.
        if self._quorum.forgotten is not Forgotten.VOTES and self._quorum.may_follow(leader_id, epoch):
            self._quorum.to_follower(epoch, leader_id)
            self.left_old_state()
            self.following.attach(now_ms)
            return True
        if epoch > self._quorum.epoch:
            self.become_unattached(epoch, now_ms)
            return True
        return False

    def become_unattached(self, epoch: int, now_ms: int) -> None:
        """Begins an epoch in which the node has no leader and no vote yet."""
        self._quorum.to_unattached(epoch)
        self.left_old_state()
        self._wait_for_a_leader(now_ms)

    def give_vote(self, request: VoteRequest, now_ms: int) -> None:
        """The candidate gets this node's vote of the epoch."""
        self._quorum.to_voted(request.candidate_id, request.candidate_directory_id)
        self.left_old_state()
        self._wait_for_a_leader(now_ms)

    def on_snapshot_taken(self, taken: SnapshotTaken, now_ms: int) -> None:
        """The snapshot has replaced the log, or was damaged. It may say that this node is a voter, or one no longer:
        without a leader it waits in another way then."""
        took_part = self._quorum.takes_part
        self.following.on_snapshot_taken(taken, now_ms)
        if self._quorum.takes_part != took_part and self._quorum.state in (State.UNATTACHED, State.VOTED):
            self._wait_for_a_leader(now_ms)

    def on_outcome(self, outcome: ElectionOutcome, now_ms: int) -> None:
        """A vote has come, or nobody else has to give one."""
        if outcome is not ElectionOutcome.WON:
            return  # lost or open: the round's deadline brings the next one
        if self._quorum.state is State.PROSPECTIVE:
            self._become_candidate(now_ms)
        elif self._quorum.state is State.CANDIDATE:
            self._become_leader(now_ms)

    def left_old_state(self) -> None:
        """The old state's open requests and parked answers end with it."""
        self._outbox.forget_questions()
        self.election.end_round()
        self.following.detach()
        if self.leadership is not None:
            self.leadership.close()
            self.leadership = None

    def on_leader_ended(self, epoch: int, successors: Sequence[int], now_ms: int) -> None:
        """No node follows it again in this epoch. The first successor tries at once, the others a little later."""
        if epoch > self._quorum.epoch or self._quorum.state is State.FOLLOWER:
            self.become_unattached(epoch, now_ms)
        self._quorum.note_leader_ended()
        own_id = self._config.node_id
        if self._quorum.state is not State.UNATTACHED or not self._quorum.takes_part or own_id not in successors:
            return
        position = successors.index(own_id)
        if position == 0:
            self._become_prospective(now_ms)
        else:
            self.election.arm_as_successor(position, now_ms)

    def _start(self, now_ms: int) -> None:
        """Go on from what was persisted. A leader that comes back tells the voters that its epoch has ended."""
        if self._quorum.state is State.FOLLOWER:
            self.following.attach(now_ms)
        elif self._quorum.takes_part and self._quorum.is_only_voter:
            self._become_prospective(now_ms)
        else:
            self._wait_for_a_leader(now_ms)
            if self._quorum.state is State.RESIGNED:
                self._send_end_quorum_epoch(self._quorum.other_voters)

    def _wait_for_a_leader(self, now_ms: int) -> None:
        if self._quorum.takes_part:
            self.election.arm(now_ms)
        elif self._quorum.forgotten is Forgotten.VOTES:
            self.rejoining.ask_again(now_ms)
        else:
            self.following.search(now_ms)

    def _become_prospective(self, now_ms: int) -> None:
        if self.following.is_installing:  # its log is about to be replaced
            self.election.arm(now_ms)
            return
        self._quorum.to_prospective()
        self._shared.counters.pre_vote_rounds += 1
        self.left_old_state()
        if self._config.bootstrap_ids:
            self.following.ask_around()
        self.on_outcome(self.election.start_round(True, now_ms), now_ms)

    def _become_candidate(self, now_ms: int) -> None:
        self._quorum.to_candidate()
        self._shared.counters.elections += 1
        self.left_old_state()
        self.on_outcome(self.election.start_round(False, now_ms), now_ms)

    def _become_leader(self, now_ms: int) -> None:
        self._quorum.to_leader()
        self._shared.counters.elections_won += 1
        self.left_old_state()
        self.leadership = Leadership(self._shared, now_ms)

    def _tick_follower(self, now_ms: int) -> None:
        if now_ms < self.following.deadline_ms or self.following.is_installing:
            self.following.maybe_fetch(now_ms)
        elif self._quorum.takes_part:
            self._become_prospective(now_ms)
        else:
            self.become_unattached(self._quorum.epoch, now_ms)

    def _send_end_quorum_epoch(self, successors: tuple[int, ...]) -> None:
        request = EndQuorumEpochRequest(self._config.cluster_id, self._config.node_id, self._quorum.epoch, successors)
        for voter in self._quorum.other_voters:
            self._outbox.tell(voter, request)
