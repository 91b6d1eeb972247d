"""A leader takes the records that readers decode, and no others; it names the first one with a fault."""

from __future__ import annotations

from random import Random

import pytest

from penstock.errors import CorruptMessageError
from penstock.record.batch import HEADER_BYTES, read_header
from penstock.record.builder import build_batch
from penstock.record.decoding import decode_records
from penstock.record.record_check import OF_THE_BATCH, are_quickly_read, records_fault

T = 1_700_000_000_000
MANY = 10**9


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
    body = bytearray(build_batch(values, keys=keys, headers=headers, timestamps_ms=times)[HEADER_BYTES:])
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        at = random.randrange(len(body))
        body[at] = random.choice((0, 1, 2, 127, 128, 255, body[at] ^ 1, body[at] ^ 2))
    if random.random() < 0.1:
        del body[random.randrange(len(body)) :]
    return bytes(body) + random.choice((b"", b"", b"zz")), random.choice((count, count, count, count + 1))


@pytest.mark.parametrize("seed", range(40))
def test_whatever_passes_is_read_and_whatever_does_not_is_not(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        body, count = drawn(random)
        try:
            decoded = decode_records(body, 0, len(body), count, count - 1)
            is_read = list(decoded.offset_deltas) == list(range(count))
        except CorruptMessageError:
            is_read = False
        assert (records_fault(body, 0, len(body), count) is None) == is_read
        assert are_quickly_read(body, 0, len(body), count, MANY) == is_read


def test_records_may_stand_anywhere_in_a_buffer() -> None:
    batch = build_batch([b"a" * n for n in range(50)], timestamps_ms=T)
    data = b"before" + batch + b"behind"
    at, end = 6 + HEADER_BYTES, 6 + read_header(batch).size_bytes
    assert records_fault(data, at, end, 50) is None
    found = records_fault(data, at, end - 1, 50)
    assert found is not None and found.place == 49


def test_the_first_record_with_a_fault_is_named() -> None:
    body = bytearray(build_batch([b"x" * 5] * 200, timestamps_ms=T)[HEADER_BYTES:])
    size = len(body) // 200
    for index in (0, 1, 17, 63):
        changed = bytearray(body)
        changed[index * size] ^= 2
        found = records_fault(bytes(changed), 0, len(changed), 200)
        assert found is not None and found.place == index
    found = records_fault(bytes(body) + b"zz", 0, len(body) + 2, 200)
    assert found is not None and found.place == OF_THE_BATCH and "2 bytes behind the last of 200" in found.text


def test_a_quick_look_ends_where_it_would_be_long() -> None:
    unequal = build_batch([b"v" * (n % 9) for n in range(300)], timestamps_ms=T)[HEADER_BYTES:]
    assert not are_quickly_read(unequal, 0, len(unequal), 300, 299 // 2)
    assert are_quickly_read(unequal, 0, len(unequal), 300, 1_000)
    equal = build_batch([b"v" * 9] * 60_000, timestamps_ms=T)[HEADER_BYTES:]
    assert are_quickly_read(equal, 0, len(equal), 60_000, 1_000)
    headers = [[("h", b"1")] * 500]
    long = build_batch([b"v"], headers=headers, timestamps_ms=T)[HEADER_BYTES:]
    assert not are_quickly_read(long, 0, len(long), 1, 1_000) and records_fault(long, 0, len(long), 1) is None
