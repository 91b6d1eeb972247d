"""What Spark reads from the cluster and writes to it, by the client_id of its clients."""

from __future__ import annotations

from ops.dashboards.panels import INSTANCE, Dashboard, Panel, Query, Row, Unit, Variable, quantiles, rate, selected

TIMES = "penstock_request_seconds"
CLIENT = 'client_id=~"$client_id"'

CLIENTS = Row(
    "Spark's clients",
    (
        Panel(
            "Streams",
            "Of tasks that read and write now, and of the Python workers that Spark keeps.",
            Unit.COUNT,
            (Query(f"sum by (client_id) ({selected('penstock_client_streams', CLIENT)})", "{{client_id}}"),),
        ),
        Panel(
            "Read",
            "Bytes of the answers to Spark.",
            Unit.BYTES_PER_SECOND,
            (rate("penstock_client_bytes_out_total", "{{client_id}}", "client_id", CLIENT),),
        ),
        Panel(
            "Written",
            "Bytes of the requests of Spark.",
            Unit.BYTES_PER_SECOND,
            (rate("penstock_client_bytes_in_total", "{{client_id}}", "client_id", CLIENT),),
        ),
        Panel(
            "Requests",
            "Produce and fetch requests. A query that asks often for little costs the nodes most.",
            Unit.REQUESTS_PER_SECOND,
            (rate("penstock_client_requests_total", "{{client_id}}", "client_id", CLIENT),),
        ),
        Panel(
            "Bytes of a request",
            "The answer counted.",
            Unit.BYTES,
            (
                Query(
                    f"sum by (client_id) (rate({selected('penstock_client_bytes_out_total', CLIENT)}[$__rate_interval])"
                    f" + rate({selected('penstock_client_bytes_in_total', CLIENT)}[$__rate_interval]))"
                    f" / sum by (client_id) (rate({selected('penstock_client_requests_total', CLIENT)}"
                    "[$__rate_interval]))",
                    "{{client_id}}",
                ),
            ),
        ),
    ),
)
TOPICS = Row(
    "What it works on, and how it is served",
    (
        Panel(
            "Records in by topic",
            "From all producers: what a query has to keep up with.",
            Unit.RECORDS_PER_SECOND,
            (rate("penstock_topic_messages_in_total", "{{topic}}", "topic"),),
        ),
        Panel(
            "Bytes out by topic",
            "To all consumers.",
            Unit.BYTES_PER_SECOND,
            (rate("penstock_topic_bytes_out_total", "{{topic}}", "topic"),),
        ),
        Panel(
            "Cold reads",
            "A query that reads old records reads them from the disk.",
            Unit.OPERATIONS_PER_SECOND,
            (rate("penstock_cold_reads_total", "{{work}}", "work"),),
        ),
        Panel(
            "Time of a consumer's fetch",
            "Of all consumers, with its wait for records.",
            Unit.SECONDS,
            quantiles(TIMES, where='api="FetchConsumer",phase="total"'),
        ),
        Panel(
            "Time of a produce",
            "Of all producers.",
            Unit.SECONDS,
            quantiles(TIMES, where='api="Produce",phase="total"'),
        ),
    ),
)

DASHBOARD = Dashboard(
    "spark",
    "Spark",
    "What Spark reads from the cluster and writes to it, by the client_id of its clients.",
    (CLIENTS, TOPICS),
    (
        INSTANCE,
        Variable(
            "client_id",
            "Client",
            'label_values(penstock_client_streams{client_id=~".*spark.*"}, client_id)',
            all_values=".*spark.*",
        ),
    ),
)
