"""WriteTxnMarkers: a coordinator tells the leaders of partitions how transactions ended. Between brokers only."""

from __future__ import annotations

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class MarkedPartition:
    """A partition, with its topic's id and its leader epoch in the coordinator's image; the epoch is None if an older
    coordinator does not tell it."""

    partition: TopicPartition
    topic_id: str
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class TxnMarker:
    """The end of one transaction, for partitions that one broker leads. `coordinator_epoch` is the leader epoch of the
    coordinator's partition; one from a lower epoch is refused. With transaction version 2, `producer_epoch` is above
    that of the transaction's batches; with version 1 it may be that of the next transaction's, too: `decided_ms` tells
    them apart. It rises with every transaction of a producer id for as long as `coordinator_epoch` is the same, also
    where the calendar is set back. 0: it is not known."""

    producer_id: int
    producer_epoch: int
    is_committed: bool
    coordinator_epoch: int
    partitions: tuple[MarkedPartition, ...]
    transaction_version: int = 1
    decided_ms: int = 0


@dataclass(frozen=True, slots=True)
class WriteTxnMarkersRequest:
    markers: tuple[TxnMarker, ...]


@dataclass(frozen=True, slots=True)
class MarkedPartitionResult:
    """The marker is written and committed (acks=all), or the error."""

    partition: TopicPartition
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class TxnMarkerResult:
    producer_id: int
    partitions: tuple[MarkedPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteTxnMarkersResponse:
    """The results, in the order of the request."""

    markers: tuple[TxnMarkerResult, ...] = ()
