"""A leader takes the records that readers decode, and no others; it names the first one with a fault."""

from __future__ import annotations

from random import Random

import pytest

from penstock.errors import CorruptMessageError
from penstock.record.batch import HEADER_BYTES, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.reader import read_columns
from penstock.record.record_check import OF_THE_BATCH, quickly_read, records_fault

T = 1_700_000_000_000
MANY = 10**9
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def drawn(random: Random) -> tuple[bytes, int]:
    """A batch of a producer: equal records, unequal ones, with keys and headers or without; sometimes changed."""
    count = random.choice((1, 3, 20, 200))
    size = random.choice((0, 3, 100, 9_000 if count < 200 else 70))
    values = [None if random.random() < 0.05 else b"v" * random.randint(0, size) for _ in range(count)]
    if random.random() < 0.4:
        values = [b"v" * size] * count
    keys = [random.choice((None, b"k", b"k" * 80)) for _ in range(count)] if random.random() < 0.5 else None
    headers = [[("h", b"1")] if random.random() < 0.2 else [] for _ in range(count)] if random.random() < 0.3 else None
    times = [T + random.choice((0, 1, 500_000)) for _ in range(count)]
    if random.random() < 0.2:
        times = [random.choice((0, T, INT64_MAX - T)) for _ in range(count)]
    body = bytearray(build_batch(values, keys=keys, headers=headers, timestamps_ms=times)[HEADER_BYTES:])
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        at = random.randrange(len(body))
        body[at] = random.choice((0, 1, 2, 127, 128, 255, body[at] ^ 1, body[at] ^ 2))
    if random.random() < 0.1:
        del body[random.randrange(len(body)) :]
    return bytes(body) + random.choice((b"", b"", b"zz")), random.choice((count, count, count, count + 1))


def is_read(body: bytes, count: int, base_ms: int) -> bool:
    """A reader takes it, and there is a record for each offset."""
    header = read_header(build_batch([b"v"], timestamps_ms=0))
    header = header._replace(record_count=count, last_offset_delta=count - 1, base_timestamp_ms=base_ms)
    try:
        return list(read_columns(pack_batch(header, body)).offsets) == list(range(count))
    except CorruptMessageError:
        return False


@pytest.mark.parametrize("seed", range(40))
def test_whatever_passes_is_read_and_whatever_does_not_is_not(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        body, count = drawn(random)
        base_ms = random.choice((0, T, T, T, INT64_MAX, INT64_MAX - T, INT64_MIN, -T))
        expected = is_read(body, count, base_ms)
        assert (records_fault(body, 0, len(body), count, base_ms) is None) == expected
        quickly = quickly_read(body, 0, len(body), count, base_ms, MANY)
        assert (quickly is not None) == (expected and abs(base_ms) < 1 << 62)


def record(
    *, size: bytes = b"", time: bytes = b"\0", offset: bytes, key: bytes = b"\x01", value: bytes, rest: bytes
) -> bytes:
    """One record of a value of one byte; varints as they are given."""
    fields = b"\0" + time + offset + key + value + b"v" + rest
    return (size or bytes((len(fields) << 1,))) + fields


SIX = b"\x80\x80\x80\x80\x00"
"""Behind a byte with its top bit: a varint of six bytes that says nothing more."""
LONG = {
    "the length": lambda n: record(size=bytes((14 | 128,)) + SIX, offset=bytes((2 * n,)), value=b"\x02", rest=b"\0"),
    "the offset": lambda n: record(offset=bytes((2 * n | 128,)) + SIX, value=b"\x02", rest=b"\0"),
    "the key": lambda n: record(offset=bytes((2 * n,)), key=b"\x81" + SIX, value=b"\x02", rest=b"\0"),
    "the value": lambda n: record(offset=bytes((2 * n,)), value=b"\x82" + SIX, rest=b"\0"),
    "the headers": lambda n: record(offset=bytes((2 * n,)), value=b"\x02", rest=b"\x82" + SIX + b"\x02h\x01"),
    "a header": lambda n: record(offset=bytes((2 * n,)), value=b"\x02", rest=b"\x02\x82" + SIX + b"h\x01"),
    "its value": lambda n: record(offset=bytes((2 * n,)), value=b"\x02", rest=b"\x02\x02h\x81" + SIX),
}


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("name", LONG)
def test_a_length_in_more_bytes_than_java_reads_is_refused(name: str, count: int) -> None:
    body = b"".join(map(LONG[name], range(count)))
    assert is_read(body, count, T), "our readers take it"
    found = records_fault(body, 0, len(body), count, T)
    assert found is not None and found.place == 0 and "varint" in found.text
    assert quickly_read(body, 0, len(body), count, T, MANY) is None


def test_a_time_beyond_64_bits_is_refused_and_named() -> None:
    far = b"\xfe" + b"\xff" * 8 + b"\x01"  # 2^63 - 1
    body = record(offset=b"\0", value=b"\x02", rest=b"\0") + record(time=far, offset=b"\2", value=b"\2", rest=b"\0")
    assert is_read(body, 2, 0) and records_fault(body, 0, len(body), 2, 0) is None
    assert not is_read(body, 2, 1)
    found = records_fault(body, 0, len(body), 2, 1)
    assert found is not None and found.place == 1 and "64 bits" in found.text


def test_records_may_stand_anywhere_in_a_buffer() -> None:
    batch = build_batch([b"a" * n for n in range(50)], timestamps_ms=T)
    data = b"before" + batch + b"behind"
    at, end = 6 + HEADER_BYTES, 6 + read_header(batch).size_bytes
    assert records_fault(data, at, end, 50, T) is None
    found = records_fault(data, at, end - 1, 50, T)
    assert found is not None and found.place == 49


def test_the_first_record_with_a_fault_is_named() -> None:
    body = bytearray(build_batch([b"x" * 5] * 200, timestamps_ms=T)[HEADER_BYTES:])
    size = len(body) // 200
    for index in (0, 1, 17, 63):
        changed = bytearray(body)
        changed[index * size] ^= 2
        found = records_fault(bytes(changed), 0, len(changed), 200, T)
        assert found is not None and found.place == index
    found = records_fault(bytes(body) + b"zz", 0, len(body) + 2, 200, T)
    assert found is not None and found.place == OF_THE_BATCH and "2 bytes behind the last of 200" in found.text


def test_a_quick_look_ends_where_it_would_be_long() -> None:
    unequal = build_batch([b"v" * (n % 9) for n in range(300)], timestamps_ms=T)[HEADER_BYTES:]
    assert quickly_read(unequal, 0, len(unequal), 300, T, 299 // 2) is None
    assert quickly_read(unequal, 0, len(unequal), 300, T, 1_000) == 300
    equal = build_batch([b"v" * 9] * 60_000, timestamps_ms=T)[HEADER_BYTES:]
    cost = quickly_read(equal, 0, len(equal), 60_000, T, MANY)
    assert cost is not None and 50_000 < cost < 60_000
    few = build_batch([b"v" * 9] * 8_000, timestamps_ms=T)[HEADER_BYTES:]
    assert quickly_read(few, 0, len(few), 8_000, T, 1_000) is not None


@pytest.mark.parametrize(("count", "of_each"), [(1, 2_100), (100, 25)])
def test_a_quick_look_ends_at_many_headers_of_all_records_together(count: int, of_each: int) -> None:
    headers = [[("h", b"1")] * of_each] * count
    long = build_batch([b"v"] * count, headers=headers, timestamps_ms=T)[HEADER_BYTES:]
    assert quickly_read(long, 0, len(long), count, T, 1_000) is None
    assert records_fault(long, 0, len(long), count, T) is None
