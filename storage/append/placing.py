"""Gives checked batches their place in a log: a leader by offset, epoch and time, a follower by segment. Pure.

The place is in the first bytes of a batch, which the checksum does not cover. So a leader writes only those anew, and
copies no body. Not here: the checks (batch_validation.py), and the writing (log_writer.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.record.batch import (
    PLACEMENT_BYTES,
    BatchHeader,
    iter_headers,
    placement,
    set_max_timestamp_log_append_time,
)
from penstock.types import NO_TIMESTAMP
from storage.disk.file_system import Bytes
from storage.segment.offset_index import MAX_RELATIVE_OFFSET

MAX_BUFFERS = 1000
"""writev takes 1,024 (IOV_MAX); two for each batch."""


class Placed(NamedTuple):
    """Batches ready to be written: `buffers` joined are `size_bytes` long and hold the batches of `headers`."""

    buffers: list[Bytes]
    headers: list[BatchHeader]
    size_bytes: int

    @property
    def next_offset(self) -> int:
        return self.headers[-1].next_offset

    def batch_of(self, header: BatchHeader) -> bytes:
        """The bytes of one of its batches."""
        at = 0
        for other in self.headers:
            if other is header:
                break
            at += other.size_bytes
        begin, end = at, at + header.size_bytes
        pieces: list[Bytes] = []
        at = 0
        for buffer in self.buffers:
            after = at + len(buffer)
            if after > begin and at < end:
                pieces.append(buffer[max(begin - at, 0) : end - at])
            at = after
        return b"".join(pieces)


def place_as_leader(
    records: Bytes, batches: list[tuple[int, BatchHeader]], first_offset: int, leader_epoch: int, append_time_ms: int
) -> Placed:
    """Give checked batches their offsets and epoch; bodies are not copied unless they are stamped with the time."""
    if append_time_ms != NO_TIMESTAMP:
        records = bytearray(records)
        for position, _ in batches:
            set_max_timestamp_log_append_time(records, position, append_time_ms)
        batches = list(iter_headers(records))
    view = memoryview(records)
    buffers: list[Bytes] = []
    headers: list[BatchHeader] = []
    offset = first_offset
    for position, header in batches:
        headers.append(header._replace(base_offset=offset, leader_epoch=leader_epoch))
        buffers.append(placement(offset, header.batch_length, leader_epoch))
        buffers.append(view[position + PLACEMENT_BYTES : position + header.size_bytes])
        offset += header.last_offset_delta + 1
    if len(buffers) > MAX_BUFFERS:
        buffers = [b"".join(buffers)]
    return Placed(buffers, headers, len(records))


def fetched_runs(
    records: Bytes, batches: list[tuple[int, BatchHeader]], room: int, segment_bytes: int
) -> Iterator[Placed]:
    """A follower's batches in runs that each fit a segment and its index: the first into `room` bytes if possible."""
    view = memoryview(records)
    begin, end = 0, 0
    headers: list[BatchHeader] = []
    for position, header in batches:
        after = position + header.size_bytes
        is_wide = headers and header.next_offset - headers[0].base_offset > MAX_RELATIVE_OFFSET
        if headers and (after - begin > room or is_wide):
            yield Placed([view[begin:end]], headers, end - begin)
            begin, headers, room = position, [], segment_bytes
        headers.append(header)
        end = after
    yield Placed([view[begin:end]], headers, end - begin)
