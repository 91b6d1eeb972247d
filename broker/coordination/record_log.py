"""Reads a part of a coordinator's log, batch by batch: records of no transaction, of one, and markers.

Control batches that are no markers are passed over. Not here: who reads it (loading.py), and how its records
are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.record.batch import iter_headers
from penstock.record.markers import Marker, read_marker
from penstock.record.reader import RecordColumns, batch_body, columns_of_batch, wanted_batches

StateRecord = tuple[Any, Any | None]
"""The key and the value of a record, as classes of its topic; a value of None is a tombstone."""


class TxnProducer(NamedTuple):
    """A producer whose transaction writes to the coordinator's log."""

    producer_id: int
    producer_epoch: int


class TransactionalRecord(NamedTuple):
    """A record that counts once its producer's transaction is committed: its marker follows in the log."""

    key: Any
    value: Any | None
    producer: TxnProducer


Written = StateRecord | TransactionalRecord
Entry = Written | Marker
"""One thing that a coordinator's log says, in its order."""


@dataclass(slots=True)
class LogPart:
    """See the module."""

    next_offset: int
    """Where reading goes on: after the last whole batch."""
    records: list[Entry] = field(default_factory=list)
    read: int = 0
    """All records, also those that a later one has replaced."""
    unknown: int = 0
    """Records of types that are not known here."""
    transactional: int = 0
    """Records of transactional batches, and markers."""


ReadLog = Callable[[bytes, int], LogPart]
"""Reads the records at an offset and after, in these bytes. A partial last batch is left for the next time; one that is
damaged is a `CorruptMessageError`, a record that is no record of its type a `MalformedRecordError`."""


def parts_of(
    data: bytes, found: LogPart, max_decompressed_bytes: int
) -> Iterator[Marker | tuple[TxnProducer | None, RecordColumns]]:
    """The batches from `found.next_offset` on, of which `found` counts those of transactions, and takes the end. The
    first one may have records below it."""
    from_offset = found.next_offset
    for _, header in iter_headers(data):
        found.next_offset = max(found.next_offset, header.next_offset)
    for at, header in wanted_batches(data, from_offset, None, check_crc=True, with_control=True):
        if header.is_control:
            marker = read_marker(data, at)
            if marker is not None:
                found.transactional += 1
                yield marker
            continue
        columns = columns_of_batch(*batch_body(data, at, header, max_decompressed_bytes), header)
        if header.is_transactional:
            found.transactional += len(columns)
            yield TxnProducer(header.producer_id, header.producer_epoch), columns
        else:
            yield None, columns
