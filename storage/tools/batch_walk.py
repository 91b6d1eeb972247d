"""Reads one .log file whole and reports for every batch whether it is good; after a bad one it goes on if it can.

Recovery stops at the first bad byte (`batch_scan.scan_verified`), because it cuts or refuses there. A tool shows how
far the damage goes. A batch with a wrong checksum still has a length, and if another batch begins behind it, the walk
goes on. It ends where no header can be read, because what follows cannot be told from record bytes.

Memory is one chunk: the checksum of a larger batch is computed in pieces, so a damaged length allocates nothing.
`verify_log.py` checks that offsets and epochs continue; `damage.py` tells a tear from rot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from penstock.errors import CorruptFileError, CorruptMessageError
from penstock.record.batch import ATTRIBUTES_AT, HEADER_BYTES, BatchHeader, read_header, verify_crc
from penstock.record.verifier import WRONG_CHECKSUM, at_offset, cut_off_fault
from storage.segment import segment_faults
from storage.segment.batch_scan import LogFile

CHUNK_BYTES = 512 * 1024
"""Large enough for full speed, small enough for the processor's cache, where the checksum finds it."""


class Seen(NamedTuple):
    """One batch, or the bytes where one should be."""

    position: int
    header: BatchHeader | None
    """The header; None if none can be read here, and the walk ends."""
    problem: str
    """The fault of the batch; empty when it is good."""
    is_cut_off: bool = False
    """The file ends within the batch, as a write leaves it that was interrupted."""


def walk(file: LogFile, on_read: Callable[[int], None], chunk_bytes: int = CHUNK_BYTES) -> Iterator[Seen]:
    """Every batch of the file; `on_read` is called now and then with the number of bytes read since the last call."""
    chunk, chunk_at, position, end, reported = b"", 0, 0, file.size_bytes, 0
    try:
        while position < end:
            at = position - chunk_at
            if at + HEADER_BYTES > len(chunk):
                chunk, chunk_at, at = _read(file, position, chunk_bytes), position, 0
            try:
                header = read_header(chunk, at)
            except CorruptMessageError:
                yield _no_header(chunk[at : at + HEADER_BYTES], position, end - position)
                break
            size = header.size_bytes
            cut_off = cut_off_fault(header, end - position)
            if cut_off is not None:
                yield Seen(position, None, at_offset(header.base_offset, cut_off), is_cut_off=True)
                break
            if at + size > len(chunk) and at:
                chunk, chunk_at, at = _read(file, position, chunk_bytes), position, 0
            if not at:
                on_read(position - reported)
                reported = position
            if verify_crc(chunk, at, header) or (
                size > len(chunk) and _crc_in_pieces(file, position, size, chunk_bytes) == header.crc
            ):
                yield Seen(position, header, "")
            else:
                yield Seen(position, header, at_offset(header.base_offset, WRONG_CHECKSUM))
            position += size
    except OSError as error:
        yield Seen(position, None, f"the disk does not give back what begins here: {error.strerror}")
    except CorruptFileError as error:
        yield Seen(position, None, error.why, is_cut_off=True)  # it has become shorter meanwhile
    on_read(end - reported)


def _read(file: LogFile, position: int, chunk_bytes: int) -> bytes:
    return file.read(min(chunk_bytes, file.size_bytes - position), position)


def _crc_in_pieces(file: LogFile, position: int, size: int, chunk_bytes: int) -> int:
    crc, at, end = 0, position + ATTRIBUTES_AT, position + size
    while at < end:
        piece = file.read(min(chunk_bytes, end - at), at)
        crc = crc32c(piece, crc)
        at += len(piece)
    return crc


def _no_header(head: bytes, position: int, left: int) -> Seen:
    """A file system leaves zeros if it has stored the length of a write but not its bytes."""
    is_cut_off = left < HEADER_BYTES or not any(head)
    return Seen(position, None, segment_faults.no_batch(head, left), is_cut_off)
