"""A compacted log on a losing file system with a cleaner of its own, driven step by step; and what must hold of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event

from penstock.clock import ManualClock
from penstock.record.batch import HEADER_BYTES, BatchHeader, iter_headers, read_header, set_placement
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import Record, read_records
from penstock.record.rewrite import rewritten
from penstock.record.row_scan import scan_rows
from penstock.threads import SystemThreads
from storage.append.append_info import AppendInfo
from storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from storage.cleaner.cleaner_log_view import Candidate
from storage.cleaner.cleaner_types import CleanerConfig
from storage.cleaner.log_cleaner import LogCleaner
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from storage.recovery.recovery import LastKnown
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS
from tests.support.storage import NOW_MS, TOPIC_ID, TP

DIRECTORY = "/d/orders-0"
RETENTION_MS = 1000
COMPACT = LogConfig(
    record_validation="headers",  # so that a test can put records there that nobody reads
    segment_bytes=600,
    index_interval_bytes=100,
    cleanup_policy="compact",
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION_MS,
)
"""About six small batches to a segment; cleaned whenever it is dirty."""
Change = tuple[bytes | None, bytes | None]
"""A key and its value; None: the key is deleted."""


class NoWait(Event):
    """A stop signal that notes how long it was to wait, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits_s.append(timeout or 0.0)
        return self.is_set()


class ThreadsWithoutWaits(SystemThreads):
    """The machine's threads, with stop signals that do not wait."""

    def __init__(self, signals: list[NoWait]) -> None:
        self._signals = signals
        self.new_signal: Callable[[], NoWait] = NoWait

    def event(self) -> NoWait:
        self._signals.append(self.new_signal())
        return self._signals[-1]


class CompactedLog:
    """One log, its checkpoint and its cleaner; opened from what the file system holds."""

    def __init__(
        self,
        fs: LosingFileSystem | None = None,
        config: LogConfig = COMPACT,
        *,
        cleaner: CleanerConfig | None = None,
        flushed: int = 0,
        clock: ManualClock | None = None,
    ) -> None:
        self.fs = fs if fs is not None else LosingFileSystem()
        self.clock = clock if clock is not None else ManualClock(wall_ms=NOW_MS)
        if not self.fs.exists("/d"):
            self.fs.mkdir("/d")
            self.fs.fsync_dir("/")
        self.checkpoint = CleanerCheckpoint(self.fs, "/d", THREADS)
        options = LogOptions(
            THREADS,
            topic_id=TOPIC_ID,
            last_known=LastKnown(recovery_point=flushed),
            lower_checkpoints=lambda tp, offset, _log_start: self.checkpoint.lower(tp, offset),
        )
        opened = self.fs.exists(DIRECTORY)
        make = Log if opened else Log.create
        self.log: Log = make(self.fs, DIRECTORY, TP, config, options)
        self.high_watermark: int | None = None
        self.signals: list[NoWait] = []
        self.threads = ThreadsWithoutWaits(self.signals)
        self.cleaner = LogCleaner(self.fs, cleaner or CleanerConfig(), self._candidates, self.clock, self.threads)

    def _candidates(self) -> list[Candidate]:
        high_watermark = self.log.log_end_offset if self.high_watermark is None else self.high_watermark
        return [Candidate(self.log, high_watermark, self.checkpoint)]

    def append(self, *changes: Change, codec: Codec = Codec.NONE, timestamp_ms: int | None = None) -> None:
        """Appends one batch."""
        keys, values = [key for key, _ in changes], [value for _, value in changes]
        time_ms = self.clock.wall_ms() if timestamp_ms is None else timestamp_ms
        records = build_batch(values, keys=keys, timestamps_ms=time_ms, codec=codec)
        self.append_records(records, 0)

    def append_records(self, records: bytes, epoch: int) -> AppendInfo:
        """Appends records as before the topic was compacted, so they may be without keys."""
        config = self.log.config
        self.log.update_config(replace(config, cleanup_policy="delete"))
        info = self.log.append.as_leader(records, epoch, self.clock.wall_ms())
        self.log.update_config(config)
        return info

    def append_stamped_tombstone(self, key: bytes, delete_horizon_ms: int) -> None:
        """Appends a deletion whose delete horizon is known, as a follower gets it from a leader that was cleaned."""
        header = read_header(data := build_batch([None], keys=[key], timestamps_ms=self.clock.wall_ms()))
        rows = scan_rows(data, HEADER_BYTES, len(data), 1, 0)
        stamped = bytearray(rewritten(header, data, rows, [True], delete_horizon_ms))
        set_placement(stamped, 0, self.log.log_end_offset, 0)
        self.log.append.as_follower(bytes(stamped))

    def append_all(self, changes: Sequence[Change]) -> None:
        """Appends a batch for each change."""
        for change in changes:
            self.append(change)

    def seal(self) -> None:
        """Makes full, durable segments of all that was appended."""
        self.log.roll()
        self.log.flush()

    def clean_once(self, between: Callable[[int], None] = lambda step: None) -> bool:
        """Runs one pass, with `between` before each step; returns False when there is nothing to do."""
        chosen = self.cleaner.choose(self.clock.wall_ms())
        if chosen is None:
            return False
        for number, step in enumerate(self.cleaner.clean(chosen, self.clock.wall_ms())):
            between(number)
            step()
        return True

    def clean(self, limit: int = 20) -> int:
        """Runs passes until there is nothing to do; returns their number."""
        for passes in range(limit):
            if not self.clean_once():
                return passes
        raise AssertionError(f"after {limit} passes the log still has to be cleaned: {self.cleaner.statistics()}")

    # -- looking -------------------------------------------------------------------------------------------------------

    def batches(self) -> list[BatchHeader]:
        found: list[BatchHeader] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            fetched = self.log.reader.read(offset, 1 << 20)
            found += [header for _, header in iter_headers(fetched.records)]
            assert fetched.next_offset > offset
            offset = fetched.next_offset
        return found

    def records(self) -> list[Record]:
        """Every record from the log start on, by consecutive reads."""
        found: list[Record] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            fetched = self.log.reader.read(offset, 1 << 20)
            found += read_records(fetched.records, from_offset=offset)
            assert fetched.next_offset > offset
            offset = fetched.next_offset
        return found

    def changes(self) -> list[Change]:
        return [(record.key, record.value) for record in self.records()]

    def state(self) -> dict[bytes | None, bytes]:
        """The state of a consumer that has read everything."""
        return state_of(self.changes())

    def leftovers(self) -> list[str]:
        return [path for path in self.fs.files("/d") if path.endswith((".cleaned", ".swap", ".tmp"))]


def state_of(changes: Sequence[Change]) -> dict[bytes | None, bytes]:
    """The last value of each key that was not deleted."""
    state: dict[bytes | None, bytes] = {}
    for key, value in changes:
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state
