"""The way from one request in Kafka's protocol to its answer: what the node is asked for it, step by step.

A plan is a generator. It yields an `Ask`, a request of this node's own (`penstock/messages/`), and is sent the answer
to it; a request that failed as a whole is thrown into the plan as its `ApiError`. What the plan returns is the answer
in Kafka's terms, or None where a client waits for none (Produce with acks=0). A plan that needs nothing of the node is
made by `asks_nothing`. A plan that loops over many elements yields `PAUSE` in between: others have the event loop then
(load/long_work.py). A plan that raises `ConnectionEnds` has no answer: Kafka closes the connection there, too.

    def describe_cluster(asked: Asked, body: DescribeClusterRequest) -> Plan:
        cluster = yield Ask("DescribeCluster", messages.DescribeClusterRequest())
        return DescribeClusterResponse(cluster_id=cluster.cluster_id, ...)

A plan decides and does no I/O, so that a test can go through it by hand. Not here: the connection that performs it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple, Protocol

from broker.network.client_software import CountedSoftware
from broker.network.fetcher_session import FetcherSession
from broker.network.request_channel import Caller
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass


class Ask(NamedTuple):
    """A request of the node's own: `api` is its name on the way through the node (`broker/apis/router.py`)."""

    api: str
    body: Any
    session: object = None
    """The session of a fetch: the state between the requests of one fetcher."""


PAUSE: Final = Ask("", None)
"""The node is asked nothing: the plan goes on when the event loop has time for it."""
PAUSED_EVERY: Final = 64
"""Elements between two pauses: they take a millisecond or two."""


def is_pause_due(number: int) -> bool:
    """True of the number of an element before which a plan pauses."""
    return number % PAUSED_EVERY == PAUSED_EVERY - 1


class ConnectionEnds(Exception):
    """The answer of a plan whose client can be told only by the end of its connection. Its text is for the log."""


class LoginStep(NamedTuple):
    """The answer to one message of a log-in. `lifetime_ms`: how long the log-in counts that is done now; 0 without an
    end."""

    answer: bytes = b""
    lifetime_ms: int = 0
    error: ApiError | None = None


class ConnectionLogin(Protocol):
    """The log-in of a connection to a listener with SASL."""

    @property
    def offered(self) -> Sequence[str]:
        """The mechanisms of the listener."""
        ...

    @property
    def principal(self) -> str:
        """The principal that has logged in; "" before that."""
        ...

    def choose(self, mechanism: str) -> ApiError | None:
        """Begins a dialogue; the error if that cannot be."""
        ...

    async def respond(self, message: bytes) -> LoginStep:
        """Goes on with it."""
        ...


class ConnectionMemory:
    """The memory of one connection, from one of its requests to the next. The connection closes it when it ends."""

    __slots__ = ("fetches", "login", "software")

    def __init__(self, login: ConnectionLogin | None = None) -> None:
        """`login`: None at a listener without SASL."""
        self.login = login
        self.fetches: FetcherSession | None = None
        """The session of its fetches that name none."""
        self.software: CountedSoftware | None = None
        """Counts the library that its client has told."""

    def identified(self, caller: Caller) -> None:
        """The connection has logged in as this caller."""
        if self.software is not None:
            self.software.identified(caller)

    def close(self) -> None:
        if self.fetches is not None:
            self.fetches.close()
        if self.software is not None:
            self.software.close()


@dataclass(frozen=True, slots=True)
class Asked:
    """The circumstances of a request: its version, and who sent it by which listener and connection."""

    version: int
    caller: Caller
    client_id: str = ""
    connection: ConnectionMemory = field(default_factory=ConnectionMemory)


Plan = Generator[Ask, Any, Any]
MakePlan = Callable[[Asked, Any], Plan]
"""Made from the circumstances of a request and its body in Kafka's terms."""


def asks_nothing(answer: Any) -> Plan:
    """The plan of a request for which the node is asked nothing."""
    return answer
    yield
