"""Kafka's text checkpoints: a version line, a count line, then one line for each entry.

    0                          version
    2                          count of the lines that follow
    orders 0 4711              topic, partition, offset      (the three checkpoints of a log dir)
    orders 1 12
or, in a partition's leader-epoch-checkpoint:
    3 4711                     epoch, start offset

Written atomically. The count makes a cut file recognisable; there is no checksum, as Kafka has none, so what can be
checked against the log is checked by whoever reads it (`recovery.py`). Not here: what the offsets mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from penstock.errors import CorruptFileError
from penstock.types import EpochEntry, TopicPartition
from storage.atomic_file import read_text, write_atomically
from storage.file_system import FileSystem

VERSION = 0


def read_offsets(fs: FileSystem, path: str) -> dict[TopicPartition, int] | None:
    """The entries of an offset checkpoint; None without the file; CorruptFileError when damaged."""
    rows = _read_rows(fs, path, 3)
    if rows is None:
        return None
    return {TopicPartition(topic, _number(path, part)): _number(path, offset) for topic, part, offset in rows}


def write_offsets(fs: FileSystem, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    rows = (f"{tp.topic} {tp.partition} {offset}\n" for tp, offset in offsets.items())
    write_atomically(fs, path, f"{VERSION}\n{len(offsets)}\n{''.join(rows)}".encode())


def read_epochs(fs: FileSystem, path: str) -> tuple[EpochEntry, ...] | None:
    """The entries of a leader-epoch-checkpoint; None without the file; CorruptFileError when damaged."""
    rows = _read_rows(fs, path, 2)
    if rows is None:
        return None
    entries = tuple(EpochEntry(_number(path, epoch), _number(path, start)) for epoch, start in rows)
    for before, after in pairwise(entries):
        if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
            raise CorruptFileError(path, 0, f"epoch {after.epoch} at {after.start_offset} does not follow {before}")
    return entries


def write_epochs(fs: FileSystem, path: str, entries: Sequence[EpochEntry], *, sync_directory: bool = True) -> None:
    rows = (f"{entry.epoch} {entry.start_offset}\n" for entry in entries)
    content = f"{VERSION}\n{len(entries)}\n{''.join(rows)}".encode()
    write_atomically(fs, path, content, sync_directory=sync_directory)


def _read_rows(fs: FileSystem, path: str, width: int) -> list[list[str]] | None:
    text = read_text(fs, path)
    if text is None:
        return None
    if not text.endswith("\n"):
        raise CorruptFileError(path, len(text), "the last line is cut")
    lines = text.split("\n")[:-1]
    if len(lines) < 2:
        raise CorruptFileError(path, len(text), "no version and count lines")
    version, count = _number(path, lines[0]), _number(path, lines[1])
    if version != VERSION:
        raise CorruptFileError(path, 0, f"version {version}, expected {VERSION}")
    rows = [line.split(" ") for line in lines[2:]]
    if count != len(rows):
        raise CorruptFileError(path, len(text), f"{len(rows)} entries where {count} are announced")
    for row in rows:
        if len(row) != width or not all(row):
            raise CorruptFileError(path, 0, f"an entry is {' '.join(row)!r}")
    return rows


def _number(path: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise CorruptFileError(path, 0, f"{text!r} is not a number")
    return int(text)
