"""How the suite is spread over workers (`pytest -n auto`): file by file, and the slow files first.

The tests of one file stay together, because they share a cluster or a cache; so do those that share a Spark session. A
slow file that came last would leave the other workers idle. Without `-n` only the order is different.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

SPARK = "tests/integration/spark/"
SPARK_ALONE = SPARK + "test_connect.py"
"""Starts servers of its own, and needs no session."""

SLOW_FIRST = (
    SPARK,
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
"""More workers than processors: tests of whole clusters often wait for time-outs, sessions and disks."""

BYTECODE = Path.home() / ".cache" / "penstock" / "tests-bytecode"
"""Where the processes of the tests keep compiled modules if the environment forbids to write beside the sources."""

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):  # else each of hundreds of processes compiles all that it imports
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(BYTECODE))

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # BEFORE a test imports gRPC (penstock/client/forks.py)


class FilesScheduling(LoadScopeScheduling):
    """A worker gets a whole file, in the order in which the files were collected."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::", 1)[0]
        shares_the_session = path.startswith(SPARK) and path != SPARK_ALONE
        return SPARK if shares_the_session else path


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesScheduling:
    config.option.loadscopereorder = False
    return FilesScheduling(config, log)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return min((os.cpu_count() or 1) + WORKERS_BESIDE, WORKERS_MAX)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(item.nodeid, SLOW_FIRST))


def _rank(nodeid: str, beginnings: Sequence[str]) -> int:
    return next((rank for rank, beginning in enumerate(beginnings) if nodeid.startswith(beginning)), len(beginnings))
