"""One node as a child process: started, watched until it is ready, killed, stopped, paused.

A node sends READY=1 to the datagram socket in NOTIFY_SOCKET (the protocol of systemd, see
broker/node/process/systemd.py), so nothing polls. A node dies with this process, even if this process is killed. The
kernel's parent-death signal is bound to the *thread* that made the child, so one thread that lives as long as the
process makes all nodes. Where it is watched, as systemd watches a service, its messages are read as long as it runs.
Not here: which nodes there are, and their configurations (penstock/testing/, broker/host/).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Protocol

from penstock.errors import PenstockError, TimedOutError
from penstock.node import PARENT_VARIABLE, node_command
from penstock.own_process.standard_streams import LOG_NAME_VARIABLE

LOG_TAIL_BYTES = 8 * 1024
LOG_TAIL_LINES = 25
HEARD_MAX = 100
"""The most lines of messages that are read at a time."""
EXIT_POLL_S = 0.02
"""How often the death of a node is looked for while its readiness is awaited."""
STOP_TIMEOUT_S = 30.0
SOCKET_PATH_BYTES_MAX = 103
"""A socket in the file system has no longer name on macOS; Linux takes four bytes more."""

_spawner: list[ThreadPoolExecutor] = []
os.register_at_fork(after_in_child=_spawner.clear)  # a forked child has no thread of ours


class NodeFailedError(PenstockError):
    """A node's process ended, or did not stop or start as asked.

    The text is `what` happened and, where it tells more, the last lines of the node's log.
    """

    def __init__(self, what: str, log_path: Path | None = None, log_lines: Sequence[str] = ()) -> None:
        super().__init__(_with_log(what, log_path, log_lines))
        self.what = what
        self.log_path = log_path
        self.log_lines = tuple(log_lines)


class Child(Protocol):
    """A process that this one started; a `subprocess.Popen` is one."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...


class NodeProcess:
    """One node's process, which may be started again after it ended. Not thread-safe."""

    def __init__(
        self, name: str, config_path: Path, log_path: Path | None, cluster_id: str = "", *, watchdog_us: int = 0
    ) -> None:
        """`log_path`: None for a node that writes where this process writes. `cluster_id`: "" for log dirs that are
        formatted already. With `watchdog_us` the node sends WATCHDOG=1 twice in that time while its loop turns."""
        self.name = name
        self.config_path = config_path
        self.log_path = log_path
        self._cluster_id = cluster_id
        self._process: Child | None = None
        self._parent = 0  # the process whose child the node is: a fork of it can look, and not wait for the node's end
        self._notifications: socket.socket | None = None
        self._paused = False
        self._watchdog_us = watchdog_us
        self._is_ready = False
        self.status = ""
        """The last STATUS line of the node: while it started, or, of one that is watched, at all."""

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.is_running else "not running"
        marks = [word for word, holds in (("starting", self.is_starting), ("paused", self._paused)) if holds]
        return f"NodeProcess({', '.join([self.name, state, *marks])})"

    @property
    def pid(self) -> int:
        """The process id; NodeFailedError when no process runs."""
        pid = self.running_pid
        if pid is None:
            raise NodeFailedError(f"{self.name} is not running; start it first")
        return pid

    @property
    def running_pid(self) -> int | None:
        """The process id; None when no process runs. The process is looked at once, so it may be sent a signal: its id
        is no other's until the next look."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        if self._process is None:
            return False
        if self._parent != os.getpid():  # Popen would take a process that is not its child for one that has ended
            return self._process.returncode is None and _lives(self._process.pid)
        return self._process.poll() is None

    @property
    def is_paused(self) -> bool:
        """Stands still, by `pause`."""
        return self._paused and self.is_running

    @property
    def is_starting(self) -> bool:
        """Started, and not yet ready."""
        return self._notifications is not None and not self._is_ready

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last process; None while it runs or before the first one. Negative: the signal that
        killed it."""
        if self._process is None or self._parent != os.getpid():
            return None if self._process is None else self._process.returncode
        return self._process.poll()

    def spawn(self, *options: str) -> None:
        """Starts the process, with more options of `node start`, and returns at once; `wait_all_ready` waits."""
        self._require_parent()
        if self.is_running:
            raise NodeFailedError(f"{self.name} runs already; stop or kill it first")
        self._close_notifications()  # of a process that ended before it was ready
        self._notifications, address = _notification_socket()
        environ = {**os.environ, "NOTIFY_SOCKET": address, PARENT_VARIABLE: str(os.getpid())}
        for variable in ("WATCHDOG_USEC", "WATCHDOG_PID"):  # meant for this process, if for anybody here
            environ.pop(variable, None)
        if self.log_path is None:
            environ[LOG_NAME_VARIABLE] = self.name
        if self._watchdog_us:
            environ["WATCHDOG_USEC"] = str(self._watchdog_us)
        self._is_ready, self.status = False, ""
        formats = ("--cluster-id", self._cluster_id) if self._cluster_id else ()
        command = node_command("start", "--config", str(self.config_path), *formats, *options)
        if not _spawner:
            _spawner.append(ThreadPoolExecutor(1, "penstock-spawner"))
        with contextlib.nullcontext() if self.log_path is None else self.log_path.open("ab") as log:
            self._process = _spawner[0].submit(start_process, command, environ, log).result()
        self._parent = os.getpid()
        self._paused = False

    def _require_parent(self) -> None:
        """Refuses a change of a node in any process but the one that started it."""
        if self._process is not None and self._parent != os.getpid():
            raise NodeFailedError(
                f"{self.name} belongs to process {self._parent}, and this process ({os.getpid()}) is a fork of it:"
                " start, stop, kill and pause nodes there"
            )

    def kill(self) -> None:
        """SIGKILL, as a crash of the process: nothing is flushed. No error when it has ended already."""
        self._signal_to_end(signal.SIGKILL)
        self.wait_exit(STOP_TIMEOUT_S)

    def begin_stop(self) -> None:
        """SIGTERM: the node shuts down in an orderly way; `wait_exit` waits for it."""
        self._signal_to_end(signal.SIGTERM)

    def wait_exit(self, timeout_s: float) -> int | None:
        """The exit code once the process has ended; NodeFailedError (after a SIGKILL) when it did not in time."""
        if self._process is None:
            return None
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            what = f"{self.name} did not stop within {timeout_s:g} s"
            raise NodeFailedError(what, self.log_path, self.last_log_lines()) from None
        finally:
            self._close_notifications()
        return code

    def pause(self) -> None:
        """SIGSTOP: the process stands still with all its connections open."""
        self._require_parent()
        os.kill(self.pid, signal.SIGSTOP)
        _wait_until_stopped(self.pid)
        self._paused = True

    def resume(self) -> None:
        """SIGCONT: it goes on where it stood."""
        self._require_parent()
        os.kill(self.pid, signal.SIGCONT)
        self._paused = False

    def last_log_lines(self) -> list[str]:
        """The last lines that the node wrote to its file."""
        if self.log_path is None:
            return []
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, self.log_path.stat().st_size - LOG_TAIL_BYTES))
                return log.read().decode("utf-8", "replace").splitlines()[-LOG_TAIL_LINES:]
        except OSError as error:
            return [f"(cannot be read: {error.strerror})"]

    def read_notifications(self) -> list[str]:
        """The lines of the node's new messages; READY=1 ends its start."""
        heard: list[str] = []
        while self._notifications is not None and len(heard) < HEARD_MAX:
            try:
                message = self._notifications.recv(4096).decode("utf-8", "replace")
            except BlockingIOError:
                break
            for line in message.splitlines():
                heard.append(line)
                if line.startswith("STATUS="):
                    self.status = line.removeprefix("STATUS=")
                if line == "READY=1":
                    self._is_ready = True
                    if not self._watchdog_us:
                        self._close_notifications()
        return heard

    def fileno(self) -> int:
        """The socket of a node that is starting or watched, for select; -1 without one."""
        return self._notifications.fileno() if self._notifications is not None else -1

    def _signal_to_end(self, number: signal.Signals) -> None:
        self._require_parent()
        pid = self.running_pid
        if pid is not None:
            if self._paused and number != signal.SIGKILL:
                os.kill(pid, signal.SIGCONT)  # a stopped process would not see it
            os.kill(pid, number)
        self._paused = False

    def _close_notifications(self) -> None:
        if self._notifications is None:
            return
        address = self._notifications.getsockname()
        self._notifications.close()
        self._notifications = None
        if isinstance(address, str) and address:
            with contextlib.suppress(OSError):
                os.unlink(address)


def start_process(command: Sequence[str], environ: Mapping[str, str], log: IO[bytes] | None) -> Child:
    """Starts a program in a session of its own: Ctrl-C in a terminal goes to the cluster's process, which then stops
    the nodes."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=None if log is None else subprocess.STDOUT,
        env=environ,
        start_new_session=True,
    )


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_all_ready(nodes: Sequence[NodeProcess], timeout_s: float) -> None:
    """Returns when every node that was spawned has said that it is ready.

    NodeFailedError as soon as one of them has ended instead; TimedOutError, with the log of the first that is late.
    """
    deadline = time.monotonic() + timeout_s
    while waiting := [node for node in nodes if node.is_starting]:
        with selectors.DefaultSelector() as notified:  # not `select`, which takes no descriptor above 1,023
            for node in waiting:
                notified.register(node, selectors.EVENT_READ, node)
            for key, _ in notified.select(EXIT_POLL_S):
                key.data.read_notifications()
        for node in waiting:
            if node.is_starting and not node.is_running:
                what = f"{node.name} ended with code {node.exit_code}"
                raise NodeFailedError(what, node.log_path, node.last_log_lines())
        if time.monotonic() > deadline:
            late = [node for node in nodes if node.is_starting]
            if late:
                names = ", ".join(f"{node.name}{node.status and f' ({node.status})'}" for node in late)
                what = f"not ready within {timeout_s:g} s: {names}"
                raise TimedOutError(_with_log(what, late[0].log_path, late[0].last_log_lines()))


def _with_log(what: str, log_path: Path | None, log_lines: Sequence[str]) -> str:
    if log_path is None:
        return what
    return f"{what}; the end of {log_path}:\n" + "\n".join(f"    {line}" for line in log_lines)


def _wait_until_stopped(pid: int) -> None:
    """Returns when a child to which SIGSTOP was sent really stands, or has ended."""
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return
    deadline = time.monotonic() + STOP_TIMEOUT_S  # macOS has it from Python 3.13 on
    while time.monotonic() < deadline:
        done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        if done.stdout.strip()[:1] in ("T", "Z", ""):
            return
        time.sleep(EXIT_POLL_S)


def _notification_socket() -> tuple[socket.socket, str]:
    """A socket for the node's messages, and its name in NOTIFY_SOCKET: abstract on Linux, so that no file is left."""
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setblocking(False)
    name = f"penstock-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    if sys.platform.startswith("linux"):
        receiver.bind("\0" + name)
        return receiver, "@" + name
    path = os.path.join(tempfile.gettempdir(), name)
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
        path = os.path.join("/tmp", name)
    receiver.bind(path)
    return receiver, path
