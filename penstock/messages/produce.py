"""Produce: record batches for partitions. Record bytes stay the bytes that arrived.

Every partition that is asked for comes with its topic's id: `HostedPartitions.get` checks it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.errors import ApiError
from penstock.types import NO_OFFSET, NO_TIMESTAMP, TopicPartition


class PartitionRecords(NamedTuple):
    """Whole record batches for one partition."""

    partition: TopicPartition
    topic_id: str
    records: bytes


@dataclass(slots=True)
class ProduceRequest:
    """Append records."""

    correlation_id: int
    acks: int
    timeout_ms: int
    partitions: list[PartitionRecords]
    refused: dict[int, ApiError] = field(default_factory=dict)
    """By the index in `partitions`: what produce_conversion.py found before the request queued."""
    client_id: str = ""
    answer_in_parts: bool = False
    """The client takes the results that are known while others are not, and later requests' answers before them."""


@dataclass(slots=True)
class PartitionProduceResult:
    partition: TopicPartition
    error: ApiError | None = None
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET


@dataclass(slots=True)
class ProduceResponse:
    """The answer, or a part of it if `more_follows`."""

    correlation_id: int
    partitions: list[PartitionProduceResult]
    more_follows: bool = False
