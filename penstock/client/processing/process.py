"""`penstock.process`: a processor in one call. Not here: what it does (record_processor.py)."""

from __future__ import annotations

from penstock.client.consumer.consumer import Consumer
from penstock.client.processing.processing_statistics import ProcessingStatistics
from penstock.client.processing.record_processor import Handler, RecordProcessor
from penstock.client.producer.producer import Producer
from penstock.threads import Event


def process(
    consumer: Consumer,
    producer: Producer,
    handler: Handler,
    *,
    batch_records: int | None = None,
    dead_letters: str | None = None,
    stop: Event | None = None,
    metrics_port: int | None = None,
) -> ProcessingStatistics:
    """Reads records, calls `handler` with each, and writes what it returns: each record's effect exactly once.

    The handler returns a `penstock.Output`, several of them, or None. What it returns for a batch of records is written
    in one transaction with the consumer's positions, so that readers of committed records find it once, whoever dies
    in between. The consumer has subscribed, with a `group_id` and `enable_auto_commit=False`; the producer has a
    `transactional_id`, another one in each process. A handler may be called twice for a record: what it does elsewhere
    may happen twice.

    Records whose handler raises go to the topic `dead_letters`, if there is one, with their place and the error in
    headers; else ProcessingError ends the call. It returns once `stop`, a `threading.Event`, is set, after the
    transaction under way; Ctrl-C aborts that one. With `metrics_port`, Prometheus finds its counts at that port of
    127.0.0.1 while it runs. A `RecordProcessor` offers the same with a method to stop it, its counts while it runs, and
    a collector for a registry of yours.
    """
    processor = RecordProcessor(
        consumer, producer, handler, batch_records=batch_records, dead_letters=dead_letters, stop=stop
    )
    if metrics_port is None:
        return processor.run()
    from penstock.client.processing.processing_metrics import serve

    end = serve(processor.collector(), metrics_port)
    try:
        return processor.run()
    finally:
        end()
