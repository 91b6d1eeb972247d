"""Record batches of groups' records, as the coordinator writes them."""

from __future__ import annotations

from collections.abc import Iterable

from broker.coordination.record_log import StateRecord
from broker.coordination.tick_batches import TickLimits, tick_batches
from broker.groups.records.usual_offsets import UsualOffsetWriter
from penstock.record.codecs import Codec

WALL_MS = 1_700_000_000_000


def written_batches(records: Iterable[StateRecord], batch_bytes: int = 1 << 20) -> list[bytes]:
    """Each of one append."""
    limits = TickLimits(batch_bytes, batch_bytes, Codec.NONE)
    return tick_batches([[record] for record in records], UsualOffsetWriter().encode, WALL_MS, limits)
