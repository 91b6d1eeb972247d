"""`penstock brokers wait`: a script goes on when brokers serve, and is told which one does not."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from penstock.cli import brokers
from penstock.cli.brokers import NotInServiceError
from tests.unit.cli.moves.fake_cluster import FakeCluster, asked_by_commands


class Looks:
    """Time that passes by the pauses between looks, and what happens after so many of them."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.now, self.cluster, self.count = 0.0, cluster, 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.count += 1
        if self.count == 30:
            self.cluster.brokers |= FakeCluster((4,), ()).brokers


@pytest.fixture
def looks(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Looks:
    found = Looks(cluster)
    monkeypatch.setattr(brokers, "time", SimpleNamespace(monotonic=found.monotonic, sleep=found.sleep))
    return found


def test_brokers_that_serve_are_not_waited_for(looks: Looks, capsys: pytest.CaptureFixture[str]) -> None:
    brokers.wait_for_brokers([1, 3])
    assert looks.count == 0 and capsys.readouterr().out == "in service: 1, 3\n"


def test_a_broker_that_comes_is_waited_for_and_the_wait_is_told(
    looks: Looks, capsys: pytest.CaptureFixture[str]
) -> None:
    brokers.wait_for_brokers([1, 4], as_json=True)
    printed = capsys.readouterr()
    assert looks.count == 30 and "waiting: broker 4 is not registered" in printed.err
    assert json.loads(printed.out) == {"brokers": [1, 4], "in_service": True}


def test_one_that_does_not_come_in_time_is_named(looks: Looks) -> None:
    looks.cluster.fence(2)
    with pytest.raises(NotInServiceError, match=r"broker 2 is fenced, broker 9 is not registered after 12 s; "):
        brokers.wait_for_brokers([1, 2, 9], timeout=12)
    assert looks.now == 12


def test_no_time_is_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_by_commands(monkeypatch, FakeCluster((1,), ()))
    with pytest.raises(NotInServiceError, match="broker 2 is not registered after 0 s"):
        brokers.wait_for_brokers([2], timeout=0)
