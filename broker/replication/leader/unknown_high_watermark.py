"""Makes the error of a new leader that does not know the high watermark for sure yet (KIP-207).

Until it has committed a record of its own epoch, its high watermark may be lower than the one that its predecessor told
to clients. Pure. Not here: which requests need the high watermark.
"""

from __future__ import annotations

from penstock.errors import OffsetNotAvailableError
from penstock.types import TopicPartition


def unknown_high_watermark(
    partition: TopicPartition, high_watermark: int, epoch_start_offset: int
) -> OffsetNotAvailableError:
    """The error, with the remedy; `epoch_start_offset` is where the leader's epoch starts."""
    return OffsetNotAvailableError(
        f"{partition}: the new leader does not know the high watermark yet: it has {high_watermark}, below the start of"
        f" its epoch at {epoch_start_offset}; try again"
    )
