"""Penstock: a replicated, durable log. What users import, re-exported from where it stands.

Everything loads on first use: `import penstock` alone brings in neither gRPC nor protobuf nor numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from penstock.version import __version__ as __version__

if TYPE_CHECKING:
    from penstock import admin as admin
    from penstock import errors as errors
    from penstock import security as security
    from penstock.client.admin.admin import Admin as Admin
    from penstock.client.admin.async_admin import AsyncAdmin as AsyncAdmin
    from penstock.client.cluster.group_positions import CommittingMember as CommittingMember
    from penstock.client.cluster.group_positions import GroupPositions as GroupPositions
    from penstock.client.cluster.group_positions import PositionsSource as PositionsSource
    from penstock.client.cluster.waiting import Waiting as Waiting
    from penstock.client.consumer.async_consumer import AsyncConsumer as AsyncConsumer
    from penstock.client.consumer.consumer import Consumer as Consumer
    from penstock.client.consumer.consumer_metrics import ConsumerStatistics as ConsumerStatistics
    from penstock.client.consumer.consumer_metrics import FetchStatistics as FetchStatistics
    from penstock.client.consumer.consumer_metrics import RecentFetches as RecentFetches
    from penstock.client.consumer.consumer_record import ConsumerRecord as ConsumerRecord
    from penstock.client.consumer.groups.member_report import GroupStatistics as GroupStatistics
    from penstock.client.consumer.raw.raw_buffer import RawBuffer as RawBuffer
    from penstock.client.metrics.client_metric import ClientMetric as ClientMetric
    from penstock.client.metrics.metrics_collector import HasMetrics as HasMetrics
    from penstock.client.metrics.metrics_collector import MetricsCollector as MetricsCollector
    from penstock.client.options.typed_options import AdminOptions as AdminOptions
    from penstock.client.options.typed_options import ConsumerOptions as ConsumerOptions
    from penstock.client.options.typed_options import ProducerOptions as ProducerOptions
    from penstock.client.processing.output import Output as Output
    from penstock.client.processing.process import async_process as async_process
    from penstock.client.processing.process import process as process
    from penstock.client.processing.processing_core import StopEvent as StopEvent
    from penstock.client.processing.processing_options import ProcessingOptions as ProcessingOptions
    from penstock.client.processing.processing_statistics import ProcessingStatistics as ProcessingStatistics
    from penstock.client.processing.record_processor import AsyncRecordProcessor as AsyncRecordProcessor
    from penstock.client.processing.record_processor import RecordProcessor as RecordProcessor
    from penstock.client.producer.async_producer import AsyncProducer as AsyncProducer
    from penstock.client.producer.future import AckedRange as AckedRange
    from penstock.client.producer.future import BulkFuture as BulkFuture
    from penstock.client.producer.future import RecordFuture as RecordFuture
    from penstock.client.producer.producer import Producer as Producer
    from penstock.client.producer.producer_statistics import ProducerStatistics as ProducerStatistics
    from penstock.client.producer.producer_statistics import RecentSends as RecentSends
    from penstock.client.producer.transactions.async_atomic_batches import AsyncAtomicBatches as AsyncAtomicBatches
    from penstock.client.producer.transactions.async_atomic_batches import AsyncAtomicWriter as AsyncAtomicWriter
    from penstock.client.producer.transactions.async_transaction import AsyncTransaction as AsyncTransaction
    from penstock.client.producer.transactions.atomic_batches import AtomicBatches as AtomicBatches
    from penstock.client.producer.transactions.atomic_batches import AtomicWriter as AtomicWriter
    from penstock.client.producer.transactions.atomic_calls import Committed as Committed
    from penstock.client.producer.transactions.transaction import Transaction as Transaction
    from penstock.errors import PenstockError as PenstockError
    from penstock.errors import RetryLater as RetryLater
    from penstock.messages.groups.offsets import OffsetCommitPartition as OffsetCommitPartition
    from penstock.position import Position as Position
    from penstock.types import CommittedOffset as CommittedOffset
    from penstock.types import MetadataOffset as MetadataOffset
    from penstock.types import ProducerIdAndEpoch as ProducerIdAndEpoch
    from penstock.types import RecordMetadata as RecordMetadata
    from penstock.types import TimestampAndOffset as TimestampAndOffset
    from penstock.types import TopicPartition as TopicPartition

_HOMES = {
    "AckedRange": "penstock.client.producer.future",
    "Admin": "penstock.client.admin.admin",
    "AdminOptions": "penstock.client.options.typed_options",
    "AsyncAdmin": "penstock.client.admin.async_admin",
    "AsyncAtomicBatches": "penstock.client.producer.transactions.async_atomic_batches",
    "AsyncAtomicWriter": "penstock.client.producer.transactions.async_atomic_batches",
    "AsyncConsumer": "penstock.client.consumer.async_consumer",
    "AsyncProducer": "penstock.client.producer.async_producer",
    "AsyncRecordProcessor": "penstock.client.processing.record_processor",
    "AsyncTransaction": "penstock.client.producer.transactions.async_transaction",
    "AtomicBatches": "penstock.client.producer.transactions.atomic_batches",
    "AtomicWriter": "penstock.client.producer.transactions.atomic_batches",
    "BulkFuture": "penstock.client.producer.future",
    "ClientMetric": "penstock.client.metrics.client_metric",
    "Committed": "penstock.client.producer.transactions.atomic_calls",
    "CommittedOffset": "penstock.types",
    "CommittingMember": "penstock.client.cluster.group_positions",
    "Consumer": "penstock.client.consumer.consumer",
    "ConsumerOptions": "penstock.client.options.typed_options",
    "ConsumerRecord": "penstock.client.consumer.consumer_record",
    "ConsumerStatistics": "penstock.client.consumer.consumer_metrics",
    "FetchStatistics": "penstock.client.consumer.consumer_metrics",
    "RecentFetches": "penstock.client.consumer.consumer_metrics",
    "GroupPositions": "penstock.client.cluster.group_positions",
    "GroupStatistics": "penstock.client.consumer.groups.member_report",
    "HasMetrics": "penstock.client.metrics.metrics_collector",
    "MetadataOffset": "penstock.types",
    "MetricsCollector": "penstock.client.metrics.metrics_collector",
    "OffsetCommitPartition": "penstock.messages.groups.offsets",
    "Output": "penstock.client.processing.output",
    "PenstockError": "penstock.errors",
    "Position": "penstock.position",
    "PositionsSource": "penstock.client.cluster.group_positions",
    "ProcessingOptions": "penstock.client.processing.processing_options",
    "ProcessingStatistics": "penstock.client.processing.processing_statistics",
    "Producer": "penstock.client.producer.producer",
    "ProducerIdAndEpoch": "penstock.types",
    "ProducerOptions": "penstock.client.options.typed_options",
    "ProducerStatistics": "penstock.client.producer.producer_statistics",
    "RecentSends": "penstock.client.producer.producer_statistics",
    "RawBuffer": "penstock.client.consumer.raw.raw_buffer",
    "RecordFuture": "penstock.client.producer.future",
    "RecordMetadata": "penstock.types",
    "RecordProcessor": "penstock.client.processing.record_processor",
    "RetryLater": "penstock.errors",
    "StopEvent": "penstock.client.processing.processing_core",
    "TimestampAndOffset": "penstock.types",
    "TopicPartition": "penstock.types",
    "Transaction": "penstock.client.producer.transactions.transaction",
    "Waiting": "penstock.client.cluster.waiting",
    "async_process": "penstock.client.processing.process",
    "process": "penstock.client.processing.process",
}
_MODULES = ("admin", "errors", "security")
_MODULES = ("admin", "errors", "security")
_MODULES = ("admin", "errors", "security")

__all__ = [
    "AckedRange",
    "Admin",
    "AdminOptions",
    "AsyncAdmin",
    "AsyncAtomicBatches",
    "AsyncAtomicWriter",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncRecordProcessor",
    "AsyncTransaction",
    "AtomicBatches",
    "AtomicWriter",
    "BulkFuture",
    "ClientMetric",
    "Committed",
    "CommittedOffset",
    "CommittingMember",
    "Consumer",
    "ConsumerOptions",
    "ConsumerRecord",
    "ConsumerStatistics",
    "FetchStatistics",
    "GroupPositions",
    "GroupStatistics",
    "HasMetrics",
    "MetadataOffset",
    "MetricsCollector",
    "OffsetCommitPartition",
    "Output",
    "PenstockError",
    "Position",
    "PositionsSource",
    "ProcessingOptions",
    "ProcessingStatistics",
    "Producer",
    "ProducerIdAndEpoch",
    "ProducerOptions",
    "ProducerStatistics",
    "RawBuffer",
    "RecentFetches",
    "RecentSends",
    "RecordFuture",
    "RecordMetadata",
    "RecordProcessor",
    "RetryLater",
    "StopEvent",
    "TimestampAndOffset",
    "TopicPartition",
    "Transaction",
    "Waiting",
    "admin",
    "async_process",
    "errors",
    "process",
    "security",
]


if not TYPE_CHECKING:  # a type checker that sees this takes every name for one that is here

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"penstock.{name}")
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'penstock' has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
