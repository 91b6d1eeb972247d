"""The metrics of logs and disks, and of the jobs that maintain them. The other half of node_readings.py.

Read in the thread of a scrape, from `statistics()` and from single numbers of the logs. They change on the loop
meanwhile, so each number is right by itself but may be a moment old. Sizes are shown for each partition, as in Kafka,
but only of the largest ones, up to a limit: a node may host many more partitions than a monitoring system wants series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import nlargest

from broker.metrics.metrics import Reading
from broker.metrics.node_view import BrokerView, NodeView
from penstock.types import TopicPartition
from storage.log.retention import DeletionReason

PARTITIONS_SHOWN_MAX = 1_000
"""Partitions with a size of their own; the sum over all of them is always there."""
_REASONS = {
    DeletionReason.TIME: "retention.ms",
    DeletionReason.SIZE: "retention.bytes",
    DeletionReason.LOG_START: "log.start.offset",
}


def storage_readings(node: NodeView) -> Iterator[Reading]:
    """Everything that is known now."""
    yield from _log_dirs(node)
    if node.broker is not None:
        yield from _lost_replicas(node, node.broker)
        yield from _flushes(node.broker)
        yield from _log_starts(node.broker)
        yield from _refused_appends(node.broker)
        yield from _retention(node.broker)
        yield from _producers(node)
        yield from _cleaner(node.broker)
        yield from _logs(node)
        yield from _disks(node.broker)
        yield from _moves(node.broker)
        yield from _jobs(node.broker)


def _log_dirs(node: NodeView) -> Iterator[Reading]:
    failed = {**node.log_manager.offline_log_dirs, **node.failed_log_dirs}
    yield Reading("penstock_failed_log_dirs", "Log dirs that cannot be used.", len(failed))
    help_text = "Age of the oldest call to the disk of a log dir; one that hangs fails at log.dir.hang.ms.max."
    for log_dir, age_ms in node.log_manager.calls.ages_ms().items():
        yield Reading("penstock_log_dir_oldest_call_seconds", help_text, age_ms / 1000, labels=(("log_dir", log_dir),))
    strays, rotten = len(node.log_manager.removal.strays), len(node.log_manager.removal.rotten)
    help_text = "Directories of partitions that were set aside, for a person to look at and delete."
    yield Reading("penstock_set_aside_directories", help_text, strays, labels=(("why", "stray"),))
    yield Reading("penstock_set_aside_directories", help_text, rotten, labels=(("why", "rotten"),))


def _moves(broker: BrokerView) -> Iterator[Reading]:
    moves = broker.log_dir_moves.statistics()
    yield Reading("penstock_log_dir_moves", "Replicas that move to another log dir of this broker.", moves.under_way)
    yield Reading("penstock_log_dir_move_bytes_left", "Bytes that such moves have to copy yet.", moves.bytes_left)
    yield Reading("penstock_log_dir_move_bytes", "Bytes that such moves have copied.", moves.copied_bytes, True)
    yield Reading("penstock_log_dir_moves_completed", "Such moves that are done.", moves.completed, True)
    help_text = "Attempts of such moves that a full or a broken disk ended."
    yield Reading("penstock_log_dir_move_failures", help_text, moves.failed_attempts, True)
    help_text = "Times that a move put its last step off, because the disk was slow."
    yield Reading("penstock_log_dir_moves_put_off", help_text, moves.put_off, True)
    help_text = "Times that a copy was held by replica.alter.log.dirs.io.max.bytes.per.second."
    yield Reading("penstock_log_dir_moves_throttled", help_text, broker.log_dir_moves.throttle.holds, True)
    help_text = "The longest time for which a replica refused requests at the end of its move, since the start."
    yield Reading("penstock_log_dir_move_held_seconds_max", help_text, moves.held_ms_max / 1000)


def _lost_replicas(node: NodeView, broker: BrokerView) -> Iterator[Reading]:
    offline = set(broker.replicas.lost.partitions) | set(node.log_manager.table.offline.names())
    yield Reading("penstock_offline_replicas", "Replicas here whose disk or data failed.", len(offline))
    lost = broker.replicas.lost.statistics()
    help_text = "Replicas that this broker should serve and cannot, by the reason."
    for why, count in (
        ("damaged", lost.damaged),
        ("out_of_use", lost.out_of_use),
        ("without_log", lost.without_log),
    ):
        yield Reading("penstock_lost_replicas", help_text, count, labels=(("why", why),))
    help_text = "Damaged logs that were set aside since the start, and fetched anew."
    yield Reading("penstock_replicas_rebuilt", help_text, lost.rebuilt, True)


def _flushes(broker: BrokerView) -> Iterator[Reading]:
    flushes = broker.group_commit.statistics()
    yield Reading("penstock_log_flushes", "Group commits (fdatasync) since the start.", flushes.flushes, True)
    yield Reading(
        "penstock_log_flushes_deferred",
        "Flushes that found no room on the disk, and were tried again.",
        flushes.deferrals,
        True,
    )
    yield Reading("penstock_logs_without_room", "Logs whose flush waits for room on the disk.", flushes.deferred)


def _log_starts(broker: BrokerView) -> Iterator[Reading]:
    found = broker.log_starts.statistics()
    help_text = "Checkpoint writes that made log starts durable for deletions and followers."
    yield Reading("penstock_log_start_commits", help_text, found.writes, True)
    help_text = "Deletions and followers that waited for a write of log starts; a write serves all that wait."
    yield Reading("penstock_log_start_commit_requests", help_text, found.requests, True)
    yield Reading(
        "penstock_log_start_commit_failures", "Checkpoint writes of log starts that failed.", found.failures, True
    )


def _refused_appends(broker: BrokerView) -> Iterator[Reading]:
    refused = broker.replicas.refused.statistics()
    help_text = "Appends that found no room or no descriptor, a leader's or a follower's."
    yield Reading("penstock_appends_refused", help_text, refused.appends, True)
    help_text = "Partitions whose last append found no room or no descriptor, less than 5 minutes ago."
    yield Reading("penstock_partitions_refusing_appends", help_text, refused.partitions)


def _retention(broker: BrokerView) -> Iterator[Reading]:
    found = broker.upkeep.statistics()
    help_text = "Segments that retention has deleted, by the reason."
    for reason, name in _REASONS.items():
        count = found.segments_deleted.get(reason, 0)
        yield Reading("penstock_log_segments_deleted", help_text, count, True, (("reason", name),))
    yield Reading(
        "penstock_log_bytes_deleted", "Bytes of the segments that retention has deleted.", found.bytes_deleted, True
    )
    yield Reading("penstock_wall_clock_jumps", "How often the clock has jumped.", found.clock_jumps, True)
    yield Reading(
        "penstock_wall_clock_believed",
        "0 after the clock has jumped: nothing is deleted by age until the clock is right again.",
        float(found.clock_is_believed),
    )


def _producers(node: NodeView) -> Iterator[Reading]:
    """Kafka's ProducerIdCount, and what became of the batches of idempotent producers that were not appended."""
    ids = node.log_manager.producer_ids
    help_text = "Idempotent producers that the logs here know; one that writes to several partitions counts in each."
    yield Reading("penstock_producer_ids", help_text, len(ids))
    help_text = "Batches that were in the log already: answered with their first offsets, not written again."
    yield Reading("penstock_producer_duplicates", help_text, ids.counts.duplicates, True)
    help_text = "Batches of idempotent producers that did not fit, by the error."
    for why, count in (
        ("out_of_order_sequence_number", ids.counts.out_of_order),
        ("invalid_producer_epoch", ids.counts.fenced),
        ("unknown_producer_id", ids.counts.unknown),
    ):
        yield Reading("penstock_producer_batches_refused", help_text, count, True, (("why", why),))
    help_text = "New producers that were refused at producer.id.max.per.partition or producer.id.max.per.node."
    yield Reading("penstock_producers_refused", help_text, ids.counts.refused_full, True)
    help_text = "Producers that were forgotten after producer.id.expiration.ms."
    yield Reading("penstock_producers_expired", help_text, ids.counts.expired, True)
    help_text = "Producers that were silent for 10 minutes and made room for new ones at a bound."
    yield Reading("penstock_producers_evicted", help_text, ids.counts.evicted, True)
    help_text = "Snapshots of producers that found no room or no descriptor; a start then reads more of the log."
    yield Reading("penstock_producer_snapshots_left_out", help_text, ids.counts.snapshots_left_out, True)


def _cleaner(broker: BrokerView) -> Iterator[Reading]:
    """Kafka's max-dirty-percent, cleaner-recopy-percent, max-clean-time-secs, uncleanable-partitions-count, and
    DeadThreadCount, which is 0 or the end of the node: a worker that meets a bug is fatal."""
    found = broker.cleaner.statistics()
    last = found.last_pass
    yield Reading(
        "penstock_cleaner_max_dirty_percent",
        "Share of the dirtiest compacted log that is not cleaned yet, for any reason (0 to 100), when last looked.",
        100 * found.max_dirty_ratio,
    )
    recopied = 100 * last.bytes_written / max(1, last.bytes_read) if last is not None else 0.0
    yield Reading(
        "penstock_cleaner_recopy_percent",
        "Share of what it read that the cleaner's last pass kept (0 to 100).",
        recopied,
    )
    elapsed_ms = last.elapsed_ms if last is not None else 0
    yield Reading("penstock_cleaner_last_pass_seconds", "How long the cleaner's last pass took.", elapsed_ms / 1000)
    yield Reading("penstock_cleaner_passes", "Passes of the cleaner that ended well.", found.passes, True)
    aborted = found.aborted + found.deferred
    yield Reading(
        "penstock_cleaner_passes_given_up",
        "Passes of the cleaner that were given up. They are tried again.",
        aborted,
        True,
    )
    yield Reading(
        "penstock_cleaner_bytes_read",
        "Bytes that the cleaner read, for its map of keys and for filtering.",
        found.bytes_read,
        True,
    )
    yield Reading("penstock_cleaner_bytes_written", "Bytes that the cleaner wrote.", found.bytes_written, True)
    yield Reading(
        "penstock_cleaner_tombstones_removed",
        "Delete markers that the cleaner removed.",
        found.tombstones_removed,
        True,
    )
    yield Reading(
        "penstock_cleaner_undecodable_batches",
        "Batches whose records could not be decoded, and that passes kept as they were.",
        found.undecodable_batches,
        True,
    )
    yield Reading(
        "penstock_cleaner_uncleanable_partitions",
        "Compacted logs that are not cleaned any more until a restart.",
        len(found.uncleanable),
    )
    yield Reading("penstock_cleaner_dead_threads", "Workers of the cleaner that have ended.", broker.cleaner.dead)


def _logs(node: NodeView) -> Iterator[Reading]:
    """Looks at each log once: there may be thousands."""
    size_bytes, segments = 0, 0
    in_dirs: Counter[str] = Counter()
    sizes: Counter[TopicPartition] = Counter()
    for log in node.log_manager.logs():
        log_bytes = log.size_bytes
        size_bytes += log_bytes
        segments += len(log.segments)
        in_dirs[log.log_dir] += log_bytes
        sizes[log.topic_partition] += log_bytes  # two may have one name, until the metadata says which is a stray
    yield Reading("penstock_log_bytes", "Bytes of all logs, the metadata log counted.", size_bytes)
    yield Reading("penstock_log_segments", "Segments of all logs.", segments)
    for log_dir, dir_bytes in in_dirs.items():
        in_dir = (("log_dir", log_dir),)
        yield Reading("penstock_log_dir_log_bytes", "Bytes of all logs of a log dir.", dir_bytes, labels=in_dir)
    help_text = "Bytes of one replica here; of the largest ones, where there are many."
    for tp, log_bytes in nlargest(PARTITIONS_SHOWN_MAX, sizes.items(), key=lambda item: item[1]):
        labels = (("topic", tp.topic), ("partition", str(tp.partition)))
        yield Reading("penstock_partition_log_bytes", help_text, log_bytes, labels=labels)


def _disks(broker: BrokerView) -> Iterator[Reading]:
    rooms = broker.disk_rooms.statistics()
    for log_dir, room in rooms.items():
        help_text = "Bytes of the disk that has the log dir, each 10 s."
        yield Reading("penstock_log_dir_disk_bytes", help_text, room.size_bytes, labels=(("log_dir", log_dir),))
    for log_dir, room in rooms.items():
        help_text = "Bytes that the node may still take of the disk that has the log dir, each 10 s."
        yield Reading("penstock_log_dir_free_bytes", help_text, room.free_bytes, labels=(("log_dir", log_dir),))


def _jobs(broker: BrokerView) -> Iterator[Reading]:
    """The label is `task`: `job` is Prometheus' own."""
    jobs = broker.scheduler.statistics()
    for job in jobs:
        yield Reading("penstock_scheduled_runs", "Runs of a periodic job.", job.runs, True, (("task", job.name),))
    for job in jobs:
        labels = (("task", job.name),)
        yield Reading(
            "penstock_scheduled_failures", "Runs of a periodic job that a disk made fail.", job.failures, True, labels
        )
    for job in jobs:
        seconds = max(0, job.last_duration_ms) / 1000
        help_text = "How long the last run of a periodic job took."
        yield Reading("penstock_scheduled_last_run_seconds", help_text, seconds, labels=(("task", job.name),))
