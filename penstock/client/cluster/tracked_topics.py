"""The topics that every refresh of the metadata asks for, and when one is forgotten (KIP-526).

A topic that nobody has used for `metadata_max_idle_ms` is forgotten, and one that does not exist any more as soon as
nothing waits for it: otherwise a program that writes to a topic an hour would ask for all of them for ever. The next
use of it asks for it anew, as at first. Pure, but for the clock. Not here: what the users keep of a topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from penstock.errors import UnknownTopicOrPartitionError
from penstock.messages.metadata import TopicInfo

NOW_MS_MAX = 2**62


class TopicUser(Protocol):
    """A part of a client that keeps something of topics."""

    def topics_in_use(self, since_ms: int) -> Collection[str]:
        """The topics that something waits for, or that were used since then."""
        ...

    def forget_topic(self, topic: str) -> None:
        """The topic is not tracked any more."""
        ...


class TrackedTopics:
    """Used by the client's loop."""

    def __init__(self, idle_ms: int, now_ms: Callable[[], int]) -> None:
        self._idle_ms, self._now_ms = idle_ms, now_ms
        self._tracked: dict[str, int] = {}
        """The topics by name, and the time of the last `add` of each."""
        self._users: list[TopicUser] = []

    def add_user(self, user: TopicUser) -> None:
        self._users.append(user)

    def add(self, topics: Iterable[str]) -> None:
        now_ms = self._now_ms()
        self._tracked.update((topic, now_ms) for topic in topics)

    def discard(self, topic: str) -> None:
        self._tracked.pop(topic, None)

    def names(self) -> list[str]:
        return sorted(self._tracked)

    def forget_unused(self, answered: Collection[TopicInfo]) -> list[str]:
        """Forgets the idle ones, and those that do not exist, by this answer, and that nothing waits for."""
        gone = {topic.name for topic in answered if isinstance(topic.error, UnknownTopicOrPartitionError)}
        since_ms = self._now_ms() - self._idle_ms
        idle = {topic for topic, at_ms in self._tracked.items() if at_ms < since_ms}
        forgotten = self._unused(idle, since_ms) | self._unused(self._tracked.keys() & gone, NOW_MS_MAX)
        for topic in sorted(forgotten):
            del self._tracked[topic]
            for user in self._users:
                user.forget_topic(topic)
        return sorted(forgotten)

    def _unused(self, topics: set[str], since_ms: int) -> set[str]:
        return topics.difference(*(user.topics_in_use(since_ms) for user in self._users)) if topics else topics

    def __contains__(self, topic: str) -> bool:
        return topic in self._tracked

    def __repr__(self) -> str:
        return f"TrackedTopics({len(self._tracked)})"
