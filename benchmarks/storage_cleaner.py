"""Cleaning a compacted log, in megabytes of input a second, beside reading and writing the same bytes.

Three quarters of the records have a newer one, in random order. A pass reads what is dirty twice, once for the keys and
once to filter, writes what stays, syncs and swaps it. The bare work is an os.pread of every input byte, twice, and an
os.write of every output byte with one fdatasync for each file. No throttling, one thread.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.storage_log import NOW_MS, READ_CHUNK_BYTES, TP
from benchmarks.storage_rows import MIB, NEVER, Row, Scale, rate_row, timed
from penstock.clock import SystemClock
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.threads import SystemThreads
from storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from storage.cleaner.cleaner_log_view import Candidate
from storage.cleaner.cleaner_types import CleanerConfig
from storage.cleaner.log_cleaner import LogCleaner
from storage.disk.file_system import OsFileSystem
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from storage.recovery.recovery import LastKnown

SEGMENTS = 8
UPDATES_PER_KEY = 4
READS = 2
"""For the map, and to filter."""
BATCH_BYTES = 64 * 1024
CONFIG = LogConfig(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)


@dataclass(frozen=True, slots=True)
class Shape:
    """The kind of records."""

    name: str
    value_bytes: int
    codec: Codec = Codec.NONE


SHAPES = (Shape("values of 100 B", 100), Shape("values of 1 KiB", 1024), Shape("values of 1 KiB, lz4", 1024, Codec.LZ4))


def cleaner_rows(root: str, scale: Scale) -> Iterator[Row]:
    for shape in SHAPES:
        template = _dirty_log(f"{root}/template", shape, scale.log_mib * MIB // 2)
        sizes = [path.stat().st_size for path in sorted(Path(template.directory).glob("*.log"))]
        ours, bare = NEVER, NEVER
        kept_bytes = 0
        for _ in range(max(2, scale.rounds // 2)):
            log = _copy(root, template)
            ours = ours.better(timed(partial(_clean, log)))
            kept_bytes = log.size_bytes
            log.close()
            shutil.rmtree(log.log_dir)
            copied = _copy(root, template)
            bare = bare.better(timed(partial(_bare, copied.directory, kept_bytes)))
            copied.abandon()
            shutil.rmtree(copied.log_dir)
        row = rate_row("cleaning", f"{shape.name}, {100 * kept_bytes // sum(sizes)} % stay", sum(sizes), ours, bare)
        yield row
        shutil.rmtree(f"{root}/template")


def _dirty_log(directory: str, shape: Shape, total_bytes: int) -> Log:
    """Keys are drawn at random; closed, so that its files can be copied."""
    source = random.Random(1)
    records = BATCH_BYTES // (shape.value_bytes + 20)
    keys = max(1, total_bytes // (shape.value_bytes + 20) // UPDATES_PER_KEY)
    os.makedirs(directory)
    config = LogConfig(segment_bytes=max(MIB, total_bytes // SEGMENTS), cleanup_policy="compact")
    log = Log.create(OsFileSystem(), f"{directory}/{TP}", TP, config, LogOptions(SystemThreads()))
    words = [source.randbytes(8).hex().encode() for _ in range(500)]
    text = b" ".join(source.choices(words, k=shape.value_bytes))
    written = 0
    while written < total_bytes:
        starts = [source.randrange(len(text) - shape.value_bytes) for _ in range(records)]
        values = [text[at : at + shape.value_bytes] for at in starts]
        names = [b"key-%08d" % source.randrange(keys) for _ in range(records)]
        written += records * (shape.value_bytes + 20)
        log.append.as_leader(build_batch(values, keys=names, timestamps_ms=NOW_MS, codec=shape.codec), 0, NOW_MS)
    log.roll()
    log.close()
    return log


def _copy(root: str, template: Log) -> Log:
    """The same log in a directory of its own, opened as after a clean stop."""
    log_dir = tempfile.mkdtemp(dir=root)
    directory = f"{log_dir}/{template.topic_partition}"
    shutil.copytree(template.directory, directory)
    options = LogOptions(SystemThreads(), last_known=LastKnown(True, template.log_end_offset))
    log = Log(OsFileSystem(), directory, template.topic_partition, CONFIG, options)
    os.sync()
    return log


def _clean(log: Log) -> None:
    checkpoint = CleanerCheckpoint(OsFileSystem(), log.log_dir, SystemThreads())
    cleaner = LogCleaner(
        OsFileSystem(),
        CleanerConfig(),
        lambda: [Candidate(log, log.log_end_offset, checkpoint)],
        SystemClock(),
        SystemThreads(),
    )
    chosen = cleaner.choose(NOW_MS)
    if chosen is None:
        raise SystemExit("nothing is dirty")
    for step in cleaner.clean(chosen, NOW_MS):
        step()
    if cleaner.statistics().passes != 1:
        raise SystemExit(f"the pass did not end well: {cleaner.statistics()}")


def _bare(directory: str, kept_bytes: int) -> None:
    paths = sorted(Path(directory).glob("*.log"))
    for _ in range(READS):
        for path in paths:
            fd = os.open(path, os.O_RDONLY)
            for at in range(0, os.fstat(fd).st_size, READ_CHUNK_BYTES):
                os.pread(fd, READ_CHUNK_BYTES, at)
            os.close(fd)
    chunk = bytes(READ_CHUNK_BYTES)
    fd = os.open(f"{directory}/bare", os.O_WRONLY | os.O_CREAT)
    for _ in range(kept_bytes // len(chunk)):
        os.write(fd, chunk)
    os.fdatasync(fd)
    os.close(fd)
