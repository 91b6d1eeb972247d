"""A piece of a raw range. Apart from raw_fetch.py, so that Spark's workers can import it without gRPC."""

from __future__ import annotations

from typing import NamedTuple


class RawBuffer(NamedTuple):
    """Whole batches that hold the records from `from_offset` to before `next_offset`.

    They may begin below and end above, where the cleaner has stretched a batch: decode exactly from `from_offset`.
    """

    records: bytes
    from_offset: int
    next_offset: int
