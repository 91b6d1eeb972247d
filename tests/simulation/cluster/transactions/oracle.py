"""Finds what cannot be true of transactions, by what their producers were told and readers were given (I65 to I67).

    I65  every reader of committed records gets all of a transaction or nothing, wherever and whenever it reads
    I66  it is what its producer was told: all once and where it was acked, or nothing; nothing of one whose commit was
         never asked for. While nobody was told, either; and then for ever the same
    I67  a producer that was replaced commits nothing more, nobody is replaced by nobody, and the records of one
         transactional id stand in each partition in the order in which its producers sent them

A transaction's *fate* is settled by the first that tells it: an answer, or a reader that was given one of its records,
or went past one. Whoever tells something else later has found a contradiction. So it is a reader's too when it went
past: an offset that was left out once is never there again. A record without a transaction is one of its own.

A *log* is one incarnation of a topic, by its number in the ledger. Of one that was deleted nothing more is promised.
Not here: producers and readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.ledger import SEQUENCE_BITS, decode_value, encode_value, record_id, shown

FIRST_OWNER = 700_000
"""The number of the first life in the values of records."""
LEFT_OUT = -1
"""At an offset: a reader went past it, and was given nothing."""


class Spot(NamedTuple):
    """A partition of one incarnation of a topic."""

    log: int
    partition: int


class Place(NamedTuple):
    """An offset of a spot."""

    spot: Spot
    offset: int


@dataclass(slots=True, eq=False, repr=False)
class Sent:
    """A record. `place`: where it was acked, if its log is known."""

    transaction: ReportedTransaction
    identity: int
    spot: Spot
    place: Place | None = None
    is_acked: bool = False


@dataclass(slots=True, eq=False, repr=False)
class ReportedTransaction:
    """One transaction, as its producer tells of it. The records are told BEFORE they are sent, the commit BEFORE it is
    asked for."""

    oracle: TransactionOracle
    life: Life
    number: int
    records: list[Sent] = field(default_factory=list)
    fate: bool | None = None
    """True: it is committed; None: nobody has told yet."""
    why: str = ""
    is_asked: bool = False
    """Its producer has asked for the commit."""

    def sends(self, spot: Spot) -> bytes:
        """The value of the next record; it may go to a later incarnation of the topic."""
        return self.oracle.sends(self, spot)

    def takes_back(self) -> None:
        """The producer has not taken the last record."""
        self.records.pop()

    def acked(self, value: bytes, spot: Spot | None, offset: int) -> None:
        """None: the topic was deleted meanwhile, and the record may stand in either log."""
        self.oracle.acked(value, spot, offset)

    def asks_commit(self) -> None:
        self.is_asked = True
        if self.life.is_replaced:
            self.oracle.settle(self, False, f"{self.life} was replaced before it asked for the commit")

    def ended(self, is_committed: bool) -> None:
        """The producer was told so."""
        self.oracle.settle(self, is_committed, f"its producer was told that it is {_word(is_committed)}")
        if is_committed and any(not record.is_acked for record in self.records):
            self.oracle.report("lost", f"I66: {self} is told to be committed, and some of its records are not acked")

    def given_up(self) -> None:
        """The producer has ended, or aborts: without a commit that was asked for, there is none."""
        if not self.is_asked:
            self.oracle.settle(self, False, "nobody has asked to commit it")

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.life}"


@dataclass(slots=True, eq=False, repr=False)
class Life:
    """One producer of a transactional id, or one without."""

    owner: str
    number: int
    """In the values of its records; later producers of an owner have larger ones."""
    is_replaced: bool = False
    repeats: Callable[[], bool] = lambda: False
    """True if it counts possible duplicates."""
    sequence: int = 0
    transactions: int = 0

    def __str__(self) -> str:
        return f"{self.owner}.{self.number}"


class TransactionOracle:
    """See the module. `wrong` is told of each contradiction, with its kind."""

    def __init__(self, wrong: Callable[[str, str], None]) -> None:
        self._wrong = wrong
        self._lives: dict[int, Life] = {}
        self._newest: dict[str, Life] = {}
        """By owner: the newest one that has begun."""
        self._sent: dict[int, Sent] = {}
        self._at: dict[Place, Sent] = {}
        """The record that is known to stand there."""
        self.stable: dict[Spot, dict[int, int]] = {}
        """By offset: the record that readers of committed records were given there, or LEFT_OUT."""
        self.everything: dict[Spot, dict[int, int]] = {}
        """The same of the other readers."""
        self.transactions: list[ReportedTransaction] = []

    # -- producers -----------------------------------------------------------------------------------------------------

    def life(self, owner: str) -> Life:
        """A new producer. It replaces nobody before `initialized`."""
        found = Life(owner, FIRST_OWNER + len(self._lives))
        self._lives[found.number] = found
        return found

    def initialized(self, life: Life) -> None:
        """The coordinator has given it its id: all others of its owner are replaced, and what they have open is
        aborted."""
        for other in self._lives.values():
            if other.owner == life.owner and other is not life and other.number < life.number:
                other.is_replaced = True
        self._newest[life.owner] = life

    def fenced(self, life: Life, error: Exception) -> None:
        """The producer was told that another one has its id. That other one may not know of it yet."""
        if not any(other.owner == life.owner and other.number > life.number for other in self._lives.values()):
            self.report("fenced", f"I67: {life} was told {error!r}, and nobody has replaced it")

    def begins(self, life: Life) -> ReportedTransaction:
        life.transactions += 1
        transaction = ReportedTransaction(self, life, life.transactions)
        self.transactions.append(transaction)
        return transaction

    def sends(self, transaction: ReportedTransaction, spot: Spot) -> bytes:
        life = transaction.life
        identity = record_id(life.number, life.sequence)
        self._sent[identity] = sent = Sent(transaction, identity, spot)
        transaction.records.append(sent)
        life.sequence += 1
        return encode_value(life.number, life.sequence - 1)

    def acked(self, value: bytes, spot: Spot | None, offset: int) -> None:
        sent = self._sent[decode_value(value) or 0]
        sent.is_acked = True
        if spot is not None:
            self._stands(sent, Place(spot, offset))
            sent.place = Place(spot, offset)

    def _stands(self, sent: Sent, place: Place) -> None:
        """The record stands there: whoever was there tells of its fate."""
        other = self._at.setdefault(place, sent)
        if other is not sent:
            self.report("inconsistent", f"I66: {_at(place)} holds {shown(other.identity)} and {shown(sent.identity)}")
        given = self.stable.get(place.spot, {}).get(place.offset)
        if given == LEFT_OUT:
            self.settle(sent.transaction, False, f"a reader went past {_at(place)}")

    def settle(self, transaction: ReportedTransaction, is_committed: bool, why: str) -> None:
        if transaction.fate is None:
            transaction.fate, transaction.why = is_committed, why
        elif transaction.fate is not is_committed and transaction.records:
            kind = "aborted-read" if is_committed else "torn"
            before = f"{_word(transaction.fate)}: {transaction.why}"
            text = f"I65, I66: {transaction} is {before}. It is {_word(is_committed)}: {why}"
            self.report(kind, text)

    # -- readers -------------------------------------------------------------------------------------------------------

    def reading(self, reader: str, spot: Spot, begin: int, *, is_committed: bool) -> Reading:
        """A reader begins to read a partition there."""
        return Reading(self, reader, spot, begin, is_committed)

    def given(self, reading: Reading, offsets: Sequence[int], values: Sequence[bytes | None], position: int) -> None:
        """A reader was given these, one behind the other, and is at `position` now."""
        views = self.stable if reading.is_committed else self.everything
        view = views.setdefault(reading.spot, {})
        at = reading.next_offset
        for offset, value in zip(offsets, values, strict=True):
            if offset < at:
                self.report("nonmonotonic", f"I65: {reading} was given {offset}, and {at} was next")
                continue
            self._left_out(reading, view, range(at, offset))
            self._shown(reading, view, offset, value)
            at = offset + 1
        self._left_out(reading, view, range(at, position))
        reading.next_offset = max(at, position)

    def _shown(self, reading: Reading, view: dict[int, int], offset: int, value: bytes | None) -> None:
        place, identity = Place(reading.spot, offset), decode_value(value)
        sent = None if identity is None else self._sent.get(identity)
        if sent is None or identity is None:
            self.report("phantom", f"I66: {_at(place)} holds {value!r:.80}, which nobody sent")
            return
        before = view.setdefault(offset, identity)
        if before == LEFT_OUT and self._keeps(reading):
            self.report("torn", f"I65: {reading} was given {shown(identity)} at {offset}, where a reader went past")
        elif before not in (identity, LEFT_OUT):
            self.report("inconsistent", f"I66: {_at(place)} was {shown(before)} and is {shown(identity)} to {reading}")
        is_elsewhere = sent.place is not None and sent.place != place and not sent.transaction.life.repeats()
        if sent.spot.log > reading.spot.log or is_elsewhere:
            self.report("duplicates", f"I66: {shown(identity)} stands at {_at(place)}, was acked at {sent.place}")
        self._stands(sent, place)
        if reading.is_committed:
            self.settle(sent.transaction, True, f"{reading} was given {shown(identity)} at {_at(place)}")

    def _left_out(self, reading: Reading, view: dict[int, int], offsets: Iterable[int]) -> None:
        for offset in offsets:
            before = view.setdefault(offset, LEFT_OUT)
            place = Place(reading.spot, offset)
            if before != LEFT_OUT and self._keeps(reading):
                self.report("torn", f"I65: {reading} was not given {shown(before)} at {_at(place)}, as another was")
            sent = self._at.get(place)
            if sent is not None and reading.is_committed:
                self.settle(sent.transaction, False, f"{reading} went past {_at(place)}")
            elif sent is not None and self._keeps(reading):
                self.report("lost", f"I66: {reading} was not given {shown(sent.identity)} at {_at(place)}")

    cleaned: frozenset[int] = frozenset()
    """Logs from which aborted records are taken by and by."""

    def _keeps(self, reading: Reading) -> bool:
        return reading.is_committed or reading.spot.log not in self.cleaned

    # -- the end -------------------------------------------------------------------------------------------------------

    def judge(self, is_promised: Callable[[Spot, int], bool]) -> None:
        """Every log that is open was read whole, by a reader of committed records and by another one. `is_promised`
        says of an offset that it is of an open log, and that nothing there was deleted. Call it once."""
        self._places(self.everything)
        found = self._places(self.stable)
        for transaction in self.transactions:
            for sent in transaction.records if transaction.fate else ():
                if sent.identity not in found and self._must_be_there(sent, is_promised):
                    where = _at(sent.place) if sent.place is not None else f"{sent.spot}"
                    self.report(
                        "lost",
                        f"I66: {shown(sent.identity)} of {transaction}, at {where}, is not there: {transaction.why}",
                    )
        for spot, view in self.everything.items():
            self._judge_order(spot, view)

    def _places(self, views: Mapping[Spot, Mapping[int, int]]) -> dict[int, Place]:
        """Where each record stands, which is in one place."""
        found: dict[int, Place] = {}
        for spot, view in views.items():
            for offset, identity in view.items():
                place = Place(spot, offset)
                before = found.setdefault(identity, place)
                if identity != LEFT_OUT and before != place and not self._repeats(identity):
                    self.report("duplicates", f"I66: {shown(identity)} stands at {_at(before)} and at {_at(place)}")
        return found

    def _repeats(self, identity: int) -> bool:
        return self._lives[identity >> SEQUENCE_BITS].repeats()

    def _must_be_there(self, sent: Sent, is_promised: Callable[[Spot, int], bool]) -> bool:
        if sent.place is not None:
            return is_promised(*sent.place)
        return not sent.is_acked and is_promised(sent.spot, 0)

    def _judge_order(self, spot: Spot, view: dict[int, int]) -> None:
        newest: dict[str, int] = {}
        for offset, identity in sorted(view.items()):
            if identity == LEFT_OUT:
                continue
            owner = self._lives[identity >> SEQUENCE_BITS].owner
            before = newest.get(owner, -1)
            if identity <= before and not self._repeats(identity):
                text = f"{_at(Place(spot, offset))} holds {shown(identity)} of {owner} behind {shown(before)}"
                self.report("out-of-order", f"I67: {text}")
            newest[owner] = max(before, identity)

    def counts(self) -> dict[str, int]:
        fates = [transaction.fate for transaction in self.transactions if transaction.records]
        return {"committed": fates.count(True), "aborted": fates.count(False), "untold": fates.count(None)}

    def report(self, kind: str, text: str) -> None:
        self._wrong(f"transaction-{kind}", text)

    def __repr__(self) -> str:
        return f"TransactionOracle({self.counts()})"


@dataclass(slots=True, eq=False, repr=False)
class Reading:
    """One reader in one partition."""

    oracle: TransactionOracle
    reader: str
    spot: Spot
    next_offset: int
    is_committed: bool

    def advance(self, offsets: Sequence[int], values: Sequence[bytes | None], position: int) -> None:
        self.oracle.given(self, offsets, values, position)

    def __str__(self) -> str:
        return f"{self.reader} of {self.spot}"


def _at(place: Place) -> str:
    return f"offset {place.offset} of log {place.spot.log}, partition {place.spot.partition}"


def _word(is_committed: bool) -> str:
    return "committed" if is_committed else "aborted"
