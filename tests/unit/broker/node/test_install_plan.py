"""The steps of `penstock node install` on a machine, and its refusals."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.config import parse_config
from broker.config.node_config import NodeConfig
from broker.node.install.command import UNIT, closed_folder, interpreter_paths, run_steps, this_machine
from broker.node.install.plan import (
    ServiceHost,
    Step,
    check,
    install_steps,
    instance,
    is_in_place,
    next_commands,
    uninstall_steps,
)
from penstock.errors import ConfigError, PenstockError

TEMPLATE = "[Service]\nExecStart=/opt/penstock/bin/penstock node start --config /etc/penstock/%i.toml\n"


def config(number: int = 1, **given: object) -> NodeConfig:
    ports = [number * 1000 + offset for offset in (1, 2, 3, 4)]
    return parse_config(
        {
            "node.id": number,
            "process.roles": "broker,controller",
            "listeners": f"BROKER://h:{ports[0]},INTERNAL://h:{ports[1]},CONTROLLER://h:{ports[2]},KAFKA://h:{ports[3]}",
            "controller.quorum.voters": f"{number}@h:{ports[2]}",
            "log.dirs": f"/var/lib/penstock/{number}/data",
            **given,
        }
    )


def test_a_dry_run_takes_a_file_that_is_not_in_its_place_yet() -> None:
    assert instance("/home/me/shop-1.toml", dry_run=True) == "shop-1"
    assert is_in_place("/etc/penstock/shop-1.toml") and not is_in_place("/home/me/shop-1.toml")
    with pytest.raises(ConfigError, match="move the file there"):
        instance("/home/me/shop-1.toml")
    with pytest.raises(ConfigError, match=r"reads /etc/penstock/NAME\.toml"):
        instance("/home/me/shop-1.conf", dry_run=True)


def machine(executable: str = "/opt/p/bin/penstock", has_user: bool = False, **others: NodeConfig) -> ServiceHost:
    return ServiceHost(TEMPLATE, executable, has_user, others)


def test_the_steps_make_user_unit_directories_and_enable() -> None:
    steps = install_steps("1", config(**{"log.dirs": "/data/a b,/var/lib/penstock/1/data"}), machine())
    assert [step.command[0] for step in steps] == [
        "useradd",
        "install",
        "install",
        "install",
        "install",
        "systemctl",
        "systemctl",
    ]
    assert steps[1].stdin == TEMPLATE.replace("/opt/penstock/", "/opt/p/")
    assert steps[2].command[-1].endswith("penstock@1.service.d/log-dirs.conf")
    assert steps[2].stdin == '[Service]\nReadWritePaths="/data/a b"\n'
    assert [step.command[-1] for step in steps[3:5]] == ["/var/lib/penstock/1", "/data/a b"]
    assert steps[-1].command == ("systemctl", "enable", "penstock@1")


def test_a_machine_that_has_the_user_gets_no_second_one() -> None:
    assert install_steps("1", config(), machine(has_user=True))[0].command[0] == "install"


def test_the_unit_goes_with_the_last_node_and_the_data_never() -> None:
    first = [step.command for step in uninstall_steps("1", machine(other=config(2)))]
    last = [step.command for step in uninstall_steps("1", machine())]
    assert first[0] == ("systemctl", "disable", "--now", "penstock@1")
    removed = {word for command in last if command[0] == "rm" for word in command if word.startswith("/")}
    assert removed == {
        "/etc/systemd/system/penstock@.service",
        "/etc/systemd/system/penstock@1.service.d/log-dirs.conf",
    }
    assert ("rm", "-f", "/etc/systemd/system/penstock@.service") not in first


def test_the_printed_script_does_what_the_steps_do(tmp_path: Path) -> None:
    target = tmp_path / "a b" / "unit"
    text = "ExecStart='$HOME' `x` \\\n%i\n"
    step = Step(("install", "-D", "-m", "0644", "/dev/stdin", str(target)), text)
    subprocess.run(["bash", "-c", "set -e\n" + step.script()], check=True)
    assert target.read_text() == text
    target.unlink()
    run_steps([step])
    assert target.read_text() == text


def test_a_step_that_fails_is_named() -> None:
    def run(command: tuple[str, ...], **_: Any) -> Any:
        return SimpleNamespace(returncode=1, stderr="no bus\n")

    with pytest.raises(PenstockError, match="systemctl daemon-reload: no bus; the steps before it were done"):
        run_steps([Step(("systemctl", "daemon-reload"))], run)
    with pytest.raises(PenstockError, match="no-such-program-here: No such file"):
        run_steps([Step(("no-such-program-here",))])


def test_a_broker_without_a_listener_for_kafkas_clients_is_told_how_to_add_one() -> None:
    old = "BROKER://h:1001,INTERNAL://h:1002,CONTROLLER://h:1003"
    (note,) = check(config(listeners=old), machine())
    assert note.startswith("listeners has none for Kafka's clients; KAFKA://host:9092 adds one, on every broker")
    controller = config(listeners="CONTROLLER://h:1003", **{"process.roles": "controller"})
    assert list(check(controller, machine())) == []


def test_several_nodes_of_a_machine_need_ports_log_dirs_and_a_rack() -> None:
    other = config(2, **{"broker.rack": "host-1"})
    assert list(check(config(**{"broker.rack": "host-1"}), machine(second=other))) == []
    (note,) = check(config(), machine(second=other))
    assert "penstock@second" in note and "set broker.rack to the machine's name" in note
    with pytest.raises(ConfigError, match=r"listeners: penstock@second has h:1001, too; give each node its own ports"):
        list(check(config(), machine(second=config(1, **{"log.dirs": "/elsewhere"}))))
    with pytest.raises(ConfigError, match=r"log\.dirs: penstock@second has /var/lib/penstock/1/data, too"):
        list(check(config(), machine(second=config(2, **{"log.dirs": "/var/lib/penstock/1/data"}))))


@pytest.mark.parametrize("path", ["/home/me/data", "/tmp/data", "/var/tmp/data", "/root/data"])
def test_what_the_unit_hides_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=f"{path}: hidden from the service by its unit"):
        list(check(config(**{"log.dirs": path}), machine()))
    with pytest.raises(ConfigError, match="hidden from the service"):
        list(check(config(), machine(executable=path)))


def test_the_file_has_the_place_that_the_unit_reads() -> None:
    assert instance("/etc/penstock/1.toml") == "1" and instance("/etc/penstock/eu-1_a.toml") == "eu-1_a"
    for wrong in ("1.toml", "/etc/penstock/1.conf", "/etc/penstock/a b.toml"):
        with pytest.raises(ConfigError, match=r"reads /etc/penstock/NAME\.toml; move the file there"):
            instance(wrong)


def test_the_next_commands_are_told() -> None:
    commands = next_commands("1", config(), machine())
    assert "runuser -u penstock -- /opt/p/bin/penstock node format --config /etc/penstock/1.toml" in commands
    assert "--cluster-id" not in commands and commands.endswith("systemctl start penstock@1\n")


def test_the_next_commands_of_a_controller_without_configured_voters_say_how_its_quorum_begins() -> None:
    dynamic: dict[str, object] = {"controller.quorum.voters": [], "controller.quorum.bootstrap.servers": "h:1003"}
    commands = next_commands("1", config(**dynamic), machine())
    assert "node format --config /etc/penstock/1.toml --standalone\n" in commands
    assert "(on every node but the first: --join --cluster-id ID, with the id that" in commands
    dynamic |= {"process.roles": "broker", "listeners": "BROKER://h:1001,INTERNAL://h:1002,KAFKA://h:1004"}
    commands = next_commands("1", config(**dynamic), machine())
    assert "--standalone" not in commands and "first: --cluster-id ID" in commands


def test_the_shipped_unit_is_the_template_and_other_files_are_other_nodes(tmp_path: Path) -> None:
    (tmp_path / "1.toml").write_text("")
    (tmp_path / "2.toml").write_text("node.id = ")
    found = this_machine("1", tmp_path)
    assert found.others == {} and found.unit_template == UNIT.read_text()
    assert "/opt/penstock/bin/penstock node start" in found.unit_template


@pytest.mark.parametrize(
    "where", ["/root/.local/share/uv/python/bin/python3.11", "/home/anna/.pyenv/versions/3.11/bin/python"]
)
def test_an_interpreter_in_somebodys_home_is_refused_though_the_environment_is_elsewhere(where: str) -> None:
    with pytest.raises(
        ConfigError, match=r"/opt/p/bin/penstock: runs on .*, which the unit hides from the service; make"
    ):
        list(check(config(), replace(machine(), interpreter=("/opt/p/lib", where))))
    assert list(check(config(), replace(machine(), interpreter=("/usr/bin/python3.11", "/usr")))) == []


def test_an_interpreter_behind_a_closed_folder_is_refused_with_the_folder() -> None:
    with pytest.raises(ConfigError, match="the service's user penstock cannot pass /srv/tools; open it"):
        list(check(config(), replace(machine(), closed={"/srv/tools/python/bin/python3": "/srv/tools"})))


def test_the_first_folder_that_is_closed_to_others_is_found(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "python").touch(0o755)
    found = closed_folder(str(inner / "python"))
    (tmp_path / "a").chmod(0o750)
    closed = closed_folder(str(inner / "python"))
    assert closed is not None and (closed == str(tmp_path / "a") or closed == found), (
        "pytest's own folders may be closed"
    )
    assert closed_folder("/usr/bin") is None


def test_the_interpreter_is_that_behind_all_links() -> None:
    paths = interpreter_paths()
    assert str(Path(sys.executable).resolve()) in paths and all(Path(path).exists() for path in paths)
