"""The invariants I1 to I7 and I9 of the quorum, checked as things happen, over all nodes and across their crashes.

The oracle sees what a node persists, appends, tells others and calls committed. It remembers what was ever promised, so
a node that forgets in a crash is caught by comparison with its own past.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.record.batch import read_header
from penstock.types import EpochEndOffset
from raft.quorum_state import NO_VOTE, ElectionState, State
from raft.voter_records import voters_in, voters_of_value
from raft.voters import VoterSet
from tests.support.raft_fakes import MemoryLog, snapshot_values, values_of

if TYPE_CHECKING:
    from tests.simulation.raft.node import SimNode


NodeKey = tuple[int, str]
"""A node and its disk; "" among static voters."""


class Violated(AssertionError):
    """An invariant does not hold; the text begins with its name."""


class Oracle:
    def __init__(self, first: VoterSet) -> None:
        self.voters = first
        """The newest set that is committed."""
        self.named: VoterSet | None = None
        """The set that a static first one becomes, if any does."""
        self._leader_of: dict[int, NodeKey] = {}
        self._sent_epochs: dict[NodeKey, int] = {}
        self._sent_votes: dict[tuple[NodeKey, int], NodeKey] = {}
        self._batches: dict[tuple[int, int], tuple[bytes, tuple[int, int]]] = {}
        self.committed: list[tuple[int, int]] = []  # (base offset, epoch) of each batch, in order
        self.committed_offset = 0
        self._committed_in: list[int] = []  # the leader's epoch when each batch of `committed` was
        self._decisions: list[tuple[int, int]] = []  # (offset, epoch) of each leader's step, both rising
        self._decided_by: list[VoterSet] = []  # the set of which each step had a majority
        self._values: list[bytes] = []  # of all committed records

    def leader_seen(self, node: SimNode) -> None:
        """I1 one leader per epoch; I5 it has everything that was committed in earlier epochs.

        Earlier epochs only: a candidate that was paused may learn late that it had won, and lead an epoch that is over.
        """
        epoch, leader = node.core.epoch, self._leader_of.setdefault(node.core.epoch, node.key)
        if leader != node.key:
            raise Violated(f"I1: {leader} and {node.key} both lead epoch {epoch}")
        have = {_key(batch) for batch in node.log.batches}
        for index, key in enumerate(self.committed):
            if self._committed_in[index] >= epoch:
                break
            if key[0] >= node.log.log_start_offset and key not in have:
                raise Violated(f"I5: leader {node.node_id} of epoch {epoch} lacks the committed batch {key}")

    def saved(self, node_id: NodeKey, state: ElectionState, previous: ElectionState) -> None:
        """I2 the epoch never falls; I3 a vote once saved stays in its epoch."""
        if state.epoch < previous.epoch:
            raise Violated(f"I2: epoch of {node_id} falls from {previous.epoch} to {state.epoch}")
        same = state.epoch == previous.epoch
        own, before = (state.voted_id, state.voted_directory_id), (previous.voted_id, previous.voted_directory_id)
        if same and previous.voted_id != NO_VOTE and own != before:
            raise Violated(f"I3: {node_id} changes its vote in epoch {state.epoch}")

    def sent(self, node_id: NodeKey, epoch: int, stored: ElectionState) -> None:
        """I2: an epoch that others hear of is durable, also when it was told before a crash."""
        if stored.epoch < max(epoch, self._sent_epochs.get(node_id, 0)):
            raise Violated(f"I2: {node_id} speaks in epoch {epoch}, but has {stored.epoch} on disk")
        self._sent_epochs[node_id] = max(epoch, self._sent_epochs.get(node_id, 0))

    def voted(self, node_id: NodeKey, epoch: int, candidate: NodeKey) -> None:
        """I3: one vote per epoch and node, as the others hear it."""
        first = self._sent_votes.setdefault((node_id, epoch), candidate)
        if first != candidate:
            raise Violated(f"I3: {node_id} votes for {first} and for {candidate} in epoch {epoch}")

    def votes_forgotten(self, node_id: NodeKey) -> None:
        """Its epoch may fall now. What it voted for others must still hold; that it voted for itself, nobody heard."""
        self._sent_epochs.pop(node_id, None)
        own = [key for key, candidate in self._sent_votes.items() if key[0] == node_id == candidate]
        for key in own:
            del self._sent_votes[key]

    def appended(self, node_id: int, log: MemoryLog, count: int) -> None:
        """I4: offset and epoch determine a batch and everything before it."""
        batches = log.batches
        for index in range(len(batches) - count, len(batches)):
            key = _key(batches[index])
            before = _key(batches[index - 1]) if index else _last_of(log)
            known = self._batches.setdefault(key, (batches[index], before))
            if known[0] != batches[index] or known[1][1] != before[1]:
                raise Violated(f"I4: log of {node_id} differs from another at offset and epoch {key}")

    def snapshot_seen(self, node: SimNode, snapshot_id: EpochEndOffset) -> None:
        """I9: a snapshot, written or fetched, is what all nodes have committed below its end."""
        epoch, end_offset = snapshot_id
        values = snapshot_values(node.log.snapshots[snapshot_id])
        if values is None or list(values) != self._values[:end_offset] or len(values) != end_offset:
            raise Violated(f"I9: {snapshot_id} of {node.node_id} is not what was committed")
        last = bisect_left(self.committed, (end_offset, -1)) - 1
        if self.committed[last][1] != epoch:
            raise Violated(f"I9: {snapshot_id} of {node.node_id} ends with epoch {self.committed[last][1]}")

    def commit_decided(self, node: SimNode, offset: int, nodes: Iterable[SimNode]) -> None:
        """I6: what a leader calls committed is durable on a majority at that moment."""
        if node.core.state is not State.LEADER or offset <= self.committed_offset:
            return
        if (offset, node.core.epoch) in self._decisions:  # before the set changed
            return
        epoch, voters = node.epoch_decided_at(offset - 1), node.core.voters
        holders = _holders(nodes, voters, offset - 1, epoch)
        if len(holders) < voters.majority:
            raise Violated(f"I6: {node.node_id} commits up to {offset}, which is durable only on {holders}")
        if not self._decisions or offset > self._decisions[-1][0]:
            self._decisions.append((offset, node.core.epoch))
            self._decided_by.append(voters)

    def committed_seen(self, node: SimNode, offset: int) -> None:
        """I7 the high watermark never falls; and all nodes commit the same batches (state machine safety)."""
        if offset < node.seen_committed:
            raise Violated(f"I7: high watermark of {node.node_id} falls from {node.seen_committed} to {offset}")
        node.seen_committed = offset
        index = bisect_left(self.committed, (node.verified_offset, -1))
        for batch in node.log.batches_from(node.verified_offset):
            key, next_offset = _key(batch), read_header(batch).next_offset
            if next_offset > offset:
                break
            if index < len(self.committed) and self.committed[index] != key:
                raise Violated(f"I5: {node.node_id} commits {key}, but {self.committed[index]} was committed there")
            if index == len(self.committed):
                self.committed.append(key)
                self._values += values_of(batch)
                for _, voters in voters_in(batch):
                    self._voters_committed(voters)
                self.committed_offset = next_offset
                decided = bisect_left(self._decisions, (self.committed_offset, -1))
                known = decided < len(self._decisions)
                self._committed_in.append(self._decisions[decided][1] if known else node.core.epoch)
            index, node.verified_offset = index + 1, next_offset

    def _voters_committed(self, voters: VoterSet) -> None:
        """I92: one voter at a time, so that any two majorities of neighbours share a voter."""
        before, after = keys_of(self.voters), keys_of(voters)
        if len(before ^ after) > 1 and (self.voters.is_dynamic or voters != self.named):
            raise Violated(f"I92: voters {sorted(before)} are followed by {sorted(after)}")
        self.voters = voters

    def voters_at(self, end_offset: int) -> VoterSet | None:
        """The voters as the committed records below this offset say them; None if they do not."""
        named = [value for value in self._values[:end_offset] if value.startswith(b'{"type":"Voters"')]
        return voters_of_value(named[-1]) if named else None

    def shrunk(self, nodes: Iterable[SimNode]) -> None:
        """I6 again, after a crash or a truncation: a majority still holds the last committed batch."""
        if not self.committed:
            return
        offset, epoch = self.committed[-1]
        decided = bisect_left(self._decisions, (self.committed_offset, -1))
        voters = self._decided_by[decided] if decided < len(self._decisions) else self.voters
        holders = _holders(nodes, voters, offset, epoch)
        if len(holders) < voters.majority:
            raise Violated(f"I6: the committed batch {(offset, epoch)} is durable only on {holders} now")


def keys_of(voters: VoterSet) -> set[NodeKey]:
    """The disks of the voters."""
    return {(voter.voter_id, voter.directory_id or "") for voter in voters.voters}


def _holders(nodes: Iterable[SimNode], voters: VoterSet, offset: int, epoch: int) -> list[int]:
    """The voters whose disk has the record. A disk that is gone counts as it was: it never votes again."""
    keys = keys_of(voters)
    return [node.node_id for node in nodes for key in keys if key[0] == node.node_id and node.holds(key, offset, epoch)]


def _last_of(log: MemoryLog) -> tuple[int, int]:
    """The last record before the log's start; of its batch, a snapshot knows the epoch alone."""
    return -1, log.snapshot_ids[0].epoch


def _key(batch: bytes) -> tuple[int, int]:
    header = read_header(batch)
    return header.base_offset, header.leader_epoch
