"""Tells an append that a crash tore off from a tail that may once have been whole and flushed. Pure.

A flush (fdatasync) makes the length of a file durable together with its bytes. So a batch that the end of the file cuts
short was never flushed: a kill or a power cut in the middle of a write explains it, and no acked record is lost.

Any other bad tail may have been acked before it was damaged: a batch of full length with a wrong checksum, bytes that
are no batch, a batch with others behind it. The same holds for a batch that only seems to be cut short, because its
length field, which no checksum covers, has changed. Such a tail holds a whole batch of a shorter length, or the next
batch begins inside it.

`recovery.py` decides what follows, and so does a voter, which must not forget what it acked.
"""

from __future__ import annotations

from struct import Struct

from penstock.errors import CorruptMessageError
from penstock.record.batch import (
    BASE_OFFSET_AT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    read_header,
    verify_crc,
)

_OFFSET = Struct(">q")


def is_torn_append(tail: bytes, expected_offset: int) -> bool:
    """True if `tail`, from the first bad byte to the end of the file, can only be the beginning of an append."""
    if len(tail) < HEADER_BYTES:
        return len(tail) < _OFFSET.size or _OFFSET.unpack_from(tail, BASE_OFFSET_AT)[0] == expected_offset
    try:
        header = read_header(tail)
    except CorruptMessageError:
        return False
    if header.base_offset != expected_offset or header.size_bytes <= len(tail):
        return False
    return not (_is_whole_with_other_length(tail, header) or _is_followed(tail, header))


def _is_whole_with_other_length(tail: bytes, header: BatchHeader) -> bool:
    return verify_crc(tail, 0, header._replace(batch_length=len(tail) - LENGTH_OVERHEAD_BYTES))


def _is_followed(tail: bytes, header: BatchHeader) -> bool:
    """True if the next batch, by its offset and magic, begins somewhere in the body of this one."""
    next_offset = _OFFSET.pack(header.next_offset)
    at = tail.find(next_offset, HEADER_BYTES)
    while at >= 0:
        if tail[at + MAGIC_AT : at + MAGIC_AT + 1] == bytes((MAGIC,)):
            return True
        at = tail.find(next_offset, at + 1)
    return False
