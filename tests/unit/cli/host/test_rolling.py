"""A rolling restart goes on only while the cluster can spare the next node."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli.host.rolling import restarted
from penstock.client.admin.health.health_check import CRITICAL, DEGRADED, OK, WARNING, HealthCheck
from penstock.errors import BootstrapError, PenstockError, TimedOutError

WAIT_MS = 60_000


class Health:
    """An answer of `cluster_health`."""

    def __init__(self, *checks: HealthCheck) -> None:
        self.checks = checks


class World:
    """A host, its cluster and the time. A restarted node is back after `back_ms`, its replicas after twice that."""

    def __init__(self, nodes: dict[int, str], back_ms: int = 3_000) -> None:
        self.now_ms = 0
        self.back_ms = back_ms
        self.states = dict(nodes)
        self.pids: dict[int, int | None] = {
            one: 100 + one if state == "running" else None for one, state in nodes.items()
        }
        self.began_ms: dict[int, int] = {}
        self.restarted: list[int] = []
        self.ends_as = "running"
        self.lasting: HealthCheck | None = None
        self.is_silent = False

    def ask(self, do: str, node: int | None) -> dict[str, Any]:
        if do == "restart":
            assert node is not None
            assert all(self.now_ms >= begun + 2 * self.back_ms for begun in self.began_ms.values()), "one at a time"
            self.restarted.append(node)
            self.began_ms[node] = self.now_ms
            self.states[node], self.pids[node] = "starting", 200 + node
        for one, begun in self.began_ms.items():
            if self.states[one] == "starting" and self.now_ms >= begun + self.back_ms:
                self.states[one] = self.ends_as
                self.pids[one] = 200 + one if self.ends_as == "running" else None
        return {
            "nodes": [
                {"node": one, "state": state, "pid": self.pids[one], "says": "", "last_end": "exit code 2"}
                for one, state in self.states.items()
            ]
        }

    def cluster_health(self) -> Health:
        if self.is_silent:
            raise BootstrapError("no broker answers")
        is_behind = any(self.now_ms < begun + 2 * self.back_ms for begun in self.began_ms.values())
        behind = HealthCheck("replicas", DEGRADED if is_behind else OK, "3 are not in sync")
        others = (HealthCheck("disk use", CRITICAL, "full"), HealthCheck("quorum", WARNING, "a word"))
        return Health(behind, *others, *([self.lasting] if self.lasting else []))

    def pause(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1_000)

    def run(self, only: int | None = None) -> list[str]:
        steps = restarted(self.ask, self, only, WAIT_MS, now_ms=lambda: self.now_ms, pause=self.pause)  # type: ignore[arg-type]
        return list(steps)


def test_one_after_another_each_when_all_replicas_are_in_sync() -> None:
    world = World({10: "running", 11: "running", 12: "running"})
    said = world.run()
    assert world.restarted == [10, 11, 12] and said[-1] == "every replica is in sync"
    assert said[0].startswith("node 10 is in service again after 3.")


def test_what_lasts_stops_it_before_the_first() -> None:
    world = World({10: "running", 11: "running"})
    world.lasting = HealthCheck("min.insync.replicas", CRITICAL, "t-0 has too few")
    with pytest.raises(TimedOutError, match=r"node 10 was not restarted: after 1 minutes, min\.insync\.replicas: t-0"):
        world.run()
    assert world.restarted == []


def test_a_silent_cluster_is_waited_for_too() -> None:
    world = World({10: "running"})
    world.is_silent = True
    with pytest.raises(TimedOutError, match="no broker tells"):
        world.run()


@pytest.mark.parametrize("state", ["refused", "failed", "stopped"])
def test_one_that_does_not_come_back_ends_it(state: str) -> None:
    world = World({10: "running", 11: "running"})
    world.ends_as = state
    with pytest.raises(PenstockError, match=f"node 10 has not come back: it is {state} .*No other node"):
        world.run()
    assert world.restarted == [10]


@pytest.mark.parametrize("state", ["refused", "failed", "stopped"])
def test_one_that_was_given_up_and_is_so_again_is_told_at_once(state: str) -> None:
    world = World({10: "refused"})
    world.ends_as = state
    with pytest.raises(PenstockError, match=f"node 10 has not come back: it is {state}"):
        world.run(10)
    assert world.now_ms < WAIT_MS


def test_one_without_a_process_is_started_before_the_others_wait_for_it() -> None:
    world = World({10: "running", 11: "failed", 12: "running"})
    world.run()
    assert world.restarted == [11, 10, 12]


def test_one_that_starts_for_ever_is_told() -> None:
    world = World({10: "running"}, back_ms=10**9)
    with pytest.raises(TimedOutError, match="node 10 is not in service after 1 minutes: starting"):
        world.run()


def test_one_without_a_process_is_started_though_the_cluster_misses_it() -> None:
    world = World({10: "failed", 11: "running"})
    assert world.run(10)[-1] == "every replica is in sync" and world.restarted == [10]


def test_one_node_alone_and_one_that_is_not_there() -> None:
    world = World({10: "running", 11: "running"})
    world.run(11)
    assert world.restarted == [11]
    with pytest.raises(PenstockError, match="no node 12"):
        world.run(12)
