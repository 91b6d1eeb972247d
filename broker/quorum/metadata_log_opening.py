"""Opens the metadata log at a start: says what to do with a damaged one, and cuts an epoch that never began.

The checksum of a batch does not cover its leader epoch. Below the recovery point the leader-epoch-checkpoint tells a
changed one. Above it a batch may begin an epoch that the checkpoint does not have yet, so a batch with a changed epoch
looks like one that begins an epoch. A voter would win elections with it that it must lose, because a later epoch counts
for more than a longer log, and committed records would be lost. But every epoch of the quorum begins with a
LeaderChange record, whose value names the epoch and is covered by the checksum (KIP-595). A batch without it did not
begin an epoch: it is damaged, and is cut like any end of the log that may have been acked (docs/adr/0009).

A log whose beginning is in a snapshot starts in the middle of an epoch; the snapshot's name tells which that may be.

After a clean stop the log was not read, but for its headers. So its newest segment is, here.

Not here: all other damage (`storage/recovery/recovery.py`), what a voter forgot (`voter_memory.py`), and which snapshot
counts (`metadata_log_start.py`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from broker.quorum.metadata_log import METADATA_LOG_CONFIG, METADATA_PARTITION, METADATA_TOPIC_ID, REPAIRS
from broker.quorum.metadata_snapshots import MetadataSnapshots
from broker.quorum.voter_memory import NEW_DISK, DoubtfulCuts, VoterMemory, may_be_dynamic
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.record.reader import read_records
from penstock.types import EpochEndOffset, EpochEntry
from raft.messages import LEADER_CHANGE
from storage.disk.file_system import FileSystem
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.meta_properties import VERSION
from storage.segment.batch_scan import scan_verified

_log = logging.getLogger(__name__)

EPOCHS_CHECKED_MAX = 100
"""The newest: those before were compared at earlier starts, and most of them are below the recovery point."""
_PAGE = f"`A quorum that cannot elect` in {REPAIRS}"


def open_metadata_log(
    log_manager: LogManager, fs: FileSystem, log_dir: str, *, is_voter: bool, voters: int
) -> tuple[Log, MetadataSnapshots]:
    """The log in its log dir, made if it is not there, and the snapshots beside it; `voters` is the number of first
    voters. KafkaStorageError or CorruptFileError where the log is damaged."""
    properties = log_manager.meta_properties.get(log_dir)  # none where the disk does not answer
    version = VERSION if properties is None else properties.version
    is_disk = is_promised = False
    if is_voter and may_be_dynamic(version, voters) and properties is not None:
        memory = VoterMemory(log_dir, fs)
        is_disk = memory.is_dynamic(voters)
        is_promised = is_disk and memory.has_promised
    alone = is_voter and voters == 1 and not is_disk
    try:
        log = log_manager.get_or_create(METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_CONFIG, log_dir=log_dir)
    except KafkaStorageError as error:
        damage = error.__cause__
        if not isinstance(damage, CorruptFileError) or "backup" in damage.why:
            raise
        raise KafkaStorageError(f"{error}; {_remedy(damage, alone=alone, is_promised=is_promised)}") from damage
    refuse_rot(log, alone=alone, is_promised=is_promised)
    snapshots = MetadataSnapshots(fs, log.directory)
    refuse_hole(log, max((one.end_offset for one in snapshots.found()), default=0))
    cut_false_epoch(log, snapshots.found(), DoubtfulCuts(is_voter, voters, fs, version), alone=alone)
    return log, snapshots


def _remedy(damage: CorruptFileError, *, alone: bool, is_promised: bool = False) -> str:
    """`is_promised`: a dynamic quorum may count on what this disk has acked or voted."""
    directory = damage.path.rpartition("/")[0]
    if is_promised:
        return f"where other voters are a majority, {NEW_DISK}; where they are not, restore {directory} from a backup"
    if alone:
        return f"no other voter has a copy: restore {directory} from a backup; see {_PAGE}"
    return f"where other voters are a majority, move {directory} away and start the node: it fetches the log from them"


def refuse_rot(log: Log, *, alone: bool, is_promised: bool = False) -> None:
    """CorruptFileError if a batch of the newest segment is damaged: a voter must not vote for what it cannot read.

    After a clean stop the opening looks at headers only.
    """
    newest = next((segment for segment in reversed(log.segments) if segment.size_bytes), None)
    try:
        for _ in scan_verified(newest.file(), 0) if newest is not None else ():
            continue
    except CorruptFileError as damage:
        raise CorruptFileError(
            damage.path, damage.position, f"{damage.why}; {_remedy(damage, alone=alone, is_promised=is_promised)}"
        ) from None


def refuse_hole(log: Log, covered_to: int) -> None:
    """CorruptFileError if records are neither in the log nor in a snapshot; these cover what is below an offset."""
    start = log.log_start_offset
    if covered_to < start:
        why = f"the metadata log begins at offset {start}, and no sound snapshot reaches it; see {_PAGE}"
        raise CorruptFileError(log.directory, 0, why)


def cut_false_epoch(log: Log, snapshots: Sequence[EpochEndOffset], before_cut: DoubtfulCuts, *, alone: bool) -> None:
    """Cut the log at the first batch that cannot have begun its epoch. `before_cut` is called BEFORE.

    CorruptFileError for the only voter (`alone`): nobody else has what would be cut.
    """
    for entry in log.epoch_entries[-EPOCHS_CHECKED_MAX:]:
        is_inside = log.log_start_offset <= entry.start_offset < log.log_end_offset
        if is_inside and not _goes_on(log, entry, snapshots) and not _begins(log, entry):
            damage = _damage(log, entry)
            if alone:
                raise CorruptFileError(damage.path, damage.position, f"{damage.why}; {_remedy(damage, alone=True)}")
            before_cut(METADATA_PARTITION, log.directory, damage)
            _log.warning("%s; the log is cut there", damage)
            log.truncate_to(entry.start_offset)
            return


def _goes_on(log: Log, entry: EpochEntry, snapshots: Sequence[EpochEndOffset]) -> bool:
    """True if the log may start in the middle of this epoch: a snapshot ends there in the same one, or ends behind it
    in no older one."""
    if entry.start_offset != log.log_start_offset:
        return False
    return any(
        (end == entry.start_offset and epoch == entry.epoch) or (end > entry.start_offset and epoch >= entry.epoch)
        for epoch, end in snapshots
    )


def _begins(log: Log, entry: EpochEntry) -> bool:
    """True if the batch at the beginning of an epoch says that it begins it."""
    first = next(iter(read_records(log.reader.read(entry.start_offset, 1).records)), None)
    if first is None or first.offset != entry.start_offset or first.value is None:
        return False
    try:
        found = json.loads(bytes(first.value))
    except ValueError:
        return False
    is_change = isinstance(found, dict) and found.get("type") == LEADER_CHANGE
    return is_change and found.get("leader_epoch") == entry.epoch


def _damage(log: Log, entry: EpochEntry) -> CorruptFileError:
    segment = next(segment for segment in reversed(log.segments) if segment.base_offset <= entry.start_offset)
    position = segment.place_of(entry.start_offset).position
    why = f"the batch at offset {entry.start_offset} has leader epoch {entry.epoch}, which it did not begin"
    return CorruptFileError(segment.log_path, position, why)
