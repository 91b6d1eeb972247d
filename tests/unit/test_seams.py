"""No module of the server reaches for the machine by itself: time, randomness, ids, threads, disk and sockets come to a
node in its environment. The exceptions stand here by name, each with its reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.seams import violations

ROOT = Path(__file__).resolve().parents[2]
SERVER = ("raft", "metadata", "storage", "broker")
GRPC = "speaks gRPC: the real thing behind the ports of transport and doors"
EDGES = {
    "storage/disk/file_system.py": "the real thing behind the port of the disk",
    "storage/disk/spare_descriptors.py": "the reserve of descriptors of that file system",
    "storage/tools/command.py": "the offline tools are a process of their own, and this is its start",
    "storage/tools/overlay.py": "the offline tools' read-only view of the disk",
    "broker/config/config_check.py": "looks whether two log dirs are one, before there is a node",
    "broker/config/config_file.py": "reads the configuration, before there is a node",
    "broker/grpc/controller_door.py": GRPC,
    "broker/grpc/door.py": GRPC,
    "broker/grpc/errors.py": GRPC,
    "broker/grpc/handlers.py": GRPC,
    "broker/grpc/peers.py": GRPC,
    "broker/grpc/replication_door.py": GRPC,
    "broker/grpc/servers.py": GRPC,
    "broker/metrics/exposition.py": "serves scrapes over HTTP: the real thing behind the port of doors",
    "broker/network/accepted_sockets.py": "looks at the process's sockets for the gRPC listeners",
    "broker/network/thread_times.py": "reads /proc: the real thing behind `Environment.thread_times`",
    "broker/node/descriptors.py": "raises the process's limit of descriptors, before there is a node",
    "broker/node/format.py": "`penstock node format` is a process of its own",
    "broker/node/grpc_engine.py": "sets up the process, before there is a node",
    "broker/node/malloc_arenas.py": "sets up the process, before there is a node",
    "broker/node/preflight.py": "tries the ports, before there is a node",
    "broker/node/server.py": "the process around the node",
    "broker/node/system_environment.py": "makes the real environment",
    "broker/node/systemd.py": "the process tells the service manager",
}


def modules() -> list[str]:
    return [str(path.relative_to(ROOT)) for folder in SERVER for path in sorted((ROOT / folder).rglob("*.py"))]


def found_in(module: str) -> list[str]:
    return violations((ROOT / module).read_text(encoding="utf-8"))


def test_no_module_of_the_server_reaches_for_the_machine_by_itself() -> None:
    wrong = {module: found for module in modules() if module not in EDGES and (found := found_in(module))}
    assert not wrong, "take it from the constructor; where the machine begins, name the module in EDGES with the reason"


def test_every_exception_is_one() -> None:
    assert [edge for edge in EDGES if not (ROOT / edge).exists() or not found_in(edge)] == []


@pytest.mark.parametrize(
    "planted",
    [
        "import time",
        "from time import monotonic",
        "import uuid",
        "import secrets",
        "import threading",
        "import queue",
        "from queue import SimpleQueue",
        "import subprocess",
        "import socket",
        "import grpc.aio",
        "from pathlib import Path",
        "from concurrent.futures import ThreadPoolExecutor",
        "from concurrent import futures",
        "from os import unlink",
        "from asyncio import to_thread",
        "from random import shuffle",
        "from prometheus_client import start_http_server",
        "x = os.urandom(8)",
        "x = os.environ['HOME']",
        "os.replace(a, b)",
        "x = random.random()",
        "x = random.Random()",
        "x = Random(7)",
        "x = random.SystemRandom()",
        "await_me = asyncio.to_thread(work)",
        "loop.run_in_executor(None, work)",
        "asyncio.get_running_loop().run_in_executor(executor=None, func=work)",
        "x = open('/etc/hosts')",
        "x = datetime.now()",
        "x = datetime.datetime.now()",
        "clock = clock or SystemClock()",
        "def f(fs=OsFileSystem()): pass",
        "x = field(default_factory=SystemThreads)",
        "x = system_ids().new_id()",
    ],
)
def test_what_is_planted_is_found(planted: str) -> None:
    assert violations(f"'''A module.'''\n\n\nclass A:\n    def a(self):\n        {planted}\n")


@pytest.mark.parametrize(
    "free",
    [
        "import os\nx = os.path.join('a', os.fspath(b)), os.O_RDONLY",
        "import random\ndef f(rng: random.Random) -> int:\n    return rng.randint(1, 2)",
        "from concurrent.futures import Executor, Future",
        "loop.run_in_executor(executor, work)",
        "import asyncio\nx = asyncio.sleep(1)",
        "log = manager.open(path)\nfd = fs.open(path)\nnow_ms = clock.now_ms()",
        "from penstock.threads import Threads\nlock = threads.lock()",
        "error.strerror",
    ],
)
def test_what_a_module_may_do_is_not_found(free: str) -> None:
    assert violations(free) == []
