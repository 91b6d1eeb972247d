"""Reads the checkpoints of a log dir about its logs, without taking the dir into use.

A start reads the same files through `log_directory.py`, which locks the dir and removes the marker of a clean stop.
Here nothing is changed, and a damaged checkpoint is kept, because it must be reported.
"""

from __future__ import annotations

from penstock.errors import CorruptFileError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition
from storage.disk.checkpoint_file import read_offsets
from storage.disk.file_names import LOCK, LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, parse_partition_directory
from storage.disk.file_system import FileSystem
from storage.log_dirs.clean_shutdown import CleanStop, take_marker
from storage.recovery.recovery import LastKnown
from storage.tools.overlay import OverlayFileSystem
from storage.tools.target import OFFSET_CHECKPOINTS


@dataclass(frozen=True, slots=True)
class LogDirKnowledge:
    """The claims of one log dir."""

    checkpoints: dict[str, dict[TopicPartition, int]]
    """The readable checkpoints, by file name."""
    damaged: tuple[CorruptFileError, ...]
    clean_stop: CleanStop | None
    is_in_use: bool
    """A running node holds the dir."""

    def offset(self, checkpoint: str, topic_partition: TopicPartition | None) -> int | None:
        """The offset in the log's line; None without a line."""
        offsets = self.checkpoints.get(checkpoint, {})
        return None if topic_partition is None else offsets.get(topic_partition)

    def last_known(self, topic_partition: TopicPartition | None) -> LastKnown:
        """The last known state of a log, as `LogDirectory.last_known` has it at a start."""
        clean = self.clean_stop is not None
        if topic_partition is None:
            return LastKnown(clean)
        points, log_starts = map(self.checkpoints.get, (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT))
        return LastKnown.of(topic_partition, clean=clean, recovery_points=points, log_starts=log_starts or {})


NOTHING_KNOWN = LogDirKnowledge({}, (), None, False)
"""The knowledge for a log that stands alone."""


def read_knowledge(log_dir: str | None) -> LogDirKnowledge:
    """Reads the machine's files, even if the caller works on an overlay: it reads before anything changes."""
    if log_dir is None:
        return NOTHING_KNOWN
    fs = OverlayFileSystem()
    checkpoints: dict[str, dict[TopicPartition, int]] = {}
    damaged = []
    for name in OFFSET_CHECKPOINTS:
        try:
            offsets = read_offsets(fs, f"{log_dir}/{name}")
        except CorruptFileError as damage:
            damaged.append(damage)
            continue
        if offsets is not None:
            checkpoints[name] = offsets
    if RECOVERY_POINT_CHECKPOINT not in checkpoints and not any(map(parse_partition_directory, fs.listdir(log_dir))):
        checkpoints[RECOVERY_POINT_CHECKPOINT] = {}
    return LogDirKnowledge(checkpoints, tuple(damaged), take_marker(fs, log_dir), is_in_use(fs, log_dir))


def is_in_use(fs: FileSystem, log_dir: str) -> bool:
    """True if a running node holds the dir. The look holds the lock for a moment: a node that starts just then is
    refused."""
    try:
        fs.close(fs.lock(f"{log_dir}/{LOCK}"))
    except BlockingIOError:
        return True
    except OSError:  # no permission, or a file system without locks: it cannot be known
        return False
    return False
