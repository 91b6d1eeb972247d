"""The driver's ports: a log, a store for the election state, a transport to other nodes, and listeners.

Declared here and implemented elsewhere (broker/quorum/metadata_log.py, the gRPC peers, the metadata loader; fakes for
tests in tests/support/raft_fakes.py), so that raft imports no other package.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.types import EpochEndOffset
from raft.decided_log import LogView
from raft.messages import Request, Response
from raft.quorum_state import ElectionState
from raft.voters import VoterSet

Timed = Callable[[Coroutine[Any, Any, None]], Coroutine[Any, Any, None]]
"""Counts the time that a coroutine takes of the event loop."""


class NoRoomError(PenstockError):
    """A disk is full, or there are no descriptors left: nothing was changed, and the same call may be made again."""


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """A snapshot, and what it says: an immutable value that only listeners understand."""

    snapshot_id: EpochEndOffset
    contents: object
    voters: VoterSet | None = None
    """The voters at its end; None: it names none, because the quorum was static."""


class RaftLog(LogView, Protocol):
    """The quorum's log, of v2 batches, and the snapshots that stand for its beginning. An error of any of these ends
    the driver, but for `NoRoomError`: then the same call is made again later. Nothing else is retried.

    Called from the event loop, one call at a time. `read`, `flush`, `ask_disk`, `remove_files` and what has to do with
    a snapshot's file run in the executor: while one of them runs the driver makes no other call. The log must take one
    batch of `RaftConfig.batch_max_bytes`.
    """

    @property
    def loaded(self) -> LoadedSnapshot | None:
        """The newest snapshot at the start, or the one that was installed last; what is behind it is in the log."""
        ...

    def append_as_leader(self, batch: bytes, epoch: int) -> None:
        """Write one batch at the log's end; offsets and epoch are set by the log. Need not be durable."""
        ...

    def append_as_follower(self, records: bytes) -> None:
        """Write whole batches, with offsets and epochs as they are, that begin at the log's end."""
        ...

    def note_voters(self) -> None:
        """Blocks: a record that names voters is about to be appended. Makes durable that this log has such ones, so
        that no older release, which would not find them, opens it."""
        ...

    def read(self, start_offset: int, max_bytes: int, max_offset: int | None = None) -> bytes:
        """Blocks: whole batches from the one that holds `start_offset`, all below `max_offset`; one at least."""
        ...

    def read_nowait(self, start_offset: int, max_bytes: int, max_offset: int) -> bytes | None:
        """Whole batches as `read` gives them, at once; None where the disk must be asked."""
        ...

    def ask_disk(self) -> None:
        """Blocks until the disk has answered: BEFORE a call that waits for it on the event loop."""
        ...

    def truncate_to(self, offset: int) -> None:
        """Cut away everything at and above `offset`, which is where a batch begins."""
        ...

    def flush(self) -> None:
        """Blocks until everything written or cut is on stable storage; `flushed_offset` is then the log's end."""
        ...

    def read_snapshot(self, snapshot_id: EpochEndOffset, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        """The size of the whole and its bytes from there on; None if it is not kept (any more)."""
        ...

    def write_snapshot(self, snapshot_id: EpochEndOffset, position: int, data: bytes) -> None:
        """The next bytes of a snapshot that another node sends; position 0 begins anew. Need not be durable."""
        ...

    def complete_snapshot(self, snapshot_id: EpochEndOffset) -> LoadedSnapshot | None:
        """All its bytes are written: if they are sound, make them durable. None if they are damaged."""
        ...

    def begin_after(self, snapshot: LoadedSnapshot) -> None:
        """The log begins anew at the end of this snapshot, which is durable; `flush` follows."""
        ...

    def cut_prefix(self, offset: int) -> None:
        """The records below are not needed any more; the oldest snapshot that is kept ends there. May be where the log
        begins already: then only a newer snapshot was written."""
        ...

    def remove_files(self) -> None:
        """Removes the files of the part of the log that was cut."""
        ...


class QuorumStateStore(Protocol):
    """The quorum-state file. Both calls block and run in the executor; errors are as for the log."""

    def load(self) -> ElectionState | None:
        """The state that was saved last; None on the first start. Damage raises: a forgotten vote is worse than no
        start."""
        ...

    def save(self, state: ElectionState) -> None:
        """Replace it atomically; on stable storage (file and directory) when this returns."""
        ...


class QuorumTransport(Protocol):
    """The way to the other nodes."""

    async def send(self, node_id: int, request: Request, timeout_ms: int) -> Response:
        """The answer of `node_id`. Any exception means that no answer came; the request may have arrived."""
        ...


class RaftListener(Protocol):
    """Replays the log: the metadata loader, the controller. Called on the event loop; must not block."""

    def on_snapshot(self, snapshot: LoadedSnapshot) -> None:
        """Everything committed below its end at once, instead of the batches there: before the first one, or because
        this node was far behind."""
        ...

    def on_committed(self, base_offset: int, records: bytes) -> None:
        """Committed whole batches, in order, without gaps or repeats, from the log's start on.

        raft's own LeaderChange records (JSON values with that "type") are among them.
        """
        ...

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        """The leader now; -1 for none. This node itself is named only after a record of its own epoch is committed
        and everything up to it was given to `on_committed`: from then on it may act as the active controller."""
        ...


class QuorumProbe(Protocol):
    """Hears what this node and the others say to each other in the quorum. It must not raise. In production nobody
    listens; the simulator compares a promise with the disk in the moment in which it is given."""

    def quorum_asking(self, request: Request) -> None:
        """The request is about to be sent to another node."""
        return

    def quorum_handling(self, request: Request) -> None:
        """The request of another node has come, and nothing was done about it yet."""
        return

    def quorum_answering(self, request: Request, response: Response) -> None:
        """The response is about to be sent."""
        return


class UnheardQuorum(QuorumProbe):
    """Ignores everything: the probe of a process."""


UNHEARD_QUORUM = UnheardQuorum()
