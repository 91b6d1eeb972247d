"""`penstock consume --group`: shares, commits what it printed, and goes on there; over gRPC."""

from __future__ import annotations

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


def test_a_topic_that_does_not_exist_is_an_error_and_nothing_is_waited_for(cluster: FakeCluster) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 'gone' does not exist"):
        consume.consume(["gone"], group="g", bootstrap=cluster.bootstrap)


@pytest.mark.parametrize(
    "option",
    [{"partition": [0]}, {"offset": "3"}, {"from_time": "-1h"}, {"until_time": "5"}, {"exit_at_end": True}],
    ids=lambda option: next(iter(option)),
)
def test_an_option_that_says_where_to_read_does_not_go_with_a_group(option: dict[str, Any]) -> None:
    name = "--" + next(iter(option)).replace("_", "-")
    with pytest.raises(ConfigError, match=f"{name} and --group: a group says which partitions are read"):
        consume.consume(["t"], group="g", **option)
