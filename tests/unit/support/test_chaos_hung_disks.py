"""The chaos campaign's count of the price of another disk that hangs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.types import TopicPartition
from tests.chaos import hung_disks
from tests.chaos.hung_disks import HungDisks

TP = TopicPartition("t", 0)


class Alarms:
    """A ledger, a cluster whose hung log dir has no replicas, and the time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reports: list[str] = []

    def report(self, kind: str, text: str) -> None:
        self.reports.append(f"{kind}: {text}")

    def describe_log_dirs(self, nodes: list[int]) -> dict[int, Any]:
        return {nodes[0]: SimpleNamespace(error=None, log_dirs=())}


@pytest.fixture
def alarms(monkeypatch: pytest.MonkeyPatch) -> Alarms:
    alarms = Alarms()
    monkeypatch.setattr(hung_disks.time, "monotonic", lambda: alarms.now)
    return alarms


def hang(alarms: Alarms, tmp_path: Path) -> HungDisks:
    disks = HungDisks(cast("Any", alarms), cast("Any", alarms))
    with disks.hanging(0, tmp_path, [TP]):
        alarms.now += 4.0
    return disks


def test_what_is_acked_within_the_limit_is_no_alarm(alarms: Alarms, tmp_path: Path) -> None:
    disks = hang(alarms, tmp_path)
    alarms.now += 1.5
    disks.acked(0, TP, 103.9)
    assert not alarms.reports and disks.worst_ack_s == pytest.approx(1.6)


def test_a_record_that_is_not_acked_before_the_next_fault_is_late(alarms: Alarms, tmp_path: Path) -> None:
    disks = hang(alarms, tmp_path)
    alarms.now += 60.0
    disks.acked(0, TP, 103.9)
    assert len(alarms.reports) == 1


def test_a_record_behind_a_backlog_that_moves_does_not_pay_for_the_next_fault(alarms: Alarms, tmp_path: Path) -> None:
    disks = hang(alarms, tmp_path)
    alarms.now += 2.0
    disks.acked(0, TP, 103.8)  # late by its own time: 2.2 s
    alarms.reports.clear()
    alarms.now += 60.0
    disks.acked(0, TP, 103.9)
    assert not alarms.reports
