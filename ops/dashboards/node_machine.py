"""Rows of the dashboard of one node: its machine, its disks and its jobs."""

from __future__ import annotations

from ops.dashboards.panels import Query, Row, Unit, gauge, graph, quantiles, rate, rise, selected
from ops.dashboards.shared import RESIDENT_MEMORY

MACHINE = Row(
    "Processor, memory, files",
    (
        graph(
            "Event loop busy",
            "The share of the last minute in which the loop ran or waited for a processor. At 1 it has no time left.",
            Unit.SHARE,
            gauge("penstock_event_loop_busy_ratio"),
        ),
        graph(
            "Processors taken by others",
            "The share of the node's processors that other processes took. High beside a loop at rest: a busy machine.",
            Unit.SHARE,
            gauge("penstock_neighbours_busy_ratio"),
        ),
        graph(
            "Event loop lag",
            "How much later than asked for a timer of the loop ran: a piece of work held the loop for that long.",
            Unit.SECONDS,
            *quantiles("penstock_event_loop_lag_seconds"),
        ),
        graph(
            "Processor time by kind",
            "Processors in use. The kinds add up to the processes' own time.",
            Unit.COUNT,
            rate("penstock_cpu_seconds_total", "{{kind}}", "kind"),
        ),
        RESIDENT_MEMORY,
        graph(
            "Open files",
            "Sockets, segments and others, of the limit.",
            Unit.SHARE,
            Query(f"{selected('process_open_fds')} / {selected('process_max_fds')}"),
        ),
        graph(
            "Descriptors in reserve",
            "For the logs, when there are no others. A log had to take one: raise the limit of open files.",
            Unit.COUNT,
            gauge("penstock_spare_descriptors", "left {{instance}}"),
            rise("penstock_spare_descriptors_used_total", "used {{instance}}"),
        ),
    ),
)
JOBS = Row(
    "Periodic jobs and the cleaner",
    (
        graph(
            "Last run",
            "How long it took, by job.",
            Unit.SECONDS,
            Query(f"max by (task) ({selected('penstock_scheduled_last_run_seconds')})", "{{task}}"),
        ),
        graph(
            "Logs to open",
            "That a start has still to open, by log dir. Until then the node is not ready.",
            Unit.COUNT,
            gauge("penstock_logs_to_open", "{{log_dir}} {{instance}}"),
        ),
        graph(
            "Runs",
            "Of each job.",
            Unit.COUNT,
            rise("penstock_scheduled_runs_total", "{{task}}", "task"),
        ),
        graph(
            "Failures",
            "Of periodic jobs, by job, and the cleaner's passes that were given up. If it goes on, a person must look.",
            Unit.COUNT,
            rise("penstock_scheduled_failures_total", "{{task}}", "task"),
            rise("penstock_cleaner_passes_given_up_total", "cleaner {{instance}}"),
        ),
        graph(
            "Cleaner: dirtiest log",
            "The share of the dirtiest compacted log that is not cleaned yet, and the share that the last pass kept.",
            Unit.PERCENT,
            gauge("penstock_cleaner_max_dirty_percent", "dirty {{instance}}"),
            gauge("penstock_cleaner_recopy_percent", "kept {{instance}}"),
        ),
        graph(
            "Cleaner: bytes",
            "Read and written.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_cleaner_bytes_read_total", "read {{instance}}"),
            rate("penstock_cleaner_bytes_written_total", "written {{instance}}"),
        ),
        graph(
            "Cleaner: passes",
            "Those that ended well, and the delete markers that they removed.",
            Unit.COUNT,
            rise("penstock_cleaner_passes_total", "passes {{instance}}"),
            rise("penstock_cleaner_tombstones_removed_total", "delete markers {{instance}}"),
        ),
        graph("Cleaner: last pass", "How long it took.", Unit.SECONDS, gauge("penstock_cleaner_last_pass_seconds")),
        graph(
            "Cleaner: what it cannot clean",
            "Logs that are not cleaned any more until a restart, batches that it kept as they were, and dead threads.",
            Unit.COUNT,
            gauge("penstock_cleaner_uncleanable_partitions", "logs {{instance}}"),
            rise("penstock_cleaner_undecodable_batches_total", "batches {{instance}}"),
            gauge("penstock_cleaner_dead_threads", "dead threads {{instance}}"),
        ),
        graph(
            "Moves between log dirs",
            "Replicas that move within their broker, those that are there, and attempts that found no room.",
            Unit.COUNT,
            gauge("penstock_log_dir_moves", "moving {{instance}}"),
            rise("penstock_log_dir_moves_completed_total", "done {{instance}}"),
            rise("penstock_log_dir_move_failures_total", "failed attempts {{instance}}"),
            rise("penstock_log_dir_moves_put_off_total", "put off {{instance}}"),
            rise("penstock_log_dir_moves_throttled_total", "held by the throttle {{instance}}"),
        ),
        graph(
            "Moves between log dirs: bytes left",
            "That are to be copied.",
            Unit.BYTES,
            gauge("penstock_log_dir_move_bytes_left"),
        ),
        graph(
            "Moves between log dirs: bytes",
            "That are copied.",
            Unit.BYTES_PER_SECOND,
            rate("penstock_log_dir_move_bytes_total"),
        ),
        graph(
            "Moves between log dirs: longest hold",
            "A replica refuses requests for so long at the end of its move.",
            Unit.SECONDS,
            gauge("penstock_log_dir_move_held_seconds_max"),
        ),
        graph(
            "Clock is believed",
            "0 after the clock has jumped, or while it is apart from those of most brokers: nothing is deleted by age"
            " until it is right again.",
            Unit.COUNT,
            gauge("penstock_wall_clock_believed", "believed {{instance}}"),
            rise("penstock_wall_clock_jumps_total", "jumps {{instance}}"),
        ),
        graph(
            "Clock against the other brokers'",
            "By so much the node's clock is ahead of the middle one of the brokers; negative: behind.",
            Unit.SECONDS,
            gauge("penstock_wall_clock_off_seconds"),
        ),
    ),
)
