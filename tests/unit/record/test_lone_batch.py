"""A record that a producer accepts is one that the broker accepts, where their limits are alike."""

from __future__ import annotations

from random import Random

import pytest

from penstock.errors import MessageTooLargeError
from penstock.record.batch import read_header
from penstock.record.builder import Headers, build_batch
from penstock.record.codecs import Codec
from penstock.record.lone_batch import LARGE_BYTES, check_record_size, lone_batch_bytes, smallest_batch

LENGTHS = (None, 0, 1, 63, 64, 8_100, 8_191, 8_192, 1_048_500, 1_048_576)
HEADERS: tuple[Headers, ...] = (
    (),
    (("h", None),),
    (("größe", b"x" * 70), ("h", b"")),
    tuple(("h", b"1") for _ in range(70)),
)


@pytest.mark.parametrize("headers", HEADERS)
@pytest.mark.parametrize("key_len", [None, 0, 200])
def test_the_size_is_that_of_the_batch_to_the_byte(key_len: int | None, headers: Headers) -> None:
    key = None if key_len is None else b"k" * key_len
    for length in LENGTHS:
        value = None if length is None else b"v" * length
        batch = build_batch([value], keys=[key], headers=[headers], timestamps_ms=1_795_647_827_177)
        assert lone_batch_bytes(value, key, headers) == len(batch)


def test_the_limit_itself_is_taken_and_one_byte_more_is_not() -> None:
    check_record_size(b"x" * 930, None, (), 1_000)
    with pytest.raises(MessageTooLargeError, match="has 1001 bytes; the limit is max_request_size=1000"):
        check_record_size(b"x" * 931, None, (), 1_000)
    with pytest.raises(MessageTooLargeError):
        check_record_size(b"x" * 900, b"k" * 40, (), 1_000)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compression_never_takes_a_large_record_over_the_limit(codec: Codec) -> None:
    value = Random(1).randbytes(LARGE_BYTES)

    def build(*, codec: Codec) -> bytes:
        return build_batch([value], timestamps_ms=1, codec=codec)

    assert len(build(codec=codec)) > lone_batch_bytes(value), "noise grows when it is compressed"
    encoded = smallest_batch(build, codec, 1)
    assert len(encoded) == lone_batch_bytes(value) and read_header(encoded).codec == Codec.NONE


def test_what_compression_makes_smaller_stays_compressed() -> None:
    def build(*, codec: Codec) -> bytes:
        return build_batch([b"x" * LARGE_BYTES * 2], timestamps_ms=1, codec=codec)

    assert read_header(smallest_batch(build, Codec.ZSTD, 1)).codec == Codec.ZSTD
