"""Produce, and the APIs of producers: record batches for partitions, the ids of producers, and the producers that a
partition knows.

Record bytes stay the bytes that arrived. Every partition that is asked for comes with its topic's id:
`HostedPartitions.get` checks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_OFFSET, NO_TIMESTAMP, TopicPartition


class PartitionRecords(NamedTuple):
    """Whole record batches for one partition."""

    partition: TopicPartition
    topic_id: str
    records: bytes | memoryview


@dataclass(slots=True)
class ProduceRequest:
    """Append records."""

    acks: int
    timeout_ms: int
    partitions: list[PartitionRecords]
    answer_in_parts: bool = False
    """The client takes the results that are known while others are not, and later requests' answers before them."""
    transactional_id: str = ""
    """The id of the transaction to which its transactional batches belong."""
    adds_partitions: bool = True
    """The leader adds partitions to the transaction (version 2, KIP-890); otherwise it only looks for them in it."""


@dataclass(slots=True)
class PartitionProduceResult:
    """The outcome for one partition."""

    partition: TopicPartition
    error: ApiError | None = None
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET


@dataclass(slots=True)
class ProduceResponse:
    """The answer, or a part of it if `more_follows`; `error` is of the request as a whole."""

    partitions: Sequence[PartitionProduceResult] = ()
    more_follows: bool = False
    error: ApiError | None = None
    unanswered: Sequence[PartitionProduceResult] = ()
    """The results of a request with acks=0, which are not sent."""
    throttle_time_ms: int = 0
    """The time for which the broker reads nothing more of the connection: the client has used its quota up."""


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest:
    """Asks for a producer id. With a transactional id it is asked of the id's coordinator, which ends what the last
    producer of it has begun, and fences that one; `producer_id` and `producer_epoch` are those of a producer that goes
    on (KIP-360), -1 and -1 of a new one."""

    transactional_id: str | None = None
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class InitProducerIdResponse:
    """An id that no other producer has, and its first epoch; of a transactional id, the epoch that counts from now."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsRequest:
    """A broker asks for a block of producer ids (KIP-730)."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsResponse:
    """The block: `count` ids from `first_producer_id` on, which nobody was given before."""

    first_producer_id: int
    count: int


@dataclass(frozen=True, slots=True)
class DescribeProducersPartition:
    """Asks for the producers that a partition knows."""

    partition: TopicPartition
    topic_id: str


@dataclass(frozen=True, slots=True)
class DescribeProducersRequest:
    """Asks for the producers that have written to partitions (KIP-664)."""

    partitions: tuple[DescribeProducersPartition, ...]
    of_replicas: bool = False
    """A broker that only follows answers, too, as far as it has come."""


@dataclass(frozen=True, slots=True)
class ProducerState:
    """An idempotent producer, as a partition knows it: its next batch begins behind `last_sequence`, which is -1 where
    it has no batch in this epoch."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_append_ms: int
    """A time by the clock of the partition's leader."""
    coordinator_epoch: int | None = None
    """The epoch of the coordinator that ended its last transaction in the partition; None if none was ended."""
    transaction_start_offset: int | None = None
    """The first offset of its open transaction; None if none is open."""


@dataclass(frozen=True, slots=True)
class PartitionProducers:
    """The answer for one partition. The producer that was silent longest comes first."""

    partition: TopicPartition
    error: ApiError | None = None
    producers: tuple[ProducerState, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeProducersResponse:
    """The results, in the order of the request."""

    partitions: tuple[PartitionProducers, ...] = ()
