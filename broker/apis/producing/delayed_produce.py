"""The answer to one produce request: a result for each partition, told together or in parts.

Together means when the last partition is done or the request's time is up. Until then a partition that does not commit,
because a disk hangs or a follower is slow, keeps back the results of the others. So a client may ask for parts: once
the request has waited for PART_AFTER_MS, what is known is told, and what becomes known later is told then. In the usual
case all is known before that, and the answer is one message. Not here: appending (produce.py), the order of answers on
a connection (processor.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from broker.network.request_channel import Request
from broker.replication.leader.purgatory import Waiter
from penstock.errors import ApiError, RequestTimedOutError
from penstock.messages.produce import PartitionProduceResult, ProduceRequest, ProduceResponse
from penstock.types import TopicPartition

PART_AFTER_MS = 200
"""Longer than a commit takes on disks that are well, and much less than anybody waits for one that is not."""


class Waiters(Protocol):
    """Waiters for what happens to records: `purgatory.OffsetWaiters`, or a batch that is held."""

    def discard(self, waiter: Waiter) -> None:
        """The waiter waits no more."""
        ...


class DelayedProduce:
    """`add` every partition, `wait` for those that were appended, then `all_added`.

    A partition may be done before the others are added: a disk that fails under one fails its neighbours in the same
    call. So nothing is told BEFORE `all_added`, or the others would be answered without their ack.
    """

    __slots__ = (
        "_all_added",
        "_in_parts",
        "_known",
        "_request",
        "_timeout_ms",
        "_timer",
        "_unanswered",
        "_waiting",
        "left_ms",
    )

    def __init__(self, request: Request, body: ProduceRequest, left_ms: float) -> None:
        """`left_ms` of the request's time."""
        self._request = request
        self._timeout_ms = body.timeout_ms
        self._in_parts, self.left_ms = body.answer_in_parts, left_ms
        self._unanswered: dict[int, PartitionProduceResult] = {}
        """The results that are not sent yet, by the partition's place in the request."""
        self._waiting: dict[int, tuple[Waiters, Waiter]] = {}
        """The waiters of the results that are not known."""
        self._known: list[int] | None = None
        """Results to tell, once the answer is given in parts."""
        self._all_added = False
        self._timer: asyncio.TimerHandle | None = None

    def add(self, partition: TopicPartition) -> PartitionProduceResult:
        """The result of the next partition; it is known unless it waits."""
        result = self._unanswered[len(self._unanswered)] = PartitionProduceResult(partition)
        return result

    def result(self, index: int) -> PartitionProduceResult:
        """The result that was added at this place."""
        return self._unanswered[index]

    def wait(self, waiters: Waiters) -> Waiter:
        """The partition that was added last is done when the waiter is told; it will be one of `waiters`."""
        index = len(self._unanswered) - 1
        waiter = partial(self._done, index)
        self._waiting[index] = waiters, waiter
        return waiter

    def waits_on(self, index: int, waiters: Waiters) -> None:
        """The waiter of this place has moved to these waiters."""
        self._waiting[index] = waiters, self._waiting[index][1]

    def all_added(self, acks: int) -> None:
        """No other partition follows. With acks=0 no result is sent, but its errors are counted."""
        self._all_added = True
        if not acks:
            unanswered = tuple(self._unanswered.values())
            self._request.complete(ProduceResponse(unanswered=unanswered), unanswered)
        elif not self._waiting:
            self._complete()
        elif self._in_parts and self.left_ms > PART_AFTER_MS:
            self._set_timer(PART_AFTER_MS, self._step_aside)
        else:
            self._set_timer(self.left_ms, self._expire)

    def _set_timer(self, wait_ms: float, then: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, then)

    def _step_aside(self) -> None:
        self._set_timer(self.left_ms - PART_AFTER_MS, self._expire)
        self._known = [index for index in self._unanswered if index not in self._waiting]
        self._request.answer_in_parts(self)

    def _done(self, index: int, error: ApiError | None) -> None:
        """A partition is acked, or failed after it was appended."""
        del self._waiting[index]
        if self._unanswered[index].error is None:
            self._unanswered[index].error = error
        if self._known is not None:
            self._known.append(index)
        if self._all_added and not self._waiting:
            self._complete()
        elif self._known is not None:
            self._request.answer_in_parts(self)

    def _expire(self) -> None:
        """The request's time is up: the records of open partitions may or may not become durable later."""
        self._timer = None
        for index, (waiters, waiter) in sorted(self._waiting.items()):
            waiters.discard(waiter)
            result = self._unanswered[index]
            result.error = RequestTimedOutError(
                f"{result.partition}: not acked within {self._timeout_ms} ms; it may still become durable"
            )
        self._waiting.clear()
        self._complete()

    def _complete(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        unanswered = [result for _, result in sorted(self._unanswered.items())]
        self._request.complete(ProduceResponse(unanswered), unanswered)

    # -- parts: `broker.network.request_ports.AnswerParts` -------------------------------------------------------------

    @property
    def open(self) -> int:
        return len(self._waiting)

    def take(self) -> ProduceResponse:
        known, self._known = self._known or [], []
        answered = [self._unanswered.pop(index) for index in known]
        self._request.count_failures(answered)
        return ProduceResponse(answered, more_follows=True)

    def __repr__(self) -> str:
        return f"DelayedProduce({self._request!r}, {len(self._unanswered)} results to tell, {self.open} not known)"
