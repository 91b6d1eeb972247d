"""A cluster of values whose brokers have several log dirs: moves between them take some looks, and can go wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from penstock import TopicPartition
from penstock.cli.moves.dirs import dir_performing
from penstock.client.admin.log_dir_info import FutureReplicaInfo, LogDirInfo, ReplicaLogInfo
from penstock.client.admin.log_dirs import BrokerLogDirs
from penstock.errors import ApiError, BrokerIdNotRegisteredError, KafkaStorageError, NetworkError
from penstock.messages.configs import ConfigEntry
from tests.unit.cli.moves.fake_cluster import FakeCluster, FakeTime, asked_by_commands

MIB = 1 << 20
TOTAL, USABLE = 1000 * MIB, 500 * MIB


@dataclass(slots=True)
class Coming:
    target: str
    looks: int
    left: int
    waits_for: str = ""


class FakeLogDirs(FakeCluster):
    """Partition N of the topic is the Nth size. Broker ids and log dirs are given for each; what is reassigned comes to
    the first log dir of its broker."""

    def __init__(self, placed: Mapping[int, Mapping[str, Iterable[int]]]) -> None:
        super().__init__(tuple(placed), [])
        self.places: dict[int, dict[str, dict[TopicPartition, int]]] = {}
        for broker_id, dirs in placed.items():
            self.places[broker_id] = {}
            for path, sizes in dirs.items():
                self.places[broker_id][path] = {}
                for size in sizes:
                    self.places[broker_id][path][TopicPartition("t", len(self.partitions))] = size
                    self.add((broker_id,))
        self.coming: dict[tuple[int, TopicPartition], Coming] = {}
        self.offline: set[tuple[int, str]] = set()
        self.usable: dict[str, int] = {}
        self.asked: list[tuple[int, TopicPartition]] = []
        self.most_coming = 0
        self.not_movable: dict[TopicPartition, ApiError] = {}
        self.on_alter: Callable[[], None] = lambda: None
        self.after_alter: Callable[[], None] = lambda: None
        self.configs: dict[str, str] = {}

    def sizes(self, broker_id: int) -> list[int]:
        """The size of each log dir, in MiB."""
        return [sum(replicas.values()) // MIB for replicas in self.places[broker_id].values()]

    def describe_log_dirs(
        self, broker_ids: Collection[int] | None = None, topics: Collection[str] = ()
    ) -> dict[int, BrokerLogDirs]:
        self.on_look()
        for id_ in broker_ids or ():
            if id_ not in self.brokers:
                raise BrokerIdNotRegisteredError(f"broker {id_} is not registered")
        self._follow_metadata()
        for key, move in list(self.coming.items()):
            if key[0] not in self.silent and (broker_ids is None or key[0] in broker_ids):
                self._go_on(*key, move)
        return {id_: self._answer(id_) for id_ in (self.brokers if broker_ids is None else broker_ids)}

    def _follow_metadata(self) -> None:
        for tp, info in self.partitions.items():
            size = max((s for dirs in self.places.values() for d in dirs.values() for t, s in d.items() if t == tp))
            for broker_id, dirs in self.places.items():
                here = [path for path, replicas in dirs.items() if tp in replicas]
                if broker_id in info.replicas and not here:
                    next(iter(dirs.values()))[tp] = size
                elif broker_id not in info.replicas:
                    for path in here:
                        del dirs[path][tp]

    def _go_on(self, broker_id: int, tp: TopicPartition, move: Coming) -> None:
        if (broker_id, move.target) in self.offline:
            del self.coming[broker_id, tp]
            return
        if move.waits_for:
            return
        move.looks -= 1
        if move.looks < 0:
            del self.coming[broker_id, tp]
            size = next(replicas.pop(tp) for replicas in self.places[broker_id].values() if tp in replicas)
            self.places[broker_id][move.target][tp] = size

    def _answer(self, id_: int) -> BrokerLogDirs:
        if id_ in self.silent:
            return BrokerLogDirs(id_, error=NetworkError("it is silent"))
        return BrokerLogDirs(id_, tuple(self._log_dir(id_, path) for path in self.places[id_]))

    def _log_dir(self, id_: int, path: str) -> LogDirInfo:
        if (id_, path) in self.offline:
            return LogDirInfo(path, path, KafkaStorageError("the disk is dead"), -1, -1, {})
        here = {tp: ReplicaLogInfo("id", size, 0, 1) for tp, size in self.places[id_][path].items()}
        coming = {
            tp: FutureReplicaInfo("id", 1, move.left, 1, move.waits_for)
            for (broker_id, tp), move in self.coming.items()
            if (broker_id, move.target) == (id_, path)
        }
        return LogDirInfo(path, path, None, TOTAL, self.usable.get(path, USABLE), here, coming)

    def alter_replica_log_dirs(
        self, broker_id: int, wanted: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ApiError | None]:
        self.on_alter()
        if broker_id in self.silent:
            raise NetworkError("it is silent")
        for tp, path in wanted.items():
            self.asked.append((broker_id, tp))
            if tp not in self.not_movable:
                self.coming[broker_id, tp] = Coming(path, self.looks, self.left())
        self.most_coming = max(self.most_coming, len(self.coming))
        self.after_alter()
        return {tp: self.not_movable.get(tp) for tp in wanted}

    def describe_broker_config(self, node_id: int | None) -> dict[str, ConfigEntry]:
        return {key: ConfigEntry(key, value, "", "LONG", "") for key, value in self.configs.items()}

    def alter_broker_config(self, node_id: int | None, changes: Mapping[str, Any]) -> None:
        for key, value in changes.items():
            if value is None:
                self.configs.pop(key, None)
            else:
                self.configs[key] = str(value)


def asked_for_dirs(monkeypatch: pytest.MonkeyPatch, made: FakeLogDirs) -> FakeLogDirs:
    """It answers every command."""
    asked_by_commands(monkeypatch, made)
    monkeypatch.setattr(dir_performing, "time", FakeTime())
    return made
