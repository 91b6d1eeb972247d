"""Asks the coordinator of a transaction before a shard takes offsets for it: the shard's partition must be part of it.

    TxnOffsetCommit ──► open in this log already ───────────────────────────────► the shard decides
                    └► the transaction's coordinator adds it, or only looks ──► yes, and no marker came ──┘

Without that question an offset could come after its transaction's marker, and would wait for ever: it would hold up its
partition's readers, and the cleaner. A producer's commits keep their order: while one waits for the answer, those after
it wait behind it. Not here: the questions (transactions/verification/), decisions about members and offsets (offsets/).
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NamedTuple, Protocol

from broker.coordination.led_shard import LedShard
from broker.coordination.record_log import TxnProducer
from broker.coordination.turn import Client, Ticket
from broker.load.party_shares import PartyShares
from broker.replication.partition import Partition
from broker.transactions.verification.questions import InTransaction, OnVerified, Question
from penstock.errors import (
    ApiError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaStorageError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ResourceExhaustedError,
)
from penstock.messages.transactions.producers import TxnOffsetCommitRequest

WAITING_MAX: Final = 10_000
"""Commits that wait, half of them for one party alone: as many questions are left to leaders (verifier.py)."""
BEHIND_MAX: Final = 100
"""Commits of one producer that wait behind one. Clients send the next when they have the answer to the last."""


class Verification(Protocol):
    """Asks about transactions (`Verifier`)."""

    def ask(
        self, partition: Partition, in_transaction: InTransaction, wait_ms: float, on_verified: OnVerified
    ) -> Question: ...

    def needs_to_ask(self, in_transaction: InTransaction) -> bool: ...

    def withdraw(self, question: Question) -> None: ...


class _Commit(NamedTuple):
    request: TxnOffsetCommitRequest
    answer: Ticket
    client: Client


class _Waiting:
    """The commits of one producer to one shard, in order; the first one's question is open."""

    def __init__(self, shard: LedShard[Any], first: _Commit) -> None:
        self.shard = shard
        self.commits = deque((first,))
        self.question: Question | None = None


class TransactionalOffsets:
    """Asks the coordinators of transactions for the shards. There is one per broker, on the event loop."""

    def __init__(self, verification: Verification, wait_ms: int) -> None:
        """The transaction's coordinator has `wait_ms` to answer."""
        self._verification, self._wait_ms = verification, wait_ms
        self._waiting: dict[tuple[LedShard[Any], int], _Waiting] = {}
        self._counts = PartyShares(WAITING_MAX)

    def submit(self, shard: LedShard[Any], answer: Ticket, request: TxnOffsetCommitRequest, client: Client) -> None:
        """Have the shard decide, when the transaction is known to be open. Answered once, now or later.
        ResourceExhaustedError if too many commits wait."""
        commit, key = _Commit(request, answer, client), (shard, request.producer_id)
        waiting = self._waiting.get(key)
        if waiting is not None:
            if len(waiting.commits) > BEHIND_MAX:
                raise ResourceExhaustedError(f"{BEHIND_MAX} commits of producer {request.producer_id} wait already")
            self._waits(commit)
            waiting.commits.append(commit)
        elif (
            not shard.is_serving
            or shard.log.is_open(TxnProducer(request.producer_id, request.producer_epoch))
            or not self._verification.needs_to_ask(_transaction_of(request))
        ):
            shard.submit(answer, request, client)
        else:
            self._waits(commit)
            self._ask(key, _Waiting(shard, commit))

    def _waits(self, commit: _Commit) -> None:
        party = commit.client.party
        if not self._counts.has_room(party, 1):
            raise ResourceExhaustedError(
                f"{self._counts.used} commits wait on this broker for the coordinators of their transactions,"
                f" {self._counts.held_by(party)} of them of {party}; nothing was written, send it again"
            )
        self._counts.changed(party, 1)

    def _taken(self, waiting: _Waiting) -> _Commit:
        """The first commit, which waits no more."""
        commit = waiting.commits.popleft()
        self._counts.changed(commit.client.party, -1)
        return commit

    def _ask(self, key: tuple[LedShard[Any], int], waiting: _Waiting) -> None:
        asked = _transaction_of(waiting.commits[0].request)
        self._waiting[key] = waiting
        try:
            waiting.question = self._verification.ask(
                waiting.shard.partition, asked, self._wait_ms, lambda error: self._on_verified(key, error)
            )
        except ApiError as error:
            self._on_verified(key, error)

    def _on_verified(self, key: tuple[LedShard[Any], int], error: ApiError | None) -> None:
        """The first commit goes to the shard, and those behind it that are of the same transaction."""
        waiting = self._waiting.pop(key)
        first = self._taken(waiting)
        if error is not None:
            first.answer(of_coordinators(error))
        else:
            waiting.shard.submit(first.answer, first.request, first.client)
            while waiting.commits and _is_same(waiting.commits[0].request, first.request):
                behind = self._taken(waiting)
                waiting.shard.submit(behind.answer, behind.request, behind.client)
        if waiting.commits:
            self._ask(key, waiting)

    def stop(self) -> None:
        """Answers every waiting commit with NOT_COORDINATOR: the broker leads nothing any more."""
        while self._waiting:
            waiting = self._waiting.popitem()[1]
            if waiting.question is not None:
                self._verification.withdraw(waiting.question)
            while waiting.commits:
                self._taken(waiting).answer(NotCoordinatorError("the broker stops"))

    def __repr__(self) -> str:
        return f"TransactionalOffsets({len(self._waiting)} producers wait)"


def _transaction_of(request: TxnOffsetCommitRequest) -> InTransaction:
    return InTransaction(
        request.transactional_id, request.producer_id, request.producer_epoch, verify_only=not request.adds_group
    )


def _is_same(one: TxnOffsetCommitRequest, other: TxnOffsetCommitRequest) -> bool:
    return one.transactional_id == other.transactional_id and one.producer_epoch == other.producer_epoch


def of_coordinators(error: ApiError) -> ApiError:
    """The errors of a leader, as the clients of a coordinator know them."""
    if isinstance(error, NotLeaderOrFollowerError | KafkaStorageError):
        return NotCoordinatorError(str(error))
    if isinstance(error, NotEnoughReplicasError):
        return CoordinatorNotAvailableError(str(error))
    return error


def of_leaders(error: ApiError | None) -> ApiError | None:
    """The errors of a coordinator of groups, as one of transactions knows them, which writes its markers to leaders."""
    if isinstance(error, NotCoordinatorError | CoordinatorNotAvailableError | CoordinatorLoadInProgressError):
        return NotLeaderOrFollowerError(str(error))
    return error
