"""The blocking part of one cleaning of one log: maps the dirty part, then filters each group of segments.

    build_map          maps the dirty part until the map is full; the pass ends there, always between two batches
    groups             neighbouring segments that will be merged (`cleaner_plan.py`), oldest first
    clean(group)       writes every batch of the group, filtered, into NNN.log.cleaned, durably

Between two groups, on the loop, the log takes the cleaned segment over and its files are swapped, durably. So a crash
leaves each group old or new, and a group is cleaned only after all older ones. Unchanged batches are copied as bytes;
the batches that stay cover the offsets of removed ones (`offset_tiling.py`). A batch that its idempotent producer may
send again stays, if need be without records: a log that is read anew, here or by a follower, must know it. A group of
one segment without a change is left as it is. A batch whose records cannot be decoded is copied as it is: no reader can
use its records (`DECODING_ERRORS`). Batches of aborted transactions lose all their records, and markers go some time
after the last batch of their transaction (`cleaned_transactions.py`). Control batches that are no markers stay.

Runs in any thread, one call at a time. Not here: when and why (`cleaner_plan.py`, `log_cleaner.py`), how segments are
read (`segment_reads.py`), and what stays of a batch (`batch_filter.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.lazy_dataclass import dataclass
from penstock.record.batch import CONTROL_BIT, NO_PRODUCER_ID, TRANSACTIONAL_BIT, BatchHeader
from penstock.record.decoding import DECODING_ERRORS
from penstock.record.rewrite import emptied
from storage.cleaner.batch_filter import TombstoneRule, filter_batch, filter_marker, offsets_of_rows, rows_of_batch
from storage.cleaner.cleaned_file import CleanedFile
from storage.cleaner.cleaned_transactions import AbortedBatches, CleanedTransactions
from storage.cleaner.cleaner_plan import group_segments
from storage.cleaner.cleaner_types import NEVER_MS, CleaningPlan, PassStatistics, SegmentFile
from storage.cleaner.offset_map import OffsetMap
from storage.cleaner.offset_tiling import OffsetTiling
from storage.cleaner.segment_reads import SegmentReads, Surroundings
from storage.disk.file_names import CLEANED_SUFFIX, LOG_SUFFIX, file_stem
from storage.log.log_types import CleanedSegment
from storage.segment.verified_chunks import Chunk

_log = logging.getLogger(__name__)

OF_TRANSACTIONS = CONTROL_BIT | TRANSACTIONAL_BIT
"""Most batches have neither, and are not asked more."""


@dataclass(slots=True)
class _Counts:
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    tombstones_removed: int = 0
    aborted_batches_removed: int = 0
    markers_removed: int = 0
    undecodable_batches: int = 0
    groups: int = 0
    replaced_segments: int = 0
    map_ms: int = 0
    filter_ms: int = 0
    next_horizon_ms: int = NEVER_MS


class Cleaning:
    """One pass over one log."""

    def __init__(self, around: Surroundings, plan: CleaningPlan, offset_map: OffsetMap, rule: TombstoneRule) -> None:
        self._around, self._plan, self._map, self._rule = around, plan, offset_map, rule
        self.reads = SegmentReads(around, plan)
        self._aborted = AbortedBatches(plan.aborted)
        self._transactions = CleanedTransactions(self._aborted)
        self._counts = _Counts()
        self._began_ms = around.now_ms()
        self._cleaned_path = ""
        self.end_offset = plan.end_offset
        """The offset at which the next pass will begin; final after `build_map`."""

    # -- the map -------------------------------------------------------------------------------------------------------

    def build_map(self) -> None:
        """Map the latest offset of each key of the dirty part, until the map's memory is full."""
        began_ms = self._around.now_ms()
        for segment in self._plan.segments:
            if segment.next_offset > self._plan.first_dirty_offset and not self._map_segment(segment):
                break
        self._counts.map_ms = self._around.now_ms() - began_ms

    def _map_segment(self, segment: SegmentFile) -> bool:
        """Maps a segment; False when the map is full."""
        for chunk in self.reads.chunks(segment):
            for at, header in chunk.batches:
                if header.next_offset <= self._plan.first_dirty_offset or not header.record_count:
                    continue
                if header.attributes & OF_TRANSACTIONS and (header.is_control or self._aborted.has(header)):
                    continue
                if not self._map.has_room_for(header.record_count):
                    self.end_offset = header.base_offset
                    return False
                try:
                    _, rows = rows_of_batch(chunk.data, at, header)
                except DECODING_ERRORS:
                    continue  # told when the batch is kept
                self._map.put_all(rows.keys, offsets_of_rows(header, rows))
        return True

    # -- filtering -----------------------------------------------------------------------------------------------------

    def groups(self) -> tuple[tuple[SegmentFile, ...], ...]:
        """The groups to clean, in order; called after `build_map`."""
        below = [segment for segment in self._plan.segments if segment.base_offset < self.end_offset]
        return group_segments(below, self._plan.config)

    def clean(self, group: Sequence[SegmentFile]) -> CleanedSegment | None:
        """The cleaned segment, durable; None if the group is one segment in which nothing changes."""
        began_ms = self._around.now_ms()
        path = self._cleaned_path = (
            f"{self._plan.directory}/{file_stem(group[0].base_offset)}{LOG_SUFFIX}{CLEANED_SUFFIX}"
        )
        out = CleanedFile(self._around.fs, path, self._wrote)
        try:
            tiling = OffsetTiling(out.write)
            changed = [self._clean_segment(segment, tiling) for segment in group]
            tiling.finish()
            if len(group) == 1 and not changed[0]:
                out.discard()
                self._transactions.take_needed()
                return None
            size_bytes = out.finish()
        except BaseException:
            out.discard()
            raise
        finally:
            self._counts.filter_ms += self._around.now_ms() - began_ms
        self._counts.groups += 1
        self._counts.replaced_segments += len(group)
        aborted = self._transactions.take_needed()
        return CleanedSegment(path, group[0].base_offset, group[-1].next_offset, size_bytes, aborted)

    def discard_cleaned(self) -> None:
        """Remove the file of the last `clean`: the log did not take it over."""
        self._around.fs.unlink(self._cleaned_path)

    def _clean_segment(self, segment: SegmentFile, tiling: OffsetTiling) -> bool:
        """Cleans one segment. True if the cleaned segment differs from the old one."""
        changed = False
        for chunk in self.reads.chunks(segment):
            view = memoryview(chunk.data)
            for at, header in chunk.batches:
                batch = view[at : at + header.size_bytes]
                left = self._left_of(chunk, at, header)
                changed |= left is not None
                if left == b"":
                    tiling.remove(header)
                elif left is None and not header.record_count and self._is_nobodys(header):
                    changed |= tiling.keep_empty(header, batch)
                else:
                    tiling.keep(header, batch if left is None else left)
                    if header.attributes & OF_TRANSACTIONS and not header.is_control:
                        self._transactions.batch_stays(header)
        return changed

    def _left_of(self, chunk: Chunk, at: int, header: BatchHeader) -> bytes | None:
        """The bytes to write instead of the batch; None: its own bytes; empty: the batch is removed."""
        if header.attributes & CONTROL_BIT:
            return self._left_of_control(chunk, at, header)
        if header.base_offset >= self.end_offset or (not header.record_count and self._is_nobodys(header)):
            return None
        if not header.record_count:
            return None if header.base_offset in self._plan.kept_offsets else b""
        if header.attributes & TRANSACTIONAL_BIT and self._aborted.has(header):
            self._counts.aborted_batches_removed += 1
            left: bytes | None = b""
        else:
            left = self._filter(chunk, at, header)
        return emptied(header) if left == b"" and header.base_offset in self._plan.kept_offsets else left

    def _left_of_control(self, chunk: Chunk, at: int, header: BatchHeader) -> bytes | None:
        is_needed = not header.is_transactional or self._transactions.is_needed(header)
        if is_needed or header.base_offset in self._plan.kept_offsets or header.base_offset >= self.end_offset:
            return None
        return self._filter(chunk, at, header)

    def _is_nobodys(self, header: BatchHeader) -> bool:
        """True for a batch without records that only covers offsets."""
        is_plain = header.producer_id == NO_PRODUCER_ID and not header.attributes & CONTROL_BIT
        return is_plain and header.base_offset < self.end_offset

    def _filter(self, chunk: Chunk, at: int, header: BatchHeader) -> bytes | None:
        """The bytes to write instead of the batch; None: its own bytes; empty: no record stays. A marker is one that no
        batch needs."""
        counts = self._counts
        try:
            if header.attributes & CONTROL_BIT:
                is_indexed = self._aborted.ended_by(header) is not None
                found = filter_marker(chunk.data, at, header, self._rule, is_indexed=is_indexed)
            else:
                found = filter_batch(chunk.data, at, header, self._map, self._rule)
        except DECODING_ERRORS as error:
            if not counts.undecodable_batches:
                what = f"the batch at offset {header.base_offset} cannot be decoded"
                _log.warning("%s: %s, and is kept as it is: %s", self._plan.directory, what, error)
            counts.undecodable_batches += 1
            return None
        counts.records_read += header.record_count
        counts.records_kept += found.kept_records
        counts.tombstones_removed += found.removed_tombstones
        if header.attributes & CONTROL_BIT:
            counts.markers_removed += not found.kept_records
        if found.horizon_ms is not None:
            counts.next_horizon_ms = min(counts.next_horizon_ms, found.horizon_ms)
        return found.records

    # -- counting ------------------------------------------------------------------------------------------------------

    def _wrote(self, size_bytes: int) -> None:
        self._counts.bytes_written += size_bytes
        self._around.pace(size_bytes)

    @property
    def next_horizon_ms(self) -> int:
        """The time at which the first remaining tombstone or marker may be removed; NEVER_MS if none remains."""
        return self._counts.next_horizon_ms

    def statistics(self) -> PassStatistics:
        counts, plan = self._counts, self._plan
        return PassStatistics(
            topic_partition=plan.topic_partition,
            reason=plan.reason,
            first_dirty_offset=plan.first_dirty_offset,
            end_offset=self.end_offset,
            bytes_read=self.reads.bytes_read,
            bytes_written=counts.bytes_written,
            records_read=counts.records_read,
            records_kept=counts.records_kept,
            tombstones_removed=counts.tombstones_removed,
            aborted_batches_removed=counts.aborted_batches_removed,
            markers_removed=counts.markers_removed,
            undecodable_batches=counts.undecodable_batches,
            map_entries=len(self._map),
            map_bytes=self._map.used_bytes,
            groups=counts.groups,
            replaced_segments=counts.replaced_segments,
            map_ms=counts.map_ms,
            filter_ms=counts.filter_ms,
            elapsed_ms=self._around.now_ms() - self._began_ms,
            next_horizon_ms=None if counts.next_horizon_ms == NEVER_MS else counts.next_horizon_ms,
        )

    def __repr__(self) -> str:
        plan = self._plan
        return f"Cleaning({plan.directory}, {plan.first_dirty_offset}..{self.end_offset}, {self._map!r})"
