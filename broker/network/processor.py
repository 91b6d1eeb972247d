"""One connection's own part of the request path: requests in, responses out, in the order of the requests.

A processor keeps the open requests of its connection in order. Answers may become ready in any order; they leave in the
order in which the requests came. At most `pipelined_max` are open, and the door waits before it reads another: that
bounds a connection's memory and pushes back through the transport. (Kafka allows one; here the loop keeps appends in
order.) The transport itself belongs to the door.
"""

from __future__ import annotations

import asyncio
from collections import deque

from broker.network.client_names import ClientTraffic
from broker.network.memory_budget import Lease
from broker.network.request_channel import Request, RequestChannel
from penstock.types import CLIENT_LISTENER


class Processor:
    """Open requests of one connection. `submit` on the reading side, `next_response` on the writing side."""

    def __init__(
        self, channel: RequestChannel, client_address: str, pipelined_max: int, listener: str = CLIENT_LISTENER
    ) -> None:
        self.client_address = client_address
        self._listener = listener
        self.client: ClientTraffic | None = None
        """The counts of the stream's client, once a request has named it."""
        self._channel = channel
        self._pipelined_max = pipelined_max
        self._open: deque[Request] = deque()
        self._room = asyncio.Event()
        self._head_ready = asyncio.Event()
        self._room.set()
        self._input_ended = False
        channel.connections += 1

    async def wait_room(self) -> None:
        """Until fewer than `pipelined_max` requests are open: before that the next one is not read."""
        await self._room.wait()

    async def submit(
        self, api: str, body: object, context: object = None, lease: Lease | None = None, received_ns: int | None = None
    ) -> None:
        """Give a request to the handlers; waits while too many of this connection are open. `lease`: of the body.
        `received_ns`: when it came, if that was before now."""
        await self._room.wait()
        request = Request(api, body, self, self.client_address, self._channel.now_ns, context, self._listener)
        request.body_lease = lease
        if received_ns is not None:
            request.received_ns = received_ns
        self._open.append(request)
        if len(self._open) >= self._pipelined_max:
            self._room.clear()
        await self._channel.send(request)

    def response_ready(self, request: Request) -> None:
        self._channel.response_queue_size += 1
        if self._open and self._open[0].is_complete:
            self._head_ready.set()

    def input_ended(self) -> None:
        """The client will send no more; `next_response` ends after the last answer."""
        self._input_ended = True
        if not self._open:
            self._head_ready.set()

    async def next_response(self) -> Request | None:
        """The oldest request, once it is answered; None after the last one when the input has ended."""
        while not (self._open and self._open[0].is_complete):
            if self._input_ended and not self._open:
                return None
            self._head_ready.clear()
            await self._head_ready.wait()
        request = self._open.popleft()
        self._channel.response_queue_size -= 1
        self._room.set()
        if self._input_ended and not self._open:
            self._head_ready.set()
        return request

    def close(self) -> None:
        """The connection is gone; answers that come later go nowhere."""
        self._channel.connections -= 1
        self._channel.response_queue_size -= sum(request.is_complete for request in self._open)
        for request in self._open:
            request.abandoned()
        self._open.clear()
