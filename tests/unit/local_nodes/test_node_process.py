"""A node's process is watched by descriptors of any number, and belongs to the process that started it."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.local_nodes.node_process import NodeProcess, wait_all_ready
from tests.support.forked import in_child

BEYOND_SELECT = 1_500


@pytest.fixture
def many_files() -> Iterator[None]:
    """The process may open more files than `select` takes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= BEYOND_SELECT:
        pytest.skip(f"this machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, BEYOND_SELECT + 100), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def node() -> Any:
    return NodeProcess("node 0", Path("node.toml"), Path("node.log"), "id")


@pytest.mark.usefixtures("many_files")
def test_readiness_is_heard_on_a_descriptor_above_1023() -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    high = socket.socket(fileno=fcntl.fcntl(there.fileno(), fcntl.F_DUPFD_CLOEXEC, BEYOND_SELECT))
    high.setblocking(False)
    starting = node()
    starting._notifications = high
    with here, there:
        here.send(b"STATUS=recovering\nREADY=1")
        wait_all_ready([starting], 5)
    assert not starting.is_starting and starting.status == "recovering"


def test_a_forked_child_sees_its_parents_node_and_does_nothing_to_it() -> None:
    started = node()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started._process, started._parent = process, os.getpid()
        in_the_child = in_child(lambda: (started.is_running, started.exit_code, started.pid == process.pid))
        assert in_the_child == "(True, None, True)"
        for change in (started.kill, started.begin_stop, started.pause, started.resume, started.spawn):
            assert in_child(change).startswith("NodeFailedError: node 0 belongs to process")
        assert process.poll() is None
        process.kill()
    assert not started.is_running
