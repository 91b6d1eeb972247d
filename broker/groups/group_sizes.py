"""The memory of this broker's groups: its limit, how more is refused, and estimates of groups and members.

An estimate goes by records: the last one of each key counts. Committed offsets are estimated where they are kept
(offsets/offsets_state.py): there are many, and their records are gone at once. With these figures an estimate is within
a tenth of what tracemalloc counted for consumer groups of 1, 10 and 200 members with 1 to 10 partitions: 4,810, 2,840
and 2,190 bytes a member, the groups' own included.

State that lasts is groups, members, subscriptions, assignments and committed offsets, and the offsets that a
transaction commits where none was committed before. State that ends with its transaction is the offsets that will
replace committed ones. Not here: the share of each party (load/party_shares.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import Any, Final

from broker.coordination.held_memory import UNIT_BYTES, Grown, text_bytes, uncounted
from broker.coordination.memory_shares import CoordinatorMemory, MemoryWords
from broker.groups.records.classic_records import GroupMetadataKey, GroupMetadataValue
from broker.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from penstock.errors import GroupMaxSizeReachedError, ResourceExhaustedError

GROUP_BYTES: Final = 2_000 + UNIT_BYTES
MEMBER_BYTES: Final = 2_300
NAME_BYTES: Final = 150
"""A name that a member reads, in its set and in the group's count, without its characters."""
PROTOCOL_BYTES: Final = 200
"""A protocol that a classic member supports, without its name and metadata."""
TOPIC_BYTES: Final = 200
PARTITION_BYTES: Final = 60
_WORDS: Final = MemoryWords(
    state="the groups",
    key="group.coordinator.memory.max.bytes",
    lasting_error=GroupMaxSizeReachedError,
    lasting_remedy="delete groups and offsets that are used no more, commit shorter metadata, or raise the limit",
    passing_error=ResourceExhaustedError,
    passing_remedy="send it again when other transactions have ended, commit fewer offsets in one, or raise the limit",
)


def _of_classic_group(value: GroupMetadataValue) -> int:
    """The bytes of a classic group's record. Its members are estimated where they are kept (classic/group.py): many
    stand in no record for a time."""
    return GROUP_BYTES + sum(len(member.assignment) for member in value.members)


def member_bytes(names: Iterable[str], texts: Iterable[str | None], protocols: Iterable[Sized]) -> int:
    """A member of a consumer group: the names that it reads, what it says of itself, and a classic one's metadata."""
    text_total = sum(text_bytes(text) for text in texts if text is not None)
    metadata_total = sum(PROTOCOL_BYTES + len(metadata) for metadata in protocols)
    return MEMBER_BYTES + sum(NAME_BYTES + text_bytes(name) for name in names) + text_total + metadata_total


def _of_member(value: ConsumerGroupMemberMetadataValue) -> int:
    classic = value.classic_member_metadata
    texts = value.client_id, value.instance_id, value.rack_id, value.subscribed_topic_regex
    protocols = () if classic is None else [protocol.metadata for protocol in classic.supported_protocols]
    return member_bytes(value.subscribed_topic_names, texts, protocols)


def _of_partitions(topics: list[Any]) -> int:
    return sum(TOPIC_BYTES + PARTITION_BYTES * len(topic.partitions) for topic in topics)


def _of_target(value: ConsumerGroupTargetAssignmentMemberValue) -> int:
    return _of_partitions(value.topic_partitions)


def _of_current(value: ConsumerGroupCurrentMemberAssignmentValue) -> int:
    return _of_partitions(value.assigned_partitions) + _of_partitions(value.partitions_pending_revocation)


def _of_regex(value: ConsumerGroupRegularExpressionValue) -> int:
    return TOPIC_BYTES + sum(TOPIC_BYTES + text_bytes(topic) for topic in value.topics)


_GROUP: Final = ""
_ESTIMATES: Final[dict[type, tuple[Callable[[Any], tuple[str, str]], Callable[[Any], int]]]] = {
    GroupMetadataKey: (lambda key: (key.group, _GROUP), _of_classic_group),
    ConsumerGroupMetadataKey: (lambda key: (key.group_id, _GROUP), lambda value: GROUP_BYTES),
    ConsumerGroupMemberMetadataKey: (lambda key: (key.group_id, key.member_id), _of_member),
    ConsumerGroupTargetAssignmentMemberKey: (lambda key: (key.group_id, key.member_id), _of_target),
    ConsumerGroupCurrentMemberAssignmentKey: (lambda key: (key.group_id, key.member_id), _of_current),
    ConsumerGroupRegularExpressionKey: (lambda key: (key.group_id, key.regular_expression), _of_regex),
}
"""The group and member that a key belongs to, and the estimate of its value, by the class of the key."""


class GroupSizes(Sized):
    """The estimates of one shard."""

    def __init__(self, grown: Grown = uncounted) -> None:
        self._grown = grown
        self._sizes: dict[tuple[type, str, str], int] = {}
        self.bytes = 0

    def replay(self, key: Any, value: Any | None) -> None:
        """A record was taken into the state."""
        found = _ESTIMATES.get(type(key))
        if found is None:
            return
        of, estimate = found
        what = (type(key), *of(key))
        before = self._sizes.pop(what, 0)
        after = 0
        if value is not None:
            after = self._sizes[what] = estimate(value)
        self.bytes += after - before
        self._grown(what[1], after - before)

    def __len__(self) -> int:
        return len(self._sizes)

    def __repr__(self) -> str:
        return f"GroupSizes({len(self._sizes)} records, {self.bytes} bytes)"


def group_memory(bytes_max: int) -> CoordinatorMemory:
    """The memory of groups. There is one per broker, shared by its shards."""
    return CoordinatorMemory(bytes_max, _WORDS)
