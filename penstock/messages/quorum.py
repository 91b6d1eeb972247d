"""DescribeQuorum and DescribeMetadata: the quorum of the metadata log, and what that log makes."""

from __future__ import annotations

from penstock.lazy_dataclass import dataclass
from penstock.types import ListenerEndpoint


@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest:
    """Asks for the state of the quorum. Only its leader knows all of it."""


@dataclass(frozen=True, slots=True)
class QuorumReplicaInfo:
    """One voter or observer as the quorum's leader sees it; -1 where it has not heard of it."""

    node_id: int
    log_end_offset: int
    last_fetch_ms_ago: int
    last_caught_up_ms_ago: int = 0
    """When it had all that the leader had; at least 1, and 0 where that is not known: an older leader does not tell."""
    directory_id: str = ""
    """The id of its metadata log dir; "" where that is not known, as to an older node."""
    endpoints: tuple[ListenerEndpoint, ...] = ()
    """The addresses at which other nodes reach it. Of observers they are not known."""


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The quorum of the metadata log. Only its leader knows the progress of the others."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplicaInfo, ...]
    observers: tuple[QuorumReplicaInfo, ...]
    only_own_view: bool = False
    """No leader answered: this is what the broker that answered knows by itself."""
    is_dynamic: bool = False
    """Its voters are disks, and may be changed (KIP-853). False where an older node answers."""

    @property
    def has_leader(self) -> bool:
        return self.leader_id >= 0 and not self.only_own_view

    def lag_of(self, replica: QuorumReplicaInfo) -> int | None:
        """The records that the leader has and the replica has not; None where that is not known."""
        leader_end = next((one.log_end_offset for one in self.voters if one.node_id == self.leader_id), -1)
        if not self.has_leader or leader_end < 0 or replica.log_end_offset < 0:
            return None
        return max(0, leader_end - replica.log_end_offset)


NEWEST_OFFSET = -1


@dataclass(frozen=True, slots=True)
class DescribeMetadataRequest:
    """Asks for the metadata at `offset` (NEWEST_OFFSET: what the node has applied), from byte `position` on; without
    `max_bytes` for its digest alone."""

    offset: int
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class DescribeMetadataResponse:
    """`lines` are those from the byte asked for; number, digest and size are of all lines."""

    node_id: int
    offset: int
    epoch: int
    records: int
    sha256: str
    size_bytes: int
    lines: bytes
