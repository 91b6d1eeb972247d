"""`penstock host check|format|install|uninstall`: what `penstock node …` does, for every node of a host's file.

A format may be said again: nodes that are formatted stay as they are, so it goes on after an interruption, and formats
what is new when `nodes` grows. All nodes get one cluster id. In a quorum that changes (no controller.quorum.voters),
`--standalone` is for the first controller of the file, and the file's others join it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from broker.config.node_config import NodeConfig
from broker.host.host_file import HostFile, load_host_file
from broker.host.node_files import NodeFile, node_files, write_node_files
from broker.node.commands import check as node_check
from broker.node.commands.first_levels import LevelOptions
from broker.node.commands.format import format_and_report, formatted_dirs, users_of
from broker.node.commands.initial_controllers import QuorumOptions
from broker.node.install.command import run_or_print, this_machine
from broker.node.install.plan import STATE, UNITS, USER, ServiceHost, Step, check, is_in, of_directories
from penstock.errors import ConfigError
from penstock.ids import system_ids
from penstock.plain_text import one_line
from storage.disk.file_system import OsFileSystem

UNIT = Path(__file__).resolve().parents[2] / "ops" / "systemd" / "penstock-host.service"
"""The unit's file; its path is the same in a checkout and in the private folder of a wheel."""
FILE = "/etc/penstock/host/host.toml"
"""The file that the service reads."""
SERVICE = "penstock-host"
_DROP_IN = f"{UNITS}/{SERVICE}.service.d/log-dirs.conf"


def check_host(path: str, *, as_json: bool) -> int:
    """The command; the first node that would not start raises why. The nodes' files are written: they are checked as
    they will be read."""
    file = load_host_file(path)
    files = node_files(file)
    write_node_files(files)
    for one in files:
        node_check.main(one.path, as_json)
    if not as_json:
        sys.stdout.write(f"{path}: {len(files)} nodes in the rack {file.rack}\n")
    return 0


def format_host(
    path: str, cluster_id: str, add_scram: Sequence[str], quorum: QuorumOptions, levels: LevelOptions, *, as_json: bool
) -> int:
    """The command; prints what was formatted of each node."""
    files = node_files(load_host_file(path))
    write_node_files(files)
    chosen = cluster_id or _known_id(files) or system_ids().new_id()
    controllers = [one for one in files if one.config.is_controller]
    if (add_scram or quorum.given or levels.given) and not controllers:
        raise ConfigError(f"{path}: this host has no controllers; users, levels and the quorum are formatted with one")
    ids = system_ids()
    for one in files:
        config, begins = one.config, one.config.is_controller
        if _is_done(config, chosen):
            _say(f"node {one.node_id} is formatted already")
            continue
        own = quorum if begins else QuorumOptions()
        if quorum.standalone and begins and one is not controllers[0]:
            own = replace(quorum, standalone=False, join=True)
        users = users_of(config, add_scram if begins else (), ids)
        given = levels if begins and not own.join else LevelOptions("", ())
        format_and_report(config, chosen, False, users, as_json, own, given)
    return 0


def install_host(action: str, path: str, *, dry_run: bool, as_json: bool) -> int:
    """The command: install or uninstall."""
    if Path(path).absolute() != Path(FILE) and not dry_run:
        raise ConfigError(f"{path}: the service {SERVICE} reads {FILE}; move the file there")
    machine = this_machine(SERVICE)
    if action == "host-uninstall":
        run_or_print(_uninstall_steps(), dry_run, as_json)
        _say(f"{FILE}, the log dirs and the user {USER} stay; remove them by hand")
        return 0
    file = load_host_file(path)
    files = node_files(file)
    notes = dict.fromkeys(note for one in files for note in check(one.config, machine))
    for note in notes:
        _say(note)
    run_or_print(_install_steps(file, machine, UNIT.read_text(encoding="utf-8")), dry_run, as_json)
    run_format = f"runuser -u {USER} -- {machine.executable} host format --config {FILE}"
    _say(f"next, unless the nodes are formatted already: {run_format} --cluster-id ID (without it, a new cluster's)")
    _say(f"then: systemctl start {SERVICE}")
    return 0


def _known_id(files: tuple[NodeFile, ...]) -> str:
    """The cluster of the nodes that are formatted already; "" if none is."""
    fs = OsFileSystem()
    found = (properties for one in files for properties in formatted_dirs(one.config, fs).values())
    return next((properties.cluster_id for properties in found if properties is not None), "")


def _is_done(config: NodeConfig, cluster_id: str) -> bool:
    """Every log dir is the node's own, of that cluster."""
    found = formatted_dirs(config, OsFileSystem()).values()
    return all(one is not None and (one.node_id, one.cluster_id) == (config.node_id, cluster_id) for one in found)


def _install_steps(file: HostFile, machine: ServiceHost, unit: str) -> list[Step]:
    directories = tuple(dict.fromkeys((file.directory, *file.data_directories)))
    elsewhere = [path for path in directories if not is_in(path, f"{STATE}/host")]
    return [
        *of_directories(f"{STATE}/host", elsewhere, unit, f"{UNITS}/{SERVICE}.service", _DROP_IN, machine),
        Step(("systemctl", "daemon-reload")),
        Step(("systemctl", "enable", SERVICE)),
    ]


def _uninstall_steps() -> list[Step]:
    return [
        Step(("systemctl", "disable", "--now", SERVICE)),
        Step(("rm", "-f", _DROP_IN, f"{UNITS}/{SERVICE}.service")),
        Step(("systemctl", "daemon-reload")),
    ]


def _say(text: str) -> None:
    sys.stderr.write(f"penstock: {one_line(text)}\n")
