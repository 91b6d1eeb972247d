"""Whether the cluster can serve, what it serves, and how long its disks have room."""

from __future__ import annotations

from ops.dashboards.panels import Dashboard, Panel, Query, Row, Stat, Unit, gauge, quantile, rate, rise, selected

MONTH_SECONDS = 30 * 86_400

IN_SERVICE = Row(
    "In service",
    (
        Stat("Nodes that answer", "Nodes whose last scrape worked.", 'sum(up{job="penstock"})', None, 1),
        Stat("Nodes that are not ready", "/readyz says what is missing.", "sum(penstock_node_ready == bool 0)"),
        Stat("Active controllers", "Exactly one in a healthy cluster.", "sum(penstock_active_controllers)", 2, 1),
        Stat("Offline partitions", "No leader: neither readable nor writable.", "max(penstock_offline_partitions)"),
        Stat("Under min ISR", "Refuse writes with acks=all.", "sum(penstock_under_min_isr_partitions)"),
        Stat("Under-replicated", "A replica is missing from the ISR.", "sum(penstock_under_replicated_partitions)"),
        Stat("Fenced brokers", "Registered, but not in service.", "max(penstock_fenced_brokers)"),
        Stat("Failed log dirs", "The disk gave an error.", "sum(penstock_failed_log_dirs)"),
        Stat(
            "Logs without room",
            "Their flush or their appends wait for room on a disk.",
            "sum(penstock_logs_without_room) + sum(penstock_partitions_refusing_appends)",
        ),
    ),
)
TRAFFIC = Row(
    "Traffic",
    (
        Panel("Records in", "From producers, by node.", Unit.RECORDS_PER_SECOND, (rate("penstock_messages_in_total"),)),
        Panel(
            "Bytes in and out",
            "Record bytes from producers and to consumers.",
            Unit.BYTES_PER_SECOND,
            (
                rate("penstock_bytes_in_total", "in {{instance}}"),
                rate("penstock_bytes_out_total", "out {{instance}}"),
            ),
        ),
        Panel(
            "Replication",
            "Record bytes fetched from leaders and sent to followers.",
            Unit.BYTES_PER_SECOND,
            (
                rate("penstock_replication_bytes_in_total", "in {{instance}}"),
                rate("penstock_replication_bytes_out_total", "out {{instance}}"),
            ),
        ),
        Panel(
            "Time of a produce and of a consumer's fetch, p99",
            "From its arrival to its answer. A fetch that finds nothing new waits for records, and counts.",
            Unit.SECONDS,
            (
                quantile(0.99, "penstock_request_seconds", where='api="Produce",phase="total"', legend="produce"),
                quantile(0.99, "penstock_request_seconds", where='api="FetchConsumer",phase="total"', legend="fetch"),
            ),
        ),
        Panel(
            "Errors by API and name",
            "One for a whole request, or for each partition that failed.",
            Unit.EVENTS_PER_SECOND,
            (rate("penstock_request_errors_total", "{{api}} {{error}}", "api, error"),),
        ),
        Panel(
            "Leaders",
            "Partitions that each node leads. The traffic follows them.",
            Unit.COUNT,
            (gauge("penstock_leaders"),),
        ),
    ),
)
CHANGES = Row(
    "What changes",
    (
        Panel(
            "Elections",
            "Partition leaders that the controller elected, and elections of the quorum in which a node stood.",
            Unit.COUNT,
            (
                rise("penstock_leader_elections_total", "leaders {{instance}}"),
                rise("penstock_unclean_leader_elections_total", "unclean {{instance}}"),
                rise("penstock_quorum_elections_total", "quorum {{instance}}"),
            ),
        ),
        Panel(
            "ISR changes",
            "Members that left and joined. Both at once, again and again: a follower at its limit.",
            Unit.COUNT,
            (
                rise("penstock_isr_shrinks_total", "shrinks {{instance}}"),
                rise("penstock_isr_expands_total", "expands {{instance}}"),
            ),
        ),
        Panel(
            "Brokers fenced for silence, unclean registrations",
            "Sessions that ran out, and brokers that registered after an unclean stop.",
            Unit.COUNT,
            (
                rise("penstock_broker_sessions_expired_total", "expired {{instance}}"),
                rise("penstock_unclean_registrations_total", "unclean {{instance}}"),
                rise("penstock_broker_registrations_anew_total", "anew {{instance}}"),
            ),
        ),
    ),
)
CAPACITY = Row(
    "Capacity",
    (
        Panel(
            "Idle",
            "The smaller of what is left for handling requests, and for decoding and encoding. At 0 the node is full.",
            Unit.SHARE,
            (
                gauge("penstock_request_handler_avg_idle_percent", "handlers {{instance}}"),
                gauge("penstock_network_processor_avg_idle_percent", "network {{instance}}"),
            ),
        ),
        Panel(
            "Processor time",
            "Processors in use by each node.",
            Unit.COUNT,
            (rate("process_cpu_seconds_total"),),
        ),
        Panel("Resident memory", "Of each node.", Unit.BYTES, (gauge("process_resident_memory_bytes"),)),
        Panel(
            "Free bytes",
            "Of each log dir's disk.",
            Unit.BYTES,
            (gauge("penstock_log_dir_free_bytes", "{{log_dir}} {{instance}}"),),
        ),
        Panel(
            "Free bytes in a day",
            "If the disk goes on filling as in the last hour. Below 0 it is full within the day.",
            Unit.BYTES,
            (
                Query(
                    f"predict_linear({selected('penstock_log_dir_free_bytes')}[1h], 86400)", "{{log_dir}} {{instance}}"
                ),
            ),
            may_be_negative=True,
        ),
        Panel(
            "Time to full",
            "If the disk goes on filling as in the last hour. A month, also when it does not fill.",
            Unit.SECONDS,
            (
                Query(
                    f"clamp_max({selected('penstock_log_dir_free_bytes')} / clamp_min(-deriv("
                    f"{selected('penstock_log_dir_free_bytes')}[1h]), 1), {MONTH_SECONDS})",
                    "{{log_dir}} {{instance}}",
                ),
            ),
        ),
        Panel("Bytes of all logs", "On each node's disks.", Unit.BYTES, (gauge("penstock_log_bytes"),)),
        Panel(
            "Nodes by version and settings",
            "More than one line outside of an upgrade: nodes differ where they should be alike.",
            Unit.COUNT,
            (Query("count by (version, settings) (penstock_node_info)", "{{version}} {{settings}}"),),
        ),
        Panel(
            "Brokers, topics, partitions",
            "As the active controller has them.",
            Unit.COUNT,
            (
                Query("max(penstock_controller_active_brokers)", "brokers in service"),
                Query("max(penstock_controller_topics)", "topics"),
                Query("max(penstock_controller_partitions)", "partitions"),
            ),
        ),
    ),
)

DASHBOARD = Dashboard("cluster", "cluster", __doc__.strip(), (IN_SERVICE, TRAFFIC, CHANGES, CAPACITY))
