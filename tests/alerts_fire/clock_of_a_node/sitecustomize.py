"""Shifts the calendar of one node's process: by as many seconds as a file `clock-shift` beside its configuration says.
Syncs below the path that a file `silent-disk` beside it names do not come back while that file is there.

Python imports this module at the start of every process that has its folder in PYTHONPATH. The machine's own clock,
which other processes use, stays as it is.
"""

import os
import sys
import time
from pathlib import Path

if "--config" in sys.orig_argv:
    _shift = Path(sys.orig_argv[sys.orig_argv.index("--config") + 1]).with_name("clock-shift")
    _machine_ns = time.time_ns

    def _shifted_ns() -> int:
        try:
            return _machine_ns() + int(_shift.read_text()) * 1_000_000_000
        except (FileNotFoundError, ValueError):
            return _machine_ns()

    time.time_ns = _shifted_ns
    _silent = Path(sys.orig_argv[sys.orig_argv.index("--config") + 1]).with_name("silent-disk")
    _fdatasync = os.fdatasync

    def _fdatasync_of_a_disk(fd: int) -> None:
        while True:
            try:
                if not os.readlink(f"/proc/self/fd/{fd}").startswith(_silent.read_text()):
                    break
            except FileNotFoundError:
                break
            time.sleep(0.05)
        _fdatasync(fd)

    os.fdatasync = _fdatasync_of_a_disk
