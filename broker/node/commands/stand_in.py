"""`penstock node recover-quorum` where the voters are disks: a copy of the disk that is left stands for a lost one.

A dynamic quorum counts a vote only of the disk that its log names (docs/adr/0036). So as many lost voters as a majority
lacks get the directory id of the lost disk, and with it all that the disk of a voter that is left knows:

    1  keep a copy of the metadata log of the voter that is left, beside this node's log dirs
    2  copy that into the new metadata log dir, with a quorum state of an epoch above all that the lost voters have seen
    3  note the replicas that the lost disk held, so that none of them is ever led with an empty log
    4  write meta.properties with the directory id of the lost disk: from now on this is that voter
    5  format the other log dirs

Until step 4, which is one rename, the dir is not formatted, and no node starts on it. The other lost voters join on
empty disks, as new voters: two copies of the same log could be a majority without a voter that is left, whose log
decides what the metadata is. A run that was interrupted is run again, and does what is missing.

Not here: the steps where controller.quorum.voters names the voters (recover_quorum.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from broker.config.node_config import NodeConfig
from broker.node.commands.format import format_node
from broker.node.commands.initial_controllers import NO_OPTIONS, QuorumOptions, require_fitting
from broker.node.commands.survivor import (
    EPOCH_LEAP,
    METADATA_DIRECTORY,
    RecoveryStep,
    Survivor,
    copy_tree,
    formatted_of,
    votes_without_memory,
)
from broker.quorum.first_voters import read_first_voters, write_first_voters
from broker.quorum.metadata_log import QuorumStateFile
from broker.quorum.voter_memory import NEW_DISK, VOTER_FILE
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.ids import Ids
from raft.quorum_state import ElectionState
from raft.voters import NO_VOTERS
from storage.disk.atomic_file import write_atomically
from storage.disk.checkpoint_file import OffsetLines, write_offset_lines
from storage.disk.file_names import FIRST_VOTERS, LOCK, META_PROPERTIES, RECOVERY_POINT_CHECKPOINT, TMP_SUFFIX
from storage.disk.file_system import FileSystem, remove_tree
from storage.log_dirs.meta_properties import DYNAMIC_VOTERS, MetaProperties, make_directory, write_meta_properties

_PART = f"{METADATA_DIRECTORY}.part"
_OURS = (FIRST_VOTERS, VOTER_FILE, RECOVERY_POINT_CHECKPOINT, METADATA_DIRECTORY)
_UNFINISHED = (_PART, f"{_PART}.part", *(f"{name}{TMP_SUFFIX}" for name in (META_PROPERTIES, *_OURS)))
_MAY_STAND = {"lost+found", LOCK, META_PROPERTIES, *_OURS, *_UNFINISHED}
"""The names that the new metadata log dir may hold before its format: this command leaves all but the first two."""


def disk_steps(
    config: NodeConfig, survivor: Survivor, lost: tuple[int, ...], fs: FileSystem, ids: Ids
) -> list[RecoveryStep]:
    """The steps in their order. ConfigError or MetaPropertiesError where they would do harm; nothing was changed."""
    _check_voters(config, survivor, lost)
    found = formatted_of(config, survivor, fs)
    copy = f"{os.path.dirname(config.metadata_log_dir)}/metadata-of-node-{survivor.node_id}"
    source = f"{survivor.directory}/{METADATA_DIRECTORY}"
    keep = RecoveryStep(f"copy {source} to {copy}", fs.exists(copy), lambda: copy_tree(fs, source, copy))
    if config.node_id not in votes_without_memory(survivor.voters, lost):
        return [keep, _join(config, survivor, found, fs, ids)]
    stands = _StandIn(config, survivor, fs, copy)
    stands.check(found[config.metadata_log_dir])
    path, others = config.metadata_log_dir, [one for one in config.log_dirs if one != config.metadata_log_dir]
    steps = [
        keep,
        RecoveryStep(f"copy it to {path}, with epoch {stands.epoch}", stands.has_log, stands.copy_log),
        RecoveryStep(f"note {len(survivor.hosted)} replicas that the lost disk held", stands.has_note, stands.note),
        RecoveryStep(
            f"format {path} with directory id {stands.directory_id}: it is the lost voter from now on",
            found[path] is not None,
            stands.format,
        ),
    ]
    if others:
        is_done = all(found[one] is not None for one in others)
        steps.append(
            RecoveryStep(
                f"format {', '.join(others)}", is_done, lambda: _format_rest(config, survivor.cluster_id, fs, ids)
            )
        )
    return steps


def commands_with_a_leader(survivor: Survivor, lost: tuple[int, ...]) -> list[str]:
    """The commands that make the quorum whole once it has a leader: the lost disks out, new ones in."""
    stand_ins = votes_without_memory(survivor.voters, lost)
    gone = [voter for voter in survivor.voters.voters if voter.voter_id in lost and voter.voter_id not in stand_ins]
    return [f"penstock quorum remove-voter {voter.voter_id}:{voter.directory_id} --yes" for voter in gone]


def _join(
    config: NodeConfig, survivor: Survivor, found: Mapping[str, MetaProperties | None], fs: FileSystem, ids: Ids
) -> RecoveryStep:
    here, joins = found[config.metadata_log_dir], QuorumOptions(join=True)
    require_fitting(config, joins)
    if here is not None and survivor.voters.names(config.node_id, here.directory_id):
        raise MetaPropertiesError(
            f"{config.metadata_log_dir} has directory id {here.directory_id}: it is the voter's own disk, so it is not"
            " lost; start the node"
        )

    def format_dirs() -> None:
        format_node(config, survivor.cluster_id, fs, ids, quorum=joins if here is None else NO_OPTIONS)

    what = f"format {', '.join(config.log_dirs)} for controller {config.node_id}, which joins as a new voter"
    return RecoveryStep(what, all(found.values()), format_dirs)


def _format_rest(config: NodeConfig, cluster_id: str, fs: FileSystem, ids: Ids) -> None:
    """The metadata log dir is formatted already."""
    format_node(config, cluster_id, fs, ids)


class _StandIn:
    """The new metadata log dir of a lost voter for which a copy stands."""

    def __init__(self, config: NodeConfig, survivor: Survivor, fs: FileSystem, copy: str) -> None:
        voter = survivor.voters.find(config.node_id)
        self.directory_id = (voter.directory_id if voter is not None else None) or ""
        self._node_id, self._survivor, self._fs, self._copy = config.node_id, survivor, fs, copy
        self._path, self._target = config.metadata_log_dir, f"{config.metadata_log_dir}/{METADATA_DIRECTORY}"
        state = QuorumStateFile(self._target, fs).load() if fs.exists(self._target) else None
        self.has_log = state is not None
        self.epoch = survivor.epoch + EPOCH_LEAP if state is None else state.epoch
        is_unvoted = state is not None and state == ElectionState(epoch=self.epoch)
        self._is_copied = is_unvoted and self.epoch > survivor.epoch

    @property
    def has_note(self) -> bool:
        return self._fs.exists(f"{self._path}/{RECOVERY_POINT_CHECKPOINT}")

    def check(self, properties: MetaProperties | None) -> None:
        """MetaPropertiesError for a dir that this command has not begun."""
        inside = sorted(set(self._fs.listdir(self._path)) - _MAY_STAND) if self._fs.exists(self._path) else []
        is_other = properties is not None and properties.directory_id != self.directory_id
        if inside or is_other or (self._fs.exists(self._target) and not self._is_copied):
            what = f"{self._path} is not empty, and not by this command"
            raise MetaPropertiesError(
                f"{what}: this node has run, or was formatted. If its disk is whole, start it. If it is to stand for"
                " the lost one, empty its log dirs first"
            )

    def copy_log(self) -> None:
        fs, part = self._fs, f"{self._path}/{_PART}"
        make_directory(fs, self._path)
        if fs.exists(part):
            remove_tree(fs, part)
        copy_tree(fs, self._copy, part)
        QuorumStateFile(part, fs).save(ElectionState(epoch=self.epoch))
        fs.rename(part, self._target)
        fs.fsync_dir(self._path)

    def note(self) -> None:
        """A log with a line was flushed here once: a replica without it is fetched anew, and leads no empty one."""
        lines = OffsetLines(dict.fromkeys(self._survivor.hosted, 1), self._survivor.hosted)
        write_offset_lines(self._fs, f"{self._path}/{RECOVERY_POINT_CHECKPOINT}", lines)

    def format(self) -> None:
        """`quorum-voter` says what the voter that is left has promised, and `first-voters`, where that has one, that
        the disk was never one of a static quorum; the log names the voters."""
        fs, left = self._fs, self._survivor.directory
        if fs.exists(f"{left}/{VOTER_FILE}"):
            write_atomically(fs, f"{self._path}/{VOTER_FILE}", fs.read_file(f"{left}/{VOTER_FILE}"))
        if read_first_voters(fs, left) is not None:
            write_first_voters(fs, self._path, NO_VOTERS)
        properties = MetaProperties(self._survivor.cluster_id, self._node_id, self.directory_id, DYNAMIC_VOTERS)
        write_meta_properties(fs, self._path, properties)


def _check_voters(config: NodeConfig, survivor: Survivor, lost: tuple[int, ...]) -> None:
    voters, named = survivor.voters, ",".join(map(str, lost))
    listed = list(voters.ids)
    if not config.is_controller or config.node_id not in lost:
        raise ConfigError(
            f"--lost-voters {named}: node.id = {config.node_id} is not among them; run this with the configuration of a"
            " controller that is lost, on its new log dirs"
        )
    if unknown := sorted(set(lost) - set(listed)):
        raise ConfigError(f"--lost-voters {named}: the metadata log names the voters {listed}, and not {unknown[0]}")
    if survivor.node_id in lost or not voters.names(survivor.node_id, survivor.directory_id):
        raise ConfigError(
            f"--from {survivor.directory}: is of node {survivor.node_id} with directory id {survivor.directory_id}; it"
            " must be a voter that is left, by its own metadata log"
        )
    if len(voters) - len(lost) >= voters.majority:
        raise ConfigError(
            f"--lost-voters {named}: {len(voters) - len(lost)} of {len(voters)} voters are left, which is a majority:"
            f" {NEW_DISK}"
        )
