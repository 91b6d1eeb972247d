"""The isolation level of Fetch and ListOffsets: with 1, no record of a transaction that is undecided or aborted."""

from __future__ import annotations

from typing import Final

from penstock.errors import InvalidRequestError

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


def reads_committed(isolation_level: int) -> bool:
    """InvalidRequestError for a level that there is not."""
    if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise InvalidRequestError(
            f"isolation_level is {isolation_level}; it must be 0 (read_uncommitted) or 1 (read_committed)"
        )
    return isolation_level == READ_COMMITTED
