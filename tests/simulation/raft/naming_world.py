"""A world whose quorum begins static: at some time an operator makes it dynamic, and then its voters change.

Beside all the faults of `ChangingWorld`. Every node's file names the first voters, as `controller.quorum.voters` does,
for ever; what its log says counts before that. Disks are replaced only once the quorum is known to be dynamic: a static
voter that comes back on an empty disk is the other world's (`World.lose`). A first voter on a new disk joins without
the old file: with it, nothing would tell the disk from the one with which the quorum began.
"""

from __future__ import annotations

from dataclasses import replace

from raft.config import RaftConfig
from raft.voter_changes import NameDirectories
from raft.voters import Voter, VoterSet
from tests.simulation.raft.changing_world import ChangingWorld, disk
from tests.simulation.raft.faults import Faults
from tests.simulation.raft.oracle import Violated
from tests.support.voters import voters_of


class NamingWorld(ChangingWorld):
    def __init__(self, seed: int, faults: Faults, voters: int, spares: int, mutant: str | None = None) -> None:
        super().__init__(seed, faults, voters, spares, mutant)
        self.oracle.named = super().first_voters(voters)

    def first_voters(self, count: int) -> VoterSet:
        return voters_of(*range(1, count + 1))

    def config(self, node_id: int) -> RaftConfig:
        config = super().config(node_id)
        is_first = self._disks.get(node_id, 0) == 0
        has_old_file = is_first or (not self._first.is_voter(node_id) and self.random.random() < 0.5)
        return replace(config, first_voters=self._first) if has_old_file else config

    def _change(self) -> None:
        """The operator asks a leader of a static quorum for the one thing that it can do."""
        static = [node for node in self.leaders() if not node.core.voters.is_dynamic]
        if not static:
            super()._change()
        elif self.random.random() < 0.2:
            self.change(self.random.choice(static), NameDirectories())

    def _gone(self, voters: VoterSet) -> list[Voter]:
        named = (replace(each, directory_id=each.directory_id or disk(each.voter_id, 0)) for each in voters.voters)
        return super()._gone(VoterSet(tuple(named)))

    def _replace(self) -> None:
        if self.oracle.voters.is_dynamic:
            super()._replace()

    def require_progress(self) -> None:
        """Besides: a quorum that is static yet becomes dynamic."""
        for _ in range(40):
            if self.oracle.voters.is_dynamic:
                break
            for node in self.leaders():
                if not node.core.voters.is_dynamic:
                    self.change(node, NameDirectories())
            self.run_until(self.now_ms + 250)
        else:
            raise Violated("I92: a static quorum could not be made dynamic")
        super().require_progress()
