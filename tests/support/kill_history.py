"""What a kill campaign has seen, and what is wrong with it: the judge, without a cluster.

A history holds the acks that the writers got, what the reader saw while nodes died, and the log as it was read again
in the end. Values are unique, so that a value names one send. Wrong is: an acked record that is not at its offset
(lost); an offset that holds another value than was seen before, or that was seen twice, or skipped (inconsistent); a
value that nobody sent (phantom); a writer's values out of the order in which they were sent. A value at two offsets
is a duplicate, which a producer without idempotence may make, so it is only counted. Not here: killing
(kill_campaign.py) and the bytes on the disks (replica_bytes.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

EXAMPLES_MAX = 5


class Seen(NamedTuple):
    """One record as the reader got it."""

    partition: int
    offset: int
    value: bytes


@dataclass(slots=True)
class History:
    """`acked[value]` is where the ack said it stands; `sent` also holds what failed or was never answered."""

    sent: set[bytes] = field(default_factory=set)
    acked: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    log: Mapping[int, Sequence[Seen]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts, and examples of what is wrong in words."""

    lost: int
    inconsistent: int
    phantom: int
    out_of_order: int
    duplicates: int
    examples: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not (self.lost or self.inconsistent or self.phantom or self.out_of_order)


def judge(history: History) -> Verdict:
    """Looks for every anomaly that the module names."""
    at = {(r.partition, r.offset): r.value for records in history.log.values() for r in records}
    lost = [
        f"lost: {value!r} was acked at {place}, which holds {at.get(place)!r}"
        for value, place in history.acked.items()
        if at.get(place) != value
    ]
    inconsistent = _gaps(history.log) + _changes(history.seen, at)
    values = Counter(at.values())
    phantom = [f"phantom: {value!r} was never sent" for value in values if value not in history.sent]
    out_of_order = _out_of_order(history.log)
    wrong = [*lost, *inconsistent, *phantom, *out_of_order]
    duplicates = sum(count - 1 for count in values.values())
    return Verdict(
        len(lost), len(inconsistent), len(phantom), len(out_of_order), duplicates, tuple(wrong[:EXAMPLES_MAX])
    )


def _gaps(log: Mapping[int, Sequence[Seen]]) -> list[str]:
    """Offsets are dense from 0."""
    return [
        f"inconsistent: partition {partition} has offset {record.offset} where {expected} belongs"
        for partition, records in log.items()
        for expected, record in enumerate(records)
        if record.offset != expected
    ]


def _changes(seen: Sequence[Seen], at: Mapping[tuple[int, int], bytes]) -> list[str]:
    """What the reader saw, in its order, against the log of the end."""
    wrong: list[str] = []
    expected: Counter[int] = Counter()
    for record in seen:
        place = record.partition, record.offset
        if record.offset != expected[record.partition]:
            wrong.append(f"inconsistent: read offset {record.offset} of {place}, expected {expected[record.partition]}")
        expected[record.partition] = record.offset + 1
        if at.get(place) != record.value:
            wrong.append(f"inconsistent: {place} was {record.value!r} and is {at.get(place)!r}")
    return wrong


def _out_of_order(log: Mapping[int, Sequence[Seen]]) -> list[str]:
    """The first time that each value stands in the log; values are WRITER-NUMBER."""
    wrong: list[str] = []
    for partition, records in log.items():
        known: set[bytes] = set()
        last: dict[bytes, int] = {}
        for record in records:
            if record.value in known:
                continue
            known.add(record.value)
            writer, number = record.value.split(b"-")[:2]
            if int(number) < last.get(writer, -1):
                wrong.append(f"out of order: {record.value!r} at {partition}/{record.offset} after {last[writer]}")
            last[writer] = max(int(number), last.get(writer, -1))
    return wrong
