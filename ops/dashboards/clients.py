"""The work of the clients, and how they are served."""

from __future__ import annotations

from ops.dashboards.panels import (
    INSTANCE,
    Dashboard,
    Query,
    Row,
    Unit,
    Variable,
    gauge,
    graph,
    quantiles,
    rate,
    rise,
    selected,
)
from ops.dashboards.shared import ERRORS, FETCH_TIME, PRODUCE_TIME, REQUESTS, TIMES

CLIENT = 'client_id=~"$client_id"'
PRODUCE = 'api="Produce"'
KAFKA = 'listener_type="KAFKA"'
LATENCY = f'{CLIENT},metric=~".*request.latency.avg"'
SENT = f'{CLIENT},metric="producer.record.send.total"'
NEW_PRODUCER = 'api="InitProducerId"'

BY_CLIENT = Row(
    "By client_id",
    (
        graph(
            "Streams",
            "Open produce and fetch streams, and connections of Kafka's clients.",
            Unit.COUNT,
            Query(f"sum by (client_id) ({selected('penstock_client_streams', CLIENT)})", "{{client_id}}"),
        ),
        graph(
            "Requests",
            "Requests of these streams and connections.",
            Unit.REQUESTS_PER_SECOND,
            rate("penstock_client_requests_total", "{{client_id}}", "client_id", CLIENT),
        ),
        graph(
            "Bytes in",
            "Of these requests.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_client_bytes_in_total", "{{client_id}}", "client_id", CLIENT),
        ),
        graph(
            "Bytes out",
            "Of the answers to them.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_client_bytes_out_total", "{{client_id}}", "client_id", CLIENT),
        ),
    ),
)
SERVED = Row(
    "How they are served",
    (
        PRODUCE_TIME,
        FETCH_TIME,
        graph(
            "Time of other requests",
            "Metadata, offsets, topics, configuration.",
            Unit.SECONDS,
            *quantiles(TIMES, where='api!~"Produce|FetchConsumer|FetchFollower",phase="total"'),
        ),
        REQUESTS,
        ERRORS,
        graph(
            "Records of a produce request",
            "Few records a request cost the node most: let producers collect more (linger_ms, batch_size).",
            Unit.COUNT,
            Query(
                f"sum(rate({selected('penstock_messages_in_total')}[$__rate_interval])) / "
                f"sum(rate({selected('penstock_requests_total', PRODUCE)}[$__rate_interval]))",
                "records",
            ),
        ),
        graph(
            "New producers",
            "Requests for a producer id; a client that makes a producer for each record shows here. Waiting: the"
            " broker has no ids left, and no controller answers it.",
            Unit.COUNT,
            rise("penstock_requests_total", "{{instance}}", "instance", NEW_PRODUCER),
            Query(f"sum by (instance) ({selected('penstock_purgatory_size', NEW_PRODUCER)})", "waiting {{instance}}"),
        ),
        graph(
            "Idempotent producers",
            "What partitions know of them, bounded by producer.id.max.per.node. Forgotten: after"
            " producer.id.expiration.ms, or at a bound after 10 silent minutes.",
            Unit.COUNT,
            gauge("penstock_producer_ids"),
            rise("penstock_producers_expired_total", "expired {{instance}}"),
            rise("penstock_producers_evicted_total", "made room {{instance}}"),
        ),
        graph(
            "Batches sent again, or refused",
            "Duplicates are answered and not written. Refused: a sequence number that does not follow, an epoch that is"
            " over, a producer that is not known; the producer goes on by itself. At a bound: new producers.",
            Unit.COUNT,
            rise("penstock_producer_duplicates_total", "duplicates {{instance}}"),
            rise("penstock_producer_batches_refused_total", "{{why}}", "why"),
            rise("penstock_producers_refused_total", "at a bound {{instance}}"),
        ),
    ),
)
LIMITS = Row(
    "Limits",
    (
        graph(
            "Streams that wait for memory",
            "For room to be read or answered.",
            Unit.COUNT,
            Query(f"sum by (kind) ({selected('penstock_memory_waiting_streams')})", "{{kind}}"),
        ),
        graph(
            "Connections",
            "Of the limit of each listener (max.connections), which those for clients share.",
            Unit.SHARE,
            Query(
                f"{selected('penstock_tcp_connections')} / {selected('penstock_tcp_connections_max')}",
                "{{instance}} {{listener}}",
            ),
        ),
        graph(
            "Partitions on their way",
            "Requests that waited for a partition that the broker did not have yet, in vain, and without a wait: at a"
            " limit (many), or after one that waited or asked the active controller in vain (slow).",
            Unit.COUNT,
            rise("penstock_arrival_waits_total", "{{instance}}", "instance"),
            rise("penstock_arrival_waits_in_vain_total", "in vain {{instance}}", "instance"),
            rise("penstock_arrival_waits_refused_total", "no wait: {{why}} {{instance}}", "instance, why"),
        ),
        graph(
            "Refused and cut",
            "Requests over a limit of their API, and connections that were cut.",
            Unit.COUNT,
            rise("penstock_requests_refused_total", "{{api}}", "api"),
            rise("penstock_tcp_connections_cut_total", "cut: {{reason}} {{listener}}", "listener, reason"),
        ),
    ),
)
KAFKAS = Row(
    "Kafka's clients",
    (
        graph(
            "Requests by protocol",
            "Answered requests of Penstock's own clients and nodes (GRPC), and of Kafka's clients (KAFKA).",
            Unit.REQUESTS_PER_SECOND,
            rate("penstock_requests_total", "{{listener_type}}", "listener_type"),
        ),
        graph(
            "Requests of Kafka's clients",
            "By API.",
            Unit.REQUESTS_PER_SECOND,
            rate("penstock_requests_total", "{{api}}", "api", KAFKA),
        ),
        graph(
            "Time of their requests",
            "From its arrival until its answer was sent; a fetch with its wait for records.",
            Unit.SECONDS,
            *quantiles(TIMES, where=f'{KAFKA},phase="total"'),
        ),
        graph(
            "Errors of their requests",
            "One for a whole request, or for each partition that failed.",
            Unit.EVENTS_PER_SECOND,
            rate("penstock_request_errors_total", "{{api}} {{error}}", "api, error", KAFKA),
        ),
        graph(
            "Connections by software",
            "Open connections by the name and version of the client's library.",
            Unit.COUNT,
            Query(f"sum by (name, version) ({selected('penstock_kafka_client_software')}) > 0", "{{name}} {{version}}"),
        ),
        graph(
            "Fetch sessions",
            "Sessions that outlive a connection, their partitions, and those that lost their places to others. With "
            "many of these, raise max.incremental.fetch.session.cache.slots.",
            Unit.COUNT,
            Query(selected("penstock_kafka_fetch_sessions"), "{{instance}}"),
            Query(selected("penstock_kafka_fetch_session_partitions"), "partitions {{instance}}"),
            rise("penstock_kafka_fetch_session_evictions_total", "evicted {{instance}}"),
        ),
    ),
)
PUSHED = Row(
    "Pushed by Kafka's clients",
    (
        graph(
            "Clients that push",
            "Clients of Kafka that push their metrics to a broker, by subscriptions of `penstock configs alter"
            " --client-metrics NAME` (KIP-714). Without a place: questions of those over the limit.",
            Unit.COUNT,
            gauge("penstock_client_telemetry_clients"),
            rise("penstock_client_telemetry_without_place_total", "without a place {{instance}}"),
        ),
        graph(
            "Pushes",
            "Pushes that were taken, those that were refused, by the error, and questions what to push.",
            Unit.EVENTS_PER_SECOND,
            rate("penstock_client_telemetry_pushes_total", "taken {{instance}}"),
            rate("penstock_client_telemetry_subscriptions_total", "asked what to push {{instance}}"),
            rate("penstock_client_telemetry_refused_total", "{{error}}", "error"),
        ),
        graph(
            "Numbers in pushes",
            "All, and those that are not shown: over the limits of a client, asked for by nobody, or no numbers.",
            Unit.EVENTS_PER_SECOND,
            rate("penstock_client_telemetry_points_total", "all {{instance}}"),
            rate("penstock_client_telemetry_points_dropped_total", "not shown {{instance}}"),
        ),
        graph(
            "Slowest requests by the client's clock",
            "The average time from a request to its answer as the client saw it, by client and broker.",
            Unit.SECONDS,
            Query(
                f"max by (client_id, node) ({selected('penstock_client_pushed_value', LATENCY)}) / 1000",
                "{{client_id}} {{node}}",
            ),
        ),
        graph(
            "Records that clients sent",
            "In a second, as the client counts them.",
            Unit.RECORDS_PER_SECOND,
            rate("penstock_client_pushed_sum_total", "{{client_id}}", "client_id", SENT),
        ),
    ),
)

DASHBOARD = Dashboard(
    "clients",
    "clients",
    __doc__.strip(),
    (BY_CLIENT, SERVED, KAFKAS, PUSHED, LIMITS),
    (INSTANCE, Variable("client_id", "Client", "label_values(penstock_client_streams, client_id)")),
)
