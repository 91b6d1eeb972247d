"""Remembers what the broker was told on one fetch stream, so that a request names only what has changed since.

Pure. One stream is one session (KIP-227's idea without its ids): when the stream ends, so does the session, and the
next one begins with everything.

A request names a limited number of partitions. New ones come first, then those that were not named for longest: so
partitions that change with every answer cannot starve the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.messages.fetch import FetchPartition
from penstock.types import NO_OFFSET, TopicPartition

REQUEST_PARTITIONS_MAX = 2_000
"""The most partitions that a broker takes in one request (docs/request-limits.md); the others are named in the next."""


class SessionDelta(NamedTuple):
    """The partitions to name in the next request."""

    changed: tuple[FetchPartition, ...]
    forgotten: tuple[TopicPartition, ...]
    is_last: bool
    """False: there is more to say than one request may name. Then the broker should not wait for records before it
    answers, or it would do so once for every request of a session that is being built."""


class FetchSessionView:
    """The broker's view of what we want."""

    __slots__ = ("_has_more", "_named")

    def __init__(self) -> None:
        self._named: dict[TopicPartition, FetchPartition] = {}  # what was named longest ago comes first
        self._has_more = False

    def advance(self, wanted: Mapping[TopicPartition, FetchPartition]) -> SessionDelta:
        """The changes that tell the broker of `wanted`, as many as one request may name."""
        named = self._named
        new = [part for tp, part in wanted.items() if tp not in named]
        changed = (*new, *(part for tp in named if (part := wanted.get(tp, named[tp])) != named[tp]))
        forgotten = tuple(tp for tp in named if tp not in wanted)
        self._has_more = max(len(changed), len(forgotten)) > REQUEST_PARTITIONS_MAX
        if not self._has_more:
            self._named = dict(wanted)
            return SessionDelta(changed, forgotten, is_last=True)
        delta = SessionDelta(changed[:REQUEST_PARTITIONS_MAX], forgotten[:REQUEST_PARTITIONS_MAX], is_last=False)
        self.forget(delta.forgotten)
        for part in delta.changed:
            named.pop(part.partition, None)
            named[part.partition] = part  # the last in turn
        return delta

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The broker answered these with an error, and so dropped them: a request that wants one must name it again."""
        for tp in partitions:
            self._named.pop(tp, None)

    def sent(self, partitions: Iterable[TopicPartition]) -> None:
        """The broker sent these all that it had, and waits for more. A request that wants one must name it again, also
        at the same offset: a seek may have dropped what was sent, and come back to where it was."""
        for tp in partitions:
            if tp in self._named:
                self._named[tp] = self._named[tp]._replace(fetch_offset=NO_OFFSET)  # equal to nothing that is wanted

    def knows(self, wanted: Mapping[TopicPartition, FetchPartition]) -> bool:
        """True if the broker waits for all of `wanted`, or will with the requests that follow anyway. It may wait for
        more, of which the next request says that it is not wanted: that is no reason to give up the one under way."""
        return self._has_more or all(self._named.get(tp) == part for tp, part in wanted.items())

    def __len__(self) -> int:
        return len(self._named)

    def __repr__(self) -> str:
        return f"FetchSessionView({len(self._named)} partitions)"
