"""The types of the records of `__consumer_offsets`, and the versions that are written: those that Kafka 4.3 writes.

The last type is our own, and Kafka's tools pass over it. Types of share and streams groups are not known here. Not
here: the bytes of a record (coordination/record_codec.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker.coordination.record_codec import RecordCodec, RecordType
from broker.coordination.record_codec import first_version as _first
from broker.coordination.watched_time import WATCHED_KEY_TYPE, WatchedTimeKey, WatchedTimeValue
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

GROUP_VERSION: Final = 3
OFFSET_VERSION: Final = 4
EXPIRING_OFFSET_VERSION: Final = 1
"""The only one with a time of expiry."""


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


def _of_offset(value: OffsetCommitValue) -> int:
    return OFFSET_VERSION if value.expire_timestamp == -1 else EXPIRING_OFFSET_VERSION


def _of_classic_group(value: GroupMetadataValue) -> int:
    return GROUP_VERSION


GROUP_RECORDS: Final = RecordCodec(
    (
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
        RecordType(WATCHED_KEY_TYPE, WatchedTimeKey, WatchedTimeValue, _first),
    ),
    _WITH_BYTES,
)
RECORD_TYPES: Final = GROUP_RECORDS.types
RECORD_CLASSES: Final = GROUP_RECORDS.classes
encode_group_record = GROUP_RECORDS.encode
decode_group_record = GROUP_RECORDS.decode
encoded_size = GROUP_RECORDS.size
