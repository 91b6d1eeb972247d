"""The ports of a request: its answer in parts, the turns of its party, and what its caller may do.

Not here: the request itself, and where its answer goes (request_channel.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from penstock.errors import ApiError
from penstock.messages.security.acls import Operation


class AnswerParts(Protocol):
    """The answer of a request that is given in parts."""

    @property
    def open(self) -> int:
        """How many results are not known yet."""
        ...

    def take(self) -> object:
        """All that is known and was not taken before."""
        ...


class AnswerRoom(Protocol):
    """Lets a request be worked on only while there is room for its answer."""

    def puts_aside(self, request: Any, begin: Callable[[Any], None], /) -> bool:
        """True if the request must wait; `begin` is called with it when its turn has come, unless it is abandoned."""
        ...


class Visibility(NamedTuple):
    """The topics that a principal may know of."""

    principal: str
    version: object
    """Another object once its rights may have changed."""
    sees: Callable[[str], bool]
    """True for a topic that it may describe. Nothing is noted: what is hidden is not refused."""


class TopicRights(Protocol):
    """The rights of a request's caller to topics, where an authorizer judges: for handlers that look at each
    partition by themselves. They are those of now: a right that is taken away while a request waits does not count
    when it is answered."""

    @property
    def version(self) -> object:
        """Another object once the rights may have changed."""
        ...

    def refusal(self, operation: Operation, topic: str) -> ApiError | None:
        """None if the caller may do this."""
        ...

    def visibility(self) -> Visibility:
        """The topics that the caller may know of."""
        ...
