"""Admin and `penstock brokers` describe the registered brokers, and forget one that is gone for good (KIP-631)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from penstock import Admin
from penstock.cli.brokers import list_brokers, unregister
from penstock.client.admin.admin_types import BrokerDescription, BrokerInfo
from penstock.errors import BrokerIdNotRegisteredError, PolicyViolationError
from tests.support.fake_broker import FakeCluster

GONE, NEEDED = 8, 9


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as found:
        found.create_topic("t", 3)
        found.extra_brokers = {GONE: True, NEEDED: False}
        yield found


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap, retry_backoff_ms=1) as found:
        yield found


def test_every_registered_broker_is_described_with_what_it_has(cluster: FakeCluster, admin: Admin) -> None:
    topic = admin.describe_topic("t")
    one, two, *others = admin.describe_brokers()
    gone = BrokerInfo(GONE, "gone", 9192, "r", fenced=True)
    assert others == [BrokerDescription(gone, 0, 0), BrokerDescription(BrokerInfo(NEEDED, "gone", 9192, "r", True))]
    for described in (one, two):
        node_id = described.broker.node_id
        assert described.replicas == sum(node_id in partition.replicas for partition in topic.partitions) > 0
        assert described.leaders == sum(node_id == partition.leader_id for partition in topic.partitions) > 0


def test_a_broker_is_forgotten_or_the_controller_says_why_not(cluster: FakeCluster, admin: Admin) -> None:
    admin.unregister_broker(GONE)
    assert cluster.extra_brokers == {NEEDED: False}
    with pytest.raises(PolicyViolationError, match="broker 9 runs"):
        admin.unregister_broker(NEEDED)
    with pytest.raises(BrokerIdNotRegisteredError, match="broker 8 is not registered"):
        admin.unregister_broker(GONE)
    for wrong in (-1, 2**31, "8", None):
        with pytest.raises((TypeError, ValueError), match="broker_id"):
            admin.unregister_broker(wrong)  # type: ignore[arg-type]


def test_of_a_repetition_a_broker_that_is_not_registered_was_forgotten_by_the_first(
    cluster: FakeCluster, admin: Admin
) -> None:
    cluster.loses_next_unregistration = True
    admin.unregister_broker(GONE)
    assert GONE not in cluster.extra_brokers
    cluster.loses_next_unregistration = True
    with pytest.raises(PolicyViolationError):
        admin.unregister_broker(NEEDED)


def test_the_command_shows_brokers_and_forgets_one(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    list_brokers(cluster.bootstrap, False)
    header, *rows = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert header == ["broker", "address", "rack", "state", "replicas", "leaders", "cordoned"]
    assert [(row[0], row[3]) for row in rows] == [
        ("1", "in service"),
        ("2", "in service"),
        ("8", "fenced"),
        ("9", "fenced"),
    ]
    list_brokers(cluster.bootstrap, True)
    last = json.loads(capsys.readouterr().out)[-1]
    assert last.pop("cordoned") is False
    assert last == {"broker": 9, "address": "gone:9192", "rack": "r", "state": "fenced", "replicas": 0, "leaders": 0}
    unregister([GONE], bootstrap=cluster.bootstrap)
    assert capsys.readouterr().out == "unregistered 8\n"
    cluster.extra_brokers[GONE] = True
    unregister([GONE], bootstrap=cluster.bootstrap, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"broker": 8, "unregistered": True}
