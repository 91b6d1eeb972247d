"""`penstock node recover-quorum`: who votes, what is refused, and a crash at every step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from broker.config.config import load_config
from broker.config.node_config import NodeConfig
from broker.node.commands.recover_quorum import (
    EPOCH_LEAP,
    Survivor,
    make_names_durable,
    node_stopped,
    parse_voters,
    recovery_steps,
    still_lost,
)
from broker.quorum.metadata_log import QuorumStateFile
from broker.quorum.voter_memory import VOTER_FILE, VoterMemory
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.ids import system_ids
from penstock.testing.cluster import TEST_CONFIG
from penstock.testing.layout import new_layout
from raft.quorum_state import ElectionState
from storage.disk.file_system import FileSystem
from storage.log_dirs.meta_properties import format_directory, read_meta_properties
from tests.support.losing_fs import Crashed, LosingFileSystem

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
LEFT = "/left/data"
LOST = (1, 2)
SURVIVOR = Survivor(LEFT, CLUSTER, 0, 7, ("dirdirdirdirdirdirdir1",))


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> list[NodeConfig]:
    """The configurations of three voters; node N has the log dirs /N/data and /N/more."""
    layout = new_layout(Path(tmp_path_factory.mktemp("layout")), 3, 20_000)
    layout.write([TEST_CONFIG] * 3)
    found = [load_config(str(layout.config_path(index))) for index in range(3)]
    return [
        replace(config, log_dirs=(f"/{n}/data", f"/{n}/more"), metadata_log_dir=f"/{n}/data")
        for n, config in enumerate(found)
    ]


def machine() -> LosingFileSystem:
    """With the metadata log dir of node 0, and all of it durable."""
    fs = LosingFileSystem()
    for name in ("/left", "/1", "/2"):
        fs.mkdir(name)
    fs.fsync_dir("/")
    format_directory(fs, LEFT, CLUSTER, 0, "left")
    inside = f"{LEFT}/__cluster_metadata-0"
    fs.mkdir(inside)
    fs.fsync_dir(LEFT)
    QuorumStateFile(inside, fs).save(ElectionState(epoch=7, leader_id=1))
    fd = fs.open(f"{inside}/00000000000000000000.log", create=True)
    fs.pwritev(fd, [b"log" * 1000], 0)
    fs.fdatasync(fd)
    fs.close(fd)
    fs.fsync_dir(inside)
    fs.operations = 0
    return fs


def recover(fs: FileSystem, config: NodeConfig) -> list[bool]:
    """One run; which steps were done before."""
    steps = recovery_steps(config, SURVIVOR, LOST, fs, system_ids())
    with node_stopped(fs, config):
        make_names_durable(fs, config)
        for step in steps:
            if not step.is_done:
                step.do()
    return [step.is_done for step in steps]


def is_voter_without_memory(fs: FileSystem, node: int) -> bool:
    """As the start finds out (voter_memory.py): nothing is known to be forgotten."""
    directory = f"/{node}/data"
    if not fs.exists(directory):
        return False
    inside = f"{directory}/__cluster_metadata-0"
    state = QuorumStateFile(inside, fs).load() if fs.exists(inside) else None
    return state is not None and not fs.exists(f"{directory}/{VOTER_FILE}")


def require_recovered(fs: FileSystem, config: NodeConfig) -> None:
    node = config.node_id
    for path in config.log_dirs:
        properties = read_meta_properties(fs, path)
        assert properties is not None and (properties.cluster_id, properties.node_id) == (CLUSTER, node)
    assert is_voter_without_memory(fs, node) == (node == 1), "one of the two votes, or they are a majority"
    if node == 1:
        state = QuorumStateFile(f"/{node}/data/__cluster_metadata-0", fs).load()
        assert state == ElectionState(epoch=7 + EPOCH_LEAP)
    else:
        assert fs.exists(f"/{node}/data/{VOTER_FILE}")
    copy = f"/{node}/metadata-of-node-0"
    assert fs.read_file(f"{copy}/00000000000000000000.log") == b"log" * 1000 and "quorum-state" in fs.listdir(copy)


@pytest.mark.parametrize("node", LOST)
def test_one_run_is_enough_and_another_changes_nothing(configs: list[NodeConfig], node: int) -> None:
    fs = machine()
    assert not any(recover(fs, configs[node]))
    require_recovered(fs, configs[node])
    before = {path: fs.read_file(path) for path in fs.files()}
    assert all(recover(fs, configs[node]))
    assert {path: fs.read_file(path) for path in fs.files()} == before


@pytest.mark.parametrize("node", LOST)
@pytest.mark.parametrize("how", ["power cut", "random power cut", "kill"])
def test_after_a_crash_at_any_step_the_node_is_safe_and_another_run_finishes(
    configs: list[NodeConfig], node: int, how: str
) -> None:
    whole = machine()
    recover(whole, configs[node])
    assert whole.operations > 30
    for crash_at in range(1, whole.operations + 1):
        fs = machine()
        fs.crash_at = crash_at
        with pytest.raises(Crashed):
            recover(fs, configs[node])
        random = Random(crash_at) if how == "random power cut" else None
        fs = fs.after_kill() if how == "kill" else fs.after_crash(random)
        if is_voter_without_memory(fs, node):
            state = QuorumStateFile(f"/{node}/data/__cluster_metadata-0", fs).load()
            assert node == 1 and state == ElectionState(epoch=7 + EPOCH_LEAP), "whole, or not at all"
        recover(fs, configs[node])
        require_recovered(fs.after_crash(), configs[node])


def refused(config: NodeConfig, fs: FileSystem, survivor: Survivor = SURVIVOR, lost: tuple[int, ...] = LOST) -> str:
    with pytest.raises((ConfigError, MetaPropertiesError)) as caught:
        recovery_steps(config, survivor, lost, fs, system_ids())
    return str(caught.value)


def test_what_would_do_harm_is_refused_and_nothing_is_changed(configs: list[NodeConfig]) -> None:
    fs = machine()
    before = fs.files()
    assert "are left, which is a majority; use `penstock node format --rejoin`" in refused(configs[2], fs, lost=(2,))
    assert "node.id = 0 is not among them" in refused(configs[0], fs)
    assert "and one must be left" in refused(configs[1], fs, lost=(0, 1, 2))
    assert "controller.quorum.voters has [0, 1, 2], and 7 is not there" in refused(configs[1], fs, lost=(1, 7))
    assert "must be a controller that is left" in refused(configs[1], fs, replace(SURVIVOR, node_id=2))
    assert fs.files() == before


def test_a_quorum_whose_voters_are_disks_is_not_recovered_by_their_ids(configs: list[NodeConfig]) -> None:
    """Its voters are those of the log, and this one names none (test_stand_in.py has one that does)."""
    fs = machine()
    dynamic = replace(configs[1], controller_quorum_voters={})
    assert "the metadata log names the voters [], and not 1" in refused(dynamic, fs)
    VoterMemory(LEFT, fs).note_dynamic()
    before = fs.files()
    assert "the metadata log names the voters [], and not 1" in refused(configs[1], fs), "its file has the old voters"
    assert fs.files() == before


def test_a_node_that_has_run_or_is_of_another_cluster_is_refused(configs: list[NodeConfig]) -> None:
    fs = machine()
    format_directory(fs, "/1/data", CLUSTER[:-1] + "B", 1, "other")
    assert "belongs to node 1 of cluster" in refused(configs[1], fs)
    fs = machine()
    recover(fs, configs[1])
    fd = fs.open("/1/data/__cluster_metadata-0/00000000000000000000.log", create=True)
    fs.close(fd)
    assert "this node has run" in refused(configs[1], fs)
    fs = machine()
    recover(fs, configs[2])
    fs.mkdir("/2/data/__cluster_metadata-0")
    VoterMemory("/2/data", fs).note_voted()
    assert "this node has run" in refused(configs[2], fs), "the one that does not vote has no quorum state of ours"


def test_a_disk_that_is_whole_keeps_its_log_dir_and_only_the_others_are_given_up(configs: list[NodeConfig]) -> None:
    fs = machine()
    format_directory(fs, "/1/more", CLUSTER, 1, "whole")
    survivor = replace(SURVIVOR, registered_log_dirs=("gone", "whole"))
    recover(fs, configs[1])
    assert still_lost(configs[1], survivor, fs) == ("gone",)
    assert is_voter_without_memory(fs, 1)


def test_a_node_that_runs_is_refused(configs: list[NodeConfig]) -> None:
    fs = machine()
    recover(fs, configs[1])
    held = fs.lock("/1/data/.lock")
    with pytest.raises(MetaPropertiesError, match="this node runs; stop it first"), node_stopped(fs, configs[1]):
        raise AssertionError
    fs.close(held)


@pytest.mark.parametrize("text", ["", "2,", "a", "-1", "2 3", "٢"])
def test_the_lost_voters_are_ids(text: str) -> None:
    assert parse_voters("3,2,3") == (2, 3)
    with pytest.raises(ConfigError, match="must be the node ids"):
        parse_voters(text)
