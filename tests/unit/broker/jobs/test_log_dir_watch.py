"""A log dir fails when one call to it is older than the limit; once, and no earlier."""

from __future__ import annotations

import errno

from broker.jobs.log_dir_watch import LogDirWatch
from penstock.clock import ManualClock
from storage.disk.call_watch import LOOK_MS, CallWatch

LIMIT_MS = 30_000


class Stage:
    def __init__(self) -> None:
        self.calls, self.clock = CallWatch(["/a", "/b"]), ManualClock()
        self.failed: list[tuple[str, Exception]] = []
        self.fatal: list[BaseException] = []
        self.watch = LogDirWatch(
            self.calls,
            LIMIT_MS,
            self.clock,
            lambda log_dir, error: self.failed.append((log_dir, error)),
            self.fatal.append,
        )

    def look(self, times: int) -> None:
        for _ in range(times):
            self.clock.advance(LOOK_MS)
            self.watch.look()


def test_a_log_dir_fails_once_when_a_call_is_older_than_the_limit() -> None:
    stage = Stage()
    stage.calls.begin("/a", "fsync_dir")
    stage.look(LIMIT_MS // LOOK_MS)
    assert not stage.failed and not stage.calls.given_up
    stage.look(1)
    ((log_dir, error),) = stage.failed
    assert log_dir == "/a" and isinstance(error, OSError) and error.errno == errno.ETIMEDOUT
    assert "fsync_dir" in str(error) and stage.calls.given_up == {"/a"}
    stage.look(200)
    assert len(stage.failed) == 1 and not stage.fatal


def test_a_stopped_process_fails_no_log_dir() -> None:
    stage = Stage()
    call = stage.calls.begin("/a", "fdatasync")
    stage.look(10)
    stage.clock.advance(3_600_000)
    stage.look(1)
    stage.calls.end(call)  # the disk had answered long ago
    stage.look(100)
    assert not stage.failed
