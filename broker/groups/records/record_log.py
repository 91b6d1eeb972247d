"""Reads the records of `__consumer_offsets` from record batches.

Reading stops at nothing but damage: records of unknown types are counted, control batches that are no markers passed
over. Of the offsets that one partition of a topic had for a group in the part that is read, only the last is decoded: a
log that was not cleaned yet has thousands of them. So the records come in another order than that of the log:

    1. the records of groups, on which offsets do not depend
    2. the first marker of each producer: it ends a transaction that began before this part
    3. offsets, as the log orders them: the last that counts of each place, and those of transactions that this part
       does not end. Transactions that it does end are settled here: those that were aborted are gone

To replay them gives the state that the whole log gives. Not here: batches for the log (coordination/tick_batches.py).
"""

from __future__ import annotations

from typing import Any, Final

from broker.coordination.record_codec import MalformedRecordError
from broker.coordination.record_log import LogPart, TransactionalRecord, TxnProducer, parts_of
from broker.groups.records.record_codec import decode_group_record
from broker.groups.records.usual_offsets import UsualOffsetReader
from penstock.record.batch import Buffer
from penstock.record.markers import Marker
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES

_OFFSET_KEYS: Final = b"\x00\x01"


_Offset = tuple[int, bytes, bytes | None, TxnProducer | None]
"""An offset's record: where it is in the log, key and value, and the producer if its transaction has not ended."""


class _Offsets:
    """The offsets of one part."""

    def __init__(self) -> None:
        self.last: dict[bytes, _Offset] = {}
        """The offsets that count, by their keys: of no transaction, or of one that was committed here."""
        self._tombstones: dict[bytes, _Offset] = {}
        self._open: dict[int, dict[bytes, _Offset]] = {}
        """Offsets of transactions, by producer id."""
        self.markers: dict[int, Marker] = {}
        """The first of each producer."""

    def forget(self, at: int, key: bytes) -> None:
        """A tombstone, of no transaction or of one."""
        self.last[key] = self._tombstones[key] = at, key, None, None

    def wait(self, at: int, key: bytes, value: bytes, producer: TxnProducer) -> None:
        self._open.setdefault(producer.producer_id, {})[key] = at, key, value, producer

    def end(self, marker: Marker) -> None:
        self.markers.setdefault(marker.producer_id, marker)
        for key, (at, _, value, _) in self._open.pop(marker.producer_id, {}).items():
            if marker.is_committed and (key not in self.last or self.last[key][0] < at):
                self.last[key] = at, key, value, None

    def in_order(self) -> list[_Offset]:
        """A tombstone counts although a later offset stands at its place: nothing waits there any more."""
        found = list(self.last.values())
        more = [one for of_producer in self._open.values() for one in of_producer.values()]
        more += [one for key, one in self._tombstones.items() if self.last[key] is not one]
        return sorted((*found, *more), key=lambda one: one[0]) if more else found


def read_group_records(
    buffer: Buffer, from_offset: int, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> LogPart:
    """The records at `from_offset` and after. A partial last batch is left for the next time; one that is damaged is a
    `CorruptMessageError`, a record that is no record of its type a `MalformedRecordError`."""
    found, offsets = LogPart(from_offset), _Offsets()
    last = offsets.last
    for part in parts_of(bytes(buffer), found, max_decompressed_bytes):
        if isinstance(part, Marker):
            offsets.end(part)
            continue
        producer, columns = part
        keys = columns.keys if columns.keys is not None else (None,) * len(columns)
        for offset, key, value in zip(columns.offsets, keys, columns.values, strict=True):
            if offset < from_offset:
                continue
            found.read += 1
            if key is not None and key.startswith(_OFFSET_KEYS):
                if producer is None and value is not None:  # nearly all
                    last[key] = offset, key, value, None
                elif producer is None or value is None:
                    offsets.forget(offset, key)
                else:
                    offsets.wait(offset, key, value, producer)
                continue
            record = _decoded(offset, key, value)
            if record is None:
                found.unknown += 1
            else:
                found.records.append(record)
    found.records += offsets.markers.values()
    usual = UsualOffsetReader()
    for offset, key, value, waits_for in offsets.in_order():
        record = usual.read(key, value) or _decoded(offset, key, value)
        if record is not None:
            found.records.append(record if waits_for is None else TransactionalRecord(record[0], record[1], waits_for))
    return found


def _decoded(offset: int, key: bytes | None, value: bytes | None) -> tuple[Any, Any | None] | None:
    try:
        return decode_group_record(key, value)
    except MalformedRecordError as error:
        raise MalformedRecordError(f"offset {offset}: {error}") from None
