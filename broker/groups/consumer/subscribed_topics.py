"""The topics that consumer groups subscribe to: their hashes (KIP-1101) by name, each kept until the topic changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.coordination.turn import KnownTopics
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.targets import metadata_hash, topic_hash

CHANGED_MAX: Final = 10_000
"""The changed names that a group remembers at most. With more, any name may have changed."""


class SubscribedTopics:
    def __init__(self) -> None:
        self._hashes: dict[str, bytes] = {}

    def changed(self, groups: Iterable[ConsumerGroup], names: Iterable[str]) -> None:
        """These topics came, went or changed: the groups that may read them look again at their next heartbeat."""
        gone = set(names)
        for name in gone:
            self._hashes.pop(name, None)
        for group in groups:
            if not group.patterns:
                group.stale = group.stale or not gone.isdisjoint(group.names)
            elif group.changed is not None:  # its patterns are looked at, so nobody asks here what they stand for
                group.changed |= gone
                if len(group.changed) > CHANGED_MAX:
                    group.resolve_again()

    def hash_of(self, group: ConsumerGroup, topics: KnownTopics) -> int:
        """The metadata hash of all topics that the group subscribes to and that there are."""
        hashes: list[bytes] = []
        for name in group.subscribed():
            found = self._hashes.get(name)
            if found is None:
                topic = topics.by_name(name)
                if topic is None:
                    continue
                found = self._hashes[name] = topic_hash(topic)
            hashes.append(found)
        return metadata_hash(hashes)
