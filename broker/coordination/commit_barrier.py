"""Holds answers until the log is committed up to where it ended when they were decided, or until their time is up.

One waiter of the partition for all answers of a tick. If the commit fails, or takes longer than `timeout_ms`, they get
an error instead, and nobody knows whether their records will be committed. So do errors, which were decided on what may
never be committed: a member or producer that is told it is fenced ends for good. They get one, too, if this broker may
be deposed by then: the lease is looked at last, AFTER the commit. Not here: the appends (shard_log.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from broker.coordination.log_errors import not_committed
from broker.coordination.turn import Ticket
from broker.replication.partition import Partition
from penstock.clock import Clock
from penstock.errors import ApiError, RequestTimedOutError

Answers = list[tuple[Ticket, object]]
Deposed = Callable[[], ApiError | None]
"""The error for which nothing may be answered now, because another broker may lead; None if this one leads."""


def answer_all(answers: Iterable[tuple[Ticket, object]]) -> None:
    for ticket, answer in answers:
        ticket(answer)


def answer_unless(answers: Iterable[tuple[Ticket, object]], deposed: ApiError | None) -> None:
    """Give the answers, or that error instead of each: an error that was decided on old state is as wrong."""
    answer_all(answers if deposed is None else [(ticket, deposed) for ticket, _ in answers])


class _Held:
    """The answers of one tick."""

    __slots__ = ("answers", "deadline_ms", "deposed", "waiter")

    def __init__(self, answers: Answers, deadline_ms: int, deposed: Deposed) -> None:
        self.answers, self.deadline_ms, self.deposed = answers, deadline_ms, deposed
        self.waiter = self._answer  # one object: it is looked for by identity

    def _answer(self, error: ApiError | None) -> None:
        answers, self.answers = self.answers, []
        why = error or self.deposed()
        answer_unless(answers, None if why is None else not_committed(why))


class CommitBarrier:
    """The barrier of one lead. Invariant: `end` never falls."""

    def __init__(self, partition: Partition, clock: Clock, timeout_ms: int, deposed: Deposed) -> None:
        self._partition, self._clock, self._timeout_ms, self._deposed = partition, clock, timeout_ms, deposed
        self.end = 0
        """Everything below it was appended, or loaded."""
        self._held: deque[_Held] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def appended(self, end: int) -> None:
        self.end = max(self.end, end)

    @property
    def is_reached(self) -> bool:
        """True if an answer need not wait."""
        return self._partition.high_watermark >= self.end

    def add(self, answers: Answers) -> None:
        """Give them when everything that is in the log now is committed."""
        if not answers:
            return
        held = _Held(answers, self._clock.now_ms() + self._timeout_ms, self._deposed)
        if self.is_reached:
            held.waiter(None)
            return
        self._forget_answered()
        self._held.append(held)
        self._partition.acks_all.add(self.end, held.waiter)
        if self._timer is None:
            self._wait_for_deadline()

    def _wait_for_deadline(self) -> None:
        self._timer = None
        self._forget_answered()
        if self._held:
            left_ms = max(self._held[0].deadline_ms - self._clock.now_ms(), 1)
            self._timer = asyncio.get_running_loop().call_later(left_ms / 1000, self._time_up)

    def _time_up(self) -> None:
        now_ms = self._clock.now_ms()
        self._end_held(lambda held: held.deadline_ms <= now_ms, f"no commit within {self._timeout_ms} ms")
        self._wait_for_deadline()

    def close(self) -> None:
        """The lead is over: what waits is answered with that."""
        if self._timer is not None:
            self._timer.cancel()
        self._end_held(lambda held: True, "the lead is over")

    def _end_held(self, ends: Callable[[_Held], bool], why: str) -> None:
        while self._held and (not self._held[0].answers or ends(self._held[0])):
            held = self._held.popleft()
            if held.answers:
                self._partition.acks_all.discard(held.waiter)
                held.waiter(RequestTimedOutError(why))

    def _forget_answered(self) -> None:
        while self._held and not self._held[0].answers:
            self._held.popleft()

    def __repr__(self) -> str:
        return f"CommitBarrier({len(self._held)} held, end {self.end})"
