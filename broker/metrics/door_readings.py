"""The metrics of requests and connections: memory in use and its budgets, and refusals.

Read from `statistics()` in the thread of a scrape, as in node_readings.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.authorization.refusals import NO_AUTHORIZER
from broker.metrics.field_readings import labelled, readings
from broker.metrics.metrics import Reading
from broker.metrics.node_view import BrokerView
from broker.network.client_software import SOFTWARE_MAX
from penstock.messages.apis import APIS
from storage.disk.spare_descriptors import SPARE


def door_readings(broker: BrokerView) -> Iterator[Reading]:
    """Everything that is known now."""
    budgets = {
        "requests": broker.request_memory.statistics(),
        "log-ins": broker.log_in_memory.statistics(),
        "answers": broker.answer_memory.statistics(),
        "other-answers": broker.request_memory.answers.statistics(),
        "sessions": broker.session_memory.statistics(),
    }
    yield from labelled("kind", budgets)
    yield from readings(broker.named_sessions.statistics())
    yield from readings(broker.arrivals.statistics())
    gatekeeper = broker.gatekeeper
    yield from readings(NO_AUTHORIZER if gatekeeper is None else gatekeeper.statistics())
    yield from labelled("quota", broker.quotas.clients.statistics())
    yield from readings(broker.audit.statistics())
    yield from _connections(broker)
    yield from _conversions(broker)
    refused = broker.listeners.decoders.refused()
    help_text = "Requests over a limit of their API, or not messages, that were refused before any work."
    for api in dict.fromkeys((*APIS, *refused)):
        yield Reading("penstock_requests_refused", help_text, refused[api], True, (("api", api),))
    received = broker.listeners.decoders.received_bytes()
    help_text = "Bytes of the requests that came, refused ones too."
    for api in dict.fromkeys((*APIS, *received)):
        yield Reading("penstock_request_bytes", help_text, received[api], True, (("api", api),))


def _conversions(broker: BrokerView) -> Iterator[Reading]:
    found = broker.converter.statistics()
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


def _connections(broker: BrokerView) -> Iterator[Reading]:
    clients = broker.listeners.clients.statistics()
    yield from labelled("client_id", {client.name: client for client in clients})
    help_text = (
        "Open connections in Kafka's protocol by the name and version that the client's library tells (ApiVersions 3 "
        f"and later); beyond {SOFTWARE_MAX} such pairs, together."
    )
    for (name, version), count in broker.listeners.clients.software.statistics().items():
        labels = (("name", name), ("version", version))
        yield Reading("penstock_kafka_client_software", help_text, count, labels=labels)
    listeners = broker.listeners.connections
    yield from labelled("listener", {name: connections.statistics() for name, connections in listeners.items()})
    yield from labelled("listener", broker.authentication.counts.statistics())
    help_text = "Connections of gRPC's listeners by which somebody is logged in."
    yield Reading("penstock_authenticated_connections", help_text, len(broker.authentication.sessions))
    yield Reading("penstock_spare_descriptors", "Descriptors in reserve for the logs.", len(SPARE))
    help_text = "How often a log had to take a descriptor from the reserve."
    yield Reading("penstock_spare_descriptors_used", help_text, SPARE.used, True)
