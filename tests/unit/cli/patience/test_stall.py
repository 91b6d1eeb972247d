"""When a command tells what it waits for, and that it goes on."""

from __future__ import annotations

import threading

import pytest

from penstock.cli.patience import waits
from penstock.cli.patience.stall import PATIENCE_MS, Stall, WaitProgress
from penstock.cli.patience.waits import ConsumeWait
from penstock.cli.patience.watch import Reasons, described_trouble, patience
from penstock.client.admin.admin_types import BrokerInfo, ClusterInfo, NodeStanding
from tests.support.waiting import wait_until

WAITING = WaitProgress(is_waiting=True)


class Story:
    """A stall with a scripted reason; `said` has what a person reads."""

    def __init__(self, reason: str = "no leader") -> None:
        self.said: list[str] = []
        self.reason = reason
        self.asked = 0
        self.stall = Stall(self._ask, self.said.append)

    def _ask(self) -> str:
        self.asked += 1
        return self.reason

    def look(self, *at_ms: int, progress: WaitProgress = WAITING) -> list[str]:
        """The lines that are said at these times."""
        self.said.clear()
        for now_ms in at_ms:
            self.stall.look(progress, now_ms)
        return list(self.said)


def test_it_tells_the_reason_after_the_patience_and_once() -> None:
    story = Story()
    assert story.look(0, 500, PATIENCE_MS - 1) == [] and story.asked == 0
    assert story.look(PATIENCE_MS) == ["waiting for 3 s: no leader"]
    assert story.look(PATIENCE_MS + 500, 3 * PATIENCE_MS) == [] and story.asked == 2, "not asked at each look"
    story.reason = "broker 2 does not answer"
    assert story.look(5 * PATIENCE_MS) == ["waiting for 15 s: broker 2 does not answer"]


def test_it_tells_when_the_command_goes_on_only_if_it_told_of_a_wait() -> None:
    story = Story()
    story.look(0, 1_000)
    assert story.look(1_500, progress=WaitProgress(True, 7)) == []
    assert story.look(1_500 + PATIENCE_MS, progress=WaitProgress(True, 7)) == ["waiting for 3 s: no leader"]
    assert story.look(6_500, progress=WaitProgress(True, 8)) == ["going on after 5 s"]
    assert story.look(6_600, progress=WaitProgress(False, 8)) == []


def test_the_end_of_the_work_ends_a_wait_that_was_told() -> None:
    story = Story()
    story.look(0, PATIENCE_MS)
    story.said.clear()
    story.stall.end(3_400)
    assert story.said == ["going on after 3 s"]
    story.reason = "another"
    assert story.look(9 * PATIENCE_MS, 20 * PATIENCE_MS) == [], "a look that comes late says nothing"
    quick = Story()
    quick.stall.end(100)
    assert quick.said == []


def test_who_does_not_wait_is_told_nothing() -> None:
    story = Story()
    assert story.look(0, 100_000, 200_000, progress=WaitProgress(is_waiting=False)) == [] and story.asked == 0
    assert story.look(200_500) == [], "the patience begins with the wait"
    silent = Story(reason="")
    assert silent.look(0, PATIENCE_MS, 9 * PATIENCE_MS) == []


def test_the_thread_looks_by_itself_and_ends_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr("penstock.cli.patience.watch.LOOK_SECONDS", 0.001)

    def progress() -> WaitProgress:
        looked.append(1)
        return WAITING

    with patience(progress, lambda: ""):
        wait_until(lambda: len(looked) >= 2)
        assert [thread.name for thread in threading.enumerate()].count("patience") == 1
    wait_until(lambda: "patience" not in [thread.name for thread in threading.enumerate()])


def info(**changes: object) -> ClusterInfo:
    brokers = (BrokerInfo(0, "a", 1), BrokerInfo(1, "b", 1, fenced=bool(changes.pop("fenced", False))))
    under_min_isr = int(str(changes.pop("under_min_isr", 0)))
    status = NodeStanding(0, False, 0, 4, 2, 0, under_min_isr, 0, ())
    fields = {"controller_id": 0, "offline_partitions": 0, **changes}
    return ClusterInfo("c", brokers=brokers, metadata_offset=1, standing=status, **fields)  # type: ignore[arg-type]


def test_the_trouble_of_a_cluster_is_said_in_short() -> None:
    assert described_trouble(info()) == ""
    assert "no leader" in described_trouble(info(controller_id=-1))
    assert described_trouble(info(fenced=True)) == "out of service: broker 1"
    assert described_trouble(info(offline_partitions=2)) == "2 partitions have no leader"
    assert "2 partitions led by broker 0 have fewer" in described_trouble(info(under_min_isr=2))


def test_many_reasons_are_cut_and_the_cluster_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.patience.watch.cluster_trouble", lambda bootstrap: "no controller")
    reasons = Reasons("b")
    assert reasons.of([], "nothing told") == "nothing told", "the first words do not wait for the cluster's"
    assert reasons.of([], "nothing told") == "nothing told; the cluster: no controller"
    assert reasons.of("abcde", "-") == "a; b; c; and 2 more reasons; the cluster: no controller"


class ReadConsumer:
    """A consumer whose partitions are all read to their ends."""

    def waiting_for(self) -> tuple[object, ...]:
        return ()

    def assignment(self) -> list[str]:
        return ["orders-0", "orders-1"]


def test_a_consumer_at_the_end_says_so_once_and_not_between_any_two_records(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []
    monkeypatch.setattr(waits, "note", noted.append)
    wait = ConsumeWait(ReadConsumer(), "b")  # type: ignore[arg-type]
    assert (wait.reason(), wait.reason()) == ("", "")
    assert noted == ["penstock: 2 partitions are read to their ends; waiting for new records"]
    wait.is_printing = True
    assert not wait.progress().is_waiting, "the reader of the pipe may be slow"
