"""Compares the leader epochs of batches with the leader-epoch-checkpoint while a log is recovered.

The checksum of a batch does not cover its leader epoch; the checkpoint has a checksum (`checkpoint_file.py`). So the
checkpoint decides. It is durable BEFORE any record of a new epoch counts as flushed: below the recovery point every
batch has the epoch that the checkpoint says, and any other epoch is rot. From the recovery point on, a batch may begin
a later epoch that the checkpoint does not have yet. A missing or damaged checkpoint is made anew from the batches.

`recovery.py` decides what follows from rot.
"""

from __future__ import annotations

import logging

from penstock import epochs
from penstock.errors import CorruptFileError
from penstock.record.batch import BatchHeader
from penstock.record.verifier import at_offset, epoch_fault
from penstock.types import NO_EPOCH, EpochEntry
from storage.disk.checkpoint_file import read_epochs, write_epochs
from storage.disk.file_names import LEADER_EPOCH_CHECKPOINT
from storage.disk.file_system import FileSystem
from storage.segment.batch_scan import scan_headers
from storage.segment.segment import Segment

_log = logging.getLogger(__name__)
_NO_BOUND = 2**63


class EpochCheck:
    """Is given every batch that recovery checks, in the order of the log."""

    __slots__ = ("_bound", "_epoch", "_from", "_fs", "_on_disk", "_until", "damage", "entries", "is_known", "path")

    def __init__(self, fs: FileSystem, directory: str, recovery_point: int) -> None:
        self._fs, self.path = fs, f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        self._bound = recovery_point
        self.damage: CorruptFileError | None = None
        """The reason why the checkpoint is not believed; None if it is good, or missing."""
        self._on_disk = self._read()
        self.is_known = self._on_disk is not None
        self.entries: tuple[EpochEntry, ...] = self._on_disk or ()
        self._epoch, self._from, self._until = NO_EPOCH, 0, 0

    def _read(self) -> tuple[EpochEntry, ...] | None:
        try:
            return read_epochs(self._fs, self.path)
        except CorruptFileError as damage:
            self.damage = damage
            _log.warning("%s; taking the epochs from the log", damage)
            return None

    def learn(self, segments: list[Segment]) -> None:
        """Reads the epochs of the segments that recovery does not check, if there is no checkpoint."""
        for segment in () if self.is_known else segments:
            expected = segment.base_offset
            for position, header in scan_headers(segment.file(), 0):
                why = self.wrong(header, expected)
                if why is not None:
                    raise CorruptFileError(segment.log_path, position, why)
                expected = header.next_offset
            segment.release()

    def wrong(self, header: BatchHeader, expected_offset: int) -> str | None:
        """Why the batch cannot have this leader epoch; None when it can. `expected_offset` is the end of the batch
        before."""
        epoch, last_offset = header.leader_epoch, header.last_offset
        if epoch == self._epoch and self._from <= last_offset < self._until:
            return None
        if self._is_below_the_log(last_offset):
            return None
        fault = epoch_fault(epoch, last_offset, self.entries)
        if fault is not None:
            latest = self.entries[-1].epoch if self.entries else NO_EPOCH
            if epoch <= latest or (self.is_known and header.base_offset < self._bound):
                return at_offset(header.base_offset, fault)
            self.entries = epochs.assign(self.entries, epoch, expected_offset)
        self._remember(epoch, last_offset)
        return None

    def _is_below_the_log(self, offset: int) -> bool:
        return offset < self.log_start_offset

    def _remember(self, epoch: int, offset: int) -> None:
        later = (entry.start_offset for entry in self.entries if entry.start_offset > offset)
        self._epoch, self._from, self._until = epoch, offset, next(later, _NO_BOUND)

    @property
    def log_start_offset(self) -> int:
        """The log start as the first epoch tells it, for the first epoch moves with the log start; 0 when not known.

        A checkpoint without epochs belongs to a log whose flushed records were all deleted: the log starts at their
        end.
        """
        if not self.is_known:
            return 0
        return self.entries[0].start_offset if self.entries else self._bound

    def settle(self, first_offset: int, log_start_offset: int, log_end_offset: int) -> tuple[EpochEntry, ...]:
        """The epochs of the recovered log. They are durable: the file must have every epoch below the log end.

        `first_offset`: where its files begin. If every record in them is deleted, the newest epoch stays, at the log
        end, as in a log that runs: it alone says where the log starts.
        """
        is_emptied = first_offset < log_start_offset == log_end_offset
        entries = epochs.truncate_from_end(self.entries, log_end_offset + is_emptied)
        entries = epochs.truncate_from_start(entries, log_start_offset)
        if entries != (self._on_disk or ()):
            write_epochs(self._fs, self.path, entries)
        return entries

    def __repr__(self) -> str:
        return f"EpochCheck({self.path}, known={self.is_known}, {len(self.entries)} entries)"
