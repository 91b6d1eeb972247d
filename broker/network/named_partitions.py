"""Finds the partitions that a request to a leader names, before it is on its way through the node.

A client may know a partition before its leader does, from a node that has newer metadata. So the connection of such a
request may wait for a moment (`Arrivals`), BEFORE the request queues: the requests behind it stay in order. Here are
the requests of a node's own; those of Kafka's protocol are in kafka/connection/named_partitions.py. Not here: the
length of the wait, and the callers that may wait (apis/arrivals/).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any, Final, NamedTuple, Protocol

from broker.network.connection_loop import Prepare
from broker.network.request_channel import Caller, Request
from penstock.messages.security.acls import Operation
from penstock.types import NO_EPOCH


class NamedPartition(NamedTuple):
    """A partition as a request names it: by its topic's name ("": unknown), its id ("": unknown), or both."""

    topic: str
    topic_id: str
    partition: int
    leader_epoch: int = NO_EPOCH
    """The epoch in which the client takes this broker for the leader, if it says so."""


class Named(NamedTuple):
    """The partitions of one request, and what its caller must be allowed to do with their topics."""

    operation: Operation
    partitions: Iterable[NamedPartition]
    timeout_ms: int | None = None
    """The request's own time-out; None without one."""


class Arrivals(Protocol):
    """Waits for partitions that have not arrived at this broker yet."""

    def begin(self, caller: Caller, named: Named, /) -> Awaitable[None] | None:
        """An awaitable that ends, in a second at most, when the request may be looked at; None: now."""
        ...


OPERATIONS: Final = {
    "Produce": Operation.WRITE,
    "FetchConsumer": Operation.READ,
    "ListOffsets": Operation.DESCRIBE,
    "OffsetForLeaderEpoch": Operation.DESCRIBE,
    "DeleteRecords": Operation.DELETE,
}
"""The requests to leaders, by the names that they have on the way through the node."""


def named_in(request: Request) -> Named | None:
    """The partitions of a request of the node's own; None if it is not for a leader."""
    operation = OPERATIONS.get(request.api)
    if operation is None:
        return None
    body: Any = request.body
    timeout_ms = getattr(body, "max_wait_ms", None)
    if timeout_ms is None:
        timeout_ms = getattr(body, "timeout_ms", None)
    if request.api == "ListOffsets":
        timeout_ms = timeout_ms or None  # 0 is its default
    return Named(operation, _partitions(body), timeout_ms)


def _partitions(body: Any) -> Iterable[NamedPartition]:
    for one in body.partitions:
        (topic, number), epoch = one.partition, getattr(one, "current_leader_epoch", NO_EPOCH)
        yield NamedPartition(topic, one.topic_id, number, epoch)


def arrivals_first(arrivals: Arrivals | None, prepare: Prepare) -> Prepare:
    """Waits for the partitions of a request of the node's own, then goes on with `prepare`."""
    if arrivals is None:
        return prepare

    def begin(request: Request) -> Awaitable[None] | None:
        named = named_in(request)
        waiting = None if named is None else arrivals.begin(request.caller, named)
        return prepare(request) if waiting is None else _then(waiting, prepare, request)

    return begin


async def _then(waiting: Awaitable[None], prepare: Prepare, request: Request) -> None:
    await waiting
    if (preparing := prepare(request)) is not None:
        await preparing
