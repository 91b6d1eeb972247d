"""The part of a transaction that batches have to do with: whether more may be sent in it, and for whom.

There are two kinds: those that a producer begins and ends (transaction_core.py), and a writer's part of an atomic batch
(batch_writer_core.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.errors import PenstockError
from penstock.types import ProducerIdAndEpoch


class OpenTransaction(Protocol):
    """The transaction that a producer's batches are sent in."""

    @property
    def identity(self) -> ProducerIdAndEpoch | None:
        """The producer of the open transaction, or of the next one."""
        ...

    @property
    def doom(self) -> PenstockError | None:
        """The error of every batch that is not acked: none of them counts any more."""
        ...

    def must_take_records(self) -> None:
        """Raises where a record would be part of nothing that can be committed. In any thread."""
        ...

    def on_sent(self) -> str:
        """A batch is on its way, under the id that is returned."""
        ...

    def on_failed(self, error: PenstockError) -> None:
        """A part has failed: the whole can only be aborted. BEFORE the part itself is told. In any thread."""
        ...

    def counts(self) -> Mapping[str, int]:
        """The counts for the producer's statistics, by name."""
        ...
