"""The requests that change topics, each with the number of partitions that it makes or deletes (KIP-599). Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metadata.image import MetadataImage
from penstock.messages.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

Count = Callable[[Any, MetadataImage], int]


def created_partitions(body: CreateTopicsRequest, image: MetadataImage) -> int:
    """A topic that leaves the number to the cluster counts as one."""
    return 0 if body.validate_only else sum(max(1, one.partitions, len(one.assignment)) for one in body.topics)


def added_partitions(body: CreatePartitionsRequest, image: MetadataImage) -> int:
    topics = image.topics_by_name
    has = {one.name: len(topics[one.name].partitions) if one.name in topics else one.total for one in body.topics}
    return 0 if body.validate_only else sum(max(0, one.total - has[one.name]) for one in body.topics)


def deleted_partitions(body: DeleteTopicsRequest, image: MetadataImage) -> int:
    topics = image.topics_by_id
    return sum(len(topics[topic_id].partitions) for topic_id in set(body.topic_ids) if topic_id in topics)
