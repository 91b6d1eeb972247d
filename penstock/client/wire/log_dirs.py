"""DescribeLogDirs, between protobuf and values: what one broker has in its log dirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.error_message import error_in_message
from penstock.errors import ApiError
from penstock.pb import log_dirs_pb2 as pb
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class ReplicaLogInfo:
    """One replica in a log dir. Its size is that of the `.log` files of its segments, in bytes."""

    topic_id: str
    size_bytes: int
    log_start_offset: int
    log_end_offset: int


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
    }
    error = error_in_message(message.error)
    return LogDirInfo(message.path, message.directory_id, error, message.total_bytes, message.usable_bytes, replicas)
