"""One row of the table of APIs (api_rows.py), and the answer to a request that failed as a whole.

Each file of plans exports its rows as SERVED, without a node. `serves` has the facts of a row, and `ServedRow.over`
makes its plan for one node. Key and name of an API come from its schema.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Asked, ConnectionEnds, MakePlan, Plan
from broker.kafka_codec.structs import facts_of
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass

PRODUCE_KEY: Final = 0
BYTES_MAX: Final = 8 << 20
"""The largest request without records. Its texts may take four times their bytes in memory."""
ELEMENTS_MAX: Final = 20_000
"""The partitions of the largest topic twice, and twice what the controller decides about at once: the error that it
gives for more tells the remedy."""
RECORD_ELEMENTS_MAX: Final = 30_000
"""Topics and partitions of one request of producers. A request of 1 MiB, which is the Java producer's largest, holds
14,000 of the smallest batches. An append takes 20 µs, and the next request has its turn after all of them."""
REPLICA_ELEMENTS_MAX: Final = 50_000
"""Elements of a request that names every replica of up to 10,000 partitions, each with four; or of a member of a group
that names its topics, and every partition that it holds."""
Failed = Callable[[Asked, Any, ApiError], Any]
PrepareBody = Callable[[Asked, Any], Awaitable[Any]]


def never_pipelined(body: Any) -> bool:
    return False


def always_pipelined(body: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ApiRow:
    """One API. Versions are ranges, both ends included."""

    key: int
    name: str
    """Kafka's."""
    request: type[Any]
    response: type[Any]
    versions: tuple[int, int]
    """Versions that are served."""
    plan: MakePlan
    advertised: tuple[int, int] | None = None
    """Versions that ApiVersions tells; None: those that are served."""
    failed: Failed | None = None
    """The answer of a request that failed as a whole, with the error in each place where its client looks for it;
    None: in the `error_code` of the response itself. An API without such a place ends the connection."""
    prepare: PrepareBody | None = None
    """Makes the body that the plan gets of the one that came: SaslAuthenticate checks a login there. The connection
    waits for it, and reads nothing."""
    other_versions: MakePlan | None = None
    """The plan of a version that is not served, without a body. Its answer is written in version 0."""
    elements_max: int = ELEMENTS_MAX
    """The most elements that the arrays of a request may have together. A plan works some 10 µs for each in one
    turn."""
    bytes_max: int | None = BYTES_MAX
    """The largest request; None: `socket.request.max.bytes`."""
    is_paced: bool = True
    """Large requests hold their room for elements for a while (element_room.py); not those for records."""
    is_pipelined: Callable[[Any], bool] = never_pipelined
    """True of a body if the connection's next request is read while this one is worked on. Otherwise it is read, as in
    Kafka, only when this one is answered: the answer may be large, and its client may not read."""

    def serves(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]


@dataclass(frozen=True, slots=True)
class ServedRow:
    """A row before there is a node."""

    row: ApiRow
    plan_of: Callable[[PlanParts], MakePlan]

    def over(self, parts: PlanParts) -> ApiRow:
        return replace(self.row, plan=self.plan_of(parts))


def serves(
    request: type[Any],
    response: type[Any],
    versions: tuple[int, int],
    plan_of: Callable[[PlanParts], MakePlan],
    *,
    failed: Failed | None = None,
    elements_max: int = ELEMENTS_MAX,
    bytes_max: int | None = BYTES_MAX,
    is_paced: bool = True,
    is_pipelined: Callable[[Any], bool] = never_pipelined,
    advertised: tuple[int, int] | None = None,
    prepare: PrepareBody | None = None,
    other_versions: MakePlan | None = None,
) -> ServedRow:
    """The row of an API whose plans `plan_of` makes for a node; see ApiRow."""
    key = facts_of(request).key
    if key is None or facts_of(response).key != key:
        raise ValueError(f"{request.__name__} and {response.__name__} are not of one API")
    row = ApiRow(
        key,
        request.__name__.removesuffix("Request"),
        request,
        response,
        versions,
        _no_node,
        advertised=advertised,
        failed=failed,
        prepare=prepare,
        other_versions=other_versions,
        elements_max=elements_max,
        bytes_max=bytes_max,
        is_paced=is_paced,
        is_pipelined=is_pipelined,
    )
    return ServedRow(row, plan_of)


def _no_node(asked: Asked, body: Any) -> Plan:
    raise TypeError("this row has no node; it is made over one")


def over(plan: Callable[[PlanParts, Asked, Any], Plan]) -> Callable[[PlanParts], MakePlan]:
    """A plan that looks at the parts of its node."""
    return lambda parts: partial(plan, parts)


def alone(plan: MakePlan) -> Callable[[PlanParts], MakePlan]:
    """A plan that looks at nothing but its request."""
    return lambda parts: plan


def failed_answer(row: ApiRow, asked: Asked, body: Any, error: ApiError) -> Any:
    """The answer of a request that failed as a whole."""
    if row.failed is not None:
        return row.failed(asked, body, error)
    fields = dict(facts_of(row.response).fields)
    if "error_code" not in fields or asked.version not in fields["error_code"].versions:
        raise ConnectionEnds(f"{row.name} failed, and its answer has no place for that: {error.message}")
    answer = row.response(error_code=code_of(error, row.name, asked.version))
    if "error_message" in fields and asked.version in fields["error_message"].versions:
        answer.error_message = message_of(error)
    return answer
