"""One node, in the order in which a request takes its way through it; then its machine and its jobs, which are
node_machine.py's."""

from __future__ import annotations

from ops.dashboards.node_machine import JOBS, MACHINE
from ops.dashboards.panels import Dashboard, Query, Row, Unit, gauge, graph, quantile, quantiles, rate, rise, selected
from ops.dashboards.shared import ERRORS, FETCH_TIME, PRODUCE_TIME, REQUESTS, TIMES

CONNECTIONS = Row(
    "1. Connections",
    (
        graph(
            "Connections and streams",
            "TCP connections at each listener of the broker, and open produce and fetch streams; a connection of a "
            "Kafka client is one of each.",
            Unit.COUNT,
            gauge("penstock_tcp_connections", "connections {{instance}} {{listener}}"),
            gauge("penstock_connections", "streams {{instance}}"),
        ),
        graph(
            "Connections cut",
            "Over a limit, new ones too fast, because the client did not read its answer, (protocol) for bytes that "
            "are no request in the listener's protocol, or (tls) because the TLS handshake failed.",
            Unit.COUNT,
            rise(
                "penstock_tcp_connections_cut_total",
                "{{reason}} {{instance}} {{listener}}",
                "instance, listener, reason",
            ),
        ),
        graph(
            "Requests refused over a limit",
            "Requests with too many bytes or elements, or that are not messages: docs/request-limits.md.",
            Unit.COUNT,
            rise("penstock_requests_refused_total", "{{api}}", "api"),
        ),
    ),
)
ARRIVAL = Row(
    "2. Reading and decoding",
    (
        graph(
            "Request bytes by API",
            "Bytes of the requests that came, refused ones too.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_request_bytes_total", "{{api}}", "api"),
        ),
        graph(
            "Memory in use, of its budget",
            "Of requests, built answers and fetch sessions. At 1 streams are not read, and answers are not built, "
            "until there is room.",
            Unit.SHARE,
            Query(
                f"{selected('penstock_memory_used_bytes')} / {selected('penstock_memory_max_bytes')}",
                "{{kind}} {{instance}}",
            ),
        ),
        graph(
            "Streams that wait for memory",
            "How many wait now, and how often one began to wait.",
            Unit.COUNT,
            gauge("penstock_memory_waiting_streams", "{{kind}} {{instance}}"),
            rise("penstock_memory_pauses_total", "pauses {{kind}} {{instance}}", "instance, kind"),
        ),
        graph(
            "Network processors idle",
            "The share that is left for decoding requests and encoding answers.",
            Unit.SHARE,
            gauge("penstock_network_processor_avg_idle_percent"),
        ),
        graph(
            "Produce requests converted",
            "Requests with batches that a thread compressed, or checked for keys, before they were queued.",
            Unit.REQUESTS_PER_SECOND,
            rate("penstock_produce_conversions_total", "converted {{instance}}"),
            rate("penstock_produce_conversions_refused_total", "refused batches {{instance}}"),
        ),
        graph(
            "Bytes converted",
            "Before and after.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_produce_conversion_bytes_total", "{{when}} {{instance}}", "instance, when"),
        ),
    ),
)
QUEUE = Row(
    "3. Request queue",
    (
        graph(
            "Requests that wait for a handler",
            "At most queued.max.requests.",
            Unit.COUNT,
            gauge("penstock_request_queue_size"),
        ),
        graph("Time in the request queue", "Of all APIs.", Unit.SECONDS, *quantiles(TIMES, where='phase="queue"')),
        REQUESTS,
    ),
)
HANDLERS = Row(
    "4. Handlers",
    (
        graph(
            "Request handlers idle",
            "The share that is left for handling requests.",
            Unit.SHARE,
            gauge("penstock_request_handler_avg_idle_percent"),
        ),
        graph(
            "Time in the handler, p99 by API",
            "A produce's append, a fetch's read of what is in the page cache.",
            Unit.SECONDS,
            quantile(0.99, TIMES, "{{api}}", "api", 'phase="local"'),
        ),
        graph(
            "I/O threads",
            "Threads that wait for a disk, and reads that wait for a thread. If the queue does not empty, a disk "
            "hangs, or is too slow for its cold reads. Requests whose records are in the page cache go on.",
            Unit.COUNT,
            gauge("penstock_io_threads", "threads {{instance}}"),
            gauge("penstock_io_threads_busy", "busy {{instance}}"),
            gauge("penstock_io_queue_size", "queued {{instance}}"),
            rise("penstock_io_queue_refusals_total", "refused {{instance}}"),
        ),
        graph(
            "Cold reads",
            "Reads and look-ups by time that were not in the page cache and were done in I/O threads.",
            Unit.OPERATIONS_PER_SECOND,
            rate("penstock_cold_reads_total", "{{work}} {{instance}}", "instance, work"),
        ),
    ),
)
LOG = Row(
    "5. The log",
    (
        graph("Time of a flush", "fdatasync of one log.", Unit.SECONDS, *quantiles("penstock_log_flush_seconds")),
        graph(
            "Group commits",
            "fdatasync calls a second. One serves many waiting writes.",
            Unit.OPERATIONS_PER_SECOND,
            rate("penstock_log_flushes_total"),
        ),
        graph(
            "Oldest call to a disk",
            "For how long one call has not come back. At log.dir.hang.ms.max the log dir fails.",
            Unit.SECONDS,
            gauge("penstock_log_dir_oldest_call_seconds", "{{log_dir}} {{instance}}"),
        ),
        graph(
            "Disk",
            "Bytes of the disk, what is free of it, and the logs of each log dir.",
            Unit.BYTES,
            gauge("penstock_log_dir_disk_bytes", "disk {{log_dir}} {{instance}}"),
            gauge("penstock_log_dir_free_bytes", "free {{log_dir}} {{instance}}"),
            gauge("penstock_log_dir_log_bytes", "logs {{log_dir}} {{instance}}"),
        ),
        graph(
            "No room",
            "Logs whose flush waits because a disk is full, partitions that refuse appends, and what was refused.",
            Unit.COUNT,
            gauge("penstock_logs_without_room", "logs {{instance}}"),
            gauge("penstock_partitions_refusing_appends", "partitions {{instance}}"),
            rise("penstock_log_flushes_deferred_total", "flushes {{instance}}"),
            rise("penstock_appends_refused_total", "appends {{instance}}"),
            rise("penstock_producer_snapshots_left_out_total", "snapshots {{instance}}"),
        ),
    ),
)
PURGATORY = Row(
    "6. Waiting for others",
    (
        graph(
            "Requests that wait in a purgatory",
            "For acks, for records, or for the controller.",
            Unit.COUNT,
            Query(f"sum by (api) ({selected('penstock_purgatory_size')})", "{{api}}"),
        ),
        graph(
            "Waiting time of a produce",
            "For the flush here and, with acks=all, for the followers.",
            Unit.SECONDS,
            *quantiles(TIMES, where='api="Produce",phase="remote"'),
        ),
        graph(
            "Waiting time of a consumer's fetch",
            "For new records, at most fetch.max.wait.ms. Long is normal when nothing is produced.",
            Unit.SECONDS,
            *quantiles(TIMES, where='api="FetchConsumer",phase="remote"'),
        ),
    ),
)
ANSWERS = Row(
    "7. Answers",
    (
        graph(
            "Answers that wait to be sent",
            "In order, by connection.",
            Unit.COUNT,
            gauge("penstock_response_queue_size"),
        ),
        graph(
            "Time to send an answer, p99 by API",
            "In the response queue, and until the connection took it.",
            Unit.SECONDS,
            quantile(0.99, TIMES, "{{api}}", "api", 'phase="response"'),
        ),
        ERRORS,
        PRODUCE_TIME,
        FETCH_TIME,
        graph(
            "Time of a follower's fetch",
            "With its wait for records.",
            Unit.SECONDS,
            *quantiles(TIMES, where='api="FetchFollower",phase="total"'),
        ),
    ),
)

DASHBOARD = Dashboard(
    "node",
    "node",
    "One node, in the order in which a request takes its way through it; then its machine and its jobs.",
    (CONNECTIONS, ARRIVAL, QUEUE, HANDLERS, LOG, PURGATORY, ANSWERS, MACHINE, JOBS),
)
