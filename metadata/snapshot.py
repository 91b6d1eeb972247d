"""The metadata at one offset as the bytes of a snapshot, and back (KIP-630). Pure.

A snapshot is a sequence of record batches like those of the log (magic 2, CRC-32C), with offsets of its own from 0 on:

    header   {"type":"SnapshotHeader","version":0,"end_offset":4711,"epoch":3}
    records  those that make the image from an empty one, in an order that depends on nothing but its content
    footer   {"type":"SnapshotFooter","version":0,"records":1234}

It replaces the log below its end offset; `epoch` is that of the last record there. Equal images have equal bytes but
for the times of the records. A batch's checksum leaves out its offset and its leader epoch; offsets must be dense and
the epoch 0, so any changed bit and any cut is found, also by a node that gets the bytes from another one.

Not here: files and their names (`broker/quorum/metadata_snapshots.py`), and when one is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from metadata.codec import MalformedMetadataRecordError, decode_record, encode_record
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage, image_records
from penstock.errors import CorruptMessageError, InvariantViolation
from penstock.record.batch import iter_headers, verify_crc
from penstock.record.builder import build_batch
from penstock.record.reader import read_columns
from penstock.types import EpochEndOffset

HEADER: Final = "SnapshotHeader"
FOOTER: Final = "SnapshotFooter"
VERSION: Final = 0
BATCH_BYTES: Final = 1 << 20
"""A batch ends with the record that reaches this size."""


def snapshot_id_of(image: MetadataImage) -> EpochEndOffset:
    """The end of the log that a snapshot of this image replaces."""
    return EpochEndOffset(image.epoch, image.offset + 1)


def encode_snapshot(image: MetadataImage, time_ms: int, batch_bytes: int = BATCH_BYTES) -> Iterator[bytes]:
    """The batches of a snapshot, one after the other; `time_ms` is the wall time that its records get."""
    offset, values, size = 0, [_header(snapshot_id_of(image))], 0
    for record in image_records(image):
        if size >= batch_bytes:
            yield _batch(offset, values, time_ms)
            offset, values, size = offset + len(values), [], 0
        values.append(encode_record(record))
        size += len(values[-1])
    count = offset + len(values) - 1
    values.append(_json(FOOTER, records=count))
    yield _batch(offset, values, time_ms)


def decode_snapshot(data: bytes, snapshot_id: EpochEndOffset) -> MetadataImage:
    """The image in all the bytes of a snapshot. CorruptMessageError if they are not those of this snapshot, with
    nothing missing and nothing behind it; UnsupportedMetadataRecordError if a newer release has written it."""
    delta, values, expected = MetadataDelta(EMPTY_IMAGE), _checked_values(data), _header(snapshot_id)
    if next(values, None) != expected:
        raise CorruptMessageError(f"the snapshot does not begin with {expected.decode()}")
    count, last = 0, next(values, b"")
    for value in values:
        _replay(delta, last, count)
        count, last = count + 1, value
    if last != (footer := _json(FOOTER, records=count)):
        raise CorruptMessageError(f"the snapshot does not end with {footer.decode()}")
    return delta.apply(snapshot_id.end_offset - 1, snapshot_id.epoch)


def _replay(delta: MetadataDelta, value: bytes, index: int) -> None:
    try:
        delta.replay(decode_record(value))
    except (MalformedMetadataRecordError, InvariantViolation) as error:
        raise CorruptMessageError(f"record {index} of the snapshot: {error}") from error


def check_snapshot(data: bytes) -> None:
    """Checks that no bit of it has changed; much cheaper than to decode it. CorruptMessageError."""
    for _ in _checked_batches(data):
        continue


def _checked_values(data: bytes) -> Iterator[bytes]:
    """The values of all records; every batch is checked before it is used."""
    for batch in _checked_batches(data):
        for value in read_columns(batch).values:
            yield bytes(value or b"")


def _checked_batches(data: bytes) -> Iterator[bytes]:
    end, offset = 0, 0
    for at, header in iter_headers(data):
        if (header.base_offset, header.leader_epoch, header.attributes) != (offset, 0, 0):
            raise CorruptMessageError(f"the batch at byte {at} of the snapshot is not the one of offset {offset}")
        if not verify_crc(data, at, header):
            raise CorruptMessageError(f"the batch at byte {at} of the snapshot has another checksum")
        end, offset = at + header.size_bytes, header.next_offset
        yield data[at:end]
    if end != len(data):
        raise CorruptMessageError(f"{len(data) - end} bytes of the snapshot from byte {end} on are no whole batch")


def _batch(offset: int, values: list[bytes], time_ms: int) -> bytes:
    return build_batch(values, timestamps_ms=time_ms, base_offset=offset, leader_epoch=0)


def _header(snapshot_id: EpochEndOffset) -> bytes:
    return _json(HEADER, end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)


def _json(kind: str, **fields: int) -> bytes:
    return json.dumps({"type": kind, "version": VERSION, **fields}, separators=(",", ":")).encode()
