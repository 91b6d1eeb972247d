"""Finds at a start what stands for the beginning of the metadata log, and makes the log fit it (KIP-630).

The newest snapshot that is sound counts. The log goes on behind it, so it must reach back to where that ends:

    snapshot ─────────────┤ end
    log            ├──────┼──────────┤      it fits: the image is the snapshot and what the log has behind it
    log   ├───┤           │                 a crash fell between an installed snapshot and the log's new beginning: the
                          │                 log begins anew at `end`; all that it may hold besides was never committed
    log                   │   ├──────┤      a hole: the node does not start

What the log has below `end` is the same that the snapshot has; if its epochs differ there, it is the second case, too.

Where `metadata.version` was lowered below `end`, all before that is left out: an older release cannot read it, and may
ask for it as a follower. It went when the snapshot was written, but a crash may have brought it back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from broker.quorum.metadata_log import nothing_to_note
from broker.quorum.metadata_log_opening import refuse_hole
from broker.quorum.metadata_snapshots import KeptSnapshot, LogBeginning, MetadataSnapshots, loaded_snapshot
from metadata.codec import encode_record
from metadata.image import MetadataImage
from metadata.records import FeatureLevelRecord
from penstock.errors import CorruptMessageError
from penstock.record.batch import iter_headers
from penstock.types import NO_OFFSET, EpochEndOffset
from raft.decided_log import BEGINNING
from raft.driver.protocols import LoadedSnapshot
from raft.voter_records import voters_in
from raft.voters import VoterSet
from storage.disk.file_names import metadata_snapshot_name
from storage.log.log import Log

_log = logging.getLogger(__name__)

_SCANNED_BYTES = 1 << 20
"""Read at once while the log's voters, or levels, are looked for."""
_LEVEL: Final = encode_record(FeatureLevelRecord("", 0, "")).partition(b",")[0]
"""The beginning of each record of a level."""


def find_beginning(
    log: Log, snapshots: MetadataSnapshots, before_cut: Callable[[], None] = nothing_to_note
) -> LogBeginning:
    """Finds the snapshots with which the log begins, AFTER the log was made to fit. CorruptFileError if records are
    missing. `before_cut` is called BEFORE the log goes without its beginning, or goes on without it.

    A voter has found out BEFORE what it forgot (`voter_memory.py`): a log that was cut or lost reaches the end of the
    snapshot here, but not what was acked behind it.
    """
    found = snapshots.found()
    loaded = _newest_sound(found, snapshots)
    start = log.log_start_offset
    refuse_hole(log, loaded.snapshot_id.end_offset if loaded is not None else 0)
    if loaded is None:
        return LogBeginning(voter_sets=tuple(_voter_sets(log, None)))
    newest = loaded.snapshot_id
    has_stale_epochs = log.log_start_offset == log.log_end_offset and log.latest_epoch > newest.epoch
    begins_anew = not _has(log, newest) or has_stale_epochs
    if begins_anew or start > 0:
        before_cut()
    if begins_anew:
        _log.warning(
            "the metadata log %d..%d begins anew behind %s", start, log.log_end_offset, metadata_snapshot_name(newest)
        )
        log.truncate_fully_and_start_at(newest.end_offset)
        start = newest.end_offset
    elif start < newest.end_offset and _is_lowered(log, loaded):
        if start == 0:
            before_cut()
        start = newest.end_offset
        log.advance_log_start(start)
    older = [one for one in found if start <= one.end_offset < newest.end_offset and _has(log, one)]
    kept = [*_described(older, snapshots), snapshots.kept(newest)]
    if start == 0:
        kept.insert(0, KeptSnapshot(BEGINNING, 0, 0))
    elif start < kept[0].snapshot_id.end_offset:
        log.advance_log_start(kept[0].snapshot_id.end_offset)
    snapshots.remove(one for one in found if one.end_offset < kept[0].snapshot_id.end_offset)
    return LogBeginning(tuple(kept), loaded, tuple(_voter_sets(log, loaded)))


def _voter_sets(log: Log, loaded: LoadedSnapshot | None) -> Iterator[tuple[int, VoterSet]]:
    """The voters that the snapshot names, and those of each record behind it, committed or not: nothing below its end
    is ever cut back. A log of static voters is looked through for the record's beginning alone."""
    at = log.log_start_offset
    if loaded is not None:
        at = loaded.snapshot_id.end_offset
        if loaded.voters is not None:
            yield NO_OFFSET, loaded.voters
    for records in _read(log, at, log.log_end_offset):
        yield from ((offset, voters) for offset, voters in voters_in(records) if offset >= at)


def _is_lowered(log: Log, loaded: LoadedSnapshot) -> bool:
    """True if the log has a record of a level below the end of the snapshot, which has none itself."""
    if not isinstance(loaded.contents, MetadataImage) or loaded.contents.levels:
        return False
    return any(_LEVEL in records for records in _read(log, log.log_start_offset, loaded.snapshot_id.end_offset))


def _read(log: Log, at: int, end: int) -> Iterator[bytes]:
    """The batches from an offset to another, some at once."""
    while at < end:
        records = bytes(log.reader.read(at, _SCANNED_BYTES).records)
        yield records
        at = max(header.next_offset for _, header in iter_headers(records))


def _newest_sound(found: tuple[EpochEndOffset, ...], snapshots: MetadataSnapshots) -> LoadedSnapshot | None:
    for snapshot_id in reversed(found):
        try:
            return loaded_snapshot(snapshot_id, snapshots.load(snapshot_id))
        except CorruptMessageError as damage:
            _log.error("%s is damaged and is not used: %s", snapshots.path(snapshot_id), damage)
    return None


def _has(log: Log, snapshot_id: EpochEndOffset) -> bool:
    """True if the log reaches the snapshot's end, and has the record before it, or begins there."""
    epoch, end_offset = snapshot_id
    if log.log_start_offset == end_offset:
        return True
    is_inside = log.log_start_offset < end_offset <= log.log_end_offset
    return is_inside and log.epoch_for_offset(end_offset - 1) == epoch


def _described(snapshot_ids: list[EpochEndOffset], snapshots: MetadataSnapshots) -> list[KeptSnapshot]:
    kept = []
    for snapshot_id in snapshot_ids:
        try:
            kept.append(snapshots.kept(snapshot_id))
        except CorruptMessageError as damage:
            _log.error("%s is damaged and is not used: %s", snapshots.path(snapshot_id), damage)
    return kept
