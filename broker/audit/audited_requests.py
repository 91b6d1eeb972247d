"""Audits administrative requests: the caller, its host, the act and its outcome, for each API whose row says it is one.

    {"outcome":"done","principal":"User:admin","host":"10.0.0.7","port":50412,"listener":"BROKER","api":"CreateTopics",
     "request":{"topics":[{"name":"orders","partitions":3}]},"answer":{"topics":[{"name":"orders",…}]}}

The router shows each request before it is judged, so that both protocols are audited at one place, and a request tells
its end, also to a client that has left. Outcomes: `done`; `partly done` where parts of it failed; `checked` where it
was only to be judged, and `failed`, which are bounded; `unknown` where its time ran out, and it may have been done.
What was refused whole is the refusals' line (`broker/authorization/refusals.py`). A request that names nothing needs no
right, so anybody may send it: its line is bounded. A node that dies in an act leaves no line about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from broker.audit.audit_log import AuditKind, AuditLog
from broker.audit.shown import audit_view, cut
from broker.network.request_channel import Caller, Request
from penstock.errors import ApiError, AuthorizationFailedError, RequestTimedOutError, UnknownServerError
from penstock.messages.apis import APIS
from penstock.types import ListenerType

MAYBE_DONE: Final = (RequestTimedOutError, UnknownServerError)


class AuditedRequests:
    """The acts that clients of one node ask for."""

    def __init__(self, log: AuditLog, often: Collection[str] = ()) -> None:
        """`often`: APIs that programs call, some every second: one line for each group of a principal in a time."""
        self._log, self._often = log, often
        self._administrative = {api.name: api.administers for api in APIS.values() if api.administers is not None}

    def watch(self, request: Request) -> None:
        """Watches a request before it is judged: the right to it may make its body another one."""
        administers = self._administrative.get(request.api)
        if administers is not None and administers(request.body):
            request.audit = self._teller(request.body)

    def found(self, request: Request) -> None:
        """A request of programs turns out to be an act: it removes another one's member. Its line is never left out."""
        body = request.body
        request.audit = lambda request: self._tell(request, body, is_frequent=False)

    def _teller(self, body: object) -> Callable[[Request], None]:
        def tell(request: Request) -> None:
            self._tell(request, body)

        return tell

    def _tell(self, request: Request, body: object, is_frequent: bool = True) -> None:
        answer, failed = request.response, request.error
        errors, parts = ([failed], 1) if failed is not None else _parts_of(answer)
        names = Counter(error.kafka_name for error in errors)
        is_check = getattr(body, "validate_only", False)
        if errors and len(errors) >= parts:
            if all(isinstance(error, AuthorizationFailedError) for error in errors):
                return
            is_unknown = not is_check and any(isinstance(error, MAYBE_DONE) for error in errors)
            outcome = "unknown" if is_unknown else "failed"
        elif is_check:
            outcome = "checked"
        else:
            outcome = "partly done" if errors else "done"

        def facts() -> dict[str, object]:
            found = {**who(request), "request": audit_view(body)}
            if failed is None:
                found["answer"] = audit_view(answer)
            if errors:
                found["errors"] = dict(names)
            return found

        subject = request.caller.principal, request.api, outcome
        if outcome == "failed":
            self._log.bounded(AuditKind.FAILURE, outcome, (*subject, *names), facts)
        elif outcome == "checked":
            self._log.bounded(AuditKind.CHECKED, outcome, subject, facts)
        elif is_frequent and request.api in self._often:
            self._log.bounded(AuditKind.FREQUENT, outcome, (*subject, getattr(body, "group_id", "")), facts)
        elif _names_nothing(body):
            self._log.bounded(AuditKind.FREQUENT, outcome, subject, facts)
        else:
            self._log.done(outcome, facts())

    def __repr__(self) -> str:
        return f"AuditedRequests({len(self._administrative)} kinds, {self._log!r})"


def who(request: Request) -> dict[str, object]:
    """The beginning of a line: who asked for what, from where."""
    return {**from_where(request.caller, request.client_id, request.correlation_id), "api": request.api}


def from_where(caller: Caller, client_id: str = "", correlation_id: int | None = None) -> dict[str, object]:
    """Calls of gRPC have no number, and its port tells the connection."""
    found: dict[str, object] = {
        "principal": cut(caller.principal),
        "host": caller.peer.host,
        "port": caller.peer.port,
        "listener": caller.listener,
    }
    if client_id:
        found["client_id"] = cut(client_id)
    if caller.listener_type is ListenerType.KAFKA and correlation_id is not None:
        found["correlation_id"] = correlation_id
    return found


def _parts_of(answer: Any) -> tuple[list[ApiError], int]:
    """The errors of the answer's parts, and how many parts there are."""
    parts = list(_with_errors(answer))
    return [part.error for part in parts if part.error is not None], len(parts)


def _names_nothing(body: object) -> bool:
    """True of a request whose lists are all empty; an absent one (None) stands for everything that there is."""
    values = (getattr(body, name, None) for name in getattr(type(body), "__slots__", ()))
    lists = [value for value in values if isinstance(value, tuple)]
    return bool(lists) and not any(lists)


def _with_errors(answer: Any) -> Iterator[Any]:
    """The parts that can fail: records with an `error`, which are the answer or in one of its fields."""
    if hasattr(answer, "error"):
        yield answer
    for name in getattr(type(answer), "__slots__", ()):
        value = getattr(answer, name, None)
        if isinstance(value, tuple):
            yield from (one for one in value if hasattr(one, "error"))
