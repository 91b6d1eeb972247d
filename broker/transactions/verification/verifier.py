"""Asks the coordinators of transactions for the leaders of partitions, and tells each answer once (KIP-890).

    ask ──► guard set ──► the coordinator's broker ──► yes, and the guard stands ──► told(None)
              ▲                     │                └► no ───────────────────────► told(error)
              └──── after a pause ◄─┴ it cannot say now, or its last transaction is still being ended

Who is told None acts on it at once: until then a marker of the producer ends the guard. Then the coordinator is asked
again, or with transaction version 1 the producer has to abort (questions.py).

The number of open questions is bounded, and each has its time. Not here: the batches that wait (held_batches.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from broker.replication.partition import Partition
from broker.transactions.verification.coordinator_calls import CALL_MS, CoordinatorCalls
from broker.transactions.verification.questions import InTransaction, OnVerified, Question
from broker.transactions.verification.refusals import is_no_answer, refusal, time_is_up
from penstock.backoff import Backoff
from penstock.errors import ApiError, ResourceExhaustedError
from penstock.metric_fields import counter, gauge, measured

OPEN_MAX: Final = 20_000
"""Questions of one broker."""
AGAIN_MS_MAX: Final = 100
"""The longest pause between two attempts of one question. The first pauses are short: the last transaction of the
producer is ended within a few milliseconds."""


@measured
class VerificationStatistics:
    """Now, and since the start."""

    waiting: int = gauge(
        "penstock_transaction_verifications_waiting",
        "Partitions led here for which the coordinator of a transaction is being asked whether they belong to it.",
    )
    confirmed: int = counter(
        "penstock_transaction_verifications", "Partitions that a coordinator has confirmed, or added."
    )
    failed: int = counter(
        "penstock_transaction_verifications_failed",
        "Partitions that a coordinator has refused, or of which it has not answered in time. Nothing was written.",
    )


class FindCoordinator(Protocol):
    """Finds the coordinators of transactions by this broker's metadata."""

    def coordinator_of(self, transactional_id: str) -> tuple[int, int]:
        """The partition of the transactions' topic, and the broker that leads it; ApiError if it has no leader now."""
        ...


Ask = Callable[[int, Any, int], Awaitable[Any]]
"""Asks a broker, perhaps this one, with a time in ms; raises ApiError without an answer."""


class Verifier:
    """Asks the coordinators of transactions. There is one per broker, on the event loop, from its first question to
    `stop`."""

    def __init__(
        self,
        coordinators: FindCoordinator,
        ask: Ask,
        backoff: Backoff,
        on_fatal: Callable[[BaseException], None],
        is_enabled: bool = True,
    ) -> None:
        """`backoff` is that between two calls of one broker, and between two attempts of one question. `is_enabled` is
        `transaction.partition.verification.enable`."""
        self._is_enabled = is_enabled
        self._coordinators, self._ask, self._backoff, self._on_fatal = coordinators, ask, backoff, on_fatal
        self._calls: dict[int, CoordinatorCalls] = {}
        self._open: dict[Question, CoordinatorCalls | asyncio.TimerHandle | None] = {}
        """The open questions, and where each is: in a broker's calls, or in its pause."""
        self._failed = self._confirmed = 0
        self._is_stopped = False

    def ask(
        self, partition: Partition, in_transaction: InTransaction, wait_ms: float, on_verified: OnVerified
    ) -> Question:
        """Call `on_verified` once, never before this returns: with None if the partition is part of the transaction,
        and what waits for that may be written now, or with the error. ResourceExhaustedError for too many questions."""
        if self._is_stopped:
            raise time_is_up(partition.topic_partition, None)
        if len(self._open) >= OPEN_MAX:
            raise ResourceExhaustedError(
                f"{OPEN_MAX} questions to coordinators of transactions are open on this broker; try again"
            )
        question = Question(partition, in_transaction, on_verified)
        loop = asyncio.get_running_loop()
        question.timer = loop.call_later(wait_ms / 1000, self._time_up, question)
        self._attempt(question)
        return question

    def needs_to_ask(self, in_transaction: InTransaction) -> bool:
        """False if the partition need not be looked up. The coordinator is always asked for a partition that is to be
        added."""
        return self._is_enabled or not in_transaction.verify_only

    def withdraw(self, question: Question) -> None:
        """Nobody wants the answer; it is not told."""
        at = self._open.pop(question, None)
        if isinstance(at, CoordinatorCalls):
            at.forget(question)
        elif at is not None:
            at.cancel()
        question.close()

    def _attempt(self, question: Question) -> None:
        question.begin_attempt()
        try:
            number, broker_id = self._coordinators.coordinator_of(question.in_transaction.transactional_id)
        except ApiError as error:
            self._unanswered(question, error)
            return
        calls = self._open[question] = self._calls_of(broker_id)
        calls.add(question, number)

    def _calls_of(self, broker_id: int) -> CoordinatorCalls:
        calls = self._calls.get(broker_id)
        if calls is None:
            calls = self._calls[broker_id] = CoordinatorCalls(
                name=f"transaction-verification-{broker_id}",
                call=lambda request: self._ask(broker_id, request, CALL_MS),
                answered=self._answered,
                unanswered=self._unanswered,
                backoff=self._backoff,
                on_fatal=self._on_fatal,
            )
        return calls

    # -- answers -------------------------------------------------------------------------------------------------------

    def _answered(self, question: Question, error: ApiError | None) -> None:
        if not question.is_open:
            return
        if error is not None:
            if is_no_answer(error):
                self._unanswered(question, error)
            else:
                self._tell(question, refusal(question.partition.topic_partition, error))
            return
        if question.is_guarded:
            self._tell(question, None)
        else:
            self._again(question)

    def _unanswered(self, question: Question, error: ApiError) -> None:
        if question.is_open:
            question.failure = error
            wait_ms = min(self._backoff.wait_ms(question.attempt), AGAIN_MS_MAX)
            self._open[question] = asyncio.get_running_loop().call_later(wait_ms / 1000, self._again, question)

    def _again(self, question: Question) -> None:
        error = question.why_never()
        if error is not None:
            self._tell(question, error)
        else:
            self._attempt(question)

    def _time_up(self, question: Question) -> None:
        self._tell(question, time_is_up(question.partition.topic_partition, question.failure))

    def _tell(self, question: Question, error: ApiError | None) -> None:
        if error is None:
            self._confirmed += 1
        else:
            self._failed += 1
        self.withdraw(question)
        question.on_verified(error)

    # -- end -----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stops; every caller that still waits gets an error."""
        self._is_stopped = True
        for question in tuple(self._open):
            if question.is_open:
                self._time_up(question)
        for calls in self._calls.values():
            await calls.stop()

    def statistics(self) -> VerificationStatistics:
        return VerificationStatistics(len(self._open), self._confirmed, self._failed)

    def __repr__(self) -> str:
        return f"Verifier({len(self._open)} open questions)"
