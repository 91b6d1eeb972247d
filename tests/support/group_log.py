"""Record batches of groups' records, as the coordinator writes them."""

from __future__ import annotations

from collections.abc import Iterable

from broker.coordination.record_log import StateRecord
from broker.coordination.tick_batches import TickLimits, tick_batches
from broker.groups.records.usual_offsets import UsualOffsetWriter
from penstock.record.batch import iter_headers
from penstock.record.codecs import Codec

WALL_MS = 1_700_000_000_000


def written_batches(records: Iterable[StateRecord], batch_bytes: int = 1 << 20) -> list[bytes]:
    """Each of one append, with the offsets that a log gives them."""
    limits = TickLimits(batch_bytes, batch_bytes, Codec.NONE)
    turns = [[record] for record in records]
    return in_a_log(tick_batches(turns, UsualOffsetWriter().encode, WALL_MS, limits))


def in_a_log(appends: Iterable[bytes], offset: int = 0) -> list[bytes]:
    """The same, with offsets from this one on."""
    placed = []
    for append in appends:
        batches = bytearray(append)
        for at, header in iter_headers(append):
            batches[at : at + 8] = offset.to_bytes(8, "big")
            offset += header.last_offset_delta + 1
        placed.append(bytes(batches))
    return placed
