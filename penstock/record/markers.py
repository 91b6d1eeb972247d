"""Builds and reads the markers of transactions: control batches that end a producer's transaction in one partition.

    attributes      control | transactional, never compressed
    producer        its id and epoch; no sequence (-1)
    one record      key    int16 version 0 | int16 type: 0 abort, 1 commit
                    value  int16 version 0 | int32 coordinator epoch

The coordinator epoch is the leader epoch of the coordinator's partition. A later version may append fields, so longer
keys and values are read. Other control batches (types 2 and above belong to the quorum) are no markers.

The log's cleaner may leave a marker's batch without its record: then the epoch in its header is all it tells.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from penstock.errors import CorruptMessageError
from penstock.record.batch import CODEC_MASK, HEADER_BYTES, Buffer, read_header
from penstock.record.builder import build_batch
from penstock.record.decoding import decode_records

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0
_ABORT, _COMMIT = 0, 1


class Marker(NamedTuple):
    """The end of a producer's transaction."""

    producer_id: int
    producer_epoch: int
    is_committed: bool
    coordinator_epoch: int


def build_marker(marker: Marker, timestamp_ms: int) -> bytes:
    """The control batch, for an append with origin COORDINATOR."""
    return build_batch(
        [_VALUE.pack(_VERSION, marker.coordinator_epoch)],
        keys=[_KEY.pack(_VERSION, _COMMIT if marker.is_committed else _ABORT)],
        timestamps_ms=timestamp_ms,
        is_control=True,
        is_transactional=True,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )


def read_marker(buffer: Buffer, at: int = 0) -> Marker | None:
    """The marker in the batch at `at`, whose checksum is right. None if it has no record any more, or is no marker."""
    header = read_header(buffer, at)
    is_one = header.is_control and header.is_transactional and header.producer_id >= 0
    if not is_one or not header.record_count or header.attributes & CODEC_MASK:
        return None
    body = bytes(memoryview(buffer)[at + HEADER_BYTES : at + header.size_bytes])
    try:
        records = decode_records(body, 0, len(body), header.record_count, header.last_offset_delta)
    except CorruptMessageError:
        return None
    key, value = records.keys[0] or b"", records.values[0] or b""
    if len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    version, kind = _KEY.unpack_from(key)
    if version < _VERSION or kind not in (_ABORT, _COMMIT):
        return None
    return Marker(header.producer_id, header.producer_epoch, kind == _COMMIT, _VALUE.unpack_from(value)[1])
