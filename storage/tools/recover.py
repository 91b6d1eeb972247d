"""`penstock log recover`: does to a stopped directory what a start would do, without a node.

It runs the code of a start. The log dir is locked (refused while a running node has it), and the marker of a clean stop
is removed. Each log is opened with its checkpoints, which tidies, checks, cuts and rebuilds it (`recovery.py`), and
closed again, which writes its indexes. A log that has rotted is refused and not changed. A dry run does the same on an
overlay (`overlay.py`).

Checkpoints stay true: they are lowered BEFORE records are cut, and have the recovery points afterwards. The marker is
put back only if no record below a recovery point was given up: a node that has lost acked records must not look as if
it had stopped cleanly (KIP-966). Records are lost at damage only if `truncate_at` has the log and exactly that offset
(`truncation.py` finds it, a person agrees). Files that begin behind deleted damage (`start_at`) lose nothing, and no
checkpoint changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace

from penstock.clock import Clock
from penstock.errors import CorruptFileError
from penstock.lazy_dataclass import dataclass
from penstock.threads import Threads
from penstock.types import METADATA_TOPIC, TopicPartition
from storage.append.producer_ids import ProducerIdConfig, ProducerIds
from storage.disk.atomic_file import write_atomically
from storage.disk.disk_errors import storage_error
from storage.disk.file_names import DELETE_DIRECTORY_SUFFIX, parse_partition_directory, set_aside_suffix
from storage.disk.file_system import FileSystem, remove_tree
from storage.disk.partition_metadata import read_topic_id
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from storage.log_dirs.clean_shutdown import NO_BROKER_EPOCH
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_table import LogId
from storage.recovery.recovery import LastKnown
from storage.segment.segment import Segment
from storage.tools.recorded import Change, RecordedFileSystem
from storage.tools.restart import begin_at
from storage.tools.target import LogPath, Target
from storage.tools.verify.findings import Finding, remedy_for_damage

_NOBODY = TopicPartition("unnamed", 0)
"""The name of a directory that is no partition's; a log needs a name only for its messages."""
_UNBOUNDED = ProducerIdConfig(max_per_partition=2**31, max_per_node=2**31)
"""The node has its own bounds, which are not known here."""


@dataclass(frozen=True, slots=True)
class RecoverOptions:
    """The actions that a start would not take."""

    rebuild_indexes: bool = False
    truncate_at: Mapping[str, int] = field(default_factory=dict)
    """Directory to offset: these logs are to end there, and everything from there on is lost."""
    start_at: Mapping[str, int] = field(default_factory=dict)
    """Directory to offset: the files of these logs are to begin there, behind damage below the log start."""
    agreed_at: Callable[[LogPath], int | None] = lambda log: None
    """The place where such a log would be cut, or begin, now, while the lock is held: it must be the place that was
    agreed to."""
    on_read: Callable[[int], None] = lambda count: None


@dataclass(frozen=True, slots=True)
class Recovered:
    """One log that is in order now."""

    directory: str
    log_start_offset: int
    log_end_offset: int
    cut_bytes: int


def recover(
    fs: FileSystem, target: Target, options: RecoverOptions, threads: Threads, clock: Clock
) -> Iterator[Change | Finding | Recovered]:
    """Yields each change when it is done."""
    recorded = RecordedFileSystem(fs, options.on_read)
    ids = ProducerIds(_UNBOUNDED, clock, threads)
    if target.log_dir is None:
        for log in target.logs:
            yield from _Recovery(recorded, None, options, LogOptions(threads, producer_ids=ids)).run(log)
        return
    yield from _in_log_dir(recorded, target, target.log_dir, options, LogOptions(threads, producer_ids=ids))


def _in_log_dir(
    fs: RecordedFileSystem, target: Target, log_dir: str, options: RecoverOptions, log_options: LogOptions
) -> Iterator[Change | Finding | Recovered]:
    directory = LogDirectory(fs, log_dir, log_options.threads)
    closed = False
    try:
        recovery = _Recovery(fs, directory, options, log_options)
        for log in target.logs:
            yield from recovery.run(log)
        if target.is_log_dir:
            _remove_deleted(fs, log_dir)
        recovery.checkpoint()
        yield from fs.take_changes()
        stop = directory.clean_stop
        closed = True
        if stop is not None and not options.truncate_at:
            directory.close(clean=True, broker_epoch=stop.broker_epoch, directory_ids=stop.directory_ids or ())
        else:
            directory.close(clean=False, broker_epoch=NO_BROKER_EPOCH)
    except OSError as error:
        raise storage_error("recover", log_dir, error) from error
    finally:
        if not closed:
            with contextlib.suppress(OSError):
                directory.close(clean=False, broker_epoch=NO_BROKER_EPOCH)


def _remove_deleted(fs: FileSystem, log_dir: str) -> None:
    for name in fs.listdir(log_dir):
        if set_aside_suffix(name) == DELETE_DIRECTORY_SUFFIX:
            remove_tree(fs, f"{log_dir}/{name}")


class _Recovery:
    """Recovers the logs of one target, one after another."""

    def __init__(
        self,
        fs: RecordedFileSystem,
        directory: LogDirectory | None,
        options: RecoverOptions,
        log_options: LogOptions,
    ) -> None:
        self._fs, self._directory, self._options, self._log_options = fs, directory, options, log_options
        self._recovered: dict[TopicPartition, Recovered] = {}

    def run(self, path: LogPath) -> Iterator[Change | Finding | Recovered]:
        tp = path.topic_partition
        if not self._is_as_agreed(path):
            what = "the damage is not where it was when it was agreed what to do; the log was left alone"
            yield Finding("damage", "changed", path.directory, what, "look again, and agree again")
            return
        last_known = self._last_known(path)
        options = replace(self._log_options, last_known=last_known)
        if self._directory is not None and tp is not None:
            options = replace(options, lower_checkpoints=self._directory.lower_checkpoints)
        try:
            self._begin_behind_damage(path, last_known)
            config = LogConfig(keeps_producers=tp is None or tp.topic != METADATA_TOPIC)
            log = Log(self._fs, path.directory, tp or _NOBODY, config, options)
        except CorruptFileError as damage:
            yield from self._fs.take_changes()
            remedy = remedy_for_damage(tp)
            yield Finding("damage", "rot", damage.path, damage.why, remedy, position=damage.position)
            return
        except OSError as error:
            raise storage_error("recover", path.directory, error) from error
        try:
            if self._options.rebuild_indexes:
                self._rebuild_indexes(log, log.segments)
            elif path.directory in self._options.start_at:
                self._rebuild_indexes(log, list(log.segments)[:1])
            end, start, cut_bytes = log.log_end_offset, log.log_start_offset, log.statistics().recovery_cut_bytes
            log.close()
        finally:
            log.abandon()
        found = Recovered(path.directory, start, end, cut_bytes)
        if tp is not None and self._directory is not None:
            self._directory.lower_checkpoints(tp, end)
            self._recovered[tp] = found
        yield from self._fs.take_changes()
        yield found

    def _last_known(self, path: LogPath) -> LastKnown:
        """The last known state, as for a start. A log that will be truncated counts as flushed only up to that
        offset."""
        tp = path.topic_partition
        known = LastKnown()
        if self._directory is not None and tp is not None:
            known = self._directory.last_known(tp)
        end = self._options.truncate_at.get(path.directory)
        if end is None:
            return known
        if self._directory is not None and tp is not None:
            self._directory.lower_checkpoints(tp, end)  # durable BEFORE any record is cut
        return LastKnown(False, end, min(known.log_start_offset, end))

    def _is_as_agreed(self, path: LogPath) -> bool:
        options, directory = self._options, path.directory
        agreed = options.truncate_at.get(directory, options.start_at.get(directory))
        return agreed is None or options.agreed_at(path) == agreed

    def _begin_behind_damage(self, path: LogPath, last_known: LastKnown) -> None:
        offset = self._options.start_at.get(path.directory)
        if offset is not None:
            begin_at(self._fs, path.directory, offset, max(offset, last_known.log_start_offset))

    def _rebuild_indexes(self, log: Log, segments: Iterable[Segment]) -> None:
        """One segment after another, written and forgotten: memory does not grow with the log."""
        for segment in segments:
            segment.indexes.rebuild(segment.file(), "asked for")
            for path, content in segment.indexes.contents():
                write_atomically(self._fs, path, content, sync_directory=False)
            segment.indexes.dirty = False
            segment.release()
        self._fs.fsync_dir(log.directory)

    def checkpoint(self) -> None:
        """The recovery points of what was recovered; other logs in the dir keep theirs, and those that are gone."""
        directory = self._directory
        if directory is None:
            return
        here = map(parse_partition_directory, self._fs.listdir(directory.path))
        recovered = self._recovered
        others = {LogId(tp, "") for tp in here if tp is not None} | directory.flushed_logs()
        kept = [log_id for log_id in others if log_id.topic_partition not in recovered]
        points = {LogId(tp, self._topic_id(log.directory)): log.log_end_offset for tp, log in recovered.items()}
        directory.checkpoint_recovery_points(lambda: points, lambda: kept)

    def _topic_id(self, path: str) -> str:
        with contextlib.suppress(CorruptFileError):
            return read_topic_id(self._fs, path) or ""
        return ""

    def __repr__(self) -> str:
        return f"_Recovery({self._directory}, {len(self._recovered)} recovered)"
