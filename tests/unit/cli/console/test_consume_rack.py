"""`penstock consume --client-rack`, alone and in a group, and Spark's executors name their rack to the brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import Producer
from penstock.spark.log_client import RACK_VARIABLE, PenstockLogClient
from penstock.types import TopicPartition
from tests.support.command_line import penstock
from tests.support.fake_broker import FakeCluster
from tests.support.fake_coordinator import FakeCoordinator


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as made:
        made.create_topic("t", 1)
        made.coordinator = FakeCoordinator(made, heartbeat_interval_ms=100)
        with Producer(made.bootstrap) as producer:
            producer.send("t", b"v").result(60)
        yield made


def racks(cluster: FakeCluster) -> set[str]:
    return {request.rack_id for _, request in cluster.fetches}


@pytest.mark.parametrize("group", [[], ["--group", "g"]])
def test_the_rack_is_named_with_each_fetch(cluster: FakeCluster, group: list[str]) -> None:
    words = ["consume", "t", "--from-beginning", "-n", 1, "--client-rack", "zone-a", *group]
    assert penstock(*words, bootstrap=cluster.bootstrap).stdout == b"v\n"
    assert racks(cluster) == {"zone-a"}


def test_without_it_no_rack_is_named(cluster: FakeCluster) -> None:
    assert penstock("consume", "t", "--from-beginning", "-n", 1, bootstrap=cluster.bootstrap).stdout == b"v\n"
    assert racks(cluster) == {""}


@pytest.mark.parametrize(
    ("options", "rack"), [({}, "of-the-machine"), ({"client_rack": "of-the-query"}, "of-the-query")]
)
def test_executors_have_the_querys_rack_or_their_machines(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], rack: str
) -> None:
    monkeypatch.setenv(RACK_VARIABLE, "of-the-machine")
    with PenstockLogClient(cluster.bootstrap, options) as client:
        client.sample(TopicPartition("t", 0), 0, "")
    assert racks(cluster) == {rack}
