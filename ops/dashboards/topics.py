"""Topics, and whether their replicas keep up."""

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
    rate,
    rise,
    selected,
)
from ops.dashboards.shared import ISR_CHANGES, REPLICATION

TOPIC = 'topic=~"$topic"'


def _by_topic(metric: str) -> tuple[Query, ...]:
    return (rate(metric, "{{topic}}", "topic", TOPIC),)


TRAFFIC = Row(
    "Traffic by topic",
    (
        graph("Records in", "From producers.", Unit.RECORDS_PER_SECOND, *_by_topic("penstock_topic_messages_in_total")),
        graph("Bytes in", "From producers.", Unit.BYTES_PER_SECOND, *_by_topic("penstock_topic_bytes_in_total")),
        graph("Bytes out", "To consumers.", Unit.BYTES_PER_SECOND, *_by_topic("penstock_topic_bytes_out_total")),
    ),
)
SIZES = Row(
    "Sizes",
    (
        graph(
            "Bytes by topic",
            "Of all replicas on the chosen nodes; of the largest partitions, where there are many.",
            Unit.BYTES,
            Query(f"sum by (topic) ({selected('penstock_partition_log_bytes', TOPIC)})", "{{topic}}"),
        ),
        graph(
            "Largest replicas",
            "The ten largest.",
            Unit.BYTES,
            Query(
                f"topk(10, {selected('penstock_partition_log_bytes', TOPIC)})",
                "{{topic}}-{{partition}} {{instance}}",
            ),
        ),
        graph("Segments", "Of all logs.", Unit.COUNT, gauge("penstock_log_segments")),
        graph(
            "Bytes deleted by retention",
            "By node.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_log_bytes_deleted_total"),
        ),
        graph(
            "Segments deleted by retention",
            "By the reason.",
            Unit.COUNT,
            rise("penstock_log_segments_deleted_total", "{{reason}}", "reason"),
        ),
    ),
)
REPLICAS = Row(
    "Replicas",
    (
        graph(
            "Partitions, leaders, logs to create",
            "Of each broker.",
            Unit.COUNT,
            gauge("penstock_partitions", "partitions {{instance}}"),
            gauge("penstock_leaders", "leaders {{instance}}"),
            gauge("penstock_partitions_to_create", "to create {{instance}}"),
        ),
        graph(
            "Not fully in sync",
            "Led partitions with replicas out of the ISR, and those below min.insync.replicas.",
            Unit.COUNT,
            gauge("penstock_under_replicated_partitions", "under-replicated {{instance}}"),
            gauge("penstock_under_min_isr_partitions", "under min ISR {{instance}}"),
        ),
        ISR_CHANGES,
        graph(
            "Partitions without a leader",
            "isr_out_of_service ends when a broker with an in-sync replica starts; log_lost and log_dir_offline need a"
            " person.",
            Unit.COUNT,
            Query("max by (reason) (penstock_leaderless_partitions)", "{{reason}}"),
        ),
        graph(
            "Replicas out of service",
            "By the reason. Damaged ones are fetched anew as soon as that is safe.",
            Unit.COUNT,
            gauge("penstock_lost_replicas", "{{why}} {{instance}}"),
            gauge("penstock_offline_replicas", "offline {{instance}}"),
        ),
        graph(
            "Set aside and rebuilt",
            "Directories that were set aside for a person to look at, and damaged logs that were fetched anew.",
            Unit.COUNT,
            gauge("penstock_set_aside_directories", "{{why}} {{instance}}"),
            rise("penstock_replicas_rebuilt_total", "rebuilt {{instance}}"),
        ),
    ),
)
FETCHERS = Row(
    "Fetchers",
    (
        graph(
            "Lag of the followers",
            "Records to the leader's high watermark, of the partition that lags most, by the following node. A member "
            "of the ISR holds the high watermark back itself, so it lags little.",
            Unit.COUNT,
            gauge("penstock_fetcher_lag_max"),
        ),
        graph(
            "Followed partitions",
            "All that the fetchers follow; failed ones wait for their next leader epoch, delayed ones for a back-off.",
            Unit.COUNT,
            gauge("penstock_fetcher_partitions", "all {{instance}}"),
            gauge("penstock_fetcher_failed_partitions", "failed {{instance}}"),
            gauge("penstock_fetcher_delayed_partitions", "delayed {{instance}}"),
        ),
        REPLICATION,
        graph(
            "Answers of leaders refused",
            "Their records failed their checks here.",
            Unit.COUNT,
            rise("penstock_replication_answers_refused_total"),
        ),
        graph(
            "Log starts made durable",
            "Checkpoint writes for deletions and followers, what waited for one, and writes that failed.",
            Unit.OPERATIONS_PER_SECOND,
            rate("penstock_log_start_commits_total", "writes {{instance}}"),
            rate("penstock_log_start_commit_requests_total", "requests {{instance}}"),
            rate("penstock_log_start_commit_failures_total", "failed {{instance}}"),
        ),
    ),
)

DASHBOARD = Dashboard(
    "topics",
    "topics and replication",
    __doc__.strip(),
    (TRAFFIC, SIZES, REPLICAS, FETCHERS),
    (INSTANCE, Variable("topic", "Topic", "label_values(penstock_topic_bytes_in_total, topic)")),
)
