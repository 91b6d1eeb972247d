"""Cleaning drops aborted records, keeps the markers that batches need, and hides no committed record from readers."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest

from penstock.record.batch import BatchHeader
from penstock.record.builder import build_batch
from penstock.types import EpochEntry
from storage.cleaner.batch_filter import TombstoneRule
from storage.cleaner.cleaned_transactions import AbortedBatches
from storage.cleaner.cleaner_types import NEVER_MS, CleaningPlan, Reason, SegmentFile
from storage.cleaner.offset_map import OffsetMap
from storage.cleaner.segment_cleaning import Cleaning
from storage.cleaner.segment_reads import Surroundings
from storage.segment.transaction_index import AbortedRange
from tests.support.compaction import COMPACT, RETENTION_MS
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, TP
from tests.support.transactions import (
    ABORT,
    COMMIT,
    DrawnTransactions,
    Stored,
    batches_of,
    committed,
    ends_of,
    marker_bytes,
    next_offset,
    placed,
)


@dataclass
class _Segment:
    base_offset: int
    data: bytes
    aborted: tuple[AbortedRange, ...]
    """Its index."""

    @property
    def next_offset(self) -> int:
        return batches_of(self.data)[-1][0].next_offset


@dataclass
class _Log:
    """Segments as bytes, with their indexes, and the cleaner's passes over them."""

    segments: list[_Segment] = field(default_factory=list)
    cleaned_to: int = 0
    kept_offsets: frozenset[int] = frozenset()
    map_bytes: int = 1 << 20
    next_horizon_ms: int = NEVER_MS

    @classmethod
    def of(cls, batches: list[bytes], lengths: list[int]) -> _Log:
        log, offset, at = cls(), 0, 0
        for length in lengths:
            data = b""
            for batch in batches[at : at + length]:
                data += placed(batch, offset)
                offset = next_offset(data[-len(batch) :])
            at += length
            log.segments.append(_Segment(batches_of(data)[0][0].base_offset, data, ()))
        for segment in log.segments:
            entries = [one for one in ends_of(log.batches()).aborted if segment.base_offset <= one.last_offset]
            segment.aborted = tuple(one for one in entries if one.last_offset < segment.next_offset)
        return log

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        return [one for segment in self.segments for one in batches_of(segment.data)]

    def index(self) -> list[AbortedRange]:
        return [one for segment in self.segments for one in segment.aborted]

    def view(self) -> list[Stored]:
        return committed(self.batches(), self.index())

    def raw(self) -> list[Stored]:
        return committed(self.batches(), ())

    def markers(self) -> list[int]:
        return [header.base_offset for header, _ in self.batches() if header.is_control]

    def clean(self, now_ms: int = NOW_MS, segments: int | None = None) -> None:
        """One pass over the first so many segments; after each swap, every index that a crash may leave is good."""
        fs = LosingFileSystem()
        fs.mkdir("/d")
        files = []
        for segment in self.segments[:segments]:
            path = f"/d/{segment.base_offset:020d}.log"
            fs.pwritev(fs.open(path, create=True), [segment.data], 0)
            files.append(SegmentFile(path, segment.base_offset, segment.next_offset, len(segment.data)))
        plan = CleaningPlan(
            topic_partition=TP,
            directory="/d",
            reason=Reason.DIRTY,
            segments=tuple(files),
            first_dirty_offset=self.cleaned_to,
            end_offset=files[-1].next_offset,
            config=COMPACT,
            epoch_entries=(EpochEntry(0, 0),),
            kept_offsets=self.kept_offsets,
            aborted=tuple(self.index()),
        )
        rule = TombstoneRule(now_ms, RETENTION_MS)
        cleaning = Cleaning(Surroundings(fs, lambda _: None, lambda: 0), plan, OffsetMap(self.map_bytes), rule)
        cleaning.build_map()
        for group in cleaning.groups():
            cleaned = cleaning.clean(group)
            if cleaned is None:
                continue
            before = committed(self.batches(), ends_of(self.batches()).aborted)
            old = [s for s in self.segments if group[0].base_offset <= s.base_offset < group[-1].next_offset]
            data = fs.read_file(cleaned.path)
            at = self.segments.index(old[0])
            new = _Segment(cleaned.base_offset, data, tuple(one for segment in old for one in segment.aborted))
            self.segments[at : at + len(old)] = [new]
            truth = committed(self.batches(), ends_of(self.batches()).aborted)
            assert set(truth) <= set(before)
            assert self.view() == truth  # a crash left the old entries beside the new segment
            new.aborted = cleaned.aborted
            assert self.view() == truth
        self.cleaned_to = max(self.cleaned_to, cleaning.end_offset)
        self.next_horizon_ms = cleaning.next_horizon_ms


def _data(producer_id: int, sequence: int, *records: tuple[bytes, bytes], epoch: int = 0) -> bytes:
    return build_batch(
        [value for _, value in records],
        keys=[key for key, _ in records],
        timestamps_ms=NOW_MS,
        is_transactional=True,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def _plain(key: bytes, value: bytes) -> bytes:
    return build_batch([value], keys=[key], timestamps_ms=NOW_MS)


def _end(producer_id: int, kind: int, epoch: int = 0) -> bytes:
    return marker_bytes(producer_id, epoch, kind)


def test_records_of_aborted_transactions_are_dropped_and_supersede_nothing() -> None:
    log = _Log.of([_plain(b"a", b"1"), _data(7, 0, (b"a", b"2"), (b"b", b"2")), _end(7, ABORT)], [3])
    log.clean()

    assert log.raw() == [Stored(0, b"a", b"1")]


def test_a_committed_record_supersedes_and_stays() -> None:
    log = _Log.of([_plain(b"a", b"1"), _data(7, 0, (b"a", b"2")), _end(7, COMMIT)], [3])
    log.clean()

    assert log.view() == [Stored(1, b"a", b"2")]
    assert log.markers() == [2]


def test_a_marker_stays_while_a_record_of_its_transaction_does_and_then_for_its_time() -> None:
    batches = [_data(7, 0, (b"a", b"1")), _end(7, COMMIT), _plain(b"b", b"1"), _plain(b"a", b"2"), _plain(b"c", b"1")]
    log = _Log.of(batches, [3, 2])
    log.clean(segments=1)
    assert (log.markers(), log.next_horizon_ms) == ([1], NEVER_MS)  # its record is still the latest
    log.clean(NOW_MS + 1)
    assert (log.markers(), log.next_horizon_ms) == ([1], NOW_MS + 1 + RETENTION_MS)
    log.clean(NOW_MS + 1 + RETENTION_MS)
    assert log.markers() == [1]
    log.clean(NOW_MS + 2 + RETENTION_MS)
    assert log.markers() == []
    assert [(one.key, one.value) for one in log.raw()] == [(b"b", b"1"), (b"a", b"2"), (b"c", b"1")]


def test_the_marker_of_a_batch_that_its_producer_may_send_again_stays_with_the_empty_batch() -> None:
    log = _Log.of([_data(7, 0, (b"a", b"1")), _end(7, ABORT), _plain(b"b", b"1")], [3])
    log.kept_offsets = frozenset((0,))
    for days in range(4):
        log.clean(NOW_MS + days * 10 * RETENTION_MS)

    assert [(h.producer_id, h.record_count, h.is_control) for h, _ in log.batches()][:2] == [
        (7, 0, False),
        (7, 1, True),
    ]
    assert (log.index(), ends_of(log.batches()).open) == ([AbortedRange(7, 0, 1)], {})


def test_a_marker_that_has_the_only_epoch_of_its_producer_stays_as_it_is() -> None:
    log = _Log.of([_data(7, 0, (b"a", b"1")), _end(7, ABORT, epoch=1), _plain(b"b", b"1")], [3])
    log.kept_offsets = frozenset((1,))
    before = log.batches()[1]
    for days in range(4):
        log.clean(NOW_MS + days * 10 * RETENTION_MS)
    assert log.batches()[1] == before

    log.kept_offsets = frozenset()  # the log has forgotten the producer
    log.clean(NOW_MS)
    log.clean(NOW_MS + 10 * RETENTION_MS)
    assert log.markers() == []


def test_a_marker_that_a_leader_has_stamped_goes_only_after_its_entry() -> None:
    """A follower has the records that its leader has removed, and gets the marker with a horizon that has passed."""
    stamped = _Log.of([_data(7, 0, (b"a", b"1")), _end(7, ABORT)], [2])
    stamped.clean(NOW_MS - 10 * RETENTION_MS)
    marker = next(batch for header, batch in stamped.batches() if header.is_control)
    log = _Log.of([_data(7, 0, (b"a", b"1")), marker, _plain(b"c", b"1")], [3])

    log.clean(NOW_MS)
    assert (log.markers(), log.index()) == ([1], [])
    log.clean(NOW_MS)
    assert log.markers() == []


def test_offsets_of_removed_markers_and_batches_are_covered_by_batches_of_nobody() -> None:
    log = _Log.of([_data(7, 0, (b"a", b"1")), _end(7, ABORT), _data(8, 0, (b"c", b"1")), _end(8, COMMIT)], [4])
    log.clean(NOW_MS)
    log.clean(NOW_MS + 2 * RETENTION_MS)

    first = log.batches()[0][0]
    assert (first.producer_id, first.attributes, first.next_offset) == (-1, 0, 2)


def test_a_range_is_found_by_its_producer_and_its_offsets() -> None:
    ranges = [AbortedRange(7, 10, 20), AbortedRange(8, 0, 5), AbortedRange(7, 30, 31)]
    aborted = AbortedBatches(ranges)
    header = batches_of(_data(7, 0, (b"a", b"1")))[0][0]

    for producer_id in (7, 8, 9):
        for offset in range(40):
            expected = any(one.producer_id == producer_id and one[1] <= offset <= one[2] for one in ranges)
            batch = header._replace(producer_id=producer_id, base_offset=offset)
            assert aborted.has(batch) is expected
            assert not aborted.has(batch._replace(attributes=0))


@pytest.mark.parametrize("seed", range(60))
def test_cleaned_logs_mean_the_same_to_readers_of_committed_records(seed: int) -> None:
    """Drawn transactions, passes of a drawn length and map: at each step, also between a swap and its index."""
    random = Random(seed)
    drawn = DrawnTransactions(random)
    batches = [drawn.next() for _ in range(random.randrange(10, 60))]
    batches += [drawn.end(producer_id, random.choice((ABORT, COMMIT))) for producer_id in list(drawn.open)]
    lengths: list[int] = []
    while sum(lengths) < len(batches):
        lengths.append(min(random.randrange(1, 12), len(batches) - sum(lengths)))
    log = _Log.of(batches, lengths)
    log.map_bytes = random.choice((1, 1 << 20))
    before = log.view()
    latest = {one.key: one for one in before}
    log.kept_offsets = frozenset(
        h.base_offset for h, _ in log.batches() if h.producer_id >= 0 and random.random() < 0.1
    )

    now_ms = NOW_MS
    for _ in range(40):
        log.clean(now_ms, segments=random.randrange(1, len(log.segments) + 1))
        now_ms += random.choice((0, 1, RETENTION_MS * 2))
    while log.cleaned_to < log.segments[-1].next_offset:
        log.clean(now_ms)
    for _ in range(4):
        now_ms += RETENTION_MS * 2
        log.clean(now_ms)

    headers = [header for header, _ in log.batches()]
    assert all(a.next_offset == b.base_offset for a, b in pairwise(headers))
    assert log.raw() == log.view() == [one for one in before if latest[one.key] is one and one.value is not None]
    assert not ends_of(log.batches()).open
    needed = {header.producer_id for header in headers if header.is_transactional and not header.is_control}
    assert all(h.producer_id in needed or h.base_offset in log.kept_offsets for h in headers if h.is_control)
