"""The faults around the batches of a .log file, each once and in one wording. Pure.

Readers, recovery, the cleaner and `penstock log verify` look at files in their own ways and for their own reasons; what
they find is named alike. The words are whole sentences: file and position stand before them, in a `CorruptFileError` or
a finding. Not here: one batch (penstock/record/verifier.py), what follows from a fault.
"""

from __future__ import annotations

from penstock.errors import CorruptMessageError
from penstock.record.batch import HEADER_BYTES, BatchHeader, read_header
from penstock.record.verifier import at_offset, cut_off_fault
from storage.disk.file_system import Found
from storage.segment.offset_index import MAX_RELATIVE_OFFSET


def no_batch(head: Found, left_bytes: int) -> str:
    """No header can be read from `head`; the file goes on for `left_bytes` from its first byte."""
    if left_bytes < HEADER_BYTES:
        return f"the file ends with {left_bytes} bytes that are no whole batch"
    if not any(head):
        return f"zeros where a batch should begin; {left_bytes} bytes from here on"
    return f"no batch begins here; {left_bytes} bytes from here on cannot be read as batches"


def partial_batch(data: Found, at: int) -> str:
    """The last whole batch of `data` ends at `at`, and more follows."""
    left_bytes = len(data) - at
    if left_bytes < HEADER_BYTES:
        return no_batch(data[at:], left_bytes)
    try:
        header = read_header(data, at)
    except CorruptMessageError:
        return no_batch(data[at : at + HEADER_BYTES], left_bytes)
    return at_offset(header.base_offset, cut_off_fault(header, left_bytes) or "is whole")


def range_fault(header: BatchHeader, base_offset: int, end_offset: int) -> str | None:
    """The batch begins below the next segment, and its index can hold the last offset."""
    if base_offset <= header.base_offset < end_offset and header.last_offset - base_offset <= MAX_RELATIVE_OFFSET:
        return None
    last_offset = min(end_offset - 1, base_offset + MAX_RELATIVE_OFFSET)
    offsets = f"offsets {header.base_offset} to {header.last_offset}"
    return f"{offsets} in a segment that has room from {base_offset} to {last_offset}"


def begin_fault(base_offset: int, end_before: int) -> str | None:
    """A segment begins where the one before ends."""
    if base_offset == end_before:
        return None
    return f"the segment begins at offset {base_offset}, but the one before ends at {end_before}"


def end_fault(next_offset: int, expected: int) -> str | None:
    """The last batch of a file, or of a part of it, ends where the next one begins."""
    return None if next_offset == expected else f"the batches end at offset {next_offset}, but {expected} follows"


def flushed_fault(log_end_offset: int, recovery_point: int) -> str | None:
    """The log reaches at least as far as it was flushed."""
    if log_end_offset >= recovery_point:
        return None
    return (
        f"the log ends at offset {log_end_offset}, but was flushed up to offset {recovery_point}: records are missing"
    )
