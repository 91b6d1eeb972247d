"""Batches that no reader can decode, each with another lie; all have two records and a right length."""

from __future__ import annotations

from collections.abc import Callable

from penstock.record.batch import HEADER_BYTES, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec, compress


def wrong_checksum(base_offset: int) -> bytes:
    batch = bytearray(_good(base_offset))
    batch[-3] ^= 1
    return bytes(batch)


def junk_body(base_offset: int) -> bytes:
    return pack_batch(read_header(_good(base_offset)), b"\xff" * 40)


def bomb(base_offset: int) -> bytes:
    """A few kilobytes that unpack to more than one batch may."""
    header = read_header(_good(base_offset))
    return pack_batch(header._replace(attributes=int(Codec.ZSTD)), compress(Codec.ZSTD, bytes(70 << 20)))


def wrong_count(base_offset: int) -> bytes:
    good = _good(base_offset)
    return pack_batch(read_header(good)._replace(record_count=3), good[HEADER_BYTES:])


def unknown_codec(base_offset: int) -> bytes:
    good = _good(base_offset)
    return pack_batch(read_header(good)._replace(attributes=7), good[HEADER_BYTES:])


def _good(base_offset: int) -> bytes:
    return build_batch([b"x", b"y"], timestamps_ms=0, base_offset=base_offset, leader_epoch=0)


BAD: tuple[Callable[[int], bytes], ...] = (wrong_checksum, junk_body, bomb, wrong_count, unknown_codec)
