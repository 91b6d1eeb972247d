"""Decides the commands that make a systemd service of a node's configuration file, or take it away again.

A step is a command with what it reads, so that `--dry-run` prints exactly what would run, as a script.
Not here: the running (`command.py`), the unit itself (`ops/systemd/penstock@.service`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import field

from broker.config.config_check import without_kafka
from broker.config.node_config import NodeConfig
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.types import Endpoint

ETC, STATE, UNITS = "/etc/penstock", "/var/lib/penstock", "/etc/systemd/system"
USER = "penstock"
TEMPLATE_EXECUTABLE = "/opt/penstock/bin/penstock"
"""The path of the program in the unit as it is shipped."""
_SYSTEM_PYTHON = "make the virtual environment in /opt from a Python of the system, like /usr/bin/python3 -m venv"
HIDDEN = ("/home", "/root", "/tmp", "/var/tmp", "/run/user")
"""The unit's ProtectHome and PrivateTmp hide these."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command; `stdin` is what it reads."""

    command: tuple[str, ...]
    stdin: str = ""

    def script(self) -> str:
        """The step as a command for a shell."""
        line = shlex.join(self.command)
        return f"{line} <<'END'\n{self.stdin}END\n" if self.stdin else line + "\n"


@dataclass(frozen=True, slots=True)
class ServiceHost:
    """The machine before the commands run."""

    unit_template: str
    executable: str
    """The `penstock` command that the service runs."""
    has_user: bool
    others: Mapping[str, NodeConfig]
    """The nodes of the machine beside this one, by their names."""
    interpreter: tuple[str, ...] = ()
    """Files and folders that the service needs to run Python, with their links followed: a virtual environment may
    stand on an interpreter in somebody's home (pyenv, uv)."""
    closed: Mapping[str, str] = field(default_factory=dict)
    """The paths of the interpreter and the command that the service's user cannot reach, with the folder that stops
    it."""


def instance(config_path: str, *, dry_run: bool = False) -> str:
    """The name after the @: 1 for /etc/penstock/1.toml. A dry run takes a file that is still elsewhere."""
    path = os.path.abspath(config_path)
    name, ending = os.path.splitext(os.path.basename(path))
    is_name = ending == ".toml" and name.replace("-", "").replace("_", "").isalnum()
    if not is_name or not (dry_run or is_in_place(config_path)):
        raise ConfigError(f"{config_path}: the service penstock@NAME reads {ETC}/NAME.toml; move the file there")
    return name


def is_in_place(config_path: str) -> bool:
    """The file is where the service reads it."""
    return os.path.dirname(os.path.abspath(config_path)) == ETC


def check(config: NodeConfig, host: ServiceHost) -> Iterator[str]:
    """Yields what an operator should know; ConfigError where the service could not run."""
    for path in (host.executable, *config.log_dirs):
        if any(is_in(path, hidden) for hidden in HIDDEN):
            raise ConfigError(f"{path}: hidden from the service by its unit; use /opt, /var/lib or a disk of its own")
    for path in host.interpreter:
        if any(is_in(path, hidden) for hidden in HIDDEN):
            raise ConfigError(
                f"{host.executable}: runs on {path}, which the unit hides from the service; {_SYSTEM_PYTHON}"
            )
    for path, folder in host.closed.items():
        raise ConfigError(
            f"{path}: the service's user {USER} cannot pass {folder}; open it (chmod o+rx {folder}), or"
            f" {_SYSTEM_PYTHON}"
        )
    taken: dict[Endpoint, str] = {}
    for name, other in host.others.items():
        taken.update(dict.fromkeys(_endpoints(other), name))
        shared = set(other.log_dirs) & set(config.log_dirs)
        if shared:
            raise ConfigError(f"log.dirs: penstock@{name} has {sorted(shared)[0]}, too; give each node its own")
    for endpoint in _endpoints(config):
        if endpoint in taken:
            raise ConfigError(
                f"listeners: penstock@{taken[endpoint]} has {endpoint}, too; give each node its own ports"
            )
    if note := without_kafka(config):
        yield note
    racks = {config.broker_rack, *(other.broker_rack for other in host.others.values())}
    if host.others and (len(racks) > 1 or "" in racks):
        names = ", ".join(f"penstock@{name}" for name in sorted(host.others))
        yield (
            f"this machine also has {names}: set broker.rack to the machine's name in every node's file here, or a"
            " partition may have two replicas on this machine"
        )


def install_steps(name: str, config: NodeConfig, host: ServiceHost) -> list[Step]:
    """The steps of an installation in their order; each may run again without harm."""
    elsewhere = [path for path in config.log_dirs if not is_in(path, f"{STATE}/{name}")]
    unit = f"{UNITS}/penstock@.service"
    return [
        *of_directories(f"{STATE}/{name}", elsewhere, host.unit_template, unit, _drop_in(name), host),
        Step(("systemctl", "daemon-reload")),
        Step(("systemctl", "enable", f"penstock@{name}")),
    ]


def of_directories(
    own: str, elsewhere: list[str], unit_template: str, unit: str, drop_in: str, host: ServiceHost
) -> list[Step]:
    """The steps that make the user, the unit's file and the directories with their owner; what is `elsewhere` than the
    service's own directory is opened to it."""
    steps = []
    if not host.has_user:
        home = ("--home-dir", STATE, "--shell", "/usr/sbin/nologin")
        steps.append(Step(("useradd", "--system", "--user-group", *home, USER)))
    steps.append(_write(unit, unit_template.replace(TEMPLATE_EXECUTABLE, host.executable)))
    if elsewhere:
        steps.append(_write(drop_in, f"[Service]\nReadWritePaths={' '.join(map(_quoted, elsewhere))}\n"))
    owner = ("-o", USER, "-g", USER, "-m", "0750")
    return [*steps, *(Step(("install", "-d", *owner, path)) for path in (own, *elsewhere))]


def uninstall_steps(name: str, host: ServiceHost) -> list[Step]:
    """The configuration and the data stay."""
    steps = [Step(("systemctl", "disable", "--now", f"penstock@{name}")), Step(("rm", "-f", _drop_in(name)))]
    if not host.others:
        steps.append(Step(("rm", "-f", f"{UNITS}/penstock@.service")))
    return [*steps, Step(("systemctl", "daemon-reload"))]


def next_commands(name: str, config: NodeConfig, host: ServiceHost) -> str:
    """The commands that are left to do after an installation, for people."""
    run_format = f"runuser -u {USER} -- {host.executable} node format --config {ETC}/{name}.toml"
    is_dynamic = not config.controller_quorum_voters
    joins = " --join" * (is_dynamic and config.is_controller)
    others = f"{joins} --cluster-id ID, with the id that the first node's format printed"
    return (
        f"next, unless the log dirs are formatted already: {run_format}{' --standalone' * bool(joins)}\n"
        + (f"(on every node but the first:{others})\n" if is_dynamic or len(config.first_voters) > 1 else "")
        + f"then: systemctl start penstock@{name}\n"
    )


def _write(path: str, text: str) -> Step:
    return Step(("install", "-D", "-m", "0644", "/dev/stdin", path), text)


def _drop_in(name: str) -> str:
    return f"{UNITS}/penstock@{name}.service.d/log-dirs.conf"


def _endpoints(config: NodeConfig) -> list[Endpoint]:
    return [*config.listeners.values(), *([config.metrics_listener] if config.metrics_listener else [])]


def is_in(path: str, folder: str) -> bool:
    """True if the path is that folder or below it."""
    return path == folder or path.startswith(folder + "/")


def _quoted(path: str) -> str:
    """The path as a word of a unit's list; % begins a specifier there."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'
