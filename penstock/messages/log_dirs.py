"""DescribeLogDirs and AlterReplicaLogDirs: what one broker has in its log dirs, and moves between them (KIP-113)."""

from __future__ import annotations

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.elections import NamedPartitions
from penstock.types import TopicPartition

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
    is_future: bool = False
    """The copy of a replica that moves to this log dir."""
    offset_lag: int = 0
    bytes_left: int = 0
    waits_for: str = ""
    """The reason why the move does not go on now."""


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
    is_cordoned: bool = False
    """It gets no new replicas (KIP-1066)."""


@dataclass(frozen=True, slots=True)
class DescribeLogDirsResponse:
    node_id: int
    log_dirs: tuple[LogDir, ...]


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDir:
    """Replicas that are to move to this log dir of the broker that is asked."""

    path: str
    topics: tuple[NamedPartitions, ...]


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirsRequest:
    dirs: tuple[AlterReplicaLogDir, ...]


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirResult:
    """The result of one move. Without an error it has begun, or the replica is there."""

    partition: TopicPartition
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirsResponse:
    node_id: int
    results: tuple[AlterReplicaLogDirResult, ...]
