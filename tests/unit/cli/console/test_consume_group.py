"""`penstock consume --group`: shares, commits what it printed, and goes on there; over gRPC."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.cli.console import consume
from penstock.errors import ConfigError, UnknownTopicOrPartitionError
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from tests.support.fake_broker import FakeCluster
from tests.support.fake_coordinator import FakeCoordinator

T0 = TopicPartition("t", 0)
MAIN = "from penstock.cli.main import main; main()"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as made:
        made.create_topic("t", 1)
        made.coordinator = FakeCoordinator(made, heartbeat_interval_ms=100)
        made.append("t", 0, build_batch([b"%d" % n for n in range(10)], timestamps_ms=0))
        yield made


def consumed(capture: Any, cluster: FakeCluster, count: int, **options: Any) -> list[bytes]:
    consume.consume(["t"], group="g", count=count, from_beginning=True, bootstrap=cluster.bootstrap, **options)
    return list(capture.readouterr().out.splitlines())


def test_each_run_goes_on_where_the_last_one_stopped_and_commits_no_record_that_it_has_not_printed(
    cluster: FakeCluster, capfdbinary: Any
) -> None:
    assert consumed(capfdbinary, cluster, 3) == [b"0", b"1", b"2"]
    assert consumed(capfdbinary, cluster, 4, format=r"%o\n") == [b"3", b"4", b"5", b"6"]
    assert consumed(capfdbinary, cluster, 3) == [b"7", b"8", b"9"]


def test_it_ends_where_the_logs_ended_and_what_it_printed_is_committed(
    cluster: FakeCluster, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert consumed(capfdbinary, cluster, 0, exit_at_end=True) == [b"%d" % n for n in range(10)]
    assert consumed(capfdbinary, cluster, 0, exit_at_end=True) == []
    cluster.append("t", 0, build_batch([b"10", b"11"], timestamps_ms=0))
    assert consumed(capfdbinary, cluster, 0, exit_at_end=True) == [b"10", b"11"]


def test_a_topic_that_does_not_exist_is_an_error_and_nothing_is_waited_for(cluster: FakeCluster) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 'gone' does not exist"):
        consume.consume(["gone"], group="g", bootstrap=cluster.bootstrap)


@pytest.mark.parametrize(
    "option",
    [{"partition": [0]}, {"offset": "3"}, {"from_time": "-1h"}, {"until_time": "5"}],
    ids=lambda option: next(iter(option)),
)
def test_an_option_that_says_where_to_read_does_not_go_with_a_group(option: dict[str, Any]) -> None:
    name = "--" + next(iter(option)).replace("_", "-")
    with pytest.raises(ConfigError, match=f"{name} and --group: a group says which partitions are read"):
        consume.consume(["t"], group="g", **option)


@pytest.mark.parametrize("ends", ["SIGTERM", "the reader of the pipe"])
def test_a_member_that_is_ended_has_left_its_group_before(cluster: FakeCluster, ends: str) -> None:
    command = [sys.executable, "-c", MAIN, "consume", "t", "--group", "g", "--from-beginning"]
    with subprocess.Popen([*command, "--bootstrap", cluster.bootstrap], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"0\n" and len(members(cluster)) == 1
            if ends == "SIGTERM":
                process.terminate()
            else:
                process.stdout.close()
                cluster.append("t", 0, build_batch([b"x" * 100_000], timestamps_ms=0))
            code = process.wait(60)
        finally:
            process.kill()
    assert code == -(signal.SIGTERM if ends == "SIGTERM" else signal.SIGPIPE)
    assert members(cluster) == []


def test_an_empty_name_is_no_group(cluster: FakeCluster) -> None:
    with pytest.raises(ConfigError, match="group_id"):
        consume.consume(["t"], group="", bootstrap=cluster.bootstrap)


def members(cluster: FakeCluster) -> list[str]:
    assert cluster.coordinator is not None
    return list(cluster.coordinator.members)
