"""The file of a snapshot of a log's producers, `NNNNNNNNNNNNNNNNNNNN.snapshot`: all below the offset in its name.

    1                                       version
    48211 7 1                               the offset; the leader epoch of the record before it, -1: none; producers
    4000 0 1700000000000 9:48190:19:-1      producer id; its epoch; when it last appended, in ms of this node's wall
                                            time, or before; then its newest batches, one to five, oldest first:
                                            base sequence:base offset:last offset delta:append time in ms (-1: none)
    crc32c 0a1b2c3d                         CRC-32C of every byte before this line (sealed_text.py)

The time is `TIME~LIKELY` where the producer probably appended earlier (`producer_state.py`). The version is 2 then: a
release that knows version 1 alone reads the log instead.

The producers are in the order of their last appends. A snapshot saves reading the headers of all older batches, and
nothing more: one that is damaged, missing or of another history is not used. It is of this log if the record before its
offset has the same leader epoch here, because two logs with one epoch at an offset are equal below it (KIP-101). So
neither a power cut that brings back the snapshot of a cut tail, nor one that loses the log behind it, can make a log
believe it. A truncation deletes the snapshots above the cut all the same, durably BEFORE it cuts.

`producer_recovery.py` uses it, `producer_snapshots.py` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock import epochs
from penstock.errors import CorruptFileError
from penstock.types import NO_EPOCH, NO_TIMESTAMP, EpochEntry
from storage.append.producer_state import SEQUENCES, WINDOW, ProducerEntry, TakenBatch
from storage.disk.atomic_file import read_text
from storage.disk.file_names import SNAPSHOT_SUFFIX, file_stem
from storage.disk.file_system import FileSystem
from storage.disk.sealed_text import seal, unseal

VERSION = 1
VERSION_WITH_LIKELY_TIMES = 2
MAX_EPOCH = 2**15 - 1
_MAX_ID = 2**63 - 1


class ProducerSnapshot(NamedTuple):
    """The producers of a log, from its batches below the offset."""

    offset: int
    leader_epoch: int
    """The leader epoch of the record before the offset."""
    producers: dict[int, ProducerEntry]
    """In the order of their last appends."""

    def is_of(self, first_offset: int, log_end_offset: int, entries: Sequence[EpochEntry]) -> bool:
        """True if it is a snapshot of this log, whose files begin at `first_offset`.

        The epoch of a record that was deleted is not known any more; it is not above the first that is known.
        """
        if not first_offset <= self.offset <= log_end_offset:
            return False
        here = epochs.epoch_for_offset(entries, self.offset - 1)
        if here == NO_EPOCH:
            return not entries or self.leader_epoch <= entries[0].epoch
        return self.leader_epoch == here


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{file_stem(offset)}{SNAPSHOT_SUFFIX}"


def snapshot_content(snapshot: ProducerSnapshot) -> bytes:
    """The file's bytes."""
    has_likely = any(known.likely_append_ms != NO_TIMESTAMP for known in snapshot.producers.values())
    version = VERSION_WITH_LIKELY_TIMES if has_likely else VERSION
    lines = [f"{version}\n{snapshot.offset} {snapshot.leader_epoch} {len(snapshot.producers)}\n"]
    for producer_id, known in snapshot.producers.items():
        batches = " ".join([":".join(map(str, batch)) for batch in known.batches])
        likely = f"~{known.likely_append_ms}" if known.likely_append_ms != NO_TIMESTAMP else ""
        lines.append(f"{producer_id} {known.epoch} {known.last_append_ms}{likely} {batches}\n")
    return seal("".join(lines))


def read_snapshot(fs: FileSystem, directory: str, offset: int) -> ProducerSnapshot | None:
    """The snapshot at the offset; None if there is none, CorruptFileError if it is damaged."""
    path = snapshot_path(directory, offset)
    text = read_text(fs, path)
    if text is None:
        return None
    if not text.isascii() or not text.endswith("\n"):
        raise CorruptFileError(path, len(text), "not ASCII text that ends with a line feed")
    lines = unseal(path, text).split("\n")[:-1]
    try:
        return _parsed(lines, offset)
    except ValueError as error:
        raise CorruptFileError(path, 0, f"not a snapshot of producers: {error!s:.200}") from error


def _parsed(lines: list[str], offset: int) -> ProducerSnapshot:
    if len(lines) < 2:
        raise ValueError("no version line, or no line with the offset")
    if int(lines[0]) not in (VERSION, VERSION_WITH_LIKELY_TIMES):
        raise ValueError(f"version {lines[0]:.20}, this release knows {VERSION} and {VERSION_WITH_LIKELY_TIMES}")
    found_offset, leader_epoch, count = map(int, lines[1].split(" "))
    if found_offset != offset or count != len(lines) - 2:
        raise ValueError(f"offset {found_offset} and {count} producers, in a file of {len(lines) - 2} producers")
    if int(lines[0]) == VERSION and any("~" in line for line in lines):
        raise ValueError(f"likely times, which version {VERSION} has not")
    producers = dict(_producer(line, offset) for line in lines[2:])
    if len(producers) != count:
        raise ValueError("a producer is there twice")
    return ProducerSnapshot(offset, leader_epoch, producers)


def _producer(line: str, snapshot_offset: int) -> tuple[int, ProducerEntry]:
    producer_id, epoch, last_append, *texts = line.split(" ", 3 + WINDOW)
    last_append_ms, is_guessed, likely_append_ms = last_append.partition("~")
    batches = tuple([_batch(text) for text in texts])
    likely_ms = int(likely_append_ms) if is_guessed else NO_TIMESTAMP
    entry = ProducerEntry(int(epoch), batches, int(last_append_ms), likely_ms)
    offset = -1
    if not 1 <= len(batches) <= WINDOW:
        raise ValueError(f"{len(batches)} batches: {line:.100}")
    for batch in batches:
        if batch.base_offset <= offset or batch.last_offset_delta < 0 or not 0 <= batch.base_sequence < SEQUENCES:
            raise ValueError(f"batches that cannot follow each other: {line:.100}")
        offset = batch.last_offset
    if is_guessed and not 0 <= likely_ms < entry.last_append_ms:
        raise ValueError(f"a likely time that is not before the last one: {line:.100}")
    if not 0 <= offset < snapshot_offset or not 0 <= entry.epoch <= MAX_EPOCH or not 0 <= int(producer_id) <= _MAX_ID:
        raise ValueError(f"numbers out of range: {line:.100}")
    return int(producer_id), entry


def _batch(text: str) -> TakenBatch:
    base_sequence, base_offset, last_offset_delta, append_time_ms = text.split(":")
    return TakenBatch(int(base_sequence), int(base_offset), int(last_offset_delta), int(append_time_ms))
