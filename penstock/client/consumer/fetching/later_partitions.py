"""Tells the partitions that a topic got after its reader began with it: they are read from their first record on.

Such a partition was empty then, so nothing in it is older than the reader, whatever `auto_offset_reset` says. A reader
begins with a topic when the user is told of its partitions, or when the first of them is assigned. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.messages.metadata import TopicInfo
from penstock.types import TopicPartition


class LaterPartitions:
    """The id of each topic, and how many partitions it had when its reader began with it."""

    def __init__(self) -> None:
        self._announced: dict[str, tuple[str, int]] = {}
        self._began_with: dict[str, tuple[str, int]] = {}

    def announce(self, topic: TopicInfo) -> None:
        """The user is told of the topic's partitions."""
        self._announced[topic.name] = topic.topic_id, len(topic.partitions)

    def assign(self, topics: Iterable[TopicInfo], before: Iterable[TopicPartition]) -> None:
        """Assigns the partitions of these topics; `before` are those that were until now."""
        assigned = {tp.topic for tp in before}
        began = {name: found for name, found in self._began_with.items() if name in assigned}
        self._began_with = {
            topic.name: _of_this(topic, began.get(topic.name), self._announced.get(topic.name)) for topic in topics
        }

    def has(self, tp: TopicPartition) -> bool:
        """True if the partition is one of them."""
        return tp.topic in self._began_with and tp.partition >= self._began_with[tp.topic][1]

    def __repr__(self) -> str:
        return f"LaterPartitions({self._began_with})"


def _of_this(topic: TopicInfo, *known: tuple[str, int] | None) -> tuple[str, int]:
    """The first of the ids and numbers of partitions that is of this topic, else its own of today."""
    now = topic.topic_id, len(topic.partitions)
    return next((found for found in known if found is not None and found[0] == topic.topic_id), now)
