"""The facts from which a plan for log dirs is made, and the fate of a move whose replica has changed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from penstock import TopicPartition
from penstock.balance.cluster import BalancedBroker, BalancedPartition, ClusterState
from penstock.balance.dirs.broker_dirs import DirMove, DirReplica
from penstock.cli.moves.dirs.dir_queue import DIR_MOVES_MAX, DirQueue
from penstock.cli.moves.dirs.dir_reading import read_dirs, room_in
from penstock.client.admin.log_dir_info import FutureReplicaInfo, LogDirInfo, ReplicaLogInfo
from penstock.client.admin.log_dirs import BrokerLogDirs
from penstock.errors import ApiError, KafkaStorageError, NetworkError, ReplicaNotAvailableError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
COPY = FutureReplicaInfo("id", 3, 7, 2, "")


def replica(size: int = 10, topic_id: str = "id") -> ReplicaLogInfo:
    return ReplicaLogInfo(topic_id, size, 0, 1)


def log_dir(
    path: str,
    replicas: Mapping[TopicPartition, ReplicaLogInfo],
    coming: Mapping[TopicPartition, FutureReplicaInfo] | None = None,
    usable: int = 500,
) -> LogDirInfo:
    return LogDirInfo(path, path, None, 1000, usable, replicas, coming or {})


class Answering:
    """Stands for an Admin."""

    def __init__(self, *log_dirs: LogDirInfo) -> None:
        self._log_dirs = log_dirs

    def describe_log_dirs(self) -> dict[int, BrokerLogDirs]:
        return {1: BrokerLogDirs(1, self._log_dirs), 2: BrokerLogDirs(2, self._log_dirs)}


def read(partitions: tuple[BalancedPartition, ...], *log_dirs: LogDirInfo) -> dict[str, tuple[DirReplica, ...]]:
    """The replicas in each log dir of broker 1; broker 2 is out of service."""
    state = ClusterState((BalancedBroker(1), BalancedBroker(2, in_service=False)), partitions)
    found = read_dirs(Answering(*log_dirs), state)  # type: ignore[arg-type]
    assert [broker.broker_id for broker in found.brokers] == [1] and found.out_of_service == (2,)
    return {one.path: one.replicas for one in found.brokers[0].dirs}


def partition(index: int, replicas: tuple[int, ...] = (1,), moving: bool = False) -> BalancedPartition:
    return BalancedPartition("t", index, replicas, 1, 10, moving, "id")


def test_a_replica_that_moves_between_log_dirs_is_counted_where_it_goes_and_stays() -> None:
    found = read(
        (partition(0), partition(1)), log_dir("/a", {T0: replica(), T1: replica()}), log_dir("/b", {}, {T0: COPY})
    )
    assert found == {"/a": (DirReplica("t", 1, 10, "id"),), "/b": (DirReplica("t", 0, 10, "id", stays=True),)}


def test_a_replica_of_a_partition_that_is_reassigned_stays_and_one_that_leaves_is_not_counted() -> None:
    a = log_dir("/a", {T0: replica(), T1: replica()})
    assert read((partition(0, moving=True), partition(1, (2,), moving=True)), a) == {
        "/a": (DirReplica("t", 0, 10, "id", stays=True),)
    }
    assert read((partition(1),), log_dir("/a", {T0: replica(), T1: replica(topic_id="older")})) == {"/a": ()}


def test_room_keeps_a_part_of_the_disk_and_what_comes_already() -> None:
    assert room_in(log_dir("/a", {}, {T0: COPY})) == 500 - 50 - 7
    assert room_in(log_dir("/a", {}, usable=20)) == -30
    assert room_in(log_dir("/a", {}, usable=-1)) is None


def queue(*, size: int = 10) -> DirQueue:
    return DirQueue(1, [DirMove(1, "t", 0, "/a", "/b", size, "id")], 0.0, DIR_MOVES_MAX)


@pytest.mark.parametrize(
    ("dirs", "expected"),
    [
        ((log_dir("/a", {}), log_dir("/b", {T0: replica()})), "has changed since the plan was made"),
        ((log_dir("/a", {T0: replica(topic_id="other")}), log_dir("/b", {})), "has changed since"),
        ((log_dir("/a", {}), log_dir("/b", {})), "has changed since"),
        ((log_dir("/a", {T0: replica()}), log_dir("/b", {}), log_dir("/c", {}, {T0: COPY})), "moved by somebody else"),
    ],
)
def test_a_replica_that_has_changed_since_the_plan_was_made_is_left_alone(
    dirs: tuple[LogDirInfo, ...], expected: str
) -> None:
    made = queue()
    made.saw(BrokerLogDirs(1, dirs), 1.0)
    assert made.next_moves() == {} and not made.failed and not made.is_open
    assert expected in made.left_alone[0]


def test_a_move_for_which_there_is_no_room_any_more_is_a_failure() -> None:
    dirs = log_dir("/a", {T0: replica()}), log_dir("/b", {}, {T1: COPY}, usable=66)
    made = queue()
    made.saw(BrokerLogDirs(1, dirs), 1.0)
    assert made.next_moves() == {} and "/b of broker 1 has no room for its 10 bytes" in made.failed[T0]
    made = queue(size=9)
    made.saw(BrokerLogDirs(1, dirs), 1.0)
    assert made.next_moves() == {T0: "/b"}


def begun() -> DirQueue:
    made = queue()
    made.saw(BrokerLogDirs(1, (log_dir("/a", {T0: replica()}), log_dir("/b", {}))), 1.0)
    made.answered(dict.fromkeys(made.next_moves()), 1.0)
    return made


def test_a_move_that_somebody_cancels_is_a_failure_and_a_topic_that_is_deleted_is_none() -> None:
    made = begun()
    made.saw(BrokerLogDirs(1, (log_dir("/a", {T0: replica()}), log_dir("/b", {}))), 2.0)
    assert "is in /a and not in /b: its move was cancelled" in made.failed[T0] and not made.is_open
    for here in ({}, {T0: replica(topic_id="other")}):
        made = begun()
        made.saw(BrokerLogDirs(1, (log_dir("/a", here), log_dir("/b", {}))), 2.0)
        assert not made.failed and made.left_alone and made.moved == 0


def test_a_replica_that_somebody_else_moves_to_another_log_dir_meanwhile_is_no_failure() -> None:
    a, b, empty_a = log_dir("/a", {T0: replica()}), log_dir("/b", {}), log_dir("/a", {})
    for dirs in ((a, b, log_dir("/c", {}, {T0: COPY})), (empty_a, b, log_dir("/c", {T0: replica()}))):
        made = begun()
        made.saw(BrokerLogDirs(1, dirs), 2.0)
        assert not made.failed and not made.is_open
        assert made.left_alone == ["t-0 of broker 1 is moved by somebody else; it is left alone"]


def test_a_replica_that_is_not_available_is_looked_at_again_once() -> None:
    """A broker says so, too, when two commands ask for the same replica at the same moment."""
    in_a = BrokerLogDirs(1, (log_dir("/a", {T0: replica()}), log_dir("/b", {})))
    coming = BrokerLogDirs(1, (log_dir("/a", {T0: replica()}), log_dir("/b", {}, {T0: COPY})))
    elsewhere = BrokerLogDirs(1, (log_dir("/a", {T0: replica()}), log_dir("/b", {}), log_dir("/c", {}, {T0: COPY})))
    refused: dict[TopicPartition, ApiError | None] = {T0: ReplicaNotAvailableError("it has changed meanwhile")}

    def refused_once() -> DirQueue:
        made = queue()
        made.saw(in_a, 1.0)
        assert made.next_moves() == {T0: "/b"}
        made.answered(refused, 1.0)
        assert made.is_open and not made.left_alone
        return made

    made = refused_once()
    made.saw(coming, 2.0)
    assert made.next_moves() == {} and list(made.moving) == [T0], "the other command has the same plan"
    made = refused_once()
    made.saw(elsewhere, 2.0)
    assert made.next_moves() == {} and "is moved by somebody else" in made.left_alone[0]
    made = refused_once()
    made.saw(in_a, 2.0)
    assert made.next_moves() == {T0: "/b"}
    made.answered(refused, 2.0)
    assert not made.is_open and not made.failed
    assert made.left_alone == ["t-0 of broker 1 cannot move: it has changed meanwhile; it is left alone"]


def test_a_broker_is_given_up_after_a_minute_of_one_silence_and_not_of_two() -> None:
    made = begun()
    silent = BrokerLogDirs(1, error=NetworkError("it is silent"))
    for at_seconds in (10.0, 60.0):
        made.saw(silent, at_seconds)
    made.saw(BrokerLogDirs(1, (log_dir("/a", {T0: replica()}), log_dir("/b", {}, {T0: COPY}))), 65.0)
    for at_seconds in (70.0, 129.0):
        made.saw(silent, at_seconds)
    assert made.is_open and not made.failed
    made.saw(silent, 130.0)
    assert "it is silent, for 60 s" in made.failed[T0] and made.left_under_way == 1 and not made.is_open


def test_a_log_dir_that_is_offline_when_the_turn_comes_gets_nothing() -> None:
    dead = LogDirInfo("/b", "/b", KafkaStorageError("dead"), -1, -1, {})
    made = queue()
    made.saw(BrokerLogDirs(1, (log_dir("/a", {T0: replica()}), dead)), 1.0)
    assert made.next_moves() == {} and "/b is offline: dead" in made.failed[T0]
