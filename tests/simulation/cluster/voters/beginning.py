"""The beginning of a simulated quorum: how its nodes are configured and formatted to find each other.

A static one is named in every configuration. A dynamic one is known to its first voters, whose disks are drawn here;
the other controllers join, and all find it by bootstrap servers. Not here: who votes later (voter_sets.py).
"""

from __future__ import annotations

from broker.node.commands.initial_controllers import NO_OPTIONS, QuorumOptions
from metadata.listeners import CONTROLLER_LISTENER
from penstock.ids import RandomIds
from penstock.types import Endpoint, ListenerEndpoint
from raft.voters import Voter, VoterSet
from tests.simulation.cluster.voters.voter_plan import VoterPlan


class QuorumBeginning:
    """The quorum of one world, before its first node starts."""

    def __init__(self, changes: VoterPlan | None, controllers: dict[int, Endpoint], ids: RandomIds) -> None:
        """`controllers`: the addresses of all, by their ids."""
        self._controllers = controllers
        self.first: VoterSet | None = None
        """The first voters, with the disks that they will have; None of a quorum that begins static."""
        if changes is not None and changes.begins_dynamic:
            at = ((one, ListenerEndpoint(CONTROLLER_LISTENER, controllers[one])) for one in changes.first)
            self.first = VoterSet(tuple(Voter(one, ids.new_id(), (to,)) for one, to in at))

    @property
    def controllers(self) -> tuple[Endpoint, ...]:
        return tuple(self._controllers.values())

    def config(self) -> dict[str, object]:
        """The way to the quorum: all controllers, or, where it began static, its voters."""
        if self.first is not None:
            return {"controller.quorum.bootstrap.servers": list(map(str, self.controllers))}
        return {"controller.quorum.voters": [f"{one}@{to}" for one, to in self._controllers.items()]}

    def options(self, index: int) -> QuorumOptions:
        """The options by which a node is formatted."""
        if self.first is None or index not in self._controllers:
            return NO_OPTIONS
        if not self.first.is_voter(index):
            return QuorumOptions(join=True)
        listed = ((one, one.endpoint(CONTROLLER_LISTENER)) for one in self.first.voters)
        return QuorumOptions(
            initial_controllers=",".join(f"{one.voter_id}@{to}:{one.directory_id}" for one, to in listed)
        )
