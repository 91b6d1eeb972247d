"""Keys and values of `__consumer_offsets` as bytes, and back.

    key      int16 the type of the record, then the key's fields
    value    int16 the version, then the value's fields; null is a tombstone

The versions that are written are those that Kafka 4.3 writes; all versions are read. A type that is not known here (of
share and streams groups, or of a later version) is not an error: a log may hold it. Not here: batches (record_log.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from broker.groups.records.classic_records import GroupMetadataKey, GroupMetadataValue
from broker.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from broker.groups.records.offset_records import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from broker.kafka_codec import codec
from broker.kafka_codec.primitives import EncodeError
from penstock.base_error import PenstockError
from penstock.errors import InvalidRequestError, UnsupportedVersionError
from penstock.record.batch import HEADER_BYTES
from penstock.record.builder import record_size_bytes_upper

_PREFIX: Final = struct.Struct(">h")
GROUP_VERSION: Final = 3
OFFSET_VERSION: Final = 4
EXPIRING_OFFSET_VERSION: Final = 1
"""The only one with a time of expiry."""
ELEMENTS_MAX: Final = 1_000_000
"""Elements of all arrays of one record, which is bounded by the topic's largest batch anyway."""


class MalformedGroupRecordError(PenstockError):
    """A record of `__consumer_offsets` has a known type, and not its form."""


class RecordType(NamedTuple):
    """A key's number and class, its value's class, and the version in which a value is written."""

    number: int
    key: type
    value: type
    version: Callable[[Any], int]


def encode_group_record(key: Any, value: Any | None) -> tuple[bytes, bytes | None]:
    """The bytes of a record of one of the classes; `value` None is a tombstone."""
    kind = _BY_KEY[type(key)]
    key_bytes = _PREFIX.pack(kind.number) + b"".join(codec.encode(key, 0))
    if value is None:
        return key_bytes, None
    if type(value) is not kind.value:
        raise EncodeError(f"the value of a {kind.key.__name__} is no {type(value).__name__}")
    version = kind.version(value)
    return key_bytes, _PREFIX.pack(version) + b"".join(codec.encode(value, version))


def encoded_size(key: Any, value: Any | None) -> int:
    """The bytes of a batch with this record alone, at most."""
    key_bytes, value_bytes = encode_group_record(key, value)
    return HEADER_BYTES + record_size_bytes_upper(-1 if value_bytes is None else len(value_bytes), len(key_bytes))


def decode_group_record(key_bytes: bytes | None, value_bytes: bytes | None) -> tuple[Any, Any | None] | None:
    """The record; None for a type that is not known here."""
    if key_bytes is None:
        raise MalformedGroupRecordError("a record has no key")
    kind = _BY_NUMBER.get(_prefix_of(key_bytes, "a key"))
    if kind is None:
        return None
    key = _decoded(kind.key, 0, key_bytes)
    if value_bytes is None:
        return key, None
    value = _decoded(kind.value, _prefix_of(value_bytes, f"a {kind.value.__name__}"), value_bytes)
    if kind.value in _WITH_BYTES:
        _WITH_BYTES[kind.value](value)
    return key, value


def _prefix_of(data: bytes, where: str) -> int:
    if len(data) < _PREFIX.size:
        raise MalformedGroupRecordError(f"{where} has {len(data)} bytes")
    number: int = _PREFIX.unpack_from(data)[0]
    return number


def _decoded(cls: type, version: int, data: bytes) -> Any:
    try:
        return codec.decode(cls, version, memoryview(data), _PREFIX.size, ELEMENTS_MAX)[0]
    except (InvalidRequestError, UnsupportedVersionError) as error:
        raise MalformedGroupRecordError(str(error)) from None


def _settle_classic(value: GroupMetadataValue) -> None:
    """Copies the bytes of members, so that what is kept does not hold the record."""
    for member in value.members:
        member.subscription, member.assignment = bytes(member.subscription), bytes(member.assignment)


def _settle_consumer(value: ConsumerGroupMemberMetadataValue) -> None:
    if value.classic_member_metadata is not None:
        for protocol in value.classic_member_metadata.supported_protocols:
            protocol.metadata = bytes(protocol.metadata)


_WITH_BYTES: Final[dict[type, Callable[[Any], None]]] = {
    GroupMetadataValue: _settle_classic,
    ConsumerGroupMemberMetadataValue: _settle_consumer,
}


def _first(value: Any) -> int:
    return 0


def _of_offset(value: OffsetCommitValue) -> int:
    return OFFSET_VERSION if value.expire_timestamp == -1 else EXPIRING_OFFSET_VERSION


def _of_classic_group(value: GroupMetadataValue) -> int:
    return GROUP_VERSION


RECORD_TYPES: Final = (
    RecordType(0, LegacyOffsetCommitKey, LegacyOffsetCommitValue, _first),
    RecordType(1, OffsetCommitKey, OffsetCommitValue, _of_offset),
    RecordType(2, GroupMetadataKey, GroupMetadataValue, _of_classic_group),
    RecordType(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, _first),
    RecordType(4, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue, _first),
    RecordType(5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, _first),
    RecordType(6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, _first),
    RecordType(7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, _first),
    RecordType(8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, _first),
    RecordType(16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, _first),
)
_BY_NUMBER: Final = {kind.number: kind for kind in RECORD_TYPES}
_BY_KEY: Final = {kind.key: kind for kind in RECORD_TYPES}
RECORD_CLASSES: Final = tuple(cls for kind in RECORD_TYPES for cls in (kind.key, kind.value))
