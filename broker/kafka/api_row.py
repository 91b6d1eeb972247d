"""One row of the table of APIs (api_rows.py), and the answer to a request that failed as a whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from broker.kafka.errors import code_of, message_of
from broker.kafka.plan import Asked, ConnectionEnds, MakePlan
from broker.kafka_codec.structs import facts_of
from penstock.errors import ApiError

PRODUCE_KEY: Final = 0
BYTES_MAX: Final = 8 << 20
"""The largest request without records. Its texts may take four times their bytes in memory."""
ELEMENTS_MAX: Final = 20_000
"""The partitions of the largest topic twice."""
Failed = Callable[[Asked, Any, ApiError], Any]


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
    prepare: Callable[[Asked, Any], Awaitable[Any]] | None = None
    """Makes the body that the plan gets of the one that came. The connection waits for it, and reads nothing."""
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
