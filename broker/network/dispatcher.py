"""The dispatcher: one task that takes requests from the channel, in their order, and gives each to its API.

An API never waits. A request that must wait is parked in a purgatory (produce, fetch), goes on in a task (if it is
forwarded), or in an I/O thread (io_threads.py, if it needs a disk). So a slow partition, a slow disk or an absent
controller holds up no other request. One for whose answer its party has no room is put aside before
(answer_turns.py), and so is a read of which the last one of its party took long (load/long_reads.py): it has its turn
among the long work. One dispatcher is enough: the event loop runs one handler at a time anyway. After TURN_MS of
requests the loop has its turn with all else: other nodes, acks, connections.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from broker.load.long_reads import LongReads, may_take_long
from broker.load.long_work import CREDIT_NS, PIECE_NS
from broker.network.failed_requests import FailRequest
from broker.network.parties import party_of
from broker.network.request_channel import Request, RequestChannel

TURN_MS: Final = 5
"""A queue that is not empty is taken from without a turn for the loop."""
OF_RECORDS: Final = frozenset({"Produce", "FetchConsumer"})
"""The APIs whose handlers' work is no long work: their quotas are those of bytes."""


class RequestProbe(Protocol):
    """Hears of each request of a client. It must not raise. In production nobody listens."""

    def handling(self, request: Request) -> None:
        """The request's turn has come, and nothing was done about it yet."""
        return

    def handled(self, request: Request) -> None:
        """The request's API has returned, or failed. The answer may come later."""
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
        self._long_reads = LongReads()
        self._task: asyncio.Task[None] | None = None
        self._lines: dict[tuple[str, str], deque[Request]] = {}
        """The requests that wait for a turn, by API and party."""
        self._waiting: set[asyncio.Task[None]] = set()
        """Each waits for the turns of a line."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="dispatcher")

    async def stop(self) -> None:
        """Requests that are still queued get no answer: their connections end."""
        if self._task is not None:
            tasks = (self._task, *self._waiting)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        now_ns, turn_ns = self._channel.now_ns, 0
        while True:
            request = await self._channel.receive()
            if request.turns is not None and request.turns.puts_aside(request, self._begin_now):
                request.dequeued_ns = now_ns()  # it has left the queue, and has its turn later
            else:
                self._begin(request)
                turn_ns += max(request.handled_ns - request.dequeued_ns, 0)  # it may have its turn later, too
            del request  # the next one may come late
            if turn_ns > TURN_MS * 1_000_000:
                turn_ns = 0
                await asyncio.sleep(0)

    def _begin(self, request: Request) -> None:
        """Begins it at once, or in a turn among the long work. One that was put aside has waited already."""
        if not self._is_long_read(request):
            self._begin_now(request)
            return
        request.dequeued_ns, key = self._channel.now_ns(), (request.api, party_of(request.caller))
        line = self._lines.get(key)
        if line is not None:
            line.append(request)
            return
        self._lines[key] = deque([request])
        task = asyncio.get_running_loop().create_task(self._in_turns(key))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    def _begin_now(self, request: Request) -> None:
        request.dequeued_ns = self._channel.now_ns()
        if not request.is_large:
            self._channel.long_work.asked(request.dequeued_ns)
        spent_ns = self._work(request)
        if spent_ns >= PIECE_NS and request.api not in OF_RECORDS and self._is_clients(request):
            self._channel.long_work.charge(party_of(request.caller), spent_ns)

    async def _in_turns(self, key: tuple[str, str]) -> None:
        """Works on the requests of a line. A turn is CREDIT_NS of them, and all until one takes long: a party whose
        reads take little would else have one of them in each round of the parties."""
        line, work, party, now_ns = self._lines[key], self._channel.long_work, key[1], self._channel.now_ns
        try:
            while line:
                await work.turn(party)
                until_ns = now_ns() + CREDIT_NS
                try:
                    self._work_for_a_while(line, self._work)
                finally:
                    work.done(party)
                while line and (now_ns() < until_ns or not self._long_reads.is_long(*key)):
                    await asyncio.sleep(0)
                    self._work_for_a_while(line, self._work_charged)
        finally:
            del self._lines[key]

    def _work_for_a_while(self, line: deque[Request], begin: Callable[[Request], object]) -> None:
        """Begins the first requests of a line, one at least."""
        until_ns = self._channel.now_ns() + TURN_MS * 1_000_000
        while (request := _next_of(line)) is not None:
            if request.turns is None or not request.turns.puts_aside(request, self._begin_now):  # AGAIN
                begin(request)
            if self._channel.now_ns() >= until_ns:
                return

    def _work_charged(self, request: Request) -> None:
        """Works on a request, and owes all that it takes, as in a turn."""
        spent_ns = self._work(request)
        self._channel.long_work.charge(party_of(request.caller), spent_ns)

    def _work(self, request: Request) -> int:
        """Handles the request; how long that took."""
        began_ns, is_read = self._channel.now_ns(), may_take_long(request.api, request.body)
        self._probe.handling(request)
        try:
            self._handle(request)
        except Exception as error:
            self._fail(request, error)
        self._probe.handled(request)
        self._channel.request_handled(request)
        request.handled_ns = self._channel.now_ns()
        self._channel.busy.handlers.add_busy(began_ns, request.handled_ns)
        spent_ns = request.handled_ns - began_ns
        if is_read:  # records go by without more than this look
            self._long_reads.took(request.api, party_of(request.caller), spent_ns)
        return spent_ns

    def _is_long_read(self, request: Request) -> bool:
        return (
            may_take_long(request.api, request.body)
            and self._long_reads.is_long(request.api, party_of(request.caller))
            and self._is_clients(request)
        )

    def _is_clients(self, request: Request) -> bool:
        """True of work that counts as long if it took long. Work for other nodes never does."""
        return request.caller.listener != self._nodes_listener

    def __repr__(self) -> str:
        return f"Dispatcher({self._channel!r})"


def _next_of(line: deque[Request]) -> Request | None:
    """The first of a line that somebody still waits for. The bytes of those before it count no more."""
    while line:
        request = line.popleft()
        if not request.is_abandoned:
            return request
        if request.body_lease is not None:
            request.body_lease.release()
    return None
