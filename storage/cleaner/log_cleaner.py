"""The log cleaner of a node: chooses a log, runs a pass over it in steps, and remembers the pass's findings.

A pass is a generator. The code between its steps runs on the loop, where logs live. Each step is blocking work, which
the driver runs in any thread (`blocking_step.py`):

    chosen = cleaner.choose(clock.wall_ms())
    for step in cleaner.clean(chosen, clock.wall_ms()):
        await loop.run_in_executor(executor, step)

How a pass may end:

  success                                      the checkpoint is raised, AFTER all its swaps are durable
  told to stop, or its segments left the log   nothing is lost; the log has to wait for log.cleaner.backoff.ms
  no room, no descriptors                      likewise; finished swaps stay, half-written files are removed
  damage                                       CorruptFileError to the driver: the log goes offline
  another disk error                           KafkaStorageError to the driver: the log dir goes offline
  any other error                              the log is *uncleanable* until a restart, and reported; other logs go on

A pass takes full segments that are flushed and below the last stable offset. Each roll leaves one for a moment that is
not. If it stays so (the ISR is too small to commit, a disk takes no flush, a transaction hangs), the log grows without
bound, and nothing else tells: `HeldUpLogs` writes a line once the log has been dirty enough for `PATIENCE_MS`, and
again each `AGAIN_MS`.

Used from one thread, except for the steps. Not here: `cleaner_plan.py` decides, `segment_cleaning.py` has the blocking
part, the broker the threads and schedules.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from penstock.clock import Clock
from penstock.errors import CleaningAbortedError, CorruptFileError, KafkaStorageError
from penstock.lazy_dataclass import dataclass
from penstock.threads import Threads
from penstock.types import TopicPartition
from storage.cleaner.batch_filter import TombstoneRule
from storage.cleaner.blocking_step import Steps, in_thread
from storage.cleaner.cleaner_log_view import Candidate, LogToClean
from storage.cleaner.cleaner_plan import Assessment, KnownHorizon, assess
from storage.cleaner.cleaner_throttle import CleanerThrottle, Pace, StopSignal
from storage.cleaner.cleaner_types import CleanerConfig, CleanerStatistics, PassStatistics, Reason
from storage.cleaner.offset_map import OffsetMap
from storage.cleaner.segment_cleaning import Cleaning
from storage.cleaner.segment_reads import Surroundings
from storage.disk.disk_errors import is_shortage, storage_error
from storage.disk.file_system import FileSystem
from storage.log.log_types import CleanedSegment
from storage.segment.segment import Segment

_log = logging.getLogger(__name__)

PATIENCE_MS = 60_000
AGAIN_MS = 60 * 60_000


@dataclass(slots=True)
class _HeldUp:
    since_ms: int
    said_ms: int | None = None


class HeldUpLogs:
    """The logs of a node that are due for cleaning, but held up."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, _HeldUp] = {}

    def note(self, found: dict[TopicPartition, str], now_ms: int) -> None:
        """These logs are held up now, and why; no others are. Monotonic time."""
        self._held = {one: self._held.get(one) or _HeldUp(now_ms) for one in found}
        for topic_partition, why in found.items():
            held = self._held[topic_partition]
            waited_ms = now_ms - held.since_ms
            if waited_ms >= PATIENCE_MS and (held.said_ms is None or now_ms - held.said_ms >= AGAIN_MS):
                held.said_ms = now_ms
                _log.warning(
                    "%s: not cleaned for %d s, although it is due: %s", topic_partition, waited_ms // 1000, why
                )

    def __repr__(self) -> str:
        return f"HeldUpLogs({len(self._held)})"


@dataclass(slots=True)
class _Totals:
    passes: int = 0
    horizon_scans: int = 0
    aborted: int = 0
    deferred: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    tombstones_removed: int = 0
    undecodable_batches: int = 0

    def add(self, done: PassStatistics) -> None:
        self.bytes_read += done.bytes_read
        self.bytes_written += done.bytes_written
        self.records_read += done.records_read
        self.records_kept += done.records_kept
        self.tombstones_removed += done.tombstones_removed
        self.undecodable_batches += done.undecodable_batches


class LogCleaner:
    """One for a node; several passes may run at a time, over different logs."""

    def __init__(
        self,
        fs: FileSystem,
        config: CleanerConfig,
        candidates: Callable[[], Iterable[Candidate]],
        clock: Clock,
        threads: Threads,
    ) -> None:
        self._fs, self.config, self._candidates, self._clock = fs, config, candidates, clock
        self._threads = threads
        self._throttle = CleanerThrottle(config.io_max_bytes_per_second, clock.now_ms, threads.lock())
        self._running: dict[TopicPartition, StopSignal] = {}
        self._horizons: dict[TopicPartition, KnownHorizon] = {}
        """Lost with the process; then a pass over a log's headers finds it again, once."""
        self._not_before_ms: dict[TopicPartition, int] = {}
        self._uncleanable: dict[TopicPartition, str] = {}
        self._totals = _Totals()
        self._max_dirty_ratio = 0.0
        self._held_up = HeldUpLogs()
        self._last_pass: PassStatistics | None = None
        self._stopped = False

    def reconfigure(self, io_max_bytes_per_second: int, backoff_ms: int) -> None:
        """Changes the settings, for passes under way too."""
        self.config = replace(self.config, io_max_bytes_per_second=io_max_bytes_per_second, backoff_ms=backoff_ms)
        self._throttle.change(io_max_bytes_per_second)

    # -- choosing ------------------------------------------------------------------------------------------------------

    def choose(self, now_ms: int) -> LogToClean | None:
        """The log to clean next, or None; `clean` must follow at once. `now_ms` is wall time."""
        best: tuple[Candidate, Assessment, Reason] | None = None
        self._max_dirty_ratio = 0.0
        held_up: dict[TopicPartition, str] = {}
        for candidate in () if self._stopped else self._candidates():
            assessment = self._assess(candidate, now_ms)
            if assessment is None:
                continue
            self._max_dirty_ratio = max(self._max_dirty_ratio, assessment.uncleaned_ratio)
            reason = assessment.reason
            if assessment.held_up_bytes and assessment.uncleaned_ratio > candidate.log.config.min_cleanable_dirty_ratio:
                held_up[candidate.log.topic_partition] = candidate.why_held_up()
            if reason is not None and (best is None or assessment.urgency > best[1].urgency):
                best = candidate, assessment, reason
        self._held_up.note(held_up, self._clock.now_ms())
        return None if best is None else LogToClean.of(*best)

    def _assess(self, candidate: Candidate, now_ms: int) -> Assessment | None:
        log, topic_partition = candidate.log, candidate.log.topic_partition
        if not log.config.is_compacted or log.closed or self._must_wait(topic_partition):
            return None
        if log.producers.is_stale:  # until the next append it is not known which batches must stay
            return None
        try:
            return assess(candidate.facts(self._horizons.get(topic_partition)), now_ms)
        except CorruptFileError as damage:
            self._give_up(topic_partition, damage)
        except OSError as error:
            _log.warning("%s: the cleaner cannot read it now: %s", log.directory, error)
            self._try_later(topic_partition)
        return None

    def _must_wait(self, topic_partition: TopicPartition) -> bool:
        if topic_partition in self._running or topic_partition in self._uncleanable:
            return True
        return self._not_before_ms.get(topic_partition, 0) > self._clock.now_ms()

    def _try_later(self, topic_partition: TopicPartition) -> None:
        self._not_before_ms[topic_partition] = self._clock.now_ms() + self.config.backoff_ms

    def _give_up(self, topic_partition: TopicPartition, error: Exception) -> None:
        _log.error("%s: not cleaned any more until a restart", topic_partition, exc_info=error)
        self._uncleanable[topic_partition] = f"{type(error).__name__}: {error}"

    # -- cleaning ------------------------------------------------------------------------------------------------------

    def clean(self, chosen: LogToClean, now_ms: int) -> Steps[None]:
        """One pass over the log; `now_ms` is wall time."""
        topic_partition = chosen.log.topic_partition
        stop = self._running[topic_partition] = self._threads.event()
        if chosen.warning is not None:
            _log.warning("%s: %s", chosen.log.directory, chosen.warning)
        try:
            cleaning = self._cleaning(chosen, now_ms, stop)
            if chosen.log.full.has_file_changes:  # until they are done, a name may be another segment's file
                yield from in_thread(chosen.log.full.run_file_changes)
            if chosen.plan.reason is Reason.UNKNOWN_HORIZON:
                yield from self._find_horizon(chosen, cleaning)
            else:
                yield from self._pass(chosen, cleaning)
        except Exception as error:
            self._horizons.pop(topic_partition, None)
            self._failed(chosen, error)
        finally:
            del self._running[topic_partition]

    def _cleaning(self, chosen: LogToClean, now_ms: int, stop: StopSignal) -> Cleaning:
        around = Surroundings(self._fs, Pace(self._throttle, stop), self._clock.now_ms)
        offset_map = OffsetMap(self.config.dedupe_buffer_bytes // self.config.threads)
        rule = TombstoneRule(now_ms, chosen.plan.config.delete_retention_ms)
        return Cleaning(around, chosen.plan, offset_map, rule)

    def _find_horizon(self, chosen: LogToClean, cleaning: Cleaning) -> Steps[None]:
        plan = chosen.plan
        horizon_ms = yield from in_thread(cleaning.reads.find_horizon)
        self._totals.horizon_scans += 1
        self._know(chosen, KnownHorizon(horizon_ms, min(plan.first_dirty_offset, plan.end_offset)))

    def _know(self, chosen: LogToClean, horizon: KnownHorizon) -> None:
        """Keeps a log's horizon, unless the log is gone: a new log with its name would wait before it removes
        tombstones."""
        if not chosen.has_changed():
            self._horizons[chosen.plan.topic_partition] = horizon

    def _pass(self, chosen: LogToClean, cleaning: Cleaning) -> Steps[None]:
        plan = chosen.plan
        try:
            yield from in_thread(cleaning.build_map)
            for group in cleaning.groups():
                cleaned = yield from in_thread(partial(cleaning.clean, group))
                segments = tuple(chosen.segments[file.base_offset] for file in group)
                if cleaned is not None:
                    yield from self._replace(chosen, cleaning, cleaned, segments)
                for segment in segments:
                    chosen.segments.pop(segment.base_offset, None)
        finally:
            self._totals.add(cleaning.statistics())
        if cleaning.end_offset > plan.first_dirty_offset:
            put = partial(chosen.checkpoint.put, plan.topic_partition, cleaning.end_offset, chosen.generation)
            yield from in_thread(put)
        self._know(chosen, KnownHorizon(cleaning.next_horizon_ms, cleaning.end_offset))
        self._last_pass = cleaning.statistics()
        self._totals.passes += 1
        _log.info("%s: cleaned: %s", plan.directory, self._last_pass)

    def _replace(
        self, chosen: LogToClean, cleaning: Cleaning, cleaned: CleanedSegment, segments: tuple[Segment, ...]
    ) -> Steps[None]:
        """The log takes the cleaned segment over; durable when it returns, BEFORE the next group is begun."""
        try:
            if chosen.has_changed():
                raise CleaningAbortedError(f"{chosen.log.directory}: segments left the log while it was cleaned")
            chosen.log.full.replace(cleaned, segments)
        except Exception:
            with contextlib.suppress(OSError):
                yield from in_thread(cleaning.discard_cleaned)
            raise
        for segment in segments:
            del chosen.segments[segment.base_offset]
        yield from in_thread(chosen.log.full.run_file_changes)

    def _failed(self, chosen: LogToClean, error: Exception) -> None:
        log = chosen.log
        if isinstance(error, OSError | CorruptFileError | KafkaStorageError) and chosen.has_changed():
            error = CleaningAbortedError(f"{log.directory}: segments left the log while it was cleaned ({error})")
        if isinstance(error, CleaningAbortedError):
            _log.info("%s: given up for now: %s", log.directory, error)
            self._totals.aborted += 1
            self._try_later(log.topic_partition)
        elif is_shortage(error):
            _log.warning("%s: cannot be cleaned now: %s", log.directory, error)
            self._totals.deferred += 1
            self._try_later(log.topic_partition)
        elif isinstance(error, OSError):
            raise storage_error("clean", log.directory, error) from error
        elif isinstance(error, CorruptFileError | KafkaStorageError):
            raise error
        else:
            self._give_up(log.topic_partition, error)

    # -- stopping ------------------------------------------------------------------------------------------------------

    def abort(self, topic_partition: TopicPartition) -> None:
        """End a pass over the log soon, if there is one: the log will be truncated, moved or deleted."""
        if topic_partition in self._running:
            self._running[topic_partition].set()

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is gone; a later log of that name is another one."""
        self.abort(topic_partition)
        self._horizons.pop(topic_partition, None)
        self._not_before_ms.pop(topic_partition, None)
        self._uncleanable.pop(topic_partition, None)

    def stop(self) -> None:
        """Begin no further pass, and end the running ones soon."""
        self._stopped = True
        for stop in self._running.values():
            stop.set()

    def statistics(self) -> CleanerStatistics:
        totals = self._totals
        return CleanerStatistics(
            passes=totals.passes,
            horizon_scans=totals.horizon_scans,
            aborted=totals.aborted,
            deferred=totals.deferred,
            given_up=totals.aborted + totals.deferred,
            bytes_read=totals.bytes_read,
            bytes_written=totals.bytes_written,
            records_read=totals.records_read,
            records_kept=totals.records_kept,
            tombstones_removed=totals.tombstones_removed,
            undecodable_batches=totals.undecodable_batches,
            throttled_ms=round(self._throttle.throttled_ms),
            max_dirty_ratio=self._max_dirty_ratio,
            running=tuple(self._running),
            uncleanable=tuple(self._uncleanable.items()),
            last_pass=self._last_pass,
        )

    def __repr__(self) -> str:
        return f"LogCleaner({self._totals.passes} passes, {len(self._running)} running)"
