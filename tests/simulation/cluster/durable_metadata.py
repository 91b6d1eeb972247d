"""The part of a node's metadata that is on its simulated disk: the log, and the snapshots that stand for its beginning.

A sound snapshot covers what is below its end, as long as the log begins there or before. Where the log does not reach
it, or has another epoch there, a start gives the log up (broker/quorum/metadata_log_start.py): it counts no more. Not
here: which node must hold what (quorum_invariants.py).
"""

from __future__ import annotations

from collections.abc import Callable

from metadata.image import MetadataImage
from metadata.snapshot import decode_snapshot
from penstock.errors import CorruptMessageError
from penstock.types import EpochEndOffset
from storage.disk.file_names import parse_metadata_snapshot
from tests.simulation.cluster.durable_log import DurableLog, HasDisk
from tests.support.losing_fs import File


class DurableMetadata(DurableLog):
    """See the module."""

    def __init__(self, machine: HasDisk, directory: str, seen: Callable[[str, MetadataImage], None]) -> None:
        """`seen` is told of each snapshot once."""
        super().__init__(machine, directory)
        self._seen = seen
        self._checked: dict[str, tuple[bytes, bool]] = {}

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches and not self.is_superseded else self.covered

    def refresh(self) -> None:
        """The snapshots, too."""
        super().refresh()
        first = self.batches[0].base_offset if self.batches else self.begins_at
        newest = max((one for one in self._sound() if one.end_offset >= first), key=_end, default=None)
        self.covered = newest.end_offset if newest is not None else 0
        self.is_superseded = newest is not None and not self._fits(newest)

    def _sound(self) -> list[EpochEndOffset]:
        """The sound ones among the snapshots that a power cut would leave. A file with that name is never changed, but
        by a fault."""
        found = []
        for name, file in (self._entries or {}).items():
            snapshot_id = parse_metadata_snapshot(name)
            if snapshot_id is not None and isinstance(file, File) and self._is_sound(name, snapshot_id, file.durable):
                found.append(snapshot_id)
        return found

    def _is_sound(self, name: str, snapshot_id: EpochEndOffset, content: bytes) -> bool:
        before = self._checked.get(name)
        if before is not None and before[0] is content:
            return before[1]
        try:
            image = decode_snapshot(content, snapshot_id)
        except CorruptMessageError:
            self._checked[name] = (content, False)
            return False
        self._seen(self._machine.name, image)
        self._checked[name] = (content, True)
        return True

    def _fits(self, snapshot_id: EpochEndOffset) -> bool:
        epoch, end_offset = snapshot_id
        if not self.batches or self.start == end_offset:
            return True
        last = self.at(end_offset - 1)
        return last is not None and last.epoch == epoch


def _end(snapshot_id: EpochEndOffset) -> int:
    return snapshot_id.end_offset
