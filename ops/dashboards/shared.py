"""Panels that several dashboards have."""

from __future__ import annotations

from ops.dashboards.panels import Unit, gauge, graph, quantiles, rate, rise

TIMES = "penstock_request_seconds"
REPLICATION = graph(
    "Replication",
    "Record bytes fetched from leaders and sent to followers.",
    Unit.BYTES_PER_SECOND,
    rate("penstock_replication_bytes_in_total", "in {{instance}}"),
    rate("penstock_replication_bytes_out_total", "out {{instance}}"),
)
ISR_CHANGES = graph(
    "ISR changes",
    "Members that left and joined an ISR. Both at once, again and again: a follower at its limit.",
    Unit.COUNT,
    rise("penstock_isr_shrinks_total", "shrinks {{instance}}"),
    rise("penstock_isr_expands_total", "expands {{instance}}"),
)
SESSIONS = graph(
    "Sessions and registrations",
    "Brokers fenced for silence, brokers that came back after an unclean stop, and running ones that registered again.",
    Unit.COUNT,
    rise("penstock_broker_sessions_expired_total", "expired {{instance}}"),
    rise("penstock_unclean_registrations_total", "unclean {{instance}}"),
    rise("penstock_broker_registrations_anew_total", "anew {{instance}}"),
)
RESIDENT_MEMORY = graph("Resident memory", "Of each process.", Unit.BYTES, gauge("process_resident_memory_bytes"))
REQUESTS = graph(
    "Requests by API",
    "Answered requests.",
    Unit.REQUESTS_PER_SECOND,
    rate("penstock_requests_total", "{{api}}", "api"),
)
ERRORS = graph(
    "Errors by API and name",
    "One for a whole request, or for each partition that failed. A produce with acks=0 fails only here.",
    Unit.EVENTS_PER_SECOND,
    rate("penstock_request_errors_total", "{{api}} {{error}}", "api, error"),
)
PRODUCE_TIME = graph(
    "Time of a produce",
    "From its arrival until its answer was sent.",
    Unit.SECONDS,
    *quantiles(TIMES, where='api="Produce",phase="total"'),
)
FETCH_TIME = graph(
    "Time of a consumer's fetch",
    "Of all consumers, with its wait for records.",
    Unit.SECONDS,
    *quantiles(TIMES, where='api="FetchConsumer",phase="total"'),
)
