"""What a log is asked with and answers with: frozen values, no behaviour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.record.batch import BatchHeader
from penstock.threads import Threads
from penstock.types import TopicPartition
from storage.log_config import FlushPolicy
from storage.recovery.recovery import BeforeDoubtfulCut, LastKnown
from storage.segment.open_files import OpenFiles

LowerCheckpoints = Callable[[TopicPartition, int], None]
"""Makes durable that no checkpoint of the log dir claims more than this offset for the partition."""


def _keep_checkpoints(topic_partition: TopicPartition, offset: int) -> None:
    """For a log that stands alone, of which no checkpoint says anything."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How a log is opened, apart from its config."""

    threads: Threads
    topic_id: str = ""
    flush_policy: FlushPolicy = "fsync"
    last_known: LastKnown = field(default_factory=LastKnown)
    lower_checkpoints: LowerCheckpoints = _keep_checkpoints
    open_files: OpenFiles | None = None
    """Bounds the descriptors of all logs together; None: a log that stands alone."""
    before_doubtful_cut: BeforeDoubtfulCut | None = None


class AppendInfo(NamedTuple):
    """What an append did."""

    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    log_append_time_ms: int
    """The broker's time if the topic's records carry it, -1 otherwise."""
    record_count: int
    size_bytes: int

    @classmethod
    def of(cls, headers: Sequence[BatchHeader], size_bytes: int, log_append_time_ms: int) -> AppendInfo:
        """Of the batches as they were placed."""
        first, last = headers[0], headers[-1]
        max_timestamp_ms, records = first.max_timestamp_ms, first.record_count
        for header in headers[1:]:
            max_timestamp_ms = max(max_timestamp_ms, header.max_timestamp_ms)
            records += header.record_count
        return cls(first.base_offset, last.last_offset, max_timestamp_ms, log_append_time_ms, records, size_bytes)


class CleanedSegment(NamedTuple):
    """What the cleaner made of consecutive full segments, written and synced in a `.log.cleaned` file."""

    path: str
    base_offset: int
    """Invariant: that of the first segment it replaces; also the file's name."""
    next_offset: int
    """Invariant: that of the last segment it replaces: what stays is stretched up to there (`offset_tiling.py`)."""
    size_bytes: int


class FetchData(NamedTuple):
    """What a read found. `records` are whole batches; the first may begin below the offset that was asked for."""

    records: bytes
    next_offset: int
    """Where to read on: the offset after the last batch, or the one asked for when there is none."""
    log_start_offset: int
    log_end_offset: int


@dataclass(slots=True)
class LogCounters:
    """What one log has done since it was opened."""

    recovery_cut_bytes: int = 0
    appended_records: int = 0
    appended_bytes: int = 0
    read_bytes: int = 0
    rolls: int = 0
    truncations: int = 0
    removed_segments: int = 0
    replaced_segments: int = 0

    def as_fields(self) -> dict[str, int]:
        """For `LogStatistics`, which has the same names."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """A snapshot of one log."""

    topic_partition: TopicPartition
    size_bytes: int
    segments: int
    log_start_offset: int
    log_end_offset: int
    flushed_offset: int
    recovery_point: int
    appended_records: int
    appended_bytes: int
    read_bytes: int
    flushes: int
    rolls: int
    truncations: int
    removed_segments: int
    replaced_segments: int
    deleted_files: int
    """Files that wait to be unlinked."""
    index_rebuilds: int
    recovery_cut_bytes: int
    failed: bool


@dataclass(frozen=True, slots=True)
class OfflineLog:
    """A log that is not in use: where it stands and why."""

    directory: str
    error: PenstockError
    copies: tuple[str, ...] = ()
    """Where else the same partition stands."""
    topic_id: str = ""
    """Whose it is; "" where nobody can tell."""

    @property
    def directories(self) -> tuple[str, ...]:
        """Everywhere it stands."""
        return self.directory, *self.copies


@dataclass(frozen=True, slots=True)
class LogManagerStatistics:
    """A snapshot of all logs together."""

    logs: int
    size_bytes: int
    offline_logs: int
    log_dirs: int
    offline_log_dirs: int
    strays: int
    rotten: int
    deleted: int
    """Directories of deleted logs that are not removed yet."""
