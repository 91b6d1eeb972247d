"""DescribeLogDirs and AlterReplicaLogDirs, between protobuf and values."""

from __future__ import annotations

from broker.grpc.codec.error import error_to_pb
from broker.log_dir_requests import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirTopic,
)
from penstock.pb import log_dirs_pb2 as pb
from penstock.types import TopicPartition


def request_from_pb(message: pb.DescribeLogDirsRequest) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(tuple(message.topics))


def response_to_pb(response: DescribeLogDirsResponse) -> pb.DescribeLogDirsResponse:
    return pb.DescribeLogDirsResponse(node_id=response.node_id, log_dirs=map(_log_dir, response.log_dirs))


def _log_dir(found: LogDir) -> pb.LogDir:
    return pb.LogDir(
        path=found.path,
        directory_id=found.directory_id,
        error=error_to_pb(found.error) if found.error is not None else None,
        total_bytes=found.total_bytes,
        usable_bytes=found.usable_bytes,
        topics=map(_topic, found.topics),
    )


def _topic(found: LogDirTopic) -> pb.LogDirTopic:
    return pb.LogDirTopic(
        topic=found.topic,
        topic_id=found.topic_id,
        replicas=[
            pb.LogDirReplica(
                partition=replica.partition,
                size_bytes=replica.size_bytes,
                log_start_offset=replica.log_start_offset,
                log_end_offset=replica.log_end_offset,
                is_future=replica.is_future,
                offset_lag=replica.offset_lag,
                bytes_left=replica.bytes_left,
                waits_for=replica.waits_for,
            )
            for replica in found.replicas
        ],
    )


def alter_from_pb(message: pb.AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        tuple(
            (TopicPartition(topic.topic, partition), found.path)
            for found in message.dirs
            for topic in found.topics
            for partition in topic.partitions
        )
    )


def alter_to_pb(response: AlterReplicaLogDirsResponse) -> pb.AlterReplicaLogDirsResponse:
    return pb.AlterReplicaLogDirsResponse(
        node_id=response.node_id,
        results=[
            pb.AlterReplicaLogDirResult(
                topic=tp.topic,
                partition=tp.partition,
                error=error_to_pb(error) if error is not None else None,
            )
            for tp, error in response.results
        ],
    )
