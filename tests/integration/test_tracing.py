"""A trace goes from the program that sends a record to the one that works on it, and names the broker on its way."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_tracer

from penstock import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from penstock.errors import MessageTooLargeError
from penstock.otel import AsyncTracedConsumer, AsyncTracedProducer, TracedConsumer, TracedProducer
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as made:
        yield made


@pytest.fixture
def spans() -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def polled(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        found += consumer.poll(timeout_ms=5_000)
    return found


def test_a_slow_request_leads_to_its_broker_and_partition_and_to_who_reads_it(
    cluster: Cluster, spans: tuple[TracerProvider, InMemorySpanExporter]
) -> None:
    provider, exporter = spans
    topic = cluster.topic(partitions=3)
    leader = cluster.leader(topic, 2)
    with (
        get_tracer("shop", tracer_provider=provider).start_as_current_span("checkout") as request,
        TracedProducer(Producer(cluster.bootstrap, client_id="till"), provider) as producer,
    ):
        place = producer.send(topic, b"value", key=b"order-1", headers={"own": b"1"}, partition=2).result(60)
    with TracedConsumer(Consumer(cluster.bootstrap, client_id="reader"), provider) as consumer:
        consumer.assign([TopicPartition(topic, 2)])
        consumer.seek_to_beginning()
        (record,) = polled(consumer, 1)
        with consumer.process(record), get_tracer("shop", tracer_provider=provider).start_as_current_span("inner"):
            pass
        with pytest.raises(ValueError, match="broken"), consumer.process(record, continues=True):
            raise ValueError("broken")
    (sent,) = named(exporter, f"send {topic}")
    found = attributes(sent)
    assert sent.kind is SpanKind.PRODUCER and sent.parent is not None
    assert sent.parent.span_id == request.get_span_context().span_id
    assert found["messaging.destination.partition.id"] == "2" and found["messaging.kafka.offset"] == place.offset
    assert found["penstock.broker.id"] == leader
    assert f"{found['server.address']}:{found['server.port']}" == cluster.endpoint(leader)
    assert found["messaging.client.id"] == "till" and found["messaging.kafka.message.key"] == "order-1"
    assert [name for name, _ in record.headers] == ["own", "traceparent"]
    (poll,) = named(exporter, f"poll {topic}")
    assert [link.context.span_id for link in poll.links] == [sent.get_span_context().span_id]
    assert attributes(poll)["penstock.broker.id"] == leader and poll.kind is SpanKind.CLIENT
    first, second = named(exporter, f"process {topic}")
    assert first.kind is SpanKind.CONSUMER and first.parent is None
    assert [link.context.trace_id for link in first.links] == [sent.get_span_context().trace_id]
    (inner,) = named(exporter, "inner")
    assert inner.parent is not None and inner.parent.span_id == first.get_span_context().span_id
    assert second.parent is not None and second.parent.span_id == sent.get_span_context().span_id
    assert second.status.status_code is StatusCode.ERROR and attributes(second)["error.type"] == "ValueError"


def test_what_fails_ends_its_span_with_the_error(
    cluster: Cluster, spans: tuple[TracerProvider, InMemorySpanExporter]
) -> None:
    provider, exporter = spans
    topic = cluster.topic(config={"max.message.bytes": 2_000})
    with TracedProducer(Producer(cluster.bootstrap), provider) as producer:
        with pytest.raises(MessageTooLargeError):
            producer.send(topic, b"x" * 5_000).result(60)
        with pytest.raises(TypeError):
            producer.send(topic, 5)
    refused, wrong = named(exporter, f"send {topic}")
    assert refused.status.status_code is wrong.status.status_code is StatusCode.ERROR
    assert attributes(refused)["error.type"] == "MESSAGE_TOO_LARGE"
    assert attributes(refused)["messaging.destination.partition.id"] == "0"
    assert "messaging.kafka.offset" not in attributes(refused)


def test_async_clients_do_the_same(cluster: Cluster, spans: tuple[TracerProvider, InMemorySpanExporter]) -> None:
    provider, exporter = spans
    topic = cluster.topic()

    async def run() -> None:
        async with AsyncTracedProducer(AsyncProducer(cluster.bootstrap), provider) as producer:
            await (await producer.send(topic, b"v"))
        async with AsyncTracedConsumer(
            AsyncConsumer(cluster.bootstrap, group_id="g", auto_offset_reset="earliest"), provider
        ) as consumer:
            await consumer.subscribe([topic])
            while not (records := await consumer.poll(timeout_ms=5_000)):
                pass
            with consumer.process(records[0]):
                pass

    asyncio.run(run())
    (sent,), (poll,), (work,) = (named(exporter, f"{word} {topic}") for word in ("send", "poll", "process"))
    assert poll.links[0].context == work.links[0].context
    assert work.links[0].context.span_id == sent.get_span_context().span_id
    assert attributes(work)["messaging.consumer.group.name"] == "g"


def test_records_of_others_and_damaged_contexts_make_no_link(
    cluster: Cluster, spans: tuple[TracerProvider, InMemorySpanExporter]
) -> None:
    provider, exporter = spans
    topic = cluster.topic()
    wrong = (None, b"", b"00-zz", b"\xff\xfe", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01", b"x" * 4_000)
    with Producer(cluster.bootstrap) as producer:
        producer.send(topic, b"plain")
        for value in wrong:
            producer.send(topic, b"v", headers=[("traceparent", value)])
    with TracedConsumer(Consumer(cluster.bootstrap), provider) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        for record in polled(consumer, 1 + len(wrong)):
            with consumer.process(record, continues=True):
                pass
    assert all(not span.links and span.parent is None for span in exporter.get_finished_spans())


def test_a_client_loads_nothing_of_opentelemetry_and_without_it_the_remedy_is_named() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; import penstock; penstock.Producer; import penstock.otel"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'penstock[otel]'" in done.stderr.splitlines()[-1]


def test_a_topic_that_is_created_by_admin_is_left_alone(cluster: Cluster) -> None:
    """The wrapper has all of the client's methods."""
    with TracedProducer(Producer(cluster.bootstrap)) as producer, Admin(cluster.bootstrap) as admin:
        topic = cluster.topic()
        producer.send(topic, b"v")
        producer.flush()
        assert admin.describe_topics([topic]) and producer.partitions_for(topic) and producer.metrics()
