"""The arguments and results of a log: frozen values, no behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, field
from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter, gauge, measured
from penstock.threads import Threads
from penstock.types import TopicPartition
from storage.append.producer_ids import ProducerIds
from storage.disk.file_system import Found
from storage.log.log_probe import UNHEARD_LOG, LogProbe
from storage.log_config import FlushPolicy
from storage.recovery.recovery import BeforeDoubtfulCut, LastKnown
from storage.segment.open_files import OpenFiles
from storage.segment.transaction_index import AbortedRange

LowerCheckpoints = Callable[[TopicPartition, int, int], None]
"""Lowers the checkpoints of the log dir to at most the first offset for the partition, durably, and its log start to at
most the second."""


def _keep_checkpoints(topic_partition: TopicPartition, offset: int, log_start: int) -> None:
    """Does nothing, for a log outside a log dir: it has no line in any checkpoint."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How a log is opened; its topic's configuration is not part of it."""

    threads: Threads
    topic_id: str = ""
    flush_policy: FlushPolicy = "fsync"
    last_known: LastKnown = field(default_factory=LastKnown)
    lower_checkpoints: LowerCheckpoints = _keep_checkpoints
    open_files: OpenFiles | None = None
    """Bounds the descriptors of all logs together; None: a log that stands alone."""
    before_doubtful_cut: BeforeDoubtfulCut | None = None
    producer_ids: ProducerIds | None = None
    """Bounds the producers of all logs together; None: the log takes no batches of idempotent producers."""
    on_segment_checked: Callable[[], None] = lambda: None
    """Called for each segment that recovery has checked."""
    rolls_when_flushed: bool = False
    """A full segment takes appends until the caller rolls, after a flush: its disk has just answered then."""
    probe: LogProbe = UNHEARD_LOG


class CleanedSegment(NamedTuple):
    """A cleaned segment that will replace consecutive full segments; it is in a synced `.log.cleaned` file."""

    path: str
    base_offset: int
    """Invariant: the base offset of the first replaced segment; also the file's name."""
    next_offset: int
    """Invariant: the next offset of the last replaced segment; the last batch is stretched to it
    (`offset_tiling.py`)."""
    size_bytes: int
    aborted: tuple[AbortedRange, ...] = ()
    """The aborted transactions that have their marker here, and a batch left; the new index has no others."""


class FetchData(NamedTuple):
    """The result of a read. `records` are whole batches; the first may begin below the requested offset."""

    records: Found
    next_offset: int
    """The offset at which the next read begins: after the last batch, or the requested offset if there is no batch."""
    log_start_offset: int
    log_end_offset: int


@dataclass(slots=True)
class LogCounters:
    """Counts of one log since it was opened."""

    recovery_cut_bytes: int = 0
    appended_records: int = 0
    appended_bytes: int = 0
    read_bytes: int = 0
    rolls: int = 0
    truncations: int = 0
    removed_segments: int = 0
    replaced_segments: int = 0

    def as_fields(self) -> dict[str, int]:
        """The counts for `LogStatistics`, which has the same names."""
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


@measured
class GroupCommitStatistics:
    """A snapshot; `requests / flushes` is how many waiters one fdatasync serves."""

    requests: int
    flushes: int = counter("penstock_log_flushes", "Group commits (fdatasync) since the start.")
    in_flight: int
    queued: int
    failed_log_dirs: tuple[str, ...]
    deferrals: int = counter(
        "penstock_log_flushes_deferred", "Flushes that found no room on the disk, and were tried again."
    )
    deferred: int = gauge("penstock_logs_without_room", "Logs whose flush waits for room on the disk.")


@dataclass(frozen=True, slots=True)
class OfflineLog:
    """A log that is not in use: its directory, and why."""

    directory: str
    error: PenstockError
    copies: tuple[str, ...] = ()
    """Other directories of the same partition."""
    topic_id: str = ""
    """The topic that it belongs to; "" when not known."""
    recovery_point: int | None = None
    """How far it was flushed, of a log that was in use; None: the checkpoint of its log dir has the say."""
    settle: Callable[[], object] = lambda: None
    """Blocks until no thread works in the directory any more; called BEFORE that gets another name."""

    @property
    def directories(self) -> tuple[str, ...]:
        """All its directories."""
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
