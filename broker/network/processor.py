"""One connection's own part of the request path: requests in, responses out, in the order of the requests.

Answers may become ready in any order; they leave in the order in which the requests came. A request whose answer comes
in parts steps aside with its first part, and holds up no later answer from then on. What is ready then leaves in the
order of the requests: so of two answers about one partition the one to the earlier request leaves first.

At most `pipelined_max` requests are open, and the listener waits before it reads another: that bounds a connection's
memory and pushes back through the transport. (Kafka allows one; here the loop keeps appends in order.) Requests that
stepped aside do not count, or a few that wait for a disk that hangs would stop all others; their open results together
are limited by ASIDE_RESULTS_MAX. The transport itself belongs to the listener.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol

from broker.network.memory_budget import Lease
from broker.network.request_channel import Caller, Request, RequestChannel

ASIDE_RESULTS_MAX = 20_000
"""Some 10 MiB. A producer has five batches of a partition on their way: this is 4,000 partitions that all stand still.
With more the connection waits, as it does for `pipelined_max`."""


class Way(Protocol):
    """The way of a connection's requests through the node: the request channel, or what asks the channel for them."""

    async def send(self, request: Request) -> None:
        """Take a request; returns when the next one may be read."""
        ...

    def worked_on(self, request: Request) -> Request:
        """The request that the handlers had for it, the last one if they were several."""
        ...

    def answer_encoded(self, request: Request) -> None:
        """The bytes of its answer are all that is needed of it: the answer may take long to leave."""
        ...

    def request_sent(self, request: Request) -> None:
        """The answer to the request has left the node."""
        ...


class IncomingRequest(Protocol):
    """A request, as a connection has read it."""

    @property
    def api(self) -> str: ...

    @property
    def correlation_id(self) -> int: ...

    @property
    def client_id(self) -> str: ...

    @property
    def body(self) -> Any: ...

    @property
    def is_large(self) -> bool: ...


class Processor:
    """Open requests of one connection. `submit` on the reading side, `next_response` on the writing side."""

    def __init__(
        self,
        channel: RequestChannel,
        caller: Caller,
        pipelined_max: int,
        way: Way | None = None,
        on_ready: Callable[[Request], None] = lambda request: None,
    ) -> None:
        """`way`: where requests go, if it is not straight into the channel. `on_ready` is called with each complete
        request whose turn to be written has come, or will when those before it are written."""
        self._on_ready = on_ready
        self.caller = caller
        self._channel: RequestChannel = channel
        self._way: Way = channel if way is None else way
        self._pipelined_max = pipelined_max
        self._submitted = self._in_order = 0
        self._open: deque[Request] = deque()
        """The requests that are neither aside nor ready, in their order."""
        self._aside: dict[Request, int] = {}
        """The requests that have stepped aside, with their results that were open then."""
        self._aside_results = 0
        self._ready: list[tuple[int, Request]] = []
        """A heap of what there is to write, by the requests' numbers."""
        self._is_ready: set[Request] = set()
        self._room = asyncio.Event()
        self._to_write = asyncio.Event()
        self._room.set()
        self._input_ended = False
        channel.connections += 1

    async def wait_room(self) -> None:
        """Returns when another request may be open: before that the next one is not read."""
        await self._room.wait()

    def request(
        self,
        incoming: IncomingRequest,
        session: object = None,
        lease: Lease | None = None,
        received_ns: int | None = None,
    ) -> Request:
        """A request of this connection; `submit` gives it to the handlers. `lease`: of the body. `received_ns`: when it
        came, if that was before now."""
        number, name, now_ns = incoming.correlation_id, incoming.client_id, self._channel.now_ns
        request = Request(incoming.api, incoming.body, self, self.caller, now_ns, session, number, name)
        request.body_lease, request.is_large = lease, incoming.is_large
        if received_ns is not None:
            request.received_ns = received_ns
        return request

    async def submit(self, request: Request) -> None:
        """Waits while too many of this connection are open."""
        if not self._room.is_set():
            await self._room.wait()
        self._submitted += 1
        self._in_order += 1
        request.number = self._submitted
        self._open.append(request)
        self._check_room()
        await self._way.send(request)

    def response_ready(self, request: Request) -> None:
        self._channel.response_queue_size += 1
        if request in self._aside:
            self._write_soon(request)
        else:
            self._move_heads()

    def part_ready(self, request: Request) -> None:
        if request not in self._aside:
            self._open.remove(request)
            self._aside[request] = open_results = request.parts.open if request.parts is not None else 0
            self._aside_results += open_results
            self._in_order -= 1
            self._check_room()
            self._move_heads()
        self._write_soon(request)

    def _move_heads(self) -> None:
        while self._open and self._open[0].is_complete:
            self._write_soon(self._open.popleft())

    def _write_soon(self, request: Request) -> None:
        if request not in self._is_ready:
            self._is_ready.add(request)
            heappush(self._ready, (request.number, request))
            self._to_write.set()
            if request.is_complete:
                self._on_ready(request)

    def _check_room(self) -> None:
        if self._in_order < self._pipelined_max and self._aside_results < ASIDE_RESULTS_MAX:
            self._room.set()
        else:
            self._room.clear()

    @property
    def is_idle(self) -> bool:
        """True if no request is open, and no answer is to be written."""
        return not (self._in_order or self._aside)

    def input_ended(self) -> None:
        """The client will send no more; `next_response` ends after the last answer."""
        self._input_ended = True
        self._to_write.set()

    async def next_response(self) -> Request | None:
        """The oldest request with an answer, or a part of it, to write; None after the last one when the input has
        ended. If it is complete now, the whole answer is taken; otherwise it comes again."""
        while not self._ready:
            if self._input_ended and not (self._open or self._aside):
                return None
            self._to_write.clear()
            await self._to_write.wait()
        _, request = heappop(self._ready)
        self._is_ready.discard(request)
        if request.is_complete:
            self._channel.response_queue_size -= 1
            if request in self._aside:
                self._aside_results -= self._aside.pop(request)
            else:
                self._in_order -= 1
            self._check_room()
        return request

    def close(self) -> None:
        """The connection is gone; answers that come later go nowhere."""
        self._channel.connections -= 1
        for request in sorted({*self._open, *self._aside, *self._is_ready}, key=lambda request: request.number):
            self._channel.response_queue_size -= request.is_complete
            request.abandoned()
        for held in (self._open, self._aside, self._ready, self._is_ready):
            held.clear()
