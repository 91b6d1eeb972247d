"""The dispatcher: one task that takes requests from the channel, in their order, and gives each to its API.

An API never waits. A request that must wait is parked in a purgatory (produce, fetch), goes on in a task (if it is
forwarded), or in an I/O thread (io_threads.py, if it needs a disk). So a slow partition, a slow disk or an absent
controller holds up no other request. One for whose answer its party has no room is put aside before
(answer_turns.py). One dispatcher is enough: the event loop runs one handler at a time anyway. After TURN_MS of requests
the loop has its turn with all else: other nodes, acks, connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from broker.load.long_work import PIECE_NS
from broker.network.failed_requests import FailRequest
from broker.network.parties import party_of
from broker.network.request_channel import Request, RequestChannel
from penstock.types import ListenerType

TURN_MS: Final = 5
"""A queue that is not empty is taken from without a turn for the loop."""
OF_RECORDS: Final = frozenset({"Produce", "FetchConsumer"})
"""The APIs whose handlers' work is no long work: their quotas are those of bytes."""


class RequestProbe(Protocol):
    """Hears of each request of a client. It must not raise. In production nobody listens."""

    def handling(self, request: Request) -> None:
        """Its turn has come, and nothing was done about it yet."""
        return

    def handled(self, request: Request) -> None:
        """Its API has returned, or failed. Its answer may come later."""
        return


class UnheardRequest(RequestProbe):
    """Nobody listens."""


UNHEARD_REQUEST = UnheardRequest()


class Dispatcher:
    """Runs `handle(request)` for every request; an exception is given to `fail`, and the next request has its turn."""

    def __init__(
        self,
        channel: RequestChannel,
        handle: Callable[[Request], None],
        fail: FailRequest,
        probe: RequestProbe = UNHEARD_REQUEST,
        nodes_listener: str = "",
    ) -> None:
        """`nodes_listener`: that between nodes, whose work is charged to nobody."""
        self._nodes_listener = nodes_listener
        self._fail, self._probe = fail, probe
        self._channel = channel
        self._handle = handle
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="dispatcher")

    async def stop(self) -> None:
        """Requests that are still queued get no answer: their connections end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        now_ns, turn_ns = self._channel.now_ns, 0
        while True:
            request = await self._channel.receive()
            if request.turns is not None and request.turns.puts_aside(request, self._begin):
                request.dequeued_ns = now_ns()  # it has left the queue, and has its turn later
            else:
                self._begin(request)
                turn_ns += request.handled_ns - request.dequeued_ns
            del request  # the next one may come late
            if turn_ns > TURN_MS * 1_000_000:
                turn_ns = 0
                await asyncio.sleep(0)

    def _begin(self, request: Request) -> None:
        request.dequeued_ns = self._channel.now_ns()
        if not request.is_large:
            self._channel.long_work.asked(request.dequeued_ns)
        self._probe.handling(request)
        try:
            self._handle(request)
        except Exception as error:
            self._fail(request, error)
        self._probe.handled(request)
        self._channel.request_handled(request)
        request.handled_ns = self._channel.now_ns()
        self._channel.busy.handlers.add_busy(request.dequeued_ns, request.handled_ns)
        spent_ns = request.handled_ns - request.dequeued_ns
        if spent_ns >= PIECE_NS and request.api not in OF_RECORDS and self._is_owed(request):
            self._channel.long_work.charge(party_of(request.caller), spent_ns)

    def _is_owed(self, request: Request) -> bool:
        """True of work that counts as long. Both protocols say which requests have many elements; a call of gRPC with
        few is as large as it took. Work for other nodes is never owed."""
        caller = request.caller
        is_call = caller.listener_type is ListenerType.GRPC and caller.listener != self._nodes_listener
        return request.is_large or is_call

    def __repr__(self) -> str:
        return f"Dispatcher({self._channel!r})"
