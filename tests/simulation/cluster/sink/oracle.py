"""Finds what cannot be true of an application that writes in atomic batches (I78, I79).

    I78  readers of committed records find each row of each version once: all rows of a version, or none of it
    I79  a version is decided once: whoever asks again is told the same, and of the records of that decision. A run that
         was replaced decides nothing more, from the first answer on that the next run was given

An *attempt* is one writer of a version: a transaction to the oracle of transactions, which hears its fate from here and
from readers, and finds the contradiction (transactions/oracle.py). A *call* is one decision that was asked for, with
the attempts that it accepts. Not here: drivers and tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.ledger import decode_value
from tests.simulation.cluster.transactions.oracle import ReportedTransaction, Spot, TransactionOracle

SHOWN_MAX = 5


class Row(NamedTuple):
    """A row of a version, which is the same whoever writes it."""

    version: int
    task: int
    number: int


@dataclass(slots=True, eq=False)
class Run:
    """One life of the application. `answered_s`: since then it is the one, and all before are over."""

    number: int
    name: str
    answered_s: float | None = None


@dataclass(slots=True, eq=False)
class Attempt:
    """See the module."""

    run: Run
    version: int
    transaction: ReportedTransaction

    def given_up(self) -> None:
        """Nobody will name it any more."""
        self.transaction.given_up()


@dataclass(slots=True, eq=False)
class Call:
    """See the module. `outcome`: True if it has decided the version; None while nobody knows."""

    run: Run
    version: int
    attempts: Sequence[Attempt]
    records: int
    outcome: bool | None = None


@dataclass(slots=True, eq=False)
class _Version:
    attempts: list[Attempt] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    decided: Call | None = None


class SinkOracle:
    """The oracle of one application. `wrong` is told of each contradiction, with its kind."""

    def __init__(
        self, name: str, now_s: Callable[[], float], transactions: TransactionOracle, wrong: Callable[[str, str], None]
    ) -> None:
        self._name, self._now_s, self._transactions, self._wrong = name, now_s, transactions, wrong
        self._rows: dict[int, Row] = {}
        """By the identity of a record."""
        self._versions: dict[int, _Version] = {}
        self._runs: list[Run] = []

    def run(self) -> Run:
        """A new one. It replaces nobody before its first answer."""
        found = Run(len(self._runs), f"{self._name}-run-{len(self._runs)}")
        self._runs.append(found)
        return found

    def answered(self, run: Run, asked_s: float) -> None:
        """A request of the run that was sent then was not refused."""
        for later in self._runs[run.number + 1 :]:
            if later.answered_s is not None and later.answered_s < asked_s:
                self._report("run", f"I79: {run.name} is answered, and {later.name} had replaced it")
        if run.answered_s is None:
            run.answered_s = self._now_s()

    # -- writers -------------------------------------------------------------------------------------------------------

    def begins(self, run: Run, version: int) -> Attempt:
        """A writer was given to it: nobody has decided the version."""
        found = self._versions.setdefault(version, _Version())
        if found.decided is not None:
            self._report(
                "undone", f"I79: version {version} is to be written, and {found.decided.run.name} committed it"
            )
        for call in found.calls:
            if call.run is not run and call.outcome is None:
                self._refused(call, f"{run.name} is given a writer of version {version}")
        life = self._transactions.life(f"{run.name}-version-{version}-{len(found.attempts)}")
        attempt = Attempt(run, version, self._transactions.begins(life))
        found.attempts.append(attempt)
        return attempt

    def row(self, attempt: Attempt, spot: Spot, row: Row) -> bytes:
        """The value of the row's record. BEFORE it is sent."""
        value = attempt.transaction.sends(spot)
        identity = decode_value(value)
        assert identity is not None
        self._rows[identity] = row
        return value

    # -- decisions -----------------------------------------------------------------------------------------------------

    def asks(self, run: Run, version: int, attempts: Sequence[Attempt], records: int) -> Call:
        """BEFORE the commit is asked for. The run's other attempts do not count any more."""
        found = self._versions.setdefault(version, _Version())
        for attempt in found.attempts:
            if attempt in attempts:
                attempt.transaction.asks_commit()
            elif attempt.run is run:
                attempt.given_up()
        call = Call(run, version, tuple(attempts), records)
        found.calls.append(call)
        return call

    def committed(self, call: Call) -> None:
        """Its driver was told that it has decided."""
        self._decide(call, f"{call.run.name} was told so")

    def was_committed(self, run: Run, version: int, records: int | None = None) -> None:
        """The run was told that somebody had committed the version before, with so many records (None: not told)."""
        found = self._versions.setdefault(version, _Version())
        possible = [found.decided] if found.decided is not None else [c for c in found.calls if c.outcome is not False]
        if records is not None:
            possible = [call for call in possible if call.records == records]
        if not possible:
            self._report("phantom", f"I79: {run.name} is told that {version} is committed with {records}, by nobody")
        elif len(possible) == 1:
            self._decide(possible[0], f"{run.name} was told that somebody had committed version {version}")

    def refused(self, call: Call) -> None:
        """Its driver was told that it has decided nothing, and that it will not."""
        self._refused(call, f"{call.run.name} was told so")

    def _decide(self, call: Call, why: str) -> None:
        found = self._versions[call.version]
        if call.outcome is False or (found.decided is not None and found.decided is not call):
            self._report("undone", f"I79: version {call.version} is decided by {call.run.name}, and was not: {why}")
            return
        if call.outcome:
            return
        call.outcome, found.decided = True, call
        for other in found.calls:
            other.outcome = other is call
        for attempt in found.attempts:
            if attempt in call.attempts:
                attempt.transaction.ended(True)
            else:
                self._transactions.settle(
                    attempt.transaction, False, f"version {call.version} does not accept it: {why}"
                )

    def _refused(self, call: Call, why: str) -> None:
        if call.outcome:
            self._report("undone", f"I79: version {call.version} was decided by {call.run.name}, and is not: {why}")
            return
        call.outcome = False
        for attempt in call.attempts:
            self._transactions.settle(attempt.transaction, False, f"its version is not decided: {why}")

    # -- the end -------------------------------------------------------------------------------------------------------

    def judge(self, stable: Mapping[Spot, Mapping[int, int]], wanted: Sequence[Row]) -> None:
        """`stable` is all that readers of committed records were given, of whole logs; `wanted` are the rows of all
        versions that are committed."""
        given = Counter(
            self._rows[identity] for view in stable.values() for identity in view.values() if identity in self._rows
        )
        twice = [row for row, count in given.items() if count > 1]
        missing = [row for row in wanted if row not in given]
        if twice:
            self._report("twice", f"I78: {len(twice)} rows stand there more than once: {twice[:SHOWN_MAX]}")
        if missing:
            self._report("lost", f"I78: {len(missing)} of {len(wanted)} rows are missing: {missing[:SHOWN_MAX]}")

    def _report(self, kind: str, text: str) -> None:
        self._wrong(f"sink-{kind}", f"{self._name}: {text}")

    def __repr__(self) -> str:
        return f"SinkOracle({self._name}, {len(self._versions)} versions)"
