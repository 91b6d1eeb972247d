"""The states of a transaction, the moves between them, and the numbers that they have in the log.

      Empty ───────────► Ongoing ──► PrepareCommit ──► CompleteCommit ──┐
        ▲                 ▲    │                                        │
        │                 │    └───► PrepareAbort ───► CompleteAbort ───┤
        │                 └─────────────────────────────────────────────┤
        └───────────────────────── InitProducerId ──────────────────────┘

A transaction of version 2 may be aborted before it has begun: from Empty and Complete* it is CompleteAbort at once.
What is prepared is decided: the only way on is its own Complete*. Kafka's Dead is a tombstone here, and
PrepareEpochFence is the PrepareAbort that it leads to: a decision is state as soon as it is made. The log has neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.messages.transactions.listing import TransactionState

_S = TransactionState
PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""Decided, and not every partition is known to have its marker."""
CLOSED: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""Nothing is open: another transaction may begin, and the id may expire."""
MOVES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.COMPLETE_ABORT}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.COMPLETE_ABORT}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.COMPLETE_ABORT}),
}
STATUS: Final[Mapping[TransactionState, int]] = {
    _S.EMPTY: 0,
    _S.ONGOING: 1,
    _S.PREPARE_COMMIT: 2,
    _S.PREPARE_ABORT: 3,
    _S.COMPLETE_COMMIT: 4,
    _S.COMPLETE_ABORT: 5,
}
"""The number of each state in the log."""
STATE_OF: Final = {number: state for state, number in STATUS.items()}
