"""The voters of the quorum as one value: their ids, their addresses, and the size of a majority of them.

The quorum's state owns the set (`QuorumState.voters`). Every other object asks it there, at the moment of use, and
keeps no copy: a record of the log changes the set while the node runs, and a truncation of the log undoes that
(KIP-853; voter_history.py). The configuration gives only the first set (`RaftConfig.first_voters`); what happens before
there is a quorum's state, such as checks, formatting and the opening of the log, uses that and says so.

A set is dynamic if it names the directory id of each voter: a voter is then that disk, and the same id on an empty disk
is another node. A set without directory ids is static: no record changes it, and its voters are known by id alone.

Two sets that differ by one voter have no two majorities without a voter in common, so they cannot elect two leaders in
one epoch (Ongaro, "Consensus: Bridging Theory and Practice", Stanford 2014, §4.1). Sets that differ by two may.

Pure values. Not here: who may change the set, and when a change counts (voter_changes.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Final

from penstock.errors import InvariantViolation
from penstock.lazy_dataclass import dataclass
from penstock.types import Endpoint, ListenerEndpoint

VOTERS_MAX: Final = 9
"""The most voters: more only make every commit slower; Kafka recommends 3 or 5."""


@dataclass(frozen=True, slots=True)
class Voter:
    """A controller that votes."""

    voter_id: int
    directory_id: str | None = None
    """The id of its metadata log dir, by which a node on a new disk is another voter; None: not known."""
    endpoints: tuple[ListenerEndpoint, ...] = ()
    """The addresses at which other nodes reach it, by listener."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """The voter's address at that listener; None if it has none."""
        return next((found.endpoint for found in self.endpoints if found.name == listener), None)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters in the order of their ids. The empty set has no majority."""

    voters: tuple[Voter, ...] = ()
    keys: tuple[tuple[int, str], ...] = field(init=False, repr=False, compare=False)
    """The id and the directory id of each, "" where it is not known. These are computed once: a leader asks at each
    fetch."""
    is_dynamic: bool = field(init=False, repr=False, compare=False)
    """True if records may change the set. So it is with the empty set, of a node that has heard of no voter yet."""
    majority: int = field(init=False, repr=False, compare=False)
    """The number of voters that elect a leader and commit a record."""
    _by_id: Mapping[int, Voter] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ids = self.ids
        if list(ids) != sorted(set(ids)) or min(ids, default=0) < 0:
            raise InvariantViolation(f"voters {ids} must have different ids, 0 or more, in their order")
        object.__setattr__(self, "keys", tuple((each.voter_id, each.directory_id or "") for each in self.voters))
        object.__setattr__(self, "is_dynamic", all(each.directory_id is not None for each in self.voters))
        object.__setattr__(self, "majority", len(self.voters) // 2 + 1)
        object.__setattr__(self, "_by_id", {each.voter_id: each for each in self.voters})

    def __len__(self) -> int:
        return len(self.voters)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.voter_id for voter in self.voters)

    def has_majority(self, ids: Collection[int]) -> bool:
        """True if these nodes are a majority. A node that is no voter does not count."""
        return sum(voter.voter_id in ids for voter in self.voters) >= self.majority

    def is_voter(self, node_id: int) -> bool:
        return node_id in self._by_id

    def is_only_voter(self, node_id: int) -> bool:
        return self.ids == (node_id,)

    def find(self, voter_id: int) -> Voter | None:
        return self._by_id.get(voter_id)

    def names(self, node_id: int, directory_id: str | None) -> bool:
        """True if the node with this metadata log dir is one of the voters. A static set goes by the id alone."""
        voter = self.find(node_id)
        return voter is not None and voter.directory_id in (None, directory_id)

    def with_voter(self, added: Voter) -> VoterSet:
        """The set with one voter more. InvariantViolation if the id is taken."""
        return VoterSet(tuple(sorted((*self.voters, added), key=lambda voter: voter.voter_id)))

    def without(self, voter_id: int) -> VoterSet:
        """The set without this voter."""
        return VoterSet(tuple(voter for voter in self.voters if voter.voter_id != voter_id))

    def others(self, node_id: int) -> tuple[int, ...]:
        """The ids of all voters but this node."""
        return tuple(voter.voter_id for voter in self.voters if voter.voter_id != node_id)

    def endpoint(self, voter_id: int, listener: str) -> Endpoint | None:
        """The voter's address at that listener; None for a node that is no voter, or has no such listener."""
        voter = self.find(voter_id)
        return None if voter is None else voter.endpoint(listener)

    def listed(self, listener: str) -> str:
        """The voters and their addresses for people: "1@host:port, 2@host:port"."""
        return ", ".join(f"{voter.voter_id}@{voter.endpoint(listener)}" for voter in self.voters)


NO_VOTERS: Final = VoterSet()
"""The set of a part that has no quorum, as in tests."""
