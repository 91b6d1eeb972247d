"""The effects of the core, and their order: one Ready at a time, performed by the driver, then `advance`.

The order is the safety argument of the whole folder, so it is written at the fields. Everything here is a value;
outbox.py collects them.
"""

from __future__ import annotations

from penstock.lazy_dataclass import dataclass
from penstock.types import EpochEndOffset
from raft.messages import FetchMetadataResponse, FetchSnapshotResponse, Outbound, Response
from raft.quorum_state import ElectionState


@dataclass(frozen=True, slots=True)
class LeaderAppend:
    """Values to write as ONE batch of this epoch at `base_offset`, which is the log's end by then."""

    epoch: int
    base_offset: int
    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class FollowerAppend:
    """Whole batches as the leader sent them; they begin at the log's end and keep their offsets and epochs."""

    base_offset: int
    records: bytes


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Bytes for a fetch answer: whole batches from `start_offset`, all below `end_offset`, at least one."""

    start_offset: int
    max_bytes: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a vote, a begin or an end of an epoch."""

    request_id: int
    response: Response


@dataclass(frozen=True, slots=True)
class FetchReply:
    """The answer to a fetch; the driver puts the bytes of `read` into `response.records`."""

    request_id: int
    response: FetchMetadataResponse
    read: ReadRange | None


@dataclass(frozen=True, slots=True)
class SnapshotReply:
    """The answer to a fetch of a snapshot; the driver fills in size and bytes, or that there is nothing."""

    request_id: int
    response: FetchSnapshotResponse
    max_bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """Bytes of a snapshot that the leader has; they follow those that were written before."""

    snapshot_id: EpochEndOffset
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """One round of work. Fields stand in the order in which they are performed."""

    election_state: ElectionState | None
    # ^ saved and fsynced BEFORE anything below: an epoch or vote that was told to others is never forgotten (I2, I3)
    truncate_to: int | None
    # ^ BEFORE append. Invariant: never below the high watermark
    append: tuple[LeaderAppend | FollowerAppend, ...]
    # ^ written BEFORE fetch_replies read them; durable BEFORE this node's own ack counts to a majority (I6)
    snapshot_chunks: tuple[SnapshotChunk, ...]
    # ^ written in their order, BEFORE complete_snapshot; need not be durable
    complete_snapshot: EpochEndOffset | None
    # ^ All its bytes are written: check them and make them durable; if they are sound, the log begins anew at its end,
    #   BEFORE anything below. AFTER advance the driver says how it went (SnapshotTaken). Invariant: its end is above
    #   the high watermark
    fetch_replies: tuple[FetchReply, ...]
    # ^ AFTER election_state and the write of append. They need not wait for the fsync: a leader may send records before
    #   it counts its own ack for them, and so the fsyncs of leader and followers run at the same time
    snapshot_replies: tuple[SnapshotReply, ...]
    # ^ AFTER election_state, as fetch_replies
    cut_prefix_to: int | None
    # ^ The records below may go, AFTER fetch_replies have read them. A durable snapshot has all of them
    messages: tuple[Outbound, ...]
    # ^ AFTER the fsync: a fetch at offset N says that everything below N is durable here, a vote request that this log
    #   is no shorter after a crash
    replies: tuple[Reply, ...]
    # ^ AFTER election_state is durable: a vote granted stays granted
    committed_offset: int | None
    # ^ The new high watermark, if it moved. Invariant: never decreases, never above log_end_offset (I7)

    @property
    def changes_log(self) -> bool:
        return self.truncate_to is not None or bool(self.append)
