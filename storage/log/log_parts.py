"""LogParts: what the parts of one log share, made once when the log is opened.

Appends, reads, cuts and removals each know these and nothing of one another. Not here: what any of them does.
"""

from __future__ import annotations

from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition
from storage.disk.file_system import FileSystem
from storage.disk.small_file_writes import SmallFileWrites
from storage.log.file_changes import FileChanges
from storage.log.flush import FlushTracker
from storage.log.log_health import LogHealth
from storage.log.log_span import LogSpan
from storage.log.log_types import LogCounters, LogOptions
from storage.log.producers.producer_log import ProducerLog
from storage.log.segment_list import SegmentList
from storage.log_config import FlushPolicy, LogConfig
from storage.recovery.producer_recovery import replay_of
from storage.recovery.recovery import RecoveryOptions, open_segments
from storage.segment.epoch_cache import EpochCache


@dataclass(slots=True)
class LogSettings:
    """The settings that hold now; `Log.update_config` changes them."""

    config: LogConfig
    flush_policy: FlushPolicy


@dataclass(frozen=True, slots=True)
class LogParts:
    """The state of one log."""

    settings: LogSettings
    span: LogSpan
    segments: SegmentList
    epochs: EpochCache
    flushing: FlushTracker
    changes: FileChanges
    producers: ProducerLog
    health: LogHealth
    counters: LogCounters

    def begin_at(self, offset: int) -> None:
        """The records below the offset are no part of the log any more."""
        self.span.start = offset
        self.epochs.truncate_from_start(offset)

    def local_begins_at(self, offset: int) -> None:
        """The segments below the offset are not on this disk any more. No other storage has their records, so these are
        no part of the log either."""
        if self.span.local_start < offset:
            self.begin_at(offset)


def open_parts(
    fs: FileSystem, directory: str, topic_partition: TopicPartition, config: LogConfig, options: LogOptions
) -> LogParts:
    """The state of what the directory holds, with recovery as `options.last_known` tells; see `recovery.py`."""
    names, ids = SmallFileWrites(options.threads), options.producer_ids if config.keeps_producers else None
    recovering = RecoveryOptions(options.before_doubtful_cut, replay_of(ids), options.on_segment_checked)
    recovered = open_segments(
        fs=fs, directory=directory, config=config, last_known=options.last_known, names=names, options=recovering
    )
    end, health, epochs = recovered.log_end_offset, LogHealth(directory), recovered.epoch_cache
    segments = SegmentList(fs, directory, recovered.segments, options.open_files)
    producers = ProducerLog(
        fs=fs, health=health, ids=ids, segments=segments, epoch_cache=epochs, loaded=recovered.producers
    )
    return LogParts(
        settings=LogSettings(config, options.flush_policy),
        span=LogSpan(topic_partition, recovered.log_start_offset, end),
        segments=segments,
        epochs=epochs,
        flushing=FlushTracker(
            fs=fs,
            directory=directory,
            segments=segments,
            epoch_cache=epochs,
            snapshots=producers.snapshots,
            recovery_point=end,
            probe=options.probe,
        ),
        changes=FileChanges(fs, directory, options.threads.lock()),
        producers=producers,
        health=health,
        counters=LogCounters(recovery_cut_bytes=recovered.cut_bytes),
    )
