"""`penstock node recover-quorum`: a voter on a new disk helps the voters that are left to be a majority again.

For a cluster that has lost a majority of its controllers for good, with their disks. Run once for each lost voter, on
its new log dirs, with the metadata log of a voter that is left (`--from`) and the ids of all that are lost. The steps:

    1  format this node's log dirs with --rejoin: it takes no part until it has learned what it may have promised
    2  keep a copy of the metadata log of the voter that is left, beside this node's log dirs
    3  write a quorum state of an epoch above all that the lost voters may have seen
    4  remove quorum-voter: from now on this voter votes without its memory

3 and 4 only by as many of the lost voters as a majority lacks, those with the smallest ids, so that no majority can be
had without a voter that is left: that one's log decides what the metadata is. Until step 4, which is one unlink, the
node is a voter that rejoins, which is safe at any time. A run that was interrupted is run again, and does what is
missing. Where the voters are disks, the steps are others (stand_in.py). Not here: the plan of the operator
(ops/procedures/lose-the-quorum.md) and the start afterwards.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from broker.config.config import load_config
from broker.config.node_config import NodeConfig
from broker.node.commands.format import format_node
from broker.node.commands.stand_in import commands_with_a_leader, disk_steps
from broker.node.commands.survivor import (
    EPOCH_LEAP,
    METADATA_DIRECTORY,
    RecoveryStep,
    Survivor,
    copy_tree,
    formatted_of,
    read_survivor,
    votes_without_memory,
)
from broker.quorum.metadata_log import QuorumStateFile
from broker.quorum.voter_memory import VOTER_FILE, VoterMemory
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.ids import Ids, system_ids
from penstock.plain_text import json_line
from raft.quorum_state import ElectionState
from storage.disk.file_names import LOCK, TMP_SUFFIX
from storage.disk.file_system import FileSystem, OsFileSystem


def main(config_path: str, survivor_dir: str, lost_voters: str, dry_run: bool, as_json: bool = False) -> int:
    """The command; prints each step, and how the node is started afterwards."""
    config = load_config(config_path)
    lost = parse_voters(lost_voters)
    fs = OsFileSystem()
    survivor = read_survivor(fs, survivor_dir, config.node_id)
    steps = recovery_steps(config, survivor, lost, fs, system_ids())
    with node_stopped(fs, config):
        if not dry_run:
            make_names_durable(fs, config)
        for step in steps:
            state = "done before" if step.is_done else "would" if dry_run else "now"
            if as_json:
                sys.stdout.write(json_line({"state": state, "step": step.what}))
            else:
                sys.stdout.write(f"{state}: {step.what}\n")
            sys.stdout.flush()
            if not (step.is_done or dry_run):
                step.do()
    lost_dirs = still_lost(config, survivor, fs)
    ids = f" --lost-log-dirs {','.join(lost_dirs)}" if lost_dirs else ""
    commands = {f"penstock node start --config {config_path}{ids}": "then start it once like this"}
    if is_of_disks(config, survivor, fs):
        commands |= dict.fromkeys(commands_with_a_leader(survivor, lost), "then, once the quorum has a leader")
    for command, when in commands.items():
        sys.stdout.write(json_line({"state": "next", "step": command}) if as_json else f"{when}: {command}\n")
    return 0


def parse_voters(text: str) -> tuple[int, ...]:
    """The ids of `2,3`; ConfigError for another text."""
    ids = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 11 for part in ids):
        raise ConfigError(f"--lost-voters {text!r}: must be the node ids of all controllers that are lost, like 2,3")
    return tuple(sorted(set(map(int, ids))))


def still_lost(config: NodeConfig, survivor: Survivor, fs: FileSystem) -> tuple[str, ...]:
    """The registered log dirs that the node does not have: some of its disks may be whole."""
    here = {
        properties.directory_id for properties in formatted_of(config, survivor, fs).values() if properties is not None
    }
    return tuple(one for one in survivor.registered_log_dirs if one not in here)


def recovery_steps(
    config: NodeConfig, survivor: Survivor, lost: tuple[int, ...], fs: FileSystem, ids: Ids
) -> list[RecoveryStep]:
    """The steps in their order. ConfigError or MetaPropertiesError where they would do harm; nothing was changed."""
    if is_of_disks(config, survivor, fs):
        return disk_steps(config, survivor, lost, fs, ids)
    _check_roles(config, survivor, lost)
    target = f"{config.metadata_log_dir}/{METADATA_DIRECTORY}"
    memory = f"{config.metadata_log_dir}/{VOTER_FILE}"
    found = formatted_of(config, survivor, fs)
    votes = config.node_id in votes_without_memory(config.first_voters, lost)
    state = _own_state(fs, target, survivor, votes)
    is_formatted = all(found.values()) and (fs.exists(memory) or state is not None)
    epoch = survivor.epoch + EPOCH_LEAP if state is None else state.epoch
    copy = f"{os.path.dirname(config.metadata_log_dir)}/metadata-of-node-{survivor.node_id}"
    source = f"{survivor.directory}/{METADATA_DIRECTORY}"

    def format_dirs() -> None:
        format_node(config, survivor.cluster_id, fs, ids, rejoin=True)

    def write_state() -> None:
        if not fs.exists(target):
            fs.mkdir(target)
            fs.fsync_dir(config.metadata_log_dir)
        QuorumStateFile(target, fs).save(ElectionState(epoch=epoch))

    def forget() -> None:
        fs.unlink(memory)
        fs.fsync_dir(config.metadata_log_dir)

    dirs = ", ".join(config.log_dirs)
    steps = [
        RecoveryStep(f"format {dirs} for voter {config.node_id}, which rejoins", is_formatted, format_dirs),
        RecoveryStep(f"copy {source} to {copy}", fs.exists(copy), lambda: copy_tree(fs, source, copy)),
    ]
    if votes:
        done = state is not None
        steps.append(RecoveryStep(f"write a quorum state of epoch {epoch} to {target}", done, write_state))
        steps.append(
            RecoveryStep(f"remove {memory}: this voter votes from now on", done and not fs.exists(memory), forget)
        )
    return steps


def is_of_disks(config: NodeConfig, survivor: Survivor, fs: FileSystem) -> bool:
    """True if the metadata log names the voters, which are disks then."""
    return VoterMemory(survivor.directory, fs).is_dynamic(len(config.first_voters))


def _check_roles(config: NodeConfig, survivor: Survivor, lost: tuple[int, ...]) -> None:
    voters, majority = list(config.first_voters.ids), config.first_voters.majority
    named = ",".join(map(str, lost))
    if not config.is_controller or config.node_id not in lost:
        raise ConfigError(
            f"--lost-voters {named}: node.id = {config.node_id} is not among them; run this with the configuration of a"
            " controller that is lost, on its new log dirs"
        )
    unknown = sorted(set(lost) - set(voters))
    if unknown:
        raise ConfigError(
            f"--lost-voters {named}: controller.quorum.voters has {voters}, and {unknown[0]} is not there"
        )
    if len(lost) == len(voters):
        raise ConfigError(f"--lost-voters {named}: controller.quorum.voters has {voters}, and one must be left")
    if survivor.node_id in lost or survivor.node_id not in voters:
        raise ConfigError(
            f"--from {survivor.directory}: is of node {survivor.node_id}; must be a controller that is left"
        )
    if len(voters) - len(lost) >= majority:
        raise ConfigError(
            f"--lost-voters {named}: {len(voters) - len(lost)} of {len(voters)} controllers are left, which is a"
            " majority; use `penstock node format --rejoin`, which loses nothing"
        )


def _own_state(fs: FileSystem, target: str, survivor: Survivor, votes: bool) -> ElectionState | None:
    """The quorum state that an earlier run has written; MetaPropertiesError for one of anything else."""
    if not fs.exists(target):
        return None
    file = QuorumStateFile(target, fs)
    name = os.path.basename(file.path)
    state = file.load()
    more = [other for other in fs.listdir(target) if other not in (name, name + TMP_SUFFIX)]
    is_ours = votes and not more and (state is None or state == ElectionState(epoch=state.epoch))
    if not is_ours or (state is not None and state.epoch <= survivor.epoch):
        raise MetaPropertiesError(
            f"{target} exists, and not by this command: this node has run. If its disk is whole, start it. If it is to"
            " begin anew, empty its log dirs first"
        )
    return state


@contextmanager
def node_stopped(fs: FileSystem, config: NodeConfig) -> Iterator[None]:
    """The node does not run meanwhile: its locks are held. MetaPropertiesError where another process has one."""
    with ExitStack() as held:
        for path in config.log_dirs:
            lock = f"{path}/{LOCK}"
            if fs.exists(lock):
                try:
                    held.callback(fs.close, fs.lock(lock))
                except BlockingIOError:
                    raise MetaPropertiesError(f"{lock} is held by a process: this node runs; stop it first") from None
        yield


def make_names_durable(fs: FileSystem, config: NodeConfig) -> None:
    """Syncs the names that an earlier run has made, BEFORE they count as done: a run that was killed may not have."""
    parents = {os.path.dirname(path) for path in config.log_dirs}
    for path in (*sorted(parents), *config.log_dirs, f"{config.metadata_log_dir}/{METADATA_DIRECTORY}"):
        if fs.exists(path):
            fs.fsync_dir(path)
