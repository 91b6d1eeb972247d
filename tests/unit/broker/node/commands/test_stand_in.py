"""`penstock node recover-quorum` where the voters are disks: who stands in, what is refused, a crash at every step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from broker.config.config import load_config
from broker.config.node_config import NodeConfig
from broker.node.commands.recover_quorum import main, make_names_durable, node_stopped, recovery_steps, still_lost
from broker.node.commands.stand_in import commands_with_a_leader
from broker.node.commands.survivor import EPOCH_LEAP, METADATA_DIRECTORY, Survivor
from broker.quorum.first_voters import read_first_voters, write_first_voters
from broker.quorum.metadata_log import QuorumStateFile
from broker.quorum.voter_memory import VoterMemory
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.ids import system_ids
from penstock.testing.cluster import TEST_CONFIG
from penstock.testing.layout import new_layout
from penstock.types import TopicPartition
from raft.quorum_state import ElectionState
from raft.voters import NO_VOTERS
from storage.disk.checkpoint_file import read_offset_lines
from storage.disk.file_names import RECOVERY_POINT_CHECKPOINT
from storage.disk.file_system import FileSystem, OsFileSystem
from storage.log_dirs.meta_properties import DYNAMIC_VOTERS, format_directory, read_meta_properties
from tests.support.losing_fs import Crashed, LosingFileSystem
from tests.support.voters import disk_of, voters_on_disks

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
LEFT, LOG = "/left/data", b"log" * 1000
LOST = (1, 2)
ORDERS = TopicPartition("orders", 0)
VOTERS = voters_on_disks(0, 1, 2)
SURVIVOR = Survivor(LEFT, CLUSTER, 0, 7, (disk_of(1), "more"), disk_of(0), VOTERS, {ORDERS: "id-of-orders"})


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> list[NodeConfig]:
    """The configurations of three controllers that name no voters; node N has the log dirs /N/data and /N/more."""
    layout = new_layout(Path(tmp_path_factory.mktemp("layout")), 3, 20_000)
    layout.write([TEST_CONFIG] * 3)
    found = [load_config(str(layout.config_path(index))) for index in range(3)]
    return [
        replace(
            config,
            log_dirs=(f"/{n}/data", f"/{n}/more"),
            metadata_log_dir=f"/{n}/data",
            controller_quorum_voters={},
        )
        for n, config in enumerate(found)
    ]


def machine() -> LosingFileSystem:
    """With the metadata log dir of voter 0, and all of it durable."""
    fs = LosingFileSystem()
    for name in ("/left", "/1", "/2"):
        fs.mkdir(name)
    fs.fsync_dir("/")
    voters = lambda: write_first_voters(fs, LEFT, NO_VOTERS)  # noqa: E731
    format_directory(fs, LEFT, CLUSTER, 0, disk_of(0), version=DYNAMIC_VOTERS, prepare=voters)
    inside = f"{LEFT}/{METADATA_DIRECTORY}"
    fs.mkdir(inside)
    fs.fsync_dir(LEFT)
    QuorumStateFile(inside, fs).save(ElectionState(epoch=7, leader_id=1))
    fd = fs.open(f"{inside}/00000000000000000000.log", create=True)
    fs.pwritev(fd, [LOG], 0)
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


def is_lost_voter(fs: FileSystem, node: int) -> bool:
    """True if a start of the node would be that of the voter whose disk is lost."""
    path = f"/{node}/data"
    properties = read_meta_properties(fs, path) if fs.exists(path) else None
    return properties is not None and properties.directory_id == disk_of(node)


def require_stands_in(fs: FileSystem) -> None:
    """The dir of node 1 is whole: a start takes it for the lost voter, which has forgotten nothing."""
    path, inside = "/1/data", f"/1/data/{METADATA_DIRECTORY}"
    properties = read_meta_properties(fs, path)
    assert properties is not None
    assert (properties.cluster_id, properties.node_id, properties.version) == (CLUSTER, 1, DYNAMIC_VOTERS)
    state = QuorumStateFile(inside, fs).load()
    assert state == ElectionState(epoch=7 + EPOCH_LEAP)
    assert fs.read_file(f"{inside}/00000000000000000000.log") == LOG
    VoterMemory(path, fs).refuse_loss(state, inside, inside, len(LOG))
    assert read_first_voters(fs, path) == NO_VOTERS
    lines = read_offset_lines(fs, f"{path}/{RECOVERY_POINT_CHECKPOINT}")
    assert lines is not None and lines.offsets == {ORDERS: 1} and lines.topic_ids == {ORDERS: "id-of-orders"}


def require_recovered(fs: FileSystem, config: NodeConfig) -> None:
    for path in config.log_dirs:
        properties = read_meta_properties(fs, path)
        assert properties is not None and (properties.cluster_id, properties.node_id) == (CLUSTER, config.node_id)
    assert is_lost_voter(fs, config.node_id) == (config.node_id == 1), "one of the two, or they are a majority"
    if config.node_id == 1:
        require_stands_in(fs)
    else:
        assert not fs.exists(f"/2/data/{METADATA_DIRECTORY}") and read_first_voters(fs, "/2/data") == NO_VOTERS
    copy = f"/{config.node_id}/metadata-of-node-0"
    assert fs.read_file(f"{copy}/00000000000000000000.log") == LOG and "quorum-state" in fs.listdir(copy)


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
def test_after_a_crash_at_any_step_the_node_is_no_voter_or_a_whole_one_and_another_run_finishes(
    configs: list[NodeConfig], node: int, how: str
) -> None:
    whole = machine()
    recover(whole, configs[node])
    assert whole.operations > 20
    for crash_at in range(1, whole.operations + 1):
        fs = machine()
        fs.crash_at = crash_at
        with pytest.raises(Crashed):
            recover(fs, configs[node])
        random = Random(crash_at) if how == "random power cut" else None
        fs = fs.after_kill() if how == "kill" else fs.after_crash(random)
        if is_lost_voter(fs, node):
            require_stands_in(fs)
        recover(fs, configs[node])
        require_recovered(fs.after_crash(), configs[node])


def test_the_log_dirs_of_the_broker_that_are_gone_are_given_up_but_for_the_one_that_stands_in(
    configs: list[NodeConfig],
) -> None:
    fs = machine()
    recover(fs, configs[1])
    assert still_lost(configs[1], SURVIVOR, fs) == ("more",)
    assert commands_with_a_leader(SURVIVOR, LOST) == [f"penstock quorum remove-voter 2:{disk_of(2)} --yes"]


def test_a_quorum_that_was_static_once_keeps_the_voters_of_its_file_and_the_note_that_it_is_dynamic(
    configs: list[NodeConfig],
) -> None:
    fs = machine()
    fs.unlink(f"{LEFT}/first-voters")
    VoterMemory(LEFT, fs).note_dynamic()
    recover(fs, configs[1])
    assert read_first_voters(fs, "/1/data") is None
    assert fs.read_file("/1/data/quorum-voter") == fs.read_file(f"{LEFT}/quorum-voter")
    assert VoterMemory("/1/data", fs).is_dynamic(configured_voters=3)


def refused(config: NodeConfig, fs: FileSystem, survivor: Survivor = SURVIVOR, lost: tuple[int, ...] = LOST) -> str:
    with pytest.raises((ConfigError, MetaPropertiesError)) as caught:
        recovery_steps(config, survivor, lost, fs, system_ids())
    return str(caught.value)


def test_what_would_do_harm_is_refused_and_nothing_is_changed(configs: list[NodeConfig]) -> None:
    fs = machine()
    before = fs.files()
    assert "2 of 3 voters are left, which is a majority: format its metadata log dir anew with --join" in refused(
        configs[2], fs, lost=(2,)
    )
    assert "node.id = 0 is not among them" in refused(configs[0], fs)
    assert "names the voters [0, 1, 2], and not 7" in refused(configs[1], fs, lost=(1, 7))
    assert "must be a voter that is left" in refused(configs[1], fs, lost=(0, 1, 2))
    other_disk = replace(SURVIVOR, directory_id=disk_of(0, 1))
    assert "must be a voter that is left, by its own metadata log" in refused(configs[1], fs, other_disk)
    with_voters = replace(configs[2], controller_quorum_voters={0: "", 1: "", 2: ""})
    VoterMemory(LEFT, fs).note_dynamic()
    before = fs.files()
    assert "--join: is for a quorum whose metadata log names the voters" in refused(with_voters, fs)
    assert fs.files() == before


def test_a_node_that_has_run_or_was_formatted_otherwise_is_refused(configs: list[NodeConfig]) -> None:
    fs = machine()
    recover(fs, configs[1])
    QuorumStateFile(f"/1/data/{METADATA_DIRECTORY}", fs).save(ElectionState(epoch=108, voted_id=1))
    assert "this node has run, or was formatted" in refused(configs[1], fs)
    fs = machine()
    format_directory(fs, "/1/data", CLUSTER, 1, disk_of(1, 1), version=DYNAMIC_VOTERS)
    assert "this node has run, or was formatted" in refused(configs[1], fs)
    fs = machine()
    fs.mkdir("/1/data")
    fs.mkdir("/1/data/orders-0")
    assert "this node has run, or was formatted" in refused(configs[1], fs)


def test_the_command_prints_its_steps_the_start_and_what_follows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = new_layout(tmp_path, 3, 20_000)
    layout.write([TEST_CONFIG] * 3)
    left, fs = str(layout.data_directory(0)), OsFileSystem()
    format_directory(
        fs, left, CLUSTER, 0, disk_of(0), version=DYNAMIC_VOTERS, prepare=lambda: write_first_voters(fs, left, VOTERS)
    )
    fs.mkdir(f"{left}/{METADATA_DIRECTORY}")
    QuorumStateFile(f"{left}/{METADATA_DIRECTORY}", fs).save(ElectionState(epoch=7))
    config = layout.config_path(1)
    for dry_run, word in ((True, "would"), (False, "now"), (False, "done before")):
        assert main(str(config), left, "1,2", dry_run) == 0
        *steps, start, after = capsys.readouterr().out.splitlines()
        assert len(steps) == 4 and all(line.startswith(f"{word}: ") for line in steps)
        assert start == f"then start it once like this: penstock node start --config {config}"
        assert after.endswith(f": penstock quorum remove-voter 2:{disk_of(2)} --yes")
