"""The clients' sightings in a campaign, held against each other: nothing acked is lost or doubled; order by key."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

Line = Sequence[object]
"""Partition, offset, key, value. The offset of an ack may be None: it is not known (clients/telling.py)."""


def contradictions(acked: Mapping[str, Sequence[Line]], read: Mapping[str, Sequence[Line]]) -> list[str]:
    """Sentences for a person, at most a few of each kind; none if all is well. By the names of the clients."""
    found: list[str] = []
    if not all(acked.values()) or not all(read.values()):
        counts = {name: len(lines) for name, lines in (*acked.items(), *read.items())}
        found.append(f"a client did nothing: {counts}")
    logs = {name: {(line[0], line[1]): (line[2], line[3]) for line in lines} for name, lines in read.items()}
    for name, lines in read.items():
        held = {tuple(line[:4]) for line in lines} | {(line[0], None, line[2], line[3]) for line in lines}
        for writer, acks in acked.items():
            lost = [ack for ack in acks if tuple(ack[:4]) not in held]
            found += [f"{name} does not have {ack}, acked to {writer}" for ack in lost[:3]]
        copies = Counter((line[2], line[3]) for line in lines)
        found += [f"{name} has {what} {count} times" for what, count in copies.items() if count > 1][:3]
        found += _disorder(name, lines)
    first, *others = logs.values()
    if any(other != first for other in others):
        found.append(f"the readers differ: { ({name: len(log) for name, log in logs.items()}) } places")
    return found


def _disorder(name: str, lines: Sequence[Line]) -> list[str]:
    """Offsets that do not rise in a partition, numbers that do not in a key, and keys in two partitions."""
    last_offset: dict[object, int] = defaultdict(lambda: -1)
    last_value: dict[object, int] = defaultdict(lambda: -1)
    home: dict[object, object] = {}
    found: list[str] = []
    for partition, offset, key, value in lines:
        assert isinstance(offset, int) and isinstance(value, int), lines
        if offset <= last_offset[partition]:
            found.append(f"{name} read offset {offset} of partition {partition} behind {last_offset[partition]}")
        if value <= last_value[key]:
            found.append(f"{name} read {value} of {key} behind {last_value[key]}")
        if home.setdefault(key, partition) != partition:
            found.append(f"{name} read {key} in partitions {home[key]} and {partition}")
        last_offset[partition], last_value[key] = offset, value
    return found[:3]
