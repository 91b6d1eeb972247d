"""Reads the demo's topic back and compares it with the files: every record, in order, by key.

The lines of a file must come as 0, 1, 2, … A number that came before is a duplicate by retry; it is counted, and its
partition and offset are kept. A number that is too high means that a record is lost or out of place. This is exact
because at most one batch of a partition is in flight, so that a retried batch directly follows itself. `read_parquet`
compares the table in the same way and leaves the duplicates out by partition and offset. report.py gives the verdict.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import Consumer, TopicPartition
from penstock.cli.demo.stream import LINE_HEADER, FileSum
from penstock.cli.output import Progress
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.errors import TimedOutError
from penstock.pipelines.table_files import table_files

POLL_MS = 1_000
QUIET_S_MAX = 60.0
"""The read fails after this long without a record."""


@dataclass(slots=True)
class _File:
    """One file, summed up record by record."""

    lines: int = 0
    size_bytes: int = 0
    sha256: Any = field(default_factory=hashlib.sha256)

    def add(self, value: bytes) -> None:
        self.lines += 1
        self.size_bytes += len(value)
        self.sha256.update(value)

    @property
    def sum(self) -> FileSum:
        return FileSum(self.lines, self.size_bytes, self.sha256.digest())


@dataclass(slots=True)
class ReadBack:
    """The content of the topic. `misplaced`: records that came before an earlier line of their file."""

    records: int = 0
    size_bytes: int = 0
    misplaced: int = 0
    seconds: float = 0.0
    duplicates: set[tuple[int, int]] = field(default_factory=set)
    sums: dict[bytes, FileSum] = field(default_factory=dict)


class BackReader:
    """Takes every record, in the order of its partition; `finish` returns the content of the topic."""

    def __init__(self) -> None:
        self.found = ReadBack()
        self._files: dict[bytes, _File] = {}

    def __repr__(self) -> str:
        return f"BackReader({self.found.records} records of {len(self._files)} files)"

    def add(self, record: ConsumerRecord) -> None:
        found, key, value = self.found, record.key or b"", record.value or b""
        found.records += 1
        found.size_bytes += len(value)
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = _File()
        name, text = record.headers[0]
        number = int(text or b"") if name == LINE_HEADER else -1
        if number < file.lines:
            found.duplicates.add((record.partition, record.offset))
            return
        if number > file.lines:
            found.misplaced += 1
        file.add(value)

    def finish(self) -> ReadBack:
        self.found.sums = {key: file.sum for key, file in self._files.items()}
        return self.found


def read_back(bootstrap: str, topic: str, bar: Progress) -> ReadBack:
    """Reads every partition from its log start to its present end."""
    reader = BackReader()
    found = reader.found
    began = last = time.monotonic()
    with Consumer(bootstrap) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            before = found.size_bytes
            for record in consumer.poll(timeout_ms=POLL_MS):
                reader.add(record)
            if found.size_bytes > before:
                last = time.monotonic()
                bar.advance(found.size_bytes - before)
            elif time.monotonic() - last > QUIET_S_MAX:
                raise TimedOutError(f"{_behind(consumer, ends)}: no record within {QUIET_S_MAX:g} s")
    found.seconds = time.monotonic() - began
    return reader.finish()


def _behind(consumer: Consumer, ends: dict[TopicPartition, int]) -> str:
    late = [
        f"{tp} stands at {consumer.position(tp)} of {end}" for tp, end in ends.items() if consumer.position(tp) < end
    ]
    return ", ".join(late)


@dataclass(frozen=True, slots=True)
class ParquetRead:
    """The content of the table."""

    rows: int
    size_bytes: int
    files: int
    sums: dict[bytes, FileSum]


def read_parquet(directory: Path, duplicates: Collection[tuple[int, int]]) -> ParquetRead:
    """Reads every row with pyarrow, partition by partition, in offset order, without the offsets in `duplicates`."""
    import pyarrow.dataset as ds

    table = ds.dataset([str(path) for path in table_files(directory)], format="parquet")
    files = dict[bytes, _File]()
    rows = size_bytes = 0
    for partition in _distinct(table, "partition"):
        part = table.to_table(["offset", "key", "value"], filter=ds.field("partition") == partition).sort_by("offset")
        for offset, key, value in _rows(part):
            rows += 1
            size_bytes += len(value)
            if (partition, offset) not in duplicates:
                files.setdefault(key, _File()).add(value)
    return ParquetRead(rows, size_bytes, len(table.files), {key: file.sum for key, file in files.items()})


def _distinct(table: Any, column: str) -> list[int]:
    import pyarrow.compute as pc

    return sorted(pc.unique(table.to_table([column])[column]).to_pylist())


def _rows(table: Any) -> Iterable[tuple[int, bytes, bytes]]:
    columns = [table[name].to_pylist() for name in ("offset", "key", "value")]
    return zip(*columns, strict=True)
