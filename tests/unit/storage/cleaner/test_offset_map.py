"""The offset map: what it answers, and that it uses no more memory than it says."""

from __future__ import annotations

import gc
import tracemalloc
from random import Random

import pytest

from storage.cleaner.offset_map import DIGEST_BYTES, MAX_PLAIN_KEY_BYTES, OffsetMap

MEMORY_BYTES = 4 * 1024 * 1024


def test_only_the_latest_record_of_a_key_stays() -> None:
    offset_map = OffsetMap(MEMORY_BYTES)
    offset_map.put_all([b"a", b"b"], range(10, 12))
    offset_map.put_all([b"a"], [20])

    assert offset_map.latest([b"a", b"b", b"b", b"a"], [10, 10, 11, 20]) == [False, False, True, True]
    assert len(offset_map) == 2


def test_a_key_that_is_not_in_the_map_or_only_below_stays() -> None:
    offset_map = OffsetMap(MEMORY_BYTES)
    offset_map.put_all([b"a"], [5])

    assert offset_map.latest([b"a", b"b"], [6, 0]) == [True, True]


def test_records_without_a_key_never_stay_and_an_empty_key_is_a_key() -> None:
    offset_map = OffsetMap(MEMORY_BYTES)
    assert offset_map.latest([None, b""], range(2)) == [False, True]
    offset_map.put_all([None, b""], [7, 8])

    assert offset_map.latest([None, b"", b""], [9, 3, 8]) == [False, False, True]
    assert len(offset_map) == 1


@pytest.mark.parametrize("length", [MAX_PLAIN_KEY_BYTES, MAX_PLAIN_KEY_BYTES + 1, 1000])
def test_keys_of_any_length_are_told_apart(length: int) -> None:
    first, second = b"x" * length, b"x" * (length - 1) + b"y"
    offset_map = OffsetMap(MEMORY_BYTES)
    offset_map.put_all([first, second, b"short", None], range(100, 104))

    assert offset_map.latest([first, second, b"short", b"x" * (length + 1)], [99, 101, 102, 0]) == [
        False,
        True,
        True,
        True,
    ]


def test_a_key_that_looks_like_a_digest_is_a_long_key_itself() -> None:
    long_key = b"x" * 50
    offset_map = OffsetMap(MEMORY_BYTES)
    offset_map.put_all([long_key], [9])
    (digest,) = [key for key in offset_map._latest if key is not None]

    assert len(digest) == DIGEST_BYTES
    assert offset_map.latest([digest], [1]) == [True]


def test_there_is_always_room_for_the_first_batch() -> None:
    offset_map = OffsetMap(100)

    assert offset_map.has_room_for(1_000_000)
    offset_map.put_all([b"a"], [0])
    assert not offset_map.has_room_for(1)


@pytest.mark.parametrize("key_bytes", [4, 16, 32, 60])
@pytest.mark.parametrize("memory_bytes", [MEMORY_BYTES, MEMORY_BYTES + 700_000])
def test_memory_stays_below_the_bound_also_while_the_table_grows(key_bytes: int, memory_bytes: int) -> None:
    random = Random(1)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    offset_map, offset = OffsetMap(memory_bytes), 1 << 40
    while offset_map.has_room_for(100):
        offset_map.put_all([random.randbytes(key_bytes) for _ in range(100)], range(offset, offset + 100))
        offset += 100
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    batch_bytes = 100 * 200
    assert peak - before <= memory_bytes + batch_bytes
    assert after - before <= offset_map.used_bytes + batch_bytes
    assert after - before > 0.8 * offset_map.used_bytes, "and what it says is not far off"
    assert len(offset_map) * 210 > 0.9 * memory_bytes, "an entry needs 210 bytes at worst"
