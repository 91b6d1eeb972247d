"""DescribeLogDirs and AlterReplicaLogDirs, between protobuf and values: what one broker has in its log dirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.error_message import error_in_message
from penstock.errors import ApiError
from penstock.pb import log_dirs_pb2 as pb
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class SilentLogDir:
    """A log dir whose disk does not answer. After `log.dir.hang.ms.max` it fails."""

    path: str
    silent_ms: int
    """For how long the oldest call to the disk has not come back."""
    stalled: int
    """Partitions that the broker leads there and that have records which wait for the disk."""


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
    """About so many bytes are to be copied yet."""
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

    @property
    def size_bytes(self) -> int:
        """Of all replicas shown."""
        return sum(replica.size_bytes for replica in self.replicas.values())


@dataclass(frozen=True, slots=True)
class LogDirsAnswer:
    node_id: int
    log_dirs: tuple[LogDirInfo, ...]


def encode_describe_log_dirs(topics: Iterable[str]) -> pb.DescribeLogDirsRequest:
    return pb.DescribeLogDirsRequest(topics=topics)


def decode_describe_log_dirs(response: pb.DescribeLogDirsResponse) -> LogDirsAnswer:
    return LogDirsAnswer(response.node_id, tuple(map(_log_dir, response.log_dirs)))


def _log_dir(message: pb.LogDir) -> LogDirInfo:
    replicas = {
        TopicPartition(topic.topic, r.partition): ReplicaLogInfo(
            topic.topic_id, r.size_bytes, r.log_start_offset, r.log_end_offset
        )
        for topic in message.topics
        for r in topic.replicas
        if not r.is_future
    }
    coming = {
        TopicPartition(topic.topic, r.partition): FutureReplicaInfo(
            topic.topic_id, r.size_bytes, r.bytes_left, r.offset_lag, r.waits_for
        )
        for topic in message.topics
        for r in topic.replicas
        if r.is_future
    }
    error = error_in_message(message.error)
    room = message.total_bytes, message.usable_bytes
    return LogDirInfo(message.path, message.directory_id, error, *room, replicas, coming)


@dataclass(frozen=True, slots=True)
class AlterLogDirsAnswer:
    node_id: int
    errors: Mapping[TopicPartition, ApiError | None]


def encode_alter_log_dirs(wanted: Mapping[TopicPartition, str]) -> pb.AlterReplicaLogDirsRequest:
    """The log dir to which each replica is to move."""
    dirs: dict[str, dict[str, list[int]]] = {}
    for tp, path in wanted.items():
        dirs.setdefault(path, {}).setdefault(tp.topic, []).append(tp.partition)
    return pb.AlterReplicaLogDirsRequest(
        dirs=[
            pb.AlterReplicaLogDir(
                path=path,
                topics=[pb.AlterReplicaLogDirTopic(topic=topic, partitions=found) for topic, found in topics.items()],
            )
            for path, topics in dirs.items()
        ]
    )


def decode_alter_log_dirs(response: pb.AlterReplicaLogDirsResponse) -> AlterLogDirsAnswer:
    errors = {TopicPartition(r.topic, r.partition): error_in_message(r.error) for r in response.results}
    return AlterLogDirsAnswer(response.node_id, errors)
