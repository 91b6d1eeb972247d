"""A cluster of values that the commands which move replicas can ask: moves take some looks, and can be refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType, TracebackType

import pytest

import penstock
from penstock import TopicPartition
from penstock.cli import brokers
from penstock.cli.moves import balance, performing, waiting
from penstock.client.admin.admin_types import (
    BrokerInfo,
    ClusterInfo,
    ConfigEntry,
    ElectionResult,
    NodeStanding,
    PartitionInfo,
    TopicDescription,
)
from penstock.client.admin.log_dir_info import LogDirInfo, ReplicaLogInfo
from penstock.client.admin.log_dirs import BrokerLogDirs, ReassignmentProgress
from penstock.errors import ApiError, ElectionNotNeededError, NetworkError, UnknownTopicOrPartitionError
from penstock.messages.configs import ConfigSource

SKEWED = [(1, 2)] * 12
LOOKS = 2
"""So often a move is still under way when somebody looks."""


class FakeCluster:
    """One topic. Stands for an Admin of it, too."""

    def __init__(
        self, brokers: Sequence[int], partitions: Sequence[tuple[int, ...]], fenced: Sequence[int] = ()
    ) -> None:
        self.brokers = {id_: BrokerInfo(id_, "host", 9000 + id_, fenced=id_ in fenced) for id_ in brokers}
        self.partitions: dict[TopicPartition, PartitionInfo] = {}
        for replicas in partitions:
            self.add(replicas)
        self.topic_id: str | None = "id"
        self.silent: set[int] = set()
        self.cordoned: dict[int, str] = {}
        """The brokers' own values of `cordoned.log.dirs`."""
        self.cordon_is_refused: ApiError | None = None
        self.refused: dict[TopicPartition, ApiError] = {}
        self.not_electable: dict[TopicPartition, ApiError] = {}
        self.most_moving = 0
        self.begun: list[TopicPartition] = []
        self.on_look: Callable[[], None] = lambda: None
        self.looks = LOOKS
        self.left: Callable[[], int] = lambda: 10
        """Bytes of each copy, for ever."""
        self._looks: dict[TopicPartition, int] = {}

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def fence(self, broker_id: int) -> None:
        self.brokers[broker_id] = replace(self.brokers[broker_id], fenced=True)

    def add(self, replicas: tuple[int, ...]) -> None:
        """A partition more."""
        number = len(self.partitions)
        info = PartitionInfo(number, replicas[0], 0, 0, replicas, replicas)
        self.partitions[TopicPartition("t", number)] = info

    def describe_cluster(self) -> ClusterInfo:
        status = NodeStanding(0, False, 0, 0, 0, 0, 0, 0, 0)
        found = [replace(one, cordoned=self.cordoned.get(id_) == "*") for id_, one in self.brokers.items()]
        return ClusterInfo("cluster", 0, tuple(found), 0, status)

    def describe_broker_config(self, node_id: int) -> dict[str, ConfigEntry]:
        if self.brokers[node_id].fenced:
            raise NetworkError(f"broker {node_id} is away")
        value, source = self.cordoned.get(node_id, ""), ConfigSource.DEFAULT_CONFIG
        if node_id in self.cordoned:
            source = ConfigSource.DYNAMIC_BROKER_CONFIG
        return {"cordoned.log.dirs": ConfigEntry("cordoned.log.dirs", value, source, "list", "")}

    def alter_broker_config(
        self,
        node_id: int,
        changes: Mapping[str, str | None],
        *,
        append: Mapping[str, list[str]] = MappingProxyType({}),
        subtract: Mapping[str, list[str]] = MappingProxyType({}),
        validate_only: bool = False,
    ) -> None:
        if self.cordon_is_refused is not None:
            raise self.cordon_is_refused
        key = "cordoned.log.dirs"
        items = [
            item for item in self.cordoned.get(node_id, "").split(",") if item and item not in subtract.get(key, ())
        ]
        value = changes[key] if key in changes else ",".join([*items, *append.get(key, ())])
        if value is None:
            self.cordoned.pop(node_id, None)
        else:
            self.cordoned[node_id] = value

    def describe_topics(self) -> list[TopicDescription]:
        return [self.describe_topic("t")]

    def describe_topic(self, name: str) -> TopicDescription:
        if self.topic_id is None:
            raise UnknownTopicOrPartitionError(f"topic {name!r} does not exist")
        return TopicDescription(name, self.topic_id, tuple(self.partitions.values()))

    def describe_log_dirs(self) -> dict[int, BrokerLogDirs]:
        return {id_: self._log_dirs(id_) for id_ in self.brokers}

    def _log_dirs(self, id_: int) -> BrokerLogDirs:
        if id_ in self.silent:
            return BrokerLogDirs(id_, error=NetworkError("silent"))
        here = {tp: ReplicaLogInfo("id", 10, 0, 1) for tp, info in self.partitions.items() if id_ in info.replicas}
        return BrokerLogDirs(id_, (LogDirInfo("/data", "dir", None, 100, 50, here),))

    def alter_partition_reassignments(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        for tp, target in wanted.items():
            if tp in self.refused:
                continue
            if target is None:
                self.cancel(tp)
            else:
                self.begun.append(tp)
                self.begin(tp, tuple(target), self.looks)
        self.most_moving = max(self.most_moving, len(self._looks))
        return {tp: self.refused.get(tp) for tp in wanted}

    def begin(self, tp: TopicPartition, target: tuple[int, ...], looks: int = LOOKS) -> None:
        self.cancel(tp)
        before = self.partitions[tp]
        adding = tuple(replica for replica in target if replica not in before.replicas)
        removing = tuple(replica for replica in before.replicas if replica not in target)
        self.partitions[tp] = replace(
            before, replicas=(*target, *removing), adding_replicas=adding, removing_replicas=removing
        )
        if adding or removing:
            self._looks[tp] = looks

    def cancel(self, tp: TopicPartition) -> None:
        info = self.partitions[tp]
        original = tuple(replica for replica in info.replicas if replica not in info.adding_replicas)
        self.partitions[tp] = replace(info, replicas=original, adding_replicas=(), removing_replicas=())
        self._looks.pop(tp, None)

    def list_partition_reassignments(self) -> dict[TopicPartition, PartitionInfo]:
        self.on_look()
        for tp in list(self._looks):
            self._looks[tp] -= 1
            if self._looks[tp] < 0:
                self._complete(tp)
        return {tp: self.partitions[tp] for tp in sorted(self._looks)}

    def _complete(self, tp: TopicPartition) -> None:
        del self._looks[tp]
        info = self.partitions[tp]
        target = tuple(replica for replica in info.replicas if replica not in info.removing_replicas)
        leader_id = info.leader_id if info.leader_id in target else target[-1]
        self.partitions[tp] = replace(
            info, replicas=target, isr=target, leader_id=leader_id, adding_replicas=(), removing_replicas=()
        )

    def reassignment_progress(self) -> dict[TopicPartition, ReassignmentProgress]:
        moving = self.list_partition_reassignments()
        return {
            tp: ReassignmentProgress(info, 10, dict.fromkeys(info.adding_replicas, self.left()))
            for tp, info in moving.items()
        }

    def elect_leaders(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ElectionResult]:
        return {tp: self._elect(tp) for tp in partitions}

    def _elect(self, tp: TopicPartition) -> ElectionResult:
        info = self.partitions[tp]
        if tp in self.not_electable:
            return ElectionResult(info.leader_id, self.not_electable[tp])
        if info.leader_id == info.replicas[0]:
            return ElectionResult(info.leader_id, ElectionNotNeededError("it leads"))
        self.partitions[tp] = replace(info, leader_id=info.replicas[0])
        return ElectionResult(info.replicas[0])

    def counts(self) -> dict[int, int]:
        return {id_: sum(id_ in info.replicas for info in self.partitions.values()) for id_ in self.brokers}


class FakeTime:
    """Stands for the module `time`: a sleep is over at once."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def asked_by_commands(monkeypatch: pytest.MonkeyPatch, made: FakeCluster) -> FakeCluster:
    """The cluster answers every command, and time passes only where one waits."""

    @contextmanager
    def admin(bootstrap: str) -> Iterator[FakeCluster]:
        yield made

    monkeypatch.setattr(penstock, "Admin", lambda bootstrap: made)
    monkeypatch.setattr(balance, "patient_admin", admin)
    monkeypatch.setattr(brokers, "patient_admin", admin)
    monkeypatch.setattr(performing, "time", FakeTime())
    monkeypatch.setattr(waiting, "time", FakeTime())
    return made


def cancel_once(cluster: FakeCluster, tp: TopicPartition) -> Callable[[], None]:
    """For `on_look`: an operator takes the first move of the partition back."""
    done: list[TopicPartition] = []

    def cancel() -> None:
        if cluster.partitions[tp].is_reassigning and not done:
            done.append(tp)
            cluster.cancel(tp)

    return cancel
