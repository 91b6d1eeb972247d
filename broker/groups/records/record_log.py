"""The records of `__consumer_offsets` in record batches: built for the log, and read from it.

Reading stops at nothing but damage: records of unknown types are counted, control batches passed over. Offsets that a
transaction commits are in transactional batches; they count only once their transaction is committed, which nobody
decides here yet, so such batches are counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from broker.groups.records.record_codec import MalformedGroupRecordError, decode_group_record, encode_group_record
from penstock.base_error import InvariantViolation
from penstock.record.batch import HEADER_BYTES, Buffer, iter_headers
from penstock.record.builder import build_batch, record_size_bytes_upper
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES, batch_body, columns_of_batch, wanted_batches


def group_batches(
    records: Iterable[tuple[Any, Any | None]], timestamp_ms: int, batch_bytes_max: int
) -> list[tuple[bytes, int]]:
    """Batches of these records in their order, each with its number of records and none larger than allowed.

    A core refuses a record that fits no batch before it writes it (`encoded_size`), so one here is a defect.
    """
    batches: list[tuple[bytes, int]] = []
    keys: list[bytes] = []
    values: list[bytes | None] = []
    size = HEADER_BYTES
    for record in records:
        key, value = encode_group_record(*record)
        added = record_size_bytes_upper(-1 if value is None else len(value), len(key))
        if HEADER_BYTES + added > batch_bytes_max:
            name = type(record[0]).__name__
            raise InvariantViolation(
                f"a record of a {name} has {added} bytes, and a batch has at most {batch_bytes_max}"
            )
        if keys and size + added > batch_bytes_max:
            batches.append((build_batch(values, keys=keys, timestamps_ms=timestamp_ms), len(keys)))
            keys, values, size = [], [], HEADER_BYTES
        keys.append(key)
        values.append(value)
        size += added
    if keys:
        batches.append((build_batch(values, keys=keys, timestamps_ms=timestamp_ms), len(keys)))
    return batches


@dataclass(slots=True)
class GroupRecords:
    """A part of the log, read."""

    next_offset: int
    """Where reading goes on: after the last whole batch."""
    records: list[tuple[Any, Any | None]] = field(default_factory=list)
    unknown: int = 0
    """Records of types that are not known here."""
    transactional: int = 0
    """Records of transactional batches."""


def read_group_records(
    buffer: Buffer, from_offset: int, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> GroupRecords:
    """The records at `from_offset` and after. A partial last batch is left for the next time; one that is damaged is a
    `CorruptMessageError`, a record that is no record of its type a `MalformedGroupRecordError`."""
    data = bytes(buffer)
    found = GroupRecords(from_offset)
    for _, header in iter_headers(data):
        found.next_offset = max(found.next_offset, header.next_offset)
    for at, header in wanted_batches(data, from_offset, None, check_crc=True):
        columns = columns_of_batch(*batch_body(data, at, header, max_decompressed_bytes), header)
        if header.is_transactional:
            found.transactional += len(columns)
            continue
        keys = columns.keys if columns.keys is not None else (None,) * len(columns)
        for offset, key, value in zip(columns.offsets, keys, columns.values, strict=True):
            if offset < from_offset:
                continue
            try:
                record = decode_group_record(key, value)
            except MalformedGroupRecordError as error:
                raise MalformedGroupRecordError(f"offset {offset}: {error}") from None
            if record is None:
                found.unknown += 1
            else:
                found.records.append(record)
    return found
