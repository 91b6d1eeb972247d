"""The content of one log dir of a broker, as Admin returns it: replicas by their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.log_dirs import LogDir
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class ReplicaLogInfo:
    """One replica in a log dir. Its size is that of the `.log` files of its segments, in bytes."""

    topic_id: str
    size_bytes: int
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class FutureReplicaInfo:
    """The copy of a replica that moves to a log dir; it counts for nothing until it has everything."""

    topic_id: str
    size_bytes: int
    bytes_left: int
    """About how many bytes are still to be copied."""
    offset_lag: int
    waits_for: str
    """Why the move does not go on now; "" if it does."""


@dataclass(frozen=True, slots=True)
class LogDirInfo:
    """One log dir of a broker. The bytes are those of its disk, -1 if not known; with an `error` it is offline, and
    shows no replicas."""

    path: str
    directory_id: str
    error: ApiError | None
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, ReplicaLogInfo]
    coming: Mapping[TopicPartition, FutureReplicaInfo] = field(default_factory=dict)
    """The replicas that move to it from another log dir of the broker."""
    is_cordoned: bool = False
    """It gets no new replicas (KIP-1066)."""

    @property
    def size_bytes(self) -> int:
        """The size of all replicas shown."""
        return sum(replica.size_bytes for replica in self.replicas.values())


def log_dir_info(found: LogDir) -> LogDirInfo:
    """The log dir as users see it, from the broker's answer."""
    replicas: dict[TopicPartition, ReplicaLogInfo] = {}
    coming: dict[TopicPartition, FutureReplicaInfo] = {}
    for topic in found.topics:
        for r in topic.replicas:
            tp = TopicPartition(topic.topic, r.partition)
            if r.is_future:
                coming[tp] = FutureReplicaInfo(topic.topic_id, r.size_bytes, r.bytes_left, r.offset_lag, r.waits_for)
            else:
                replicas[tp] = ReplicaLogInfo(topic.topic_id, r.size_bytes, r.log_start_offset, r.log_end_offset)
    room = found.total_bytes, found.usable_bytes
    return LogDirInfo(found.path, found.directory_id, found.error, *room, replicas, coming, found.is_cordoned)
