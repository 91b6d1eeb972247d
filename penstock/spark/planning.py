"""Plans a read: the offset ranges, the number of tasks, and which data counts as lost.

Pure. Knows nothing of Spark or of a cluster; batch_reader.py and stream_reader.py give the numbers. Records are lost
only if the log start has passed them, if their topic was created again, or if the log was truncated below them, which
the leader epochs tell (KIP-320). An answer that is older than the checkpoint says nothing of that. A gap between
offsets is not a loss (compaction and markers leave gaps, SPARK-23685).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_EPOCH, NOTHING_SEEN, MetadataOffset, TopicPartition

_log = logging.getLogger(__name__)

OFFSET_MAX = 2**63 - 1


class OffsetAt(NamedTuple):
    """An answer to 'which offset?'; -1 when no record is that late."""

    offset: int
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic as planning sees it."""

    name: str
    topic_id: str
    partition_count: int


class DataLossError(PenstockError):
    """Records that should be read are not there any more; says which, and how to go on without them."""


class BrokerBehindError(PenstockError):
    """Every broker that answered has heard less than the checkpoint; nothing is lost, and asking again may help."""


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """A range that is read as a whole: offsets from `lo` up to, not including, `hi`.

    `hi` was seen in `leader_epoch`, and the driver had the metadata in `seen`: an executor, which may start anew,
    believes no broker that has heard less.
    """

    topic: str
    topic_id: str
    partition: int
    lo: int
    hi: int
    leader_epoch: int = NO_EPOCH
    seen: MetadataOffset = NOTHING_SEEN

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return max(self.hi - self.lo, 0)

    def __str__(self) -> str:
        return f"{self.topic_partition} [{self.lo}, {self.hi})"


Task = tuple[PlannedRange, ...]
"""The ranges that one Spark task reads, one after another."""


def report_loss(what: str, fail_on_data_loss: bool) -> None:
    """Raises, or only logs it if the user has decided that a gap is acceptable."""
    if fail_on_data_loss:
        raise DataLossError(
            f"{what}. Nothing was skipped: the query stops here. "
            "To go on without these records set the option failOnDataLoss=false"
        )
    _log.warning("%s; going on, because failOnDataLoss=false", what)


def clamp_to_log(
    span: PlannedRange, log_start_offset: int, log_end_offset: int, readable_end: int, fail_on_data_loss: bool
) -> PlannedRange:
    """The part of a range that is still in the log; what is missing is reported. `readable_end` is the log's end, or
    below it where a transaction is open: a range that ends between the two is whole, and its task waits."""
    if span.lo < log_start_offset and span.lo < span.hi:
        gone = f"[{span.lo}, {min(log_start_offset, span.hi)})"
        report_loss(
            f"{span.topic_partition}: offsets {gone} were deleted before they were read; "
            f"the log now starts at {log_start_offset}",
            fail_on_data_loss,
        )
        span = replace(span, lo=min(log_start_offset, span.hi))
    if span.hi > log_end_offset:
        report_loss(
            f"{span.topic_partition}: offsets up to {span.hi} were promised, but the log now ends at {log_end_offset}",
            fail_on_data_loss,
        )
        span = replace(span, hi=max(readable_end, span.lo))
    return span


def split(ranges: Iterable[PlannedRange], min_partitions: int = 0, max_records: int = 0) -> list[PlannedRange]:
    """Cuts ranges so that there are about `min_partitions` tasks and none reads more than `max_records` offsets.

    Larger ranges get more of the tasks (SPARK-18475, SPARK-36576). Empty ranges vanish.
    """
    left = [span for span in ranges if span.size]
    total = sum(span.size for span in left)
    pieces = []
    for span in left:
        count = 1
        if min_partitions > len(left):
            count = max(1, round(min_partitions * span.size / total))
        if max_records:
            count = max(count, -(-span.size // max_records))
        pieces += _cut(span, min(count, span.size))
    return pieces


def pack(pieces: Sequence[PlannedRange], offsets_max: int, tasks_min: int) -> list[Task]:
    """Puts small ranges together, in their order, so that a task is worth its cost; a larger one has its own task.

    No packed task has more than `offsets_max` offsets, and there are at least `tasks_min` tasks if there are as many
    pieces.
    """
    small = [piece for piece in pieces if piece.size < offsets_max]
    large = [(piece,) for piece in pieces if piece.size >= offsets_max]
    wanted = min(max(tasks_min - len(large), 1), len(small))
    most = max(min(offsets_max, -(-sum(piece.size for piece in small) // max(wanted, 1))), 1)
    packed = _fill(small, most)
    while len(packed) < wanted:  # pieces of different sizes
        most //= 2
        packed = _fill(small, most)
    return packed + large


def _fill(pieces: Iterable[PlannedRange], most: int) -> list[Task]:
    tasks: list[list[PlannedRange]] = []
    size = 0
    for piece in pieces:
        if not tasks or size + piece.size > most:
            tasks.append([])
            size = 0
        tasks[-1].append(piece)
        size += piece.size
    return [tuple(task) for task in tasks]


def _cut(span: PlannedRange, count: int) -> list[PlannedRange]:
    bounds = [span.lo + span.size * index // count for index in range(count + 1)]
    return [replace(span, lo=lo, hi=hi) for lo, hi in pairwise(bounds)]


def share(lags: Mapping[TopicPartition, int], limit: int) -> dict[TopicPartition, int]:
    """How many offsets each partition may advance when all together may advance by `limit`.

    In proportion to their lags, but never 0 for one that lags: a small partition beside a large one would starve (so a
    limit below the number of lagging partitions is exceeded, as in Spark's Kafka source).
    """
    lagging = {tp: lag for tp, lag in lags.items() if lag > 0}
    total = sum(lagging.values())
    if total <= limit:
        return lagging
    shares = {tp: max(1, limit * lag // total) for tp, lag in lagging.items()}
    left = limit - sum(shares.values())
    for tp in _by_lag(lagging):
        if left <= 0:
            break
        extra = min(left, lagging[tp] - shares[tp])
        shares[tp] += extra
        left -= extra
    for tp in _by_lag(lagging):  # the ones that were rounded up to 1 took it from the largest
        if left >= 0:
            break
        take = min(-left, shares[tp] - 1)
        shares[tp] -= take
        left += take
    return shares


def _by_lag(lags: Mapping[TopicPartition, int]) -> Sequence[TopicPartition]:
    return sorted(lags, key=lambda tp: (-lags[tp], tp))
