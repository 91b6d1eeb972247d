"""The rows of the APIs that look at the cluster and change it."""

from __future__ import annotations

from functools import partial

from broker.kafka.api_row import ApiRow
from broker.kafka.apis.admin import alter_configs, create_partitions, create_topics, delete_topics, describe_configs
from broker.kafka.apis.metadata import MetadataPlans, metadata_failed
from broker.kafka.parts import DoorParts
from broker.kafka.schemas import configs, metadata, topics


def admin_rows(parts: DoorParts) -> list[ApiRow]:
    """By subject."""
    return [
        ApiRow(
            3,
            "Metadata",
            metadata.MetadataRequest,
            metadata.MetadataResponse,
            (0, 13),
            MetadataPlans(parts),
            failed=metadata_failed,
        ),
        *_of_topics(parts),
        *_of_configs(parts),
    ]


def _of_topics(parts: DoorParts) -> list[ApiRow]:
    return [
        ApiRow(
            19,
            "CreateTopics",
            topics.CreateTopicsRequest,
            topics.CreateTopicsResponse,
            (2, 7),
            create_topics.create_topics,
            failed=create_topics.create_topics_failed,
        ),
        ApiRow(
            20,
            "DeleteTopics",
            topics.DeleteTopicsRequest,
            topics.DeleteTopicsResponse,
            (1, 6),
            partial(delete_topics.delete_topics, parts),
            failed=delete_topics.delete_topics_failed,
        ),
        ApiRow(
            37,
            "CreatePartitions",
            topics.CreatePartitionsRequest,
            topics.CreatePartitionsResponse,
            (0, 3),
            partial(create_partitions.create_partitions, parts),
            failed=create_partitions.create_partitions_failed,
        ),
    ]


def _of_configs(parts: DoorParts) -> list[ApiRow]:
    return [
        ApiRow(
            32,
            "DescribeConfigs",
            configs.DescribeConfigsRequest,
            configs.DescribeConfigsResponse,
            (1, 4),
            describe_configs.describe_configs,
            failed=describe_configs.describe_configs_failed,
        ),
        ApiRow(
            33,
            "AlterConfigs",
            configs.AlterConfigsRequest,
            configs.AlterConfigsResponse,
            (0, 2),
            partial(alter_configs.alter_configs, parts),
            failed=alter_configs.alter_configs_failed,
        ),
        ApiRow(
            44,
            "IncrementalAlterConfigs",
            configs.IncrementalAlterConfigsRequest,
            configs.IncrementalAlterConfigsResponse,
            (0, 1),
            alter_configs.incremental_alter_configs,
            failed=alter_configs.incremental_alter_configs_failed,
        ),
        ApiRow(
            74,
            "ListConfigResources",
            configs.ListConfigResourcesRequest,
            configs.ListConfigResourcesResponse,
            (0, 1),
            partial(describe_configs.list_config_resources, parts),
        ),
    ]
