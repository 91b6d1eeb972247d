"""How much the log costs over the bare work: CRC-32C and os.write of the same bytes. JSON lines, under 20 seconds.

    python -m benchmarks.storage [--dir DIR] [--mb 200]        in the repository; as a file it would hide the package

Each line has `what`, `batch_bytes`, rates, and `ratio`: speed against the bare loop with batches of the same size. The
aim is 0.5 for `append` at 64 KiB, the size that clients are told to send; small batches pay about 10 µs each.
`append` is a leader's (checks, offsets, indexes, rolls); `group commit` appends and waits for fdatasync as a broker
does, several partitions at once; `fetch tail` reads up to the end of a recent append; `fetch cold` reads from the
beginning. Not measured here: a socket, a codec, a broker.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable

from crc32c import crc32c

from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from storage.file_system import OsFileSystem
from storage.group_commit import GroupCommit
from storage.log import Log
from storage.log_config import LogConfig
from storage.log_types import LogOptions

NOW_MS = 1_700_000_000_000
VALUE_BYTES = 100
BATCH_RECORDS = (1, 150, 600)
PARTITIONS = 6
SEGMENT_BYTES = 256 * 1024 * 1024


def new_log(directory: str, partition: int = 0) -> Log:
    config = LogConfig(segment_bytes=SEGMENT_BYTES)
    tp = TopicPartition("bench", partition)
    return Log.create(OsFileSystem(), f"{directory}/{tp}", tp, config, LogOptions())


def bare(directory: str, batch: bytes, count: int) -> None:
    fd = os.open(f"{directory}/bare", os.O_WRONLY | os.O_CREAT)
    body = memoryview(batch)[21:]
    for _ in range(count):
        crc32c(body)
        os.write(fd, batch)
    os.close(fd)


def append(directory: str, batch: bytes, count: int) -> None:
    log = new_log(directory)
    for _ in range(count):
        log.append_as_leader(batch, 0, NOW_MS)
    log.abandon()


async def commit(directory: str, batch: bytes, count: int) -> None:
    group_commit = GroupCommit(lambda log_dir, error: print(log_dir, error))
    logs = [new_log(directory, partition) for partition in range(PARTITIONS)]
    changed = asyncio.Event()
    for log in logs:
        group_commit.subscribe(log, lambda offset: changed.set())

    async def produce(log: Log) -> None:
        for _ in range(count // PARTITIONS):
            end = log.append_as_leader(batch, 0, NOW_MS).last_offset + 1
            group_commit.request(log)
            while end - log.flushed_offset > 64 * (end - log.log_start_offset) // max(1, count // PARTITIONS):
                changed.clear()
                await changed.wait()
        while log.flushed_offset < log.log_end_offset:
            changed.clear()
            await changed.wait()

    await asyncio.gather(*map(produce, logs))
    await group_commit.close()


def fetch(log: Log, max_bytes: int) -> int:
    offset, total = log.log_start_offset, 0
    while offset < log.log_end_offset:
        fetched = log.read(offset, max_bytes)
        total += len(fetched.records)
        offset = fetched.next_offset
    return total


def fetch_tail(directory: str, batch: bytes, count: int) -> None:
    """After each append, a follower and a consumer read up to its end."""
    log = new_log(directory)
    for _ in range(count):
        info = log.append_as_leader(batch, 0, NOW_MS)
        for _ in range(2):
            log.read(info.first_offset, 1 << 20, max_offset=info.last_offset + 1)
    log.abandon()


def timed(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def report(what: str, batch: bytes, records: int, count: int, seconds: float, base: float | None) -> None:
    mb_per_s = count * len(batch) / seconds / 1e6
    line = {
        "what": what,
        "batch_bytes": len(batch),
        "mb_per_s": round(mb_per_s, 1),
        "batches_per_s": round(count / seconds),
        "records_per_s": round(count * records / seconds),
        "ratio": round(base / seconds, 2) if base else None,
    }
    print(json.dumps(line), flush=True)


def measure(root: str, records: int, megabytes: int) -> None:
    batch = build_batch([b"x" * VALUE_BYTES] * records, timestamps_ms=NOW_MS)
    count = min(megabytes * 1_000_000 // len(batch), 60_000)

    def fresh(name: str) -> str:
        path = tempfile.mkdtemp(prefix=name, dir=root)
        return path

    base = min(timed(lambda: bare(fresh("bare"), batch, count)) for _ in range(3))
    report("bare", batch, records, count, base, base)
    seconds = min(timed(lambda: append(fresh("append"), batch, count)) for _ in range(3))
    report("append", batch, records, count, seconds, base)
    seconds = timed(lambda: asyncio.run(commit(fresh("commit"), batch, count)))
    report("append and group commit", batch, records, count, seconds, base)
    report(
        "append and fetch tail twice", batch, records, count, timed(lambda: fetch_tail(fresh("t"), batch, count)), base
    )
    directory = fresh("cold")
    log = new_log(directory)
    for _ in range(count):
        log.append_as_leader(batch, 0, NOW_MS)
    log.close()
    report("open after a crash", batch, records, count, timed(lambda: reopen(log)), base)
    reopened = reopen(log)
    report("fetch cold, 1 MiB", batch, records, count, timed(lambda: fetch(reopened, 1 << 20)), base)


def reopen(log: Log) -> Log:
    return Log(OsFileSystem(), log.directory, log.topic_partition, log.config, LogOptions())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dir", help="where to write; the disk under test")
    parser.add_argument("--mb", type=int, default=200, help="megabytes for each measurement")
    options = parser.parse_args()
    for records in BATCH_RECORDS:
        root = tempfile.mkdtemp(prefix="penstock-bench-", dir=options.dir)
        try:
            measure(root, records, options.mb)
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
