"""Spark's reads from the cluster and writes to it, by the client_id of its clients; and the jobs of the pipelines.

The pipelines' metrics are of the jobs themselves (`metrics_port` in a job's file), so no `$instance` limits them.
"""

from __future__ import annotations

from ops.dashboards.panels import INSTANCE, Dashboard, Query, Row, Unit, Variable, graph, rate, selected
from ops.dashboards.shared import FETCH_TIME, PRODUCE_TIME

CLIENT = 'client_id=~"$client_id"'

CLIENTS = Row(
    "Spark's clients",
    (
        graph(
            "Streams",
            "Of tasks that read and write now, and of the Python workers that Spark keeps.",
            Unit.COUNT,
            Query(f"sum by (client_id) ({selected('penstock_client_streams', CLIENT)})", "{{client_id}}"),
        ),
        graph(
            "Read",
            "Bytes of the answers to Spark.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_client_bytes_out_total", "{{client_id}}", "client_id", CLIENT),
        ),
        graph(
            "Written",
            "Bytes of the requests of Spark.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_client_bytes_in_total", "{{client_id}}", "client_id", CLIENT),
        ),
        graph(
            "Requests",
            "Produce and fetch requests. A query that asks often for little costs the nodes most.",
            Unit.REQUESTS_PER_SECOND,
            rate("penstock_client_requests_total", "{{client_id}}", "client_id", CLIENT),
        ),
        graph(
            "Bytes of a request",
            "The answer counted.",
            Unit.BYTES,
            Query(
                f"sum by (client_id) (rate({selected('penstock_client_bytes_out_total', CLIENT)}[$__rate_interval])"
                f" + rate({selected('penstock_client_bytes_in_total', CLIENT)}[$__rate_interval]))"
                f" / sum by (client_id) (rate({selected('penstock_client_requests_total', CLIENT)}"
                "[$__rate_interval]))",
                "{{client_id}}",
            ),
        ),
    ),
)
EACH_QUERY = "{{pipeline}} {{query}}"


def _rate(metric: str, legend: str = EACH_QUERY) -> Query:
    return Query(f"sum by (pipeline, query) (rate(penstock_pipeline_{metric}[$__rate_interval]))", legend)


PIPELINES = Row(
    "Pipelines",
    (
        graph(
            "Lag",
            "Records between the last micro-batch and the end of the topic. If it grows, a job does not keep up.",
            Unit.COUNT,
            Query("penstock_pipeline_lag_records", EACH_QUERY),
        ),
        graph("Rows read", "By all micro-batches.", Unit.RECORDS_PER_SECOND, _rate("input_rows_total")),
        graph(
            "Micro-batches",
            "Those that had rows.",
            Unit.OPERATIONS_PER_SECOND,
            _rate("batches_total"),
        ),
        graph(
            "Time of a micro-batch",
            "Of the last one.",
            Unit.SECONDS,
            Query("penstock_pipeline_batch_seconds", EACH_QUERY),
        ),
        graph(
            "Since the last micro-batch",
            "It grows while a job waits for rows, and when a job stands still.",
            Unit.SECONDS,
            Query("time() - penstock_pipeline_last_batch_timestamp_seconds", EACH_QUERY),
        ),
        graph(
            "Rows dropped",
            "Behind the watermark, which are in no result, and with an id that came before.",
            Unit.RECORDS_PER_SECOND,
            _rate("late_rows_total", f"late {EACH_QUERY}"),
            _rate("duplicate_rows_total", f"duplicate {EACH_QUERY}"),
        ),
        graph(
            "Dead letters",
            "Rows that silver could not take, by what is wrong. Early: a wrong clock, or a time in other units.",
            Unit.RECORDS_PER_SECOND,
            _rate("dead_letters_total", "{{kind}}"),
        ),
    ),
)
TOPICS = Row(
    "What it works on, and how it is served",
    (
        graph(
            "Records in by topic",
            "From all producers: what a query has to keep up with.",
            Unit.RECORDS_PER_SECOND,
            rate("penstock_topic_messages_in_total", "{{topic}}", "topic"),
        ),
        graph(
            "Bytes out by topic",
            "To all consumers.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_topic_bytes_out_total", "{{topic}}", "topic"),
        ),
        graph(
            "Cold reads",
            "A query that reads old records reads them from the disk.",
            Unit.OPERATIONS_PER_SECOND,
            rate("penstock_cold_reads_total", "{{work}}", "work"),
        ),
        FETCH_TIME,
        PRODUCE_TIME,
    ),
)

DASHBOARD = Dashboard(
    "spark",
    "Spark",
    "The jobs of the pipelines, and what Spark reads from the cluster and writes to it, by its client_id.",
    (PIPELINES, CLIENTS, TOPICS),
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
