"""Lists the closed segments of a log dir, and what is known of them: node, topic id, high watermark, how far cleaned.

Closed is every segment of a partition but its newest, which the node still appends to. The small files are those of
docs/data-directory.md; this module only reads, so the node may run meanwhile. Directories that were set aside
(`-delete`, `-stray`, `-rotten`) are no replicas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from crc32c import crc32c

from penstock.errors import ConfigError, CorruptFileError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition

META_FILE = "meta.properties"
PARTITION_FILE = "partition.metadata"
HIGH_WATERMARKS_FILE = "replication-offset-checkpoint"
CLEANED_FILE = "cleaner-offset-checkpoint"
INTERNAL_PREFIX = "__"
_PARTITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})")
_SEGMENT = re.compile(r"(?P<offset>[0-9]{20})\.log")
_SEAL = "crc32c "
_CHECKPOINT_VERSIONS = ("0", "1")


@dataclass(frozen=True, slots=True)
class ClosedSegment:
    """One file. `next_base_offset` is where the next segment begins, and so where this one must end.

    Below `cleaned_offset` compaction has been, on one replica or another, so that replicas differ rightly. From
    `high_watermark` on, records are not known to be committed, so that replicas may differ.
    """

    node: str
    topic: str
    topic_id: str
    partition: int
    path: str
    base_offset: int
    next_base_offset: int
    size_bytes: int
    high_watermark: int
    cleaned_offset: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def closed_segments(log_dirs: tuple[str, ...], topics: tuple[str, ...] = ()) -> list[ClosedSegment]:
    """The closed segments of all log dirs together, for the audit job; without `topics` of every topic but internal
    ones. In order of replica and offset."""
    found = [segment for log_dir in log_dirs for segment in _of_log_dir(Path(log_dir), topics)]
    cleaned: dict[tuple[str, int], int] = {}
    for segment in found:
        at = (segment.topic_id, segment.partition)
        cleaned[at] = max(cleaned.get(at, 0), segment.cleaned_offset)
    return [replace(segment, cleaned_offset=cleaned[segment.topic_id, segment.partition]) for segment in found]


def topics_of(log_dirs: tuple[str, ...]) -> set[str]:
    """The topics that have a replica in any of the log dirs, internal ones, too."""
    return {tp.topic for log_dir in log_dirs for tp, _ in _replicas(Path(log_dir))}


def node_of(log_dir: Path) -> str:
    """The node that a log dir belongs to, from its `meta.properties`; ConfigError if it is no log dir."""
    try:
        lines = (log_dir / META_FILE).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"log_dirs: {log_dir} is not a log dir: {META_FILE} cannot be read ({error})") from None
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    if "node.id" not in fields:
        raise ConfigError(f"log_dirs: {log_dir} is not a log dir: {META_FILE} has no node.id")
    return f"node {fields['node.id']}"


def _replicas(log_dir: Path) -> Iterator[tuple[TopicPartition, Path]]:
    for directory in sorted(log_dir.iterdir()):
        if name := _PARTITION.fullmatch(directory.name):
            yield TopicPartition(name["topic"], int(name["partition"])), directory


def _of_log_dir(log_dir: Path, topics: tuple[str, ...]) -> Iterator[ClosedSegment]:
    node = node_of(log_dir)
    high_watermarks = read_offset_checkpoint(log_dir / HIGH_WATERMARKS_FILE)
    cleaned = read_offset_checkpoint(log_dir / CLEANED_FILE)
    for tp, directory in _replicas(log_dir):
        if tp.topic not in topics if topics else tp.topic.startswith(INTERNAL_PREFIX):
            continue
        topic_id = _topic_id(directory)
        sizes = _segment_sizes(directory)
        for base_offset, next_base_offset in pairwise(sorted(sizes)):
            path, size_bytes = sizes[base_offset]
            yield ClosedSegment(
                node=node,
                topic=tp.topic,
                topic_id=topic_id,
                partition=tp.partition,
                path=str(path),
                base_offset=base_offset,
                next_base_offset=next_base_offset,
                size_bytes=size_bytes,
                high_watermark=high_watermarks.get(tp, 0),
                cleaned_offset=cleaned.get(tp, 0),
            )


def _segment_sizes(directory: Path) -> dict[int, tuple[Path, int]]:
    """Each segment's file and size, by its first offset; without what the node removes meanwhile."""
    found = {}
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in directory.iterdir():
            if name := _SEGMENT.fullmatch(path.name):
                with suppress(FileNotFoundError):
                    found[int(name["offset"])] = path, path.stat().st_size
    return found


def _topic_id(directory: Path) -> str:
    """Empty when the file is missing; such replicas are compared with each other by their name."""
    try:
        text = (directory / PARTITION_FILE).read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"^topic_id: (\S+)$", text, re.MULTILINE)
    return found[1] if found else ""


def read_offset_checkpoint(path: Path) -> Mapping[TopicPartition, int]:
    """Topic, partition and offset of each line; empty without the file; CorruptFileError when it is damaged."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}
    lines = raw.decode("utf-8", "replace").splitlines()
    if lines and lines[-1].startswith(_SEAL):
        content = raw[: raw.rstrip(b"\n").rfind(b"\n") + 1]
        if lines.pop() != f"{_SEAL}{crc32c(content):08x}":
            raise CorruptFileError(str(path), len(content), "the last line is not the checksum of the file")
    try:
        version, count, *rows = lines
        if version not in _CHECKPOINT_VERSIONS or int(count) != len(rows):
            raise ValueError(version)
        entries = [row.split(" ") for row in rows]
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in entries}
    except ValueError:
        raise CorruptFileError(str(path), 0, "is not a checkpoint of offsets that this release knows") from None
