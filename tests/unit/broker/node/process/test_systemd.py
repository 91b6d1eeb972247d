"""The node's notices to the service manager, and its silence without one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from broker.node.process.systemd import Notifier


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """A service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("")  # an abstract name that the kernel chooses
        receiver.settimeout(60)
        yield receiver


def address(manager: socket.socket) -> str:
    return "@" + manager.getsockname().lstrip(b"\0").decode()


def test_every_notice_is_one_datagram(manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address(manager)})
    notifier.status("two\nlines")
    notifier.ready()
    notifier.watchdog()
    notifier.stopping()
    notifier.extend(60)
    said = [manager.recv(4096).decode() for _ in range(5)]
    assert said[:4] == ["STATUS=two lines", f"READY=1\nMAINPID={os.getpid()}", "WATCHDOG=1", "STOPPING=1"]
    assert said[4] == "EXTEND_TIMEOUT_USEC=60000000"
    notifier.close()
    notifier.ready()  # after the end: no error


def test_without_a_service_manager_nothing_happens() -> None:
    notifier = Notifier({})
    notifier.ready()
    assert notifier.watchdog_interval_ms == 0 and "nobody" in repr(notifier)


def test_a_manager_that_has_gone_is_no_error() -> None:
    notifier = Notifier({"NOTIFY_SOCKET": "@penstock-test-nobody-listens-here"})
    notifier.ready()
    assert "nobody-listens-here" in repr(notifier)
    notifier.close()


THIS_PROCESS = "the process of the test"
"""Stands for its id, which is another one than that of the process that finds the tests."""


@pytest.mark.parametrize(
    ("environ", "interval_ms"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 15_000),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": THIS_PROCESS}, 15_000),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "0"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
    ],
)
def test_the_watchdog_is_fed_twice_per_interval(environ: dict[str, str], interval_ms: int) -> None:
    environ = {name: str(os.getpid()) if value == THIS_PROCESS else value for name, value in environ.items()}
    assert Notifier(environ).watchdog_interval_ms == interval_ms
