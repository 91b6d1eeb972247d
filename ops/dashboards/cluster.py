"""The cluster as a whole: whether it can serve, what it serves, and how long its disks have room."""

from __future__ import annotations

from ops.dashboards.panels import Dashboard, Query, Row, Stat, Unit, gauge, graph, quantile, rate, rise, selected
from ops.dashboards.shared import ERRORS, ISR_CHANGES, REPLICATION, RESIDENT_MEMORY, SESSIONS

MONTH_SECONDS = 30 * 86_400

IN_SERVICE = Row(
    "In service",
    (
        Stat("Nodes that answer", "Nodes whose last scrape worked.", 'sum(up{job="penstock"})', None, 1),
        Stat(
            "Nodes that do not answer",
            "Nodes whose last scrape failed, and nodes that a host has and that do not run.",
            'sum(up{job="penstock"} == bool 0) + (sum(penstock_host_node_up == bool 0) or vector(0))',
        ),
        Stat(
            "Nodes started again",
            "By their host, in the last hour, because their processes had ended by themselves.",
            "sum(increase(penstock_host_node_restarts_total[1h])) or vector(0)",
        ),
        Stat("Nodes that are not ready", "/readyz says what is missing.", "sum(penstock_node_ready == bool 0)"),
        Stat("Active controllers", "Exactly one in a healthy cluster.", "sum(penstock_active_controllers)", 2, 1),
        Stat("Offline partitions", "No leader: neither readable nor writable.", "max(penstock_offline_partitions)"),
        Stat("Under min ISR", "Refuse writes with acks=all.", "sum(penstock_under_min_isr_partitions)"),
        Stat("Under-replicated", "A replica is missing from the ISR.", "sum(penstock_under_replicated_partitions)"),
        Stat("Fenced brokers", "Registered, but not in service.", "max(penstock_fenced_brokers)"),
        Stat("Failed log dirs", "The disk gave an error or hung.", "sum(penstock_failed_log_dirs)"),
        Stat("Cordoned log dirs", "They get no new replicas.", "sum(penstock_cordoned_log_dirs)"),
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
        graph("Records in", "From producers, by node.", Unit.RECORDS_PER_SECOND, rate("penstock_messages_in_total")),
        graph(
            "Bytes in and out",
            "Record bytes from producers and to consumers.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_bytes_in_total", "in {{instance}}"),
            rate("penstock_bytes_out_total", "out {{instance}}"),
        ),
        graph(
            "Bytes to consumers by role",
            "Of the bytes out: those of followers to consumers in their racks (KIP-392), and those to consumers that"
            " named another rack than the node's.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_follower_bytes_out_total", "by followers {{instance}}"),
            rate("penstock_cross_rack_bytes_out_total", "across racks {{instance}}"),
        ),
        graph(
            "Consumers sent to followers",
            "Answers of leaders that named a follower in the consumer's rack (KIP-392).",
            Unit.EVENTS_PER_SECOND,
            rate("penstock_readers_sent_to_followers_total"),
        ),
        REPLICATION,
        graph(
            "Time of a produce and of a consumer's fetch, p99",
            "From its arrival to its answer. A fetch that finds nothing new waits for records, and counts.",
            Unit.SECONDS,
            quantile(0.99, "penstock_request_seconds", where='api="Produce",phase="total"', legend="produce"),
            quantile(0.99, "penstock_request_seconds", where='api="FetchConsumer",phase="total"', legend="fetch"),
        ),
        ERRORS,
        graph(
            "Leaders",
            "Partitions that each node leads. The traffic follows them.",
            Unit.COUNT,
            gauge("penstock_leaders"),
        ),
    ),
)
CHANGES = Row(
    "What changes",
    (
        graph(
            "Elections",
            "Partition leaders that the controller elected, and elections of the quorum in which a node stood.",
            Unit.COUNT,
            rise("penstock_leader_elections_total", "leaders {{instance}}"),
            rise("penstock_unclean_leader_elections_total", "unclean {{instance}}"),
            rise("penstock_quorum_elections_total", "quorum {{instance}}"),
        ),
        ISR_CHANGES,
        SESSIONS,
    ),
)
CAPACITY = Row(
    "Capacity",
    (
        graph(
            "Idle",
            "The share that is left for handling requests, and for decoding and encoding. At 0 the node is full.",
            Unit.SHARE,
            gauge("penstock_request_handler_avg_idle_percent", "handlers {{instance}}"),
            gauge("penstock_network_processor_avg_idle_percent", "network {{instance}}"),
        ),
        graph(
            "Processor time",
            "Processors in use by each node.",
            Unit.COUNT,
            rate("process_cpu_seconds_total"),
        ),
        RESIDENT_MEMORY,
        graph(
            "Free bytes",
            "Of each log dir's disk.",
            Unit.BYTES,
            gauge("penstock_log_dir_free_bytes", "{{log_dir}} {{instance}}"),
        ),
        graph(
            "Free bytes in a day",
            "If the disk goes on filling as in the last hour. Below 0 it is full within the day.",
            Unit.BYTES,
            Query(f"predict_linear({selected('penstock_log_dir_free_bytes')}[1h], 86400)", "{{log_dir}} {{instance}}"),
            may_be_negative=True,
        ),
        graph(
            "Time to full",
            "If the disk goes on filling as in the last hour. A month, also when it does not fill.",
            Unit.SECONDS,
            Query(
                f"clamp_max({selected('penstock_log_dir_free_bytes')} / clamp_min(-deriv("
                f"{selected('penstock_log_dir_free_bytes')}[1h]), 1), {MONTH_SECONDS})",
                "{{log_dir}} {{instance}}",
            ),
        ),
        graph("Bytes of all logs", "On each node's disks.", Unit.BYTES, gauge("penstock_log_bytes")),
        graph(
            "Nodes by version and settings",
            "More than one line outside of an upgrade: nodes differ where they should be alike.",
            Unit.COUNT,
            Query("count by (version, settings) (penstock_node_info)", "{{version}} {{settings}}"),
        ),
        graph(
            "Brokers, topics, partitions",
            "As the active controller has them.",
            Unit.COUNT,
            Query("max(penstock_controller_active_brokers)", "brokers in service"),
            Query("max(penstock_controller_topics)", "topics"),
            Query("max(penstock_controller_partitions)", "partitions"),
        ),
    ),
)

DASHBOARD = Dashboard("cluster", "cluster", __doc__.strip(), (IN_SERVICE, TRAFFIC, CHANGES, CAPACITY))
