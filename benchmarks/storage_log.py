"""One log beside bare system calls on the same bytes and disk: append, sequential read, recovery.

Everything is in the page cache, which is where a broker appends and mostly reads; the disk would hide what the code
costs. The bare append is a checksum and an os.write for each batch, the bare read an os.pread of the very ranges that
the log returned, the bare recovery a read of the whole file in megabytes and a checksum over each. Recovery alone goes
to the disk, on both sides: it does not trust the page cache, which after a failed fsync shows what no disk has.

A log that this process wrote is read as it is; one that was opened checks each byte at its first read, so the first
pass stands also beside preads with a checksum. Not here: flushes (storage_commit.py), sockets and codecs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from crc32c import crc32c

from benchmarks.storage_rows import MIB, Row, Scale, best_of, rate_row
from penstock.record.builder import build_batch
from penstock.threads import SystemThreads
from penstock.types import TopicPartition
from storage.disk.file_system import OsFileSystem
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from storage.recovery.recovery import LastKnown

NOW_MS = 1_700_000_000_000
TP = TopicPartition("bench", 0)
VALUE_BYTES = 100
FETCH_BYTES = MIB
BATCHES = {"64 KiB": 612, "16 KiB": 152, "1 record": 1}
"""Records of 100 bytes in a batch; the goals are for the first, the size that clients are told to send."""
CRC_FROM = 21
READ_CHUNK_BYTES = MIB

Ranges = dict[str, list[tuple[int, int]]]


def batch_of(records: int) -> bytes:
    return build_batch([os.urandom(VALUE_BYTES) for _ in range(records)], timestamps_ms=NOW_MS)


def new_log(directory: str, *, segment_bytes: int = 1024 * MIB, partition: int = 0) -> Log:
    config = LogConfig(segment_bytes=segment_bytes)
    tp = TopicPartition(TP.topic, partition)
    return Log.create(OsFileSystem(), f"{directory}/{tp}", tp, config, LogOptions(SystemThreads()))


def filled_log(directory: str, batch: bytes, total_bytes: int, *, segment_bytes: int = 1024 * MIB) -> Log:
    """Flushed too, so that no later measurement pays for writing it to the disk."""
    log = new_log(directory, segment_bytes=segment_bytes)
    for _ in range(total_bytes // len(batch)):
        log.append.as_leader(batch, 0, NOW_MS)
    log.flush()
    return log


# -- append ------------------------------------------------------------------------------------------------------------


def append_rows(root: str, scale: Scale) -> Iterator[Row]:
    for name, records in BATCHES.items():
        batch = batch_of(records)
        count = min(scale.log_mib * MIB // len(batch), 60_000)
        ours, bare = best_of(
            scale.rounds, _in_fresh(root, append, batch, count), _in_fresh(root, bare_append, batch, count)
        )
        yield rate_row(
            "append", f"batches of {name}", count * len(batch), ours, bare, 0.5 if name == "64 KiB" else None
        )


def _in_fresh(
    root: str, work: Callable[[str, bytes, int], Callable[[], None]], batch: bytes, count: int
) -> Callable[[], object]:
    """Each round writes into a directory of its own, which goes when the clock has stopped."""

    def run() -> Callable[[], None]:
        directory = tempfile.mkdtemp(dir=root)
        close = work(directory, batch, count)

        def end() -> None:
            close()
            shutil.rmtree(directory)

        return end

    return run


def append(directory: str, batch: bytes, count: int) -> Callable[[], None]:
    log = new_log(directory)
    for _ in range(count):
        log.append.as_leader(batch, 0, NOW_MS)
    return log.abandon


def bare_append(directory: str, batch: bytes, count: int) -> Callable[[], None]:
    fd = os.open(f"{directory}/bare", os.O_WRONLY | os.O_CREAT)
    body = memoryview(batch)[CRC_FROM:]
    for _ in range(count):
        crc32c(body)
        os.write(fd, batch)
    return lambda: os.close(fd)


# -- read --------------------------------------------------------------------------------------------------------------


def read_rows(root: str, scale: Scale) -> Iterator[Row]:
    batch = batch_of(BATCHES["64 KiB"])
    log = filled_log(root, batch, scale.log_mib * MIB, segment_bytes=scale.log_mib * MIB // 4)
    total, ranges = log.size_bytes, ranges_of(log)
    ours, bare = best_of(scale.rounds, lambda: read_all(log), lambda: bare_read(ranges))
    yield rate_row("read", "written by this process", total, ours, bare, 0.5)
    log.close()
    first, bare, checking = best_of(
        scale.rounds, lambda: _read_reopened(log), lambda: bare_read(ranges), lambda: bare_read(ranges, check=True)
    )
    yield rate_row("read", "opened again, first pass", total, first, bare, 0.5)
    yield rate_row("read", "opened again, first pass, beside pread and CRC", total, first, checking)
    opened = reopened(log)
    read_all(opened)
    second, bare = best_of(scale.rounds, lambda: read_all(opened), lambda: bare_read(ranges))
    yield rate_row("read", "opened again, second pass", total, second, bare, 0.5)
    opened.abandon()
    shutil.rmtree(log.directory)


def ranges_of(log: Log) -> Ranges:
    """The bytes that each read of `read_all` returns, as (size, position) by file."""
    found: Ranges = {}
    offset, at = 0, 0
    paths = {segment.base_offset: segment.log_path for segment in log.segments}
    path = ""
    while offset < log.log_end_offset:
        if offset in paths:
            path, at = paths[offset], 0
        fetched = log.reader.read(offset, FETCH_BYTES)
        found.setdefault(path, []).append((len(fetched.records), at))
        at += len(fetched.records)
        offset = fetched.next_offset
    return found


def read_all(log: Log) -> None:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        offset = log.reader.read(offset, FETCH_BYTES).next_offset


def bare_read(ranges: Ranges, *, check: bool = False) -> None:
    for path, reads in ranges.items():
        fd = os.open(path, os.O_RDONLY)
        for size, at in reads:  # nothing keeps the bytes: a second buffer would cost page faults, and flatter ours
            if check:
                crc32c(os.pread(fd, size, at))
            else:
                os.pread(fd, size, at)
        os.close(fd)


def reopened(log: Log, *, clean: bool = True) -> Log:
    last_known = LastKnown(clean, log.log_end_offset if clean else 0)
    options = LogOptions(SystemThreads(), last_known=last_known)
    return Log(OsFileSystem(), log.directory, log.topic_partition, log.config, options)


def _read_reopened(log: Log) -> Callable[[], None]:
    opened = reopened(log)
    read_all(opened)
    return opened.abandon


# -- recovery ----------------------------------------------------------------------------------------------------------


def recovery_rows(root: str, scale: Scale) -> Iterator[Row]:
    for name in ("64 KiB", "16 KiB"):
        log = filled_log(root, batch_of(BATCHES[name]), scale.segment_mib * MIB - MIB)
        log.close()
        path = next(Path(log.directory).glob("*.log"))
        rounds = max(2, scale.rounds // 2)
        ours, bare = best_of(rounds, partial(recover, log), partial(bare_recovery, path))
        what = f"an unclean segment of {scale.segment_mib} MiB, batches of {name}"
        yield rate_row("recovery", what, path.stat().st_size, ours, bare, 0.5 if name == "64 KiB" else None)
        shutil.rmtree(log.directory)


def recover(log: Log) -> Callable[[], None]:
    """Nothing is known to be flushed: every batch is checked."""
    opened = reopened(log, clean=False)
    if opened.log_end_offset != log.log_end_offset:
        raise SystemExit(f"recovery found {opened.log_end_offset} of {log.log_end_offset} records")
    return opened.abandon


def bare_recovery(path: Path) -> None:
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    bare_check(path)


def bare_check(path: Path) -> None:
    """Every byte of a file, and a checksum over each megabyte."""
    fd = os.open(path, os.O_RDONLY)
    for at in range(0, os.fstat(fd).st_size, READ_CHUNK_BYTES):
        crc32c(os.pread(fd, READ_CHUNK_BYTES, at))
    os.close(fd)
