"""Follows a page of ops/procedures/ on a real cluster: runs the commands of its code blocks in their order.

Node N of a page is node N-1 of the cluster. Services and `node start` become starts and stops of the cluster's
processes; every other command runs in a shell, with the paths and addresses of the cluster. `LOST_IDS`,
`LOST_DIRECTORY_ID` and `CLUSTER_ID` are taken from where the page says.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from penstock.testing import Cluster
from tests.support.python_nursery import quick_python
from tests.support.waiting import wait_until

PAGES = Path(__file__).resolve().parents[2] / "ops" / "procedures"
COMMAND_S = 120
_BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SERVICE = re.compile(r"systemctl (start|stop) (--no-block )?penstock@(\d)")
_START = re.compile(r"penstock node start --config /etc/penstock/(\d)\.toml( --lost-log-dirs LOST_IDS)?$")
_PRINTED = re.compile(r"penstock node start --config \S*node-(\d)/node\.toml --lost-log-dirs ([\w,-]+)")
_PRINTED_VOTER = re.compile(r"penstock quorum remove-voter \d+:([\w-]+)")
_REFUSED = re.compile(r"start the node once with --lost-log-dirs ([\w,-]+)")


class Procedure:
    """One page; `said` has the exit codes and outputs of the shell's commands."""

    def __init__(self, cluster: Cluster, page: str, backup: Path) -> None:
        self._cluster = cluster
        self._backup = backup
        self._text = (PAGES / page).read_text(encoding="utf-8")
        self._lost_ids: dict[int, str] = {}
        self._lost_voter = ""
        self.said: list[tuple[str, int, str]] = []

    def commands(self, after: str = "", before: str = "") -> list[str]:
        """The commands of the page, or of the part between two texts."""
        start = self._text.index(after)
        end = self._text.index(before, start) if before else len(self._text)
        blocks = _BLOCK.findall(self._text[start:end])
        return [line for block in blocks for line in block.splitlines()]

    def follow(self, commands: list[str]) -> None:
        """Runs them; a command that fails is an error, unless it asks for the cluster's health."""
        for command in commands:
            self._follow(command)

    def _follow(self, command: str) -> None:
        if service := _SERVICE.fullmatch(command):
            self._service(service[1], int(service[3]) - 1, wait=not service[2])
        elif start := _START.search(command):
            self._start(int(start[1]) - 1, gives_up=bool(start[2]))
        elif "node install" not in command and not command.startswith(("install -d", "chown")):
            self._run(command)

    def _service(self, action: str, index: int, *, wait: bool) -> None:
        if self._cluster.is_running(index):  # also a node that was started by hand: Ctrl-C
            assert self._cluster.stop(index) == 0
        if action == "start":
            self._cluster.start(index, wait=wait)

    def _start(self, index: int, *, gives_up: bool) -> None:
        if gives_up:
            lost = self._lost_ids.get(index)  # none where the only log dir stands for the lost one
            self._cluster.start(index, *(("--lost-log-dirs", lost) if lost else ()))
            return
        self._cluster.start(index, wait=False)
        wait_until(lambda: not self._cluster.is_running(index), COMMAND_S)
        self._lost_ids[index] = _REFUSED.findall(self._cluster.log_path(index).read_text(encoding="utf-8"))[-1]

    def _run(self, command: str) -> None:
        script = self._here(command)
        environ = {**os.environ, "PENSTOCK_BOOTSTRAP": self._cluster.bootstrap}
        done = subprocess.run(
            ["bash", "-c", script], env=environ, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        assert done.returncode == 0 or command.startswith("penstock cluster"), script + done.stderr
        self.said.append((command, done.returncode, done.stdout))
        for node, ids in _PRINTED.findall(done.stdout):
            self._lost_ids[int(node)] = ids
        if printed := _PRINTED_VOTER.search(done.stdout):
            self._lost_voter = printed[1]

    def _here(self, command: str) -> str:
        """The command with this cluster's paths and addresses."""
        here = command.replace("runuser -u penstock -- ", "").replace("/opt/penstock/bin/", "")
        penstock = f"{quick_python()} -c 'from penstock.cli.main import main; main()' "
        here = re.sub(r"\bpenstock (?=cluster|topics|node|log|produce|consume|quorum)", lambda _: penstock, here)
        here = re.sub(r"/etc/penstock/(\d)\.toml", _path(lambda n: self._cluster.config_path(n)), here)
        here = re.sub(r"/var/lib/penstock/(\d)/data\b", _path(lambda n: self._cluster.directory(n)), here)
        here = re.sub(r"/var/lib/penstock/(\d)\b", _path(lambda n: self._cluster.directory(n).parent), here)
        here = here.replace("/backup/", f"{self._backup}/").replace("10.0.0.1:9192", self._cluster.bootstrap)
        here = re.sub(r"--lost-voters (\d),(\d)", lambda n: f"--lost-voters {int(n[1]) - 1},{int(n[2]) - 1}", here)
        here = re.sub(r"(\d):LOST_DIRECTORY_ID", lambda n: f"{int(n[1]) - 1}:{self._lost_voter}", here)
        return here.replace("sleep 5", "sleep 0.2").replace("CLUSTER_ID", self._cluster.cluster_id)


def _path(of_node: Callable[[int], Path]) -> Callable[[re.Match[str]], str]:
    return lambda found: str(of_node(int(found[1]) - 1))
