"""The partition of `__consumer_offsets` that holds a group: by the hash of its id, as in Kafka.

Java's `String.hashCode` over UTF-16 (surrogate pairs count as two units), without its sign bit, modulo the number of
partitions. So a log that Kafka wrote is read by the right coordinators, and Kafka's tools look in the right place.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from sys import byteorder
from typing import Final

from penstock.errors import InvalidGroupIdError

GROUP_ID_CHARACTERS_MAX: Final = 255
"""Kafka takes up to 32,767 bytes. An id is in the key of every record of its group, and in memory for each of them."""
_UTF16: Final = "utf-16-le" if byteorder == "little" else "utf-16-be"


@lru_cache(10_000)
def java_hash(text: str) -> int:
    """The hash, without its sign bit."""
    found = 0
    for unit in array("H", text.encode(_UTF16, "surrogatepass")):
        found = (31 * found + unit) & 0xFFFF_FFFF
    return found & 0x7FFF_FFFF


def partition_of(group_id: str, partitions: int) -> int:
    return java_hash(group_id) % partitions


def check_group_id(group_id: str) -> None:
    """InvalidGroupIdError if no group can have this id."""
    if not group_id:
        raise InvalidGroupIdError("the group id is empty; give the group a name")
    if len(group_id) > GROUP_ID_CHARACTERS_MAX:
        raise InvalidGroupIdError(
            f"the group id has {len(group_id)} characters, the limit is {GROUP_ID_CHARACTERS_MAX}; give the group a"
            " shorter name"
        )
