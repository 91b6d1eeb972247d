"""Starts the suite's nodes quickly: one process has their code loaded, and is forked for each node.

To load the code of a node takes 0.6 of the 0.85 s of a processor until it is ready, and the suite starts hundreds. A
node that was forked runs the same `penstock.node.main` with the same arguments, environment, log and session as one
that was executed; it is a child of the test's process, which waits for it, stops it and kills it as any other.

    test process ──"start these arguments", log──► nursery ──fork──► (between) ──fork──► node
          └──────────────────────── its child from then on, as (between) ends ────────────┘

Another command, and one in whose environment Python itself would start in another way, is executed. So is every node if
PENSTOCK_FRESH_NODES is set, and every one that a program starts which a test runs: `penstock dev`, the demo, campaigns,
benchmarks. Linux alone has what this takes (a subreaper); elsewhere nodes are executed.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import IO

from penstock.local_nodes import node_process as process
from penstock.node import node_command

OF_PYTHON = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "GRPC_")
"""Beginnings of the variables that count when a process begins, and not later."""
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37
MESSAGE_BYTES_MAX = 256 * 1024


class ForkedNode:
    """A child of this process that it did not start by itself; the half of `subprocess.Popen` that a node needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._waiting = Lock()

    def poll(self) -> int | None:
        with self._waiting:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; subprocess.TimeoutExpired if it has not ended in time."""
        if self.poll() is None:
            ended = os.pidfd_open(self.pid)
            try:
                poll = select.poll()
                poll.register(ended, select.POLLIN)
                poll.poll(None if timeout is None else timeout * 1000)
            finally:
                os.close(ended)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(f"node {self.pid}", timeout or 0.0)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, 9)


class Nursery:
    """One process that forks nodes."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("nursery_process.py"))],
                stdin=theirs,
                start_new_session=True,
            )
        self._began_with = _of_python(os.environ)
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._requests.close)

    def fits(self, command: Sequence[str], environ: Mapping[str, str]) -> bool:
        """True if what it forks is what the command would be."""
        begins = node_command()
        return list(command[: len(begins)]) == begins and _of_python(environ) == self._began_with

    def fork(self, arguments: Sequence[str], environ: Mapping[str, str], log: IO[bytes]) -> ForkedNode:
        message = json.dumps({"arguments": list(arguments), "environ": dict(environ)}).encode()
        was_reaper = is_subreaper()
        _set_subreaper(True)
        try:
            socket.send_fds(self._requests, [message], [log.fileno()])
            answer = self._requests.recv(MESSAGE_BYTES_MAX)
        finally:
            _set_subreaper(was_reaper)
        if not answer:
            raise RuntimeError(f"the nursery has ended with code {self._process.wait()}")
        return ForkedNode(int(answer))

    def close(self) -> None:
        self._requests.close()
        self._process.wait()


executed = process.start_process
"""As it is where nobody replaces it."""
_nurseries: list[Nursery] = []
os.register_at_fork(after_in_child=_nurseries.clear)


def start_process(command: Sequence[str], environ: Mapping[str, str], log: IO[bytes] | None) -> process.Child:
    """In place of `process.start_process`; in one thread of this process at a time."""
    if not _nurseries:
        _nurseries.append(Nursery())
    if log is None or not _nurseries[0].fits(command, environ):
        return executed(command, environ, log)
    return _nurseries[0].fork(command[len(node_command()) :], environ, log)


def is_wanted() -> bool:
    return sys.platform.startswith("linux") and not os.environ.get("PENSTOCK_FRESH_NODES")


def _of_python(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(OF_PYTHON)}


def is_subreaper() -> bool:
    """True if this process gets the orphans among its descendants as children (prctl(2))."""
    found = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    return bool(found.value)


def _set_subreaper(value: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(value), 0, 0, 0)
