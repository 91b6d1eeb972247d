"""Reads one log whole and reports everything that is wrong with it.

The directory is checked as the next start would find it: leftovers are reported, and tidied on an overlay
(`overlay.py`), so that a half-finished swap is seen as its result. Checked are whole batches, their checksums, that
offsets and epochs continue, indexes, snapshots, small files, and with `deep` every record. `damage.py` judges a bad
byte, `verify_log_dir.py` checks the checkpoints of the log dir, `recover.py` recovers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from penstock.errors import CorruptFileError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import BatchHeader
from penstock.record.verifier import at_offset, offset_fault
from storage.log_config import LogConfig
from storage.recovery.epoch_check import EpochCheck
from storage.recovery.recovery import LastKnown
from storage.segment import segment_faults
from storage.segment.batch_scan import LogFile
from storage.segment.segment import Segment
from storage.segment.segment_files import find_segments, tidy
from storage.tools.batch_walk import walk
from storage.tools.damage import BadBytes, DamageJudge
from storage.tools.decode import decoding_problem, marker_at
from storage.tools.overlay import OverlayFileSystem
from storage.tools.target import LogPath
from storage.tools.verify import verify_files
from storage.tools.verify.findings import Finding, LogReport, remedy_for_damage
from storage.tools.verify.verify_indexes import IndexCheck
from storage.tools.verify.verify_producers import ProducerCheck
from storage.tools.verify.verify_transactions import TransactionCheck

UNDECODABLE = "the bytes are as they were produced: the producer is at fault, and readers must go past this batch"


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The options of a verification."""

    deep: bool = False
    """Decompress and decode every record."""
    on_read: Callable[[int], None] = lambda count: None


def verify_log(log: LogPath, last_known: LastKnown, options: VerifyOptions) -> Iterator[Finding | LogReport]:
    """Every finding, then the report."""
    fs = OverlayFileSystem()
    directory = log.directory
    yield from verify_files.partition_names(fs, directory)
    try:
        tidy(fs, directory)
        segments = find_segments(fs, directory, LogConfig().index_interval_bytes)
    except CorruptFileError as damage:
        remedy = remedy_for_damage(log.topic_partition)
        yield Finding("damage", "rot", damage.path, damage.why, remedy, position=damage.position)
        return
    check = _LogCheck(fs, log, last_known, options, segments)
    yield from check.run()
    report = check.report()
    yield from verify_files.topic_id(fs, directory, last_known, has_records=report.batches > 0)
    yield from verify_files.epochs(check.epochs, last_known, has_records=report.batches > 0)
    yield from verify_files.quorum_state(fs, directory)
    yield from verify_files.metadata_snapshots(fs, directory)
    yield report


class _LogCheck:
    """One walk over one log."""

    def __init__(
        self,
        fs: OverlayFileSystem,
        log: LogPath,
        last_known: LastKnown,
        options: VerifyOptions,
        segments: list[Segment],
    ) -> None:
        self._fs, self._log, self._last_known, self._options = fs, log, last_known, options
        self._segments = segments
        self._judge = DamageJudge(log, last_known, segments)
        self.epochs = EpochCheck(fs, log.directory, last_known.recovery_point or 0)
        self._first = self._end = segments[0].base_offset if segments else 0
        self._producers = ProducerCheck(fs, log.directory, self._first)
        self._transactions = TransactionCheck(fs, log.directory)
        self._expected: int | None = self._first
        """The next expected offset; None behind damage of unknown extent."""
        self._start = max(self._first, last_known.log_start_offset, self.epochs.log_start_offset)
        """The log start as a start finds it, but for the end of the log."""
        self._whole_from: int | None = self._first
        """No damage was seen from there on; None: damage was the last that was seen."""
        self._is_damaged = False
        self._batches = self._records = self._readable_behind_damage = 0

    def report(self) -> LogReport:
        return LogReport(
            directory=self._log.directory,
            log_start_offset=min(self._start, self._end),
            log_end_offset=self._end,
            recovery_point=self._last_known.recovery_point,
            whole_from=self._whole_from,
            readable_behind_damage=self._readable_behind_damage,
            segments=len(self._segments),
            batches=self._batches,
            records=self._records,
            size_bytes=sum(segment.size_bytes for segment in self._segments),
        )

    def run(self) -> Iterator[Finding]:
        for segment in self._segments:
            yield from self._begins_where_the_last_ends(segment)
            self._expected = segment.base_offset
            if self._whole_from is None:
                self._whole_from = segment.base_offset
            yield from self._segment(segment)
            segment.close()
        yield from self._judge.tail(self._end)
        if not (self._is_damaged or self._judge.is_torn):  # then it is known where the log ends, with which epochs
            yield from self._producers.finish(self._end, self.epochs.entries)

    def _begins_where_the_last_ends(self, segment: Segment) -> Iterator[Finding]:
        expected, base = self._expected, segment.base_offset
        fault = None if expected is None else segment_faults.begin_fault(base, expected)
        if expected is not None and fault is not None:
            missing = "; what is between them is missing" if base > expected else ""
            yield from self._bad(BadBytes(segment, 0, fault + missing), expected)

    def _segment(self, segment: Segment) -> Iterator[Finding]:
        file = segment.file()
        indexes = self._index_check(segment)
        was_bad, is_sound = False, True
        for position, header, problem, is_cut_off in walk(file, self._options.on_read):
            if header is None:
                is_sound = False
                if not was_bad:  # else it is the same damage
                    yield from self._bad(BadBytes(segment, position, problem, is_cut_off), self._expected)
                self._expected = None
                break
            was_bad = bool(problem)
            if self._judge.is_torn:
                self._judge.good_after_tear += not was_bad
                continue
            belongs = header.base_offset if self._expected is None else self._expected
            wrong = problem or self._misplaced(segment, header)
            if wrong:
                is_sound = False
                yield from self._bad(BadBytes(segment, position, wrong), belongs)
                self._expected = None if problem else belongs + header.last_offset_delta + 1
                continue
            self._expected = header.next_offset
            if is_sound:  # behind damage the entries would only repeat the finding
                indexes.note(position, header)
            yield from self._producers.note(header, partial(file.read, header.size_bytes, position))
            if header.is_transactional:
                self._transactions.note(header, marker_at(file, position, header))
            found = self._good(segment, file, position, header)
            if found is not None:
                yield found
        walked_to_end = is_sound and not self._judge.is_torn
        yield from indexes.finish(walked_to_end=walked_to_end)
        yield from self._transactions.finish(segment, walked_to_end=walked_to_end)

    def _index_check(self, segment: Segment) -> IndexCheck:
        """The check of a segment's indexes. The indexes of a full segment are durable before the recovery point passes
        it, and all indexes are after a clean stop."""
        point, is_newest = self._last_known.recovery_point, segment is self._segments[-1]
        is_final = not is_newest and (point is None or segment.next_offset <= point)
        must_exist = is_final or self._last_known.clean
        return IndexCheck(self._fs, segment.stem, segment.base_offset, must_exist=must_exist, is_final=is_final)

    def _misplaced(self, segment: Segment, header: BatchHeader) -> str:
        """The fault that the checksum cannot see: a batch must stand where its offsets belong."""
        offset, expected = header.base_offset, self._expected
        fault = None if expected is None else offset_fault(offset, expected)
        if fault is not None:
            return at_offset(offset, fault)
        why = segment_faults.range_fault(header, segment.base_offset, segment.next_offset)
        return why or self.epochs.wrong(header, offset if expected is None else expected) or ""

    def _good(self, segment: Segment, file: LogFile, position: int, header: BatchHeader) -> Finding | None:
        self._batches += 1
        self._records += header.record_count
        self._end = header.next_offset
        if self._whole_from is None:
            self._whole_from = header.base_offset
        if self._is_damaged:
            deleted = min(max(self._start - header.base_offset, 0), header.record_count)
            self._readable_behind_damage += header.record_count - deleted
        problem = decoding_problem(file, position, header) if self._options.deep else ""
        if not problem:
            return None
        return Finding("damage", "undecodable", segment.log_path, problem, UNDECODABLE, position, header.base_offset)

    def _bad(self, bad: BadBytes, offset: int | None) -> Iterator[Finding]:
        yield from self._judge.bad(bad, offset, self._end)
        if not self._judge.is_torn:  # a torn tail is cut: the log ends before it
            self._whole_from, self._is_damaged = None, True
