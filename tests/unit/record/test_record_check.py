"""A leader takes the records that readers decode, and no others. It names the first one with a fault, and finds the
largest time."""

from __future__ import annotations

from random import Random

import pytest

from penstock.errors import CorruptMessageError
from penstock.record.batch import HEADER_BYTES, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.reader import read_columns
from penstock.record.record_check import OF_THE_BATCH, RecordFault, look

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
    spread = random.choice(
        ((0, 1, 500_000), (0,), range(64), range(-64, 64), range(9_000), range(-9_000, 64), (-1, -2))
    )
    times = [T, *(T + random.choice(spread) for _ in range(count - 1))]
    if random.random() < 0.3:
        times.sort()
    if random.random() < 0.2:
        times = [random.choice((0, T, INT64_MAX - T)) for _ in range(count)]
    body = bytearray(build_batch(values, keys=keys, headers=headers, timestamps_ms=times)[HEADER_BYTES:])
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        at = random.randrange(len(body))
        body[at] = random.choice((0, 1, 2, 127, 128, 255, body[at] ^ 1, body[at] ^ 2))
    if random.random() < 0.1:
        del body[random.randrange(len(body)) :]
    return bytes(body) + random.choice((b"", b"", b"zz")), random.choice((count, count, count, count + 1))


def largest_read_ms(body: bytes, count: int, base_ms: int) -> int | None:
    """The largest time that a reader finds, where it takes the batch and there is a record for each offset."""
    header = read_header(build_batch([b"v"], timestamps_ms=0))
    header = header._replace(record_count=count, last_offset_delta=count - 1, base_timestamp_ms=base_ms)
    try:
        columns = read_columns(pack_batch(header, body))
    except CorruptMessageError:
        return None
    return max(columns.timestamps_ms) if list(columns.offsets) == list(range(count)) else None


def found_ms(body: bytes, count: int, base_ms: int, cost_max: int | None = None) -> int | None:
    """The largest time that the look finds; None for a fault."""
    found = look(body, 0, len(body), count, base_ms, cost_max)
    return None if isinstance(found, RecordFault) else found[0]


def fault(data: bytes, at: int, end: int, count: int, base_ms: int) -> RecordFault | None:
    found = look(data, at, end, count, base_ms)
    return found if isinstance(found, RecordFault) else None


def quick_cost(body: bytes, count: int, cost_max: int) -> int | None:
    """The cost of a look that may cost so much; None where it may not."""
    found = look(body, 0, len(body), count, T, cost_max)
    return None if isinstance(found, RecordFault) else found[1]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_passes_is_read_with_that_largest_time_and_whatever_does_not_is_not(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        body, count = drawn(random)
        base_ms = random.choice((0, T, T, T, INT64_MAX, INT64_MAX - T, INT64_MIN, -T))
        expected_ms = largest_read_ms(body, count, base_ms)
        assert found_ms(body, count, base_ms) == expected_ms
        is_seldom = abs(base_ms) >= 1 << 62 or (expected_ms is not None and expected_ms < base_ms)
        assert found_ms(body, count, base_ms, MANY) == (None if is_seldom else expected_ms)


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
    assert largest_read_ms(body, count, T) == T, "our readers take it"
    found = fault(body, 0, len(body), count, T)
    assert found is not None and found.place == 0 and "varint" in found.text
    assert found_ms(body, count, T, MANY) is None


def test_a_time_beyond_64_bits_is_refused_and_named() -> None:
    far = b"\xfe" + b"\xff" * 8 + b"\x01"  # 2^63 - 1
    body = record(offset=b"\0", value=b"\x02", rest=b"\0") + record(time=far, offset=b"\2", value=b"\2", rest=b"\0")
    assert largest_read_ms(body, 2, 0) == found_ms(body, 2, 0) == INT64_MAX
    assert largest_read_ms(body, 2, 1) is None
    found = fault(body, 0, len(body), 2, 1)
    assert found is not None and found.place == 1 and "64 bits" in found.text


def test_records_may_stand_anywhere_in_a_buffer() -> None:
    batch = build_batch([b"a" * n for n in range(50)], timestamps_ms=T)
    data = b"before" + batch + b"behind"
    at, end = 6 + HEADER_BYTES, 6 + read_header(batch).size_bytes
    assert fault(data, at, end, 50, T) is None
    found = fault(data, at, end - 1, 50, T)
    assert found is not None and found.place == 49


def test_the_first_record_with_a_fault_is_named() -> None:
    body = bytearray(build_batch([b"x" * 5] * 200, timestamps_ms=T)[HEADER_BYTES:])
    size = len(body) // 200
    for index in (0, 1, 17, 63):
        changed = bytearray(body)
        changed[index * size] ^= 2
        found = fault(bytes(changed), 0, len(changed), 200, T)
        assert found is not None and found.place == index
    found = fault(bytes(body) + b"zz", 0, len(body) + 2, 200, T)
    assert found is not None and found.place == OF_THE_BATCH and "2 bytes behind the last of 200" in found.text


def test_a_quick_look_ends_where_it_would_be_long() -> None:
    unequal = build_batch([b"v" * (n % 9) for n in range(300)], timestamps_ms=T)[HEADER_BYTES:]
    assert quick_cost(unequal, 300, 299 // 2) is None
    assert quick_cost(unequal, 300, 1_000) == 300
    equal = build_batch([b"v" * 9] * 60_000, timestamps_ms=T)[HEADER_BYTES:]
    cost = quick_cost(equal, 60_000, MANY)
    assert cost is not None and 50_000 < cost < 60_000
    few = build_batch([b"v" * 9] * 8_000, timestamps_ms=T)[HEADER_BYTES:]
    assert quick_cost(few, 8_000, 1_000) is not None


@pytest.mark.parametrize(("count", "of_each"), [(1, 2_100), (100, 25)])
def test_a_quick_look_ends_at_many_headers_of_all_records_together(count: int, of_each: int) -> None:
    headers = [[("h", b"1")] * of_each] * count
    long = build_batch([b"v"] * count, headers=headers, timestamps_ms=T)[HEADER_BYTES:]
    assert quick_cost(long, count, 1_000) is None
    assert found_ms(long, count, T) == T
