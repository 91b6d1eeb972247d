"""Format, check and install of all nodes of a host; and the unit is the one of a single node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.host import host_commands
from broker.host.host_commands import FILE, UNIT, check_host, format_host, install_host
from broker.node.commands.first_levels import LevelOptions
from broker.node.commands.initial_controllers import QuorumOptions
from broker.node.install.command import UNIT as UNIT_OF_ONE
from penstock.errors import ConfigError, MetaPropertiesError
from storage.disk.file_system import OsFileSystem
from storage.log_dirs.meta_properties import read_meta_properties

NO_LEVELS = LevelOptions("", ())


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return written(tmp_path, 'controller.quorum.bootstrap.servers = "h:9292"', controllers=2)


def written(tmp_path: Path, node: str, controllers: int) -> Path:
    path = tmp_path / "host.toml"
    head = f'[host]\nnodes = 3\naddress = "h"\ndirectory = "{tmp_path}/d"\ncontrollers = {controllers}\n'
    path.write_text(f"{head}[node]\n{node}\n", encoding="utf-8")
    return path


def clusters(tmp_path: Path) -> list[str | None]:
    found = (read_meta_properties(OsFileSystem(), f"{tmp_path}/d/{node}/data") for node in (1, 2, 3))
    return [None if one is None else one.cluster_id for one in found]


def formatted(path: Path, cluster_id: str = "", quorum: QuorumOptions | None = None) -> int:
    return format_host(str(path), cluster_id, (), quorum or QuorumOptions(standalone=True), NO_LEVELS, as_json=False)


def test_all_nodes_get_one_cluster_and_the_first_controller_begins_the_quorum(
    host: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert formatted(host) == 0
    assert len(set(clusters(tmp_path))) == 1 and None not in clusters(tmp_path)
    said = capsys.readouterr().out
    assert "the quorum begins with 1@" in said and "controller 2 joins" in said and "controller 3" not in said
    check_host(str(host), as_json=False)
    assert "node 3 could start; " in capsys.readouterr().out


def test_a_format_said_again_leaves_what_is_there_and_a_host_that_grew_gets_the_rest(
    host: Path, tmp_path: Path
) -> None:
    formatted(host)
    before = clusters(tmp_path)
    host.write_text(host.read_text(encoding="utf-8").replace("nodes = 3", "nodes = 4"), encoding="utf-8")
    assert formatted(host) == 0
    found = read_meta_properties(OsFileSystem(), f"{tmp_path}/d/4/data")
    assert clusters(tmp_path) == before and found is not None and found.cluster_id == before[0]


def test_another_clusters_id_is_refused(host: Path) -> None:
    formatted(host)
    with pytest.raises(MetaPropertiesError, match="is formatted already, for cluster"):
        formatted(host, "B" * 22)


def test_what_is_for_controllers_is_refused_without_one(tmp_path: Path) -> None:
    path = written(tmp_path, 'controller.quorum.bootstrap.servers = "h:9292"', controllers=0)
    with pytest.raises(ConfigError, match="no controllers"):
        formatted(path)
    assert formatted(path, "A" * 22, QuorumOptions()) == 0


def test_a_node_that_would_be_refused_is_named(host: Path, tmp_path: Path) -> None:
    (tmp_path / "d" / "2" / "data").mkdir(parents=True)
    (tmp_path / "d" / "2" / "data" / "mine").touch()
    with pytest.raises(MetaPropertiesError, match="/2/data"):
        check_host(str(host), as_json=False)


def test_the_service_is_installed_by_steps_that_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "host.toml"
    path.write_text(
        '[host]\nnodes = 2\ndata.directories = ["/disk1"]\n[node]\ncontroller.quorum.voters = "1@h:9292"\n', "utf-8"
    )
    machine = host_commands.this_machine("x")
    monkeypatch.setattr(host_commands, "this_machine", lambda _: as_installed(machine))
    assert install_host("host-install", str(path), dry_run=True, as_json=True) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    commands = [" ".join(step["command"]) for step in steps]
    assert "systemctl enable penstock-host" in commands
    assert any("/etc/systemd/system/penstock-host.service" in one for one in commands)
    assert any('ReadWritePaths="/disk1"' in step["stdin"] for step in steps)
    assert any("install -d" in one and one.endswith(" /disk1") for one in commands)
    unit = next(step["stdin"] for step in steps if "ExecStart" in step["stdin"])
    assert f"ExecStart=/opt/p/bin/penstock host start --config {FILE}" in unit
    assert install_host("host-uninstall", str(path), dry_run=True, as_json=False) == 0
    assert "systemctl disable --now penstock-host" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="move the file there"):
        install_host("host-install", str(path), dry_run=False, as_json=False)


def as_installed(machine: host_commands.ServiceHost) -> host_commands.ServiceHost:
    """In /opt, wherever the tests run."""
    return host_commands.ServiceHost(machine.unit_template, "/opt/p/bin/penstock", has_user=False, others={})


def test_the_hosts_unit_locks_up_as_much_as_that_of_one_node() -> None:
    def rules(path: Path) -> set[str]:
        lines = path.read_text(encoding="utf-8").splitlines()
        own = ("#", "Exec", "Description", "StateDirectory=", "ConfigurationDirectory=")
        return {line for line in lines if line and not line.startswith(own)}

    assert rules(UNIT) == rules(UNIT_OF_ONE)
