"""Kafka's text checkpoints, sealed: a version line, a count line, one line for each entry, and the checksum.

    1                          version
    2                          count of the entries
    orders 0 4711              topic, partition, offset      (the checkpoints of a log dir)
    orders 1 12
    crc32c 0a1b2c3d            CRC-32C of every byte before this line (sealed_text.py)
or, in a partition's leader-epoch-checkpoint:
    3 4711                     epoch, start offset
or, in the recovery-point-offset-checkpoint, with version 2:
    orders 0 4711 ZHvSRhLiTqGYt7CWsTqnaA     topic, partition, offset, topic id; "-" where the id is not known

Version 0 is Kafka's own, and that of older releases: the same without the last line. It is read, never written, and so
is a recovery-point-offset-checkpoint of version 1. A flipped bit in the version line cannot turn one into the other: a
version 0 file that ends with a seal is damaged, and the seal covers the version line.

Files are written atomically. `log_directory.py` and `recovery.py` know what the offsets mean, and what follows from a
damaged checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from penstock.errors import CorruptFileError
from penstock.types import EpochEntry, TopicPartition
from storage.disk.atomic_file import NamingStep, always, read_text, write_atomically
from storage.disk.file_system import FileSystem
from storage.disk.sealed_text import is_sealed, seal, unseal

VERSION = 1
UNSEALED_VERSION = 0
TOPIC_IDS_VERSION = 2
_NO_TOPIC_ID = "-"
MAX_DIGITS = 19
"""The digits of a 64-bit number. A longer number is damage (and Python refuses to parse 4,301 digits)."""


class OffsetLines(NamedTuple):
    """The lines of an offset checkpoint."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[TopicPartition, str]
    """The topic id of each line, if it is known."""


def read_offset_lines(fs: FileSystem, path: str) -> OffsetLines | None:
    """The entries of an offset checkpoint; None without the file; CorruptFileError when damaged."""
    rows = _read_rows(fs, path, {UNSEALED_VERSION: 3, VERSION: 3, TOPIC_IDS_VERSION: 4})
    if rows is None:
        return None
    offsets: dict[TopicPartition, int] = {}
    topic_ids: dict[TopicPartition, str] = {}
    for topic, part, offset, *topic_id in rows:
        partition = TopicPartition(sys.intern(topic), _number(path, part))
        offsets[partition] = _number(path, offset)
        if topic_id and topic_id[0] != _NO_TOPIC_ID:
            topic_ids[partition] = sys.intern(topic_id[0])
    return OffsetLines(offsets, topic_ids)


def read_offsets(fs: FileSystem, path: str) -> dict[TopicPartition, int] | None:
    """The offsets in an offset checkpoint, without the topic ids; None without the file."""
    lines = read_offset_lines(fs, path)
    return dict(lines.offsets) if lines is not None else None


def offsets_content(offsets: Mapping[TopicPartition, int]) -> bytes:
    """The bytes of an offset checkpoint."""
    rows = "".join(f"{tp.topic} {tp.partition} {offset}\n" for tp, offset in offsets.items())
    return seal(f"{VERSION}\n{len(offsets)}\n{rows}")


def offset_lines_content(lines: OffsetLines) -> bytes:
    """The bytes of an offset checkpoint with topic ids."""
    rows = "".join(
        f"{tp.topic} {tp.partition} {offset} {lines.topic_ids.get(tp) or _NO_TOPIC_ID}\n"
        for tp, offset in lines.offsets.items()
    )
    return seal(f"{TOPIC_IDS_VERSION}\n{len(lines.offsets)}\n{rows}")


def write_offsets(fs: FileSystem, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    write_atomically(fs, path, offsets_content(offsets))


def write_offset_lines(fs: FileSystem, path: str, lines: OffsetLines) -> None:
    """Writes the lines of offsets with the topic ids."""
    write_atomically(fs, path, offset_lines_content(lines))


def read_epochs(fs: FileSystem, path: str) -> tuple[EpochEntry, ...] | None:
    """The entries of a leader-epoch-checkpoint; None without the file; CorruptFileError when damaged."""
    rows = _read_rows(fs, path, {UNSEALED_VERSION: 2, VERSION: 2})
    if rows is None:
        return None
    entries = tuple(EpochEntry(_number(path, epoch), _number(path, start)) for epoch, start in rows)
    for before, after in pairwise(entries):
        if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
            raise CorruptFileError(path, 0, f"epoch {after.epoch} at {after.start_offset} does not follow {before}")
    return entries


def write_epochs(
    fs: FileSystem,
    path: str,
    entries: Sequence[EpochEntry],
    *,
    sync_directory: bool = True,
    step: NamingStep = always,
) -> None:
    rows = "".join(f"{entry.epoch} {entry.start_offset}\n" for entry in entries)
    content = seal(f"{VERSION}\n{len(entries)}\n{rows}")
    write_atomically(fs, path, content, sync_directory=sync_directory, step=step)


def _read_rows(fs: FileSystem, path: str, widths: Mapping[int, int]) -> Iterator[list[str]] | None:
    """The entries, one at a time, because all at once they take many times the file's size. `widths`: fields by
    version."""
    text = read_text(fs, path)
    if text is None:
        return None
    lines = _content(path, text, max(widths)).split("\n")[:-1]
    if len(lines) < 2:
        raise CorruptFileError(path, len(text), "no version and count lines")
    count = _number(path, lines[1])
    if count != len(lines) - 2:
        raise CorruptFileError(path, len(text), f"{len(lines) - 2} entries where {count} are announced")
    return _rows(path, islice(lines, 2, None), widths[_number(path, lines[0])])


def _rows(path: str, lines: Iterable[str], width: int) -> Iterator[list[str]]:
    for line in lines:
        row = line.split(" ", width)
        if len(row) != width or not all(row):
            raise CorruptFileError(path, 0, f"an entry is {line!r:.100}")
        yield row


def _content(path: str, text: str, newest_version: int) -> str:
    """The lines without the seal. From version 1 on there must be a seal; in version 0 there must be none."""
    if not text.isascii():
        raise CorruptFileError(path, 0, "a character that is in no topic's name")
    if not text.endswith("\n"):
        raise CorruptFileError(path, len(text), "the last line is cut")
    version = _number(path, text.partition("\n")[0])
    if VERSION <= version <= newest_version:
        return unseal(path, text)
    if version != UNSEALED_VERSION:
        raise CorruptFileError(path, 0, f"version {version}, this release knows {newest_version}")
    if is_sealed(text):
        raise CorruptFileError(path, 0, f"version {version} has no checksum, but there is one")
    return text


def _number(path: str, text: str) -> int:
    if len(text) > MAX_DIGITS or not (text.isascii() and text.isdigit()):
        raise CorruptFileError(path, 0, f"{text!r:.100} is not a number")
    return int(text)
