"""A loop by hand, which copies numbers in transactions with the group's positions, and goes back where one is aborted.

    poll ─► a transaction of outputs and positions ─► committed, or aborted and seek_to_committed()

A second consumer of the group asks after each commit, and must be told no older offset. In the end a reader of
committed records finds each number once. Not here: the faults that come meanwhile (deposed.py, calendars.py).
"""

from __future__ import annotations

import time
from typing import Any, Final

from penstock import Consumer, Producer, TopicPartition
from penstock.errors import TransactionAbortedError
from tests.support.campaign.frame import Run
from tests.support.campaign.reading import copied, must_be_exactly_once, places_of

IN, OUT = "in", "out"
BATCH: Final = 30
"""Records of a transaction, at most."""
DRAIN_S: Final = 120.0
OPTIONS: Final[dict[str, Any]] = {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest"}


class Disliked(Exception):
    """The program aborts its transaction."""


class Loop:
    """The program: one consumer of a group, one transactional producer; and one that feeds it. The topics are there."""

    def __init__(self, run: Run[Any], bootstrap: str, partitions: int, *, is_member: bool) -> None:
        """Not `is_member`: it takes all partitions by itself."""
        self._run, self._bootstrap, self._places = run, bootstrap, places_of(IN, partitions)
        self._consumer, self._watcher = (run.enter(Consumer(bootstrap, **OPTIONS)) for _ in range(2))
        self._feeder, self._producer = (
            run.enter(Producer(bootstrap, transactional_id=name)) for name in (None, "loop")
        )
        if is_member:
            self._consumer.subscribe([IN])
        else:
            self._consumer.assign(self._places)
        self.fed = self.committed = self.transactions = self.aborted = 0

    def feed(self, count: int) -> None:
        """More numbers, one partition after the other. Raises if one is not taken."""
        numbers = range(self.fed, self.fed + count)
        sent = [self._feeder.send(IN, b"%d" % number, partition=number % len(self._places)) for number in numbers]
        self._feeder.flush()
        for future in sent:
            future.result()
        self.fed += count

    def drain(self) -> None:
        """Until every number is copied."""
        deadline = time.monotonic() + DRAIN_S
        while self.committed < self.fed:
            if time.monotonic() >= deadline:
                ends = self._watcher.end_offsets(self._places)
                stands = {place: (self._consumer.position(place), ends[place]) for place in self._places}
                text = f"{self.committed} of {self.fed} are copied; positions and ends: {stands}"
                self._run.report.wrong("not-copied", text)
                return
            self.step()

    def step(self, *, aborts: bool = False) -> None:
        """One transaction, if there is anything to copy."""
        records = self._consumer.poll(timeout_ms=500, max_records=BATCH)
        if not records:
            return
        try:
            with self._producer.transaction() as transaction:
                for record in records:
                    transaction.send(OUT, record.value, partition=record.partition)
                transaction.send_offsets(self._consumer)
                if aborts:
                    raise Disliked
        except (Disliked, TransactionAbortedError):
            self.aborted += 1
            self._consumer.seek_to_committed()
            return
        self.transactions += 1
        self.committed += len(records)
        for partition in {TopicPartition(record.topic, record.partition) for record in records}:
            last = max(record.offset for record in records if record.partition == partition.partition)
            committed = self._watcher.committed([partition])[partition]
            if committed is None or committed.offset <= last:
                self._run.report.wrong("went-back", f"{partition}: committed beyond {last}, told {committed}")

    def judge(self) -> None:
        """Everything that was fed is there once, and nothing was deleted."""
        starts = self._watcher.beginning_offsets(self._places)
        self._run.report.all_wrong(
            "deleted", (f"{place}: the log begins at {start}" for place, start in starts.items() if start)
        )
        found = copied(self._bootstrap, places_of(OUT, len(self._places)), self.fed)
        must_be_exactly_once(self._run.report, found)
        self._run.report.figures |= {
            "copied": self.committed,
            "transactions": self.transactions,
            "transactions_aborted": self.aborted,
            **found.figures(),
        }
