"""Finds out what a log knows of its producers, at a start and after a truncation: the newest good snapshot at or below
the log end, and the headers of the batches behind it.

A bad snapshot costs time only: an older one is used, and else every header from the log's first segment on. After a
clean stop there is a snapshot of the log end where there were producers. So a log that was stopped in order and has no
snapshot has no producers (older releases refused their batches), and nothing is read. If batches at its end say
otherwise, somebody removed the file, and all headers are read.

The time of a replayed append is not known. It was not after the last write to its segment, or to a later one; a
snapshot has its own times. No producer expires here, because a wall clock that is wrong at a start must not forget one:
the regular job does that (`ProducerLog.forget_silent`).

Snapshots above the log end, damaged ones and those of another history are removed, durably.

The `.txnindex` files are read as far as the newest snapshot says that they are right. A file that is missing, too short
or other than that ends it: what there is from its segment on must be read from the log. So a file that was damaged,
forged, or left behind by a cut or a cleaning costs time, and never gives a wrong answer. Entries behind those that the
snapshot knows are not looked at, because the batches behind it are read anyway.

`recovery.py` calls this at a start, `producer_log.py` after a truncation.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from penstock.errors import CorruptFileError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import BatchHeader
from penstock.record.markers import read_marker
from penstock.types import NO_OFFSET, EpochEntry
from storage.append.producer_ids import ProducerIds
from storage.append.producer_state import KnownProducers
from storage.disk.file_names import TXN_INDEX_SUFFIX, parse_snapshot_file
from storage.disk.file_system import FileSystem
from storage.recovery.producer_snapshot import ProducerSnapshot, read_snapshot, snapshot_path
from storage.segment.batch_scan import scan_headers
from storage.segment.segment import Segment
from storage.segment.transaction_index import AbortedRange, AbortedTransactions, IndexedSegment, iter_entries

_log = logging.getLogger(__name__)
_NO_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class ProducerReplay:
    """How batches are replayed."""

    now_ms: int
    """This node's wall time."""
    producers_max: int
    """The most producers of a log. Above it the longest silent one is forgotten, which its leader has forgotten
    before."""
    watch_ms: int = 0
    """The time by this process's even clock."""

    def take(
        self,
        known: KnownProducers,
        header: BatchHeader,
        not_after_ms: int,
        batch: Callable[[], bytes] = bytes,
        aborted: AbortedTransactions | None = None,
    ) -> None:
        """A batch of a producer that is in the log; `not_after_ms`: when it was there. `batch` reads its bytes; aborted
        transactions are added to `aborted`."""
        if not (header.is_numbered or header.is_transactional):
            return
        known.begin_append()  # what is in the log is not taken back: memory stays bounded by the producers known
        if header.is_numbered:
            known.take_read(header, not_after_ms)
        else:
            times_ms = not_after_ms, known.likely_ms(header, not_after_ms)
            take_unnumbered(known, aborted, header, batch, times_ms)
        while len(known) > self.producers_max and known.forget_oldest():
            pass


def replay_of(ids: ProducerIds | None) -> ProducerReplay | None:
    """How the batches of a log are replayed now; None if it keeps no producers."""
    if ids is None:
        return None
    return ProducerReplay(ids.clock.wall_ms(), ids.config.max_per_partition, ids.clock.now_ms())


def take_unnumbered(
    known: KnownProducers,
    aborted: AbortedTransactions | None,
    header: BatchHeader,
    batch: Callable[[], bytes],
    times_ms: tuple[int, int] | tuple[int, int, int],
) -> bool:
    """Notes a transactional batch without a sequence that the log has now: a marker, or a coordinator's batch. `batch`
    gives a marker's bytes. The times are a bound, a guess, and that of the even clock where the batch was not read from
    a log. True if the producer was not known."""
    if not header.is_control:
        return known.take_unnumbered(header, *times_ms)
    marker = read_marker(batch()) if header.record_count else None
    if marker is None and header.record_count:
        return False
    is_new, first_offset = known.take_marker(header, marker, *times_ms)
    if aborted is not None and marker is not None and not marker.is_committed and first_offset != NO_OFFSET:
        ended = AbortedRange(header.producer_id, first_offset, header.base_offset)
        aborted.add(ended, known.undecided.stable_after(header.base_offset))
    return is_new


class LoadedProducers(NamedTuple):
    """The producers that a log knows, and its snapshots."""

    known: KnownProducers
    aborted: AbortedTransactions
    snapshots: tuple[int, ...] = ()
    """The offsets of the files that are there, ascending; only the newest was looked into."""
    batches_read: int = 0
    """How many headers it took."""
    indexes: tuple[IndexedSegment, ...] = ()
    """The `.txnindex` files that are as the snapshot says."""


def found_snapshots(entries: Mapping[str, bool]) -> tuple[int, ...]:
    """The offsets of the snapshots among a directory's names, ascending; `entries`: whether each is a directory."""
    offsets = (parse_snapshot_file(name) for name, is_directory in entries.items() if not is_directory)
    return tuple(sorted(offset for offset in offsets if offset is not None))


def load_producers(
    fs: FileSystem,
    directory: str,
    offsets: Sequence[int],
    segments: Sequence[Segment],
    entries: Sequence[EpochEntry],
    replay: ProducerReplay,
    *,
    with_aborted: bool = True,
) -> LoadedProducers:
    """Loads the producers of the snapshots at these offsets and of the segments, whose ends are known. The aborted
    transactions only on demand."""
    first, end = segments[0].base_offset, segments[-1].next_offset
    snapshot = newest_good(fs, directory, offsets, first, end, entries)
    left = [offset for offset in offsets if offset < first or (snapshot is not None and offset <= snapshot.offset)]
    remove_snapshots(fs, directory, offsets[len(left) :])
    files = TransactionIndexes((), AbortedTransactions(), None)
    if snapshot is not None and with_aborted:
        files = read_indexes(fs, segments, snapshot.indexes)
        if files.bad_from is not None:
            _log.warning("%s: reading the aborted transactions from %d on from the log", directory, files.bad_from)
            below = [offset for offset in left if offset <= files.bad_from]
            before = newest_good(fs, directory, below, first, end, entries)
            _read_aborted(files.aborted, files.bad_from, before, snapshot.offset, segments, replay)
    known = _known_at(snapshot)
    known.were_silent(snapshot.silences if snapshot is not None else {}, replay.watch_ms)
    begin = snapshot.offset if snapshot is not None else first
    count, _ = replay_batches(known, segments, begin, replay, aborted=files.aborted)
    known.watch_read(replay.watch_ms)
    return LoadedProducers(known, files.aborted, tuple(left), count, files.good)


def _known_at(snapshot: ProducerSnapshot | None) -> KnownProducers:
    return KnownProducers() if snapshot is None else KnownProducers(snapshot.producers, snapshot.ended)


def _read_aborted(
    aborted: AbortedTransactions,
    bad_from: int,
    before: ProducerSnapshot | None,
    below: int,
    segments: Sequence[Segment],
    replay: ProducerReplay,
) -> None:
    """Add what the log tells of the markers from `bad_from` on, up to `below`."""
    found = AbortedTransactions()
    begin = before.offset if before is not None else segments[0].base_offset
    replay_batches(_known_at(before), segments, begin, replay, below, aborted=found)
    aborted.take_all(entry for entry in found.entries() if entry.aborted.last_offset >= bad_from)


def newest_good(
    fs: FileSystem, directory: str, offsets: Sequence[int], first: int, end: int, entries: Sequence[EpochEntry]
) -> ProducerSnapshot | None:
    """The newest of the snapshots at these offsets, ascending, that is of a log from `first` to `end`."""
    for offset in reversed(offsets):
        if offset < first:
            break
        snapshot = _good(fs, directory, offset, first, end, entries)
        if snapshot is not None:
            return snapshot
    return None


def _good(
    fs: FileSystem, directory: str, offset: int, first: int, end: int, entries: Sequence[EpochEntry]
) -> ProducerSnapshot | None:
    if offset > end:
        return None
    try:
        snapshot = read_snapshot(fs, directory, offset)
    except CorruptFileError as damage:
        _log.warning("%s; reading the producers from an older snapshot, or from the log", damage)
        return None
    return snapshot if snapshot is not None and snapshot.is_of(first, end, entries) else None


def remove_snapshots(fs: FileSystem, directory: str, offsets: Iterable[int]) -> None:
    """Removes snapshots; durable when it returns."""
    removed = False
    for offset in offsets:
        with contextlib.suppress(FileNotFoundError):
            fs.unlink(snapshot_path(directory, offset))
            removed = True
    if removed:
        fs.fsync_dir(directory)


def replay_batches(
    known: KnownProducers,
    segments: Sequence[Segment],
    begin: int,
    replay: ProducerReplay,
    below: int = _NO_LIMIT,
    is_wanted: Callable[[], bool] = lambda: True,
    aborted: AbortedTransactions | None = None,
) -> tuple[int, int]:
    """Take every batch from `begin` on that ends at or below `below`, while it is wanted; returns how many headers were
    read, and where the last batch ended."""
    count, end = 0, begin
    segments = [segment for segment in segments if segment.next_offset > begin and segment.size_bytes]
    for segment, written_ms in zip(segments, _last_writes(segments, replay.now_ms), strict=True):
        position = segment.place_of(begin).position if begin > segment.base_offset else 0
        file = segment.file()
        for at, header in scan_headers(file, position):
            if header.next_offset > below or not is_wanted():
                return count, end
            count, end = count + 1, max(end, header.next_offset)
            if header.producer_id >= 0 and header.base_offset >= begin:
                replay.take(known, header, written_ms, partial(file.read, header.size_bytes, at), aborted)
        if segment is not segments[-1]:
            segment.release()
    known.begin_append()
    return count, end


def _last_writes(segments: Sequence[Segment], now_ms: int) -> list[int]:
    """When the last batch of each was there at the latest. The cleaner, and a copy, write a segment anew."""
    times: list[int] = []
    for segment in reversed(segments):
        now_ms = min(now_ms, segment.modified_ms())
        times.append(now_ms)
    return times[::-1]


class TransactionIndexes(NamedTuple):
    """The files that were read."""

    good: tuple[IndexedSegment, ...]
    aborted: AbortedTransactions
    """The entries of the good indexes."""
    bad_from: int | None
    """The base offset of the first segment whose file is not as it should be; None if all are."""


def read_indexes(fs: FileSystem, segments: Sequence[Segment], wanted: Sequence[IndexedSegment]) -> TransactionIndexes:
    """Reads the files of the wanted segments; those that were removed from the beginning of the log are not missed."""
    by_base = {segment.base_offset: segment for segment in segments}
    aborted = AbortedTransactions()
    good: list[IndexedSegment] = []
    for one in wanted:
        if one.base_offset < segments[0].base_offset:
            continue
        segment = by_base.get(one.base_offset)
        content = None if segment is None else _content(fs, segment.stem + TXN_INDEX_SUFFIX)
        entries = None if content is None else one.of_file(content)
        if entries is None:
            return TransactionIndexes(tuple(good), aborted, one.base_offset)
        aborted.take_all(iter_entries(entries))
        good.append(one)
    return TransactionIndexes(tuple(good), aborted, None)


def _content(fs: FileSystem, path: str) -> bytes | None:
    try:
        return fs.read_file(path)
    except FileNotFoundError:
        return None
