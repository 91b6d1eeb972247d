"""The requests that create topics and partitions and delete topics, and their answers; see messages.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ApiError


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 means the cluster's default, or the assignment's own number."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]
    assignment: tuple[tuple[int, ...], ...] = ()
    """By hand: the replicas of partitions 0, 1 and so on, the preferred leader first. Empty: the cluster's choice."""


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """More partitions for the topic with this name and id, until it has `total`."""

    name: str
    topic_id: str
    total: int
    assignment: Mapping[int, tuple[int, ...]]
    """By hand: the replicas of each new partition, by its number. Empty: the cluster's choice."""


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What became of one topic."""

    name: str
    topic_id: str
    error: ApiError | None
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    """One answer to such a request; `metadata_offset` is where the changes were committed."""

    topics: tuple[TopicOutcome, ...]
    metadata_offset: int
