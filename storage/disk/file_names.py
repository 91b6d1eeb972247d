"""Names of the files and directories in a log dir; Kafka's names, in one place.

    orders-3/                          one partition
      00000000000000000000.log         record batches, named by the first offset the file may hold
      00000000000000000000.index       offset -> position        (disposable)
      00000000000000000000.timeindex   timestamp -> offset       (disposable)
      00000000000000000000.txnindex    aborted transactions      (disposable)
      00000000000000000000.snapshot    the producers of the records below the offset
      leader-epoch-checkpoint          epoch -> start offset
      partition.metadata               the topic id
    __cluster_metadata-0/              the metadata log, a partition's directory with two more kinds of files
      00000000000000004711-0000000003.checkpoint   a snapshot of the metadata: its end offset and last epoch
    orders-3.<uuid>-delete/            deleted, its files go next
    orders-3.<uuid>-stray/             not in the cluster's metadata; set aside, never deleted here
    orders-3.<uuid>-future/            the copy of a log that moves to this log dir
    orders-3.<uuid>-moved/             a log whose copy is taking its place

`docs/data-directory.md` tells the bytes of each. Not here: opening any of them.
"""

from __future__ import annotations

import re
import sys

from penstock.types import EpochEndOffset, TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SEGMENT_SUFFIXES = LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
"""The files of one segment, the .log first."""
INDEX_SUFFIXES = SEGMENT_SUFFIXES[1:]
SNAPSHOT_SUFFIX = ".snapshot"
METADATA_SNAPSHOT_SUFFIX = ".checkpoint"
PART_SUFFIX = ".part"
"""Suffix of a snapshot of the metadata that a leader is still sending."""
TMP_SUFFIX = ".tmp"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
FIRST_VOTERS = "first-voters"
BOOTSTRAP_USERS = "bootstrap-users"
BOOTSTRAP_LEVELS = "bootstrap-levels"
LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
CHECKPOINT_RESERVE = "checkpoint-reserve"

DELETE_DIRECTORY_SUFFIX = "-delete"
STRAY_DIRECTORY_SUFFIX = "-stray"
ROTTEN_DIRECTORY_SUFFIX = "-rotten"
FUTURE_DIRECTORY_SUFFIX = "-future"
MOVED_DIRECTORY_SUFFIX = "-moved"
MAX_NAME_CHARACTERS = 255
"""NAME_MAX of every file system we meet; a topic name of 249 characters leaves no room for a uuid, so it is cut."""

_PARTITION = re.compile(r"^(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})$")
_SET_ASIDE = re.compile(r"^(?P<partition>.+-[0-9]+)\.[A-Za-z0-9_-]{22,36}(?P<suffix>-delete|-stray|-rotten)$")
"""Kafka's unique part has 32 characters, ours 22."""
_OF_A_MOVE = re.compile(r"^(?P<partition>.+-[0-9]+)\.(?P<unique>[A-Za-z0-9_-]{22,36})(?P<suffix>-future|-moved)$")
_SEGMENT = re.compile(r"^(?P<offset>[0-9]{20})(?P<suffix>\.log|\.index|\.timeindex|\.txnindex)$")
_SNAPSHOT = re.compile(r"^(?P<offset>[0-9]{20})\.snapshot$")
_METADATA_SNAPSHOT = re.compile(r"^(?P<end>[0-9]{20})-(?P<epoch>[0-9]{10})\.checkpoint$")


def file_stem(base_offset: int) -> str:
    return f"{base_offset:020d}"


def parse_segment_file(name: str) -> tuple[int, str] | None:
    """(base offset, suffix) of a segment's file; None for any other name."""
    match = _SEGMENT.match(name)
    return (int(match["offset"]), match["suffix"]) if match else None


def parse_snapshot_file(name: str) -> int | None:
    """The offset of a snapshot of producers; None for any other name."""
    match = _SNAPSHOT.match(name)
    return int(match["offset"]) if match else None


def metadata_snapshot_name(snapshot_id: EpochEndOffset) -> str:
    return f"{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}{METADATA_SNAPSHOT_SUFFIX}"


def parse_metadata_snapshot(name: str) -> EpochEndOffset | None:
    """The snapshot of the metadata that a file of this name holds; None for any other name."""
    match = _METADATA_SNAPSHOT.match(name)
    return EpochEndOffset(int(match["epoch"]), int(match["end"])) if match else None


def partition_directory(topic_partition: TopicPartition) -> str:
    return str(topic_partition)


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition that a directory holds; None when the name is not one of ours."""
    match = _PARTITION.match(name)
    return TopicPartition(sys.intern(match["topic"]), int(match["partition"])) if match else None


def set_aside_directory(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    """A name that no live partition can have, as unique as `unique`, and within the file system's limit."""
    tail = f"-{topic_partition.partition}.{unique}{suffix}"
    return topic_partition.topic[: MAX_NAME_CHARACTERS - len(tail)] + tail


def set_aside_suffix(name: str) -> str | None:
    """Why a directory was set aside, as the suffix says; None for every name that was not made for that."""
    match = _SET_ASIDE.match(name)
    return match["suffix"] if match else None


def set_aside_partition(name: str) -> TopicPartition | None:
    """The partition whose directory was set aside under this name, as far as the name was not cut."""
    match = _SET_ASIDE.match(name)
    return parse_partition_directory(match["partition"]) if match else None


def move_directory(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    """The name of one side of a move between log dirs. Never cut, because a start reads the partition from it: it may
    be too long for the file system."""
    return f"{topic_partition}.{unique}{suffix}"


def parse_move_directory(name: str) -> tuple[TopicPartition, str, str] | None:
    """(partition, unique, suffix) of one side of a move; None for any other name."""
    match = _OF_A_MOVE.match(name)
    partition = parse_partition_directory(match["partition"]) if match else None
    return (partition, match["unique"], match["suffix"]) if match and partition else None
