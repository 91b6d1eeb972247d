"""The partition of a coordinator's topic that holds a group, or a transactional id: by the hash of its id, as in Kafka.

Java's `String.hashCode` over UTF-16 (surrogate pairs count as two units), without its sign bit, modulo the number of
partitions. So a log that Kafka wrote is read by the right coordinators, and Kafka's tools look in the right place.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from sys import byteorder
from typing import Final

_UTF16: Final = "utf-16-le" if byteorder == "little" else "utf-16-be"


@lru_cache(10_000)
def java_hash(text: str) -> int:
    """The hash, without its sign bit."""
    found = 0
    for unit in array("H", text.encode(_UTF16, "surrogatepass")):
        found = (31 * found + unit) & 0xFFFF_FFFF
    return found & 0x7FFF_FFFF


def partition_of(name: str, partitions: int) -> int:
    return java_hash(name) % partitions
