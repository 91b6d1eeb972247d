"""The bounded queue between the listeners and the handlers, and the life of one request on its way through.

A listener turns what came over a connection into a `Request` and waits for room (`queued.max.requests`); a handler
takes it out, an API answers it at once or parks it in a purgatory, and `Request.complete` hands the answer to its
sink. Nothing here knows gRPC, an API, or a log. Source: Kafka's `RequestChannel` and its request metrics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from broker.load.busy_time import BusyTimes
from broker.load.long_work import LongWork
from broker.network.memory_budget import Lease
from broker.network.request_ports import AnswerParts, AnswerRoom, TopicRights
from penstock.base_error import without_frames
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.api import Outcome
from penstock.messages.security.acls import ANONYMOUS_USER, USER_TYPE
from penstock.types import CLIENT_LISTENER, Endpoint, ListenerType

T = TypeVar("T")

SMALL_BYTES = 64 * 1024
"""A request up to this size is small: it is HTTP/2's window, which a stream that is not read may fill anyway."""
UNANSWERED_MS = 1_000
"""How long a large request counts after it was handled. Not until its answer: a partition whose followers are slow
would hold up the producers of all others."""


class ResponseSink(Protocol):
    """Takes an answer: a connection's processor, the plan of a request by Kafka's protocol, a gRPC call, or a call
    within this node (broker_calls.py)."""

    def response_ready(self, request: Request) -> None:
        """The request has its response; called once, on the loop."""
        ...

    def part_ready(self, request: Request) -> None:
        """A part of the response is known. From the first one on, answers to later requests need not wait for it."""
        ...


ANONYMOUS = f"{USER_TYPE}:{ANONYMOUS_USER}"
"""The principal of a client that has not identified itself, in Kafka's words."""


class Caller(NamedTuple):
    """The caller: the far end of a connection, and the listener that it came by."""

    peer: Endpoint
    listener: str = CLIENT_LISTENER
    """Its client is told of the brokers' endpoints at the listeners of that name."""
    principal: str = ANONYMOUS
    listener_type: ListenerType = ListenerType.GRPC
    node_id: int | None = None
    """The node of this cluster whose certificate the connection has; only listeners between nodes tell it."""


class Request:
    """The envelope of one request: its body, its answer, and when it passed each station (ns, monotonic)."""

    __slots__ = (
        "_now_ns",
        "amend",
        "api",
        "audit",
        "behind",
        "body",
        "body_lease",
        "caller",
        "client_id",
        "completed_ns",
        "correlation_id",
        "dequeued_ns",
        "error",
        "failures",
        "handled_ns",
        "is_abandoned",
        "is_large",
        "is_strict",
        "keeps_body",
        "number",
        "parts",
        "prepared",
        "received_ns",
        "response",
        "response_lease",
        "rights",
        "session",
        "sink",
        "throttle_ms",
        "turns",
        "waiting",
    )

    def __init__(
        self,
        api: str,
        body: object,
        sink: ResponseSink,
        caller: Caller,
        now_ns: Callable[[], int],
        session: object = None,
        correlation_id: int = 0,
        client_id: str = "",
    ) -> None:
        self.api, self.body, self.sink, self.caller = api, body, sink, caller
        self.correlation_id = correlation_id
        """The client's own number for it, which its answer brings back."""
        self.client_id = client_id
        self.session = session
        """The state of its connection's fetches, if there is any."""
        self.prepared: object = None
        """The data that its API found before the request queued."""
        self.rights: TopicRights | None = None
        self.amend: Callable[[Any], Any] | None = None
        """Puts the errors of refused parts into the answer, and leaves out what the caller may not see. Raises the
        error of an answer that the caller may not have any more."""
        self.audit: Callable[[Request], None] | None = None
        self.body_lease: Lease | None = None
        self.keeps_body = False
        """Its body is needed after its answer: while its connection lives, the plan that asked gives the lease back."""
        self.response: object = None
        self.response_lease: Lease | None = None
        self.turns: AnswerRoom | None = None
        """Where it waits for room for its answer before it is worked on; None: it does not."""
        self.behind: Request | None = None
        """The request of the same connection that this one must not overtake; then this one waits only while that
        does."""
        self.error: ApiError | None = None
        self.failures: tuple[ApiError, ...] = ()
        """Every error in the answer: of the request as a whole, or one for each of its parts that failed."""
        self.is_abandoned = False
        """The connection ended before the answer: the client has given the request up, or is gone."""
        self.is_large = False
        """It has many elements: its work on the event loop is long work (load/long_work.py)."""
        self.parts: AnswerParts | None = None
        """Once a part of the answer was ready before the whole."""
        self.number = self.throttle_ms = 0
        """Its place among the requests of its connection, and how long that is not read for its client's quota."""
        self.is_strict = False
        """A change above its client's quota is refused, and its client knows the error (KIP-599)."""
        self._now_ns, self.received_ns = now_ns, now_ns()
        self.dequeued_ns = self.handled_ns = self.completed_ns = 0
        self.waiting: Counter[str] | None = None
        """The counter of handled requests that wait for their answers, while this is one of them."""

    @property
    def is_complete(self) -> bool:
        return self.completed_ns != 0

    def complete(self, response: object, outcomes: Iterable[Outcome] = ()) -> None:
        """Answer with `response`; a second answer is ignored, because a time-out may have been first. `outcomes` are
        the results of its parts, for the metrics."""
        if self.completed_ns == 0:
            if self.error is None:
                self.count_failures(outcomes)
                if self.amend is not None:
                    response = self._amended(self.amend, response)
            self.response = response
            self.parts = None
            self.completed_ns = self._now_ns()
            if self.audit is not None:
                self.audit(self)
            self._waits_no_more()
            if self.body_lease is not None and (self.is_abandoned or not self.keeps_body):
                self.body_lease.release()
            self.sink.response_ready(self)

    def _amended(self, amend: Callable[[Any], Any], response: object) -> object:
        try:
            return amend(response)
        except ApiError as error:
            self.error, self.failures = without_frames(error), (error,)
            return None

    def answer_in_parts(self, parts: AnswerParts) -> None:
        """A part of the answer is known, perhaps an empty one, and the whole is not: it waits for something slow."""
        self.parts = parts
        self.sink.part_ready(self)

    def take_answer(self) -> object:
        """The answer to write: the response, or else a part of it."""
        return self.response if self.is_complete or self.parts is None else self.parts.take()

    def count_failures(self, outcomes: Iterable[Outcome]) -> None:
        """Counts the errors of results that are sent, for the metrics."""
        self.failures += tuple(outcome.error for outcome in outcomes if outcome.error is not None)

    def fail(self, error: ApiError) -> None:
        """Answer with an error of the request as a whole."""
        if self.completed_ns == 0:
            self.error, self.failures = without_frames(error), (error,)
            self.complete(None)

    def encoded(self, encode: Callable[[Any], T]) -> T:
        """Encodes the answer to write, while each error in it names its leader's endpoint at the listener of this
        request. Afterwards the errors are as before: one error may be in the answers of several requests."""
        answer = self.take_answer()  # BEFORE its errors are looked at: a part brings its own
        hints = [(error, error.leader) for error in self.failures if error.leader is not None]
        try:
            for error, hint in hints:
                error.leader = hint.at(self.caller.listener)
            return encode(answer)
        finally:
            for error, hint in hints:
                error.leader = hint

    def waits_among(self, waiting: Counter[str]) -> None:
        """Counts a request that was handled and is not answered yet, by its API, until it is answered."""
        self.waiting = waiting
        waiting[self.api] += 1

    def _waits_no_more(self) -> None:
        if self.waiting is not None:
            self.waiting[self.api] -= 1
            self.waiting = None

    def abandoned(self) -> None:
        """The connection is gone: the answer is dropped."""
        self.sink, self.is_abandoned = _NOWHERE, True
        self._waits_no_more()
        self.dropped()

    def handled(self) -> None:
        """A handler is done with the body. A large one still counts until it is answered, for a limited time. Otherwise
        appended, unflushed bytes would grow without limit, and all flushes would wait for the disk behind them."""
        lease = self.body_lease
        if lease is None or self.is_complete:
            return
        if lease.size <= SMALL_BYTES:
            lease.release()
        else:
            asyncio.get_running_loop().call_later(UNANSWERED_MS / 1000, lease.release)

    def dropped(self) -> None:
        """The answer was written, or its connection is gone."""
        if self.response_lease is not None:
            self.response_lease.release()

    def __repr__(self) -> str:
        return f"Request({self.api} from {self.caller.peer}, {'complete' if self.is_complete else 'open'})"


class _Nowhere:
    def response_ready(self, request: Request) -> None:
        """The connection is gone."""
        request.dropped()

    def part_ready(self, request: Request) -> None:
        """The connection is gone."""


_NOWHERE = _Nowhere()


@dataclass(frozen=True, slots=True)
class RequestChannelStatistics:
    """A snapshot of the channel."""

    request_queue_size: int
    response_queue_size: int
    connections: int
    waiting: Mapping[str, int]
    """Requests that were handled and wait for their answers, by API."""


class RequestChannel:
    """One per node, shared by every listener and every handler."""

    def __init__(
        self,
        queued_requests_max: int,
        busy: BusyTimes,
        now_ns: Callable[[], int],
        on_sent: Callable[[Request, int], None] = lambda request, sent_ns: None,
    ) -> None:
        """`now_ns` is monotonic; `on_sent` gets each request whose answer has left the node, and the time."""
        self.now_ns = now_ns
        self._queue: asyncio.Queue[Request] = asyncio.Queue(queued_requests_max)
        self.busy = busy
        self.long_work = LongWork(now_ns)
        self.response_queue_size = 0
        self.connections = 0
        self._on_sent = on_sent
        self._waiting: Counter[str] = Counter()

    async def send(self, request: Request) -> None:
        """Queue a request; waits while the queue is full, which is how overload reaches the connection."""
        if self._queue.full():
            await self._queue.put(request)
        else:
            self._queue.put_nowait(request)  # as `put` does, without a coroutine of its own

    async def receive(self) -> Request:
        """The next request, for a handler."""
        return await self._queue.get()

    def request_handled(self, request: Request) -> None:
        """A handler is done with it: it is answered, or waits in a purgatory."""
        if not request.is_complete and not request.is_abandoned:
            request.waits_among(self._waiting)
        request.handled()

    def worked_on(self, request: Request) -> Request:
        return request

    def answer_encoded(self, request: Request) -> None:
        request.body = request.response = None

    def request_sent(self, request: Request) -> None:
        """The answer left the node: the request is over."""
        self._on_sent(request, self.now_ns())

    def statistics(self) -> RequestChannelStatistics:
        return RequestChannelStatistics(
            self._queue.qsize(), self.response_queue_size, self.connections, dict(self._waiting)
        )

    def __repr__(self) -> str:
        return f"RequestChannel({self._queue.qsize()}/{self._queue.maxsize} queued, {self.connections} connections)"
