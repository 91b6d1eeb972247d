"""All tests have this in common: the order (slow files first), the workers, the garbage, how nodes are started, and
which of them run at night alone.

A slow file that came last would leave the other workers idle. Without `-n` only the order is different.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from tests.support.files_scheduling import SPARK, pytest_xdist_make_scheduler  # noqa: F401 (a hook)

SLOW_FIRST = (
    SPARK,
    "tests/console/",
    "tests/simulation/cluster/test_cluster_simulation.py",
    "tests/integration/test_demo.py",
    "tests/property/storage/test_battery.py",
    "tests/integration/test_cli.py",
    "tests/integration/",
)
"""Beginnings of the paths of slow files, the slowest first."""


WORKERS_MAX = 4
"""Each worker runs clusters of its own, and no file is so long that more would end the suite earlier."""
WORKERS_BESIDE = 1
"""More workers than processors: tests of whole clusters often wait for time-outs, sessions and disks. With two more the
whole took no less (1,170 s on two processors), and tests in a browser waited for a minute in vain."""

BYTECODE = Path.home() / ".cache" / "penstock" / "tests-bytecode"
"""Where the processes of the tests keep compiled modules if the environment forbids to write beside the sources."""

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):  # else each of hundreds of processes compiles all that it imports
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(BYTECODE))
    sys.dont_write_bytecode, sys.pycache_prefix = False, os.environ["PYTHONPYCACHEPREFIX"]  # of this process, too

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # BEFORE a test imports gRPC (penstock/client/forks.py)

from penstock.local_nodes import node_process  # noqa: E402
from tests.support import few_reports, forked_workers, grpc_log, nursery  # noqa: E402
from tests.support.amount import leave_out_long  # noqa: E402
from tests.support.client_summary import client_lines  # noqa: E402
from tests.support.hang_watch import HangWatch  # noqa: E402

if nursery.is_wanted():
    node_process.start_process = nursery.start_process
grpc_log.keep_text_alone()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # A shell starts what it puts into the background so, and every process of a test would ignore Ctrl-C in its turn.
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # while modules are loaded and tests are found; none of it goes away


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return min((os.cpu_count() or 1) + WORKERS_BESIDE, WORKERS_MAX)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(HangWatch(), "penstock-hang-watch")
    few_reports.register(config)
    forked_workers.register(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out_long(config, items)
    items.sort(key=lambda item: _rank(item.nodeid, SLOW_FIRST))


def pytest_collection_finish() -> None:
    """From here on a collection walks what tests make, and not 16,000 tests with all their modules each time."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """The garbage of a file is collected at its end, and what it leaves (caches, large lists) is not walked again."""
    is_done = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return is_done


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which clients of Kafka ran, and the tests that failed, one id a line, for who runs them once more by themselves
    (`.ci/run`)."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    for line in client_lines(report.user_properties for report in reports if isinstance(report, pytest.TestReport)):
        terminalreporter.write_line(line)
    if place := os.environ.get("PENSTOCK_FAILED_TESTS"):
        stats = terminalreporter.stats
        names = dict.fromkeys(report.nodeid for what in ("failed", "error") for report in stats.get(what, ()))
        Path(place).write_text("".join(f"{name}\n" for name in names))


def _rank(nodeid: str, beginnings: Sequence[str]) -> int:
    return next((rank for rank, beginning in enumerate(beginnings) if nodeid.startswith(beginning)), len(beginnings))
