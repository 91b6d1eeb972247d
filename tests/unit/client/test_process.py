"""The process: importing is cheap, a forgotten close does not keep a program from ending, a fork starts afresh."""

from __future__ import annotations

import subprocess
import sys

from tests.support.fake_broker import FakeCluster
from tests.support.python_nursery import quick_python


def run(code: str, *arguments: str, expected: str = "", python: str = "") -> str:
    """The program's output; it must have written `expected`, and nothing else, to stderr."""
    done = subprocess.run(
        [python or quick_python(), "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stderr and bool(expected) == bool(done.stderr)
    return done.stdout


def test_importing_penstock_imports_neither_grpc_nor_protobuf_nor_numpy() -> None:
    heavy = "('grpc', 'google', 'numpy', 'uvloop')"
    code = f"import sys, penstock; dir(penstock); print([name for name in {heavy} if name in sys.modules])"
    assert run(code, python=sys.executable).strip() == "[]"


def test_making_clients_starts_no_connection() -> None:
    code = "from penstock import *; p = Producer('127.0.0.1:1'); c = Consumer('127.0.0.1:1'); print(repr(p), repr(c))"
    assert "Producer(127.0.0.1:1, open)" in run(code)


def test_a_forgotten_close_sends_what_waits_and_lets_the_program_end() -> None:
    code = """
import sys
from penstock import Consumer, Producer, TopicPartition
producer = Producer(sys.argv[1], linger_ms=10_000)
producer.send("t", b"v")
consumer = Consumer(sys.argv[1])
consumer.assign([TopicPartition("t", 0)])
consumer.poll(10)
print("end")
"""
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        assert run(code, cluster.bootstrap) == "end\n"
        assert next(iter(cluster.logs.values())).end_offset == 1


def test_a_program_ends_though_its_broker_does_not_answer_and_says_what_was_not_acked() -> None:
    code = "import sys; from penstock import Producer; p = Producer(sys.argv[1]); p.send('t', b'v'); print('end')"
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        cluster.silence(1)
        assert run(code, cluster.bootstrap, expected="1 records were not acked within the 3 s of its close") == "end\n"


def test_a_child_process_makes_its_own_thread() -> None:
    code = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork beside a thread, and rightly
from penstock.client.background import loop_thread
async def answer(): return os.getpid()
assert loop_thread().run(answer()) == os.getpid()
child = os.fork()
if child == 0:
    os._exit(0 if loop_thread().run(answer()) == os.getpid() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(code) == "0\n"
