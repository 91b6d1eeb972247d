"""Reads a part of a coordinator's log, batch by batch: records of no transaction, of one, and markers.

Control batches that are no markers are passed over. Not here: the loading (loading.py), and how the records are
decoded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple

from penstock.lazy_dataclass import dataclass
from penstock.record.batch import iter_headers
from penstock.record.decoding import decode_records
from penstock.record.markers import Marker, read_marker
from penstock.record.reader import batch_body, wanted_batches

RUN_RECORDS: Final = 16
"""This many records of a run cost as much as one that comes alone, at least."""
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


class RecordRun(NamedTuple):
    """Many records that are alike, as one entry: what `key` and `values` are is between its reader and its core."""

    key: Any
    values: Any
    size: int


Written = StateRecord | TransactionalRecord
Entry = Written | Marker | RecordRun
"""One thing that a coordinator's log says."""


@dataclass(slots=True)
class LogPart:
    """The records of one part of a coordinator's log, and where the next part begins."""

    next_offset: int
    """Where reading goes on: after the last whole batch."""
    records: list[Entry] = field(default_factory=list)
    read: int = 0
    """All records of data, also those that a later one has replaced."""
    unknown: int = 0
    """Records of types that are not known here."""
    transactional: int = 0
    """Records of transactional batches, and markers."""


def replay_entry(state: Any, entry: Entry) -> int:
    """Takes it into a state (`Replays`); what that cost, in records that came alone."""
    if isinstance(entry, RecordRun):
        state.replay(entry.key, entry.values)
        return 1 + entry.size // RUN_RECORDS
    if isinstance(entry, Marker):
        state.replay_marker(entry)
    else:
        state.replay(*entry)
    return 1


ReadLog = Callable[[bytes, int], LogPart]
"""Reads the records at an offset and after, in these bytes. A partial last batch is left for the next time; one that is
damaged is a `CorruptMessageError`, a record that is no record of its type a `MalformedRecordError`."""


class BatchRecords(NamedTuple):
    """The records of one batch, in parallel sequences. `producer`: that of their transaction."""

    producer: TxnProducer | None
    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]


def parts_of(data: bytes, found: LogPart, max_decompressed_bytes: int) -> Iterator[Marker | BatchRecords]:
    """The batches with the records at `found.next_offset` and after; `found` counts their records, and takes the
    end."""
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
        body = batch_body(data, at, header, max_decompressed_bytes)
        records = decode_records(*body, header.record_count, header.last_offset_delta)
        producer = TxnProducer(header.producer_id, header.producer_epoch) if header.is_transactional else None
        offsets = [header.base_offset + delta for delta in records.offset_deltas]
        first = bisect_left(offsets, from_offset)
        part = BatchRecords(producer, offsets, records.keys, records.values)
        if first:
            part = BatchRecords(producer, offsets[first:], records.keys[first:], records.values[first:])
        found.read += len(part.values)
        found.transactional += len(part.values) if header.is_transactional else 0
        yield part
