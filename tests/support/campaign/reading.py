"""Reads partitions to their present end, as a judge does when the load is over.

`tables_of` gives what is there, piece by piece; `numbers_of` counts it where each value is a number, and `copied`
judges a topic of numbers into which each must have come once. Readers of committed records wait until no transaction is
open, or say in the end that one is.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from penstock import Admin, Consumer, TopicPartition
from tests.support.campaign.frame import Report
from tests.support.decided import DECIDED_S, wait_decided

READ_S: Final = 120.0
Level = Literal["read_committed", "read_uncommitted"]
COMMITTED: Final = "read_committed"
EVERYTHING: Final = "read_uncommitted"


def places_of(topic: str, partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(partitions)]


def tables_of(
    bootstrap: str,
    places: Sequence[TopicPartition],
    isolation_level: Level = EVERYTHING,
    *,
    timeout_s: float = READ_S,
    decided_s: float = DECIDED_S,
) -> Iterator[Any]:
    """Arrow tables of what is in the partitions now, of records as a consumer of this level gets them; TimeoutError if
    that takes longer."""
    if isolation_level == COMMITTED and decided_s:
        wait_decided(bootstrap, places, decided_s)
    deadline = time.monotonic() + timeout_s
    with Consumer(bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        while any(int(consumer.position(place).offset) < end for place, end in ends.items()):
            if time.monotonic() > deadline:
                stands = [(place, consumer.position(place), end) for place, end in ends.items()]
                raise TimeoutError(f"{isolation_level}: not at the end within {timeout_s:g} s: {stands}")
            yield consumer.poll_arrow(timeout_ms=500, max_records=100_000)


def values_of(bootstrap: str, places: Sequence[TopicPartition], isolation_level: Level = COMMITTED) -> Counter[bytes]:
    """How often each value is there."""
    found: Counter[bytes] = Counter()
    for table in tables_of(bootstrap, places, isolation_level):
        found.update(table.column("value").to_pylist())
    return found


def numbers_of(
    bootstrap: str,
    places: Sequence[TopicPartition],
    isolation_level: Level = COMMITTED,
    *,
    decided_s: float = DECIDED_S,
) -> Counter[int]:
    """How often each number is there."""
    found: Counter[int] = Counter()
    for table in tables_of(bootstrap, places, isolation_level, decided_s=decided_s):
        found.update(map(int, table.column("value").to_pylist()))
    return found


@dataclass(frozen=True, slots=True)
class Copied:
    """`written` counts the records of aborted attempts, too; `open_transactions` those that a partition has open when
    nobody writes any more."""

    committed: int
    missing: int
    doubled: int
    strange: int
    written: int
    open_transactions: int
    examples: tuple[str, ...]

    @property
    def aborted(self) -> int:
        return self.written - self.committed

    def figures(self) -> dict[str, object]:
        """The counts."""
        counts = {name: value for name, value in asdict(self).items() if name != "examples"}
        return {**counts, "aborted": self.aborted}


def copied(bootstrap: str, places: Sequence[TopicPartition], records: int) -> Copied:
    """Each number below `records` must be there once, for a reader of committed records."""
    committed = numbers_of(bootstrap, places)
    written = numbers_of(bootstrap, places, EVERYTHING)
    missing = [number for number in range(records) if not committed[number]]
    doubled = [number for number, count in committed.items() if count > 1]
    strange = [number for number in committed if not 0 <= number < records]
    with Admin(bootstrap) as admin:
        known = admin.describe_producers(places)
    opened = [
        f"{place}: {producer}"
        for place, producers in known.items()
        for producer in producers
        if producer.transaction_start_offset is not None
    ]
    examples = [f"{what} {found[:5]}" for what, found in (("missing", missing), ("doubled", doubled)) if found]
    return Copied(
        committed=committed.total(),
        missing=len(missing),
        doubled=len(doubled),
        strange=len(strange),
        written=written.total(),
        open_transactions=len(opened),
        examples=(*examples, *opened[:5]),
    )


def must_be_exactly_once(report: Report, found: Copied) -> None:
    """Whatever is not there once, and every transaction that is open, is wrong."""
    for kind in ("missing", "doubled", "strange", "open_transactions"):
        if count := getattr(found, kind):
            report.wrong(kind, "; ".join(found.examples), count)
