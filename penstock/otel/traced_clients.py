"""Producers and consumers whose records carry a trace: W3C's context in the headers, spans of send, poll and process.

    send TOPIC       from `send` to the ack: its wait for a batch, its way, its replication. The record carries its
                     context, as the program's global propagator writes it
    poll TOPIC       a poll that gave records, linked to the contexts that they carry, LINKS_MAX of them; one that gave
                     none makes no span
    process TOPIC    the work on one record, `with consumer.process(record):`, linked to the context that it carries

Each wraps a client and has all of its methods. A span is made for a record, so this costs what a span costs: a sampler
(OTEL_TRACES_SAMPLER) decides how many are recorded. `send_many`, `poll_arrow`, iteration, and the sends of a
transaction make no spans. Not here: names and attributes (span_facts.py), metrics (client_meters.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from penstock.errors import MissingDependencyError
from penstock.otel.span_facts import (
    LINKS_MAX,
    Attributes,
    Broker,
    carried,
    placed,
    polling,
    processing,
    sending,
    with_context,
)
from penstock.types import TopicPartition
from penstock.version import __version__

try:
    from opentelemetry import context, propagate, trace
except ModuleNotFoundError:
    raise MissingDependencyError("penstock.otel needs OpenTelemetry: pip install 'penstock[otel]'") from None

SCOPE: Final = "penstock"


class _Traced:
    """A client, and the tracer that its spans come from."""

    def __init__(self, client: Any, tracer_provider: trace.TracerProvider | None = None) -> None:
        """`client`: a client of the same kind; without a provider, the program's global one is used."""
        self._client = client
        provider = tracer_provider or trace.get_tracer_provider()
        self._tracer = provider.get_tracer(SCOPE, __version__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._client!r})"

    @property
    def _client_id(self) -> str:
        return str(self._client._core.config.client_id)

    def _leader(self, topic: str, partition: int) -> Broker | None:
        cache = self._client._core.cluster.cache
        leader = cache.leader(TopicPartition(topic, partition))
        endpoint = None if leader is None else cache.endpoint(leader.node_id)
        return None if endpoint is None else Broker(leader.node_id, endpoint.host, endpoint.port)


class _Sending(_Traced):
    def _begin(self, topic: str, key: Any, value: Any, headers: Any) -> tuple[trace.Span, Any]:
        attributes = sending(topic, self._client_id, key, value)
        span = self._tracer.start_span(f"send {topic}", kind=trace.SpanKind.PRODUCER, attributes=attributes)
        carrier: dict[str, str] = {}
        propagate.inject(carrier, context=trace.set_span_in_context(span))
        return span, with_context(headers, carrier)

    def _end_with(self, span: trace.Span, future: Any) -> None:
        """Ends the span with the record's promise, in the thread that keeps it."""

        def done(kept: Any) -> None:
            batch, index = kept[0], kept[1]
            error = batch.error_of(index)
            tp = batch.topic_partition
            offset = -1 if error is not None else batch.metadata(index).offset
            span.set_attributes(placed(tp.partition, offset, self._leader(tp.topic, tp.partition)))
            if error is not None:
                note_failure(span, error)
            span.end()

        future.add_done_callback(done)


class TracedProducer(_Sending):
    """A Producer whose records carry a trace."""

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        """`Producer.send`, in a span that ends with the ack."""
        span, carrying = self._begin(topic, key, value, headers)
        with ends_when_refused(span):
            future = self._client.send(topic, value, key, carrying, partition, timestamp_ms)
        self._end_with(span, future)
        return future

    def __enter__(self) -> TracedProducer:
        self._client.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._client.__exit__(*failure)


class AsyncTracedProducer(_Sending):
    """An AsyncProducer whose records carry a trace."""

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        """`AsyncProducer.send`, in a span that ends with the ack."""
        span, carrying = self._begin(topic, key, value, headers)
        with ends_when_refused(span):
            future = await self._client.send(topic, value, key, carrying, partition, timestamp_ms)
        self._end_with(span, future)
        return future

    async def __aenter__(self) -> AsyncTracedProducer:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> None:
        await self._client.__aexit__(*failure)


class _Reading(_Traced):
    @property
    def _group(self) -> str | None:
        group: str | None = self._client._core.config.group_id
        return group

    def _polled(self, began_ns: int, records: Sequence[Any], error: BaseException | None = None) -> None:
        if not records and error is None:
            return
        name, attributes = polling({one.topic for one in records}, self._group, self._client_id, len(records))
        links = [trace.Link(found) for found in contexts_of(records)]
        partitions = {(one.topic, one.partition) for one in records}
        if len(partitions) == 1:
            ((topic, partition),) = partitions
            attributes |= placed(partition, records[0].offset, self._leader(topic, partition))
        span = self._tracer.start_span(
            name, kind=trace.SpanKind.CLIENT, attributes=attributes, links=links, start_time=began_ns
        )
        if error is not None:
            note_failure(span, error)
        span.end()

    @contextmanager
    def process(self, record: Any, *, continues: bool = False) -> Iterator[trace.Span]:
        """The span of the work on this record; the current one inside. It is linked to the span that sent the record;
        with `continues` that is its parent, so the work is in the sender's trace. What is raised inside is recorded."""
        sent = propagate.extract(carried(record.headers), context=context.Context())
        sender = trace.get_current_span(sent).get_span_context()
        attributes: Attributes = processing(record, self._group, self._client_id)
        with self._tracer.start_as_current_span(
            f"process {record.topic}",
            context=sent if continues and sender.is_valid else None,
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=[trace.Link(sender)] if sender.is_valid else [],
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                note_failure(span, error)
                raise


class TracedConsumer(_Reading):
    """A Consumer whose polls and whose work are spans."""

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Any]:
        """`Consumer.poll`, in a span if it gives records or fails."""
        began_ns = time.time_ns()
        try:
            records: list[Any] = self._client.poll(timeout_ms, max_records)
        except Exception as error:
            self._polled(began_ns, (), error)
            raise
        self._polled(began_ns, records)
        return records

    def __enter__(self) -> TracedConsumer:
        self._client.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._client.__exit__(*failure)


class AsyncTracedConsumer(_Reading):
    """An AsyncConsumer whose polls and whose work are spans."""

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Any]:
        """`AsyncConsumer.poll`, in a span if it gives records or fails."""
        began_ns = time.time_ns()
        try:
            records: list[Any] = await self._client.poll(timeout_ms, max_records)
        except Exception as error:
            self._polled(began_ns, (), error)
            raise
        self._polled(began_ns, records)
        return records

    async def __aenter__(self) -> AsyncTracedConsumer:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> None:
        await self._client.__aexit__(*failure)


def contexts_of(records: Sequence[Any]) -> list[trace.SpanContext]:
    """The contexts that records carry, each once, the first LINKS_MAX."""
    found: dict[tuple[int, int], trace.SpanContext] = {}
    for record in records:
        if not record.headers:
            continue
        sent = propagate.extract(carried(record.headers), context=context.Context())
        sender = trace.get_current_span(sent).get_span_context()
        if sender.is_valid:
            found.setdefault((sender.trace_id, sender.span_id), sender)
            if len(found) == LINKS_MAX:
                break
    return list(found.values())


@contextmanager
def ends_when_refused(span: trace.Span) -> Iterator[None]:
    """A send that raises has no promise that would end its span."""
    try:
        yield
    except BaseException as error:
        note_failure(span, error)
        span.end()
        raise


def note_failure(span: trace.Span, error: BaseException) -> None:
    """Says in the span what went wrong; an error of the protocol by its name."""
    name = getattr(error, "kafka_name", None)
    span.set_attribute("error.type", name if isinstance(name, str) and name else type(error).__qualname__)
    span.record_exception(error)
    span.set_status(trace.Status(trace.StatusCode.ERROR, str(error)[:1_000]))
