"""Sets of voters for tests that need ids, or an address for each."""

from __future__ import annotations

import base64

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


def disk_of(node_id: int, number: int = 0) -> str:
    """The directory id of a node's metadata log dir; `number` tells its disks apart."""
    return base64.urlsafe_b64encode(bytes((*range(13), number, 1, node_id)))[:22].decode()


def endpoints_of(node_id: int) -> tuple[ListenerEndpoint, ...]:
    return (ListenerEndpoint(CONTROLLER, Endpoint(f"host-{node_id}", 9193)),)


def voters_on_disks(*ids: int) -> VoterSet:
    """A dynamic set: each voter has the disk and the address of its node."""
    return VoterSet(tuple(Voter(one, disk_of(one), endpoints_of(one)) for one in sorted(ids)))
