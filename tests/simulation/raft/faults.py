"""The faults of one simulated run: drawn from the seed, each seed its own mix, a quarter of the time nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities for each message, and mean times between events of each kind (ms; 0: never)."""

    drop: float = 0.0
    duplicate: float = 0.0
    late: float = 0.0
    """A message takes up to 5 s in place of a few ms."""
    partition_every_ms: int = 0
    crash_every_ms: int = 0
    leader_crash_every_ms: int = 0
    """A crash of whoever leads: aims at the moments after an election, where figure 8 lives."""
    pause_every_ms: int = 0
    lose_every_ms: int = 0
    """A power cut after which the disk has lost votes, records, or both; never on so many that no majority is whole."""
    slow_disk: float = 0.0
    """An fsync takes up to 400 ms."""
    snapshot_every_ms: int = 0
    """Some node writes a snapshot of what is committed, and cuts its log."""
    snapshot_chunk_bytes: int = 0
    """Limit for a part of a snapshot, and for a fetch answer, too; 0: no snapshots."""
    rot: float = 0.0
    """So many of the answers with a part of a snapshot are damaged."""
    tiny_fetches: bool = False
    """One batch in each fetch answer, so that followers stop between any two batches."""


def draw(random: Random) -> Faults:
    if random.random() < 0.25:
        return Faults()
    faults = Faults(
        drop=random.choice((0.0, 0.02, 0.1, 0.3)),
        duplicate=random.choice((0.0, 0.05, 0.2)),
        late=random.choice((0.0, 0.01, 0.1)),
        partition_every_ms=random.choice((0, 400, 1_500)),
        crash_every_ms=random.choice((0, 300, 1_000)),
        leader_crash_every_ms=random.choice((0, 300, 700)),
        pause_every_ms=random.choice((0, 0, 1_500)),
        slow_disk=random.choice((0.0, 0.05, 0.3)),
        tiny_fetches=random.random() < 0.5,
    )
    faults = replace(faults, lose_every_ms=random.choice((0, 0, 400, 1_200)))
    every_ms = random.choice((0, 60, 250, 1_000))
    if not every_ms:
        return faults
    return replace(
        faults,
        snapshot_every_ms=every_ms,
        snapshot_chunk_bytes=random.choice((200, 2_000)),
        rot=random.choice((0.0, 0.0, 0.3)),
    )
