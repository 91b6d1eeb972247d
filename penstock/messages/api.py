"""One row of the table of APIs: everything that listeners, clients, handlers, limits, metrics and pages know of an API.

Not here: the rows (apis.py), and the handling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.security.acls import Operation as Operation

Q = TypeVar("Q")
A = TypeVar("A")
KIB: Final = 1024
MIB: Final = 1024 * KIB


class ApiKind(Enum):
    """The way of an API's requests through a cluster."""

    STREAM = "requests of one stream, answered by the broker that is asked"
    LOCAL = "answered by the broker that is asked"
    FORWARDED = "forwarded by the broker that is asked to the active controller, which decides"
    ASKED = "answered by the active controller, or by the broker that is asked when no controller answers in time"
    CONTROLLER = "asked of the active controller by brokers"
    BROKERS = "asked of a broker by other brokers, at their own listener"
    QUORUM = "between the nodes of the quorum; the messages are raft's"

    @property
    def service(self) -> str:
        """The gRPC service that takes its requests first."""
        return {
            ApiKind.CONTROLLER: "Controller",
            ApiKind.QUORUM: "Quorum",
            ApiKind.BROKERS: "Replication",
        }.get(self, "Broker")

    @property
    def at_broker(self) -> bool:
        """The listeners for clients take its requests."""
        return self in (ApiKind.STREAM, ApiKind.LOCAL, ApiKind.FORWARDED, ApiKind.ASKED)

    @property
    def at_controller(self) -> bool:
        """The active controller takes its requests at the controller listener."""
        return self in (ApiKind.FORWARDED, ApiKind.ASKED, ApiKind.CONTROLLER)


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """The size that one request may have. `elements` maps the path of a repeated field (`topics.config`) to its limit;
    a nested field is counted over the whole request. A `message_bytes` of None means `socket.request.max.bytes`."""

    message_bytes: int | None
    elements: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""


SMALL: Final = ApiLimits(4 * KIB)


ADMINISTRATIVE: Final = frozenset((Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS))
"""The operations that change what there is. An API that needs one of them is administrative, and audited."""


class Outcome(Protocol):
    """The result of one part of a request: a partition, a topic, a resource."""

    @property
    def error(self) -> ApiError | None: ...


def no_outcomes(response: Any) -> Iterable[Outcome]:
    """An answer without parts that can fail one by one."""
    return ()


def by_anybody(request: Any) -> bool:
    return True


def as_answered(response: Any) -> Any:
    """A repetition's answer is read as a first one's."""
    return response


@dataclass(frozen=True, slots=True, eq=False)
class Api(Generic[Q, A]):
    """One API. Its protobuf messages are `penstock.v1.{name}Request` and `…Response`."""

    name: str
    request: type[Q]
    response: type[A]
    kind: ApiKind
    limits: ApiLimits
    operation: Operation
    outcomes: Callable[[A], Iterable[Outcome]] = no_outcomes
    """The results of an answer's parts: their errors are counted."""
    of_repetition: Callable[[A], A] = as_answered
    """The answer to a request that is sent again because its first answer was lost, as the answer to both."""
    tells_offset: bool = False
    """The controller's driver writes into the answer at which metadata offset the change was committed."""
    may_wait: bool = False
    """A handled request of a `kind` that is answered here may wait: for acks, records, a disk or the controller."""
    replica_id: Callable[[Q], int] | None = None
    """The replica on whose behalf it is asked. Only brokers ask for one, at their own listener."""
    sender: Callable[[Q], int] | None = None
    """The node that a request between nodes says it is from, if it is not the replica."""
    no_sender: str = ""
    """Why a request between nodes does not say which node it is from, if it does not."""
    before_authentication: bool = False
    """A caller may use it before it has authenticated, at every listener for clients: it is how a caller
    authenticates."""
    is_for_brokers: bool = False
    """Brokers ask each other for what clients ask, too, at their own listener."""
    changes_partitions: bool = False
    """It makes or deletes partitions, of which a client may have a quota (`controller_mutation_rate`, KIP-599)."""
    of_administrators: Callable[[Q], bool] | None = None
    """Tells the requests of administrators from those of programs, where both ask for it."""

    @property
    def administers(self) -> Callable[[Q], bool] | None:
        """True of a request that is an administrative act; None if none is."""
        if self.of_administrators is not None or not self.kind.at_broker:
            return self.of_administrators
        return by_anybody if self.operation in ADMINISTRATIVE else None

    def answer_to_both(self, request: Q, answer: A) -> A:
        """The answer to a repeated request, read for the lost attempts before it too. A request that only validates has
        done nothing."""
        return answer if getattr(request, "validate_only", False) else self.of_repetition(answer)

    def sender_of(self, request: Q) -> int | None:
        """The node that a request between nodes says it is from; None if it does not say."""
        sender = self.sender or self.replica_id
        return None if sender is None else sender(request)

    @property
    def waits(self) -> bool:
        """A broker may have handled a request of it that is not answered yet."""
        return self.may_wait or self.kind in (ApiKind.STREAM, ApiKind.FORWARDED, ApiKind.ASKED)

    @property
    def is_between_brokers(self) -> bool:
        """A broker takes requests of other brokers."""
        return self.is_for_brokers or self.kind is ApiKind.BROKERS

    @property
    def method(self) -> str:
        """The API's path in gRPC, where it is asked first: at a broker's listeners, at a controller's, or in the
        quorum."""
        return f"/penstock.v1.{self.kind.service}/{self.name}"

    @property
    def controller_method(self) -> str:
        """The API's path in gRPC at the controller listener."""
        return f"/penstock.v1.Controller/{self.name}"

    def __repr__(self) -> str:
        return f"Api({self.name})"
