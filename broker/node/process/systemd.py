"""Tells the service manager the state of the node: READY=1, STOPPING=1, WATCHDOG=1, STATUS=…, EXTEND_TIMEOUT_USEC=…
(sd_notify(3)).

Each message is one datagram to the socket that NOTIFY_SOCKET names; without the variable nothing is sent. systemd sets
it, and so do `penstock dev` and `penstock.testing`, which learn in this way, without polling, that a node is ready. A
broker is ready once it is registered and unfenced; a node that is only a controller, once the quorum has a leader. The
node decides when to call. A lost datagram is not an error, because the listener may be gone.

A start and a stop may take longer than TimeoutStartSec= and TimeoutStopSec= of the unit. To kill the node then would
only make it begin anew. So it asks for more time while it gets on, and is killed if it does not: in a start, segment by
segment of its recovery, and then, as in a stop, for as long as its event loop turns.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class Notifier:
    """Sends messages to the service manager; without one it does nothing."""

    __slots__ = ("_address", "_socket", "watchdog_interval_ms")

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        # '@' stands for the leading NUL of a socket in the abstract namespace.
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if self._address else None
        if self._socket is not None:
            self._socket.setblocking(False)
        self.watchdog_interval_ms = _watchdog_interval_ms(environ)
        """How often to call `watchdog()`: half of what the service manager allows; 0 when it does not watch."""

    def __repr__(self) -> str:
        return f"Notifier({self._address.lstrip(chr(0)) or 'nobody'}, every {self.watchdog_interval_ms} ms)"

    @property
    def has_listener(self) -> bool:
        """True if there is a service manager that listens."""
        return self._socket is not None

    def ready(self) -> None:
        """The node serves."""
        self._send(f"READY=1\nMAINPID={os.getpid()}")

    def stopping(self) -> None:
        """The node has begun to shut down."""
        self._send("STOPPING=1")

    def watchdog(self) -> None:
        """The event loop still turns."""
        self._send("WATCHDOG=1")

    def extend(self, seconds: int) -> None:
        """Asks for `seconds` more from now on: the node still starts, or stops. Less than the unit allows anyway
        changes nothing."""
        self._send(f"EXTEND_TIMEOUT_USEC={seconds * 1_000_000}")

    def status(self, text: str) -> None:
        """One line for `systemctl status`, and for a process that waits for this node to be ready."""
        self._send("STATUS=" + text.replace("\n", " "))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(message.encode(), self._address)
        except OSError:
            return  # the listener has gone, or its queue is full: a retry would not reach it either


def _watchdog_interval_ms(environ: Mapping[str, str]) -> int:
    """Half of WATCHDOG_USEC, when it is meant for this process (sd_watchdog_enabled(3))."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0
    micros = environ.get("WATCHDOG_USEC", "")
    return max(1, int(micros) // 2000) if micros.isdecimal() and int(micros) > 0 else 0
