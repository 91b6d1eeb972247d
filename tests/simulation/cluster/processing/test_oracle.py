"""The oracle of groups that process in transactions finds what cannot be true, and nothing else."""

from __future__ import annotations

from penstock import TopicPartition
from tests.chaos.ledger import decode_value
from tests.simulation.cluster.processing.oracle import Attempt, ProcessingOracle
from tests.simulation.cluster.transactions.oracle import Spot, TransactionOracle

IN, OUT = TopicPartition("in", 0), Spot(0, 0)


class Watch:
    """Both oracles with a clock, and what they have reported."""

    def __init__(self) -> None:
        self.now_s, self.found = 0.0, []
        self.transactions = TransactionOracle(lambda kind, text: self.found.append(kind))
        self.oracle = ProcessingOracle(
            "g", lambda: self.now_s, self.transactions, lambda kind, text: self.found.append(kind)
        )
        self.made: list[int] = []

    def attempt(self, first: int, end: int) -> Attempt:
        transaction = self.transactions.begins(self.transactions.life("member"))
        for offset in range(first, end):
            value = transaction.sends(OUT)
            self.oracle.makes(value, IN, offset)
            self.made.append(decode_value(value) or 0)
            self.transactions.acked(value, OUT, len(self.made) - 1)
        attempt = self.oracle.commits(transaction, {IN: (first, end)})
        self.oracle.taken(attempt)
        return attempt

    def commit(self, attempt: Attempt) -> None:
        attempt.transaction.asks_commit()
        attempt.transaction.ended(True)
        self.oracle.committed(attempt)


def test_what_is_processed_once_is_not_reported() -> None:
    watch = Watch()
    watch.commit(watch.attempt(0, 2))
    watch.oracle.begins("b", IN, 2, watch.now_s)
    watch.commit(watch.attempt(2, 3))
    watch.oracle.judge({OUT: dict(enumerate(watch.made))}, {IN: 3})
    assert watch.oracle.reached(IN) == 3
    assert not watch.found


def test_an_input_that_is_processed_twice_or_never_is_found() -> None:
    watch = Watch()
    watch.commit(watch.attempt(0, 2))
    watch.commit(watch.attempt(1, 3))
    watch.oracle.judge({OUT: dict(enumerate(watch.made))}, {IN: 4})
    assert watch.found == ["processing-twice", "processing-twice", "processing-lost"]


def test_an_offset_tells_which_transaction_is_committed() -> None:
    watch = Watch()
    first = watch.attempt(0, 2)
    first.transaction.asks_commit()
    watch.oracle.begins("b", IN, 2, 1.0)
    assert first.transaction.fate
    first.transaction.ended(False)
    assert watch.found == ["transaction-torn"]


def test_an_offset_that_is_told_while_a_later_one_waits_is_found() -> None:
    watch = Watch()
    watch.commit(watch.attempt(0, 2))
    zombie = watch.attempt(2, 4)
    watch.oracle.begins("b", IN, 2, 1.0)
    assert zombie.transaction.fate is False
    watch.commit(zombie)
    assert watch.found == ["transaction-aborted-read"]


def test_an_offset_of_nobody_or_of_an_aborted_transaction_is_found() -> None:
    watch = Watch()
    watch.attempt(0, 2).transaction.given_up()
    watch.oracle.begins("b", IN, 2, 1.0)
    watch.oracle.begins("b", IN, 7, 1.0)
    watch.oracle.begins("c", IN, 0, 1.0)
    assert watch.found == ["processing-offsets", "processing-offsets"]
