"""`penstock brokers drain`: everything goes off a broker, whatever others move meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice, repeat

import pytest

from penstock import TopicPartition
from penstock.balance.cluster import DrainImpossibleError
from penstock.cli import brokers
from penstock.cli.moves import waiting
from penstock.errors import (
    ApiError,
    BrokerIdNotRegisteredError,
    ClusterAuthorizationFailedError,
    InvalidConfigError,
    InvalidReplicaAssignmentError,
    PenstockError,
    PreferredLeaderNotAvailableError,
)
from tests.unit.cli.moves.fake_cluster import SKEWED, FakeCluster, asked_by_commands, cancel_once

FIRST = TopicPartition("t", 0)
FOREVER = 1 << 30


def test_a_drain_takes_everything_off_a_broker(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    brokers.drain(1)
    assert cluster.counts() == {1: 0, 2: 12, 3: 12}
    assert not any(info.leader_id == 1 for info in cluster.partitions.values())
    printed = capsys.readouterr().err
    assert "broker 1 has no replicas: stop it" in printed and "broker 1 stays cordoned" in printed
    assert cluster.cordoned == {1: "*"}


def test_a_drain_that_is_only_shown_changes_nothing(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    brokers.drain(1, dry_run=True, as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert printed["replicas_moved"] == 12 and not printed["performed"] and not cluster.begun


def test_a_topic_that_is_created_during_a_drain_is_moved_too(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    created = iter([(1, 3), (2, 1)])
    add_at_most(cluster, created)
    brokers.drain(1)
    assert cluster.counts()[1] == 0 and len(cluster.partitions) == 14
    assert "that others placed or left there meanwhile" in capsys.readouterr().err


def add_at_most(cluster: FakeCluster, replicas: Iterator[tuple[int, ...]]) -> None:
    """At each look a partition more, until there is none."""

    def add() -> None:
        for following in islice(replicas, 1):
            cluster.add(following)

    cluster.on_look = add


def test_a_drain_gives_up_when_others_place_replicas_there_all_the_time(cluster: FakeCluster) -> None:
    add_at_most(cluster, repeat((1, 2)))
    with pytest.raises(PenstockError, match=r"after 10 rounds, one is t-\d+: .* auto.replica.balance.enable=false"):
        brokers.drain(1)


def test_a_drain_waits_for_what_somebody_else_moves_off_the_broker(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.begin(FIRST, (3, 2), looks=200)
    brokers.drain(1)
    printed = capsys.readouterr().err
    assert "somebody else moves" in printed and cluster.counts()[1] == 0
    assert "1 partitions still move, one is t-0" in printed and "`penstock reassignments delete t -p 0`" in printed


@pytest.mark.parametrize("fenced", [[1], []])
def test_a_move_to_the_broker_is_cancelled_before_it_is_drained(
    fenced: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dead broker would never get its copy."""
    made = asked_by_commands(monkeypatch, FakeCluster((1, 2, 3), [(2, 3)] * 3, fenced))
    made.begin(FIRST, (1, 2), looks=FOREVER)
    brokers.drain(1)
    assert made.partitions[FIRST].replicas == (2, 3) and not made.list_partition_reassignments()
    assert "t-0: its move to broker 1, which is being drained, was cancelled" in capsys.readouterr().err


def test_a_move_to_other_brokers_too_goes_on_without_the_drained_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = asked_by_commands(monkeypatch, FakeCluster((1, 2, 3, 4), [(2, 3)], fenced=[1]))
    made.begin(FIRST, (1, 2, 4), looks=FOREVER)
    brokers.drain(1)
    printed = capsys.readouterr().err
    assert "t-0: its move goes on to the replicas [2, 4], without broker 1" in printed
    assert made.partitions[FIRST].adding_replicas == (4,)


def test_a_move_that_would_leave_too_few_replicas_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    made = asked_by_commands(monkeypatch, FakeCluster((1, 2, 3, 4), [(2, 3)], fenced=[1]))
    made.begin(FIRST, (1, 4), looks=FOREVER)
    brokers.drain(1)
    assert made.partitions[FIRST].replicas == (2, 3)


def test_a_move_to_the_broker_that_may_not_be_cancelled_is_waited_for_and_then_taken_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = asked_by_commands(monkeypatch, FakeCluster((1, 2, 3), [(2, 3)]))
    made.begin(FIRST, (1, 2), looks=20)
    made.refused[FIRST] = InvalidReplicaAssignmentError("t-0: too few would be in sync")
    made.on_look = lambda: None if made.partitions[FIRST].is_reassigning else made.refused.clear()
    brokers.drain(1)
    assert made.counts()[1] == 0
    assert "the move to broker 1 goes on: t-0: too few would be in sync" in capsys.readouterr().err


def test_a_drain_ends_where_a_move_waits_for_a_broker_that_is_out_of_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = asked_by_commands(monkeypatch, FakeCluster((1, 2, 3, 4), SKEWED, fenced=[4]))
    made.begin(FIRST, (4, 2), looks=FOREVER)
    with pytest.raises(waiting.MoveStuckError, match=r"t-0 is being moved to broker 4, which is out of") as stuck:
        brokers.drain(1)
    assert "`penstock reassignments delete t -p 0`" in str(stuck.value) and "for 60 s" in str(stuck.value)
    printed = capsys.readouterr().err
    assert 10 <= printed.count("the cluster: out of service: broker 4") <= 12, "every five seconds for a minute"
    assert made.counts()[1] == 1, "the others have moved"


def test_a_drain_is_done_where_the_broker_is_empty_though_a_leader_could_not_be_elected(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.not_electable[FIRST] = PreferredLeaderNotAvailableError("t-0: its first replica is not in sync")
    brokers.drain(1)
    printed = capsys.readouterr().err
    assert "t-0: its first replica is not in sync" in printed and "broker 1 has no replicas" in printed
    assert cluster.counts()[1] == 0


def test_a_drain_begins_a_move_again_that_was_cancelled(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.on_look = cancel_once(cluster, FIRST)
    brokers.drain(1)
    assert "t-0 has the replicas [2, 1] and not [" in capsys.readouterr().err and cluster.counts()[1] == 0


def test_a_broker_that_nobody_knows_and_one_that_cannot_be_drained_are_refused(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BrokerIdNotRegisteredError, match="broker 9 is not registered; these are: 1, 2, 3"):
        brokers.drain(9)
    asked_by_commands(monkeypatch, FakeCluster((1, 2, 3), SKEWED, fenced=[3]))
    with pytest.raises(DrainImpossibleError, match="broker 1 cannot be drained: t-0"):
        brokers.drain(1)


@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize("before", [None, "/data/a", "*"])
def test_a_drain_that_is_interrupted_takes_its_own_cordon_back_and_no_earlier_one(
    cluster: FakeCluster, before: str | None, is_away: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.cordoned |= {} if before is None else {1: before}
    if is_away:
        cluster.fence(1)

    def interrupt() -> None:
        assert "*" in cluster.cordoned[1].split(",")
        raise KeyboardInterrupt

    cluster.on_look = interrupt
    with pytest.raises(KeyboardInterrupt):
        brokers.drain(1)
    assert (cluster.cordoned.get(1) or None) == before
    printed = capsys.readouterr().err
    assert (
        "broker 1 stays cordoned, as it was before" if before == "*" else "broker 1 is no longer cordoned"
    ) in printed


@pytest.mark.parametrize("error", [InvalidConfigError("unknown"), ClusterAuthorizationFailedError("not you")])
def test_a_drain_goes_on_where_the_cluster_knows_no_cordon_or_the_operator_may_not(
    cluster: FakeCluster, error: ApiError, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.cordon_is_refused = error
    brokers.drain(1)
    assert cluster.counts()[1] == 0 and "broker 1 is not cordoned" in capsys.readouterr().err
