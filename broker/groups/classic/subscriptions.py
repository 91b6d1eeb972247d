"""The topics that the members of a classic group read, as far as a broker can know them.

Only groups of consumers say it in bytes that a broker can read. A group that cannot be read may read any topic: no
offset of it is treated as one that nobody needs.
"""

from __future__ import annotations

from broker.groups.classic.group import ClassicGroup
from penstock.wire.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    MalformedConsumerProtocolError,
    decode_subscription,
)


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """The topics that the members of the present generation read; None if they are not known. A group without members
    reads none."""
    if not group.members:
        return frozenset()
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or group.protocol_name is None:
        return None
    if group.topics is None:
        group.topics = _read(group, group.protocol_name)
    return group.topics


def _read(group: ClassicGroup, protocol: str) -> frozenset[str] | None:
    topics: set[str] = set()
    try:
        for member in group.members.values():
            topics.update(decode_subscription(member.metadata_of(protocol)).topics)
    except MalformedConsumerProtocolError:
        return None
    return frozenset(topics)
