"""The cleaner's map: each key of the dirty part of a log, and the latest offset it was written at; bounded in memory.

One `dict`, filled and asked in bulk so that no Python code runs for a record. A key of at most 32 bytes stands for
itself, a longer one as a BLAKE2b digest of 33 bytes, so a short key never equals a digest; to find two long keys that
share one would take 2^132 attempts. The null key is in the map with an offset above all others, so records without a
key are always superseded: a compacted log keeps none.

Memory is accounted for as CPython uses it, measured in `tests/unit/storage/cleaner/test_offset_map.py`: bytes and int
objects with what the allocator rounds them up to, and the table with its doubling, when the old and the new one are
there at the same time. Not here: which part of the log is mapped (`segment_cleaning.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from hashlib import blake2b
from operator import le

MAX_PLAIN_KEY_BYTES = 32
DIGEST_BYTES = MAX_PLAIN_KEY_BYTES + 1
OFFSET_OBJECT_BYTES = 32
KEY_OBJECT_OVERHEAD_BYTES = 33
"""Overhead of a `bytes` object, the closing null included."""
ALLOCATION_BYTES = 16
"""Objects are rounded up to a multiple of this."""
TABLE_BYTES_PER_ENTRY = 30
"""Bytes for each entry of a full table: 24 for the entry, 4 for each of 1.5 slots."""
GROWTH_BYTES_PER_ENTRY = 3 * TABLE_BYTES_PER_ENTRY
"""Bytes for each entry while a full table is copied into one twice as large."""
MAX_ENTRY_BYTES = 112
"""A digest and its offset."""
_SUPERSEDED = 1 << 63


class OffsetMap:
    """Key to latest offset. Used from one thread at a time."""

    __slots__ = ("_latest", "_object_bytes", "memory_bytes")

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self._latest: dict[bytes | None, int] = {None: _SUPERSEDED}
        self._object_bytes = 0

    def __len__(self) -> int:
        return len(self._latest) - 1

    @property
    def used_bytes(self) -> int:
        return self._object_bytes + sys.getsizeof(self._latest)

    def has_room_for(self, count: int) -> bool:
        """True if `count` more keys fit, whatever they are. Always true for an empty map, because a pass must get
        on."""
        entries = len(self._latest) + count
        table_bytes = sys.getsizeof(self._latest)
        if entries * TABLE_BYTES_PER_ENTRY > table_bytes:
            table_bytes = max(3 * table_bytes, entries * GROWTH_BYTES_PER_ENTRY)
        return not len(self) or self._object_bytes + count * MAX_ENTRY_BYTES + table_bytes <= self.memory_bytes

    def put_all(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> None:
        """The records of one batch, none of which is below those before."""
        keys, longest = _as_stored(keys)
        before = len(self._latest)
        self._latest.update(zip(keys, offsets, strict=True))
        self._latest[None] = _SUPERSEDED
        key_bytes = -(-(KEY_OBJECT_OVERHEAD_BYTES + longest) // ALLOCATION_BYTES) * ALLOCATION_BYTES
        self._object_bytes += (len(self._latest) - before) * (key_bytes + OFFSET_OBJECT_BYTES)

    def latest(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> list[bool]:
        """True for each record that has a key, unless the map knows the same key at a higher offset."""
        keys, _ = _as_stored(keys)
        # A key that is not in the map gets the record's own offset as the default, and so is the latest.
        return list(map(le, map(self._latest.get, keys, offsets), offsets))

    def __repr__(self) -> str:
        return f"OffsetMap({len(self)} keys, {self.used_bytes} of {self.memory_bytes} bytes)"


def _as_stored(keys: Sequence[bytes | None]) -> tuple[Sequence[bytes | None], int]:
    """The keys as the map stores them (digests, if any is long), and the length of the longest."""
    longest = max(map(len, filter(None, keys)), default=0)
    if longest <= MAX_PLAIN_KEY_BYTES:
        return keys, longest
    return list(map(_key_or_digest, keys)), DIGEST_BYTES


def _key_or_digest(key: bytes | None) -> bytes | None:
    if key is None or len(key) <= MAX_PLAIN_KEY_BYTES:
        return key
    return blake2b(key, digest_size=DIGEST_BYTES).digest()
