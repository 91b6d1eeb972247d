"""The log as the core has decided it: offsets and epochs, no bytes.

The core decides (append, truncate) now and the driver performs it later. This mirror shows the log as it will be once
every Ready is performed. Only `flushed_offset` lags behind: it moves only when the driver reports an fsync.
Invariants: log_start ≤ high watermark ≤ log_end; flushed ≤ log_end; the high watermark never falls (I7). With snapshots
the log begins where the oldest one ends, and the newest one is committed whole (KIP-630).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock import epochs
from penstock.errors import InvariantViolation
from penstock.types import NO_EPOCH, EpochEndOffset, EpochEntry
from raft.voters import VoterSet

BEGINNING = EpochEndOffset(NO_EPOCH, 0)
"""The empty snapshot, which every log begins with, and which no file holds."""


class LogView(Protocol):
    """The state of a log that the core needs at its start."""

    @property
    def snapshot_ids(self) -> Sequence[EpochEndOffset]:
        """The ids of the snapshots that are kept, oldest first: the log begins where the oldest ends, and reaches
        behind the newest. `BEGINNING` stands for a log that has all records."""
        ...

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def flushed_offset(self) -> int: ...
    @property
    def epoch_entries(self) -> Sequence[EpochEntry]: ...
    @property
    def voter_sets(self) -> Sequence[tuple[int, VoterSet]]:
        """The voters as the log says them: of the snapshot with which it begins, at offset -1, and of each record in it
        that names them, in order. Empty for a log that says nothing of voters."""
        ...


class DecidedLog:
    """The start and end of the log, how far it is durable and committed, and the first offset of each epoch."""

    def __init__(self, view: LogView) -> None:
        self._log_start_offset = view.log_start_offset
        self._log_end_offset = view.log_end_offset
        self._flushed_offset = view.flushed_offset
        self._snapshots = tuple(view.snapshot_ids)
        self._entries = self._behind_base(view.epoch_entries)
        self._high_watermark = max(view.log_start_offset, self.newest_snapshot.end_offset)
        if not self._base.end_offset == self._log_start_offset <= self._high_watermark <= self._log_end_offset:
            raise InvariantViolation(f"the snapshots {self._snapshots} do not fit {self!r}")

    def __repr__(self) -> str:
        return (
            f"DecidedLog({self._log_start_offset}..{self._log_end_offset}, epoch {self.last_epoch}, "
            f"flushed {self._flushed_offset}, high watermark {self._high_watermark})"
        )

    @property
    def log_start_offset(self) -> int:
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log_end_offset

    @property
    def flushed_offset(self) -> int:
        return self._flushed_offset

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def epoch_entries(self) -> tuple[EpochEntry, ...]:
        """The epochs of the records, the record before the log's start among them where a snapshot names it."""
        return self._entries

    @property
    def _base(self) -> EpochEndOffset:
        """The end of the snapshot with which the log begins."""
        return self._snapshots[0]

    @property
    def newest_snapshot(self) -> EpochEndOffset:
        return self._snapshots[-1]

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, in the log or before its start; -1 without any record."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def _behind_base(self, entries: Sequence[EpochEntry]) -> tuple[EpochEntry, ...]:
        """The epochs, from that of the record before the log's start on, which only the snapshot knows."""
        epoch, end_offset = self._base
        if self._base == BEGINNING:
            return tuple(entries)
        behind = (entry for entry in entries if entry.epoch > epoch and entry.start_offset < self._log_end_offset)
        return EpochEntry(epoch, end_offset - 1), *behind

    def has_snapshot(self, snapshot_id: EpochEndOffset) -> bool:
        """True if the snapshot is kept in a file."""
        return snapshot_id in self._snapshots and snapshot_id != BEGINNING

    def extend(self, next_offset: int, epoch: int) -> None:
        """Records of `epoch` were decided from the log's end up to below `next_offset`."""
        if next_offset <= self._log_end_offset or epoch < self.last_epoch:
            raise InvariantViolation(f"append up to {next_offset} of epoch {epoch} does not continue {self!r}")
        if epoch != self.last_epoch:
            self._entries = epochs.assign(self._entries, epoch, self._log_end_offset)
        self._log_end_offset = next_offset

    def truncation_offset(self, answer: EpochEndOffset) -> int:
        return epochs.truncation_offset(self._entries, self._log_end_offset, answer)

    def diverging_epoch(self, fetch_offset: int, last_fetched_epoch: int) -> EpochEndOffset | None:
        return epochs.diverging_epoch(self._entries, self._log_end_offset, fetch_offset, last_fetched_epoch)

    def needs_snapshot(self, fetch_offset: int, last_fetched_epoch: int) -> bool:
        """True if a follower with this position lacks records from before the log's start, or has others there."""
        epoch, start = self._base
        if fetch_offset <= start and self._base != BEGINNING:
            return (last_fetched_epoch, fetch_offset) != (epoch, start)
        return last_fetched_epoch < epoch

    def truncate_to(self, offset: int) -> None:
        """Invariant: committed records are never truncated."""
        if not self._high_watermark <= offset <= self._log_end_offset:
            why = "; a node that heard more than a quorum that was rebuilt by hand begins with an empty metadata log"
            raise InvariantViolation(f"truncation to {offset} would cut committed records: {self!r}{why}")
        self._entries = epochs.truncate_from_end(self._entries, offset)
        self._log_end_offset = offset
        self._flushed_offset = min(self._flushed_offset, offset)

    def install(self, snapshot_id: EpochEndOffset) -> None:
        """The log is replaced by a snapshot, which is durable, and begins anew behind it. Invariant: nothing that is
        committed is lost, because all that it has is committed."""
        if snapshot_id.end_offset <= self._high_watermark:
            raise InvariantViolation(f"snapshot {snapshot_id} is older than what is committed: {self!r}")
        self._snapshots = (snapshot_id,)
        self._entries = self._behind_base(())
        self._log_start_offset = self._log_end_offset = self._flushed_offset = snapshot_id.end_offset
        self._high_watermark = snapshot_id.end_offset

    def keep_snapshots(self, snapshot_ids: Sequence[EpochEndOffset]) -> None:
        """The log begins where the oldest of them ends from now on."""
        oldest, newest = snapshot_ids[0], snapshot_ids[-1]
        if oldest.end_offset < self._log_start_offset or newest.end_offset > self._high_watermark:
            raise InvariantViolation(f"the snapshots {snapshot_ids} do not fit {self!r}")
        self._snapshots = tuple(snapshot_ids)
        self._log_start_offset = oldest.end_offset
        self._entries = self._behind_base(self._entries)

    def note_flushed(self, offset: int) -> None:
        self._flushed_offset = max(self._flushed_offset, min(offset, self._log_end_offset))

    def advance_high_watermark(self, offset: int) -> bool:
        """Advances the high watermark; False if it did not move. It never falls, however the leader's answer may
        look."""
        if offset <= self._high_watermark:
            return False
        if offset > self._log_end_offset:
            raise InvariantViolation(f"high watermark {offset} is above the log's end: {self!r}")
        self._high_watermark = offset
        return True
