"""The rows of `penstock log dump` for small files, and which file is of which kind.

Same rows as `dump_log.py`. A file that is damaged is one row of type `problem`. Not here: .log and index files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from penstock.errors import ConfigError, CorruptFileError, MetaPropertiesError
from penstock.types import NO_EPOCH
from storage.append.producer_state import ProducerEntry, TakenBatch
from storage.append.transaction_state import NO_TRANSACTION
from storage.disk.atomic_file import read_text
from storage.disk.checkpoint_file import OffsetLines, read_epochs, read_offset_lines
from storage.disk.file_names import (
    CLEAN_SHUTDOWN,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    PARTITION_METADATA,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_metadata_snapshot,
    parse_snapshot_file,
)
from storage.disk.file_system import FileSystem
from storage.disk.partition_metadata import read_topic_id
from storage.disk.sealed_text import unseal_json
from storage.log_dirs.meta_properties import read_meta_properties
from storage.recovery.producer_recovery import found_snapshots
from storage.recovery.producer_snapshot import read_snapshot, snapshot_path
from storage.tools.dump_log import (
    DumpOptions,
    Row,
    dump_aborted,
    dump_index,
    dump_indexes,
    dump_segment,
    plain_name,
    segment_paths,
)
from storage.tools.target import OFFSET_CHECKPOINTS, Target, find_target
from storage.tools.verify.verify_files import QUORUM_STATE, QUORUM_VOTER

Dump = Callable[[FileSystem, str], Iterator[Row]]


def dump(fs: FileSystem, path: str, options: DumpOptions) -> Iterator[Row]:
    """The rows of a log dir, a partition's directory or one file; ConfigError for any other path."""
    if fs.exists(path) and not fs.is_directory(path):
        yield from _dump_file(fs, path, options)
        return
    target = find_target(fs, path)
    if options.what == "checkpoints":
        yield from _checkpoints(fs, target)
        return
    for log in target.logs:
        if options.what == "epochs":
            yield from dump_epochs(fs, f"{log.directory}/{LEADER_EPOCH_CHECKPOINT}")
            continue
        if options.what == "producers":
            for offset in found_snapshots(fs.entries(log.directory)):
                yield from dump_producers(fs, snapshot_path(log.directory, offset))
            continue
        for segment in segment_paths(fs, log.directory, options.from_offset):
            yield from dump_indexes(fs, segment) if options.what == "index" else dump_segment(fs, segment, options)


def _dump_file(fs: FileSystem, path: str, options: DumpOptions) -> Iterator[Row]:
    name = plain_name(path)
    if parse_metadata_snapshot(name) is not None:
        return dump_segment(fs, path, options)
    if name.endswith(LOG_SUFFIX):
        return dump_indexes(fs, path) if options.what == "index" else dump_segment(fs, path, options)
    if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)):
        return dump_index(fs, path)
    if name.endswith(TXN_INDEX_SUFFIX):
        return dump_aborted(fs, path)
    if parse_snapshot_file(name) is not None:
        return dump_producers(fs, path)
    small = _SMALL_FILES.get(name)
    if small is None:
        known = ", ".join((*_BY_SUFFIX, *_SMALL_FILES))
        raise ConfigError(f"{path}: not a file that can be dumped; these can: {known}")
    return small(fs, path)


def _checkpoints(fs: FileSystem, target: Target) -> Iterator[Row]:
    """The checkpoint lines of the log dir; for a partition, its own lines."""
    wanted = None if target.is_log_dir else target.logs[0].topic_partition
    for name in OFFSET_CHECKPOINTS if target.log_dir is not None else ():
        for row in dump_offsets(fs, f"{target.log_dir}/{name}"):
            if wanted is None or row["type"] == "problem" or (row["topic"], row["partition"]) == wanted:
                yield row


def dump_offsets(fs: FileSystem, path: str) -> Iterator[Row]:
    """An offset checkpoint."""
    try:
        offsets, topic_ids = read_offset_lines(fs, path) or OffsetLines({}, {})
    except CorruptFileError as damage:
        yield _problem(damage)
        return
    for tp, offset in offsets.items():
        row: Row = {"type": "checkpoint", "file": path, "topic": tp.topic, "partition": tp.partition, "offset": offset}
        yield row | ({"topic_id": topic_ids[tp]} if tp in topic_ids else {})


def dump_epochs(fs: FileSystem, path: str) -> Iterator[Row]:
    """A leader-epoch-checkpoint."""
    try:
        entries = read_epochs(fs, path) or ()
    except CorruptFileError as damage:
        yield _problem(damage)
        return
    for entry in entries:
        yield {"type": "epoch", "file": path, "epoch": entry.epoch, "start_offset": entry.start_offset}


def dump_producers(fs: FileSystem, path: str) -> Iterator[Row]:
    """A snapshot of producers: what it is of, then each producer, the longest silent first."""
    offset = parse_snapshot_file(os.path.basename(path))
    try:
        snapshot = read_snapshot(fs, os.path.dirname(path) or ".", offset) if offset is not None else None
    except CorruptFileError as damage:
        yield _problem(damage)
        return
    if snapshot is None:
        return
    yield {
        "type": "snapshot",
        "file": path,
        "offset": snapshot.offset,
        "leader_epoch": snapshot.leader_epoch,
        "producers": len(snapshot.producers),
    }
    for producer_id, known in snapshot.producers.items():
        yield {
            "type": "producer",
            "file": path,
            "producer_id": producer_id,
            "epoch": known.epoch,
            "last_append_ms": known.last_append_ms,
            "likely_append_ms": known.silent_since_ms,
            "batches": [_taken(batch) for batch in known.batches],
            **_transaction(known),
        }


def _transaction(known: ProducerEntry) -> Row:
    """The start of its open transaction, and the coordinator epoch of its newest marker; None for what it does not
    have."""
    transaction = known.transaction or NO_TRANSACTION
    epoch = transaction.coordinator_epoch
    return {
        "transaction_start_offset": transaction.first_offset if known.has_open_transaction else None,
        "coordinator_epoch": None if epoch == NO_EPOCH else epoch,
    }


def _taken(batch: TakenBatch) -> Row:
    return {
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "append_time_ms": batch.append_time_ms,
    }


def _topic_id(fs: FileSystem, path: str) -> Iterator[Row]:
    try:
        yield {"type": "file", "file": path, "topic_id": read_topic_id(fs, os.path.dirname(path) or ".")}
    except CorruptFileError as damage:
        yield _problem(damage)


def _meta_properties(fs: FileSystem, path: str) -> Iterator[Row]:
    try:
        properties = read_meta_properties(fs, os.path.dirname(path) or ".")
    except MetaPropertiesError as error:
        yield {"type": "problem", "file": path, "position": 0, "problem": str(error)}
        return
    if properties is not None:
        yield {
            "type": "file",
            "file": path,
            "cluster_id": properties.cluster_id,
            "node_id": properties.node_id,
            "directory_id": properties.directory_id,
        }


def _sealed_json(fs: FileSystem, path: str) -> Iterator[Row]:
    try:
        fields, is_sealed = unseal_json(path, read_text(fs, path) or "")
    except CorruptFileError as damage:
        yield _problem(damage)
        return
    yield {"type": "file", "file": path, **fields, "sealed": is_sealed}


def _problem(damage: CorruptFileError) -> Row:
    return {"type": "problem", "file": damage.path, "position": damage.position, "problem": damage.why}


_BY_SUFFIX = ("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot", "*.checkpoint")
_SMALL_FILES: dict[str, Dump] = {
    **dict.fromkeys(OFFSET_CHECKPOINTS, dump_offsets),
    LEADER_EPOCH_CHECKPOINT: dump_epochs,
    PARTITION_METADATA: _topic_id,
    META_PROPERTIES: _meta_properties,
    QUORUM_STATE: _sealed_json,
    QUORUM_VOTER: _sealed_json,
    CLEAN_SHUTDOWN: _sealed_json,
}
