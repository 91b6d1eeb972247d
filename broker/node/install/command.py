"""`penstock node install|uninstall`: performs the steps of `plan.py` on this machine, or prints them as a script."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from broker.config.config import load_config
from broker.config.node_config import NodeConfig
from broker.node.install.plan import (
    ETC,
    USER,
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
from penstock.plain_text import json_line, one_line

UNIT = Path(__file__).resolve().parents[3] / "ops" / "systemd" / "penstock@.service"
"""The unit's file; its path is the same in a checkout and in the private folder of a wheel."""


def main(action: str, config_path: str, dry_run: bool, as_json: bool = False) -> int:
    """Install or uninstall; the exit code. ConfigError and PenstockError say why not."""
    name = instance(config_path, dry_run=dry_run)
    if not is_in_place(config_path):
        _say(f"{config_path}: the service reads {ETC}/{name}.toml; move the file there before the installation")
    machine = this_machine(name)
    if action == "uninstall":
        run_or_print(uninstall_steps(name, machine), dry_run, as_json)
        _say(f"{ETC}/{name}.toml, the log dirs and the user {USER} stay; remove them by hand")
        return 0
    config = load_config(config_path)
    for note in check(config, machine):
        _say(note)
    run_or_print(install_steps(name, config, machine), dry_run, as_json)
    sys.stderr.write(next_commands(name, config, machine))
    return 0


def this_machine(name: str, etc: Path = Path(ETC)) -> ServiceHost:
    """The facts of this machine as it is now."""
    others = {path.stem: path for path in sorted(etc.glob("*.toml")) if path.stem != name}
    return ServiceHost(
        unit_template=UNIT.read_text(encoding="utf-8"),
        executable=str(Path(sys.executable).parent / "penstock"),
        has_user=_has_user(),
        others={other: config for other, path in others.items() if (config := _config_of(path)) is not None},
        interpreter=(needs := interpreter_paths()),
        closed={path: folder for path in needs if (folder := closed_folder(path)) is not None},
    )


def interpreter_paths() -> tuple[str, ...]:
    """The paths that a process of this interpreter opens: the executable behind all links, its library, and this
    package."""
    paths = (sys.executable, sys.base_prefix, os.__file__, __file__)
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths))


def closed_folder(path: str) -> str | None:
    """The first folder on the way to `path`, or the path itself, that only its owner or group may pass; None where
    everybody may. Folders of the service's own user are open to it."""
    parts = Path(path).parts
    for end in range(1, len(parts) + 1):
        part = Path(*parts[:end])
        status = part.stat()
        needed = stat.S_IXOTH if part.is_dir() else stat.S_IROTH
        if not status.st_mode & needed and _name_of(status.st_uid) != USER:
            return str(part)
    return None


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _config_of(path: Path) -> NodeConfig | None:
    try:
        return load_config(str(path))
    except ConfigError as error:
        _say(f"{path} was left out of the comparison: {error}")
        return None


def _has_user() -> bool:
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return False
    return True


def run_or_print(steps: list[Step], dry_run: bool, as_json: bool) -> None:
    """Runs the steps, or prints them as a script; ConfigError without the rights."""
    if not dry_run and os.geteuid() != 0:
        raise ConfigError("to change services needs root: use sudo, or --dry-run to see what would be done")
    if as_json:
        shown = [{"command": list(step.command), "stdin": step.stdin} for step in steps]
        sys.stdout.write(json_line({"steps": shown, "dry_run": dry_run}))
    elif dry_run:
        sys.stdout.write("set -e\n" + "".join(step.script() for step in steps))
    if not dry_run:
        run_steps(steps)


def run_steps(steps: list[Step], run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run) -> None:
    """Run each; PenstockError names the first that fails."""
    for step in steps:
        _say(" ".join(step.command))
        try:
            done = run(step.command, input=step.stdin, capture_output=True, text=True, check=False)
        except OSError as error:
            raise PenstockError(f"{step.command[0]}: {error.strerror}; the steps before it were done") from None
        if done.returncode != 0:
            why = done.stderr.strip() or f"exit code {done.returncode}"
            raise PenstockError(f"{' '.join(step.command)}: {why}; the steps before it were done")


def _say(text: str) -> None:
    sys.stderr.write(f"penstock: {one_line(text)}\n")
