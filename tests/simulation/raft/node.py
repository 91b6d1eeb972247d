"""One simulated node: a real core, a log and a store that can lose things, and a driver in slow motion.

`_perform` is the driver's order, cut into steps with simulated time between them, so that a crash can fall between any
two. `SimNode` has the hooks that mutants bend: `save`, and whether messages wait for the fsync.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from penstock import epochs
from penstock.errors import SnapshotNotFoundError
from penstock.record.builder import build_batch
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.messages import Inbound, SnapshotsKept, SnapshotTaken, VoteRequest, VoteResponse
from raft.quorum_state import ElectionState, Forgotten, State
from raft.ready import FetchReply, FollowerAppend, Ready, SnapshotReply
from raft.voters import VoterSet
from tests.simulation.raft.oracle import NodeKey, Violated
from tests.support.raft_fakes import MemoryLog, MemoryStore

if TYPE_CHECKING:
    from tests.simulation.raft.world import World


LOSSES = ("everything", "votes", "records", "tail")
"""The losses of a disk: the whole directory, the quorum-state file, the log, or its last batches though flushed."""


class SimNode:
    def __init__(self, world: World, config: RaftConfig) -> None:
        self.world = world
        self.config = config
        self.node_id = config.node_id
        self.log = MemoryLog()
        self.store = MemoryStore(ElectionState())
        self.ghosts: list[MemoryLog] = []
        """The logs that this voter had acked before it lost them; they count as its own until it takes part again."""
        self.disks_gone: dict[NodeKey, MemoryLog] = {}
        """The logs on disks that this node had before, in a dynamic quorum."""
        self.incarnation = 0
        self.up = False
        self.paused_until_ms = 0
        self.seen_committed = 0
        self.verified_offset = 0
        self.core: RaftCore
        self._timer_at_ms = -1
        self._busy = False
        self._led_epoch = -1
        self._installed = False

    @property
    def key(self) -> NodeKey:
        return self.node_id, self.config.directory_id

    @property
    def is_voter(self) -> bool:
        """A voter of the first set; of a static quorum, for ever."""
        return self.config.first_voters.is_voter(self.node_id)

    def start(self) -> None:
        self.incarnation += 1
        self.up, self._busy, self._timer_at_ms, self._led_epoch = True, False, -1, -1
        self.seen_committed = self.verified_offset = self.log.snapshot_ids[-1].end_offset
        seed = self.world.random.randrange(1 << 30)
        stored = self.store.load() or ElectionState()
        self.core = RaftCore(self.config, stored, self.log, Random(seed), self.world.now_ms)
        self.after_step()

    def crash(self) -> None:
        """Power cut: the unsynced end may be gone, or half of it, and an unsynced truncation may come undone."""
        self.incarnation += 1
        self.up = False
        unsynced = sum(1 for batch_end in self.log.batch_ends() if batch_end > self.log.flushed_offset)
        random = self.world.random
        self.log = self.log.crash(random.randint(0, unsynced), random.random() < 0.5)
        self.world.oracle.shrunk(self.world.nodes.values())

    def replace_disk(self, config: RaftConfig) -> None:
        """Power cut; what comes back is the same id on an empty disk, another node."""
        self.disks_gone[self.key] = self.log.crash()
        self.crash()
        self.config, self.log, self.store = config, MemoryLog(), MemoryStore(ElectionState())
        self.seen_committed = self.verified_offset = 0

    def lose(self, what: str) -> None:
        """A power cut, and then the node finds that something is gone which it had promised to keep."""
        self.ghosts.append(self.log)
        self.crash()
        if what in ("everything", "votes"):
            self.store.state = self.noticed(Forgotten.VOTES)
            self.world.oracle.votes_forgotten(self.key)
        else:
            self.store.state = self.noticed(Forgotten.RECORDS)
        if what == "tail":
            self.log = self.log.cut(self.world.random.randint(0, len(self.log.batches)))
        elif what != "votes":
            self.log = MemoryLog()

    def noticed(self, loss: Forgotten) -> ElectionState:
        """The state that a start finds in place of the election state, and which loss it notices."""
        if loss is Forgotten.VOTES:
            return ElectionState(forgotten=loss)
        state = self.store.state or ElectionState()
        return state if state.forgotten is Forgotten.VOTES else replace(state, forgotten=loss)

    def step(self, inbound: Inbound) -> None:
        if self.world.now_ms < self.paused_until_ms:
            self.later(self.paused_until_ms - self.world.now_ms, lambda: self.step(inbound))
            return
        self.core.step(inbound, self.world.now_ms)
        self.after_step()

    def propose(self, value: bytes) -> int | None:
        if not self.up or self.core.leadership is None:
            return None
        offset = self.core.propose([value])
        self.after_step()
        return offset

    def after_step(self) -> None:
        """The driver's loop: runs whenever something happened."""
        core = self.core
        if core.state is State.LEADER and core.epoch != self._led_epoch:
            self._led_epoch = core.epoch
            self.world.oracle.leader_seen(self)
            self.world.note(self.node_id, "leads", core.epoch)
        if not self._busy:
            ready = core.ready()
            if ready is not None:
                self._busy = True
                if ready.committed_offset is not None:
                    self.world.oracle.commit_decided(self, ready.committed_offset, self.world.nodes.values())
                self._perform(ready)
        self._set_timer()

    def later(self, delay_ms: int, what: Callable[[], None]) -> None:
        """Run `what` unless this node has crashed by then."""
        incarnation = self.incarnation

        def run() -> None:
            if self.up and self.incarnation == incarnation:
                what()

        self.world.schedule(delay_ms, run)

    def save(self, state: ElectionState) -> None:
        self.world.oracle.saved(self.key, state, self.store.state or ElectionState())
        self.store.save(state)
        if self.ghosts and state.forgotten is Forgotten.NOTHING:
            self.ghosts.clear()
            self.world.oracle.shrunk(self.world.nodes.values())

    def holds(self, key: NodeKey, offset: int, epoch: int) -> bool:
        """True if the log on this disk, or one that was lost, has the record durably. Records in a snapshot are
        committed, and were compared when it came."""
        gone = self.disks_gone.get(key)
        is_here = key in (self.key, (self.node_id, ""))  # a static set names no disk
        here = (self.log, *self.ghosts) if is_here else () if gone is None else (gone,)
        for log in here:
            if offset < log.log_start_offset or (offset < log.flushed_offset and log.epoch_at(offset) == epoch):
                return True
        return False

    def take_snapshot(self, kept_max: int) -> None:
        """A snapshot of its own of what it knows to be committed; at most `kept_max` stay."""
        end_offset = self.snapshot_end()
        if not self.up or end_offset <= self.log.snapshot_ids[-1].end_offset or self.core.is_installing:
            return
        said = self.world.oracle.voters_at(end_offset)
        if said is not None and self.core.voters_at(end_offset) != said:
            raise Violated(f"I92: {self.key} would write a snapshot of other voters than {said}")
        self.world.oracle.snapshot_seen(self, self.log.take_snapshot(end_offset))
        kept = self.log.snapshot_ids[-kept_max:]
        self.log.drop_snapshots_but(kept)
        self.world.snapshots += 1
        self.step(SnapshotsKept(kept))

    def snapshot_end(self) -> int:
        return self.seen_committed

    def epoch_decided_at(self, offset: int) -> int:
        return epochs.epoch_for_offset(self.core.epoch_entries, offset)

    def _perform(self, ready: Ready) -> None:
        if ready.election_state is None:
            self._write(ready)
            return
        state = ready.election_state

        def saved() -> None:
            self.save(state)
            self._write(ready)

        self.later(self.world.disk_ms(), saved)

    def _write(self, ready: Ready) -> None:
        count = len(self.log.batches)
        if ready.truncate_to is not None:
            self.log.truncate_to(ready.truncate_to)
            count = len(self.log.batches)
            self.world.oracle.shrunk(self.world.nodes.values())
        for append in ready.append:
            if isinstance(append, FollowerAppend):
                self.log.append_as_follower(append.records)
            else:
                self.log.append_as_leader(build_batch(append.values, timestamps_ms=self.world.now_ms), append.epoch)
        self.world.oracle.appended(self.node_id, self.log, len(self.log.batches) - count)
        for chunk in ready.snapshot_chunks:
            self.log.write_snapshot(chunk.snapshot_id, chunk.position, chunk.data)
        if ready.complete_snapshot is not None:
            self.later(self.world.disk_ms(), lambda: self._install(ready))
        else:
            self._answer(ready)

    def _install(self, ready: Ready) -> None:
        snapshot_id = ready.complete_snapshot
        self._installed = snapshot_id is not None and self.log.install_snapshot(snapshot_id) is not None
        if snapshot_id is not None and self._installed:
            self.world.oracle.snapshot_seen(self, snapshot_id)
            self.world.installed += 1
            self.seen_committed = self.verified_offset = snapshot_id.end_offset
            self.world.oracle.shrunk(self.world.nodes.values())
        self._answer(ready)

    def _answer(self, ready: Ready) -> None:
        for reply in ready.fetch_replies:
            self._reply_fetch(reply)
        for snapshot_reply in ready.snapshot_replies:
            self._reply_snapshot(snapshot_reply)
        if ready.cut_prefix_to is not None and ready.cut_prefix_to > self.log.log_start_offset:
            self.log.cut_prefix(ready.cut_prefix_to)
        if not ready.changes_log:
            self._speak(ready)
        elif self.world.mutant == "messages_before_fsync":
            self._speak(ready, done=False)
            self.later(self.world.disk_ms(), lambda: self._flush_then(ready, speak=False))
        else:
            self.later(self.world.disk_ms(), lambda: self._flush_then(ready, speak=True))

    def _flush_then(self, ready: Ready, speak: bool) -> None:
        self.log.flush()
        if speak:
            self._speak(ready)
        else:
            self._done(ready)

    def _speak(self, ready: Ready, done: bool = True) -> None:
        oracle, stored = self.world.oracle, self.store.state or ElectionState()
        for message in ready.messages:
            request = message.request
            if isinstance(request, VoteRequest) and not request.pre_vote:
                oracle.voted(self.key, request.candidate_epoch, self.key)
            oracle.sent(self.key, _epoch_of(request), stored)
            self.world.send(self, message)
        for reply in ready.replies:
            oracle.sent(self.key, reply.response.leader_epoch, stored)
            if isinstance(reply.response, VoteResponse) and reply.response.vote_granted:
                self._note_vote(reply.request_id, reply.response.leader_epoch)
            self.world.answer(self, reply.request_id, reply.response)
        if done:
            self._done(ready)

    def _note_vote(self, request_id: int, epoch: int) -> None:
        request = self.world.request_of(self, request_id)
        if isinstance(request, VoteRequest) and not request.pre_vote:
            self.world.oracle.voted(self.key, epoch, (request.candidate_id, request.candidate_directory_id))
            self.world.voted(self, request.candidate_id)

    def _done(self, ready: Ready) -> None:
        if ready.committed_offset is not None:
            self.world.oracle.committed_seen(self, ready.committed_offset)
        self._busy = False
        self.core.advance(self.log.flushed_offset)
        if ready.complete_snapshot is not None:
            voters = self.snapshot_voters() if self._installed else None
            taken = SnapshotTaken(ready.complete_snapshot, is_installed=self._installed, voters=voters)
            self.core.step(taken, self.world.now_ms)
        self.after_step()

    def snapshot_voters(self) -> VoterSet | None:
        """The voters that the snapshot says with which the log begins now."""
        return next((voters for offset, voters in self.log.voter_sets if offset < 0), None)

    def _reply_snapshot(self, reply: SnapshotReply) -> None:
        """Now and then a bit is wrong, as on a disk that rots."""
        response, wanted = reply.response, reply.response.snapshot_id
        found = None if wanted is None else self.log.read_snapshot(wanted, response.position, reply.max_bytes)
        if not found or not found[1]:
            response = replace(response, error_code=SnapshotNotFoundError.code)
        else:
            response = replace(response, size_bytes=found[0], data=self.world.rotten(found[1]))
        self.world.oracle.sent(self.key, response.leader_epoch, self.store.state or ElectionState())
        self.world.answer(self, reply.request_id, response)

    def _reply_fetch(self, reply: FetchReply) -> None:
        records = b""
        if reply.read is not None:
            records = self.log.read(reply.read.start_offset, reply.read.max_bytes, reply.read.end_offset)
        self.world.oracle.sent(self.key, reply.response.leader_epoch, self.store.state or ElectionState())
        self.world.answer_fetch(self, reply.request_id, reply.response, records)

    def _set_timer(self) -> None:
        at_ms = self.core.next_deadline_ms()
        if at_ms == self._timer_at_ms or at_ms > self.world.now_ms + 3_600_000:
            return
        self._timer_at_ms = at_ms
        self.later(max(1, at_ms - self.world.now_ms), lambda: self._on_timer(at_ms))

    def _on_timer(self, at_ms: int) -> None:
        if at_ms != self._timer_at_ms:
            return
        if self.world.now_ms < self.paused_until_ms:
            self.later(self.paused_until_ms - self.world.now_ms, lambda: self._on_timer(at_ms))
            return
        self._timer_at_ms = -1
        self.core.tick(self.world.now_ms)
        self.after_step()


def _epoch_of(request: object) -> int:
    for name in ("candidate_epoch", "current_leader_epoch", "leader_epoch"):
        if hasattr(request, name):
            return int(getattr(request, name))
    raise AssertionError(f"no epoch in {request!r}")
