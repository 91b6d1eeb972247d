"""Sets of voters for tests that need ids, or an address for each."""

from __future__ import annotations

from penstock.types import Endpoint, ListenerEndpoint
from raft.voters import Voter, VoterSet

CONTROLLER = "CONTROLLER"


def voters_of(*ids: int) -> VoterSet:
    """Voters without addresses."""
    return VoterSet(tuple(map(Voter, sorted(ids))))


def voters_at(*ids: int) -> VoterSet:
    """Voters of which each listens for the others, at port 9193 of a host of its own."""
    return VoterSet(
        tuple(Voter(one, endpoints=(ListenerEndpoint(CONTROLLER, Endpoint(f"host-{one}", 9193)),)) for one in ids)
    )
