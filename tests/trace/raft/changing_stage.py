"""A stage whose quorum is dynamic: its voters change while the piece is played."""

from __future__ import annotations

from typing import Any

from raft.voter_changes import AddVoter, RemoveVoter, VoterChange
from raft.voters import NO_VOTERS, Voter, VoterSet
from tests.trace.raft.stage import Stage


def disk(node_id: int) -> str:
    return f"disk-{node_id}"


def voter(node_id: int) -> Voter:
    return Voter(node_id, disk(node_id))


def voters(*ids: int) -> VoterSet:
    return VoterSet(tuple(map(voter, ids)))


class ChangingStage(Stage):
    """The first nodes are the first voters; the others join, and know addresses alone."""

    def __init__(self, first: int, joining: int) -> None:
        self._everybody = range(1, first + joining + 1)
        super().__init__(first, joining, terse=True, election_timeout_ms=200, fetch_timeout_ms=400)

    def config_of(self, node_id: int) -> tuple[tuple[int, ...] | VoterSet, dict[str, Any]]:
        known = voters(*self.ids) if node_id in self.ids else NO_VOTERS
        others = tuple(other for other in self._everybody if other != node_id)
        return known, {**self._config, "directory_id": disk(node_id), "bootstrap_ids": others}

    def add(self, leader: int, node_id: int) -> None:
        self.change(leader, AddVoter(voter(node_id)))

    def remove(self, leader: int, node_id: int) -> None:
        self.change(leader, RemoveVoter(node_id, disk(node_id)))

    def change(self, leader: int, change: VoterChange) -> None:
        """The leader takes the change, and its record is on its way."""
        actor = self.actors[leader]
        actor.core.change_voters(change, self.now_ms)
        actor.perform()
        self._deliver_all()

    def voters_of(self, node_id: int) -> tuple[int, ...]:
        """The ids of the voters as this node knows them."""
        return self.actors[node_id].core.voters.ids
