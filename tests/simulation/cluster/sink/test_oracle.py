"""The oracle of atomic batches finds what cannot be true, and nothing else."""

from __future__ import annotations

from tests.chaos.ledger import decode_value
from tests.simulation.cluster.sink.oracle import Attempt, Row, Run, SinkOracle
from tests.simulation.cluster.transactions.oracle import Spot, TransactionOracle

OUT = Spot(0, 0)


class Watch:
    """Both oracles with a clock, and what they have reported."""

    def __init__(self) -> None:
        self.now_s, self.found = 0.0, []
        self.transactions = TransactionOracle(lambda kind, text: self.found.append(kind))
        self.oracle = SinkOracle("s", lambda: self.now_s, self.transactions, lambda kind, text: self.found.append(kind))
        self.identities: dict[int, int] = {}

    def attempt(self, run: Run, version: int, rows: int = 2) -> Attempt:
        attempt = self.oracle.begins(run, version)
        for number in range(rows):
            value = self.oracle.row(attempt, OUT, Row(version, 0, number))
            self.transactions.acked(value, OUT, len(self.identities))
            self.identities[len(self.identities)] = decode_value(value) or 0
        return attempt

    def wanted(self, version: int) -> list[Row]:
        return [Row(version, 0, number) for number in range(2)]


def test_one_decision_over_some_attempts_is_not_reported() -> None:
    watch = Watch()
    run = watch.oracle.run()
    good, rejected = watch.attempt(run, 0), watch.attempt(run, 0)
    call = watch.oracle.asks(run, 0, [good], 2)
    watch.oracle.committed(call)
    watch.oracle.was_committed(run, 0, 2)
    assert good.transaction.fate
    assert rejected.transaction.fate is False
    view = {offset: watch.identities[offset] for offset in (0, 1)}
    watch.oracle.judge({OUT: view}, watch.wanted(0))
    assert not watch.found


def test_rows_that_stand_there_twice_or_not_are_found() -> None:
    watch = Watch()
    run = watch.oracle.run()
    watch.attempt(run, 0), watch.attempt(run, 0)
    watch.oracle.judge({OUT: watch.identities}, [*watch.wanted(0), *watch.wanted(1)])
    assert watch.found == ["sink-twice", "sink-lost"]


def test_a_decision_that_nobody_asked_for_or_of_other_records_is_found() -> None:
    watch = Watch()
    run = watch.oracle.run()
    watch.oracle.was_committed(run, 0)
    watch.oracle.committed(watch.oracle.asks(run, 1, [watch.attempt(run, 1)], 2))
    watch.oracle.was_committed(run, 1, 3)
    assert watch.found == ["sink-phantom", "sink-phantom"]


def test_a_decision_that_is_undone_is_found() -> None:
    watch = Watch()
    run = watch.oracle.run()
    call = watch.oracle.asks(run, 0, [watch.attempt(run, 0)], 2)
    watch.oracle.committed(call)
    watch.oracle.refused(call)
    watch.attempt(run, 0)
    watch.oracle.committed(watch.oracle.asks(run, 0, [], 0))
    assert watch.found == ["sink-undone", "sink-undone", "sink-undone"]


def test_a_run_that_is_answered_after_the_next_one_is_found() -> None:
    watch = Watch()
    old, new = watch.oracle.run(), watch.oracle.run()
    watch.oracle.answered(old, 0.0)
    watch.now_s = 1.0
    watch.oracle.answered(new, 0.5)
    watch.oracle.answered(old, 0.9)  # it may have been asked before
    assert not watch.found
    watch.oracle.answered(old, 1.1)
    assert watch.found == ["sink-run"]


def test_a_writer_of_the_next_run_tells_that_the_last_decision_was_not_taken() -> None:
    watch = Watch()
    old, new = watch.oracle.run(), watch.oracle.run()
    attempt = watch.attempt(old, 0)
    call = watch.oracle.asks(old, 0, [attempt], 2)
    watch.attempt(new, 0)
    assert attempt.transaction.fate is False
    watch.oracle.committed(call)
    assert watch.found == ["sink-undone"]
