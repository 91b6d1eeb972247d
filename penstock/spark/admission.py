"""Decides by bytes: how many offsets of each partition a micro-batch may take (maxBytesPerTrigger), and a task.

No request tells how many bytes lie between two offsets. So the backlog is sampled: a small fetch gives the bytes of
some offsets at one place. A sample counts for the offsets that follow it, at most for three times as many as were
covered before it; then the next is taken. So the number of samples grows with the logarithm of the backlog, and a
change of record sizes is seen before a micro-batch is many times too large. The limit is soft, as Spark's own are.
The fetch is `sampler`'s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from penstock.errors import (
    OffsetOutOfRangeError,
    TopicRecreatedError,
    UndecodableBatchError,
    UnknownTopicOrPartitionError,
)
from penstock.record.batch import iter_headers
from penstock.spark.log_client import LogClient
from penstock.spark.planning import PlannedRange, Task, pack, share
from penstock.types import TopicPartition

PACK_OFFSETS, PACK_BYTES = 8_192, 4 * 1024 * 1024
"""The most offsets and bytes of a packed task: about one Arrow batch. More would take longer to read than a task
costs."""
PACK_SAMPLES = 8
"""Partitions that are sampled for it, one of each topic."""
TASKS_MIN = max(4, os.cpu_count() or 1)
"""Tasks that are left at least, so that heavy work on few rows keeps its processors."""
REACH = 3
"""How many times the offsets covered so far one more sample may stand for."""


class Sample(NamedTuple):
    """The bytes of some offsets, at least one, that follow each other."""

    offsets: int
    size_bytes: int

    @property
    def bytes_per_offset(self) -> float:
        return self.size_bytes / self.offsets


TakeSample = Callable[[TopicPartition, int], Sample]


def sampler(client: LogClient, topic_ids: Mapping[str, str]) -> TakeSample:
    """Samples of these topics, in whole batches, of which the first may begin below the wanted offset.

    A range that cannot be fetched has no bytes: planning and reading say what is wrong there.
    """

    def take(tp: TopicPartition, offset: int) -> Sample:
        try:
            piece = client.sample(tp, offset, topic_ids[tp.topic])
        except (OffsetOutOfRangeError, TopicRecreatedError, UndecodableBatchError, UnknownTopicOrPartitionError):
            return Sample(1, 0)
        first = next((header.base_offset for _, header in iter_headers(piece.records)), piece.from_offset)
        return Sample(max(piece.next_offset - first, 1), len(piece.records))

    return take


def packed_tasks(
    take: TakeSample, pieces: Sequence[PlannedRange], max_records: int = 0, min_partitions: int = 0
) -> list[Task]:
    """The tasks that read these ranges: small ones together, within what the user and PACK_… allow."""
    tasks_min = max(TASKS_MIN, min_partitions)
    if len(pieces) <= tasks_min:
        return [(piece,) for piece in pieces]
    longest: dict[str, PlannedRange] = {}
    for piece in sorted(pieces, key=lambda piece: piece.size):
        longest[piece.topic] = piece
    sampled = sorted(longest.values(), key=lambda piece: -piece.size)[:PACK_SAMPLES]
    offset_bytes = max(take(piece.topic_partition, piece.lo).bytes_per_offset for piece in sampled)
    offsets_max = min(PACK_OFFSETS, max_records or PACK_OFFSETS, int(PACK_BYTES / max(offset_bytes, 1)))
    return pack(pieces, max(offsets_max, 1), tasks_min)


def rows_by_bytes(
    take: TakeSample, begins: Mapping[TopicPartition, int], lags: Mapping[TopicPartition, int], max_bytes: int
) -> dict[TopicPartition, int]:
    """How many offsets each lagging partition may advance so that all together have about `max_bytes`.

    The bytes are shared by the bytes that wait. Each lagging partition gets at least one offset, as in `share`.
    """
    first = {tp: take(tp, begins[tp]) for tp, lag in lags.items() if lag > 0}
    waiting = {tp: max(round(lags[tp] * sample.bytes_per_offset), 1) for tp, sample in first.items()}
    budgets = share(waiting, max_bytes)
    spare = max(max_bytes - sum(budgets.values()), 0) // max(len(budgets), 1)

    return {
        tp: _reach(lambda covered, tp=tp: take(tp, begins[tp] + covered), sample, lags[tp], budgets[tp] + spare)  # type: ignore[misc]
        for tp, sample in first.items()
    }


def _reach(sample_after: Callable[[int], Sample], sample: Sample, lag: int, budget: int) -> int:
    """The offsets from the beginning of the lag, 1 to all, that have about `budget` bytes."""
    covered, used = 0, 0.0
    while True:
        step = min(max(sample.offsets, covered * REACH), lag - covered)
        size = step * sample.bytes_per_offset
        if used + size > budget:
            return max(covered + int((budget - used) / sample.bytes_per_offset), 1)
        covered, used = covered + step, used + size
        if covered >= lag:
            return lag
        sample = sample_after(covered)
