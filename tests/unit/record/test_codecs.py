"""Codecs: framings as Kafka's Java clients write them, caps that hold, and damage that stays typed."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from contextlib import suppress

import cramjam
import pytest

from penstock.errors import CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError
from penstock.record.codecs import (
    LZ4_FRAME_HEADER,
    XERIAL_HEADER,
    Codec,
    codec_from_id,
    codec_from_name,
    compress,
    decompress,
)
from penstock.record.frames import lz4_output_bound, zstd_output_bound

PACKING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
DATA = b"".join(b"%d: some words that come again\n" % number for number in range(5000))
SKIPPABLE = bytes.fromhex("502a4d18 03000000 616263")


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", DATA, bytes(300_000)])
def test_what_goes_in_comes_out_at_exactly_the_cap(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", Codec)
def test_one_byte_over_the_cap_is_too_large(codec: Codec) -> None:
    with pytest.raises(MessageTooLargeError, match=str(len(DATA) - 1)):
        decompress(codec, compress(codec, DATA), len(DATA) - 1)


@pytest.mark.parametrize("codec", PACKING)
def test_a_bomb_is_refused_without_the_memory_it_asks_for(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * 1024 * 1024))
    cap = 100_000

    tracemalloc.start()
    with pytest.raises(MessageTooLargeError):
        decompress(codec, bomb, cap)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < len(bomb) + 10 * cap


@pytest.mark.parametrize("codec", PACKING)
def test_every_cut_of_a_stream_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, DATA[:2000])
    whole_xerial = {0} if codec != Codec.SNAPPY else {len(XERIAL_HEADER)}  # a xerial stream of no blocks is whole

    for size in set(range(len(packed))) - whole_xerial | {0}:
        with pytest.raises(CorruptMessageError):
            decompress(codec, packed[:size], 1 << 20)


@pytest.mark.parametrize("codec", PACKING)
def test_every_flipped_byte_gives_bytes_or_a_typed_error(codec: Codec) -> None:
    packed = bytearray(compress(codec, DATA[:3000]))
    for at in range(len(packed)):
        for flip in (0x01, 0x80, 0xFF):
            packed[at] ^= flip
            with suppress(CorruptMessageError, MessageTooLargeError):
                assert len(decompress(codec, bytes(packed), 1 << 20)) <= 1 << 20
            packed[at] ^= flip


@pytest.mark.parametrize("codec", PACKING)
def test_garbage_behind_a_stream_is_corrupt(codec: Codec) -> None:
    with pytest.raises(CorruptMessageError):
        decompress(codec, compress(codec, DATA) + b"garbage", 1 << 20)


@pytest.mark.parametrize("codec", PACKING)
def test_streams_strung_together_are_read_as_one(codec: Codec) -> None:
    assert decompress(codec, compress(codec, b"one") + compress(codec, b"two"), 6) == b"onetwo"


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_skippable_frames_are_skipped(codec: Codec) -> None:
    assert decompress(codec, SKIPPABLE + compress(codec, b"one"), 3) == b"one"


def test_snappy_is_written_in_xerial_blocks_of_32_kib() -> None:
    packed = compress(Codec.SNAPPY, bytes(80_000))

    assert packed.startswith(XERIAL_HEADER)
    size = int.from_bytes(packed[16:20], "big")
    assert len(bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + size]))) == 32 * 1024


def test_raw_snappy_is_read_too() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(DATA)), len(DATA)) == DATA


def test_lz4_blocks_are_independent_because_java_refuses_linked_ones() -> None:
    flags = compress(Codec.LZ4, DATA)[4]

    assert flags & 0x20


def test_an_lz4_frame_has_the_header_that_java_writes_and_ends_as_it_should() -> None:
    packed = compress(Codec.LZ4, DATA)

    assert packed.startswith(bytes.fromhex("04224d18 60 40 82")) and packed.endswith(bytes(4))
    assert compress(Codec.LZ4, b"") == bytes.fromhex("04224d18 60 40 82 00000000")
    assert bytes(cramjam.lz4.decompress(packed)) == DATA


def test_lz4_blocks_that_would_grow_are_stored() -> None:
    noise = random.Random(5).randbytes(200_000)

    packed = compress(Codec.LZ4, noise)

    assert len(packed) == len(LZ4_FRAME_HEADER) + len(noise) + 4 * 4 + 4
    assert decompress(Codec.LZ4, packed, len(noise)) == noise == bytes(cramjam.lz4.decompress(packed))


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, [-1, 1, 9]), (Codec.LZ4, [1, 2, 3, 9, 12, 17]), (Codec.ZSTD, [-131_072, -1, 1, 3, 22])],
)
@pytest.mark.parametrize("data", [b"", DATA])
def test_every_level_of_kafkas_range_packs_what_comes_out_again(codec: Codec, levels: list[int], data: bytes) -> None:
    packed = [compress(codec, data, level) for level in levels]

    assert {decompress(codec, one, len(data)) for one in packed} == {data}


@pytest.mark.parametrize(("codec", "level"), [(Codec.GZIP, -1), (Codec.GZIP, 6), (Codec.LZ4, 9), (Codec.ZSTD, 3)])
def test_the_default_level_is_kafkas(codec: Codec, level: int) -> None:
    assert compress(codec, DATA) == compress(codec, DATA, level)


def test_lz4_with_linked_blocks_checks_and_content_size_is_read() -> None:
    assert decompress(Codec.LZ4, bytes(cramjam.lz4.compress(DATA)), len(DATA)) == DATA


def test_gzip_of_the_standard_library_is_read() -> None:
    assert decompress(Codec.GZIP, gzip.compress(DATA), len(DATA)) == DATA


def test_output_bounds_are_close_for_honest_streams() -> None:
    data = bytes(1_000_000)

    assert len(data) <= lz4_output_bound(compress(Codec.LZ4, data)) < len(data) + 64 * 1024
    assert len(data) <= zstd_output_bound(compress(Codec.ZSTD, data)) < len(data) + 128 * 1024


def test_a_false_declared_size_allocates_no_more_than_the_blocks_can_fill() -> None:
    # A zstd frame of one segment, which declares 2^62 bytes and has one raw block of one.
    frame = bytes.fromhex("28b52ffd e0") + (1 << 62).to_bytes(8, "little") + bytes.fromhex("090000 61")

    assert zstd_output_bound(frame) == 1
    with pytest.raises(CorruptMessageError):
        decompress(Codec.ZSTD, frame, 1 << 20)


def test_names_and_ids_are_kafkas() -> None:
    assert [codec_from_name(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == list(range(5))
    assert [codec_from_id(number) for number in range(5)] == list(Codec)


@pytest.mark.parametrize("number", [5, 7, -1])
def test_unknown_id_is_refused(number: int) -> None:
    with pytest.raises(UnsupportedCompressionTypeError):
        codec_from_id(number)


def test_unknown_name_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(UnsupportedCompressionTypeError, match="none, gzip, snappy, lz4, zstd"):
        codec_from_name("brotli")
