"""I49, I50, I51: which directory of a broker's log dirs is a replica, also while it moves from one log dir to another.

By the durable bytes, as a start after a power cut decides it: the directory with the log's own name; in the middle of
a swap, the copy for which the log was put aside (`storage/log_dirs/future_directories.py`). What a replica must hold is
looked for there (partition_invariants.py, claim_invariants.py): so a swap that comes too early, or a rename that a
power cut takes back, is a loss at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from metadata.registrations import PartitionKey, PartitionRegistration
from penstock.types import TopicPartition
from storage.disk.file_names import (
    FUTURE_DIRECTORY_SUFFIX,
    MOVED_DIRECTORY_SUFFIX,
    PARTITION_METADATA,
    move_directory,
    parse_move_directory,
    partition_directory,
)
from tests.simulation.cluster.durable_log import Violated, durable_entries, parts_of
from tests.support.losing_fs import Directory, File

if TYPE_CHECKING:
    from broker.replication.partition import Partition
    from tests.simulation.cluster.machine import Machine

Entries = Mapping[str, File | Directory]


class ReplicaPlace:
    """Where one replica is. Two topics of one name differ by the id in the directory."""

    def __init__(self, machine: Machine, topic_partition: TopicPartition, topic_id: str, directory: str) -> None:
        self._machine, self._topic_partition, self._directory = machine, topic_partition, directory
        self._name, self._topic_id = partition_directory(topic_partition), topic_id

    def directory(self) -> str:
        """The newest one that was known, where nothing of it is durable."""
        log_dirs = self._machine.config.log_dirs
        if len(log_dirs) > 1:
            entries = {log_dir: _durable_in(self._machine, log_dir) for log_dir in log_dirs}
            homes = [f"{log_dir}/{self._name}" for log_dir in log_dirs if self._is_it(entries[log_dir], self._name)]
            if self._directory not in homes:
                self._directory = homes[0] if homes else self._in_a_swap(entries) or self._directory
        return self._directory

    def _is_it(self, entries: Entries, name: str) -> bool:
        return is_of(entries.get(name), self._topic_id)

    def _in_a_swap(self, entries: Mapping[str, Entries]) -> str | None:
        """The log is put aside: its copy counts, if that is there."""
        found = None
        for log_dir, names in entries.items():
            for name in names:
                parsed = parse_move_directory(name) if name.endswith(MOVED_DIRECTORY_SUFFIX) else None
                if parsed is not None and parsed[0] == self._topic_partition and self._is_it(names, name):
                    copy = move_directory(parsed[0], parsed[1], FUTURE_DIRECTORY_SUFFIX)
                    copies = (f"{other}/{copy}" for other in entries if copy in entries[other])
                    found = next(copies, f"{log_dir}/{name}")
        return found


def is_of(entry: File | Directory | None, topic_id: str) -> bool:
    """True if a directory says durably that it holds records of this topic."""
    file = entry.durable.get(PARTITION_METADATA) if isinstance(entry, Directory) else None
    return isinstance(file, File) and topic_id.encode() in file.durable


def check_place(machine: Machine, partition: Partition) -> None:
    """I49: no other log dir that works has a directory that a start would take for the replica that is in use."""
    node, name = machine.node, partition_directory(partition.topic_partition)
    if node is None or partition.offline is not None or partition.log.closed or len(machine.config.log_dirs) == 1:
        return
    for log_dir in node.log_manager.checkpoints.log_dirs:
        is_other = log_dir != partition.log.log_dir
        if is_other and is_of(_durable_in(machine, log_dir).get(name), partition.topic_id):
            raise Violated(
                f"I49: {machine.name}, {partition.topic_partition} is served from {partition.log.log_dir}, and a power"
                f" cut leaves a log of it in {log_dir}"
            )


class NamedPlaces:
    """I51: the log dirs that committed metadata named for each replica since the replica came to where it is."""

    def __init__(self) -> None:
        self._named: dict[tuple[PartitionKey, int], set[str]] = {}
        self._last: dict[tuple[PartitionKey, int], str] = {}

    def changed(self, partition: PartitionRegistration) -> None:
        for broker_id in partition.replicas:
            self._last[partition.key, broker_id] = log_dir = partition.directory_of(broker_id)
            self._named.setdefault((partition.key, broker_id), set()).add(log_dir)

    def moved(self, machine: Machine, partition: Partition) -> None:
        """It is served from another log dir than before."""
        if machine.node is None:
            return
        key = PartitionKey(partition.topic_id, partition.topic_partition.partition), partition.broker_id
        log_dir = machine.node.log_manager.directory_id(partition.log.log_dir)
        named = self._named.get(key, set())
        if log_dir not in named:
            raise Violated(
                f"I51: {machine.name}, {partition.topic_partition} has moved to {partition.log.log_dir}, and the"
                " controller has not been told before"
            )
        self._named[key] = {self._last[key]}


def between_log_dirs(brokers: Sequence[Machine]) -> list[str]:
    """I50: the moves that are not over, and the directories of moves."""
    return [text for machine in brokers for text in _moves_of(machine)]


def _moves_of(machine: Machine) -> Iterator[str]:
    node = machine.node
    if node is None or node.broker is None:
        yield f"{machine.name} is down"
        return
    for key, move in node.broker.replication.log_dir_moves.table.moves.items():
        yield f"{machine.name}: {key} moves to {move.side.log_dir}"
    for log_dir in machine.config.log_dirs:
        for name in sorted({*machine.disk.directory_at(log_dir).entries, *_durable_in(machine, log_dir)}):
            if parse_move_directory(name) is not None:
                yield f"{machine.name} has {log_dir}/{name}"


def _durable_in(machine: Machine, log_dir: str) -> Entries:
    return durable_entries(machine.disk, parts_of(log_dir)) or {}
