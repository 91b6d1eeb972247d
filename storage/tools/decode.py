"""Decodes the records of one batch in a file, within the cap on the unpacked size; and markers of transactions.

Control batches too, which readers never see. Not here: checksums (`batch_walk.py`).
"""

from __future__ import annotations

from penstock.errors import CorruptMessageError
from penstock.record.batch import HEADER_BYTES, BatchHeader
from penstock.record.decoding import DECODING_ERRORS
from penstock.record.markers import Marker, read_marker
from penstock.record.reader import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    NO_RECORDS,
    RecordColumns,
    batch_body,
    columns_of_batch,
)
from storage.segment.batch_scan import LogFile

MAX_MARKER_BYTES = 4096
"""The most bytes of a marker: more than any version of it has."""


def read_batch(file: LogFile, position: int, header: BatchHeader) -> RecordColumns:
    """The records of the batch that begins at `position`; one of DECODING_ERRORS if they cannot be decoded."""
    if not header.record_count:
        if header.size_bytes != HEADER_BYTES:
            raise CorruptMessageError(f"{header.size_bytes - HEADER_BYTES} bytes of records in a batch without any")
        return NO_RECORDS
    data = file.read(header.size_bytes, position)
    return columns_of_batch(*batch_body(data, 0, header, DEFAULT_MAX_DECOMPRESSED_BYTES), header)


def marker_at(file: LogFile, position: int, header: BatchHeader) -> Marker | None:
    """The marker in the good batch that begins at `position`; None if that is no marker."""
    if not header.is_control or header.size_bytes > MAX_MARKER_BYTES:
        return None
    return read_marker(file.read(header.size_bytes, position))


def decoding_problem(file: LogFile, position: int, header: BatchHeader) -> str:
    """Why the records cannot be decoded; empty when they can."""
    try:
        read_batch(file, position, header)
    except DECODING_ERRORS as error:
        return f"the batch at offset {header.base_offset} does not decode: {error}"
    return ""
