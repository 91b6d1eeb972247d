"""Coordinators of transactions that answer as a test says, and a verifier that asks them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from broker.transactions.verification.held_batches import HeldBatches, HoldLimits
from broker.transactions.verification.verifier import Verifier
from penstock.backoff import Backoff
from penstock.errors import ApiError, CoordinatorNotAvailableError
from penstock.messages.transactions.producers import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TransactionPartitionResult,
    TransactionPartitionResults,
    TransactionPartitions,
)
from penstock.types import TopicPartition

Say = Callable[[TransactionPartitions, TopicPartition], ApiError | None]


def _set(event: asyncio.Event) -> asyncio.Event:
    event.set()
    return event


def yes(transaction: TransactionPartitions, partition: TopicPartition) -> ApiError | None:
    return None


@dataclass
class Coordinators:
    """`say` decides each question; a call ends when `gate` is open, or with `failure`."""

    say: Say = yes
    where: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By transactional id, the partition and the broker; broker 9 and partition 0 has the others."""
    missing: bool = False
    failure: ApiError | None = None
    calls: list[tuple[int, AddPartitionsToTxnRequest]] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)
    """The transactional ids whose answers do not come."""
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=lambda: _set(asyncio.Event()))
    """Questions that wait for the end of a transaction are answered."""

    def coordinator_of(self, transactional_id: str) -> tuple[int, int]:
        if self.missing:
            raise CoordinatorNotAvailableError("no leader now")
        return self.where.get(transactional_id, (0, 9))

    async def ask(
        self, broker_id: int, request: AddPartitionsToTxnRequest, timeout_ms: int
    ) -> AddPartitionsToTxnResponse:
        self.calls.append((broker_id, request))
        if self.failure is not None:
            raise self.failure
        await asyncio.sleep(0.001)
        if any(one.transactional_id in self.closed for one in request.transactions):
            await self.opened.wait()
        if request.waits:
            await self.ended.wait()
        return AddPartitionsToTxnResponse(
            tuple(
                TransactionPartitionResults(
                    one.transactional_id,
                    tuple(TransactionPartitionResult(part, self.say(one, part)) for part in one.partitions),
                )
                for one in request.transactions
            )
        )

    @property
    def asked(self) -> list[tuple[str, TopicPartition]]:
        return [
            (one.transactional_id, part)
            for _, request in self.calls
            for one in request.transactions
            for part in one.partitions
        ]


def verifier_of(coordinators: Coordinators, is_enabled: bool = True) -> Verifier:
    return Verifier(coordinators, coordinators.ask, Backoff(2, 100, Random(1)), pytest.fail, is_enabled)


def held_by(coordinators: Coordinators, is_enabled: bool = True, **limits: int) -> HeldBatches:
    return HeldBatches(verifier_of(coordinators, is_enabled), HoldLimits(**limits))
