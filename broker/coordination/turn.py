"""One turn of a coordinator's core: what it knows when it decides, and what it decides.

A core decides at one moment about one request, one timer or one change of the metadata. What it decides is records,
which are the coordinator's state, and answers. `write` takes a record into the state at once (`Replays.replay`, which
loading uses too) and keeps it for the log: the state is always what the log will say, and the next decision is made on
it. The driver appends the records of many turns at once, and sends no answer before all that its decision could see is
committed. If the append fails, it throws the shard away and loads the log again.

So a core checks everything BEFORE its first `write`: after that it must not raise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, Protocol

from broker.coordination.record_log import TransactionalRecord, TxnProducer, Written
from broker.load.party_shares import NOBODY
from broker.network.request_ports import Visibility
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.record.markers import Marker

Ticket = Callable[[Any], None]
"""Takes the answer of a request that waits, or its ApiError. A core only keeps it and gives it back, once: the driver
calls it, AFTER the commit."""


class Client(NamedTuple):
    """The sender of a request, as members are described."""

    client_id: str
    client_host: str
    visibility: Visibility | None = None
    """The topics that it may know of; None for all, as without an authorizer."""
    party: str = NOBODY
    """The party that pays for the memory that the request takes (network/parties.py); NOBODY for the node's own."""


class TopicFacts(NamedTuple):
    """A topic, as assignment sees it. `racks` has the racks of each partition's replicas."""

    topic_id: str
    name: str
    partitions: int
    racks: Sequence[frozenset[str]]


class KnownTopics(Protocol):
    """The topics of this node's image of the metadata, and what else it says to coordinators."""

    def by_name(self, name: str) -> TopicFacts | None: ...

    def by_id(self, topic_id: str) -> TopicFacts | None: ...

    def names(self) -> Sequence[str]:
        """Sorted; without the cluster's own topics."""
        ...

    def may_begin_consumer_groups(self) -> bool:
        """New groups may have the consumer protocol: `group.version` is 1 or higher."""
        ...


class Replays(Protocol):
    """The state, as records change it."""

    def replay(self, key: Any, value: Any | None, producer: TxnProducer | None = None) -> None:
        """Replays a record; with a producer it counts once the producer's transaction is committed."""
        ...

    def replay_marker(self, marker: Marker) -> None:
        """The end of a producer's transaction in this log."""
        ...


@dataclass(slots=True)
class Turn:
    """One turn of a coordinator's core. `now_ms` is monotonic; `wall_ms` the calendar."""

    now_ms: int
    wall_ms: int
    topics: KnownTopics
    state: Replays
    new_id: Callable[[], str]
    """A new member id, in Kafka's 22 characters of a UUID."""
    records: list[Written] = field(default_factory=list)
    """Keys and values, as classes of the topic's records; a value of None is a tombstone."""
    answers: list[tuple[Ticket, Any | ApiError]] = field(default_factory=list)
    must_take: Callable[[TxnProducer], None] = lambda producer: None
    """Raises if the log takes no record of this producer's transaction: its epoch is over. BEFORE the first `write`."""

    def write(self, key: Any, value: Any | None, producer: TxnProducer | None = None) -> None:
        """Take a record into the state, and keep it for the log; with a producer as part of its transaction."""
        if producer is None:
            self.state.replay(key, value)
            self.records.append((key, value))
        else:
            self.state.replay(key, value, producer)
            self.records.append(TransactionalRecord(key, value, producer))

    def answer(self, ticket: Ticket, answer: Any | ApiError) -> None:
        """Answers a ticket. Each ticket is answered once."""
        self.answers.append((ticket, answer))


Handler = Callable[[Turn, Ticket, Any, Client], None]
"""A core's decision about one request: it answers the ticket in this turn or in a later one, or raises its ApiError."""
Handlers = Mapping[type[Any], Handler]
"""A core's handlers, by the type of the request."""
