"""The messages between the nodes of a quorum, and the envelopes in which the core gets and sends them.

The first half mirrors `protos/penstock/v1/quorum.proto`, field by field, without protobuf: the edge translates. The
second half is local: the core numbers its requests (`correlation_id`) and the driver numbers incoming requests
(`request_id`), so that an outdated answer is recognised and dropped. A field that was missing on the wire has its
proto3 default here (0, "", no message); the core treats every one as possible.
"""

from __future__ import annotations

import json

from penstock.lazy_dataclass import dataclass
from penstock.types import NO_LEADER, NO_OFFSET, EpochEndOffset, ListenerEndpoint
from raft.voters import VoterSet

NO_ERROR = 0
LEADER_CHANGE = "LeaderChange"
"""The "type" of the one record that raft itself writes: an ordinary JSON value at the start of every leader epoch."""


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A vote (in a new epoch) or, with `pre_vote`, the question whether it could be won (KIP-996)."""

    cluster_id: str
    candidate_epoch: int  # of a pre-vote: the present epoch, which asking does not raise
    candidate_id: int
    voter_id: int  # whom this is meant for
    last_epoch: int
    last_epoch_end_offset: int
    pre_vote: bool
    candidate_directory_id: str = ""  # of the candidate's disk; "" among static voters
    voter_directory_id: str = ""  # for which disk this is meant; "" among static voters


@dataclass(frozen=True, slots=True)
class VoteResponse:
    leader_id: int = NO_LEADER
    leader_epoch: int = 0
    vote_granted: bool = False
    error_code: int = NO_ERROR
    error_message: str = ""
    leader_endpoints: tuple[ListenerEndpoint, ...] = ()  # of leader_id, from the edge; see quorum_addresses.py


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """A new leader tells the voters that it leads; it repeats this to a voter that does not fetch."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    voter_id: int
    leader_endpoints: tuple[ListenerEndpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochResponse:
    leader_id: int = NO_LEADER
    leader_epoch: int = 0
    error_code: int = NO_ERROR
    error_message: str = ""
    leader_endpoints: tuple[ListenerEndpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """A leader resigns and names who should try first: the voters with the most log."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EndQuorumEpochResponse:
    leader_id: int = NO_LEADER
    leader_epoch: int = 0
    error_code: int = NO_ERROR
    error_message: str = ""
    leader_endpoints: tuple[ListenerEndpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchMetadataRequest:
    """Asks for the records from `fetch_offset` on. It says at the same time that all below is durable at the sender."""

    cluster_id: str
    replica_id: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    max_bytes: int
    incarnation_id: str = ""  # of the process that asks; "" from an older node
    heard_ms: int = 0  # the `leader_time_ms` of this leader's newest answer; 0: none, or from an older node
    replica_directory_id: str = ""  # of the disk on which all below is durable; "" from an older node
    supports: str = ""  # what the node supports, as those above the quorum read it; "" from an older node


@dataclass(frozen=True, slots=True)
class FetchMetadataResponse:
    leader_id: int = NO_LEADER
    leader_epoch: int = 0
    high_watermark: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    records: bytes = b""  # whole batches; filled in by the driver, the core names only the range
    diverging_epoch: EpochEndOffset | None = None  # set: cut your log back first, there are no records here
    snapshot_id: EpochEndOffset | None = None  # set: fetch this snapshot first, there are no records here (KIP-630)
    error_code: int = NO_ERROR
    error_message: str = ""
    log_end_offset: int = 0  # the leader's; 0 where it does not say, for a leader's own log is never empty
    leader_time_ms: int = 0  # the leader's own clock, not later than this answer; 0 where it does not say
    leader_endpoints: tuple[ListenerEndpoint, ...] = ()  # with an error


INCARNATION_ID_MAX = 255
"""Characters; a leader keeps one for each node."""
SUPPORTS_MAX = 1_024
"""Characters; likewise."""
SNAPSHOT_BYTES_MAX = 1 << 30
"""A leader that names a larger one is wrong."""


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    """Asks for the bytes of a snapshot from `position` on (KIP-630)."""

    cluster_id: str
    replica_id: int
    current_leader_epoch: int
    snapshot_id: EpochEndOffset
    position: int
    max_bytes: int
    incarnation_id: str = ""
    replica_directory_id: str = ""


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse:
    leader_id: int = NO_LEADER
    leader_epoch: int = 0
    snapshot_id: EpochEndOffset | None = None
    size_bytes: int = 0  # of the whole snapshot; filled in by the driver
    position: int = 0
    data: bytes = b""  # filled in by the driver
    error_code: int = NO_ERROR
    error_message: str = ""
    leader_endpoints: tuple[ListenerEndpoint, ...] = ()  # with an error


Request = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchMetadataRequest | FetchSnapshotRequest
Response = (
    VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchMetadataResponse | FetchSnapshotResponse
)


@dataclass(frozen=True, slots=True)
class Outbound:
    """A question to another node. Its answer comes back as AnswerReceived or RequestFailed with the same number."""

    to: int
    correlation_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """Another node asks; answered once by a Reply or FetchReply with this number, unless abandoned before."""

    request_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class RequestAbandoned:
    """The sender has gone away and wants no answer any more."""

    request_id: int


@dataclass(frozen=True, slots=True)
class AnswerReceived:
    correlation_id: int
    response: Response


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The network gave no answer; whether the request arrived is unknown."""

    correlation_id: int


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """A fetched snapshot replaces this node's log now; or, if it is damaged, it does not."""

    snapshot_id: EpochEndOffset
    is_installed: bool
    voters: VoterSet | None = None  # as they stood at its end; None: it says nothing of voters


@dataclass(frozen=True, slots=True)
class SnapshotsKept:
    """These snapshots of its own the node keeps from now on, oldest first; what is below all of them may go."""

    snapshot_ids: tuple[EpochEndOffset, ...]


Inbound = RequestReceived | RequestAbandoned | AnswerReceived | RequestFailed | SnapshotTaken | SnapshotsKept


def leader_change_value(leader_id: int, epoch: int, voters: tuple[int, ...]) -> bytes:
    """The record that a new leader appends at once, so that its epoch has an offset (KIP-279, KIP-595)."""
    fields = {"type": LEADER_CHANGE, "version": 0, "leader_id": leader_id, "leader_epoch": epoch, "voters": voters}
    return json.dumps(fields, separators=(",", ":")).encode()
