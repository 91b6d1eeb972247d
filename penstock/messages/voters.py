"""Changes of the quorum's voters: what administrators, and the nodes themselves, ask of the quorum's leader (KIP-853).

One answer serves them all: the error of the core as it is, or the metadata offset of the record with the new voters.
Not here: which change is possible when (`raft/voter_changes.py`).
"""

from __future__ import annotations

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_OFFSET, ListenerEndpoint


@dataclass(frozen=True, slots=True)
class AddVoterRequest:
    """The controller, which fetches the metadata already, becomes a voter."""

    voter_id: int
    directory_id: str  # of its metadata log dir: a voter is that disk
    endpoints: tuple[ListenerEndpoint, ...]  # where other nodes reach it; CONTROLLER among them
    cluster_id: str = ""  # "": whichever cluster is asked
    ack_when_appended: bool = False  # answer when the leader has the change in its log, committed or not
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class RemoveVoterRequest:
    """The voter becomes an observer. The directory id is its own, so that nobody removes its successor."""

    voter_id: int
    directory_id: str
    cluster_id: str = ""
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class UpdateVoterRequest:
    """The voter itself says that it is reached at other addresses than the set has."""

    voter_id: int
    directory_id: str
    endpoints: tuple[ListenerEndpoint, ...]
    cluster_id: str = ""
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class MakeQuorumDynamicRequest:
    """The voters of the configuration are named with their disks from now on, so that they may be changed."""

    cluster_id: str = ""
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class UnregisterControllerRequest:
    """A controller that is gone, and votes no more, is to be forgotten by the quorum's leader."""

    controller_id: int
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class VoterChangeResponse:
    """The answer to each of them."""

    error: ApiError | None = None
    metadata_offset: int = NO_OFFSET
    is_so_already: bool = False  # the error says no more than that, and what it found is committed


VOTER_REQUESTS = (AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest, MakeQuorumDynamicRequest)
VoterRequest = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest | MakeQuorumDynamicRequest
"""The requests for another set of voters, as a record of the metadata log."""
