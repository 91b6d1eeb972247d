"""A client of a process that may not open files says so, instead of blaming a broker or ending the process."""

from __future__ import annotations

import subprocess

import pytest

from penstock.client.wire.statuses import error_of_status
from penstock.errors import NetworkError
from penstock.types import Endpoint
from tests.support.fake_broker import FakeCluster
from tests.support.python_nursery import quick_python

CODE = """
import resource, sys
from penstock import Producer
address, limit = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
try:
    with Producer(address, bootstrap_timeout_ms=300) as producer:
        print(producer.send("t", b"v").result(60).offset)
except Exception as error:
    print(type(error).__name__, error)
"""


def printed_with(limit: int, address: str) -> str:
    done = subprocess.run(
        [quick_python(), "-c", CODE, address, str(limit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0 and done.stderr == "", done
    return done.stdout


@pytest.mark.parametrize("limit", [6, 10, 12, 14, 16, 18])
def test_too_few_descriptors_are_named_at_the_first_use(limit: int) -> None:
    printed = printed_with(limit, "127.0.0.1:1")
    assert printed.startswith("BootstrapError no ") and f"the limit is {limit} (ulimit -n)" in printed
    assert "this process may not open more files" in printed and "start a node" not in printed


def test_enough_descriptors_are_enough() -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        assert printed_with(40, cluster.bootstrap) == "0\n"


def test_a_librarys_word_for_it_is_ours() -> None:
    error = error_of_status("UNAVAILABLE", "socket: Too many open files (24)", None, Endpoint("h", 1))
    assert type(error) is NetworkError and "this process may not open more files" in str(error)
