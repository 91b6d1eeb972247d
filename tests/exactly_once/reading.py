"""Reads the output to its end: how often each number is there, for a reader of committed records and for one of all."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from penstock import Admin, Consumer, TopicPartition
from tests.exactly_once.places import OUTPUT, PARTITIONS
from tests.support.decided import wait_decided

READ_S = 120.0
PLACES = [TopicPartition(OUTPUT, number) for number in range(PARTITIONS)]


@dataclass(frozen=True, slots=True)
class Found:
    """`open_transactions` are those that a partition has open when nobody writes any more."""

    committed: int
    missing: int
    doubled: int
    strange: int
    written: int
    open_transactions: int
    examples: tuple[str, ...]


def read(bootstrap: str, records: int) -> Found:
    wait_decided(bootstrap, PLACES)
    committed, all_of_them = (_counts(bootstrap, level) for level in ("read_committed", "read_uncommitted"))
    missing = [number for number in range(records) if not committed[number]]
    doubled = [number for number, count in committed.items() if count > 1]
    strange = [number for number in committed if not 0 <= number < records]
    with Admin(bootstrap) as admin:
        known = admin.describe_producers(PLACES)
    opened = [
        f"{tp}: {producer}"
        for tp, producers in known.items()
        for producer in producers
        if producer.transaction_start_offset is not None
    ]
    examples = (f"missing {missing[:5]}", f"doubled {doubled[:5]}", *opened[:5])
    return Found(
        committed.total(), len(missing), len(doubled), len(strange), all_of_them.total(), len(opened), examples
    )


def _counts(bootstrap: str, isolation_level: str) -> Counter[int]:
    found: Counter[int] = Counter()
    deadline = time.monotonic() + READ_S
    with Consumer(bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest") as consumer:
        consumer.assign(PLACES)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(PLACES)
        while any(int(consumer.position(tp).offset) < ends[tp] for tp in PLACES):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{isolation_level}: {[(tp, consumer.position(tp), ends[tp]) for tp in PLACES]}")
            table = consumer.poll_arrow(500, 100_000)
            found.update(int(value) for value in table.column("value").to_pylist())
    return found
