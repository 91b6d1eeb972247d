"""A start on empty log dirs formats them as one that joins, unless it is told that the cluster begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.config import parse_config
from broker.config.node_config import NodeConfig
from broker.node.commands.first_start import FirstFormat, first_format, format_first, part_of
from broker.node.commands.initial_controllers import QuorumOptions
from broker.quorum.first_voters import read_first_voters
from broker.quorum.voter_memory import VoterMemory
from penstock.config_keys import to_toml
from penstock.errors import ConfigError, MetaPropertiesError
from storage.disk.file_system import OsFileSystem
from storage.log_dirs.meta_properties import read_meta_properties

CLUSTER, OTHER = "north-north-north-nort", "south_south_south_sout"
FS = OsFileSystem()
CONTROLLER = {
    "process.roles": "broker,controller",
    "listeners": "BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194,CONTROLLER://127.0.0.1:9193",
}
BROKER = {"process.roles": "broker", "listeners": "BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194"}
DYNAMIC = {"controller.quorum.bootstrap.servers": "127.0.0.1:9193,127.0.0.1:9195"}
THREE = {"controller.quorum.voters": "1@127.0.0.1:9193,2@127.0.0.1:9195,3@127.0.0.1:9197"}
ALONE = {"controller.quorum.voters": "1@127.0.0.1:9193"}


def values(tmp_path: Path, *parts: dict[str, str]) -> dict[str, object]:
    found: dict[str, object] = {"node.id": 1, "log.dirs": str(tmp_path / "data")}
    for part in parts:
        found |= part
    return found


def config(tmp_path: Path, *parts: dict[str, str]) -> NodeConfig:
    return parse_config(values(tmp_path, *parts))


def file(tmp_path: Path, *parts: dict[str, str]) -> str:
    path = tmp_path / "node.toml"
    path.write_text(to_toml(values(tmp_path, *parts)))
    return str(path)


def test_a_controller_of_a_dynamic_quorum_joins_or_begins_it(tmp_path: Path) -> None:
    node = config(tmp_path, CONTROLLER, DYNAMIC)
    assert first_format(node, "join") == FirstFormat(quorum=QuorumOptions(join=True))
    assert first_format(node, "begin") == FirstFormat(quorum=QuorumOptions(standalone=True))


def test_together_the_first_bootstrap_server_begins_and_every_other_node_joins(tmp_path: Path) -> None:
    assert part_of(config(tmp_path, CONTROLLER, DYNAMIC)) == "begin"
    second = {"controller.quorum.bootstrap.servers": "127.0.0.1:9195,127.0.0.1:9193"}
    assert part_of(config(tmp_path, CONTROLLER, second)) == "join"
    named = {"controller.quorum.bootstrap.servers": "pod-0.nodes:9193,pod-1.nodes:9193"}
    advertised = {"advertised.listeners": "CONTROLLER://pod-0.nodes:9193"}
    assert part_of(config(tmp_path, CONTROLLER, named, advertised)) == "begin"
    assert part_of(config(tmp_path, CONTROLLER, named)) == "join", "nobody reaches it as the first one"
    assert part_of(config(tmp_path, BROKER, DYNAMIC)) == "join"
    with pytest.raises(ConfigError, match=r"first of controller.quorum.bootstrap.servers begins; give that key"):
        part_of(config(tmp_path, CONTROLLER, ALONE))


def test_a_start_together_formats_as_the_first_one_with_its_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a-long-enough-password\n")
    users = [f"SCRAM-SHA-256=[name=admin,password-file={secret}]"]
    format_first(file(tmp_path, CONTROLLER, DYNAMIC), CLUSTER, "together", users)
    voters = read_first_voters(FS, str(tmp_path / "data"))
    assert voters is not None and voters.ids == (1,)
    assert "user admin is set when this controller leads" in capsys.readouterr().out


def test_one_of_several_voters_of_the_configuration_rejoins_and_never_begins(tmp_path: Path) -> None:
    node = config(tmp_path, CONTROLLER, THREE)
    assert first_format(node, "join") == FirstFormat(rejoin=True)
    with pytest.raises(ConfigError, match="names 3 voters, which begin together"):
        first_format(node, "begin")


def test_the_only_voter_of_the_configuration_begins_and_never_joins(tmp_path: Path) -> None:
    node = config(tmp_path, CONTROLLER, ALONE)
    assert first_format(node, "begin") == FirstFormat()
    with pytest.raises(ConfigError, match="no quorum to join"):
        first_format(node, "join")


def test_a_broker_is_formatted_and_begins_nothing(tmp_path: Path) -> None:
    node = config(tmp_path, BROKER, DYNAMIC)
    assert first_format(node, "join") == FirstFormat()
    with pytest.raises(ConfigError, match="a cluster begins with a controller"):
        first_format(node, "begin")


def test_a_first_start_that_begins_has_one_voter_and_its_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a-long-enough-password\n")
    secret.chmod(0o600)
    user = f"SCRAM-SHA-256=[name=admin,password-file={secret}]"
    format_first(file(tmp_path, CONTROLLER, DYNAMIC), CLUSTER, "begin", [user])
    said = capsys.readouterr().out
    assert f"formatted {tmp_path}/data for node 1 of cluster {CLUSTER}" in said and "user admin is set" in said
    voters = read_first_voters(FS, str(tmp_path / "data"))
    assert voters is not None and voters.ids == (1,)


def test_a_volume_that_was_lost_gets_a_new_disk_that_does_not_vote(tmp_path: Path) -> None:
    path = file(tmp_path, CONTROLLER, DYNAMIC)
    format_first(path, CLUSTER, "join", ["SCRAM-SHA-256=[name=admin,password-file=/nowhere]"])
    voters = read_first_voters(FS, str(tmp_path / "data"))
    assert voters is not None and voters.ids == ()


def test_a_lost_voter_of_the_configuration_remembers_that_it_may_have_promised(tmp_path: Path) -> None:
    format_first(file(tmp_path, CONTROLLER, THREE), CLUSTER, "join")
    assert VoterMemory(str(tmp_path / "data"), FS).has_promised


def test_a_second_start_formats_nothing_and_keeps_the_disk(tmp_path: Path) -> None:
    path = file(tmp_path, CONTROLLER, DYNAMIC)
    format_first(path, CLUSTER, "begin")
    before = read_meta_properties(FS, str(tmp_path / "data"))
    format_first(path, CLUSTER, "begin")
    format_first(path, CLUSTER, "join")
    assert read_meta_properties(FS, str(tmp_path / "data")) == before


def test_dirs_of_another_cluster_and_dirs_that_hold_something_are_refused(tmp_path: Path) -> None:
    path = file(tmp_path, BROKER, DYNAMIC)
    format_first(path, CLUSTER, "join")
    with pytest.raises(MetaPropertiesError, match=f"formatted for cluster {CLUSTER}, but this start is for {OTHER}"):
        format_first(path, OTHER, "join")
    (tmp_path / "data" / "meta.properties").unlink()
    (tmp_path / "data" / "somebody-elses").write_text("")
    with pytest.raises(MetaPropertiesError, match="not empty"):
        format_first(path, CLUSTER, "join")


def test_a_word_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be begin, join or together"):
        format_first(file(tmp_path, BROKER, DYNAMIC), CLUSTER, "start")
