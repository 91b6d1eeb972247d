"""The port by which a shard's core has the markers of a decided transaction written, and hears that they are.

    core      turn.answer(MarkersTicket(port, end), end)     in the turn that writes PrepareCommit or PrepareAbort
    driver    the record is committed     ──►  port.send(end)
              nobody knows                ──►  port.ask_again(end)   ──►  submits SendMarkersAgain
    sender    every partition has it      ──►  submits MarkersWritten  ──►  CompleteCommit or CompleteAbort

So no marker leaves before its decision is committed, and a decision whose commit is unknown is not forgotten. After a
load the core answers such a ticket for every transaction that is prepared: a sender knows from an earlier lead, or from
an earlier question, and must take the same end twice. Not here: who leads a partition, and when it is asked again.
"""

from __future__ import annotations

from typing import Any, Protocol

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """A decision, and the partitions that hear of it. One transactional id has one at a time. The producer's id and
    epoch are those of the markers; `decided_ms` tells it from the one before, which may have the same epoch (version
    1). It is the calendar's, so it may fall."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_committed: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int
    decided_ms: int


class MarkerPort(Protocol):
    """The sender of markers, for one led partition of the coordinator. Called on the event loop; must not raise."""

    def send(self, end: TransactionEnd) -> None:
        """The decision is committed: have its markers written, until all are, then submit `MarkersWritten`. Does
        nothing for one that is being sent already."""
        ...

    def ask_again(self, end: TransactionEnd) -> None:
        """Nobody knows whether the decision is committed: submit `SendMarkersAgain` in a while, and again on an error,
        as long as the partition is led. A shard that is loaded anew sends all ends by itself."""
        ...


@dataclass(frozen=True, slots=True)
class MarkersTicket:
    """The ticket that an end leaves by, as an answer: after the commit, or with an error."""

    port: MarkerPort
    end: TransactionEnd

    def __call__(self, answer: Any) -> None:
        if isinstance(answer, ApiError):
            self.port.ask_again(self.end)
        else:
            self.port.send(self.end)


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """A request of the sender: every partition has the marker, durably, or is gone. Answered with None when the end of
    the transaction is committed; submit it again after an error, as long as the partition is led. One for a transaction
    that is not prepared, or is another one by now, is answered and changes nothing."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    decided_ms: int


@dataclass(frozen=True, slots=True)
class SendMarkersAgain:
    """A request of the driver: if this end is still prepared, it leaves again by its ticket, behind all that the log
    has. Answered with None."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    decided_ms: int
