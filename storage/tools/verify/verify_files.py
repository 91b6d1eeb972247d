"""Checks the files in a directory besides segments: leftovers, small files, unknown names.

For a partition's directory and for a log dir. `verify_log.py` checks segments and epochs; `verify_log_dir.py` compares
checkpoints with the logs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from penstock.errors import CorruptFileError, CorruptMessageError, MetaPropertiesError
from penstock.record.batch import iter_headers, verify_crc
from storage.disk.atomic_file import read_text
from storage.disk.file_names import (
    BOOTSTRAP_LEVELS,
    BOOTSTRAP_USERS,
    CHECKPOINT_RESERVE,
    CLEAN_SHUTDOWN,
    DELETE_DIRECTORY_SUFFIX,
    FIRST_VOTERS,
    LEADER_EPOCH_CHECKPOINT,
    LOCK,
    META_PROPERTIES,
    PART_SUFFIX,
    PARTITION_METADATA,
    TMP_SUFFIX,
    parse_metadata_snapshot,
    parse_move_directory,
    parse_partition_directory,
    parse_segment_file,
    parse_snapshot_file,
    set_aside_suffix,
)
from storage.disk.file_system import FileSystem
from storage.disk.partition_metadata import read_topic_id
from storage.disk.sealed_text import unseal_json
from storage.log_dirs.meta_properties import read_meta_properties
from storage.recovery.epoch_check import EpochCheck
from storage.recovery.recovery import LastKnown
from storage.segment.leftovers import Leftover, leftovers, misplaced
from storage.tools.target import OFFSET_CHECKPOINTS
from storage.tools.verify.findings import TIDY, Finding, Severity

QUORUM_STATE = "quorum-state"
"""The state file of the metadata log; its owner is the broker, its form a sealed JSON object."""
QUORUM_VOTER = "quorum-voter"
"""A file in the metadata log dir of a voter: it says that the voter has voted, and has records. Its owner is the
broker."""
_OURS = {LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, QUORUM_STATE}
_OURS_IN_LOG_DIR = {
    META_PROPERTIES,
    LOCK,
    CLEAN_SHUTDOWN,
    QUORUM_VOTER,
    FIRST_VOTERS,
    BOOTSTRAP_USERS,
    BOOTSTRAP_LEVELS,
    CHECKPOINT_RESERVE,
    "lost+found",
    *OFFSET_CHECKPOINTS,
}


def partition_names(fs: FileSystem, directory: str) -> Iterator[Finding]:
    """Leftovers, orphans and strangers among the files of a partition. A directory in the place of a file is damage,
    which `tidy` finds."""
    entries = fs.entries(directory)
    found = leftovers(entries)
    for name in sorted(set(entries).difference(misplaced(entries))):
        path = f"{directory}/{name}"
        leftover = found.get(name)
        if leftover is Leftover.ORPHAN:
            yield Finding("warning", "index-orphan", path, leftover.value, TIDY)
        elif leftover is not None:
            yield Finding("warning", "leftover", path, leftover.value, TIDY)
        elif _is_part(name):
            what = "a snapshot of the metadata of which a leader has sent a part"
            yield Finding("warning", "leftover", path, what, "nothing to do: the node's next start removes it")
        elif parse_segment_file(name) is None and name not in _OURS and not _is_snapshot(name):
            yield Finding("note", "foreign", path, "not a file of ours; it is left alone")


def _is_part(name: str) -> bool:
    """The metadata log's owner removes it; another partition's directory has none."""
    return name.endswith(PART_SUFFIX) and parse_metadata_snapshot(name.removesuffix(PART_SUFFIX)) is not None


def _is_snapshot(name: str) -> bool:
    return parse_snapshot_file(name) is not None or parse_metadata_snapshot(name) is not None


def topic_id(fs: FileSystem, directory: str, last_known: LastKnown, *, has_records: bool) -> Iterator[Finding]:
    """partition.metadata; without it the topic of these records is not known."""
    path = f"{directory}/{PARTITION_METADATA}"
    remedy = "put back the line `topic_id` as other replicas of the partition have it, or move the directory away"
    try:
        if read_topic_id(fs, directory) is not None:
            return
    except CorruptFileError as damage:
        yield Finding("damage", "partition-metadata", path, damage.why, remedy, position=damage.position)
        return
    if has_records and last_known.recovery_point != 0:
        severity: Severity = "warning" if last_known.recovery_point is None else "damage"
        yield Finding(severity, "partition-metadata", path, "missing: a start sets the log aside", remedy)
    else:
        yield Finding("note", "partition-metadata", path, "missing; nothing in this log was ever flushed")


def epochs(check: EpochCheck, last_known: LastKnown, *, has_records: bool) -> Iterator[Finding]:
    """Finds a bad or missing leader-epoch-checkpoint; whether it fits the batches is seen while they are read."""
    remedy = "nothing to do: the next start or `penstock log recover` takes the epochs from the log"
    if check.damage is not None:
        why, position = check.damage.why, check.damage.position
        yield Finding("warning", "epoch-checkpoint", check.path, why, remedy, position=position)
    elif not check.is_known and has_records and last_known.recovery_point:
        yield Finding("warning", "epoch-checkpoint", check.path, "there is no such file", remedy)


def quorum_state(fs: FileSystem, directory: str) -> Iterator[Finding]:
    """The vote of a metadata log's directory, if there is one."""
    remedy = "restore the file; or, where the other voters are a majority, move it away: this voter asks them"
    yield from _sealed_json(fs, f"{directory}/{QUORUM_STATE}", "damage", remedy)


def quorum_voter(fs: FileSystem, log_dir: str) -> Iterator[Finding]:
    """Checks the file of the voter's promises and of the voters' ids, and that of a dynamic quorum's first voters, if
    the log dir is that of a metadata log."""
    remedy = (
        "make sure that controller.quorum.voters, if the node has it, has the old ids: the next start takes them, and"
        " writes it anew"
    )
    yield from _sealed_json(fs, f"{log_dir}/{QUORUM_VOTER}", "warning", remedy)
    remedy = "restore the file; or, where other voters are a majority, format the metadata log dir anew with --join"
    yield from _sealed_json(fs, f"{log_dir}/{FIRST_VOTERS}", "damage", remedy)


def _sealed_json(fs: FileSystem, path: str, severity: Severity, remedy: str) -> Iterator[Finding]:
    try:
        text = read_text(fs, path)
        if text is not None:
            unseal_json(path, text)
    except CorruptFileError as damage:
        yield Finding(severity, os.path.basename(path), path, damage.why, remedy, position=damage.position)


def metadata_snapshots(fs: FileSystem, directory: str) -> Iterator[Finding]:
    """Checks the snapshots beside a metadata log: whole batches, one after the other. Their records are for the broker
    to judge."""
    for name in fs.listdir(directory):
        if parse_metadata_snapshot(name) is not None:
            path = f"{directory}/{name}"
            position, why = _fault_of(fs.read_file(path))
            if why:
                remedy = (
                    "a start uses an older one that the log reaches; if there is none, and other voters are a majority,"
                    " move the directory away"
                )
                yield Finding("damage", "metadata-snapshot", path, why, remedy, position=position)


def _fault_of(data: bytes) -> tuple[int, str]:
    """The first byte that is wrong in a snapshot of the metadata, and why; "" if it is sound."""
    end = offset = 0
    try:
        for at, header in iter_headers(data):
            is_next = (header.base_offset, header.leader_epoch, header.attributes) == (offset, 0, 0)
            if not is_next or not verify_crc(data, at, header):
                return at, "the batch is damaged, or not the next one"
            end, offset = at + header.size_bytes, header.next_offset
    except CorruptMessageError as damage:
        return end, str(damage)
    return end, "" if end == len(data) else "no whole batch"


def log_dir_names(fs: FileSystem, log_dir: str) -> Iterator[Finding]:
    """Leftovers and strangers in a log dir."""
    for name, is_directory in fs.entries(log_dir).items():
        path = f"{log_dir}/{name}"
        suffix = set_aside_suffix(name) if is_directory else None
        if suffix == DELETE_DIRECTORY_SUFFIX:
            yield Finding("warning", "leftover", path, "a deleted log whose files were not all removed", TIDY)
        elif suffix is not None:
            remedy = "look whether anything in it is still wanted, then remove it by hand"
            yield Finding("note", "set-aside", path, "it was set aside; the node never deletes it", remedy)
        elif is_directory and parse_move_directory(name) is not None:
            remedy = (
                "nothing to do: the node's next start finishes or undoes the move, and goes on with it where it can"
            )
            yield Finding("note", "move", path, "a move of a log between log dirs is under way", remedy)
        elif not is_directory and name.removesuffix(TMP_SUFFIX) in _OURS_IN_LOG_DIR and name.endswith(TMP_SUFFIX):
            yield Finding("note", "leftover", path, "not finished; the next write of the file replaces it")
        elif name not in _OURS_IN_LOG_DIR and parse_partition_directory(name) is None:
            yield Finding("note", "foreign", path, "not ours; it is left alone")


def meta_properties(fs: FileSystem, log_dir: str) -> Iterator[Finding]:
    """The log dir's meta.properties."""
    path = f"{log_dir}/{META_PROPERTIES}"
    try:
        if read_meta_properties(fs, log_dir) is None:
            remedy = "a copy needs none; a node does not start without: restore it"
            yield Finding("warning", "meta-properties", path, "there is no such file", remedy)
    except MetaPropertiesError as error:
        yield Finding("damage", "meta-properties", path, str(error), "restore it; the node does not start until then")
