"""The records of one batch that compaction leaves."""

from __future__ import annotations

import pytest

from penstock.record.batch import BatchHeader, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import read_records
from storage.cleaner.batch_filter import MAX_TIMESTAMP_MS, Filtered, TombstoneRule, filter_batch, tombstone_may_go
from storage.cleaner.offset_map import OffsetMap

RULE = TombstoneRule(now_ms=5000, delete_retention_ms=100)
KEYS = [b"a", b"b", b"c", None]
VALUES = [b"1", None, b"3", b"4"]


def latest(**offsets: int) -> OffsetMap:
    found = OffsetMap(1 << 20)
    found.put_all([key.encode() for key in offsets], list(offsets.values()))
    return found


def some_batch(**options: object) -> tuple[bytes, BatchHeader]:
    data = build_batch(VALUES, keys=KEYS, timestamps_ms=[10, 20, 30, 40], base_offset=100, **options)  # type: ignore[arg-type]
    return data, read_header(data)


def filtered(data: bytes, offset_map: OffsetMap, rule: TombstoneRule = RULE) -> Filtered:
    return filter_batch(data, 0, read_header(data), offset_map, rule)


def keys_of(found: Filtered) -> list[bytes | None]:
    assert found.records is not None
    return [record.key for record in read_records(found.records)]


def test_superseded_records_and_those_without_a_key_go() -> None:
    data, _ = some_batch()
    found = filtered(data, latest(a=200, b=50, c=102))

    assert keys_of(found) == [b"b", b"c"]
    assert found.kept_records == 2


def test_a_batch_of_which_all_stays_is_left_as_it_is() -> None:
    data = build_batch([b"1", b"2"], keys=[b"a", b"b"], timestamps_ms=1, base_offset=100)

    assert filtered(data, latest(a=100, b=99)) == Filtered(None, 2)


def test_a_batch_of_which_nothing_stays_is_empty() -> None:
    data, _ = some_batch()

    assert filtered(data, latest(a=200, b=200, c=200)) == Filtered(b"", 0)


@pytest.mark.parametrize("codec", Codec)
def test_the_first_pass_stamps_a_batch_that_has_a_tombstone(codec: Codec) -> None:
    data, _ = some_batch(codec=codec)
    found = filtered(data, latest())

    assert found.records is not None
    header = read_header(found.records)
    assert (found.horizon_ms, header.delete_horizon_ms, header.codec) == (5100, 5100, codec)
    assert [(r.key, r.timestamp_ms) for r in read_records(found.records)] == [(b"a", 10), (b"b", 20), (b"c", 30)]


def test_a_stamp_is_set_once_and_stays() -> None:
    stamped = filtered(some_batch()[0], latest()).records
    assert stamped is not None
    found = filtered(stamped, latest(), TombstoneRule(now_ms=5100, delete_retention_ms=100))

    assert found == Filtered(None, 3, 0, 5100)


def test_after_the_horizon_tombstones_go_and_with_them_the_stamp() -> None:
    stamped = filtered(some_batch()[0], latest()).records
    assert stamped is not None
    found = filtered(stamped, latest(), TombstoneRule(now_ms=5101, delete_retention_ms=100))

    assert keys_of(found) == [b"a", b"c"]
    assert (found.removed_tombstones, found.horizon_ms) == (1, None)
    assert read_header(found.records or b"").delete_horizon_ms is None


def test_a_batch_of_tombstones_goes_whole() -> None:
    stamped = filtered(build_batch([None], keys=[b"a"], timestamps_ms=1), latest()).records
    assert stamped is not None

    assert filtered(stamped, latest(), TombstoneRule(5101, 100)) == Filtered(b"", 0, 1)


def test_a_superseded_tombstone_leaves_no_stamp() -> None:
    found = filtered(some_batch()[0], latest(b=101 + 1))

    assert keys_of(found) == [b"a", b"c"]
    assert (found.removed_tombstones, found.horizon_ms) == (0, None)
    assert read_header(found.records or b"").delete_horizon_ms is None


def test_a_retention_without_end_is_the_last_time_there_is() -> None:
    found = filtered(some_batch()[0], latest(), TombstoneRule(5000, MAX_TIMESTAMP_MS))

    assert found.horizon_ms == MAX_TIMESTAMP_MS
    assert [r.timestamp_ms for r in read_records(found.records or b"")] == [10, 20, 30]


@pytest.mark.parametrize(("horizon_ms", "goes"), [(None, False), (4999, True), (5000, False), (5001, False)])
def test_a_tombstone_may_go_after_its_horizon_and_never_without(horizon_ms: int | None, goes: bool) -> None:
    assert tombstone_may_go(horizon_ms, 5000) is goes
