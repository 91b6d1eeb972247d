"""Many partitions: how long a node needs to open them, after a clean stop and after a crash, and their memory.

Each figure comes from a process of its own, so that nothing is warm in it but the page cache. A partition holds four
batches of 16 KiB. Beside a clean opening stands a process that lists each partition's directory, looks up each file's
size and reads the small ones; beside an unclean one, a process that also reads every .log from the disk and checksums
it. Memory is resident memory with so many partitions less that of the same process with none, once as they were opened
and once after a record was appended to each.

    python -m benchmarks.storage_partitions ROLE DIRECTORY [PARTITIONS]       what the processes run
"""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from crc32c import crc32c

from benchmarks.storage_log import BATCHES, NOW_MS, batch_of
from benchmarks.storage_rows import Row, Scale
from broker.node.process.descriptors import open_files_limit
from penstock.clock import SystemClock
from penstock.ids import system_ids
from penstock.threads import SystemThreads
from penstock.types import TopicPartition
from storage.disk.file_names import CLEAN_SHUTDOWN
from storage.disk.file_system import OsFileSystem
from storage.disk.machine import Machine
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.meta_properties import format_directory

ROOT = Path(__file__).resolve().parent.parent
CLUSTER_ID = "benchmark"
BATCHES_EACH = 4
ROUNDS_MAX = 3
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class UnsyncedFileSystem(OsFileSystem):
    """Makes many partitions in seconds, because it syncs nothing: a benchmark syncs once, afterwards."""

    def fdatasync(self, fd: int) -> None:
        """Does nothing."""

    def fsync_dir(self, path: str) -> None:
        """Does nothing."""


def partition_rows(root: str, scale: Scale) -> Iterator[Row]:
    _child("make", f"{root}/partitions-0", 0)
    for partitions in scale.partitions:
        directory = f"{root}/partitions-{partitions}"
        _child("make", directory, partitions)
        yield from _open_rows(directory, partitions, range(min(scale.rounds, ROUNDS_MAX)))
        yield from _memory_rows(f"{root}/partitions-0", directory, partitions)
        shutil.rmtree(directory)


def _open_rows(directory: str, partitions: int, rounds: range) -> Iterator[Row]:
    for what in ("clean", "unclean"):
        ours, bare = [], []
        for _ in rounds:
            ours.append(_child(f"open-{what}", directory)["seconds"])
            bare.append(_child(f"bare-{what}", directory)["seconds"])
        seconds, base = statistics.median(ours), statistics.median(bare)
        name = f"open {partitions:,} partitions, {what}"
        yield Row("many partitions", name, round(seconds, 3), "s", round(base, 3), round(base / seconds, 3))


def _memory_rows(empty: str, directory: str, partitions: int) -> Iterator[Row]:
    for role, what in (("open-clean", "as opened"), ("open-and-append", "after an append to each")):
        without, with_them = _child(role, empty), _child(role, directory)
        each = (with_them["rss_bytes"] - without["rss_bytes"]) / partitions
        yield Row("many partitions", f"memory of one of {partitions:,}, {what}", round(each / 1024, 2), "KiB")
        yield Row("many partitions", f"open descriptors with {partitions:,}, {what}", with_them["descriptors"], "files")


def _child(role: str, directory: str, partitions: int = 0) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.storage_partitions", role, directory, str(partitions)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{role} {directory}: {done.stderr.strip()[-500:]}")
    found: dict[str, float] = json.loads(done.stdout or "{}")
    return found


# -- the processes -----------------------------------------------------------------------------------------------------


def _open(directory: str, fs: OsFileSystem | None = None) -> LogManager:
    config = LogManagerConfig(0, CLUSTER_ID, LogConfig(), progress=lambda progress: None)
    return LogManager.open(
        [directory],
        config,
        Machine(fs or OsFileSystem(), SystemClock(), SystemThreads(), system_ids(), open_files_limit()),
    )


def make(directory: str, partitions: int) -> None:
    """A log dir with so many partitions, stopped cleanly."""
    format_directory(OsFileSystem(), directory, CLUSTER_ID, 0, system_ids().new_id())
    manager = _open(directory, UnsyncedFileSystem())
    batch = batch_of(BATCHES["16 KiB"])
    for number in range(partitions):
        log = manager.get_or_create(TopicPartition("many", number), system_ids().new_id(), LogConfig(), is_new=True)
        for _ in range(BATCHES_EACH):
            log.append.as_leader(batch, 0, NOW_MS)
    manager.close()
    shutil.copy(f"{directory}/{CLEAN_SHUTDOWN}", f"{directory}{CLEAN_SHUTDOWN}")
    os.sync()


def open_clean(directory: str, partitions: int) -> None:
    """The marker of the one clean stop is put back each time: stopping so many logs again takes longer than opening."""
    shutil.copy(f"{directory}{CLEAN_SHUTDOWN}", f"{directory}/{CLEAN_SHUTDOWN}")
    _timed(lambda: _open(directory))


def open_unclean(directory: str, partitions: int) -> None:
    """Opens as after a crash: no marker, and the recovery points of the last checkpoint."""
    Path(directory, CLEAN_SHUTDOWN).unlink(missing_ok=True)
    _timed(lambda: _open(directory))


def open_and_append(directory: str, partitions: int) -> None:
    manager = _open(directory, UnsyncedFileSystem())
    batch = batch_of(1)
    for log in manager.logs():
        log.append.as_leader(batch, 0, NOW_MS)
        log.flush()
    _timed(lambda: None)


def bare_clean(directory: str, partitions: int) -> None:
    _timed(lambda: _bare(directory, read_logs=False))


def bare_unclean(directory: str, partitions: int) -> None:
    _timed(lambda: _bare(directory, read_logs=True))


def _bare(directory: str, *, read_logs: bool) -> None:
    with os.scandir(directory) as entries:
        paths = [entry.path for entry in entries if entry.is_dir()]
    for path in paths:
        with os.scandir(path) as files:
            for file in files:
                is_log = file.name.endswith(".log")
                if file.stat().st_size and (read_logs or not is_log):
                    with open(file.path, "rb") as opened:
                        if is_log:
                            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                        data = opened.read()
                    if is_log:
                        crc32c(data)


def _timed(work: Callable[[], object]) -> None:
    began = time.perf_counter()
    kept = work()
    seconds = time.perf_counter() - began
    gc.collect()
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
    print(json.dumps({"seconds": seconds, "rss_bytes": rss, "descriptors": len(os.listdir("/proc/self/fd"))}))
    del kept


ROLES: dict[str, Callable[[str, int], None]] = {
    "make": make,
    "open-clean": open_clean,
    "open-unclean": open_unclean,
    "open-and-append": open_and_append,
    "bare-clean": bare_clean,
    "bare-unclean": bare_unclean,
}

if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    ROLES[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)  # the logs stay as they are: the next process finds them the same
