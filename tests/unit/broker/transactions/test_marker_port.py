"""A decision leaves by its ticket: to the sender after the commit, or to be asked for again."""

from __future__ import annotations

from broker.transactions.marker_port import MarkersTicket, TransactionEnd
from penstock.errors import CoordinatorNotAvailableError

END = TransactionEnd("t", 7, 1, True, (), 2, 9)


class Port:
    def __init__(self) -> None:
        self.sent: list[TransactionEnd] = []
        self.unknown: list[TransactionEnd] = []

    def send(self, end: TransactionEnd) -> None:
        self.sent.append(end)

    def ask_again(self, end: TransactionEnd) -> None:
        self.unknown.append(end)


def test_markers_are_sent_after_the_commit() -> None:
    port = Port()
    MarkersTicket(port, END)(END)
    assert (port.sent, port.unknown) == ([END], [])


def test_a_decision_whose_commit_is_unknown_is_asked_for_again() -> None:
    port = Port()
    MarkersTicket(port, END)(CoordinatorNotAvailableError("no commit in time"))
    assert (port.sent, port.unknown) == ([], [END])
