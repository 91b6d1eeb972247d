"""Reads what members of the classic protocol say to each other: the "consumer" protocol type's subscriptions and
assignments (KIP-62; the bytes are the members' own, and coordinators need not understand them).

Each begins with int16 version; an older reader reads a newer version's first fields.

    subscription   version int16 | topics: int32 n, n × string | …
    assignment     version int16 | topics: int32 n, n × (topic string, partitions: int32 n, n × int32) | …
    string         int16 length | UTF-8
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from penstock.types import TopicPartition

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")


class NotReadableError(Exception):
    """The bytes are of another protocol; never leaves this module."""


class _Reader:
    """A position in bytes that a stranger wrote."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: Struct) -> int:
        end = self._at + form.size
        if end > len(self._data):
            raise NotReadableError
        (value,) = form.unpack_from(self._data, self._at)
        self._at = end
        return int(value)

    def count(self, element_bytes_min: int) -> int:
        """The length of an array; more than the rest of the bytes can hold is refused before anything is read."""
        count = self.number(INT32)
        if not 0 <= count * element_bytes_min <= len(self._data) - self._at:
            raise NotReadableError
        return count

    def text(self) -> str:
        size = self.number(INT16)
        if not 0 <= size <= len(self._data) - self._at:
            raise NotReadableError
        raw = self._data[self._at : self._at + size]
        self._at += size
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise NotReadableError from None


def topics_of_subscription(data: bytes) -> tuple[str, ...]:
    """The topics of a subscription; none where the bytes are something else."""
    try:
        reader = _Reader(data)
        reader.number(INT16)
        return tuple(reader.text() for _ in range(reader.count(INT16.size)))
    except NotReadableError:
        return ()


def assigned_partitions(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment; none where the bytes are something else, or empty."""
    try:
        reader = _Reader(data)
        reader.number(INT16)
        found: list[TopicPartition] = []
        for _ in range(reader.count(INT16.size + INT32.size)):
            topic = reader.text()
            found += [TopicPartition(topic, reader.number(INT32)) for _ in range(reader.count(INT32.size))]
        return tuple(found)
    except NotReadableError:
        return ()
