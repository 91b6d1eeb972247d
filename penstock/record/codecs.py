"""The five codecs of a record batch, each with a cap on the unpacked size.

A batch of a few kilobytes can claim to hold gigabytes, so `decompress` never trusts a stream. Either a bound of the
output is computed before anything is unpacked (lz4 and zstd by walking the block headers, snappy by its declared size),
or the output is taken in steps (gzip). The buffer is the smaller of that bound and the cap. An output over the cap is
`MessageTooLargeError`; a broken stream is `CorruptMessageError`.

Framings are those of Kafka's Java clients: gzip; snappy in xerial's blocks (raw snappy is also read, as librdkafka
writes it); lz4 frames with independent blocks (KIP-57: the Java reader refuses linked ones); zstd frames. Levels are
Kafka's too (KIP-390).

No codec holds the interpreter's lock for long, so a node can compress in a thread beside its loop. The libraries
release the lock, except for the lz4 frame writer. Hence fast lz4 frames are built here, from blocks; the slow levels
need the frame writer, which gets the data in pieces.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct
from typing import Any, Final

import cramjam

from penstock.errors import CorruptMessageError, MessageTooLargeError, UnsupportedCompressionTypeError
from penstock.record.frames import LZ4_STORED_BIT, lz4_output_bound, zstd_output_bound


class Codec(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_BY_ID: Final = tuple(Codec)
_BY_NAME: Final = {codec.name.lower(): codec for codec in Codec}

GZIP_WBITS = 31
"""zlib's number for 'a gzip header and trailer, and the largest window'."""
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
"""Magic, version 1, readable by version 1; then blocks: length int32, raw snappy."""
XERIAL_VERSION = 1
XERIAL_BLOCK_BYTES = 32 * 1024
"""Bytes that Kafka's Java clients put into one block."""
GZIP_LEVEL = zlib.Z_DEFAULT_COMPRESSION
ZSTD_LEVEL = 3
LZ4_LEVEL = 9
"""Kafka's default, and by Kafka's rule not the ninth level of the slow compressor but the fast one."""
LZ4_MAX_LEVEL = 12
"""The highest level of the slow compressor; Kafka's range goes to 17, and the library caps it in the same way."""
LZ4_FRAME_HEADER = bytes.fromhex("04224d18 60 40 82")
"""Magic; version 1, independent blocks, no checksums and sizes; blocks of 64 KiB; the check byte of these two."""
LZ4_BLOCK_BYTES = 64 * 1024
LZ4_END = bytes(4)
_LZ4_BLOCK_LENGTH = Struct("<I")
_BLOCK_LENGTH = Struct(">i")
_OUTPUT_FULL = "failed to write whole buffer"
"""cramjam's words when the output buffer is full (a test pins them); any other failure is a broken stream."""


def codec_from_id(number: int) -> Codec:
    """The codec of an id on the wire."""
    if 0 <= number < len(_BY_ID):
        return _BY_ID[number]
    raise UnsupportedCompressionTypeError(f"compression codec {number} is not known; known are 0 to {len(_BY_ID) - 1}")


def codec_from_name(name: str) -> Codec:
    """The codec of a `compression.type`."""
    codec = _BY_NAME.get(name)
    if codec is None:
        raise UnsupportedCompressionTypeError(f"compression type {name!r} is not one of {', '.join(_BY_NAME)}")
    return codec


def compress(codec: Codec, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """`data` in the codec's framing, at the level that Kafka's clients use unless told otherwise.

    Levels: gzip -1 (zlib's own choice, 6) or 1 to 9, lz4 1 to 17, zstd -131072 to 22; snappy has none.
    """
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        packer = zlib.compressobj(GZIP_LEVEL if level is None else level, wbits=GZIP_WBITS)
        return packer.compress(data) + packer.flush()
    if codec == Codec.SNAPPY:
        return _compress_xerial(data)
    if codec == Codec.LZ4:
        return _compress_lz4(data) if level in (None, LZ4_LEVEL) else _compress_lz4_slowly(data, level or LZ4_LEVEL)
    return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL if level is None else level))


def decompress(codec: Codec, data: bytes | memoryview, max_bytes: int) -> bytes:
    """The unpacked `data`, at most `max_bytes`."""
    if codec == Codec.NONE:
        _check_cap(len(data), max_bytes)
        return bytes(data)
    if codec == Codec.GZIP:
        return _decompress_gzip(data, max_bytes)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(data, max_bytes)
    if codec == Codec.LZ4:
        return _decompress_bounded(cramjam.lz4, data, lz4_output_bound(data), max_bytes)
    return _decompress_bounded(cramjam.zstd, data, zstd_output_bound(data), max_bytes)


def _check_cap(size_bytes: int, max_bytes: int) -> None:
    if size_bytes > max_bytes:
        raise MessageTooLargeError(f"a record batch unpacks to {size_bytes} bytes or more, the limit is {max_bytes}")


def _decompress_gzip(data: bytes | memoryview, max_bytes: int) -> bytes:
    members: list[bytes] = []
    size_bytes = 0
    rest: bytes | memoryview = data
    while True:
        unpacker = zlib.decompressobj(wbits=GZIP_WBITS)
        try:
            # One byte above what is left, so that 'full' and 'too much' can be told apart.
            member = unpacker.decompress(rest, max_bytes - size_bytes + 1)
        except zlib.error as error:
            raise CorruptMessageError(f"broken gzip stream: {error}") from error
        members.append(member)
        size_bytes += len(member)
        _check_cap(size_bytes, max_bytes)
        if not unpacker.eof:
            raise CorruptMessageError("broken gzip stream: it is cut off")
        rest = unpacker.unused_data
        if not rest:
            return members[0] if len(members) == 1 else b"".join(members)


def _compress_xerial(data: bytes | bytearray | memoryview) -> bytes:
    blocks = [XERIAL_HEADER]
    with memoryview(data) as view:
        for at in range(0, len(data), XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(view[at : at + XERIAL_BLOCK_BYTES]))
            blocks += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(blocks)


def _compress_lz4(data: bytes | bytearray | memoryview) -> bytes:
    """A frame of blocks of the fast compressor; a block that would grow is stored."""
    pieces = [LZ4_FRAME_HEADER]
    with memoryview(data) as view:
        for at in range(0, len(view), LZ4_BLOCK_BYTES):
            block = view[at : at + LZ4_BLOCK_BYTES]
            packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
            if len(packed) < len(block):
                pieces += (_LZ4_BLOCK_LENGTH.pack(len(packed)), packed)
            else:
                pieces += (_LZ4_BLOCK_LENGTH.pack(len(block) | LZ4_STORED_BIT), bytes(block))
    pieces.append(LZ4_END)
    return b"".join(pieces)


def _compress_lz4_slowly(data: bytes | bytearray | memoryview, level: int) -> bytes:
    frame = cramjam.lz4.Compressor(level=min(level, LZ4_MAX_LEVEL), content_checksum=False, block_linked=False)
    with memoryview(data) as view:
        for at in range(0, len(view), LZ4_BLOCK_BYTES):
            frame.compress(bytes(view[at : at + LZ4_BLOCK_BYTES]))
    return bytes(frame.finish())


def _decompress_snappy(data: bytes | memoryview, max_bytes: int) -> bytes:
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _decompress_snappy_block(data, 0, max_bytes)
    blocks: list[bytes] = []
    size_bytes, at, end = 0, len(XERIAL_HEADER), len(data)
    if at > end:
        raise CorruptMessageError("broken snappy stream: it is cut off in its header")
    while at < end:
        if data[at : at + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            at += len(XERIAL_HEADER)  # streams may be strung together; the magic is negative as a length
            continue
        start = at + _BLOCK_LENGTH.size
        if start > end:
            raise CorruptMessageError("broken snappy stream: it is cut off in a block's length")
        (size,) = _BLOCK_LENGTH.unpack_from(data, at)
        at = start + size
        if size < 0 or at > end:
            raise CorruptMessageError(f"broken snappy stream: a block of {size} bytes where {end - start} are left")
        blocks.append(_decompress_snappy_block(data[start:at], size_bytes, max_bytes))
        size_bytes += len(blocks[-1])
    return b"".join(blocks)


def xerial_fault(data: bytes, at: int, end: int) -> str | None:
    """Why readers of Java refuse the xerial stream `data[at:end]` though it can be unpacked, as the end of a sentence.
    They know no version below 1: older ones in no header, newer ones in none but the first."""
    while at < end:
        if data[at : at + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            if at + len(XERIAL_HEADER) > end:
                return "is cut off in a header of xerial's"
            (version,) = _BLOCK_LENGTH.unpack_from(data, at + len(XERIAL_MAGIC))
            if version < XERIAL_VERSION:
                return f"has a header of xerial's version {version}: write {XERIAL_VERSION}"
            at += len(XERIAL_HEADER)
        else:
            at += _BLOCK_LENGTH.size + int(_BLOCK_LENGTH.unpack_from(data, at)[0])
    return None


def _decompress_snappy_block(block: bytes | memoryview, before_bytes: int, max_bytes: int) -> bytes:
    try:
        _check_cap(before_bytes + cramjam.snappy.decompress_raw_len(block), max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptMessageError(f"broken snappy stream: {error}") from error


def _decompress_bounded(library: Any, data: bytes | memoryview, bound: int, max_bytes: int) -> bytes:
    """Unpacks into a buffer of the computed bound, or of the cap where the bound is above it."""
    output = bytearray(min(bound, max_bytes))
    try:
        size_bytes = library.decompress_into(data, output)
    except cramjam.DecompressionError as error:
        if bound > max_bytes and _OUTPUT_FULL in str(error):
            _check_cap(max_bytes + 1, max_bytes)
        raise CorruptMessageError(f"broken compressed stream: {error}") from error
    return bytes(memoryview(output)[:size_bytes])
