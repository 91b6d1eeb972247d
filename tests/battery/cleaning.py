"""What the cleaner may take out of a log, by dumb rules, and how the workload runs it.

The rules look at all records below the bound at once: of each key only the newest record must stay; the newest may go
as well when it is a deletion that was kept for `delete.retention.ms`. The cleaner itself, with its bounded map, may take
less.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.record.batch import iter_headers, set_placement
from penstock.record.builder import build_batch
from penstock.record.reader import read_columns
from storage.log import Log
from storage.log_types import CleanedSegment
from tests.battery.history import LogHistory, Written
from tests.support.losing_fs import LosingFileSystem


class Cleaning(NamedTuple):
    """What may be gone after a cleaning."""

    superseded: list[Written]
    expired: list[Written]
    """Deletions; what they deleted must not come back."""

    @classmethod
    def of(cls, log: Log, history: LogHistory, below: int | None, now_ms: int) -> Cleaning:
        bound = min(log.recovery_point, log.segments[-1].base_offset)
        bound = bound if below is None else min(bound, below)
        newest: dict[bytes | None, Written] = {}
        there = sorted(record for record in history.kept.values() if record.offset < bound)
        for record in there:
            newest[record.key] = record
        superseded = [record for record in there if newest[record.key] != record]
        return cls(superseded, [])


def clean(fs: LosingFileSystem, log: Log, below: int | None, now_ms: int) -> None:
    """All full segments become one."""
    segments = log.cleanable_segments(log.recovery_point if below is None else below)
    if not segments:
        return
    batches: list[tuple[int, int, int, bytes]] = []
    newest: dict[bytes | None, int] = {}
    for segment in segments:
        fd = fs.open(segment.log_path)
        content = fs.pread(fd, segment.size_bytes, 0)
        fs.close(fd)
        for at, header in iter_headers(content):
            batches.append(
                (header.base_offset, header.next_offset, header.leader_epoch, content[at : at + header.size_bytes])
            )
            columns = read_columns(content[at : at + header.size_bytes])
            for offset, key in zip(columns.offsets, columns.keys or (), strict=False):
                newest[bytes(key or b"")] = offset
    kept = []
    for base, following, epoch, content in batches:
        columns = read_columns(content)
        if any(
            newest[bytes(key or b"")] == offset
            for offset, key in zip(columns.offsets, columns.keys or (), strict=False)
        ):
            kept.append(content)
        elif following == batches[-1][1]:
            empty = bytearray(build_batch([], timestamps_ms=now_ms, last_offset_delta=following - base - 1))
            set_placement(empty, 0, base, epoch)
            kept.append(bytes(empty))
    content = b"".join(kept)
    path = segments[0].log_path + ".cleaned"
    if path.rpartition("/")[2] in fs.listdir(log.directory):
        fs.unlink(path)
    fd = fs.open(path, create=True)
    try:
        fs.pwritev(fd, [content], 0)
        fs.fdatasync(fd)
    finally:
        fs.close(fd)
    log.replace_segments(
        CleanedSegment(path, segments[0].base_offset, segments[-1].next_offset, len(content)), segments
    )
