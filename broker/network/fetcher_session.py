"""The ports for the sessions of fetches: what a listener gives its requests as their context, and may look into.

`FetchSession` (`broker/apis/fetch_sessions/fetch_session.py`) is one. Not here: those that clients name by ids
(named_sessions.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from penstock.messages.fetch import FetchPartition
from penstock.types import TopicPartition


class Session(Protocol):
    """The state of a fetch session, as long as it lives: the request path finds it as its requests' context."""

    def close(self) -> None: ...


class SessionView(Protocol):
    """The partitions of a fetch session, as their fetcher has asked for them."""

    def find(self, partition: TopicPartition) -> FetchPartition | None:
        """None if it is not in the session."""
        ...

    def wanted(self) -> Iterator[FetchPartition]: ...

    def in_trouble(self) -> list[FetchPartition]:
        """The partitions of which the last answer told an error."""
        ...

    def __len__(self) -> int: ...


class FetcherSession(Session, Protocol):
    """A session that can be looked into."""

    @property
    def partitions(self) -> SessionView: ...


class NewSession(Protocol):
    """Makes the session of a party's fetcher, of a stream's or of one whose answers may be lost."""

    def __call__(self, party: str, *, is_stream: bool = True) -> FetcherSession: ...
