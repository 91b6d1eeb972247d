"""Walks the batches of a .log file by their headers, reading as little as it can.

A walk reads a small chunk, steps from header to header inside it, and jumps over bodies: of a large batch it reads 61
bytes. `scan_verified` reads whole batches and checks their checksums; recovery and look-ups by time use it. Bytes that
are no whole batch, or a batch that does not continue the one before, raise `CorruptFileError` with the position. So a
walk that ends without an error has seen every batch. A topic's owner chooses how far its index entries are apart, so
a walk on the event loop ends with `NotCachedError` when it becomes long. `recovery.py` decides whether damage is a torn
tail or rot.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import CorruptFileError, CorruptMessageError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import HEADER_BYTES, BatchHeader, read_header, verify_crc
from penstock.record.verifier import WRONG_CHECKSUM, at_offset, cut_off_fault, offset_fault
from storage.disk.file_system import FileSystem, Found
from storage.segment import segment_faults
from storage.segment.offset_index import MAX_RELATIVE_OFFSET

SCAN_CHUNK_BYTES = 8 * 1024
"""A little more than one index interval, so that a look-up takes one read."""
VERIFY_CHUNK_BYTES = 1024 * 1024
"""A batch across the end of a chunk is read twice; larger chunks make that rarer. Chunks of four times this size are
slower: the allocator returns such buffers to the kernel, and each new one is paged in."""
ANY_OFFSET = -1
"""The walk begins in the middle of a file, and the offset of the first batch is not known."""
NOWAIT_HEADERS_MAX = 256
"""Headers that a walk on the event loop reads: some three times those of one index interval, and less than 1 ms."""
MAX_OFFSETS = MAX_RELATIVE_OFFSET + 1
"""The most offsets of one segment."""


class NotCachedError(Exception):
    """A read that may not wait would have to: for the disk, for an index that is not in memory, or for much work."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """An open .log file and how far it is known to be written."""

    fs: FileSystem
    fd: int
    path: str
    size_bytes: int
    base_offset: int
    end_offset: int
    """No batch in the file begins at or above this; the base offset + `MAX_OFFSETS` if no better bound is known."""
    nowait: bool = False
    """True if a reader raises NotCachedError instead of waiting for the disk, and a walk instead of going far."""

    @property
    def is_end_known(self) -> bool:
        return self.end_offset != self.base_offset + MAX_OFFSETS

    def must_end(self, next_offset: int) -> None:
        """Raises unless the file's last batch ends at its end offset, where the next segment begins."""
        why = segment_faults.end_fault(next_offset, self.end_offset)
        if self.is_end_known and why is not None:
            raise CorruptFileError(self.path, self.size_bytes, why)

    def read(self, size: int, at: int) -> bytes:
        """Reads these bytes as `read_once` does."""
        return bytes(self.read_once(size, at))

    def read_once(self, size: int, at: int) -> Found:
        """Exactly `size` bytes, not copied after they were read; CorruptFileError if the file has become shorter."""
        if self.nowait:
            cached = self.fs.pread_nowait(self.fd, size, at)
            if cached is None or len(cached) != size:  # whether the file ends there only the disk can tell
                raise NotCachedError
            return cached
        data = self.fs.pread(self.fd, size, at)
        if len(data) != size:
            raise CorruptFileError(self.path, at + len(data), f"the file ends, {size - len(data)} bytes are missing")
        return data


def scan_headers(file: LogFile, position: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every batch from `position` on."""
    return _walk(file, position, SCAN_CHUNK_BYTES, verifies=False)


def scan_verified(file: LogFile, position: int) -> Iterator[tuple[int, BatchHeader]]:
    """Walks the batches like `scan_headers`, after checking each batch's checksum."""
    return _walk(file, position, VERIFY_CHUNK_BYTES, verifies=True)


def _walk(file: LogFile, position: int, chunk_bytes: int, *, verifies: bool) -> Iterator[tuple[int, BatchHeader]]:
    chunk, chunk_at, expected_offset = b"", position, file.base_offset if position == 0 else ANY_OFFSET
    began, headers = position, 0
    while position < file.size_bytes:
        if file.nowait and (headers == NOWAIT_HEADERS_MAX or (verifies and position - began > VERIFY_CHUNK_BYTES)):
            raise NotCachedError
        headers += 1
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_at, at = file.read(min(chunk_bytes, file.size_bytes - position), position), position, 0
        header = must_begin(file, position, chunk, at, expected_offset)
        if verifies:
            if at + header.size_bytes > len(chunk):
                if file.nowait and header.size_bytes > VERIFY_CHUNK_BYTES:
                    raise NotCachedError
                wanted = min(max(chunk_bytes, header.size_bytes), file.size_bytes - position)
                chunk, chunk_at, at = file.read(wanted, position), position, 0
            must_be_sound(file, position, chunk, at, header)
        yield position, header
        position += header.size_bytes
        expected_offset = header.next_offset


def read_header_at(file: LogFile, position: int) -> BatchHeader:
    """The header of the batch that begins at `position`; CorruptFileError when none does."""
    size = min(HEADER_BYTES, max(file.size_bytes - position, 0))
    return must_begin(file, position, file.read(size, position), 0, ANY_OFFSET)


def must_begin(file: LogFile, position: int, chunk: bytes, at: int, expected_offset: int) -> BatchHeader:
    """The header of the batch that stands at `position` of the file, which is at `chunk[at:]`, and belongs there."""
    try:
        header = read_header(chunk, at)
    except CorruptMessageError as error:
        why = segment_faults.no_batch(chunk[at : at + HEADER_BYTES], file.size_bytes - position)
        raise CorruptFileError(file.path, position, why) from error
    fault = cut_off_fault(header, file.size_bytes - position)
    if fault is None and expected_offset not in (ANY_OFFSET, header.base_offset):
        fault = offset_fault(header.base_offset, expected_offset)
    if fault is not None:
        raise CorruptFileError(file.path, position, at_offset(header.base_offset, fault))
    why_not_here = segment_faults.range_fault(header, file.base_offset, file.end_offset)
    if why_not_here is not None:
        raise CorruptFileError(file.path, position, why_not_here)
    return header


def must_be_sound(file: LogFile, position: int, chunk: bytes, at: int, header: BatchHeader) -> None:
    """The checksum of the batch at `position`, all of which is at `chunk[at:]`."""
    if not verify_crc(chunk, at, header):
        raise CorruptFileError(file.path, position, at_offset(header.base_offset, WRONG_CHECKSUM))
