"""Checks a request from another node before it is used: its cluster, its fields, its epoch, its leader.

Pure. Every field may be missing, empty, negative or huge; such a request gets an error and changes nothing
(CVE-2026-83525: an empty list once killed a controller).
"""

from __future__ import annotations

from penstock.errors import (
    ApiError,
    FencedLeaderEpochError,
    InconsistentClusterIdError,
    InvalidRequestError,
    UnknownLeaderEpochError,
)
from penstock.types import NO_EPOCH, NO_LEADER
from raft.config import RaftConfig
from raft.messages import (
    INCARNATION_ID_MAX,
    SNAPSHOT_BYTES_MAX,
    SUPPORTS_MAX,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchMetadataRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from raft.quorum_state import EPOCH_JUMP_MAX, EPOCH_MAX, QuorumState
from raft.voters import VOTERS_MAX

Objection = tuple[type[ApiError], str]


def objection(request: Request, config: RaftConfig, quorum: QuorumState) -> Objection | None:
    """Why this node, in its present epoch and among its present voters, cannot take the request; None when it can."""
    epoch = quorum.epoch
    if request.cluster_id != config.cluster_id:
        wanted = request.cluster_id or "no cluster"
        return InconsistentClusterIdError, f"this is cluster {config.cluster_id}, the request is for {wanted}"
    if not _makes_sense(request, config, quorum):
        kind = type(request).__name__
        return InvalidRequestError, f"{kind} has a field that cannot be, or is not meant for node {config.node_id}"
    asked = request_epoch(request)
    if asked < epoch:
        return FencedLeaderEpochError, f"epoch {asked} is over, this node is in epoch {epoch}"
    if asked > epoch and isinstance(request, FetchMetadataRequest | FetchSnapshotRequest):
        return UnknownLeaderEpochError, f"epoch {asked} is not known here, this node is in epoch {epoch}"
    if is_epoch_jump(request, epoch):
        why = f"epoch {asked} is more than {EPOCH_JUMP_MAX} above epoch {epoch} of this node, which does not follow"
        return UnknownLeaderEpochError, why
    if isinstance(request, BeginQuorumEpochRequest) and asked == epoch:
        return _rivalry(request.leader_id, epoch, quorum.epoch_leader_id)
    return None


def is_epoch_jump(request: Request, epoch: int) -> bool:
    """True if the request would raise the epoch by more than is plausible."""
    is_fetch = isinstance(request, FetchMetadataRequest | FetchSnapshotRequest)
    return not is_fetch and request_epoch(request) > epoch + EPOCH_JUMP_MAX


def request_epoch(request: Request) -> int:
    """The epoch in which the request was made."""
    match request:
        case VoteRequest():
            return request.candidate_epoch
        case FetchMetadataRequest() | FetchSnapshotRequest():
            return request.current_leader_epoch
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            return request.leader_epoch


def _rivalry(leader_id: int, epoch: int, known_leader_id: int) -> Objection | None:
    """I1: an epoch has one leader (KIP-595, BeginQuorumEpoch)."""
    if known_leader_id in (NO_LEADER, leader_id):
        return None
    return InvalidRequestError, f"epoch {epoch} has leader {known_leader_id}; node {leader_id} cannot lead in it too"


def _makes_sense(request: Request, config: RaftConfig, quorum: QuorumState) -> bool:
    match request:
        case VoteRequest():
            log_end = request.last_epoch >= NO_EPOCH and request.last_epoch_end_offset >= 0
            meant = _from_voter_to_me(request.candidate_id, request.voter_id, config, quorum)
            disk = max(len(request.candidate_directory_id), len(request.voter_directory_id)) <= INCARNATION_ID_MAX
            disk = disk and _is_my_disk(request.voter_directory_id, config, quorum)
            return log_end and meant and disk and 0 <= request.candidate_epoch < EPOCH_MAX
        case BeginQuorumEpochRequest():
            meant = _from_voter_to_me(request.leader_id, request.voter_id, config, quorum)
            return meant and 0 < request.leader_epoch < EPOCH_MAX
        case EndQuorumEpochRequest():
            meant = _from_voter_to_me(request.leader_id, config.node_id, config, quorum)
            successors = len(request.preferred_successors) <= VOTERS_MAX
            return meant and successors and 0 < request.leader_epoch < EPOCH_MAX
        case FetchMetadataRequest():
            position = request.fetch_offset >= 0 and request.last_fetched_epoch >= NO_EPOCH and request.heard_ms >= 0
            return position and len(request.supports) <= SUPPORTS_MAX and _from_another(request, config)
        case FetchSnapshotRequest():
            position = 0 <= request.position < SNAPSHOT_BYTES_MAX and request.snapshot_id.end_offset > 0
            return position and _from_another(request, config)


def _from_another(request: FetchMetadataRequest | FetchSnapshotRequest, config: RaftConfig) -> bool:
    named = max(len(request.incarnation_id), len(request.replica_directory_id)) <= INCARNATION_ID_MAX
    return named and request.replica_id >= 0 and request.replica_id != config.node_id


def _from_voter_to_me(sender_id: int, voter_id: int, config: RaftConfig, quorum: QuorumState) -> bool:
    """A dynamic set may have changed since the log of this node or of the sender was written: either may be no voter by
    the other's log, and the sender must be heard (Ongaro, 2014, §4.1; KIP-853)."""
    takes_any = quorum.is_voter or quorum.voters.is_dynamic
    return takes_any and voter_id == config.node_id and quorum.may_be_led_by(sender_id)


def _is_my_disk(directory_id: str, config: RaftConfig, quorum: QuorumState) -> bool:
    """A vote is asked of a disk: this id may have been that of another one."""
    if not quorum.voters.is_dynamic:  # the quorum may be dynamic all the same, and this disk an empty one
        return directory_id in ("", config.directory_id)
    # A candidate that lacks the record which made the set dynamic names no disk. The log of this node names its own, so
    # that no blank one votes for what it has never held.
    return directory_id == config.directory_id or (not directory_id and quorum.is_voter)
