"""The metrics of logs and disks, and of the jobs that maintain them. The other half of node_readings.py.

Read in the thread of a scrape, from `statistics()` and from single numbers of the logs. They change on the loop
meanwhile, so each number is right by itself but may be a moment old. Sizes are shown for each partition, as in Kafka,
but only of the largest ones, up to a limit: a node may host many more partitions than a monitoring system wants series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import nlargest

from broker.metrics.field_readings import labelled, readings
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
        broker, producers = node.broker, node.log_manager.producer_ids
        yield from _lost_replicas(node, broker)
        yield from readings(broker.group_commit.statistics())
        yield from readings(broker.log_starts.statistics())
        yield from readings(broker.replicas.refused.statistics())
        yield from _retention(broker)
        help_text = (
            "Idempotent producers that the logs here know; one that writes to several partitions counts in each."
        )
        yield Reading("penstock_producer_ids", help_text, len(producers))
        yield from readings(producers.counts)
        yield from _cleaner(broker)
        yield from _logs(node)
        yield from _disks(broker)
        yield from readings(broker.log_dir_moves.statistics())
        yield from labelled("task", {job.name: job for job in broker.scheduler.statistics()})


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


def _lost_replicas(node: NodeView, broker: BrokerView) -> Iterator[Reading]:
    offline = set(broker.replicas.lost.partitions) | set(node.log_manager.table.offline.names())
    yield Reading("penstock_offline_replicas", "Replicas here whose disk or data failed.", len(offline))
    yield from readings(broker.replicas.lost.statistics())


def _retention(broker: BrokerView) -> Iterator[Reading]:
    found = broker.upkeep.statistics()
    help_text = "Segments that retention has deleted, by the reason."
    for reason, name in _REASONS.items():
        count = found.segments_deleted.get(reason, 0)
        yield Reading("penstock_log_segments_deleted", help_text, count, True, (("reason", name),))
    yield from readings(found)


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
    yield from readings(found)
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
