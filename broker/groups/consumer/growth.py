"""The memory by which a consumer group grows: when a member joins or subscribes to more, and by new targets.

A member that is let in is never refused what follows from it. So its part of the assignment is counted in advance: each
topic that the group did not read before will be assigned once as a target and once as what members have. An estimate by
the figures of group_sizes.py. Pure. Not here: which party may grow (load/party_shares.py), and the room of
records (record_room.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.coordination.held_memory import text_bytes
from broker.coordination.turn import KnownTopics
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.member import Assignment, Member
from broker.groups.consumer.membership import Found
from broker.groups.group_sizes import GROUP_BYTES, PARTITION_BYTES, TOPIC_BYTES, member_bytes

_TIMES: Final = 2
"""A partition stands in a member's target, and in what the member has."""


def growth(group: ConsumerGroup, found: Found, said: Member, resolved: frozenset[str], topics: KnownTopics) -> int:
    """The bytes by which a heartbeat or a join makes the group larger: the member that `said` it takes the place of the
    one that was `found`. `resolved` are the topics that its pattern stands for."""
    size = _member_bytes(said)
    if not found.is_new:
        size -= _member_bytes(found.member)
    elif found.replaces is not None:
        size -= _member_bytes(found.replaces)
    if not group.members:
        size += GROUP_BYTES
    if said.regex is not None and said.regex not in group.regexes:
        size += regex_bytes(resolved)
    was = frozenset[str]() if found.is_new and found.replaces is None else group.subscription_of(found.member)
    more = (said.names | resolved) - was
    read = group.subscribed() if more else more
    for name in more:
        topic = topics.by_name(name)
        if topic is None:
            continue
        size += _TIMES * TOPIC_BYTES
        if name not in read:
            size += _TIMES * PARTITION_BYTES * topic.partitions
    return size


def _member_bytes(member: Member) -> int:
    texts = member.client_id, member.instance_id, member.rack_id, member.regex
    protocols = () if member.classic is None else [metadata for _, metadata in member.classic.protocols]
    return member_bytes(member.names, texts, protocols)


def regex_bytes(topics: frozenset[str]) -> int:
    return TOPIC_BYTES + sum(TOPIC_BYTES + text_bytes(topic) for topic in topics)


def targets_growth(group: ConsumerGroup, targets: Mapping[str, Assignment]) -> int:
    """The bytes of new targets, less those of the targets that the members have."""
    before = sum(_target_bytes(group.target_of(member_id)) for member_id in targets)
    return _TIMES * (sum(map(_target_bytes, targets.values())) - before)


def _target_bytes(target: Assignment) -> int:
    return sum(TOPIC_BYTES + PARTITION_BYTES * len(partitions) for partitions in target.values())
