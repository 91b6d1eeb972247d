"""Opens the files of one log: tidies leftovers, cuts a torn tail, refuses rot.

The *recovery point* R comes from the last checkpoint of the log dir: every record below it was flushed (and perhaps
some above it). After a clean stop R is the log end, and only the end of the newest segment is checked. Otherwise every
batch is checked from the segment that holds the record before R: its checksum, its length, and that offsets are dense.
Cleaned logs are dense too (`offset_tiling.py`), and each segment begins where the one before ends. Let X be the offset
that should stand at the first bad byte:

  X < R              ROT. The record was on the disk, so no crash explains it. CorruptFileError; nothing is cut. The
                     replica goes offline; it is set aside and fetched anew (Alagappan et al., "Protocol-Aware Recovery
                     for Consensus-Based Storage", FAST'18: never truncate acked records).
  X >= R             A TORN TAIL, as far as can be told. Rot in records that were flushed after the last checkpoint
                     looks the same, but other replicas have those. The log is cut at X; segments behind X are removed,
                     newest first. Rolling does not wait for a flush, so the tear may be in an older segment. Everything
                     behind it is unflushed too, because a flush covers all segments up to its end.
  R not known        The checkpoint is missing or damaged. (A log without a line in a *good* checkpoint is younger than
                     the checkpoint, and R is its start.) A bad byte in an older segment is then far more likely rot
                     than a tear, and a cut would drop whole segments: CorruptFileError. In the newest segment it is
                     taken for a tear.

The surviving records are synced before they count: a killed process leaves records in the page cache that are not on
the disk. A log that ends below R is refused; one that ends below the log start in its checkpoint, which may be above R,
begins anew there (log.py). Indexes are rebuilt for each checked segment, and each leader epoch is compared with the
epoch checkpoint (`epoch_check.py`).

Even with X >= R, a tail that is no torn append may have been flushed (`doubtful_tail.py`). An owner that must not
forget acked records, like a voter of the quorum, is called BEFORE such a cut and may refuse it.

R comes from `log_directory.py`; the broker decides what follows from an offline log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from penstock.errors import CorruptFileError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import BatchHeader
from penstock.record.verifier import at_offset, offset_fault
from penstock.types import TopicPartition
from storage.append.producer_state import KnownProducers
from storage.disk.file_system import FileSystem
from storage.disk.small_file_writes import SmallFileWrites
from storage.log_config import LogConfig
from storage.recovery.doubtful_tail import is_torn_append
from storage.recovery.epoch_check import EpochCheck
from storage.recovery.producer_recovery import LoadedProducers, ProducerReplay, found_snapshots, load_producers
from storage.segment import segment_faults
from storage.segment.batch_scan import scan_headers, scan_verified
from storage.segment.epoch_cache import EpochCache
from storage.segment.places import Place
from storage.segment.segment import Segment
from storage.segment.segment_files import find_segments, first_with, tidy
from storage.segment.transaction_index import AbortedTransactions

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LastKnown:
    """The log dir's knowledge of a log when it last wrote its checkpoints."""

    clean: bool = False
    recovery_point: int | None = None
    """The recovery point; None without a good checkpoint."""
    log_start_offset: int = 0

    @classmethod
    def of(
        cls,
        topic_partition: TopicPartition,
        *,
        clean: bool,
        recovery_points: Mapping[TopicPartition, int] | None,
        log_starts: Mapping[TopicPartition, int],
    ) -> LastKnown:
        """A log without a line in a good checkpoint is younger than the checkpoint: nothing of it need be flushed."""
        point = None if recovery_points is None else recovery_points.get(topic_partition, 0)
        return cls(clean, point, log_starts.get(topic_partition, 0))


BeforeDoubtfulCut = Callable[[CorruptFileError], None]
"""Called BEFORE a tail that may have been flushed is cut. If it raises, the cut and the log are refused."""


@dataclass(frozen=True, slots=True)
class RecoveryOptions:
    """The wishes of a log's owner for its recovery."""

    before_doubtful_cut: BeforeDoubtfulCut | None = None
    replay: ProducerReplay | None = None
    """How the batches of producers are replayed; None: the log keeps no producers."""
    on_segment_checked: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """The state of an opened log. Invariant: all of it is durable."""

    segments: list[Segment]
    epoch_cache: EpochCache
    log_start_offset: int
    log_end_offset: int
    cut_bytes: int
    """Bytes of a torn tail that were cut."""
    producers: LoadedProducers


def open_segments(
    fs: FileSystem,
    directory: str,
    config: LogConfig,
    last_known: LastKnown,
    names: SmallFileWrites,
    options: RecoveryOptions | None = None,
) -> RecoveredLog:
    """Opens and recovers a log's segments; creates the first segment of an empty log."""
    entries = tidy(fs, directory)
    segments = find_segments(fs, directory, config.index_interval_bytes, entries)
    recovery = _Recovery(fs, directory, config, last_known, segments, options or RecoveryOptions())
    try:
        recovery.run()
        return recovery.result(names, found_snapshots(entries))
    except BaseException:  # a log that is offline keeps no file open
        for segment in segments:
            segment.close()
        raise


def is_cut(offset: int, recovery_point: int | None, *, is_newest: bool) -> bool:
    """True if a start cuts the log at bytes that are no good batch, where this offset should stand; False if it refuses
    the log. `is_newest`: they are in the newest segment."""
    return is_newest if recovery_point is None else offset >= recovery_point


class _Recovery:
    """One opening of one log."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        config: LogConfig,
        last_known: LastKnown,
        segments: list[Segment],
        options: RecoveryOptions,
    ) -> None:
        self._options = options
        self._needs_no_replay = False
        """The log was stopped in order, was never rolled, and no producer has a batch at its end."""
        self._fs, self._directory, self._config, self._last_known = fs, directory, config, last_known
        self._segments = segments
        self._cut_bytes = 0
        self._bound = last_known.recovery_point or 0
        self._epochs = EpochCheck(fs, directory, self._bound)

    def run(self) -> None:
        for segment in self._segments[:-1]:
            if segment.size_bytes == 0 and segment.next_offset <= self._bound:
                raise CorruptFileError(segment.log_path, 0, "the file is empty, but its records were flushed")
        if not self._segments:
            self._must_end_at_bound(self._directory, 0, 0)
            self._create_first()
        elif not (self._last_known.clean and self._ends_at_recovery_point()):
            self._check_from_recovery_point()

    def _create_first(self) -> None:
        first = Segment(self._fs, self._directory, 0, self._config.index_interval_bytes)
        first.create()
        self._segments.append(first)

    def _ends_at_recovery_point(self) -> bool:
        """True if the log ends at its recovery point after a clean stop. Walks the headers behind the newest segment's
        last index entry."""
        newest = self._segments[-1]
        try:
            self._epochs.learn(self._segments)
            file, has_producers = newest.file(), False
            end = Place(0, newest.base_offset)
            for position, header in scan_headers(file, newest.indexes.peek_last_position(file)):
                why = self._epochs.wrong(header, end.offset)
                if why is not None:
                    raise CorruptFileError(file.path, position, why)
                end = Place(position + header.size_bytes, header.next_offset)
                has_producers |= header.producer_id >= 0
        except CorruptFileError as damage:
            _log.warning("%s; checking the log, although it was closed cleanly", damage)
            return False
        if end.offset != self._bound:
            return False
        newest.adopt(newest.size_bytes, end.offset)
        self._needs_no_replay = not has_producers and len(self._segments) == 1
        return True

    def _check_from_recovery_point(self) -> None:
        first = first_with([segment.base_offset for segment in self._segments], self._bound)
        self._epochs.learn(self._segments[:first])
        at, expected = first, self._segments[first].base_offset
        while at < len(self._segments):
            segment = self._segments[at]
            place, damage = self._check(segment, expected)
            if damage is not None:
                self._cut(at, place, damage)
                if place.position == 0 and at > first:
                    # No batch of it is good, or it does not begin at the expected offset: the segment is removed.
                    self._drop_newest()
                    break
            self._fs.fdatasync(segment.fd())
            segment.adopt(place.position, place.offset, checked=True)
            expected = place.offset
            at += 1
            self._options.on_segment_checked()
        self._fs.fsync_dir(self._directory)
        newest = self._segments[-1]
        self._must_end_at_bound(newest.log_path, newest.size_bytes, newest.next_offset)

    def _check(self, segment: Segment, expected: int) -> tuple[Place, CorruptFileError | None]:
        """The end of the good part of the segment, and the damage there if that is not the end of the file."""
        segment.indexes.start_empty()
        place = Place(0, expected)
        apart = segment_faults.begin_fault(segment.base_offset, expected)
        if apart is not None:
            return place, CorruptFileError(segment.log_path, 0, apart)
        place = Place(0, segment.base_offset)
        try:
            for position, header in self._verified(segment):
                fault = offset_fault(header.base_offset, place.offset)
                why = None if fault is None else at_offset(header.base_offset, fault)
                why = why or self._epochs.wrong(header, place.offset)
                if why is not None:
                    return place, CorruptFileError(segment.log_path, position, why)
                segment.indexes.note(position, header)
                place = Place(position + header.size_bytes, header.next_offset)
        except CorruptFileError as damage:
            return place, damage
        return place, None

    def _verified(self, segment: Segment) -> Iterator[tuple[int, BatchHeader]]:
        """Every batch, checked. Batches that may be unflushed are read from the disk, not from the page cache.

        After a failed fsync the page cache shows bytes that the disk does not have, and no later fsync writes them
        (Rebello et al., "Can Applications Recover from fsync Failures?", ATC'20). The node stopped using the log then;
        its next start must not trust the cache either.
        """
        file = segment.file()
        for position, header in scan_verified(file, 0):
            if header.next_offset > self._bound:
                break
            yield position, header
        else:
            return
        self._fs.fdatasync(file.fd)
        self._fs.drop_cache(file.fd, position)
        size = min(file.size_bytes, self._fs.size(file.path))  # the cache may have had a longer file than the disk
        yield from scan_verified(replace(file, size_bytes=size), position)

    def _cut(self, at: int, place: Place, damage: CorruptFileError) -> None:
        """End the log at `place` in segment `at`; raises if that would drop flushed records."""
        if not is_cut(place.offset, self._last_known.recovery_point, is_newest=at == len(self._segments) - 1):
            raise damage
        before_doubtful_cut = self._options.before_doubtful_cut
        if before_doubtful_cut is not None and not self._is_torn_append(at, place):
            before_doubtful_cut(damage)
        while len(self._segments) > at + 1:
            self._drop_newest()
        segment = self._segments[at]
        self._cut_bytes += segment.size_bytes - place.position
        segment.size_bytes = place.position
        self._fs.truncate(segment.fd(), place.position)
        _log.warning(
            "%s; no checkpoint says that the tail was flushed (recovery point %d); it is cut", damage, self._bound
        )

    def _is_torn_append(self, at: int, place: Place) -> bool:
        """True if only the beginning of one batch is behind `place`."""
        segment = self._segments[at]
        size = segment.size_bytes - place.position
        if size > self._config.max_message_bytes or any(later.size_bytes for later in self._segments[at + 1 :]):
            return False
        return is_torn_append(self._fs.pread(segment.fd(), size, place.position), place.offset)

    def _drop_newest(self) -> None:
        """Newest first, and each durably before the next: a crash in between leaves no hole in the log."""
        segment = self._segments.pop()
        self._cut_bytes += segment.size_bytes
        segment.delete()
        self._fs.fsync_dir(self._directory)

    def _must_end_at_bound(self, path: str, position: int, log_end_offset: int) -> None:
        why = segment_faults.flushed_fault(log_end_offset, self._bound)
        if why is not None:
            raise CorruptFileError(path, position, why)

    def result(self, names: SmallFileWrites, snapshots: tuple[int, ...]) -> RecoveredLog:
        first, newest = self._segments[0], self._segments[-1]
        log_end = newest.next_offset
        log_start = max(first.base_offset, self._last_known.log_start_offset, self._epochs.log_start_offset)
        log_start = min(log_start, log_end)
        cache = EpochCache(self._fs, self._directory, self._epochs.settle(first.base_offset, log_start, log_end), names)
        producers = self._load_producers(snapshots, cache)
        for segment in self._segments:  # most logs of a node are idle: they keep no file open and no index in memory
            segment.release()
        return RecoveredLog(self._segments, cache, log_start, log_end, self._cut_bytes, producers)

    def _load_producers(self, snapshots: tuple[int, ...], cache: EpochCache) -> LoadedProducers:
        replay = self._options.replay
        if replay is None or (self._needs_no_replay and not snapshots):
            return LoadedProducers(KnownProducers(), AbortedTransactions())
        return load_producers(self._fs, self._directory, snapshots, self._segments, cache.entries, replay)
