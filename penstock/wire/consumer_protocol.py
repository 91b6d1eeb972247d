"""The subscriptions and assignments of consumers in the classic protocol, which members write and read (KIP-62).

    subscription   int16 version | topics: int32 n, n x string | user data bytes or null
                   1+: owned: as in an assignment | 2+: int32 generation | 3+: rack string or null
    assignment     int16 version | int32 n, n x (topic string, int32 n, n x int32) | user data bytes or null
    string         int16 length, UTF-8; bytes: int32 length; a length of -1 is null

The leader of a classic group assigns by the subscriptions. A coordinator reads them only where it must: to know which
topics a group reads, and to give a classic member a place in a consumer group (KIP-848); an administrator's client
reads them to show who has what. The bytes come from strangers. A later version begins like the last one that is known
here, and is read as that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from struct import Struct
from typing import Final, TypeVar

from penstock.base_error import PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition

T = TypeVar("T")
CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of classic groups whose members write these."""
LAST_VERSION: Final = 3
ELEMENTS_MAX: Final = 100_000
"""Elements of all arrays together: reading takes a broker's loop half a microsecond each."""
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_NULL: Final = -1
_ROW_BYTES_MIN: Final = _INT16.size + _INT32.size


class MalformedConsumerProtocolError(PenstockError):
    """A member's metadata, or its assignment, is not in the form of the consumer protocol."""


@dataclass(slots=True)
class ConsumerProtocolTopicPartitions:
    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerProtocolAssignment:
    assigned_partitions: list[ConsumerProtocolTopicPartitions] = field(default_factory=list)
    user_data: bytes | None = None


@dataclass(slots=True)
class ConsumerProtocolSubscription:
    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None
    owned_partitions: list[ConsumerProtocolTopicPartitions] = field(default_factory=list)
    generation_id: int = -1
    rack_id: str | None = None


def encode_consumer_protocol(
    what: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int = LAST_VERSION
) -> bytes:
    """The bytes of a subscription or an assignment. Fields for which the version has no place are left out."""
    parts = [_INT16.pack(version)]
    if isinstance(what, ConsumerProtocolAssignment):
        parts += [*_rows(what.assigned_partitions), _bytes(what.user_data)]
        return b"".join(parts)
    parts += [_INT32.pack(len(what.topics)), *map(_string, what.topics), _bytes(what.user_data)]
    if version >= 1:
        parts += _rows(what.owned_partitions)
    if version >= 2:
        parts.append(_INT32.pack(what.generation_id))
    if version >= 3:
        parts.append(_INT16.pack(_NULL) if what.rack_id is None else _string(what.rack_id))
    return b"".join(parts)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    reader = _Reader(data)
    found = ConsumerProtocolSubscription(reader.array(_INT16.size, reader.string), reader.bytes_())
    if reader.version >= 1:
        found.owned_partitions = reader.rows()
    if reader.version >= 2:
        found.generation_id = reader.number(_INT32)
    if reader.version >= 3:
        found.rack_id = reader.string_or_null()
    return found


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """An empty one of no bytes, which a member without partitions may be given."""
    if not data:
        return ConsumerProtocolAssignment()
    reader = _Reader(data)
    return ConsumerProtocolAssignment(reader.rows(), reader.bytes_())


def assigned_partitions(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment; none where the bytes are something else."""
    try:
        rows = decode_assignment(data).assigned_partitions
    except MalformedConsumerProtocolError:
        return ()
    return tuple(TopicPartition(row.topic, partition) for row in rows for partition in row.partitions)


def subscription_version(data: bytes) -> int:
    """The version in which a member wrote its subscription, at most the last known one: it reads that version."""
    decode_subscription(data)
    return _Reader(data).version


def _rows(rows: Sequence[ConsumerProtocolTopicPartitions]) -> list[bytes]:
    parts = [_INT32.pack(len(rows))]
    for row in rows:
        parts += [_string(row.topic), _INT32.pack(len(row.partitions)), *map(_INT32.pack, row.partitions)]
    return parts


def _string(text: str) -> bytes:
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw


def _bytes(data: bytes | None) -> bytes:
    return _INT32.pack(_NULL) if data is None else _INT32.pack(len(data)) + data


class _Reader:
    """A place in bytes that a stranger wrote. Nothing is made that the rest of them could not hold."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = bytes(data), 0
        self._elements_left = ELEMENTS_MAX
        version = self.number(_INT16)
        if version < 0:
            raise MalformedConsumerProtocolError(f"a member's bytes have the version {version}")
        self.version = min(version, LAST_VERSION)

    def number(self, form: Struct) -> int:
        return int(form.unpack(self._take(form.size))[0])

    def array(self, element_bytes_min: int, read: Callable[[], T]) -> list[T]:
        count = self.number(_INT32)
        self._elements_left -= count
        if not 0 <= count * element_bytes_min <= len(self._data) - self._at or self._elements_left < 0:
            raise MalformedConsumerProtocolError(f"an array at byte {self._at} says that it has {count} elements")
        return [read() for _ in range(count)]

    def rows(self) -> list[ConsumerProtocolTopicPartitions]:
        return self.array(_ROW_BYTES_MIN, self._row)

    def _row(self) -> ConsumerProtocolTopicPartitions:
        return ConsumerProtocolTopicPartitions(self.string(), self.array(_INT32.size, lambda: self.number(_INT32)))

    def string(self) -> str:
        found = self.string_or_null()
        if found is None:
            raise MalformedConsumerProtocolError(f"the string before byte {self._at} is null")
        return found

    def string_or_null(self) -> str | None:
        size = self.number(_INT16)
        if size == _NULL:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise MalformedConsumerProtocolError(f"the string before byte {self._at} is not UTF-8") from None

    def bytes_(self) -> bytes | None:
        size = self.number(_INT32)
        return None if size == _NULL else self._take(size)

    def _take(self, size: int) -> bytes:
        at, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._data):
            raise MalformedConsumerProtocolError(f"{len(self._data)} bytes end before a field at byte {at} does")
        return self._data[at : self._at]
