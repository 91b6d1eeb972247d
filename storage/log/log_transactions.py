"""The transactions of one log: which are undecided, and which were aborted.

No log has any yet: a leader takes no batch of a transaction (`append/header_check.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from storage.log.log_types import AbortedRange


class LogTransactions:
    """See the module."""

    __slots__ = ()

    def first_undecided(self, high_watermark: int) -> int | None:
        """The first offset of the oldest transaction that has no end below the high watermark."""
        return None

    def aborted(self, from_offset: int, to_offset: int) -> Sequence[AbortedRange]:
        """Transactions that may have records in `from_offset <= offset < to_offset`."""
        return ()

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        """The producer has a transaction open here, in that epoch."""
        return False
