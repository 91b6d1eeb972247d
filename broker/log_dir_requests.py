"""DescribeLogDirs as values: what a broker has in its log dirs (KIP-113)."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ApiError

NOT_KNOWN = -1


@dataclass(frozen=True, slots=True)
class DescribeLogDirsRequest:
    """Asks for the replicas of these topics; without one, of all."""

    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    """A replica in a log dir; its size is that of its `.log` files."""

    partition: int
    size_bytes: int
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class LogDirTopic:
    topic: str
    topic_id: str
    replicas: tuple[LogDirReplica, ...]


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log dir. The bytes are those of its disk, or NOT_KNOWN; with an `error` it is offline."""

    path: str
    directory_id: str
    error: ApiError | None
    total_bytes: int
    usable_bytes: int
    topics: tuple[LogDirTopic, ...]


@dataclass(frozen=True, slots=True)
class DescribeLogDirsResponse:
    node_id: int
    log_dirs: tuple[LogDir, ...]
