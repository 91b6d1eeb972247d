"""Reads the unpacked size that a compressed body announces, at a cost that does not grow with the body.

    gzip     ends with the size of its last member, modulo 2^32
    snappy   one block begins with its size; xerial's framing says nothing
    lz4      the frame header may have the size; its writers seldom set it
    zstd     the frame header nearly always has the size

A stream may announce less than it holds. So this finds only honest streams that are too large; `decompress` bounds the
output. No stream of a codec can exceed its `MAX_RATIOS`, however it was made. Not here: walking over blocks
(`frames.py`), unpacking (`codecs.py`).
"""

from __future__ import annotations

from struct import Struct

from penstock.errors import CorruptMessageError
from penstock.record.codecs import XERIAL_MAGIC
from penstock.record.frames import (
    LZ4_CONTENT_SIZE_BIT,
    LZ4_MAGIC,
    LZ4_MAX_RATIO,
    MAGIC_BYTES,
    SKIPPABLE_MAGIC,
    SKIPPABLE_MASK,
    ZSTD_MAGIC,
    ZSTD_MAX_BLOCK_BYTES,
    zstd_content_size,
)
from penstock.record.varint import decode_zigzag

Buffer = bytes | bytearray | memoryview

NOT_A_STREAM = -1
GZIP_MAGIC = b"\x1f\x8b"
GZIP_LEAST_BYTES = 18
"""A header of 10 and a trailer of 8."""
GZIP_MAX_RATIO = 1032
"""Deflate's: a match of 258 bytes in two bits."""
SNAPPY_MAX_RATIO = 32
"""A copy of 64 bytes takes 3."""
ZSTD_MAX_RATIO = ZSTD_MAX_BLOCK_BYTES // 4
"""A block of one repeated byte takes 4; no other block takes less."""
MAX_RATIOS = (1, GZIP_MAX_RATIO, SNAPPY_MAX_RATIO, LZ4_MAX_RATIO, ZSTD_MAX_RATIO)
"""The largest ratios by the id of the codec."""
SNAPPY_SIZE_BYTES, SNAPPY_MAX_BYTES = 5, (1 << 32) - 1
"""A varint of 32 bits."""
_FRAME = Struct("<IB")
"""The magic, and the byte of flags after it."""
_ANY_FRAME_BYTES = 8
"""An lz4 or zstd stream is longer, whatever it begins with."""


def announced_bytes(codec_id: int, data: Buffer, at: int, end: int) -> int:
    """The least size that the body `data[at:end]` says it unpacks to; 0 where it says nothing.

    `NOT_A_STREAM` if no stream of the codec begins like that. For a truncated stream the answer means nothing.
    """
    return _ANNOUNCED[codec_id](data, at, end)


def _none(data: Buffer, at: int, end: int) -> int:
    return end - at


def _gzip(data: Buffer, at: int, end: int) -> int:
    if end - at < GZIP_LEAST_BYTES or data[at : at + 2] != GZIP_MAGIC:
        return NOT_A_STREAM
    return int.from_bytes(data[end - 4 : end], "little")


def _snappy(data: Buffer, at: int, end: int) -> int:
    if data[at : at + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
        return 0
    try:
        value, _ = decode_zigzag(data[at : min(at + SNAPPY_SIZE_BYTES, end)], 0)
    except CorruptMessageError:
        return NOT_A_STREAM
    return value if value <= SNAPPY_MAX_BYTES else NOT_A_STREAM


def _lz4(data: Buffer, at: int, end: int) -> int:
    if end - at < _ANY_FRAME_BYTES:
        return NOT_A_STREAM
    magic, flags = _FRAME.unpack_from(data, at)
    if magic == LZ4_MAGIC:
        return int.from_bytes(data[at + 6 : at + 14], "little") if flags & LZ4_CONTENT_SIZE_BIT else 0
    return 0 if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC else NOT_A_STREAM


def _zstd(data: Buffer, at: int, end: int) -> int:
    if end - at < _ANY_FRAME_BYTES:
        return NOT_A_STREAM
    magic, _ = _FRAME.unpack_from(data, at)
    if magic != ZSTD_MAGIC:
        return 0 if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC else NOT_A_STREAM
    return zstd_content_size(data, at + MAGIC_BYTES)[0] or 0


_ANNOUNCED = (_none, _gzip, _snappy, _lz4, _zstd)
