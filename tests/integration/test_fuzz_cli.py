"""Hostile arguments and streams for the commands, against a real node: a part of `python -m tests.fuzz_cli`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.node import node_command
from penstock.testing import Cluster
from penstock.testing.ports import free_ports
from tests.fuzz_cli import Case, Place, argument_cases, drawn, place_of, run, stream_cases
from tests.support.amount import usually
from tests.support.command_line import penstock
from tests.support.waiting import wait_until

STREAM_CASES = (
    "produce: stdin closed",
    "consume: both full",
    "topics list: --json all closed",
    "log verify: stdout full",
)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with Cluster(nodes=1) as cluster, place_of(cluster) as found:
        yield found


def test_hostile_arguments_end_in_one_line_and_a_documented_exit_code(place: Place) -> None:
    slow = {"produce", "delete-records"}  # a topic that does not exist is waited for
    count = usually(50, long=240)
    cases = [case for case in drawn(place, 1, count) if not slow & {*case.path} and "--bootstrap" not in case.what]
    assert len(cases) > count / 3
    assert {str(case): trouble for case in cases if (trouble := run(case, place))} == {}


def test_closed_and_full_streams_end_in_one_line_and_a_documented_exit_code(place: Place) -> None:
    cases = [case for case in stream_cases(place) if str(case) in STREAM_CASES]
    assert len(cases) == len(STREAM_CASES)
    assert {str(case): trouble for case in cases if (trouble := run(case, place))} == {}


def test_the_fuzz_reaches_every_command_and_sees_a_traceback(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {case.path for case in [*argument_cases(place), *stream_cases(place)]}
    assert len(paths) > 35 and {("produce",), ("topics", "create"), ("node", "start"), ("cluster", "health")} <= paths

    def broken(*_: object) -> None:
        raise KeyError("of a test")

    monkeypatch.setattr("penstock.cli.topic_changes.parse_pairs", broken)
    trouble = run(Case(("topics", "create"), "", ("x",)), place)
    assert trouble.startswith("this is a bug of Penstock")


def test_a_node_that_is_started_without_standard_streams_has_a_null_device_in_their_place() -> None:
    with Cluster(nodes=1) as cluster:
        cluster.stop(0)
        shell = ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash"]
        with subprocess.Popen([*shell, *node_command("start", "--config", str(cluster.config_path(0)))]) as process:
            try:
                wait_until(lambda: penstock("topics", "list", bootstrap=cluster.bootstrap).returncode == 0)
                found = {os.readlink(f"/proc/{process.pid}/fd/{number}") for number in (0, 1, 2)}
            finally:
                process.terminate()
        assert (found, process.returncode) == ({os.devnull}, 0)


def test_dev_outlives_the_reader_of_its_words_and_stops_in_order(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from penstock.cli.main import main; main()", "dev", "--data", str(tmp_path / "d")]
    ports = free_ports(1)[0]
    with subprocess.Popen(
        [*command, "--port", str(ports.broker)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as dev:
        assert dev.stdout is not None and b"ready" in dev.stdout.readline()
        dev.stdout.close()  # as `2>&1 | head -1` does
        dev.send_signal(signal.SIGINT)
    assert dev.returncode == 0 and list(tmp_path.glob("d/node-0/data/.kafka_cleanshutdown"))
