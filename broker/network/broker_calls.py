"""Calls of a part of this node to any broker: another one over the network, this one by its own handlers.

A call to this broker is handled at once, within the call: it does not queue behind the requests of clients. Not here:
the ways to other nodes (transport.py), and what is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from broker.network.failed_requests import FailRequest
from broker.network.request_channel import Caller, Request
from penstock.errors import InvalidRequestError, RequestTimedOutError
from penstock.messages.apis import BY_REQUEST
from penstock.types import Endpoint

CallBroker = Callable[[int, Any, int], Awaitable[Any]]
"""One call of a broker: its id, the request, and the time limit in ms. Its answer, or an ApiError."""
THIS_BROKER: Final = Caller(Endpoint("localhost", 0))


class BrokerCalls:
    """Calls any broker. There is one per broker, on the event loop."""

    def __init__(
        self,
        broker_id: int,
        others: CallBroker,
        handle: Callable[[Request], None],
        fail: FailRequest,
        now_ns: Callable[[], int],
    ) -> None:
        """`handle` gives a request to its API on this broker, `fail` answers one that it fails to handle."""
        self._broker_id, self._others, self._now_ns = broker_id, others, now_ns
        self._handle, self._fail = handle, fail

    async def __call__(self, broker_id: int, body: Any, timeout_ms: int) -> Any:
        """The answer of that broker, or its typed error; ApiError without one."""
        if broker_id != self._broker_id:
            return await self._others(broker_id, body, timeout_ms)
        api = BY_REQUEST.get(type(body))
        if api is None or not api.is_between_brokers:
            raise InvalidRequestError(f"no call of brokers for {type(body).__name__}")
        sink = _OneAnswer()
        request = Request(api.name, body, sink, THIS_BROKER, self._now_ns)
        try:
            self._handle(request)
        except Exception as error:
            self._fail(request, error)
        try:
            await asyncio.wait_for(sink.answered.wait(), timeout_ms / 1000)
        except TimeoutError:
            request.abandoned()
            raise RequestTimedOutError(f"this broker has not answered {api.name} within {timeout_ms} ms") from None
        except asyncio.CancelledError:
            request.abandoned()
            raise
        if request.error is not None:
            raise request.error
        return request.response

    def __repr__(self) -> str:
        return f"BrokerCalls(of broker {self._broker_id})"


class _OneAnswer:
    """The sink of one request (`ResponseSink`)."""

    def __init__(self) -> None:
        self.answered = asyncio.Event()

    def response_ready(self, request: Request) -> None:
        self.answered.set()

    def part_ready(self, request: Request) -> None:
        """The whole answer follows."""
