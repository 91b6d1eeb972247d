"""Atomic batches: one durable decision over the writes of many producers.

An application writes numbered versions, as a stream processor writes its batches. Each writer of a version begins, and
gets a producer of its own, which writes as a transactional producer does, under the transactional id of the answer.
Then one call commits the version with the writers that it accepts, and aborts all others. A version that is committed
stays so: to begin or commit it again says that it is. A lower one than the last is refused.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BeginAtomicBatchRequest:
    """A writer begins. `timeout_ms`: undecided for so long, what it wrote is aborted. `goes_back`: a version below the
    last one is meant, and begins again from there."""

    application: str
    version: int
    timeout_ms: int
    goes_back: bool = False


@dataclass(frozen=True, slots=True)
class BeginAtomicBatchResponse:
    """`is_committed`: the version is committed, there is nothing to write, and there is no producer."""

    is_committed: bool
    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class CommitAtomicBatchRequest:
    """The writers that count, by producer id; those of the version that are not named are aborted."""

    application: str
    version: int
    producer_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CommitAtomicBatchResponse:
    """`was_committed`: by an earlier call."""

    was_committed: bool


@dataclass(frozen=True, slots=True)
class AbortAtomicBatchRequest:
    """Aborts all writers of the version that is open."""

    application: str
    version: int


@dataclass(frozen=True, slots=True)
class AbortAtomicBatchResponse:
    """Nothing of the version is open any more."""
