"""The parts that a led shard stands on: its core, and those of the broker. Types only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar

from broker.coordination.loading import ShardLoader
from broker.coordination.record_log import TxnProducer
from broker.coordination.tick_batches import Encode
from broker.coordination.timers import Timers
from broker.coordination.turn import Client, KnownTopics, Ticket, Turn
from broker.coordination.watched_time import WatchedTime
from broker.replication.leader.leader_appends import LeaderAppends
from penstock.backoff import Backoff
from penstock.clock import Clock
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.record.codecs import Codec
from penstock.record.markers import Marker


class ShardState(Enum):
    """The states of a led partition; led_shard.py has the diagram."""

    LOADING = "loads its log"
    ACTIVE = "serves"
    FAILED = "its log has a record that cannot be read"
    CLOSED = "the lead is over"


class ShardCore(Protocol):
    """The core of one partition."""

    @property
    def timers(self) -> Timers[Turn]: ...

    @property
    def watched(self) -> WatchedTime: ...

    def replay(self, key: Any, value: Any | None, producer: TxnProducer | None = None) -> None: ...

    def replay_marker(self, marker: Marker) -> None: ...

    def loaded(self) -> Sequence[Callable[[Turn], None]]:
        """The state is whole: what is to be done now, in steps."""
        ...

    def handle(self, turn: Turn, ticket: Ticket, request: Any, client: Client) -> None:
        """Decide on a request. Raises an ApiError before anything is written, or answers the ticket, now or later."""
        ...

    def topics_changed(self, turn: Turn, changed: frozenset[str], deleted: frozenset[str]) -> None: ...

    def unloaded(self) -> Sequence[tuple[Ticket, ApiError]]:
        """The tickets that wait, with their answer; the state is given up."""
        ...


Core = TypeVar("Core", bound=ShardCore)


@dataclass(frozen=True, slots=True)
class ShardPorts:
    """The parts of the broker that every shard uses."""

    logs: LeaderAppends
    loader: ShardLoader
    topics: KnownTopics
    clock: Clock
    new_id: Callable[[], str]
    commit_timeout_ms: int
    """The longest wait of an answer for the commit."""
    codec: Codec
    make_encode: Callable[[], Encode]
    """Makes the encoder of the records of one append."""
    backoff: Backoff
    on_fatal: Callable[[BaseException], None]
    may_answer: Callable[[], bool]
    """False when another broker may lead the partition by now, though nothing says so here (quorum/lead_lease.py)."""
