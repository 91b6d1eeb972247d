"""Formatting a controller whose quorum has its voters in the metadata log: whole or not at all, and never twice."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from random import Random

import pytest

from broker.config.config import parse_config
from broker.config.node_config import NodeConfig
from broker.node.commands.format import format_if_empty, format_node, main
from broker.node.commands.initial_controllers import NO_OPTIONS, QuorumOptions
from broker.quorum.bootstrap_users import read_bootstrap_users
from broker.quorum.first_voters import read_first_voters
from metadata.records import UserScramCredentialRecord
from penstock.config_keys import to_toml
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.ids import system_ids
from penstock.node import main as launch
from raft.voters import NO_VOTERS
from storage.disk.file_system import FileSystem, OsFileSystem
from storage.log_dirs.meta_properties import DYNAMIC_VOTERS, MetaProperties, read_meta_properties
from tests.support.losing_fs import Crashed, LosingFileSystem

FS, IDS = OsFileSystem(), system_ids()
CLUSTER, OTHER = "north-north-north-nort", "south_south_south_sout"
LISTED, FAR = "one-one-one-one-one-oA", "two_two_two_two_two_tw"
STANDALONE, JOINS = QuorumOptions(standalone=True), QuorumOptions(join=True)
LIST = QuorumOptions(initial_controllers=f"1@127.0.0.1:9193:{LISTED},2@127.0.0.1:9195:{FAR}")


def config_for(tmp_path: Path, *dirs: str, roles: str = "broker,controller", voters: str = "") -> NodeConfig:
    controller = ",CONTROLLER://127.0.0.1:9193" if "controller" in roles else ""
    key = "voters" if voters else "bootstrap.servers"
    return parse_config(
        {
            "node.id": 1,
            "process.roles": roles,
            "listeners": f"BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194{controller}",
            f"controller.quorum.{key}": voters or "127.0.0.1:9193",
            "log.dirs": [str(tmp_path / name) for name in dirs],
        }
    )


def properties(path: str | Path, fs: FileSystem = FS) -> MetaProperties:
    found = read_meta_properties(fs, str(path))
    assert found is not None
    return found


def test_a_standalone_controller_begins_with_the_directory_id_of_its_metadata_log_dir(tmp_path: Path) -> None:
    config = config_for(tmp_path, "a", "b")
    format_node(config, "", FS, IDS, quorum=STANDALONE)
    voters = read_first_voters(FS, config.metadata_log_dir)
    assert voters is not None and voters.keys == ((1, properties(tmp_path / "a").directory_id),)
    assert read_first_voters(FS, str(tmp_path / "b")) is None


def test_an_initial_controller_gets_the_directory_id_of_the_list(tmp_path: Path) -> None:
    format_node(config_for(tmp_path, "a", "b"), CLUSTER, FS, IDS, quorum=LIST)
    voters = read_first_voters(FS, str(tmp_path / "a"))
    assert voters is not None and voters.keys == ((1, LISTED), (2, FAR))
    assert properties(tmp_path / "a").directory_id == LISTED != properties(tmp_path / "b").directory_id


def test_a_controller_that_joins_begins_without_voters_and_needs_the_id_of_the_cluster(tmp_path: Path) -> None:
    config = config_for(tmp_path, "a")
    with pytest.raises(ConfigError, match=r"--join needs --cluster-id here.*which cluster it joins"):
        format_node(config, "", FS, IDS, quorum=JOINS)
    assert not (tmp_path / "a").exists()
    format_node(config, CLUSTER, FS, IDS, quorum=JOINS)
    assert read_first_voters(FS, str(tmp_path / "a")) == NO_VOTERS


@pytest.mark.parametrize("options", [STANDALONE, LIST, JOINS])
def test_no_older_release_starts_on_a_controller_of_such_a_quorum(tmp_path: Path, options: QuorumOptions) -> None:
    format_node(config_for(tmp_path, "a", "b"), CLUSTER, FS, IDS, quorum=options)
    assert [properties(tmp_path / name).version for name in ("a", "b")] == [DYNAMIC_VOTERS, 1]


def test_a_static_controller_and_a_broker_are_formatted_as_before(tmp_path: Path) -> None:
    format_node(config_for(tmp_path, "a", voters="1@127.0.0.1:9193"), CLUSTER, FS, IDS)
    format_node(config_for(tmp_path, "b", roles="broker"), CLUSTER, FS, IDS)
    format_node(config_for(tmp_path, "c", roles="broker"), CLUSTER, FS, IDS, quorum=JOINS)
    for name in "abc":
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == ["meta.properties"]
        assert properties(tmp_path / name).version == 1


def test_without_an_option_nothing_is_formatted(tmp_path: Path) -> None:
    config = config_for(tmp_path, "a")
    with pytest.raises(ConfigError, match="must know how its quorum begins"):
        format_node(config, "", FS, IDS)
    file = tmp_path / "1.toml"
    file.write_text(to_toml(config.given))
    with pytest.raises(ConfigError, match="must know how its quorum begins"):
        format_if_empty(str(file), CLUSTER)
    assert not (tmp_path / "a").exists()


def test_a_second_beginning_is_refused(tmp_path: Path) -> None:
    format_node(config_for(tmp_path, "a"), CLUSTER, FS, IDS, quorum=STANDALONE)
    before = (tmp_path / "a" / "first-voters").read_bytes()
    with pytest.raises(MetaPropertiesError, match="formatted already, for node 1"):
        format_node(config_for(tmp_path, "a"), CLUSTER, FS, IDS, quorum=STANDALONE)
    with pytest.raises(MetaPropertiesError, match="the node has begun: leave --standalone out"):
        format_node(config_for(tmp_path, "a", "b"), CLUSTER, FS, IDS, quorum=STANDALONE)
    assert format_node(config_for(tmp_path, "a", "b"), "", FS, IDS)[0] == [str(tmp_path / "b")], "a disk more"
    assert (tmp_path / "a" / "first-voters").read_bytes() == before


def test_a_lost_disk_of_a_voter_is_formatted_as_another_voter_and_never_rejoins(tmp_path: Path) -> None:
    format_node(config_for(tmp_path, "b", roles="broker"), CLUSTER, FS, IDS)
    config = config_for(tmp_path, "a", "b")
    for options in (STANDALONE, LIST):
        with pytest.raises(MetaPropertiesError, match=r"is empty now, and --.* would begin another quorum"):
            format_node(config, "", FS, IDS, quorum=options)
    with pytest.raises(ConfigError, match=r"voters of this quorum are disks.*--join.*penstock quorum remove-voter"):
        format_node(config, "", FS, IDS, rejoin=True)
    with pytest.raises(ConfigError, match="must know how its quorum begins"):
        format_node(config, "", FS, IDS)
    assert not (tmp_path / "a").exists()
    assert format_node(config, "", FS, IDS, quorum=JOINS) == ([str(tmp_path / "a")], CLUSTER)
    assert read_first_voters(FS, str(tmp_path / "a")) == NO_VOTERS


@pytest.mark.parametrize("crash_at", range(18))
def test_after_an_interruption_it_may_begin_otherwise(crash_at: int) -> None:
    """A dir is formatted with its first voters or not at all; what was left of the first try means nothing."""
    config, fs = config_for(Path("/"), "a"), LosingFileSystem()
    fs.crash_at = fs.operations + crash_at
    with contextlib.suppress(Crashed):
        format_node(config, CLUSTER, fs, IDS, quorum=STANDALONE)
    fs = fs.after_crash(Random(crash_at))
    path = config.metadata_log_dir
    if fs.exists(path) and read_meta_properties(fs, path) is not None:
        voters = read_first_voters(fs, path)
        assert voters is not None and voters.keys == ((1, properties(path, fs).directory_id),)
        return
    format_node(config, CLUSTER, fs, IDS, quorum=JOINS)
    assert read_first_voters(fs.after_crash(), path) == NO_VOTERS


@pytest.mark.parametrize("crash_at", range(18))
def test_a_formatted_dir_has_the_users_that_its_cluster_begins_with(crash_at: int) -> None:
    config, fs = config_for(Path("/"), "a", voters="1@127.0.0.1:9193"), LosingFileSystem()
    user = UserScramCredentialRecord("admin", 1, 4096, "c2FsdA==", "c3RvcmVk", "c2VydmVy")
    fs.crash_at = fs.operations + crash_at
    with contextlib.suppress(Crashed):
        format_node(config, CLUSTER, fs, IDS, users=[user])
    fs, path = fs.after_crash(Random(crash_at)), config.metadata_log_dir
    if not fs.exists(path) or read_meta_properties(fs, path) is None:
        format_node(config, CLUSTER, fs, IDS, users=[user])
    assert read_bootstrap_users(fs, path) == (user,)


def test_a_static_format_after_an_interrupted_dynamic_one_leaves_no_first_voters(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("first-voters", "first-voters.tmp", "bootstrap-users"):
        (tmp_path / "a" / name).write_text("{")
    format_node(config_for(tmp_path, "a", voters="1@127.0.0.1:9193"), CLUSTER, FS, IDS)
    assert read_first_voters(FS, str(tmp_path / "a")) is None
    assert not (tmp_path / "a" / "bootstrap-users").exists()


def test_the_command_says_the_beginning_also_to_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "1.toml"

    def formatted(name: str, options: QuorumOptions, *, as_json: bool = False) -> str:
        file.write_text(to_toml(config_for(tmp_path, name).given))
        assert main(str(file), CLUSTER, as_json=as_json, quorum=options) == 0
        return capsys.readouterr().out

    assert f"the quorum begins with 1@127.0.0.1:9193, 2@127.0.0.1:9195; here with {LISTED}\n" in formatted("a", LIST)
    assert "controller 1 joins with directory id " in formatted("b", JOINS)
    shown = json.loads(formatted("c", STANDALONE, as_json=True))
    assert shown["first_voters"] == [1] and shown["directory_id"] == properties(tmp_path / "c").directory_id
    assert json.loads(formatted("d", LIST, as_json=True))["directory_id"] == LISTED


def test_the_launcher_passes_the_options_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "1.toml"
    file.write_text(to_toml(config_for(tmp_path, "a").given))
    given = ["format", "--config", str(file), "--cluster-id", CLUSTER]
    assert launch([*given, "--standalone", "--join"]) == 2
    assert "--standalone and --join exclude each other" in capsys.readouterr().err
    assert launch([*given, "--initial-controllers", ""]) == 2
    assert "must be ID@HOST:PORT:DIRECTORY_ID" in capsys.readouterr().err
    assert launch([*given, "--initial-controllers", str(LIST.initial_controllers)]) == 0
    assert properties(tmp_path / "a").directory_id == LISTED
    assert NO_OPTIONS.given == ()
