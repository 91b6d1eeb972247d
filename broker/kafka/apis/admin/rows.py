"""The rows of the APIs that look at the cluster and change it."""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.kafka.api_row import ApiRow, Failed
from broker.kafka.apis import describe_topic_partitions as partitions
from broker.kafka.apis import metadata
from broker.kafka.apis.admin import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_quorum,
    elect_leaders,
    features,
    reassignments,
    replica_log_dirs,
)
from broker.kafka.parts import DoorParts
from broker.kafka.plan import MakePlan
from broker.kafka.schemas.table import REQUESTS, RESPONSES

ITEMS_MAX: Final = 20_000
"""Twice what the controller decides about at once: the error that it gives for more tells the remedy."""
MANY: Final = 50_000
WITH_MANY: Final = ("CreateTopics", "CreatePartitions", "AlterPartitionReassignments")
"""They name every replica of up to 10,000 partitions, each with four."""


def admin_rows(parts: DoorParts) -> list[ApiRow]:
    """The rows of administration, by subject."""
    return [
        _row(3, "Metadata", (0, 13), metadata.MetadataPlans(parts), metadata.metadata_failed),
        _row(
            75,
            "DescribeTopicPartitions",
            (0, 0),
            partial(partitions.describe_topic_partitions, parts),
            partitions.describe_topic_partitions_failed,
        ),
        *_of_topics(parts),
        *_of_configs(parts),
        *_of_cluster(parts),
        *_of_replicas(parts),
    ]


def _of_topics(parts: DoorParts) -> list[ApiRow]:
    create, delete = partial(create_topics.create_topics, parts), partial(delete_topics.delete_topics, parts)
    add = partial(create_partitions.create_partitions, parts)
    return [
        _row(19, "CreateTopics", (2, 7), create, create_topics.create_topics_failed),
        _row(20, "DeleteTopics", (1, 6), delete, delete_topics.delete_topics_failed),
        _row(37, "CreatePartitions", (0, 3), add, create_partitions.create_partitions_failed),
    ]


def _of_configs(parts: DoorParts) -> list[ApiRow]:
    listed = partial(describe_configs.list_config_resources, parts)
    return [
        _row(
            32, "DescribeConfigs", (1, 4), describe_configs.describe_configs, describe_configs.describe_configs_failed
        ),
        _row(
            33, "AlterConfigs", (0, 2), partial(alter_configs.alter_configs, parts), alter_configs.alter_configs_failed
        ),
        _row(
            44,
            "IncrementalAlterConfigs",
            (0, 1),
            partial(alter_configs.incremental_alter_configs, parts),
            alter_configs.incremental_alter_configs_failed,
        ),
        _row(74, "ListConfigResources", (0, 1), listed),
    ]


def _of_cluster(parts: DoorParts) -> list[ApiRow]:
    cluster, quorum = partial(describe_cluster.describe_cluster, parts), partial(describe_quorum.describe_quorum, parts)
    return [
        _row(55, "DescribeQuorum", (0, 2), quorum, describe_quorum.describe_quorum_failed),
        _row(57, "UpdateFeatures", (0, 2), partial(features.update_features, parts)),
        _row(60, "DescribeCluster", (0, 2), cluster, describe_cluster.describe_cluster_failed),
        _row(
            64,
            "UnregisterBroker",
            (0, 0),
            describe_cluster.unregister_broker,
            describe_cluster.unregister_broker_failed,
        ),
    ]


def _of_replicas(parts: DoorParts) -> list[ApiRow]:
    return [
        _row(
            34,
            "AlterReplicaLogDirs",
            (1, 2),
            replica_log_dirs.alter_replica_log_dirs,
            replica_log_dirs.alter_replica_log_dirs_failed,
        ),
        _row(
            35, "DescribeLogDirs", (1, 5), replica_log_dirs.describe_log_dirs, replica_log_dirs.describe_log_dirs_failed
        ),
        _row(43, "ElectLeaders", (0, 2), elect_leaders.elect_leaders, elect_leaders.elect_leaders_failed),
        _row(
            45,
            "AlterPartitionReassignments",
            (0, 1),
            partial(reassignments.alter_partition_reassignments, parts),
            reassignments.alter_partition_reassignments_failed,
        ),
        _row(46, "ListPartitionReassignments", (0, 0), partial(reassignments.list_partition_reassignments, parts)),
    ]


def _row(key: int, name: str, versions: tuple[int, int], plan: MakePlan, failed: Failed | None = None) -> ApiRow:
    """A row of an API. Without `failed`, an error of the request as a whole is the answer's `error_code`."""
    return ApiRow(
        key,
        name,
        REQUESTS[key],
        RESPONSES[key],
        versions,
        plan,
        failed=failed,
        elements_max=MANY if name in WITH_MANY else ITEMS_MAX,
    )
