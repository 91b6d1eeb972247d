"""One produce stream to one broker: a task that writes, a task that reads, and the requests that are not answered
yet.

When either ends, both end, and every unanswered request is reported broken, once, in the order in which it was sent.
A link is not repaired: the sender makes a new one. It knows since when its broker is silent, and decides nothing.

A request that is answered in part steps aside: the rest of its answer waits for something slow. Neither the broker nor
the stream is to blame for that.

A broker whose quota the client has used up says for how long it reads nothing (KIP-219). Nothing is sent to it
meanwhile, and what was sent before has its time for an answer from then on: the broker is not silent, it has not read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from penstock.client.producer.sending.outcomes import OutboundRequest
from penstock.client.wire.connection import Connection, ProduceStream
from penstock.clock import Clock
from penstock.errors import ApiError, NetworkError, UnknownServerError
from penstock.messages.produce import ProduceRequest, ProduceResponse

_log = logging.getLogger(__name__)

OnAnswer = Callable[[OutboundRequest, ProduceResponse | None], None]
OnBroken = Callable[[list[OutboundRequest], ApiError], None]


class ProduceLink:
    """Sends requests in order and matches answers by correlation id."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        on_answer: OnAnswer,
        on_broken: OnBroken,
        on_throttled: Callable[[int], object] = bool,
    ) -> None:
        """`on_throttled` is told of each wait (ms)."""
        self.connection = connection
        self._on_throttled = on_throttled
        self._clock = clock
        self._silent_since_ms = 0
        self.throttled_until_ms = 0
        """The broker reads nothing before."""
        self.broken = False
        self._on_answer = on_answer
        self._on_broken = on_broken
        self._outbox: deque[tuple[OutboundRequest, ProduceRequest]] = deque()
        self._unanswered: dict[int, OutboundRequest] = {}
        self._aside: dict[int, OutboundRequest] = {}
        self._filled = asyncio.Event()
        self._stream: ProduceStream = connection.open_produce()
        self._tasks = [
            asyncio.ensure_future(self._guard(self._write)),
            asyncio.ensure_future(self._guard(self._read)),
        ]
        for task in self._tasks:
            task.add_done_callback(self._on_ended)

    @property
    def in_flight(self) -> int:
        """How many requests are not answered at all."""
        return len(self._unanswered)

    @property
    def aside(self) -> tuple[OutboundRequest, ...]:
        """The requests that are answered in part."""
        return tuple(self._aside.values())

    @property
    def unanswered(self) -> tuple[OutboundRequest, ...]:
        """All that owe an answer or the rest of one, in the order in which they were sent."""
        both = (*self._aside.values(), *self._unanswered.values())
        return tuple(sorted(both, key=lambda request: request.correlation_id))

    def aside_since(self, since_ms: int) -> tuple[OutboundRequest, ...]:
        """The requests of `aside` of which nothing more was told since then."""
        return tuple(r for r in self._aside.values() if r.part_ms is not None and r.part_ms <= since_ms)

    @property
    def silent_since_ms(self) -> int | None:
        """The time since which the broker has said nothing although it was asked and reads; None when it owes no
        answer. It is later than now while the client is throttled."""
        return max(self._silent_since_ms, self.throttled_until_ms) if self._unanswered else None

    @property
    def oldest_deadline_ms(self) -> int | None:
        """When the first request without any answer runs out of time, which it has from when it could be read."""
        first = next(iter(self._unanswered.values()), None)
        if first is None:
            return None
        return first.deadline_ms + max(0, self.throttled_until_ms - first.sent_ms)

    def submit(self, request: OutboundRequest, call: ProduceRequest) -> None:
        """Queues a request; its answer, or that the link broke, is reported later."""
        if not self._unanswered:
            self._silent_since_ms = self._clock.now_ms()
        self._unanswered[request.correlation_id] = request
        self._outbox.append((request, call))
        self._filled.set()

    async def _write(self) -> None:
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._outbox:
                request, call = self._outbox.popleft()
                await self._stream.write(request.correlation_id, call)
                if call.acks == 0 and self._unanswered.pop(request.correlation_id, None) is not None:
                    self._on_answer(request, None)

    async def _read(self) -> None:
        while True:
            number, answer = await self._stream.read()
            self._silent_since_ms = self._clock.now_ms()
            if answer.throttle_time_ms > 0 and number not in self._aside:  # else: its first part has told it already
                self.throttled_until_ms = max(self.throttled_until_ms, self._silent_since_ms + answer.throttle_time_ms)
                self._on_throttled(answer.throttle_time_ms)
            request = self._unanswered.pop(number, None) or self._aside.pop(number, None)
            if request is None:  # acks=0, whose answers tell nothing; or it was forgotten
                continue
            if answer.more_follows:
                self._aside[number] = request
            self._on_answer(request, answer)

    def forget(self, request: OutboundRequest) -> None:
        """The answer is not needed any more. A request that is not written yet is not sent at all."""
        self._unanswered.pop(request.correlation_id, None)
        self._aside.pop(request.correlation_id, None)
        self._outbox = deque(entry for entry in self._outbox if entry[0] is not request)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        """A callback, because a task that is cancelled before its first step runs no line of its own."""
        if task.cancelled() and not self.broken:  # by nobody here: by the program, which cancels all of its loop
            _log.warning("the program has cancelled the tasks of a producer; what is sent next begins them anew")
            self.break_off(NetworkError(f"{self.connection.endpoint}: the program has cancelled the task"))

    async def _guard(self, work: Callable[[], Awaitable[None]]) -> None:
        """Makes the coroutine of `work` only when its task runs: a link may be given up before that."""
        try:
            await work()
        except ApiError as error:
            self.break_off(error)
        except Exception as error:  # a bug of ours: the records fail with it instead of waiting for ever
            self.break_off(UnknownServerError(f"{self.connection.endpoint}: {error!r}"))
            raise

    def break_off(self, error: ApiError) -> None:
        """Ends the link and reports every unanswered request. Idempotent."""
        if self.broken:
            return
        requests = self.take_unanswered()
        if requests:
            self._on_broken(requests, error)

    def take_unanswered(self) -> list[OutboundRequest]:
        """Ends the link without a report and hands over what was not answered."""
        self.broken = True
        requests = list(self.unanswered)
        self._unanswered.clear()
        self._aside.clear()
        self._outbox.clear()
        self._stream.cancel()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        return requests

    async def close(self) -> None:
        """Waits for both tasks to end."""
        if not self.broken:
            self.break_off(NetworkError(f"{self.connection.endpoint}: the producer was closed"))
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def __repr__(self) -> str:
        return f"ProduceLink({self.connection.endpoint}, in_flight={self.in_flight}, broken={self.broken})"
