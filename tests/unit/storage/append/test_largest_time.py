"""A batch's largest timestamp is that of its records, whatever its header says; one that is right stays as it is."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from penstock.record.batch import pack_batch, read_header, verify_crc
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import read_records
from storage.append.largest_time import measuring_takes_long, with_largest_times

NOW_MS = 1_796_000_000_000
UNPACKED_MAX = 1 << 20


@dataclass(frozen=True)
class Case:
    times_ms: list[int]
    codec: Codec = Codec.NONE

    def batch(self, largest_ms: int | None = None) -> bytes:
        values = [b"v" * (index % 200) for index in range(len(self.times_ms))]
        batch = build_batch(values, timestamps_ms=self.times_ms, codec=self.codec)
        if largest_ms is None:
            return batch
        return pack_batch(read_header(batch)._replace(max_timestamp_ms=largest_ms), batch[61:])


CASES = {
    "the newest in the middle": Case([NOW_MS - 7_200_000, NOW_MS, NOW_MS - 7_200_000]),
    "one": Case([NOW_MS]),
    "before the first": Case([NOW_MS, NOW_MS - 50, NOW_MS - 90]),
    "far apart": Case([0, 1, NOW_MS, 3]),
    "many": Case([NOW_MS + random.Random(7).randrange(10**6) for _ in range(500)]),
    "compressed": Case([NOW_MS, NOW_MS + 9, NOW_MS + 1], Codec.LZ4),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("wrong_ms", [-1, 0, NOW_MS - 7_200_000, NOW_MS + 10**9])
def test_a_header_that_is_wrong_is_set_to_what_the_records_say(case: Case, wrong_ms: int) -> None:
    found, _ = with_largest_times(case.batch(wrong_ms), UNPACKED_MAX)
    header = read_header(found)
    assert header.max_timestamp_ms == max(case.times_ms) and verify_crc(found, 0, header)
    assert read_records(found) == read_records(case.batch(wrong_ms))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_batch_that_is_right_is_not_copied(case: Case) -> None:
    batch = case.batch()
    assert with_largest_times(batch, UNPACKED_MAX)[0] is batch


def test_of_several_batches_each_is_measured() -> None:
    two = CASES["one"].batch(-1) + CASES["compressed"].batch(5)
    found, unpacked_bytes = with_largest_times(two, UNPACKED_MAX)
    first = read_header(found)
    assert first.max_timestamp_ms == NOW_MS and unpacked_bytes > 0
    assert read_header(found, first.size_bytes).max_timestamp_ms == NOW_MS + 9


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_what_cannot_be_read_is_left_to_the_append(codec: Codec) -> None:
    whole = Case([NOW_MS] * 3, codec).batch(-1)
    header = read_header(whole)
    broken = pack_batch(header, b"\xff" * len(whole[61:]))
    too_many = pack_batch(header._replace(record_count=9), whole[61:])
    damaged = whole[:-1] + b"x"
    for batch in (broken, too_many, damaged, whole[:30], b""):
        assert with_largest_times(batch, UNPACKED_MAX)[0] is batch
    assert codec is Codec.NONE or with_largest_times(whole, 2)[0] is whole, "more than may be unpacked"


def test_a_large_or_compressed_batch_is_for_a_thread() -> None:
    assert measuring_takes_long(CASES["compressed"].batch()) and measuring_takes_long(CASES["many"].batch())
    assert not measuring_takes_long(CASES["one"].batch()) and not measuring_takes_long(b"x" * 100)


def test_a_time_beyond_64_bits_leaves_the_batch_to_the_append() -> None:
    header = read_header(CASES["one"].batch())
    far = b"\xfe" + b"\xff" * 8 + b"\x01"
    batch = pack_batch(header, b"\x20\0" + far + b"\0\x01\x02v\0")
    assert with_largest_times(batch, UNPACKED_MAX)[0] is batch
