"""Chooses the partition of a record: the one given, else murmur2 of the key as in Kafka, else that of the open batch.

A null key has no home: its records stick to one partition until that batch is closed (KIP-480), and the next batch goes
to the partition with the least waiting (KIP-794). Hashes agree with Kafka's Java client, so that both put a key in the
same partition. Not here: batches (accumulator.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
MASK = 0xFFFFFFFF
POSITIVE = 0x7FFFFFFF
KEY_CACHE_SIZE = 65_536
"""Hashing costs microseconds in Python, a look-up a tenth; most topics repeat their keys."""


def murmur2(data: bytes) -> int:
    """32-bit MurmurHash2 with Kafka's seed, as an unsigned number."""
    length = len(data)
    h = SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = (int.from_bytes(data[at : at + 4], "little") * MULTIPLIER) & MASK
        k = ((k ^ (k >> 24)) * MULTIPLIER) & MASK
        h = ((h * MULTIPLIER) & MASK) ^ k
    if whole < length:
        h ^= int.from_bytes(data[whole:], "little")
        h = (h * MULTIPLIER) & MASK
    h = ((h ^ (h >> 13)) * MULTIPLIER) & MASK
    return h ^ (h >> 15)


@lru_cache(maxsize=KEY_CACHE_SIZE)
def partition_for_key(key: bytes, partition_count: int) -> int:
    """Kafka's rule: the positive part of murmur2, modulo the number of partitions."""
    return (murmur2(key) & POSITIVE) % partition_count


class StickyChooser:
    """Chooses the partition of the next batch of records without a key: the least busy one, in turn among equals."""

    __slots__ = ("_turn",)

    def __init__(self) -> None:
        self._turn = 0

    def choose(self, partitions: Sequence[int], waiting: Callable[[int], int]) -> int:
        """Chooses one of `partitions`. `waiting` gives the number of unacked batches of a partition."""
        self._turn += 1
        count = len(partitions)
        start = self._turn % count
        return min((partitions[(start + step) % count] for step in range(count)), key=waiting)

    def __repr__(self) -> str:
        return f"StickyChooser(turn={self._turn})"
