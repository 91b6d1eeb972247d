"""Finds what cannot be true of a group that reads, processes and writes in transactions (I76, I77).

    I76  readers of committed records find what was made of each input once: none twice, and in the end none missing
    I77  the offset that a group has committed, as a member is told where to begin, is that of the outputs: the end of
         what a committed transaction has read, and of no transaction that is undecided or aborted

An *attempt* is one transaction with what it has read of each partition. An offset that a member is told settles the
fates of attempts as a reader of the outputs does: one that ends there is committed; one whose offsets had been taken
before, and that ends behind it, is not, because nobody is told an offset where a transaction is undecided. The oracle
of transactions hears of both, and finds the contradiction (transactions/oracle.py). Not here: members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock import TopicPartition
from tests.chaos.ledger import decode_value
from tests.simulation.cluster.transactions.oracle import ReportedTransaction, Spot, TransactionOracle

SHOWN_MAX = 5
Spans = Mapping[TopicPartition, tuple[int, int]]
"""The part of each partition that was read: the first offset, and the one behind the last."""
Views = Mapping[Spot, Mapping[int, int]]
"""The records that readers were given: by offset the identity of each."""


class Input(NamedTuple):
    """A record that is to be processed."""

    partition: TopicPartition
    offset: int


@dataclass(slots=True, eq=False)
class Attempt:
    """See the module."""

    transaction: ReportedTransaction
    spans: Spans
    taken_s: float | None = None
    """When its offsets were known to be part of the transaction."""

    @property
    def may_be_committed(self) -> bool:
        return self.transaction.fate if self.transaction.fate is not None else self.transaction.is_asked


class ProcessingOracle:
    """The oracle of one group. `wrong` is told of each contradiction, with its kind."""

    def __init__(
        self,
        name: str,
        now_s: Callable[[], float],
        transactions: TransactionOracle,
        wrong: Callable[[str, str], None],
    ) -> None:
        self._name, self._now_s, self._transactions, self._wrong = name, now_s, transactions, wrong
        self._inputs: dict[int, Input] = {}
        """By the identity of what was made of it."""
        self._attempts: dict[TopicPartition, list[Attempt]] = {}
        self._reached: dict[TopicPartition, int] = {}

    # -- members -------------------------------------------------------------------------------------------------------

    def makes(self, value: bytes, partition: TopicPartition, offset: int) -> None:
        """BEFORE it is sent."""
        identity = decode_value(value)
        assert identity is not None
        self._inputs[identity] = Input(partition, offset)

    def commits(self, transaction: ReportedTransaction, spans: Spans) -> Attempt:
        """BEFORE the offsets are sent."""
        attempt = Attempt(transaction, spans)
        for partition in spans:
            self._attempts.setdefault(partition, []).append(attempt)
        return attempt

    def taken(self, attempt: Attempt) -> None:
        """The coordinator of the group has all of its offsets."""
        attempt.taken_s = self._now_s()

    def committed(self, attempt: Attempt) -> None:
        """The member was told so."""
        for partition, (first, end) in attempt.spans.items():
            self._reached[partition] = max(end, self.reached(partition))
            for other in self._attempts[partition]:
                begin, behind = other.spans[partition]
                if other is not attempt and other.transaction.fate and max(first, begin) < min(end, behind):
                    self._report(
                        "twice",
                        f"I76: {attempt.transaction} has read {partition} from {first},"
                        f" {other.transaction} to {behind}",
                    )

    def begins(self, member: str, partition: TopicPartition, offset: int, asked_s: float) -> None:
        """The member was told that the group has committed this offset; it was asked for after `asked_s`."""
        self._reached[partition] = max(offset, self.reached(partition))
        attempts = self._attempts.get(partition, [])
        there = [attempt for attempt in attempts if attempt.spans[partition][1] == offset]
        possible = [attempt for attempt in there if attempt.may_be_committed]
        why = f"{member} was told that {offset} of {partition} is committed"
        if offset and not possible:
            of_whom = (
                ", ".join(f"{attempt.transaction}, fate {attempt.transaction.fate}" for attempt in there) or "nobody"
            )
            self._report("offsets", f"I77: {why}, and it is of {of_whom}")
        elif len(possible) == 1:
            self._transactions.settle(possible[0].transaction, True, why)
        for attempt in attempts:
            if attempt.taken_s is not None and attempt.taken_s < asked_s and attempt.spans[partition][1] > offset:
                self._transactions.settle(attempt.transaction, False, why)

    def reached(self, partition: TopicPartition) -> int:
        """Everything below it is processed."""
        return self._reached.get(partition, 0)

    # -- the end -------------------------------------------------------------------------------------------------------

    def judge(self, stable: Views, ends: Mapping[TopicPartition, int]) -> None:
        """`stable` is all that readers of committed records were given, of whole logs; `ends` those of the inputs, in
        which each offset has a record."""
        made: dict[Input, list[str]] = {}
        for place, offset, identity in _records(stable):
            found = self._inputs.get(identity)
            if found is not None:
                made.setdefault(found, []).append(f"{place.partition} at {offset}")
        twice = {found: places for found, places in made.items() if len(places) > 1}
        for found, places in list(twice.items())[:SHOWN_MAX]:
            self._report("twice", f"I76: {found} was processed {len(places)} times: {', '.join(places)}")
        for partition, end in ends.items():
            missing = [offset for offset in range(end) if Input(partition, offset) not in made]
            if missing:
                self._report("lost", f"I76: of {partition} {len(missing)} of {end} are not processed: {missing[:5]}")

    def _report(self, kind: str, text: str) -> None:
        self._wrong(f"processing-{kind}", f"{self._name}: {text}")

    def __repr__(self) -> str:
        return f"ProcessingOracle({self._name}, {len(self._inputs)} made)"


def _records(views: Views) -> Iterator[tuple[Spot, int, int]]:
    for place, view in views.items():
        for offset, identity in view.items():
            yield place, offset, identity
