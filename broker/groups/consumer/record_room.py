"""The room of records: whatever a member asks for must fit into one record each, and is refused before it is written.

    metadata     what the member says
    target       all partitions that it could get: of every topic that it subscribes to, were it alone
    current      the same partitions, each with an epoch
    regex        the names of the topics that a pattern stands for

Pure. Topics that grow later are looked at when a target is computed (group_epochs.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.coordination.turn import KnownTopics
from broker.groups.consumer import record_forms
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.member import Assignment, Member
from broker.groups.group_config import GroupConfig
from penstock.errors import InvalidRequestError

_OVERHEAD_BYTES = 512
"""A batch's header, a record's, its key, and the fields of its value that are of one size."""
_PARTITION_BYTES = 8
"""A partition's number and its epoch."""
_TOPIC_BYTES = 40
"""A topic's id, and the lengths and tags around its partitions."""
_LENGTH_BYTES = 3


def room_of(config: GroupConfig, group_id: str, other_id: str) -> int:
    """The bytes for the value of a record whose key has these two ids."""
    return config.record_bytes_max - _OVERHEAD_BYTES - len(group_id.encode()) - len(other_id.encode())


def check_records_fit(
    config: GroupConfig, group: ConsumerGroup, said: Member, resolved: Iterable[str], topics: KnownTopics
) -> None:
    """`resolved` are the names that the member's pattern stands for."""
    room = room_of(config, group.group_id, said.member_id)
    size = record_forms.metadata_bytes(said)
    if size > room:
        raise InvalidRequestError(f"the member's subscription takes {size} bytes; a record has room for {room}")
    if not names_fit(config, group.group_id, said.regex or "", resolved):
        raise InvalidRequestError(
            f"the topics that the pattern stands for fit into no record of {config.record_bytes_max} bytes:"
            " choose one that means fewer of them"
        )
    facts = [topic for name in said.names.union(resolved) if (topic := topics.by_name(name)) is not None]
    size = sum(_TOPIC_BYTES + _PARTITION_BYTES * topic.partitions for topic in facts)
    if size > room:
        raise InvalidRequestError(
            f"the member subscribes to {sum(topic.partitions for topic in facts)} partitions, more than it could be"
            f" assigned: they take {size} bytes, and a record has room for {room}"
        )


def names_fit(config: GroupConfig, group_id: str, regex: str, names: Iterable[str]) -> bool:
    return sum(len(name.encode()) + _LENGTH_BYTES for name in names) <= room_of(config, group_id, regex)


def targets_fit(config: GroupConfig, group_id: str, targets: Mapping[str, Assignment]) -> bool:
    return all(
        sum(_TOPIC_BYTES + _PARTITION_BYTES * len(partitions) for partitions in target.values())
        <= room_of(config, group_id, member_id)
        for member_id, target in targets.items()
    )
