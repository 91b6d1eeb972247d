"""The check of seams finds every direct use of the machine, and nothing else."""

from __future__ import annotations

import pytest

from tests.support.seams import violations


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time", ["1: import time"]),
        ("from time import monotonic as now", ["1: from time import monotonic"]),
        ("from threading import Lock", ["1: from threading import Lock"]),
        ("def f():\n    import uuid", ["2: import uuid"]),
        ("import grpc.aio", ["1: import grpc"]),
        ("import random\nrandom.shuffle(x)", ["2: random.shuffle"]),
        ("import random\nsource = random.Random()", ["2: random.Random()"]),
        ("from concurrent.futures import ThreadPoolExecutor", ["1: from concurrent.futures import ThreadPoolExecutor"]),
        ("import os\nnames = {'default': os.listdir}", ["2: os.listdir"]),
        ("import asyncio\nasyncio.to_thread(print)", ["2: asyncio.to_thread"]),
        ("loop.run_in_executor(None, work)", ["1: run_in_executor(None)"]),
        ("from datetime import datetime\ndatetime.now()", ["2: datetime.now"]),
        ("with open('x') as file: pass", ["1: open()"]),
        ("def f(clock=SystemClock()): pass", ["1: SystemClock"]),
        ("import random as r\nr.shuffle(x)\nsource = r.Random()", ["2: random.shuffle", "3: random.Random()"]),
        ("from random import Random as R\nsource = R()", ["2: Random()"]),
        ("import os as o\no.listdir(x)", ["2: os.listdir"]),
        ("from datetime import datetime as d\nd.now()", ["2: datetime.now"]),
        ("from penstock.clock import SystemClock as C\nclock = C()", ["2: SystemClock"]),
        ("import concurrent.futures as f\nf.ThreadPoolExecutor()", ["2: concurrent.futures.ThreadPoolExecutor"]),
    ],
)
def test_a_reach_is_found_wherever_it_stands(source: str, found: list[str]) -> None:
    assert violations(source) == found


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
        "x = concurrent.futures.ThreadPoolExecutor(2)",
        "await_me = asyncio.start_unix_server(serve)",
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
    "source",
    [
        "from random import Random\ndef f(source: Random) -> int:\n    return source.randint(1, 2)",
        "import random\nclass A:\n    source: random.Random",
        "import os\nos.path.join('a', os.fspath(b))",
        "from concurrent.futures import Executor",
        "import concurrent.futures as f\ndef f(executor: f.Executor): pass",
        "import os.path as p\np.join('a', 'b')",
        "import asyncio\nasyncio.sleep(1)\nasyncio.get_running_loop().call_later(1, f)",
        "def f(time, clock):\n    return clock.now_ms() - time",
        "loop.run_in_executor(executor, work)",
        "log.open()",
        "from penstock.threads import Threads\nlock = threads.lock()",
        "fd = fs.open(path)\nwhy = error.strerror, os.O_RDONLY",
    ],
)
def test_what_is_handed_in_or_only_named_is_no_reach(source: str) -> None:
    assert violations(source) == []
