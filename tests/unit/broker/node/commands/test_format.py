"""Formatting log dirs: all or nothing, never what holds something, never a metadata log that was lost."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path
from random import Random

import pytest

from broker.config.config import parse_config
from broker.config.node_config import NodeConfig
from broker.node.commands.format import format_node, main
from broker.quorum.voter_memory import VoterMemory
from penstock.config_keys import to_toml
from penstock.errors import ConfigError, MetaPropertiesError
from storage.disk.file_system import OsFileSystem
from storage.log_dirs.meta_properties import read_meta_properties
from tests.support.losing_fs import Crashed, LosingFileSystem
from tests.support.machine import IDS

FS = OsFileSystem()
NORTH, SOUTH = "north-north-north-nort", "south_south_south_sout"


def config_for(
    tmp_path: Path, *dirs: str, node_id: int = 1, metadata_log_dir: str = "", voters: tuple[int, ...] = ()
) -> NodeConfig:
    more = {"metadata.log.dir": str(tmp_path / metadata_log_dir)} if metadata_log_dir else {}
    return parse_config(
        {
            **more,
            "node.id": node_id,
            "process.roles": "broker,controller",
            "listeners": "BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194,CONTROLLER://127.0.0.1:9193",
            "controller.quorum.voters": [f"{voter}@127.0.0.1:{9192 + voter}" for voter in voters or (node_id,)],
            "log.dirs": [str(tmp_path / name) for name in dirs],
        }
    )


def broker_config_for(tmp_path: Path, *dirs: str) -> NodeConfig:
    return parse_config(
        {
            "node.id": 1,
            "process.roles": "broker",
            "listeners": "BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194",
            "controller.quorum.voters": ["2@127.0.0.1:9193"],
            "log.dirs": [str(tmp_path / name) for name in dirs],
        }
    )


def test_every_log_dir_gets_the_same_cluster_and_an_id_of_its_own(tmp_path: Path) -> None:
    config = config_for(tmp_path, "a", "b/c")
    formatted, cluster_id = format_node(config, "", FS, IDS)
    assert formatted == list(config.log_dirs)
    found = [read_meta_properties(FS, directory) for directory in config.log_dirs]
    assert {(p.cluster_id, p.node_id) for p in found if p} == {(cluster_id, 1)}
    assert len({p.directory_id for p in found if p}) == 2


def test_the_command_says_how_to_serve_kafkas_clients_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "1.toml"
    values = config_for(tmp_path, "a").given
    file.write_text(to_toml(values))
    assert main(str(file), "") == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"formatted {tmp_path}/a for node 1") and "KAFKA://host:9092 adds one" in said.err
    listeners = f"{values['listeners']},KAFKA://127.0.0.1:9092"
    file.write_text(to_toml({**values, "listeners": listeners, "log.dirs": str(tmp_path / "b")}))
    assert main(str(file), "") == 0 and capsys.readouterr().err == ""


def test_a_given_cluster_id_is_kept(tmp_path: Path) -> None:
    assert format_node(config_for(tmp_path, "a"), NORTH, FS, IDS)[1] == NORTH


@pytest.mark.parametrize(
    "cluster_id", ["bad", "two words, 22 letters", "a" * 21 + "=", "a" * 21 + "\n", "-" + "a" * 21, "x" * 23]
)
def test_a_cluster_id_that_no_cluster_has_is_refused_before_anything_is_written(
    tmp_path: Path, cluster_id: str
) -> None:
    with pytest.raises(
        ConfigError, match=r"--cluster-id .*22 letters.*`penstock cluster describe`.*leave the option out"
    ):
        format_node(config_for(tmp_path, "a"), cluster_id, FS, IDS)
    assert not (tmp_path / "a").exists()


def test_formatting_again_is_refused(tmp_path: Path) -> None:
    config = config_for(tmp_path, "a")
    format_node(config, NORTH, FS, IDS)
    with pytest.raises(MetaPropertiesError, match=f"formatted already, for node 1 of cluster {NORTH}"):
        format_node(config, "", FS, IDS)


def test_nothing_is_formatted_when_one_dir_holds_something(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").write_text("years of work")
    with pytest.raises(MetaPropertiesError, match=r"b is not empty \(it holds thesis\.txt\)"):
        format_node(config_for(tmp_path, "a", "b"), "", FS, IDS)
    assert not (tmp_path / "a").exists() and (tmp_path / "b" / "thesis.txt").read_text() == "years of work"


def test_voter_that_rejoins_is_formatted_as_one_that_has_promised_and_forgotten(tmp_path: Path) -> None:
    config = config_for(tmp_path, "a", "b", voters=(1, 2, 3))
    format_node(config_for(tmp_path, "b", voters=(1, 2, 3)), NORTH, FS, IDS)
    with pytest.raises(MetaPropertiesError, match="format it with `penstock node format --rejoin`"):
        format_node(config, "", FS, IDS)
    assert format_node(config, "", FS, IDS, rejoin=True) == ([str(tmp_path / "a")], NORTH)
    assert '"hasVoted": true, "hasRecords": true' in (tmp_path / "a" / "quorum-voter").read_text()
    assert not (tmp_path / "b" / "quorum-voter").exists()


def test_rejoining_that_was_interrupted_is_finished_by_saying_it_again(tmp_path: Path) -> None:
    config = config_for(tmp_path, "a", voters=(1, 2, 3))
    format_node(config, NORTH, FS, IDS)
    assert format_node(config, "", FS, IDS, rejoin=True) == ([], NORTH)
    assert (tmp_path / "a" / "quorum-voter").exists()


@pytest.mark.parametrize("at", range(16))
@pytest.mark.parametrize("is_crash", [True, False], ids=["crash", "full"])
def test_a_voter_that_rejoins_can_never_be_started_as_a_new_one(at: int, is_crash: bool) -> None:
    """Somebody may start the node after a crash or a full disk, and not say --rejoin again: it would vote at once."""
    config, fs = config_for(Path("/"), "a", voters=(1, 2, 3)), LosingFileSystem()
    if is_crash:
        fs.crash_at = fs.operations + at
    else:
        fs.fail_at[fs.operations + at] = errno.ENOSPC
    with contextlib.suppress(Crashed, MetaPropertiesError):
        format_node(config, NORTH, fs, IDS, rejoin=True)
    if is_crash:
        fs = fs.after_crash(Random(at))
    if fs.exists("/a") and read_meta_properties(fs, "/a") is not None:
        assert fs.exists("/a/quorum-voter")
    else:
        if fs.exists("/a/quorum-voter"):
            with pytest.raises(MetaPropertiesError, match="holds quorum-voter"):
                format_node(config, NORTH, fs, IDS)
        format_node(config, NORTH, fs, IDS, rejoin=True)
    assert VoterMemory("/a", fs).has_promised


def test_rejoining_is_refused_to_the_only_voter_and_to_one_that_has_its_log(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one of several voters"):
        format_node(config_for(tmp_path, "a"), "", FS, IDS, rejoin=True)
    (tmp_path / "a" / "__cluster_metadata-0").mkdir(parents=True)
    with pytest.raises(MetaPropertiesError, match="exists: --rejoin is for a voter that has lost it"):
        format_node(config_for(tmp_path, "a", voters=(1, 2, 3)), "", FS, IDS, rejoin=True)


def test_rejoining_never_makes_a_new_cluster_id(tmp_path: Path) -> None:
    config = config_for(tmp_path, "a", voters=(1, 2, 3))
    with pytest.raises(ConfigError, match=r"--rejoin needs --cluster-id here.*`penstock cluster describe`"):
        format_node(config, "", FS, IDS, rejoin=True)
    assert not (tmp_path / "a").exists()
    assert format_node(config, NORTH, FS, IDS, rejoin=True) == ([str(tmp_path / "a")], NORTH)


def test_a_disk_that_was_added_is_formatted_for_the_same_cluster(tmp_path: Path) -> None:
    format_node(config_for(tmp_path, "a"), NORTH, FS, IDS)
    formatted, cluster_id = format_node(config_for(tmp_path, "a", "b"), "", FS, IDS)
    assert (formatted, cluster_id) == ([str(tmp_path / "b")], NORTH)


def test_an_empty_metadata_log_dir_of_a_known_node_is_not_formatted(tmp_path: Path) -> None:
    format_node(config_for(tmp_path, "b"), NORTH, FS, IDS)
    with pytest.raises(MetaPropertiesError, match="held the metadata log of node 1 and is empty now"):
        format_node(config_for(tmp_path, "a", "b"), "", FS, IDS)


def test_a_node_that_is_only_a_broker_may_lose_the_dir_of_its_metadata_log(tmp_path: Path) -> None:
    format_node(broker_config_for(tmp_path, "b"), NORTH, FS, IDS)
    assert format_node(broker_config_for(tmp_path, "a", "b"), "", FS, IDS) == ([str(tmp_path / "a")], NORTH)


def test_a_format_that_was_interrupted_is_finished_by_the_next_one(tmp_path: Path) -> None:
    config = config_for(tmp_path, "a", "b", metadata_log_dir="b")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "meta.properties.tmp").write_text("version=")
    _, cluster_id = format_node(config_for(tmp_path, "b"), "", FS, IDS)  # the metadata log's dir comes first
    formatted, _ = format_node(config, cluster_id, FS, IDS)
    assert formatted == [str(tmp_path / "a")]
    other = config_for(tmp_path, "c", "d", metadata_log_dir="d")
    assert format_node(other, "", FS, IDS)[0] == [str(tmp_path / "d"), str(tmp_path / "c")]


def test_another_nodes_or_clusters_dir_is_refused(tmp_path: Path) -> None:
    format_node(config_for(tmp_path, "a"), NORTH, FS, IDS)
    with pytest.raises(
        MetaPropertiesError, match=r"belongs to node 1, but node\.id = 2; correct node\.id or log\.dirs"
    ):
        format_node(config_for(tmp_path, "a", "b", node_id=2), "", FS, IDS)
    with pytest.raises(MetaPropertiesError, match=f"for cluster {NORTH}, not {SOUTH}; give that id"):
        format_node(config_for(tmp_path, "a", "b"), SOUTH, FS, IDS)
