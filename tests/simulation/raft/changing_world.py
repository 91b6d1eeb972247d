"""A world whose quorum is dynamic: operators add and remove voters at any time, and replace disks by empty ones.

Beside all the faults of the other world, but for losses: a disk that forgets is another node here (`replace_disk`).
An operator asks whichever node leads, or thinks so, for one change after the other, without a look at what is under
way. Disks are replaced only while every set of voters that counts keeps a majority of disks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.errors import ApiError
from raft.config import RaftConfig
from raft.voter_changes import AddVoter, RemoveVoter, VoterChange
from raft.voters import NO_VOTERS, Voter, VoterSet
from tests.simulation.raft.faults import Faults
from tests.simulation.raft.node import SimNode
from tests.simulation.raft.oracle import Violated, keys_of
from tests.simulation.raft.world import World

CHANGE_EVERY_MS = 150
REPLACE_EVERY_MS = 900
VOTERS_WANTED = 5
WRITE_EVERY_MS = 2
"""Less than any fetch takes, with its answer and the flush between them."""


class ChangingWorld(World):
    def __init__(self, seed: int, faults: Faults, voters: int, spares: int, mutant: str | None = None) -> None:
        """`spares`: the nodes that join a running quorum."""
        self._disks: dict[int, int] = {}
        self.changes = 0
        self.refused = 0
        self.replaced = 0
        super().__init__(seed, replace(faults, lose_every_ms=0), voters, spares, mutant)

    def first_voters(self, count: int) -> VoterSet:
        return VoterSet(tuple(Voter(node_id, disk(node_id, 0)) for node_id in range(1, count + 1)))

    def config(self, node_id: int) -> RaftConfig:
        """A first disk of a first voter knows the first set; every other one knows addresses alone."""
        number = self._disks.get(node_id, 0)
        is_first = number == 0 and self._first.is_voter(node_id)
        others = tuple(other for other in range(1, len(self._first) + 3) if other != node_id)
        return replace(
            super().config(node_id),
            first_voters=self._first if is_first else NO_VOTERS,
            directory_id=disk(node_id, number),
            bootstrap_ids=others,
        )

    def operators(self) -> Sequence[tuple[int, Callable[[], None]]]:
        return (CHANGE_EVERY_MS, self._change), (REPLACE_EVERY_MS, self._replace)

    def _change(self) -> None:
        leaders = self.leaders()
        if not leaders:
            return
        leader = self.random.choice(leaders)
        voters = leader.core.voters
        spare = [node for node in self.nodes.values() if not voters.is_voter(node.node_id)]
        grows = spare and self.random.random() < (0.8 if len(voters) < VOTERS_WANTED // 2 + 1 else 0.4)
        if grows:
            added = self.random.choice(spare)
            change: AddVoter | RemoveVoter = AddVoter(Voter(added.node_id, added.config.directory_id))
        else:
            gone = self._gone(voters)
            removed = self.random.choice(gone or list(voters.voters))
            change = RemoveVoter(removed.voter_id, removed.directory_id or "")
        self.change(leader, change)

    def leaders(self) -> list[SimNode]:
        """The nodes that lead, or think so."""
        return [node for node in self.nodes.values() if node.up and node.core.leadership is not None]

    def change(self, leader: SimNode, change: VoterChange) -> None:
        """The operator asks; a refusal is an answer, too."""
        if self.now_ms < leader.paused_until_ms:
            return
        self.oracle.commit_decided(leader, leader.core.high_watermark, self.nodes.values())  # by the set until now
        try:
            leader.core.change_voters(change, self.now_ms)
        except ApiError:
            self.refused += 1
            return
        self.changes += 1
        self.note(leader.node_id, change)
        leader.after_step()

    def _gone(self, voters: VoterSet) -> list[Voter]:
        """The voters whose disk is no more."""
        here = {node.key for node in self.nodes.values()}
        return [voter for voter in voters.voters if (voter.voter_id, voter.directory_id) not in here]

    def _replace(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        if not node.up or self.random.random() < 0.5:
            return
        for voters in self._sets_that_count():
            here = len(voters) - len(self._gone(voters)) - (node.key in keys_of(voters))
            if here < voters.majority:
                return
        self.replaced += 1
        self.crashes += 1
        self._disks[node.node_id] = self._disks.get(node.node_id, 0) + 1
        self.note(node.node_id, "replaced")
        node.replace_disk(self.config(node.node_id))
        self._restart_later(node)

    def _sets_that_count(self) -> list[VoterSet]:
        """The newest committed set, and each that some log has and that may follow it."""
        logs = [sets[-1][1] for node in self.nodes.values() if (sets := node.log.voter_sets)]
        present = [node.core.voters for node in self.nodes.values() if node.up]
        return [self.oracle.voters, *logs, *present]

    def require_progress(self) -> None:
        """Besides: every node knows the same voters, a leader is one of them, and an operator can still change them."""
        self._remove_the_gone()
        super().require_progress()
        leader = max((n for n in self.nodes.values() if n.core.leadership is not None), key=lambda n: n.core.epoch)
        for node in self.nodes.values():
            if node.core.voters != self.oracle.voters:
                raise Violated(f"I92: {node.key} goes by {node.core.voters}, not by {self.oracle.voters}")
        if leader.key not in keys_of(leader.core.voters):
            raise Violated(f"I92: {leader.key} leads, and is no voter of {keys_of(leader.core.voters)}")
        self._add_beside_writes()

    def _add_beside_writes(self) -> None:
        """A client writes without a pause, so that a newcomer is always some records behind; it becomes a voter all the
        same. Not where a fetch brings so little that the newcomer falls behind for ever."""
        spare = [node for node in self.nodes.values() if node.key not in keys_of(self.oracle.voters)]
        if not spare or spare[0].config.fetch_max_bytes < 1 << 12:
            return
        begun_ms = self.now_ms
        while self.now_ms < begun_ms + 2_000:
            leader = max(self.leaders(), key=lambda node: node.core.epoch)
            if leader.core.voters.is_voter(spare[0].node_id):
                return
            leader.propose(b"steady")
            if self.now_ms > begun_ms + 2 * leader.config.fetch_timeout_ms:  # what was before the writes is long ago
                self.change(leader, AddVoter(Voter(*spare[0].key)))
            self.run_until(self.now_ms + WRITE_EVERY_MS)
        raise Violated(f"I92: {spare[0].key} could not become a voter beside steady writes")

    def _remove_the_gone(self) -> None:
        """A person removes the voters at last whose disk is no more."""
        for _ in range(40):
            leader = max(self.leaders(), key=lambda node: node.core.epoch, default=None)
            if leader is not None:
                gone = self._gone(leader.core.voters)
                if not gone and leader.core.voters == self.oracle.voters:
                    return
                if gone:
                    self.change(leader, RemoveVoter(gone[0].voter_id, gone[0].directory_id or ""))
            self.run_until(self.now_ms + 250)
        raise Violated("I92: a voter whose disk is no more could not be removed")


def disk(node_id: int, number: int) -> str:
    return f"disk-{node_id}-{number}"
