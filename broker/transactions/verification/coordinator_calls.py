"""The calls to one broker that coordinates transactions: the questions of one tick are one call.

A call that takes longer than PATIENCE_MS holds up nobody else: the next one begins beside it, without the questions
about the coordinators that the first one waits for. These have calls of their own, until one of them is quick again. So
a coordinator whose log does not commit delays its own transactions only. A call without an answer gives its questions
back.

A transaction whose last one is still being ended is asked about once more, in a call of its own, which is answered when
that has ended (broker/transactions/waiting_adds.py). At most WAITING_MAX of these are under way.

Not here: which broker is asked, and what an answer means (verifier.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from broker.call_queue import CallQueue
from broker.transactions.verification.questions import InTransaction, Question
from penstock.backoff import Backoff
from penstock.errors import ApiError, ConcurrentTransactionsError, NetworkError, UnsupportedVersionError
from penstock.lazy_dataclass import dataclass
from penstock.messages.transactions.producers import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TransactionPartitions,
)

QUESTIONS_MAX: Final = 2_000
"""Limit of one call: that of its API for transactions."""
CALL_MS: Final = 5_000
"""The time of one call. Its questions are then asked anew, perhaps of another broker."""
PATIENCE_MS: Final = 100
"""Longer than a commit takes on disks that are well."""
WAITING_MAX: Final = 64
"""Calls that wait for the end of a transaction, at a time."""

Call = Callable[[AddPartitionsToTxnRequest], Awaitable[AddPartitionsToTxnResponse]]
Answered = Callable[[Question, ApiError | None], None]
Unanswered = Callable[[Question, ApiError], None]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The questions of one call, in the order of the request."""

    request: AddPartitionsToTxnRequest
    questions: tuple[tuple[Question, ...], ...]
    coordinators: frozenset[int]

    @classmethod
    def of(cls, taken: Iterable[tuple[Question, int]], *, waits: bool = False) -> _Asked:
        by_transaction: dict[InTransaction, dict[Question, None]] = {}
        for question, _ in taken:
            by_transaction.setdefault(question.in_transaction, {})[question] = None
        request = AddPartitionsToTxnRequest(
            tuple(
                TransactionPartitions(
                    in_transaction.transactional_id,
                    in_transaction.producer_id,
                    in_transaction.producer_epoch,
                    tuple(question.partition.topic_partition for question in questions),
                    in_transaction.verify_only,
                    bumps_epoch=not in_transaction.verify_only,
                )
                for in_transaction, questions in by_transaction.items()
            ),
            waits,
        )
        return cls(request, tuple(map(tuple, by_transaction.values())), frozenset(number for _, number in taken))


class CoordinatorCalls:
    """Asks one broker that coordinates transactions; it is the core of its queue. Used on the event loop, from its
    making to `stop`."""

    def __init__(
        self,
        name: str,
        call: Call,
        answered: Answered,
        unanswered: Unanswered,
        backoff: Backoff,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._call, self._answered, self._unanswered = call, answered, unanswered
        self._waiting: dict[Question, int] = {}
        """The questions that are not asked yet, with the number of their coordinator's partition."""
        self._asked: _Asked | None = None
        self._slow: Counter[int] = Counter()
        """The coordinators that calls wait for which others have overtaken."""
        self._suspects: set[int] = set()
        """The coordinators that were in a slow call, and in no quick one since."""
        self._asks_suspect = False
        self._tasks: set[asyncio.Future[AddPartitionsToTxnResponse]] = set()
        self._waits: set[asyncio.Future[AddPartitionsToTxnResponse]] = set()
        """A part of `_tasks`: they wait for the end of a transaction."""
        self._on_fatal = on_fatal
        self._queue: CallQueue[_Asked, AddPartitionsToTxnResponse | None]
        self._queue = CallQueue(name, self, self._ask, backoff, on_fatal)
        self._queue.start()

    def add(self, question: Question, coordinator: int) -> None:
        """Ask it; the partition of the transactions' topic with that number is its coordinator."""
        self._waiting[question] = coordinator
        self._queue.wake()

    def forget(self, question: Question) -> None:
        """Nobody wants the answer."""
        self._waiting.pop(question, None)

    async def stop(self) -> None:
        await self._queue.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- the core of the queue -----------------------------------------------------------------------------------------

    def next_request(self) -> _Asked | None:
        ready = [one for one in self._waiting.items() if one[1] not in self._slow]
        taken = [one for one in ready if one[1] not in self._suspects]
        suspect = next((number for _, number in ready if number in self._suspects), None)
        self._asks_suspect = suspect is not None and not (taken and self._asks_suspect)
        if self._asks_suspect:
            taken = [one for one in ready if one[1] == suspect]
        del taken[QUESTIONS_MAX:]
        for question, _ in taken:
            del self._waiting[question]
        self._asked = _Asked.of(taken) if taken else None
        return self._asked

    def answered(self, answer: AddPartitionsToTxnResponse | None, attempt: int) -> bool:
        asked, self._asked = self._asked, None
        if answer is not None and asked is not None:
            self._suspects -= asked.coordinators
            self._tell(asked, answer)
        return True

    def failed(self, error: ApiError, attempt: int) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            self._no_answer(asked, error)

    async def _ask(self, asked: _Asked) -> AddPartitionsToTxnResponse | None:
        """None if the answer takes long: it is told when it is there."""
        task = asyncio.ensure_future(self._call(asked.request))
        self._tasks.add(task)
        try:
            await asyncio.wait((task,), timeout=PATIENCE_MS / 1000)
        finally:
            if task.done():
                self._tasks.discard(task)
        if task.done():
            return task.result()
        self._slow.update(asked.coordinators)
        self._suspects |= asked.coordinators
        task.add_done_callback(lambda done: self._late(asked, done))
        return None

    def _late(self, asked: _Asked, task: asyncio.Future[AddPartitionsToTxnResponse]) -> None:
        self._slow -= Counter(asked.coordinators)
        self._done(asked, task)

    def _done(self, asked: _Asked, task: asyncio.Future[AddPartitionsToTxnResponse]) -> None:
        """A call that nobody has waited for."""
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._tell(asked, task.result())
        elif isinstance(error, ApiError):
            self._no_answer(asked, error)
        else:
            self._on_fatal(error)
        self._queue.wake()

    def _tell(self, asked: _Asked, answer: AddPartitionsToTxnResponse) -> None:
        if len(answer.transactions) != len(asked.questions):
            self._give_back(asked, NetworkError("the coordinator has answered another request"))
            return
        for questions, answered in zip(asked.questions, answer.transactions, strict=True):
            errors = {result.partition: result for result in answered.partitions}
            too_early: list[Question] = []
            for question in questions:
                result = errors.get(question.partition.topic_partition)
                if result is None:
                    self._unanswered(question, NetworkError("the coordinator's answer leaves the partition out"))
                elif isinstance(result.error, ConcurrentTransactionsError) and self._may_wait(asked):
                    too_early.append(question)
                else:
                    self._answered(question, result.error)
            if too_early:
                self._wait_for_end(too_early, asked)

    def _may_wait(self, asked: _Asked) -> bool:
        return not asked.request.waits and len(self._waits) < WAITING_MAX

    def _wait_for_end(self, questions: list[Question], asked: _Asked) -> None:
        """Ask about one transaction, whose last one is being ended: the answer waits for that."""
        (number, *_) = asked.coordinators  # only their number matters: nothing is slow yet
        waiting = _Asked.of(((question, number) for question in questions), waits=True)
        task = asyncio.ensure_future(self._call(waiting.request))
        self._tasks.add(task)
        self._waits.add(task)
        task.add_done_callback(lambda done: self._waited(waiting, done))

    def _waited(self, asked: _Asked, task: asyncio.Future[AddPartitionsToTxnResponse]) -> None:
        self._waits.discard(task)
        self._done(asked, task)

    def _no_answer(self, asked: _Asked, error: ApiError) -> None:
        """The broker may be gone: what waits for the same coordinators is looked for anew, too."""
        self._give_back(asked, error)
        behind = [question for question, number in self._waiting.items() if number in asked.coordinators]
        for question in behind:
            del self._waiting[question]
            self._unanswered(question, error)

    def _give_back(self, asked: _Asked, error: ApiError) -> None:
        """Gives the questions back, to be asked again. If the broker is of a release that does not know the call, that
        is their answer."""
        is_answer = isinstance(error, UnsupportedVersionError)
        for questions in asked.questions:
            for question in questions:
                if is_answer:
                    self._answered(question, error)
                else:
                    self._unanswered(question, error)

    def __repr__(self) -> str:
        return f"CoordinatorCalls({len(self._waiting)} wait, {sum(self._slow.values())} coordinators are slow)"
