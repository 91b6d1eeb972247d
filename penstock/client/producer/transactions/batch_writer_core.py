"""The state of a producer that writes in atomic batches, for one writer after the other.

    idle ──begin──► open ──a record fails──► can only be aborted
      ▲              │                          │
      └──────────────┴───────── close ──────────┘

Each writer has an id and epoch of its own, given by the coordinator; sequences begin at 0 with it. Whether its part
counts is not decided here: the commit of the version names the writers. Pure. The loop changes the state; other threads
read it, and may note a failure. Not here: calls (atomic_calls.py), and whose turn a producer is (writer_pool.py).
"""

from __future__ import annotations

from penstock.base_error import without_frames
from penstock.errors import PenstockError, TransactionAbortedError, TransactionStateError
from penstock.types import ProducerIdAndEpoch

CLOSED = "this writer is closed: begin another one"


class BatchWriterCore:
    """The state of one producer that writes in atomic batches. It is the `OpenTransaction` of its producer."""

    def __init__(self) -> None:
        self.identity: ProducerIdAndEpoch | None = None
        self.doom: PenstockError | None = None
        self._transactional_id = ""
        self._failure: PenstockError | None = None
        self._is_open = False

    def begin(self, transactional_id: str, identity: ProducerIdAndEpoch) -> None:
        """A writer has the producer; nothing of the one before is left."""
        self._transactional_id, self.identity = transactional_id, identity
        self._failure = self.doom = None
        self._is_open = True

    def begin_close(self) -> None:
        """Takes nothing more from now on, and sends nothing more."""
        self.doom = self.doom or TransactionAbortedError("the writer was closed before the record was acked")
        self._is_open = False

    def must_take_records(self) -> None:
        failure = self._failure
        if failure is not None:
            raise self._aborted(failure)
        if not self._is_open:
            raise TransactionStateError(CLOSED)

    def on_sent(self) -> str:
        return self._transactional_id

    def on_failed(self, error: PenstockError) -> None:
        if self._is_open and self._failure is None:
            self._failure = without_frames(error)
            self.doom = self._aborted(self._failure)

    def _aborted(self, failure: PenstockError) -> TransactionAbortedError:
        error = TransactionAbortedError(
            f"writer {self._transactional_id!r} has lost a record, so it must not be committed; begin another one:"
            f" {failure}"
        )
        error.__cause__ = failure
        return error

    def counts(self) -> dict[str, int]:
        return {}

    def __repr__(self) -> str:
        failed = ", failed" if self._failure is not None else ""
        return f"BatchWriterCore({self._transactional_id!r}, {'open' if self._is_open else 'idle'}{failed})"
