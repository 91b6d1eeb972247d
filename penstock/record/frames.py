"""Computes how much an lz4 or zstd stream can unpack to, from its frame and block headers alone.

The libraries take an output buffer, and cannot stop early with a growing one. So the buffer's size must be known first,
and must not be the number that an attacker declares. Both formats consist of blocks with a length and a small maximum
size. A walk over the lengths costs a few steps a block. Its bound is close for honest streams (all blocks but the last
are full), and linear in the input's size for hostile ones. Nothing is unpacked here; the library checks the checksums.

    lz4 frame:  magic 4 | FLG 1 | BD 1 | content size 8? | dictionary 4? | header check 1
                | blocks: size 4 (top bit: stored), data, check 4? | 0 as size | content check 4?
    zstd frame: magic 4 | descriptor 1 | window 1? | dictionary 0-4 | content size 0-8
                | blocks: header 3 (last 1 bit, type 2 bits, size 21 bits), data | check 4?
    both:       magic 184D2A5x | size 4 | that many bytes: a frame to skip

All integers are little-endian.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import CorruptMessageError

Buffer = bytes | bytearray | memoryview

LZ4_MAGIC = 0x184D2204
ZSTD_MAGIC = 0xFD2FB528
MAGIC_BYTES = 4
SKIPPABLE_MAGIC, SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0

LZ4_VERSION_MASK, LZ4_VERSION, LZ4_INDEPENDENT_BIT = 0xC0, 0x40, 0x20
LZ4_BLOCK_CHECK_BIT, LZ4_CONTENT_SIZE_BIT, LZ4_CONTENT_CHECK_BIT, LZ4_DICTIONARY_BIT = 0x10, 0x08, 0x04, 0x01
LZ4_STORED_BIT = 0x80000000
LZ4_MAX_RATIO = 255
"""An lz4 match byte stands for at most 255 bytes, so a small block cannot fill a large one."""
ZSTD_MAX_BLOCK_BYTES = 128 * 1024
ZSTD_SINGLE_SEGMENT_BIT, ZSTD_CHECK_BIT = 0x20, 0x04
ZSTD_DICTIONARY_BYTES = (0, 1, 2, 4)
ZSTD_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
ZSTD_RAW, ZSTD_RLE, ZSTD_COMPRESSED = 0, 1, 2


def lz4_output_bound(data: Buffer) -> int:
    """An upper bound of what an lz4 stream unpacks to."""
    return _output_bound(data, "lz4", LZ4_MAGIC, _lz4_frame)


def lz4_fault(data: Buffer, at: int, end: int) -> str | None:
    """Why Java's readers refuse the lz4 stream `data[at:end]` though it can be unpacked, as the end of a sentence. They
    read one frame, of independent blocks (KIP-57), and know neither dictionaries nor frames to skip."""
    if _integer(data, at, MAGIC_BYTES) != LZ4_MAGIC:
        return "begins with a frame to skip"
    flags = _integer(data, at + MAGIC_BYTES, 1)
    if not flags & LZ4_INDEPENDENT_BIT:
        return "has lz4 blocks that need the ones before (KIP-57): compress each alone"
    if flags & LZ4_DICTIONARY_BIT:
        return "names a dictionary"
    _, after = _lz4_frame(data, at + MAGIC_BYTES)
    return None if after == end else f"has {end - after} bytes behind its first lz4 frame: write one"


def zstd_output_bound(data: Buffer) -> int:
    """An upper bound of what a zstd stream unpacks to."""
    return _output_bound(data, "zstd", ZSTD_MAGIC, _zstd_frame)


def zstd_content_size(data: Buffer, at: int) -> tuple[int | None, int]:
    """The size that a frame's header declares, if it does, and where its blocks begin; the descriptor is at `at`."""
    descriptor = data[at]
    is_single = bool(descriptor & ZSTD_SINGLE_SEGMENT_BIT)
    size_bytes = ZSTD_CONTENT_SIZE_BYTES[descriptor >> 6] or (1 if is_single else 0)
    at += 1 + (0 if is_single else 1) + ZSTD_DICTIONARY_BYTES[descriptor & 3]
    declared = int.from_bytes(data[at : at + size_bytes], "little") + (256 if size_bytes == 2 else 0)
    return declared if size_bytes else None, at + size_bytes


def _output_bound(data: Buffer, codec: str, frame_magic: int, frame: Callable[[Buffer, int], tuple[int, int]]) -> int:
    """The bound of all frames together; `frame` tells the bound of one, and where it ends."""
    at = bound = 0
    while at < len(data):
        magic, body_at = _integer(data, at, MAGIC_BYTES), at + MAGIC_BYTES
        if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC:
            at = body_at + 4 + _integer(data, body_at, 4)
        elif magic == frame_magic:
            size, at = frame(data, body_at)
            bound += size
        else:
            raise CorruptMessageError(f"broken {codec} stream: no frame at byte {at}")
    return bound


def _lz4_frame(data: Buffer, at: int) -> tuple[int, int]:
    flags, block_code = _integer(data, at, 1), _integer(data, at + 1, 1) >> 4 & 7
    if flags & LZ4_VERSION_MASK != LZ4_VERSION or block_code < 4:
        raise CorruptMessageError("broken lz4 stream: its frame header is invalid")
    max_block_bytes = 1 << (8 + 2 * block_code)
    at += 3 + (8 if flags & LZ4_CONTENT_SIZE_BIT else 0) + (4 if flags & LZ4_DICTIONARY_BIT else 0)
    check_bytes = 4 if flags & LZ4_BLOCK_CHECK_BIT else 0
    bound = 0
    while size := _integer(data, at, 4):
        stored_bytes = size & ~LZ4_STORED_BIT
        bound += stored_bytes if size & LZ4_STORED_BIT else min(max_block_bytes, LZ4_MAX_RATIO * stored_bytes)
        at += 4 + stored_bytes + check_bytes
    return bound, at + 4 + (4 if flags & LZ4_CONTENT_CHECK_BIT else 0)


def _zstd_frame(data: Buffer, at: int) -> tuple[int, int]:
    descriptor = _integer(data, at, 1)
    declared, at = zstd_content_size(data, at)
    bound, is_last = 0, False
    while not is_last:
        block = _integer(data, at, 3)
        is_last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        if size > ZSTD_MAX_BLOCK_BYTES or kind > ZSTD_COMPRESSED:
            raise CorruptMessageError("broken zstd stream: a block header is invalid")
        bound += ZSTD_MAX_BLOCK_BYTES if kind == ZSTD_COMPRESSED else size
        at += 3 + (1 if kind == ZSTD_RLE else size)
    return bound if declared is None else min(bound, declared), at + (4 if descriptor & ZSTD_CHECK_BIT else 0)


def _integer(data: Buffer, at: int, size_bytes: int) -> int:
    if at + size_bytes > len(data):
        raise CorruptMessageError("broken compressed stream: it is cut off")
    return int.from_bytes(data[at : at + size_bytes], "little")
