"""The socket by which `penstock host status|restart|stop` speak to a host that runs: one request, one answer, JSON.

    {"do": "status"}                   what every node is doing
    {"do": "restart", "node": 11}      begun; `status` says how far it is
    {"do": "stop", "node": 11}

The file is its owner's alone (mode 0600): who may use it may stop the nodes. A request has REQUEST_BYTES_MAX and
SECONDS_MAX, and CONNECTIONS_MAX are open at a time; the oldest goes when another comes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import socket
from collections.abc import Callable
from typing import Final

from penstock.errors import ConfigError

REQUEST_BYTES_MAX: Final = 4_096
CONNECTIONS_MAX: Final = 8
SECONDS_MAX: Final = 5.0
DO: Final = ("status", "restart", "stop")
Answer = Callable[[str, int | None], dict[str, object]]
"""The answer to a request, by what is to be done and the node; ValueError for one that is wrong."""


class HostControl:
    """The listening socket; the host's loop reads from it."""

    def __init__(self, path: str, selector: selectors.BaseSelector) -> None:
        """ConfigError while another host uses the directory, or where the file cannot be made. Its lock is held until
        `close`. What can be read is told by the selector."""
        self._path, self._selector = path, selector
        self._lock = _locked(path + ".lock")
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # of a host that was killed
            self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            before = os.umask(0o177)
            try:
                self.listening.bind(path)
            finally:
                os.umask(before)
        except OSError as error:
            os.close(self._lock)
            raise ConfigError(f"{path}: the socket cannot be made ({error.strerror or error})") from None
        self.listening.listen(CONNECTIONS_MAX)
        self.listening.setblocking(False)
        selector.register(self.listening, selectors.EVENT_READ)
        self.open: dict[int, tuple[socket.socket, float]] = {}
        """Each connection with the time at which it is closed, by its descriptor."""

    def came(self, now_s: float) -> None:
        """Takes the next connection, and closes what waits for too long."""
        self.expire(now_s)
        try:
            accepted, _ = self.listening.accept()
        except OSError:
            return
        accepted.setblocking(False)
        if len(self.open) >= CONNECTIONS_MAX:
            self.drop(min(self.open, key=lambda descriptor: self.open[descriptor][1]))
        self.open[accepted.fileno()] = accepted, now_s + SECONDS_MAX
        self._selector.register(accepted, selectors.EVENT_READ)

    def answer(self, descriptor: int, answer: Answer) -> None:
        """Reads the request of a connection, which came in one piece, answers and closes."""
        connection, _ = self.open[descriptor]
        with contextlib.suppress(OSError):
            said = answered(connection.recv(REQUEST_BYTES_MAX), answer)
            connection.setblocking(True)
            connection.settimeout(1.0)
            connection.sendall(json.dumps(said).encode() + b"\n")
        self.drop(descriptor)

    def expire(self, now_s: float) -> None:
        for descriptor in [one for one, (_, due_s) in self.open.items() if now_s >= due_s]:
            self.drop(descriptor)

    def drop(self, descriptor: int) -> None:
        connection, _ = self.open.pop(descriptor)
        self._selector.unregister(connection)  # BEFORE its number is another's
        connection.close()

    def close(self) -> None:
        for descriptor in list(self.open):
            self.drop(descriptor)
        self._selector.unregister(self.listening)
        self.listening.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        os.close(self._lock)


def answered(data: bytes, answer: Answer) -> dict[str, object]:
    """The answer to these bytes; {"error": …} for what is no request."""
    try:
        asked = json.loads(data)
        if not isinstance(asked, dict) or asked.get("do") not in DO:
            raise ValueError(f"what is to be done must be one of {', '.join(DO)}")
        node = asked.get("node")
        if node is not None and (isinstance(node, bool) or not isinstance(node, int)):
            raise ValueError("node: must be a whole number")
        return answer(asked["do"], node)
    except (ValueError, RecursionError) as error:
        return {"error": str(error)[:200]}


def _locked(path: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        remedy = "give its directory to the user of the service, or change [host] directory"
        raise ConfigError(f"{path}: cannot be made ({error.strerror}); {remedy}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ConfigError(f"{path}: another `penstock host start` runs there; stop it first") from None
    return descriptor
