"""A node's process ends though a thread of it stands in a log dir that hangs, and says which dir it has given up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from broker.config.config import load_config
from broker.node.commands.format import format_node
from penstock.testing.layout import new_layout
from storage.disk.file_names import CLEAN_SHUTDOWN
from storage.disk.file_system import OsFileSystem
from tests.support.machine import IDS

STOP_WAIT_MS, HANG_MS = 3_000, 3_000
NODE = """
import os, signal, sys, threading
from dataclasses import replace
import uvloop
from broker.config.config import load_config
from broker.config.dynamic_config import DynamicBrokerConfig
from broker.node.configuration.config_reload import ConfigReload
from broker.quorum.metadata_log import METADATA_LOG_CONFIG
from broker.node.operator_pages import OperatorPages
from broker.node.system_environment import system_environment
from broker.node.server import run_node
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from tests.support.faulty_fs import FaultyFileSystem

config, fs = load_config(sys.argv[1]), FaultyFileSystem()
environment = replace(system_environment(), file_system=fs)
pages = OperatorPages(config, "test", environment.clock.now_ms)
settings = LogManagerConfig(config.node_id, config_for=lambda partition: METADATA_LOG_CONFIG)
log_manager = LogManager.open(config.log_dirs, settings, environment.machine())

def stop_when_it_hangs(fault):
    fault.was_met.wait()
    if sys.argv[3] == "stop":
        os.kill(os.getpid(), signal.SIGTERM)

hanging = fs.standing_still("rename", "/hung/recovery-point")
fault = hanging.__enter__()  # and never left: the disk hangs for longer than the process lives
threading.Thread(target=stop_when_it_hangs, args=(fault,), daemon=True).start()
reload = ConfigReload(sys.argv[1], DynamicBrokerConfig(config))
sys.exit(uvloop.run(run_node(reload, log_manager, environment, pages, int(sys.argv[2]))))
"""


def run_until_it_ends(tmp_path: Path, then: str) -> tuple[subprocess.CompletedProcess[str], Path, Path]:
    """The node, and its log dirs; the first, which has the metadata log, hangs."""
    layout = new_layout(tmp_path, 1, None)
    hung, good = log_dirs = [layout.node_directory(0) / name for name in ("hung", "good")]
    own: dict[str, object] = {
        "log.dirs": [str(path) for path in log_dirs],
        "log.flush.offset.checkpoint.interval.ms": 50,  # the metadata log, in the first dir, always has something new
        "log.dir.hang.ms.max": 60_000 if then == "stop" else HANG_MS,
    }
    layout.write([own])
    format_node(load_config(str(layout.config_path(0))), layout.cluster_id, OsFileSystem(), IDS)
    command = [sys.executable, "-c", NODE, str(layout.config_path(0)), str(STOP_WAIT_MS), then]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False), hung, good


def test_a_node_stops_without_the_log_dir_that_hangs(tmp_path: Path) -> None:
    done, hung, good = run_until_it_ends(tmp_path, "stop")
    assert done.returncode == 1, done.stderr
    given_up = [line for line in done.stderr.splitlines() if "hangs: the stop has waited" in line]
    assert len(given_up) == 1 and str(hung) in given_up[0], done.stderr
    assert (good / CLEAN_SHUTDOWN).exists() and not (hung / CLEAN_SHUTDOWN).exists()


def test_a_node_ends_by_itself_when_the_disk_of_its_metadata_log_hangs(tmp_path: Path) -> None:
    done, hung, _ = run_until_it_ends(tmp_path, "wait")
    assert done.returncode == 1, done.stderr
    failed = [line for line in done.stderr.splitlines() if f"{hung} has failed: it hangs: a call (rename)" in line]
    assert len(failed) == 1 and f"log.dir.hang.ms.max = {HANG_MS}" in failed[0], done.stderr
    assert not (hung / CLEAN_SHUTDOWN).exists()
