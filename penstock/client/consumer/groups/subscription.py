"""A subscription: names of topics, or a pattern that the coordinator matches (RE2). Checks what the user gives."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Any

from penstock.client.cluster.arguments import checked_topic
from penstock.lazy_dataclass import dataclass
from penstock.topic_names import validate_topic_name


class Mode(Enum):
    """How the consumer gets its partitions."""

    NONE = auto()
    SUBSCRIBED = auto()
    ASSIGNED = auto()


@dataclass(frozen=True, slots=True)
class GroupSubscription:
    """The topics by name, or a pattern: the other field is empty."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None


def checked_subscription(topics: Any, pattern: Any) -> GroupSubscription:
    """A list of names, or a pattern as text; a topic that does not exist yet is read once it does."""
    if pattern is not None:
        if topics is not None:
            raise ValueError("subscribe to topics or to a pattern, not to both")
        text = getattr(pattern, "pattern", pattern)  # re.compile("...")
        if not isinstance(text, str):
            raise TypeError(f"pattern={pattern!r} must be a str, a regular expression in RE2's syntax")
        if not text:
            raise ValueError("pattern='' matches nothing; write pattern='orders-.*'")
        return GroupSubscription((), text)
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        name = topics if isinstance(topics, str) else "orders"
        raise TypeError(f"subscribe takes a list of topics, like [{name!r}], not {topics!r}")
    names = tuple(sorted({checked_topic(topic) for topic in topics}))
    if not names:
        raise ValueError("subscribe([]) names no topic; unsubscribe() leaves the group")
    for name in names:
        validate_topic_name(name)
    return GroupSubscription(names)
