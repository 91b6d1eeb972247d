"""Knows the owner of each topic, and how many partitions the topics of each owner have.

An index of the controller's state, kept up with every record. The cluster may have a limited number of partitions, and
each principal a share of it: `percent` of those that the topics of others leave. With 50 a principal may have as many
as stay free, so one alone gets half of the limit, and n of them one part in n+1 each: the rule of every other share
(docs/adr/0031-quotas-are-configured-and-shares-are-not.md).

A topic's owner is the principal that made it. Internal topics, those of super users, and those that were made before
owners were noted are nobody's; such a topic becomes the property of the first principal with a share that adds
partitions to it. The owner is one record beside the TopicRecord, which goes with the topic.

Not here: who has a share (broker/authorization/request_authorizer.py), and where it is checked (assignments.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Final

from metadata.records import OWNER_KEY, TOPIC_OWNER_RESOURCE, ConfigRecord

NOBODY: Final = ""


class TopicOwners:
    """Owners by topic, and partitions by owner."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}
        self._partitions: Counter[str] = Counter()

    def of(self, topic_id: str) -> str:
        """The topic's owner, or NOBODY."""
        return self._owners.get(topic_id, NOBODY)

    def partitions_of(self, owner: str) -> int:
        return self._partitions[owner]

    def put(self, topic_id: str, owner: str, partitions: int) -> None:
        """The topic gets another owner, or NOBODY, and has `partitions` now."""
        self.partitions_changed(topic_id, -partitions)
        self._owners.pop(topic_id, None)
        if owner != NOBODY:
            self._owners[topic_id] = owner
        self.partitions_changed(topic_id, partitions)

    def partitions_changed(self, topic_id: str, by: int) -> None:
        """The topic got partitions, or lost them (`by` is negative)."""
        owner = self._owners.get(topic_id)
        if owner is None or not by:
            return
        self._partitions[owner] += by
        if not self._partitions[owner]:
            del self._partitions[owner]

    def strays(self, topic_ids: Container[str]) -> list[str]:
        """The ids of topics that have an owner and are not among these: a controller of a release that knows no owners
        has deleted them."""
        return sorted(topic_id for topic_id in self._owners if topic_id not in topic_ids)

    def __repr__(self) -> str:
        return f"TopicOwners({len(self._owners)} topics, {len(self._partitions)} owners)"


def owner_record(topic_id: str, owner: str | None) -> ConfigRecord:
    """The topic is this principal's. None: the topic is gone, or nobody's."""
    return ConfigRecord(TOPIC_OWNER_RESOURCE, topic_id, OWNER_KEY, owner)


def partitions_share(partitions_max: int, of_others: int, percent: int) -> int:
    """The most partitions that the topics of one principal may have."""
    return (partitions_max - of_others) * percent // 100
