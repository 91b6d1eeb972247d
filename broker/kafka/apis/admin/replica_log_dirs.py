"""DescribeLogDirs 1 to 5 and AlterReplicaLogDirs 1 to 2 (KIP-113): the log dirs of the broker that is asked.

No list of topics means all of them, and an empty one none. The copy of a replica that moves stands in its new log dir,
as a future one. A log dir that failed has KAFKA_STORAGE_ERROR and no replicas. Version 5 says which log dirs are
cordoned (KIP-1066); a replica that should move to one is refused with INVALID_REPLICA_ASSIGNMENT.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from broker.kafka.api_row import alone, serves
from broker.kafka.errors import code_of
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from penstock.errors import ApiError, InvalidRequestError
from penstock.messages import log_dirs
from penstock.messages.admin_apis import ALTER_REPLICA_LOG_DIRS
from penstock.messages.elections import NamedPartitions
from penstock.types import TopicPartition

DESCRIBE, ALTER = "DescribeLogDirs", "AlterReplicaLogDirs"
REPLICAS_MAX: Final = ALTER_REPLICA_LOG_DIRS.limits.elements["dirs.topics.partitions"]


def describe_log_dirs(asked: Asked, body: DescribeLogDirsRequest) -> Plan:
    wanted = None
    if body.topics is not None:
        wanted = {TopicPartition(topic.topic, number) for topic in body.topics for number in topic.partitions}
    names = () if not wanted else tuple(dict.fromkeys(tp.topic for tp in sorted(wanted)))
    found = yield Ask(DESCRIBE, log_dirs.DescribeLogDirsRequest(names))
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                error_code=code_of(one.error, DESCRIBE, asked.version),
                log_dir=one.path,
                topics=_topics(one.topics, wanted),
                total_bytes=one.total_bytes,
                usable_bytes=one.usable_bytes,
                is_cordoned=one.is_cordoned,
            )
            for one in found.log_dirs
        ]
    )


def describe_log_dirs_failed(asked: Asked, body: DescribeLogDirsRequest, error: ApiError) -> DescribeLogDirsResponse:
    """The answer to a request that failed. Before version 3 it has no place for the error: a client that finds no log
    dir says that it was not allowed to."""
    return DescribeLogDirsResponse(error_code=code_of(error, DESCRIBE, asked.version))


def _topics(found: Sequence[log_dirs.LogDirTopic], wanted: set[TopicPartition] | None) -> list[DescribeLogDirsTopic]:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for topic in found:
        for replica in topic.replicas:
            if wanted is None or (topic.topic, replica.partition) in wanted:
                topics.setdefault(topic.topic, []).append(
                    DescribeLogDirsPartition(
                        partition_index=replica.partition,
                        partition_size=replica.size_bytes,
                        offset_lag=replica.offset_lag,
                        is_future_key=replica.is_future,
                    )
                )
    return [DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()]


def alter_replica_log_dirs(asked: Asked, body: AlterReplicaLogDirsRequest) -> Plan:
    moves = _moves(body)
    times = Counter(tp for tp, _ in moves)
    errors: dict[TopicPartition, ApiError | None] = {
        tp: InvalidRequestError(f"{tp} is named {times[tp]} times in the request") if times[tp] > 1 else None
        for tp, _ in moves
    }
    wanted = [(tp, path) for tp, path in moves if times[tp] == 1]
    for at in range(0, len(wanted), REPLICAS_MAX):
        some = wanted[at : at + REPLICAS_MAX]
        try:
            answer = yield Ask(ALTER, log_dirs.AlterReplicaLogDirsRequest(_dirs(some)))
        except ApiError as error:
            errors |= dict.fromkeys((tp for tp, _ in some), error)
        else:
            errors |= {result.partition: result.error for result in answer.results}
    return _answer(asked, errors)


def alter_replica_log_dirs_failed(
    asked: Asked, body: AlterReplicaLogDirsRequest, error: ApiError
) -> AlterReplicaLogDirsResponse:
    return _answer(asked, dict.fromkeys((tp for tp, _ in _moves(body)), error))


def _moves(body: AlterReplicaLogDirsRequest) -> list[tuple[TopicPartition, str]]:
    return [
        (TopicPartition(topic.name, number), found.path)
        for found in body.dirs
        for topic in found.topics
        for number in topic.partitions
    ]


def _dirs(moves: Sequence[tuple[TopicPartition, str]]) -> tuple[log_dirs.AlterReplicaLogDir, ...]:
    by_path: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), path in moves:
        by_path.setdefault(path, {}).setdefault(topic, []).append(partition)
    return tuple(
        log_dirs.AlterReplicaLogDir(
            path, tuple(NamedPartitions(topic, tuple(numbers)) for topic, numbers in topics.items())
        )
        for path, topics in by_path.items()
    )


def _answer(asked: Asked, errors: dict[TopicPartition, ApiError | None]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, partition), error in errors.items():
        row = AlterReplicaLogDirPartitionResult(
            partition_index=partition, error_code=code_of(error, ALTER, asked.version)
        )
        topics.setdefault(topic, []).append(row)
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=rows) for name, rows in topics.items()]
    )


SERVED: Final = (
    serves(
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse,
        (1, 2),
        alone(alter_replica_log_dirs),
        failed=alter_replica_log_dirs_failed,
    ),
    serves(
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
        (1, 5),
        alone(describe_log_dirs),
        failed=describe_log_dirs_failed,
    ),
)
