"""The size of a group's record: one that the topic does not take is refused before it is written.

Kafka learns it from its log, and tells the members UNKNOWN_SERVER_ERROR; so do we.
"""

from __future__ import annotations

from typing import Final

from broker.groups.group_config import GroupConfig
from broker.groups.records.classic_records import GroupMetadataKey, GroupMetadataValue
from broker.groups.records.record_codec import encoded_size
from penstock.errors import ApiError, UnknownServerError

_FIXED_BYTES: Final = 256
_MEMBER_BYTES: Final = 64
"""The bytes that a batch with one record, or a member, has at most beside its strings and bytes."""
_CHARACTER_BYTES_MAX: Final = 4


def refusal_of(config: GroupConfig, key: GroupMetadataKey, value: GroupMetadataValue) -> ApiError | None:
    """The error for a record that is too large."""
    if _bytes_at_most(key, value) <= config.record_bytes_max:  # so a usual record is not encoded twice
        return None
    if (size := encoded_size(key, value)) <= config.record_bytes_max:
        return None
    return UnknownServerError(
        f"the record of group {key.group} with {len(value.members)} members would have {size} bytes, and the topic"
        f" takes {config.record_bytes_max}: have fewer members, or smaller subscriptions and assignments"
    )


def _bytes_at_most(key: GroupMetadataKey, value: GroupMetadataValue) -> int:
    characters = len(key.group) + len(value.protocol_type) + len(value.protocol or "") + len(value.leader or "")
    size = _FIXED_BYTES + _MEMBER_BYTES * len(value.members)
    for member in value.members:
        characters += len(member.member_id) + len(member.client_id) + len(member.client_host)
        characters += len(member.group_instance_id or "")
        size += len(member.subscription) + len(member.assignment)
    return size + _CHARACTER_BYTES_MAX * characters
