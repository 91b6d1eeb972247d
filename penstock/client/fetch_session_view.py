"""What one fetch stream has been told so far: a request names only what changed since.

Pure. One stream is one session (KIP-227's idea without its ids): when the stream ends, so does the session, and the
next one begins with everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.client.messages import FetchPart
from penstock.types import TopicPartition

REQUEST_PARTITIONS_MAX = 2_000
"""What a broker takes in one request (docs/request-limits.md); the others are named in the next."""


class SessionDelta(NamedTuple):
    """The partitions to name in the next request."""

    changed: tuple[FetchPart, ...]
    forgotten: tuple[TopicPartition, ...]


class FetchSession:
    """The broker's view of what we want."""

    __slots__ = ("_told", "_untold")

    def __init__(self) -> None:
        self._told: dict[TopicPartition, FetchPart] = {}
        self._untold = False

    def advance(self, wanted: Mapping[TopicPartition, FetchPart]) -> SessionDelta:
        """What to say so that the broker knows `wanted`, as much of it as one request may name."""
        told = self._told
        changed = tuple(part for tp, part in wanted.items() if told.get(tp) != part)
        forgotten = tuple(tp for tp in told if tp not in wanted)
        self._untold = max(len(changed), len(forgotten)) > REQUEST_PARTITIONS_MAX
        if not self._untold:
            self._told = dict(wanted)
            return SessionDelta(changed, forgotten)
        delta = SessionDelta(changed[:REQUEST_PARTITIONS_MAX], forgotten[:REQUEST_PARTITIONS_MAX])
        told.update((TopicPartition(part.topic, part.partition), part) for part in delta.changed)
        self.forget(delta.forgotten)
        return delta

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The broker answered these with an error, and so dropped them: whoever wants them must name them again."""
        for tp in partitions:
            self._told.pop(tp, None)

    def knows(self, wanted: Mapping[TopicPartition, FetchPart]) -> bool:
        """Whether the broker's view is `wanted` already, or becomes so with the requests that follow anyway."""
        return self._untold or self._told == wanted

    def __len__(self) -> int:
        return len(self._told)

    def __repr__(self) -> str:
        return f"FetchSession({len(self._told)} partitions)"
