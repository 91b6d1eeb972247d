"""The settings, plans and statistics of the log cleaner: frozen values, no behaviour."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter, gauge, measured
from penstock.types import EpochEntry, TopicPartition
from storage.log_config import LogConfig
from storage.segment.transaction_index import AbortedRange

MIB = 1024 * 1024
NO_LIMIT = 2**63 - 1
NEVER_MS = 2**63
"""A horizon after every other: there is no tombstone, and no marker without records."""


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """A node's log.cleaner.* keys."""

    threads: int = 1
    dedupe_buffer_bytes: int = 128 * MIB
    """Memory for the offset maps of all threads together."""
    io_max_bytes_per_second: int = NO_LIMIT
    """The limit of bytes read and written, of all threads together."""
    backoff_ms: int = 15_000
    """How long a log waits after a cleaning that could not be finished."""


class Reason(Enum):
    """Why a log is cleaned."""

    DIRTY = "its dirty ratio is above min.cleanable.dirty.ratio"
    MAX_LAG = "max.compaction.lag.ms has passed"
    TOMBSTONES = "tombstones or markers are past their delete horizon"
    UNKNOWN_HORIZON = "it is not known when its tombstones and markers may go"


class SegmentFile(NamedTuple):
    """A full segment for a thread that must not touch the `Segment`."""

    path: str
    base_offset: int
    next_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """One pass over one log. Invariant: all below `end_offset` is flushed, committed and of decided transactions, in
    full segments."""

    topic_partition: TopicPartition
    directory: str
    reason: Reason
    segments: tuple[SegmentFile, ...]
    """The segments from the log's oldest on, without a hole; each begins below `end_offset`."""
    first_dirty_offset: int
    """The end of the last pass: no two records below it have the same key."""
    end_offset: int
    config: LogConfig
    epoch_entries: tuple[EpochEntry, ...]
    kept_offsets: frozenset[int] = frozenset()
    """The base offsets of batches that stay, if need be without records: their producers may send them again. And of
    markers that have the only epoch of their producers."""
    aborted: tuple[AbortedRange, ...] = ()
    """The aborted transactions that have records in these segments, or their markers."""


@dataclass(frozen=True, slots=True)
class PassStatistics:
    """The counts of one pass over one log."""

    topic_partition: TopicPartition
    reason: Reason
    first_dirty_offset: int
    end_offset: int
    """The next pass begins there; below the log's end where the map was full."""
    bytes_read: int
    bytes_written: int
    records_read: int
    """Records read while filtering, below `end_offset`; the map's reading of the dirty part is not counted."""
    records_kept: int
    tombstones_removed: int
    aborted_batches_removed: int
    markers_removed: int
    undecodable_batches: int
    """Batches that could not be decoded, and are kept as they are."""
    map_entries: int
    map_bytes: int
    groups: int
    replaced_segments: int
    map_ms: int
    filter_ms: int
    elapsed_ms: int
    """Swaps and waiting included."""
    next_horizon_ms: int | None
    """The time at which the first remaining tombstone or marker may be removed; None if none remains."""


@measured
class CleanerStatistics:
    """A snapshot of a node's cleaner."""

    passes: int = counter("penstock_cleaner_passes", "Passes of the cleaner that ended well.")
    horizon_scans: int
    aborted: int
    deferred: int
    """Given up for lack of room or descriptors, to be tried again."""
    given_up: int = counter(
        "penstock_cleaner_passes_given_up", "Passes of the cleaner that were given up. They are tried again."
    )
    """Passes that were aborted or deferred."""
    bytes_read: int = counter(
        "penstock_cleaner_bytes_read", "Bytes that the cleaner read, for its map of keys and for filtering."
    )
    bytes_written: int = counter("penstock_cleaner_bytes_written", "Bytes that the cleaner wrote.")
    records_read: int
    records_kept: int
    tombstones_removed: int = counter("penstock_cleaner_tombstones_removed", "Delete markers that the cleaner removed.")
    undecodable_batches: int = counter(
        "penstock_cleaner_undecodable_batches",
        "Batches whose records could not be decoded, and that passes kept as they were.",
    )
    throttled_ms: int
    max_dirty_ratio: float
    """The highest dirty ratio of any log, as of the last search for a log to clean."""
    running: tuple[TopicPartition, ...]
    uncleanable: tuple[tuple[TopicPartition, str], ...] = gauge(
        "penstock_cleaner_uncleanable_partitions", "Compacted logs that are not cleaned any more until a restart.", len
    )
    """The logs that are not cleaned any more, each with the reason."""
    last_pass: PassStatistics | None
