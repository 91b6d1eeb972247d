"""The metrics of requests and connections: queues, threads, conversions, and refusals.

Read from `statistics()` in the thread of a scrape, as in node_readings.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.apis.producing.produce_conversion import ProduceConverter
from broker.authentication.authentication import Authentication
from broker.authorization.refusals import NO_AUTHORIZER
from broker.authorization.request_authorizer import RequestAuthorizer
from broker.metrics.field_readings import labelled, record_readings
from broker.metrics.metrics import Reading
from broker.network.client_software import SOFTWARE_MAX
from broker.network.io_threads import IoThreads, IoWork
from broker.network.listeners import BrokerListeners, Decoders
from broker.network.request_channel import RequestChannel
from broker.network.telemetry.client_series import SERIES_MAX
from broker.network.telemetry.client_telemetry import CLIENTS_MAX, REFUSALS, ClientTelemetry
from penstock.messages.apis import APIS
from penstock.messages.client_apis import FETCH
from storage.disk.spare_descriptors import SPARE

_FETCHES = ("FetchConsumer", "FetchFollower")
APIS_THAT_WAIT = tuple(
    name for api in APIS.values() if api.waits for name in (_FETCHES if api is FETCH else (api.name,))
)
_PUSHED_LABELS: Final = ("client_id", "client_instance_id", "software", "metric", "topic", "partition", "node")


def queue_readings(of_requests: RequestChannel) -> Iterator[Reading]:
    channel = of_requests.statistics()
    yield Reading("penstock_request_queue_size", "Requests that wait for a handler.", channel.request_queue_size)
    yield Reading("penstock_response_queue_size", "Answers that wait to be sent.", channel.response_queue_size)
    for api in APIS_THAT_WAIT:
        yield Reading(
            "penstock_purgatory_size",
            "Handled requests that wait: for acks, records or the controller.",
            channel.waiting.get(api, 0),
            labels=(("api", api),),
        )
    help_text = "Open produce and fetch streams, and connections in Kafka's protocol."
    yield Reading("penstock_connections", help_text, channel.connections)


def io_readings(threads: IoThreads) -> Iterator[Reading]:
    io = threads.statistics()
    yield from record_readings(io)
    help_text = "Reads by an I/O thread because the page cache did not have it: records of a fetch, look-ups by time."
    for kind in IoWork:
        yield Reading("penstock_cold_reads", help_text, io.done.get(kind, 0), True, (("work", kind.value),))


def decoder_readings(decoders: Decoders) -> Iterator[Reading]:
    refused = decoders.refused()
    help_text = "Requests over a limit of their API, or not messages, that were refused before any work."
    for api in dict.fromkeys((*APIS, *refused)):
        yield Reading("penstock_requests_refused", help_text, refused[api], True, (("api", api),))
    received = decoders.received_bytes()
    help_text = "Bytes of the requests that came, refused ones too."
    for api in dict.fromkeys((*APIS, *received)):
        yield Reading("penstock_request_bytes", help_text, received[api], True, (("api", api),))


def conversion_readings(converter: ProduceConverter) -> Iterator[Reading]:
    found = converter.statistics()
    help_text = (
        "Produce requests with batches that a thread compressed, or checked for keys, before they were appended."
    )
    yield Reading("penstock_produce_conversions", help_text, found.requests, True)
    help_text = "Bytes of the produced batches that a thread converted, before and after."
    for when, size_bytes in (("before", found.bytes_before), ("after", found.bytes_after)):
        yield Reading("penstock_produce_conversion_bytes", help_text, size_bytes, True, (("when", when),))
    yield Reading(
        "penstock_produce_conversions_refused",
        "Produced batches that a thread refused before they were appended.",
        found.refused,
        True,
    )


def connection_readings(listeners: BrokerListeners) -> Iterator[Reading]:
    clients = listeners.clients.statistics()
    yield from labelled("client_id", {client.name: client for client in clients})
    help_text = (
        "Open connections in Kafka's protocol by the name and version that the client's library tells (ApiVersions 3 "
        f"and later); beyond {SOFTWARE_MAX} such pairs, together."
    )
    for (name, version), count in listeners.clients.software.statistics().items():
        labels = (("name", name), ("version", version))
        yield Reading("penstock_kafka_client_software", help_text, count, labels=labels)
    found = {name: connections.statistics() for name, connections in listeners.connections.items()}
    yield from labelled("listener", found)
    yield Reading("penstock_spare_descriptors", "Descriptors in reserve for the logs.", len(SPARE))
    help_text = "How often a log had to take a descriptor from the reserve."
    yield Reading("penstock_spare_descriptors_used", help_text, SPARE.used, True)


def authentication_readings(authentication: Authentication) -> Iterator[Reading]:
    yield from labelled("listener", authentication.counts.statistics())
    help_text = "Connections of gRPC's listeners by which somebody is logged in."
    yield Reading("penstock_authenticated_connections", help_text, len(authentication.sessions))


def refusal_readings(request_authorizer: RequestAuthorizer | None) -> Iterator[Reading]:
    """`request_authorizer` is None without an authorizer."""
    yield from record_readings(NO_AUTHORIZER if request_authorizer is None else request_authorizer.statistics())


def telemetry_readings(telemetry: ClientTelemetry) -> Iterator[Reading]:
    """The metrics that clients push, and those of the pushes themselves (KIP-714)."""
    yield from record_readings(telemetry.statistics())
    help_text = "Pushes of metrics, and questions for a subscription, that were refused, by the error."
    refused = telemetry.refusals()
    for name in dict.fromkeys((*REFUSALS, *refused)):
        yield Reading("penstock_client_telemetry_refused", help_text, refused.get(name, 0), True, (("error", name),))
    shown = telemetry.shown()
    limits = f"of {CLIENTS_MAX} clients at most, {SERIES_MAX} of each; without labels where no client pushes any"
    for is_sum, name, what in (
        (False, "penstock_client_pushed_value", "Numbers that clients have pushed"),
        (True, "penstock_client_pushed_sum", "Numbers that clients have pushed and that only grow"),
    ):
        is_empty = True
        for client in shown:
            for series, value in client.values.items():
                if series.is_sum == is_sum:
                    is_empty = False
                    texts = (client.client_id, client.instance_id, client.software, *series[:4])
                    labels = tuple(zip(_PUSHED_LABELS, texts, strict=True))
                    yield Reading(name, f"{what}: {limits}.", value, is_sum, labels)
        if is_empty:
            yield Reading(name, f"{what}: {limits}.", 0, is_sum, tuple((label, "") for label in _PUSHED_LABELS))
