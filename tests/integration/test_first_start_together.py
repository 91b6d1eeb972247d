"""Three controllers that are started alike, as pods are: they begin one quorum, and a disk that is lost joins it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.config_keys import to_toml
from penstock.node import PARENT_VARIABLE
from penstock.testing.layout import new_layout
from tests.support.waiting import wait_until

STOP_S = 60
JOINS = "joins it: start it again"


class Controllers:
    """Three nodes without the role broker, each with a directory that outlives its processes."""

    def __init__(self, directory: Path) -> None:
        layout = new_layout(directory / "layout", 3, None)
        self.cluster_id, self.directory = layout.cluster_id, directory
        self.pages: list[str] = []
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for node_id in range(3):
            given = layout.node_config(node_id)
            voters = given.pop("controller.quorum.voters")
            listeners = given["listeners"]
            assert isinstance(voters, list) and isinstance(listeners, list)
            kept = {"node.id": node_id, "process.roles": ["controller"], "log.dirs": [str(directory / f"{node_id}")]}
            kept |= {"listeners": [at for at in listeners if at.startswith("CONTROLLER:")]}
            kept |= {"controller.quorum.bootstrap.servers": [one.partition("@")[2] for one in voters]}
            kept |= {"controller.quorum.auto.join.enable": True, "metrics.listener": given["metrics.listener"]}
            (directory / f"{node_id}.toml").write_text(to_toml(kept))
            self.pages.append(f"http://{given['metrics.listener']}/syncz")

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            options = ["--cluster-id", self.cluster_id, "--first-start", "together"]
            command = [
                sys.executable,
                "-P",
                "-m",
                "penstock.node",
                "start",
                "--config",
                f"{self.directory}/{node_id}.toml",
            ]
            with (self.directory / f"{node_id}.log").open("ab") as log:
                self.processes[node_id] = subprocess.Popen(
                    [*command, *options], env={**os.environ, PARENT_VARIABLE: str(os.getpid())}, stderr=log
                )

    def kill(self, node_ids: Sequence[int] = (0, 1, 2)) -> None:
        for node_id in node_ids:
            self.processes[node_id].kill()
            self.processes[node_id].wait()

    def in_sync(self, node_id: int) -> bool:
        """The controller votes, with the disk that it has, and knows a leader."""
        try:
            with urllib.request.urlopen(self.pages[node_id], timeout=5) as answer:
                return b'"vote", "ok": true' in answer.read()
        except OSError:
            return False


@pytest.mark.long
def test_a_lost_disk_of_the_first_controller_joins_though_the_whole_cluster_starts_again(tmp_path: Path) -> None:
    controllers = Controllers(tmp_path)
    try:
        controllers.start(0, 1, 2)
        for node_id in range(3):
            wait_until(lambda node_id=node_id: controllers.in_sync(node_id))
        controllers.kill()
        shutil.rmtree(tmp_path / "0")
        controllers.start(0)
        log = tmp_path / "0.log"
        wait_until(lambda: "each of these must answer" in log.read_text())
        controllers.start(1, 2)
        assert controllers.processes[0].wait(STOP_S) == 2 and JOINS in log.read_text().splitlines()[-1]
        controllers.start(0)
        for node_id in range(3):
            wait_until(lambda node_id=node_id: controllers.in_sync(node_id))
    finally:
        controllers.kill()
