"""What counts as reaching for the machine, and what does not."""

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
        ("def f(clock=SystemClock()): pass", ["1: SystemClock()"]),
    ],
)
def test_a_reach_is_found_wherever_it_stands(source: str, found: list[str]) -> None:
    assert violations(source) == found


@pytest.mark.parametrize(
    "source",
    [
        "from random import Random\ndef f(source: Random) -> int:\n    return source.randint(1, 2)",
        "import random\nclass A:\n    source: random.Random",
        "import os\nos.path.join('a', os.fspath(b))",
        "from concurrent.futures import Executor",
        "import asyncio\nasyncio.sleep(1)\nasyncio.get_running_loop().call_later(1, f)",
        "def f(time, clock):\n    return clock.now_ms() - time",
        "loop.run_in_executor(executor, work)",
        "log.open()",
    ],
)
def test_what_is_handed_in_or_only_named_is_no_reach(source: str) -> None:
    assert violations(source) == []
