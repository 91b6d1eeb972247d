"""What a compressed body says of its size before it is unpacked, at a cost that does not grow with the body.

    gzip     ends with the size of its last member, modulo 2^32
    snappy   one block begins with its size; xerial's framing says nothing
    lz4      the frame header may have the size; its writers seldom set it
    zstd     the frame header nearly always has the size

A stream may announce less than it holds, so this finds honest giants and nothing else; `decompress` bounds what is
unpacked. `most_bytes` is what no stream of the codec can exceed, however it was made: every format has a largest ratio.
Not here: walking over blocks (`frames.py`), unpacking (`codecs.py`).
"""

from __future__ import annotations

from penstock.record.codecs import XERIAL_MAGIC, Codec
from penstock.record.frames import (
    LZ4_CONTENT_SIZE_BIT,
    LZ4_MAGIC,
    LZ4_MAX_RATIO,
    SKIPPABLE_MAGIC,
    SKIPPABLE_MASK,
    ZSTD_CONTENT_SIZE_BYTES,
    ZSTD_DICTIONARY_BYTES,
    ZSTD_MAGIC,
    ZSTD_MAX_BLOCK_BYTES,
    ZSTD_SINGLE_SEGMENT_BIT,
)

GZIP_MAGIC = b"\x1f\x8b"
GZIP_LEAST_BYTES = 18
"""A header of 10 and a trailer of 8."""
GZIP_MAX_RATIO = 1032
"""Deflate's: a match of 258 bytes in two bits."""
SNAPPY_MAX_RATIO = 32
"""A copy of 64 bytes takes 3."""
ZSTD_MAX_RATIO = ZSTD_MAX_BLOCK_BYTES // 4
"""A block of one repeated byte takes 4; no other block takes less."""
_MAX_RATIO = {
    Codec.NONE: 1,
    Codec.GZIP: GZIP_MAX_RATIO,
    Codec.SNAPPY: SNAPPY_MAX_RATIO,
    Codec.LZ4: LZ4_MAX_RATIO,
    Codec.ZSTD: ZSTD_MAX_RATIO,
}
_SNAPPY_SIZE_BYTES, _SNAPPY_MAX_BYTES = 5, 1 << 32
"""A varint of 32 bits."""
_LZ4_SIZE_AT = 6


def most_bytes(codec: Codec, size_bytes: int) -> int:
    """No stream of so many bytes unpacks to more."""
    return _MAX_RATIO[codec] * size_bytes


def begins_like(codec: Codec, body: memoryview) -> bool:
    """Whether the body begins as the codec's streams do. A raw snappy block begins with its size and no magic."""
    if codec == Codec.GZIP:
        return body[:2] == GZIP_MAGIC
    if codec in (Codec.LZ4, Codec.ZSTD):
        magic = int.from_bytes(body[:4], "little")
        return magic == (LZ4_MAGIC if codec == Codec.LZ4 else ZSTD_MAGIC) or magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC
    if codec == Codec.SNAPPY:
        return body[: len(XERIAL_MAGIC)] == XERIAL_MAGIC or 0 <= _varint(body[:_SNAPPY_SIZE_BYTES]) < _SNAPPY_MAX_BYTES
    return True


def announced_bytes(codec: Codec, body: memoryview) -> int:
    """What the body says it unpacks to, at least; 0 where it says nothing."""
    if codec == Codec.GZIP:
        return int.from_bytes(body[-4:], "little") if len(body) >= GZIP_LEAST_BYTES else 0
    if codec == Codec.SNAPPY:
        return 0 if body[: len(XERIAL_MAGIC)] == XERIAL_MAGIC else max(0, _varint(body[:_SNAPPY_SIZE_BYTES]))
    if codec == Codec.LZ4:
        has_size = len(body) > _LZ4_SIZE_AT and body[4] & LZ4_CONTENT_SIZE_BIT and _magic(body) == LZ4_MAGIC
        return int.from_bytes(body[_LZ4_SIZE_AT : _LZ4_SIZE_AT + 8], "little") if has_size else 0
    if codec == Codec.ZSTD:
        return _zstd_content_bytes(body) if len(body) > 4 and _magic(body) == ZSTD_MAGIC else 0
    return len(body)


def _magic(body: memoryview) -> int:
    return int.from_bytes(body[:4], "little")


def _zstd_content_bytes(body: memoryview) -> int:
    descriptor = body[4]
    is_single = bool(descriptor & ZSTD_SINGLE_SEGMENT_BIT)
    size_bytes = ZSTD_CONTENT_SIZE_BYTES[descriptor >> 6] or (1 if is_single else 0)
    at = 5 + (0 if is_single else 1) + ZSTD_DICTIONARY_BYTES[descriptor & 3]
    return int.from_bytes(body[at : at + size_bytes], "little") + (256 if size_bytes == 2 else 0)


def _varint(body: memoryview) -> int:
    """-1 where it does not end."""
    value = 0
    for at, byte in enumerate(body):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return value
    return -1
