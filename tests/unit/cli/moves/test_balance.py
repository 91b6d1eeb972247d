"""`penstock cluster balance`: plans are performed a few partitions at a time, to their end."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import typer

from penstock import TopicPartition
from penstock.balance.cluster import Goal
from penstock.cli.moves import balance, performing, waiting
from penstock.cli.moves.balance import MovesAtATime
from penstock.cli.moves.cluster_reading import SizesUnknownError, read_cluster
from penstock.errors import (
    ConfigError,
    InvalidReplicaAssignmentError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from tests.unit.cli.moves.fake_cluster import FakeCluster, cancel_once


def test_a_balance_evens_replicas_and_leaders_and_a_second_one_does_nothing(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    balance.balance(as_json=True)
    assert set(cluster.counts().values()) == {8}
    leaders = [info.leader_id for info in cluster.partitions.values()]
    assert [leaders.count(id_) for id_ in (1, 2, 3)] == [4, 4, 4]
    printed = json.loads(capsys.readouterr().out)
    assert printed["performed"] and printed["failed"] == []
    assert (printed["replicas_moved"], printed["bytes_to_copy"]) == (8, 80)
    assert printed["before"]["spread"] == {"replicas": 12, "leaders": 12, "size_bytes": 120}
    assert printed["after"]["spread"] == {"replicas": 0, "leaders": 0, "size_bytes": 0}
    begun = len(cluster.begun)
    balance.balance()
    assert len(cluster.begun) == begun and "nothing to do" in capsys.readouterr().err


def test_a_dry_run_shows_the_plan_and_changes_nothing(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    balance.balance(dry_run=True)
    printed = capsys.readouterr()
    assert not cluster.begun and cluster.counts() == {1: 12, 2: 12, 3: 0}
    assert "8 replicas of 8 partitions move" in printed.err and "1\t-\t12\t12\t120\t8\t4\t80" in printed.out


def test_only_some_partitions_move_at_a_time(cluster: FakeCluster) -> None:
    balance.balance_cluster("replicas,leaders", limits=MovesAtATime(3))
    assert cluster.most_moving == 3 and cluster.counts()[3] == 8


def test_leaders_alone_copy_nothing(cluster: FakeCluster) -> None:
    balance.balance(by="leaders")
    assert cluster.counts() == {1: 12, 2: 12, 3: 0} and cluster.most_moving == 0
    assert sum(info.leader_id == 1 for info in cluster.partitions.values()) == 6


def test_a_partition_that_is_refused_is_named_and_the_others_move(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {tp: InvalidReplicaAssignmentError(f"{tp} may not") for tp in list(cluster.partitions)[:2]}
    cluster.refused.update(refused)
    with pytest.raises(typer.Exit) as exit_:
        balance.balance(as_json=True)
    assert exit_.value.exit_code == 1 and cluster.counts()[3] > 0
    failed = json.loads(capsys.readouterr().out)["failed"]
    assert {row["partition"] for row in failed} <= {0, 1} and failed


def test_a_topic_that_is_deleted_meanwhile_is_no_failure(cluster: FakeCluster) -> None:
    cluster.refused[TopicPartition("t", 0)] = UnknownTopicOrPartitionError("t-0 is gone")
    balance.balance()


def test_a_partition_that_somebody_else_begins_to_move_is_left_alone(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = balance.make_plan(read_cluster(cluster), {Goal.REPLICAS})  # type: ignore[arg-type]
    first = TopicPartition(plan.moves[0].topic, plan.moves[0].index)
    cluster.begin(first, (3, 1), looks=50)
    assert performing.perform(cluster, plan).failed == {}  # type: ignore[arg-type]
    assert first not in cluster.begun and f"{first} is moved by somebody else" in capsys.readouterr().err


def test_ctrl_c_says_that_what_was_begun_goes_on_and_the_next_run_does_the_rest(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        if len(cluster.begun) >= 4:
            raise KeyboardInterrupt

    cluster.on_look = interrupt
    with pytest.raises(KeyboardInterrupt):
        balance.balance_cluster("replicas,leaders", limits=MovesAtATime(2))
    assert "What was begun goes on" in capsys.readouterr().err
    cluster.on_look = lambda: None
    balance.balance_cluster("replicas,leaders", limits=MovesAtATime(2))
    cluster.list_partition_reassignments()
    assert set(cluster.counts().values()) == {8} and len(set(cluster.begun)) == len(cluster.begun)


def test_bytes_need_every_size(cluster: FakeCluster) -> None:
    cluster.silent = {1, 2}
    with pytest.raises(SizesUnknownError, match=r"12 partitions .* t-0: `penstock log-dirs describe`"):
        balance.balance(by="bytes")
    balance.balance(by="replicas", dry_run=True)
    cluster.silent = {1}
    balance.balance(by="bytes")
    assert max(cluster.counts().values()) - min(cluster.counts().values()) <= 2


@pytest.mark.parametrize("by", ["", "racks", "leaders,", "leaders replicas"])
def test_what_is_no_goal_is_refused(by: str) -> None:
    with pytest.raises(ConfigError, match="must be one of bytes, dirs, leaders, replicas"):
        balance.balance(by=by)


def test_a_partition_that_has_changed_since_the_plan_was_made_is_left_alone(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A balance takes hours. What an operator did meanwhile is not undone."""
    plan = balance.make_plan(read_cluster(cluster), {Goal.REPLICAS})  # type: ignore[arg-type]
    last = TopicPartition(plan.moves[-1].topic, plan.moves[-1].index)
    leader_id = 3 - cluster.partitions[last].leader_id

    def change() -> None:
        cluster.partitions[last] = replace(cluster.partitions[last], replicas=(3, leader_id), leader_id=leader_id)

    cluster.on_look = change
    assert performing.perform(cluster, plan, moving_max=2).failed == {}  # type: ignore[arg-type]
    info = cluster.partitions[last]
    assert (info.replicas, info.leader_id) == ((3, leader_id), leader_id), "no election either"
    printed = capsys.readouterr().err
    assert f"{last} has changed since the plan was made" in printed and "7 of 8 partitions moved" in printed


def test_an_order_of_replicas_that_is_old_is_left_alone_and_copies_nothing(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = balance.make_plan(read_cluster(cluster), {Goal.LEADERS})  # type: ignore[arg-type]
    changed = TopicPartition(plan.reassignments[0].topic, plan.reassignments[0].index)
    cluster.partitions[changed] = replace(cluster.partitions[changed], replicas=(3, 2))
    assert performing.perform(cluster, plan).failed == {}  # type: ignore[arg-type]
    assert cluster.partitions[changed].replicas == (3, 2) and cluster.most_moving == 0
    assert f"{changed} has changed since the plan was made" in capsys.readouterr().err


@pytest.mark.parametrize(("topic_id", "said"), [("another", 8), (None, 0)])
def test_a_topic_that_was_created_again_or_deleted_is_left_alone(
    topic_id: str | None, said: int, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = balance.make_plan(read_cluster(cluster), {Goal.REPLICAS})  # type: ignore[arg-type]
    cluster.topic_id = topic_id
    assert performing.perform(cluster, plan).failed == {} and not cluster.begun  # type: ignore[arg-type]
    assert capsys.readouterr().err.count("has changed since the plan was made") == said


def test_a_leader_that_cannot_be_elected_is_a_failure_of_a_balance(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.not_electable = {tp: PreferredLeaderNotAvailableError(f"{tp} has none") for tp in cluster.partitions}
    with pytest.raises(typer.Exit):
        balance.balance(by="leaders")
    assert "t-1 has none" in capsys.readouterr().err


@pytest.mark.parametrize("other", ["cancelled", "replaced"])
def test_a_move_that_ended_elsewhere_is_a_failure_and_not_counted(
    other: str, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = balance.make_plan(read_cluster(cluster), {Goal.REPLICAS, Goal.LEADERS})  # type: ignore[arg-type]
    move = plan.moves[0]
    tp = TopicPartition(move.topic, move.index)
    if other == "cancelled":
        cluster.on_look = cancel_once(cluster, tp)
    else:
        cluster.on_look = lambda: (
            cluster.begin(tp, (3,)) if len(cluster.partitions[tp].removing_replicas) == 1 else None
        )
    with pytest.raises(typer.Exit) as exit_:
        balance.balance(as_json=True)
    printed = capsys.readouterr()
    (row,) = json.loads(printed.out)["failed"]
    assert exit_.value.exit_code == 1 and (row["topic"], row["partition"]) == (tp.topic, tp.partition)
    assert f"and not {list(move.after)}: its move was cancelled, or another" in row["error"]
    assert "7 of 8 partitions moved" in printed.err


def test_a_plan_ends_where_a_broker_that_gets_replicas_goes_out_of_service(cluster: FakeCluster) -> None:
    cluster.looks = 1 << 30
    cluster.on_look = lambda: cluster.fence(3)
    with pytest.raises(waiting.MoveStuckError, match=r"t-\d+ is being moved to broker 3, which is out of") as stuck:
        balance.balance_cluster("replicas,leaders", limits=MovesAtATime(2))
    assert "`penstock reassignments delete t -p " in str(stuck.value) and len(cluster.begun) == 2


def test_a_plan_waits_for_slow_copies_though_a_broker_is_out_of_service(cluster: FakeCluster) -> None:
    cluster.looks = 1_000
    cluster.left = lambda: 10 - int(performing.time.monotonic()) // 50
    cluster.on_look = lambda: cluster.fence(3)
    balance.balance_cluster("replicas", limits=MovesAtATime(2))
    assert cluster.counts()[3] == 8
