"""`penstock.process` and `async_process`: a processor in one call. Not here: what it does (processing_core.py)."""

from __future__ import annotations

from typing import Unpack

from penstock.client.consumer.async_consumer import AsyncConsumer
from penstock.client.consumer.consumer import Consumer
from penstock.client.faces import documented_by
from penstock.client.processing.processing_core import StopEvent
from penstock.client.processing.processing_options import ProcessingOptions
from penstock.client.processing.processing_statistics import ProcessingStatistics
from penstock.client.processing.record_processor import AsyncHandler, AsyncRecordProcessor, Handler, RecordProcessor
from penstock.client.producer.async_producer import AsyncProducer
from penstock.client.producer.producer import Producer


def process(
    consumer: Consumer,
    producer: Producer,
    handler: Handler,
    *,
    stop: StopEvent | None = None,
    metrics_port: int | None = None,
    **options: Unpack[ProcessingOptions],
) -> ProcessingStatistics:
    """Reads records, calls `handler` with each, and writes what it returns: each record's effect exactly once.

    The handler returns a `penstock.Output`, several of them, or None. What it returns for a batch of records is written
    in one transaction with the consumer's positions, so that readers of committed records find it once, whichever
    process dies in between. The consumer has subscribed, with a `group_id` and `enable_auto_commit=False`; the producer
    has a `transactional_id`, another one in each process. A handler may be called twice for a record: what it does
    elsewhere may happen twice.

    When the handler raises, its error says whose fault it is. The record's (`dead_letter_errors`: ValueError,
    LookupError and ArithmeticError unless you name others; also an output that is too large): the record goes to the
    topic `dead_letters`, with its place and the error in headers; without such a topic ProcessingError ends the call.
    The world's (RetryLater, ConnectionError, TimeoutError): the record is tried again until it succeeds, with a
    back-off that doubles from `backoff_ms` to `backoff_max_ms`; what is before it is committed, and other partitions go
    on. The program's (TypeError, NameError, a wrong return): HandlerError ends the call at once. Any other: it is tried
    again `retries` times, and then ProcessingError ends the call. Whatever ends it, no record is lost.

    Options: batch_records=None, dead_letters=None, dead_letter_errors=(ValueError, LookupError, ArithmeticError),
    retries=9, backoff_ms=100, backoff_max_ms=10000, delay_ms=0 (docs/processing.md explains them).

    `batch_records` bounds a transaction. With `delay_ms`, a record is processed no sooner than that many ms after its
    timestamp. The call returns once `stop`, a `threading.Event`, is set, after the transaction under way; Ctrl-C aborts
    that one. With `metrics_port`, Prometheus finds its counts at that port of 127.0.0.1 while it runs. A
    `RecordProcessor` offers the same with a method to stop it, its counts while it runs, and a collector for a registry
    of yours.
    """
    processor = RecordProcessor(consumer, producer, handler, stop=stop, **options)
    if metrics_port is None:
        return processor.run()
    from penstock.client.processing.processing_metrics import serve

    end = serve(processor.collector(), metrics_port)
    try:
        return processor.run()
    finally:
        end()


@documented_by(process)
async def async_process(
    consumer: AsyncConsumer,
    producer: AsyncProducer,
    handler: AsyncHandler,
    *,
    stop: StopEvent | None = None,
    metrics_port: int | None = None,
    **options: Unpack[ProcessingOptions],
) -> ProcessingStatistics:
    processor = AsyncRecordProcessor(consumer, producer, handler, stop=stop, **options)
    if metrics_port is None:
        return await processor.run()
    from penstock.client.processing.processing_metrics import serve

    end = serve(processor.collector(), metrics_port)
    try:
        return await processor.run()
    finally:
        end()
