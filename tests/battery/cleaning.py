"""Judges by dumb rules which records the cleaner may take out of a log, and runs a node's cleaner to its end.

The rules look at all records below the bound at once: of each key only the newest record must stay, and it may go as
well when it is a deletion that was kept for `delete.retention.ms` since a cleaning first met it. Records of aborted
transactions count for nothing, and the bound is not above the first record of an undecided one. The cleaner itself,
with its map and its groups, may take less.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

from penstock.clock import ManualClock
from penstock.errors import KafkaStorageError
from storage.cleaner.cleaner_log_view import Candidate
from storage.cleaner.cleaner_types import CleanerConfig
from storage.cleaner.log_cleaner import LogCleaner
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager
from tests.battery.history import LogHistory, Written
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS

PASSES_MAX = 20


class MayGo(NamedTuple):
    """The records that need not be there after a cleaning."""

    superseded: list[Written]
    expired: list[Written]
    """Deletions; what they deleted must not come back."""


def may_go(log: Log, history: LogHistory, now_ms: int) -> MayGo:
    """The records that a cleaning at this time may take out of the log; notes the deletions that it meets."""
    bound = min(log.recovery_point, log.segments[-1].base_offset)
    bound = min(bound, *history.open_transactions(log.recovery_point).values(), bound)
    aborted = history.aborted(log.recovery_point)
    below = [record for record in sorted(history.kept.values()) if record.offset < bound]
    newest = {record.key: record for record in below if record.offset not in aborted}
    superseded = [record for record in below if newest.get(record.key) != record]
    expired = []
    for record in newest.values():
        if record.value is None:
            met_ms = history.met_deletions.setdefault(record.offset, now_ms)
            if now_ms > met_ms + log.config.delete_retention_ms:
                expired.append(record)
    return MayGo(superseded, expired)


class NodeCleaner:
    """The cleaner of a node that is up."""

    def __init__(self, fs: LosingFileSystem, manager: LogManager) -> None:
        self._manager = manager
        self._clock = ManualClock()
        self._cleaner = LogCleaner(fs, CleanerConfig(), self._candidates, self._clock, THREADS)
        self._deferred = 0

    def _candidates(self) -> list[Candidate]:
        logs = self._manager.logs()
        checkpoints = map(self._manager.cleaner_checkpoint, logs)
        return [
            Candidate(log, log.recovery_point, c) for log, c in zip(logs, checkpoints, strict=True) if c is not None
        ]

    def run(self, now_ms: int) -> None:
        """Passes until there is nothing to do; OSError when one was put off for lack of room."""
        for _ in range(PASSES_MAX):
            chosen = self._cleaner.choose(now_ms)
            if chosen is None:
                statistics = self._cleaner.statistics()
                if statistics.uncleanable:
                    raise AssertionError(f"given up: {statistics.uncleanable}")
                if statistics.deferred > self._deferred:
                    self._deferred = statistics.deferred
                    self._clock.advance(self._cleaner.config.backoff_ms)
                    raise OSError(errno.ENOSPC, "the cleaning was put off")
                return
            for step in self._cleaner.clean(chosen, now_ms):
                step()
        raise KafkaStorageError(f"still to be cleaned after {PASSES_MAX} passes: {self._cleaner.statistics()}")
