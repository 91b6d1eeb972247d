"""The metrics of requests and connections: memory in use and its budgets, and refusals.

Read from `statistics()` in the thread of a scrape, as in node_readings.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.metrics.metrics import Reading
from broker.metrics.node_view import BrokerView
from broker.network.client_names import NAMES_MAX, ClientTraffic
from penstock.messages.apis import APIS
from storage.disk.spare_descriptors import SPARE


def door_readings(broker: BrokerView) -> Iterator[Reading]:
    """Everything that is known now."""
    yield from _memory(broker)
    yield from _connections(broker)
    yield from _conversions(broker)
    refused = broker.listeners.decoders.refused()
    help_text = "Requests over a limit of their API, or not messages, that were refused before any work."
    for api in APIS:
        yield Reading("penstock_requests_refused", help_text, refused[api], True, (("api", api),))
    received = broker.listeners.decoders.received_bytes()
    help_text = "Bytes of the requests that came, refused ones too."
    for api in APIS:
        yield Reading("penstock_request_bytes", help_text, received[api], True, (("api", api),))


def _clients(found: Sequence[ClientTraffic]) -> Iterator[Reading]:
    help_text = (
        f"Open produce and fetch streams by the client_id of their requests; beyond {NAMES_MAX} names, together."
    )
    for client in found:
        yield Reading("penstock_client_streams", help_text, client.streams, labels=(("client_id", client.name),))
    for name, help_text, counts in (
        ("requests", "Produce and fetch requests by client_id.", [client.requests for client in found]),
        ("bytes_in", "Bytes of the produce and fetch requests by client_id.", [client.bytes_in for client in found]),
        ("bytes_out", "Bytes of the answers to them by client_id.", [client.bytes_out for client in found]),
    ):
        for client, count in zip(found, counts, strict=True):
            yield Reading(f"penstock_client_{name}", help_text, count, True, (("client_id", client.name),))


def _memory(broker: BrokerView) -> Iterator[Reading]:
    budgets = {
        "requests": broker.request_memory.statistics(),
        "answers": broker.answer_memory.statistics(),
        "sessions": broker.session_memory.statistics(),
    }
    for kind, found in budgets.items():
        help_text = "Bytes of requests, of built answers and of fetch sessions in memory."
        yield Reading("penstock_memory_used_bytes", help_text, found.used_bytes, labels=(("kind", kind),))
    for kind, found in budgets.items():
        yield Reading(
            "penstock_memory_max_bytes",
            "Bytes of requests, of built answers and of fetch sessions that there may be in memory.",
            found.bytes_max,
            labels=(("kind", kind),),
        )
    for kind, found in budgets.items():
        help_text = "Streams that wait for room before they are read or answered."
        yield Reading("penstock_memory_waiting_streams", help_text, found.waiting, labels=(("kind", kind),))
    for kind, found in budgets.items():
        help_text = "How often a stream had to wait for room."
        yield Reading("penstock_memory_pauses", help_text, found.pauses, True, (("kind", kind),))


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
    yield from _clients(broker.listeners.clients.statistics())
    found = {name: connections.statistics() for name, connections in broker.listeners.connections.items()}
    help_text = "TCP connections at a listener of the broker, when last looked."
    for name, at in found.items():
        yield Reading("penstock_tcp_connections", help_text, at.open, labels=(("listener", name),))
    help_text = "TCP connections that there may be at a listener of the broker; those for clients share this number."
    for name, at in found.items():
        yield Reading("penstock_tcp_connections_max", help_text, at.connections_max, labels=(("listener", name),))
    help_text = "Connections that were cut, by the listener and the reason."
    for name, at in found.items():
        reasons = (("limit", at.cut_over_limit), ("rate", at.cut_over_rate), ("stalled", at.cut_stalled))
        for reason, count in reasons:
            labels = (("listener", name), ("reason", reason))
            yield Reading("penstock_tcp_connections_cut", help_text, count, True, labels)
    yield Reading("penstock_spare_descriptors", "Descriptors in reserve for the logs.", len(SPARE))
    help_text = "How often a log had to take a descriptor from the reserve."
    yield Reading("penstock_spare_descriptors_used", help_text, SPARE.used, True)
