"""Penstock: a replicated, durable log. What users import, re-exported from where it stands.

Everything loads on first use: `import penstock` alone brings in neither gRPC nor protobuf nor numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock import errors as errors
    from penstock.client.admin.admin import Admin as Admin
    from penstock.client.admin.async_admin import AsyncAdmin as AsyncAdmin
    from penstock.client.consumer.async_consumer import AsyncConsumer as AsyncConsumer
    from penstock.client.consumer.consumer import Consumer as Consumer
    from penstock.client.consumer.consumer_record import ConsumerRecord as ConsumerRecord
    from penstock.client.processing.output import Output as Output
    from penstock.client.processing.process import async_process as async_process
    from penstock.client.processing.process import process as process
    from penstock.client.processing.record_processor import AsyncRecordProcessor as AsyncRecordProcessor
    from penstock.client.processing.record_processor import RecordProcessor as RecordProcessor
    from penstock.client.producer.async_producer import AsyncProducer as AsyncProducer
    from penstock.client.producer.future import BulkFuture as BulkFuture
    from penstock.client.producer.future import RecordFuture as RecordFuture
    from penstock.client.producer.producer import Producer as Producer
    from penstock.client.producer.transactions.async_atomic_batches import AsyncAtomicBatches as AsyncAtomicBatches
    from penstock.client.producer.transactions.atomic_batches import AtomicBatches as AtomicBatches
    from penstock.errors import PenstockError as PenstockError
    from penstock.errors import RetryLater as RetryLater
    from penstock.position import Position as Position
    from penstock.types import CommittedOffset as CommittedOffset
    from penstock.types import RecordMetadata as RecordMetadata
    from penstock.types import TopicPartition as TopicPartition

__version__ = "0.1.0"

_HOMES = {
    "Admin": "penstock.client.admin.admin",
    "AsyncAdmin": "penstock.client.admin.async_admin",
    "AsyncAtomicBatches": "penstock.client.producer.transactions.async_atomic_batches",
    "AsyncConsumer": "penstock.client.consumer.async_consumer",
    "AsyncProducer": "penstock.client.producer.async_producer",
    "AsyncRecordProcessor": "penstock.client.processing.record_processor",
    "AtomicBatches": "penstock.client.producer.transactions.atomic_batches",
    "BulkFuture": "penstock.client.producer.future",
    "CommittedOffset": "penstock.types",
    "Consumer": "penstock.client.consumer.consumer",
    "ConsumerRecord": "penstock.client.consumer.consumer_record",
    "Output": "penstock.client.processing.output",
    "PenstockError": "penstock.errors",
    "Position": "penstock.position",
    "RecordProcessor": "penstock.client.processing.record_processor",
    "Producer": "penstock.client.producer.producer",
    "RecordFuture": "penstock.client.producer.future",
    "RecordMetadata": "penstock.types",
    "RetryLater": "penstock.errors",
    "TopicPartition": "penstock.types",
    "async_process": "penstock.client.processing.process",
    "process": "penstock.client.processing.process",
}

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncAtomicBatches",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncRecordProcessor",
    "AtomicBatches",
    "BulkFuture",
    "CommittedOffset",
    "Consumer",
    "ConsumerRecord",
    "Output",
    "PenstockError",
    "Position",
    "Producer",
    "RecordFuture",
    "RecordMetadata",
    "RecordProcessor",
    "RetryLater",
    "TopicPartition",
    "async_process",
    "errors",
    "process",
]


if not TYPE_CHECKING:  # a type checker that sees this takes every name for one that is here

    def __getattr__(name: str) -> Any:
        if name == "errors":
            return importlib.import_module("penstock.errors")
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'penstock' has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
