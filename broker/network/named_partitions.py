"""Finds the partitions that a request to a leader or a coordinator names, before it is on its way through the node.

A client may know a partition before its leader does, from a node that has newer metadata; and before the coordinator of
its group or its transaction, which looks topics up. So the connection of such a request may wait for a moment
(`Arrivals`), BEFORE the request queues: the requests behind it stay in order. Here are the requests of a node's own;
those of Kafka's protocol are in kafka/connection/named_partitions.py. Not here: the length of the wait, and the callers
that may wait (apis/arrivals/).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from broker.network.connection_loop import Prepare
from broker.network.request_channel import Caller, Request
from penstock.messages.security.acls import Need, Operation, ResourceType
from penstock.types import NO_EPOCH


class NamedPartition(NamedTuple):
    """A partition as a request names it: by its topic's name ("": unknown), its id ("": unknown), or both."""

    topic: str
    topic_id: str
    partition: int
    leader_epoch: int = NO_EPOCH
    """The epoch in which the client takes this broker for the leader, if it says so."""


PlainNamed = tuple[str, str, int, int]
"""A `NamedPartition` without its names: requests with thousands make nothing else of those that are here."""


class Named(NamedTuple):
    """The partitions of one request, and what its caller must be allowed to do with their topics."""

    operation: Operation
    partitions: Iterable[PlainNamed]
    timeout_ms: int | None = None
    """The request's own time-out; None without one."""
    needs_log: bool = True
    """False for a coordinator, which needs no more than the metadata."""
    needs: tuple[Need, ...] = ()
    """The rights without which the request is refused whatever it names."""


class Arrivals(Protocol):
    """Waits for partitions that have not arrived at this broker yet."""

    def begin(self, caller: Caller, named: Named, /) -> Awaitable[None] | None:
        """An awaitable that ends, in a second at most, when the request may be looked at; None: now."""
        ...


def named_in(request: Request) -> Named | None:
    """The partitions of a request of the node's own; None if it names none that could be on their way."""
    named = NAMED.get(request.api)
    return None if named is None else named(request.body)


def _timed(operation: Operation, body: Any) -> Named:
    return Named(operation, _partitions(body), body.timeout_ms)


def _fetched(body: Any) -> Named:
    return Named(Operation.READ, _with_epochs(body), body.max_wait_ms)


def _listed(body: Any) -> Named:
    return Named(Operation.DESCRIBE, _with_epochs(body), body.timeout_ms or None)


def _of_epochs(body: Any) -> Named:
    return Named(Operation.DESCRIBE, _with_epochs(body))


def _described(body: Any) -> Named:
    return Named(Operation.READ, _partitions(body))


def _partitions(body: Any) -> Iterator[PlainNamed]:
    for one in body.partitions:
        topic, number = one.partition
        yield topic, one.topic_id, number, NO_EPOCH


def _with_epochs(body: Any) -> Iterator[PlainNamed]:
    for one in body.partitions:
        topic, number = one.partition
        yield topic, one.topic_id, number, one.current_leader_epoch


def _committed(body: Any) -> Named:
    return of_coordinator(Operation.READ, _partitions(body), commits(body.group_id))


def _committed_in_transaction(body: Any) -> Named:
    return of_coordinator(Operation.READ, _partitions(body), commits(body.group_id), writes(body.transactional_id))


def _offsets_deleted(body: Any) -> Named:
    partitions = ((topic, "", number, NO_EPOCH) for topic, number in body.partitions)
    return of_coordinator(Operation.READ, partitions, Need(Operation.DELETE, ResourceType.GROUP, body.group_id))


def _added(body: Any) -> Named:
    partitions = ((topic, "", number, NO_EPOCH) for one in body.transactions for topic, number in one.partitions)
    return of_coordinator(Operation.WRITE, partitions, *(writes(one.transactional_id) for one in body.transactions))


def of_coordinator(operation: Operation, partitions: Iterable[PlainNamed], *needs: Need) -> Named:
    """The partitions of a request to a coordinator."""
    return Named(operation, partitions, None, False, needs)


def commits(group_id: str) -> Need:
    """The right to the group without which no offset is committed."""
    return Need(Operation.READ, ResourceType.GROUP, group_id)


def writes(transactional_id: str) -> Need:
    """The right to the id without which a transaction is not changed."""
    return Need(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


NAMED: Final[Mapping[str, Callable[[Any], Named]]] = {
    "Produce": partial(_timed, Operation.WRITE),
    "FetchConsumer": _fetched,
    "ListOffsets": _listed,
    "OffsetForLeaderEpoch": _of_epochs,
    "DeleteRecords": partial(_timed, Operation.DELETE),
    "DescribeProducers": _described,
    "OffsetCommit": _committed,
    "OffsetDelete": _offsets_deleted,
    "TxnOffsetCommit": _committed_in_transaction,
    "AddPartitionsToTxn": _added,
}
"""The requests to leaders and coordinators, by the names that they have on the way through the node."""


def arrivals_first(arrivals: Arrivals | None, prepare: Prepare) -> Prepare:
    """Waits for the partitions of a request of the node's own, then goes on with `prepare`."""
    if arrivals is None:
        return prepare
    return _first(arrivals, named_in, prepare)


def coordinators_first(arrivals: Arrivals | None) -> Prepare:
    """Waits for the partitions that another broker names to a coordinator: a leader adds its own to a transaction.
    Brokers do not wait for logs: a follower, or a broker that counts lag, asks again."""

    def of_coordinators(request: Request) -> Named | None:
        named = named_in(request)
        return None if named is None or named.needs_log else named

    def nothing(request: Request) -> None:
        return None

    return nothing if arrivals is None else _first(arrivals, of_coordinators, nothing)


def _first(arrivals: Arrivals, named_in: Callable[[Request], Named | None], prepare: Prepare) -> Prepare:
    def begin(request: Request) -> Awaitable[None] | None:
        named = named_in(request)
        waiting = None if named is None else arrivals.begin(request.caller, named)
        return prepare(request) if waiting is None else _then(waiting, prepare, request)

    return begin


async def _then(waiting: Awaitable[None], prepare: Prepare, request: Request) -> None:
    await waiting
    if (preparing := prepare(request)) is not None:
        await preparing
