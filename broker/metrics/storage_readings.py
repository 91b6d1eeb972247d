"""The metrics of logs and disks, and of the jobs that maintain them.

Read in the thread of a scrape, from `statistics()` and from single numbers of the logs. They change on the loop
meanwhile, so each number is right by itself but may be a moment old. Sizes are shown for each partition, as in Kafka,
but only of the largest ones, up to a limit: a node may host many more partitions than a monitoring system wants series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import nlargest

from broker.jobs.cleaner_job import CleanerJob
from broker.jobs.disk_room import DiskRooms
from broker.jobs.log_upkeep import LogUpkeep
from broker.metrics.field_readings import record_readings
from broker.metrics.metrics import Reading
from broker.replication.lost_replicas import LostReplicas
from penstock.types import TopicPartition
from storage.log.retention import DeletionReason
from storage.log_dirs.log_manager import LogManager

PARTITIONS_SHOWN_MAX = 1_000
"""Partitions with a size of their own; the sum over all of them is always there."""
_REASONS = {
    DeletionReason.TIME: "retention.ms",
    DeletionReason.SIZE: "retention.bytes",
    DeletionReason.LOG_START: "log.start.offset",
}


def log_dir_readings(log_manager: LogManager, failed_log_dirs: Mapping[str, Exception]) -> Iterator[Reading]:
    """`failed_log_dirs`: those that failed since the start."""
    failed = {**log_manager.offline_log_dirs, **failed_log_dirs}
    yield Reading("penstock_failed_log_dirs", "Log dirs that cannot be used.", len(failed))
    help_text = "Age of the oldest call to the disk of a log dir; one that hangs fails at log.dir.hang.ms.max."
    for log_dir, age_ms in log_manager.calls.ages_ms().items():
        yield Reading("penstock_log_dir_oldest_call_seconds", help_text, age_ms / 1000, labels=(("log_dir", log_dir),))
    strays, rotten = len(log_manager.removal.strays), len(log_manager.removal.rotten)
    help_text = "Directories of partitions that were set aside, for a person to look at and delete."
    yield Reading("penstock_set_aside_directories", help_text, strays, labels=(("why", "stray"),))
    yield Reading("penstock_set_aside_directories", help_text, rotten, labels=(("why", "rotten"),))


def lost_replica_readings(lost: LostReplicas, log_manager: LogManager) -> Iterator[Reading]:
    offline = set(lost.partitions) | set(log_manager.table.offline.names())
    yield Reading("penstock_offline_replicas", "Replicas here whose disk or data failed.", len(offline))
    yield from record_readings(lost.statistics())


def retention_readings(upkeep: LogUpkeep) -> Iterator[Reading]:
    found = upkeep.statistics()
    help_text = "Segments that retention has deleted, by the reason."
    for reason, name in _REASONS.items():
        count = found.segments_deleted.get(reason, 0)
        yield Reading("penstock_log_segments_deleted", help_text, count, True, (("reason", name),))
    yield from record_readings(found)


def cleaner_readings(cleaner: CleanerJob) -> Iterator[Reading]:
    """Kafka's max-dirty-percent, cleaner-recopy-percent, max-clean-time-secs, uncleanable-partitions-count, and
    DeadThreadCount, which is 0 or the end of the node: a worker that meets a bug is fatal."""
    found = cleaner.statistics()
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
    yield from record_readings(found)
    yield Reading("penstock_cleaner_dead_threads", "Workers of the cleaner that have ended.", cleaner.dead)


def log_readings(log_manager: LogManager) -> Iterator[Reading]:
    """Looks at each log once: there may be thousands."""
    producers = log_manager.producer_ids
    help_text = "Idempotent producers that the logs here know; one that writes to several partitions counts in each."
    yield Reading("penstock_producer_ids", help_text, len(producers))
    yield from record_readings(producers.counts)
    size_bytes, segments = 0, 0
    in_dirs: Counter[str] = Counter()
    sizes: Counter[TopicPartition] = Counter()
    for log in log_manager.logs():
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
    help_text = "Log dirs that get no new replicas (cordoned.log.dirs)."
    yield Reading("penstock_cordoned_log_dirs", help_text, len(log_manager.cordoned))
    help_text = "Bytes of one replica here; of the largest ones, where there are many."
    for tp, log_bytes in nlargest(PARTITIONS_SHOWN_MAX, sizes.items(), key=lambda item: item[1]):
        labels = (("topic", tp.topic), ("partition", str(tp.partition)))
        yield Reading("penstock_partition_log_bytes", help_text, log_bytes, labels=labels)


def disk_readings(disk_rooms: DiskRooms) -> Iterator[Reading]:
    rooms = disk_rooms.statistics()
    for log_dir, room in rooms.items():
        help_text = "Bytes of the disk that has the log dir, each 10 s."
        yield Reading("penstock_log_dir_disk_bytes", help_text, room.size_bytes, labels=(("log_dir", log_dir),))
    for log_dir, room in rooms.items():
        help_text = "Bytes that the node may still take of the disk that has the log dir, each 10 s."
        yield Reading("penstock_log_dir_free_bytes", help_text, room.free_bytes, labels=(("log_dir", log_dir),))
