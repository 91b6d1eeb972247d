"""Reads the records of `__consumer_offsets` from record batches.

Reading stops at nothing but damage: records of unknown types are counted, control batches that are no markers passed
over. Of the records of one key in the part that is read, only the last is decoded: a log that was not cleaned yet has
thousands of them. (It is what the cleaner leaves, too.) The records come in another order than that of the log:

    1. the records of groups, on which offsets do not depend
    2. the first marker of each producer: it ends a transaction that began before this part
    3. offsets: those of the usual form in runs, by group and topic
    4. offsets of which one place has several records, as the log orders them: a tombstone, one that counts, those of
       transactions that this part does not end. Transactions that it does end are settled here

To replay them gives the state that the whole log gives. Not here: batches for the log (coordination/tick_batches.py).
"""

from __future__ import annotations

from itertools import repeat
from typing import Final

from broker.coordination.record_codec import MalformedRecordError
from broker.coordination.record_log import (
    BatchRecords,
    LogPart,
    StateRecord,
    TransactionalRecord,
    TxnProducer,
    parts_of,
)
from broker.groups.records.record_codec import decode_group_record
from broker.groups.records.usual_offsets import usual_runs
from penstock.record.batch import Buffer
from penstock.record.markers import Marker
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES

_OFFSET_KEYS: Final = b"\x00\x01"


class _Part:
    """The records of one part by their places in it, which are in the order of the log."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.last: dict[bytes | None, int] = {}
        """The records that count, by their keys: of no transaction, or of one that was committed here."""
        self._tombstones: dict[bytes | None, int] = {}
        """The last of each offset."""
        self._open: dict[int, dict[bytes, int]] = {}
        """Offsets of transactions, by producer id."""
        self._producers: dict[int, TxnProducer] = {}
        self.markers: dict[int, Marker] = {}
        """The first of each producer."""

    def take(self, records: BatchRecords) -> None:
        first = len(self.values)
        producer, offsets, keys, values = records
        self.offsets += offsets
        self.keys += keys
        self.values += values
        if producer is None:
            self.last.update(zip(keys, range(first, len(self.values)), strict=True))
        else:
            for place, (key, value) in enumerate(zip(keys, values, strict=True), first):
                if key is None or value is None or not key.startswith(_OFFSET_KEYS):
                    self.last[key] = place
                else:
                    self._open.setdefault(producer.producer_id, {})[key] = place
                    self._producers[place] = producer
        if None in values:
            self._tombstones.update(
                (key, place)
                for place, (key, value) in enumerate(zip(keys, values, strict=True), first)
                if value is None and _is_offset(key)
            )

    def end(self, marker: Marker) -> None:
        self.markers.setdefault(marker.producer_id, marker)
        for key, place in self._open.pop(marker.producer_id, {}).items():
            if marker.is_committed and self.last.get(key, -1) < place:
                self.last[key] = place

    def parted(self) -> tuple[list[int], list[int], list[tuple[int, TxnProducer | None]]]:
        """The places of the records of groups, of offsets, and of the offsets whose order matters: of these keys there
        are several. A tombstone counts although a later offset stands at its place: nothing waits there any more."""
        more: list[tuple[int, TxnProducer | None]] = [
            (place, self._producers[place]) for of_producer in self._open.values() for place in of_producer.values()
        ]
        more += [(place, None) for key, place in self._tombstones.items() if self.last[key] != place]
        for key in {self.keys[place] for place, _ in more} & self.last.keys():
            more.append((self.last.pop(key), None))
        groups: list[int] = []
        offsets: list[int] = []
        for key, place in self.last.items():
            (offsets if _is_offset(key) else groups).append(place)
        return sorted(groups), offsets, sorted(more)

    def decoded(self, place: int) -> StateRecord | None:
        try:
            return decode_group_record(self.keys[place], self.values[place])
        except MalformedRecordError as error:
            raise MalformedRecordError(f"offset {self.offsets[place]}: {error}") from None


def read_group_records(
    buffer: Buffer, from_offset: int, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> LogPart:
    """The records at `from_offset` and after. A partial last batch is left for the next time; one that is damaged is a
    `CorruptMessageError`, a record that is no record of its type a `MalformedRecordError`."""
    found, part = LogPart(from_offset), _Part()
    for one in parts_of(bytes(buffer), found, max_decompressed_bytes):
        if isinstance(one, Marker):
            part.end(one)
        else:
            part.take(one)
    groups, offsets, in_order = part.parted()
    for place in groups:
        record = part.decoded(place)
        if record is None:
            found.unknown += 1
        else:
            found.records.append(record)
    found.records += part.markers.values()
    runs, others = usual_runs(part.keys, part.values, offsets)
    found.records += runs
    for place, producer in (*zip(others, repeat(None)), *in_order):
        record = part.decoded(place)
        if record is not None:
            found.records.append(record if producer is None else TransactionalRecord(*record, producer))
    return found


def _is_offset(key: bytes | None) -> bool:
    return key is not None and key.startswith(_OFFSET_KEYS)
