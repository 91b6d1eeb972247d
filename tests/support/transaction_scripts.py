"""Scripts of transactional producers: a line is a producer, what it asks, and how; one transactional id a script.

    a init [named=b] [timeout=MS]     a is the producer that is told; named: b goes on (KIP-360)
    a add orders-0 v1 | verify | group g v1 | end commit v2
    a exhaust                         other producers come and go until the next one has the last epoch
    old = a                           keeps what a was told, for good; a+1 is a's producer with a later epoch
    timeout                           waits until the open transaction is timed out

`x` is a producer that never was. After each step a transaction that is decided by it is whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from penstock.types import TopicPartition

TIMEOUT_MS: Final = 60_000
STRANGER: Final = (987_654_321, 0)
SCRIPTS: Final = {
    "producers of one id": """
        a init
        a init
        b init named=a
        b init named=a
        b init named=b
        x init named=x
        c init
        b init named=b
        c init named=c+1
        c init named=c
        c init timeout=0
        c init timeout=900001""",
    "version 1, commit": """
        a init
        a add orders-0 v1
        a add orders-0 orders-1 v1
        a verify orders-0 orders-2
        a group g v1
        a add orders-3 nope-0 v1
        a end commit v1
        a end commit v1
        a end abort v1
        a verify orders-0
        a add orders-2 v1
        a end commit v1""",
    "version 1, abort": """
        a init
        a end commit v1
        a end abort v1
        a add orders-0 v1
        a end abort v1
        a end abort v1
        a end commit v1
        b init
        a add orders-0 v1
        a end abort v1
        b end abort v1""",
    "version 2, commit": """
        a init
        old = a
        a add orders-0 v2
        a+1 end commit v2
        a end commit v2
        old end commit v2
        old end commit v2
        old end abort v2
        a end commit v2
        a add orders-1 v2
        old end commit v2
        older = a
        a end abort v2
        older end abort v2
        older end commit v2
        old end commit v2
        old add orders-0 v2""",
    "version 2, nothing was added": """
        a init
        old = a
        a end commit v2
        a end abort v2
        old end abort v2
        old end commit v2
        older = a
        a end abort v2
        old end abort v2
        a add orders-0 v2
        a end commit v2
        older end commit v2
        a end abort v2""",
    "strangers": """
        x add orders-0 v1
        x end commit v1
        x end abort v2
        a init
        a add orders-0 v2
        x add orders-0 v2
        x verify orders-0
        x group g v1
        x end commit v1
        x end commit v2
        a+1 add orders-0 v1
        a+1 verify orders-0
        a+1 group g v1
        a+1 end commit v1
        a+1 end commit v2
        a end commit v2""",
    "version 1 is fenced by a newer producer": """
        a init
        a add orders-0 v1
        b init
        a end commit v1
        a end abort v1
        a add orders-0 v1
        b init
        a init named=a
        b add orders-0 v1
        b end commit v1""",
    "version 2 is fenced by a newer producer": """
        a init
        a add orders-0 v2
        b init
        a end commit v2
        a end abort v2
        a add orders-0 v2
        b init
        a init named=a
        b add orders-0 v2
        b end commit v2""",
    "version 1 takes too long": """
        a init timeout=400
        a add orders-0 v1
        timeout
        a end commit v1
        a end abort v1
        a add orders-0 v1
        a init named=a
        b init""",
    "version 2 takes too long": """
        a init timeout=400
        a add orders-0 v2
        timeout
        a end commit v2
        a end abort v2
        a add orders-0 v2
        a init named=a
        b init""",
    "a producer goes on while its transaction is open": """
        a init
        a add orders-0 v1
        b init named=a
        b init named=a
        c init""",
    "versions mixed": """
        a init
        a add orders-0 v1
        old = a
        a end commit v2
        old end commit v2
        a add orders-0 v2
        a end abort v1
        a end abort v1
        a init named=a""",
    "the epochs of version 2 are used up": """
        a init
        a exhaust
        old = a
        a add orders-0 v2
        a end commit v2
        old end commit v2
        old end abort v2
        old add orders-0 v2
        a add orders-0 v2
        old end commit v2
        a end commit v2""",
    "the epochs are used up, and a new producer comes": """
        a init
        a exhaust
        b init
        a init named=a
        a end abort v2""",
    "the epochs are used up, and the producer goes on": """
        a init
        a exhaust
        b init named=a
        b init named=a
        a add orders-0 v1
        b add orders-0 v1
        b end commit v1""",
    "the epochs are used up, and an open transaction is fenced": """
        a init
        a exhaust
        a add orders-0 v1
        b init
        a end abort v1
        b init""",
}


class Step(NamedTuple):
    """One line, read; `named` and `sender` are producers as they are known then."""

    verb: str
    sender: tuple[int, int]
    args: tuple[str, ...] = ()
    named: tuple[int, int] = (-1, -1)
    timeout_ms: int = TIMEOUT_MS

    @property
    def version(self) -> int:
        return 2 if "v2" in self.args else 1

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        found = (word.rpartition("-") for word in self.args if "-" in word)
        return tuple(TopicPartition(topic, int(number)) for topic, _, number in found)


class Answer(NamedTuple):
    """An answer: the error (of each partition), and the producer that it names, if any."""

    error: str
    producer: tuple[int, int] | None = None


class TransactionSide(Protocol):
    """Whoever answers: a coordinator."""

    def act(self, name: str, step: Step) -> Answer: ...

    def state(self, name: str) -> tuple[str, int, tuple[str, ...]]:
        """The transactional id's state, its producer's epoch and its partitions, once a decision is whole."""
        ...


def transcript(side: TransactionSide, names: Iterable[str] = SCRIPTS) -> Iterator[str]:
    for name in names:
        yield f"== {name}"
        yield from _lines(side, name)
        yield ""


def _lines(side: TransactionSide, name: str) -> Iterator[str]:
    producers = {"x": STRANGER}
    ids: dict[int, str] = {}
    for line in map(str.strip, SCRIPTS[name].strip().splitlines()):
        yield line
        words = line.split()
        if words[1:2] == ["="]:
            producers[words[0]] = producers[words[2]]
            continue
        answer = side.act(name, _step(words, producers))
        producer = ""
        if answer.producer is not None and answer.producer != (-1, -1):
            if not words[0].startswith("old"):
                producers[words[0]] = answer.producer
            number = ids.setdefault(answer.producer[0], f"id{len(ids) + 1}")
            producer = f" {number} epoch {answer.producer[1]}"
        state, epoch, partitions = side.state(name)
        yield f"  {answer.error}{producer} | {state} epoch {epoch} {' '.join(partitions)}".rstrip()


def _step(words: list[str], producers: dict[str, tuple[int, int]]) -> Step:
    if len(words) == 1:
        return Step(words[0], STRANGER)
    named = next((word[6:] for word in words if word.startswith("named=")), None)
    timeout_ms = next((int(word[8:]) for word in words if word.startswith("timeout=")), TIMEOUT_MS)
    sender = _producer(words[0], producers) if words[1] != "init" else STRANGER
    of_named = (-1, -1) if named is None else _producer(named, producers)
    return Step(words[1], sender, tuple(words[2:]), of_named, timeout_ms)


def _producer(word: str, producers: dict[str, tuple[int, int]]) -> tuple[int, int]:
    name, _, more = word.partition("+")
    producer_id, epoch = producers.get(name, STRANGER)
    return producer_id, epoch + int(more or 0)
