"""A real node under a service manager's eyes: its notices, its watchdog, its pages and its log from start to stop.

The manager is a datagram socket with the protocol of systemd (sd_notify(3)).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from penstock.node import PARENT_VARIABLE, node_command
from penstock.testing.layout import Layout, new_layout

WATCHDOG_MS = 400
TIMEOUT_S = 60


@dataclass
class Watched:
    """The node's process and what it says."""

    process: subprocess.Popen[bytes]
    manager: socket.socket
    layout: Layout

    def next(self) -> str:
        return self.manager.recv(4096).decode()

    def until(self, beginning: str) -> list[str]:
        """Everything that the node says up to the first notice that begins so."""
        said = [self.next()]
        while not said[-1].startswith(beginning):
            said.append(self.next())
        return said

    def forget(self) -> None:
        """Leaves out what was said up to now."""
        self.manager.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.next()
        self.manager.settimeout(TIMEOUT_S)

    def log(self) -> str:
        return self.layout.log_path(0).read_text(encoding="utf-8")

    def get(self, path: str) -> tuple[int, list[dict[str, object]]]:
        url = f"http://127.0.0.1:{self.layout.ports[0].metrics}{path}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return answer.status, [json.loads(line) for line in answer.read().splitlines()]
        except urllib.error.HTTPError as error:
            with error:
                return error.code, [json.loads(line) for line in error.read().splitlines()]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    layout = new_layout(tmp_path_factory.mktemp("node"), 1, None)
    layout.write([{"logger.format": "json"}])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, layout.log_path(0).open("ab") as log:
        manager.bind("")  # an abstract name that the kernel chooses
        manager.settimeout(TIMEOUT_S)
        environ = {
            **os.environ,
            PARENT_VARIABLE: str(os.getpid()),
            "NOTIFY_SOCKET": "@" + manager.getsockname().lstrip(b"\0").decode(),
            "WATCHDOG_USEC": str(WATCHDOG_MS * 1000),
        }
        command = node_command("start", "--config", str(layout.config_path(0)), "--cluster-id", layout.cluster_id)
        process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield Watched(process, manager, layout)
        finally:
            process.kill()
            process.wait()


def test_a_start_tells_its_status_and_then_that_it_is_ready(node: Watched) -> None:
    said = node.until("READY=1")
    assert said[-1] == f"READY=1\nMAINPID={node.process.pid}"
    assert any(notice.startswith("STATUS=") for notice in said)
    in_service = node.until("STATUS=in service")[-1]
    assert "leads 0 of 0 partitions; the active controller" in in_service
    status, lines = node.get("/readyz")
    assert status == 200 and all(line["ok"] for line in lines)
    assert node.get("/syncz") == (200, [*lines, {"check": "replicas", "ok": True}])
    assert node.get("/livez") == (200, [{"check": "event-loop", "ok": True}])


def test_the_log_begins_with_what_was_started(node: Watched) -> None:
    lines = [json.loads(line) for line in node.log().splitlines()]
    banner = [line["message"] for line in lines if line["logger"] == "broker.node.server"]
    assert f"pid {node.process.pid}" in banner[0] and str(node.layout.config_path(0)) in banner[1]
    assert str(node.layout.data_directory(0)) in banner[2] and "BROKER://127.0.0.1" in banner[3]


def test_the_watchdog_is_fed_while_the_event_loop_turns_and_only_then(node: Watched) -> None:
    assert node.until("WATCHDOG=1") and node.until("WATCHDOG=1")
    node.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, node.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    node.forget()
    node.manager.settimeout(2 * WATCHDOG_MS / 1000)
    with pytest.raises(TimeoutError):
        node.next()
    node.manager.settimeout(TIMEOUT_S)
    node.process.send_signal(signal.SIGCONT)
    assert node.until("WATCHDOG=1")


def test_sighup_takes_the_file_again_whole_or_not_at_all(node: Watched) -> None:
    path = node.layout.config_path(0)
    before = path.read_text(encoding="utf-8")
    good = before.replace('"json"', '"text"') + 'logger.level = "info,raft.drivr=debug"\nlog.retention.ms = 5\n'
    path.write_text(good + "num.io.threads = 3\n")
    said = reload(node, "SIGHUP: nothing was applied, and the node goes on as before")
    assert "num.io.threads changed: restart the node for that" in said
    path.write_text('logger.level = "loud"\n')
    assert '"level": "error"' in reload(node, "node.id is not set")
    path.write_text(good)
    said = reload(node, "the file, read again, changes the configuration: logger.level = ")
    assert "there is no module raft.drivr; its level does nothing" in said
    assert "INFO broker.config.dynamic_config" in said and "log.retention.ms = 5 (was 604800000)" in said


def reload(node: Watched, says: str) -> str:
    """The log's lines from the signal until it says this."""
    seen = len(node.log())
    node.process.send_signal(signal.SIGHUP)
    while says not in (said := node.log()[seen:]):
        node.next()  # the event loop feeds the watchdog
    return said


def test_a_stop_says_so_first_and_ends_with_0(node: Watched) -> None:
    node.process.send_signal(signal.SIGTERM)
    assert node.until("STOPPING=1")
    assert node.process.wait(60) == 0
    assert node.log().rstrip().endswith("broker.node.server: stopped")
