"""The lines that a person needs to follow a story, besides those of the world and of the processes: one for each
change.

    node-1#2 begins, has ended, waits (SIGSTOP)       a process
    quorum: node-1#2 Follower → Candidate, epoch 4    a voter's state
    broker 1 is fenced; topic-0-1: leader 2 → 1, …    what the quorum has committed, once, when the first node has it
    node-1#2: topic-0-1 is cut from 77 to 73          a replica's log or high watermark that fell
    node-1#2: topic-0-1: high watermark 63 → 80 …     one that moves again after it stood still below the log end
    clients: 12 acked, 3 failed (…)                   a second of the clients

It looks after each step, so a story costs about a fifth more; without it nothing looks. It draws nothing: the digest is
the same with it. Not here: what must hold (invariants.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.replication.partition import Partition
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.registrations import BrokerRegistration, PartitionRegistration
from penstock.types import TopicPartition
from raft.quorum_state import State
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.scheduler import Process

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

STANDSTILL_SECONDS = 1.0
"""A high watermark that stood below the log end for so long is worth a line when it moves."""
CLIENTS_SECONDS = 1.0


@dataclass
class _Seen:
    """One replica of one process, as it was."""

    end: int
    high_watermark: int
    waits_since_s: float | None = None
    """The high watermark has stood still below the log end since then."""


class Transcript:
    """Says more of a world's story."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._say = world.say
        self._image = EMPTY_IMAGE
        self._states: dict[str, tuple[str, bool, bool]] = {}
        """By machine: its process, whether that waits, whether the machine has power."""
        self._refusals: dict[str, int] = {}
        self._quorum: dict[str, tuple[State, int]] = {}
        self._replicas: dict[tuple[str, TopicPartition], _Seen] = {}
        self._shown_s = world.scheduler.now_s
        self._shown_counts = (0, 0)
        self._errors: Counter[str] = Counter()

    def after_step(self, process: Process) -> None:
        for machine in self._world.machines:
            self._note_process(machine)
            if machine.process is process and machine.node is not None:
                self._note_node(machine, process.name)
        if self._world.scheduler.now_s >= self._shown_s + CLIENTS_SECONDS:
            self._shown_s = self._world.scheduler.now_s
            self._note_clients()

    # -- processes -----------------------------------------------------------------------------------------------------

    def _note_process(self, machine: Machine) -> None:
        process = machine.process
        name = process.name if process is not None else ""
        now = name, process is not None and process.is_paused, machine.has_power
        before = self._states.get(machine.name, ("", False, True))
        if now == before:
            return
        self._states[machine.name] = now
        (was, was_paused, had_power), (_, is_paused, has_power) = before, now
        if had_power != has_power:
            self._say(f"{machine.name} {'has power again' if has_power else 'has no power'}")
        if was != name:
            if was:
                self._say(f"{was} has ended{self._why(machine)}")
            if name:
                self._say(f"{name} begins")
        elif was_paused != is_paused:
            self._say(f"{name} {'waits' if is_paused else 'goes on'}")

    def _why(self, machine: Machine) -> str:
        if len(machine.refusals) == self._refusals.get(machine.name, 0):
            return ""
        self._refusals[machine.name] = len(machine.refusals)
        return f": {machine.refusals[-1]!r}"

    # -- a node --------------------------------------------------------------------------------------------------------

    def _note_node(self, machine: Machine, name: str) -> None:
        node = machine.node
        assert node is not None
        core = node.raft.core
        if core is not None and machine.name in self._voters():
            quorum = core.state, core.epoch
            before = self._quorum.get(name)
            if before != quorum:
                self._quorum[name] = quorum
                was = f"{before[0].value} → " if before is not None else ""
                self._say(f"quorum: {name} {was}{quorum[0].value}, epoch {quorum[1]}")
        image = node.loader.image
        if image.offset > self._image.offset:
            before_image, self._image = self._image, image
            for line in image_changes(before_image, image):
                self._say(line)
        for partition in node.broker.replication.replicas.hosted.all() if node.broker is not None else ():
            self._note_replica(name, partition)

    def _voters(self) -> frozenset[str]:
        return frozenset(f"node-{index}" for index in self._world.plan.voters)

    def _note_replica(self, name: str, partition: Partition) -> None:
        end, high_watermark = partition.log.log_end_offset, partition.high_watermark
        key, now_s = (name, partition.topic_partition), self._world.scheduler.now_s
        seen = self._replicas.get(key)
        if seen is None:
            self._replicas[key] = _Seen(end, high_watermark)
            self._say(f"{name}: {partition.topic_partition} is here: high watermark {high_watermark}, end {end}")
            return
        if end < seen.end:
            self._say(f"{name}: {partition.topic_partition} is cut from {seen.end} to {end}")
        if high_watermark < seen.high_watermark:
            self._say(f"{name}: {partition.topic_partition}: high watermark FALLS: {_step(seen, high_watermark)}")
        elif high_watermark > seen.high_watermark and seen.waits_since_s is not None and partition.leading is not None:
            stood_s = now_s - seen.waits_since_s
            if stood_s >= STANDSTILL_SECONDS:
                step = _step(seen, high_watermark)
                self._say(f"{name}: {partition.topic_partition}: high watermark {step} after {stood_s:.1f} s")
        if high_watermark >= end:
            seen.waits_since_s = None
        elif high_watermark != seen.high_watermark or seen.waits_since_s is None:
            seen.waits_since_s = now_s
        seen.end, seen.high_watermark = end, high_watermark

    # -- clients -------------------------------------------------------------------------------------------------------

    def _note_clients(self) -> None:
        clients = self._world.clients
        acked, failed = clients.acked - self._shown_counts[0], clients.failed_records - self._shown_counts[1]
        if acked or failed:
            errors = clients.errors - self._errors
            why = ", ".join(f"{name} {number}" for name, number in sorted(errors.items()))
            self._say(f"clients: {acked} acked" + (f", {failed} failed ({why})" if failed else ""))
        self._shown_counts = clients.acked, clients.failed_records
        self._errors = clients.errors.copy()


def _step(seen: _Seen, high_watermark: int) -> str:
    return f"{seen.high_watermark} → {high_watermark}"


# -- what was committed ------------------------------------------------------------------------------------------------


def image_changes(before: MetadataImage, after: MetadataImage) -> Iterator[str]:
    """A line for each broker, topic and partition that is another."""
    if after.brokers is not before.brokers:
        for broker_id in sorted(before.brokers.keys() | after.brokers.keys()):
            yield from _broker_changes(broker_id, before.brokers.get(broker_id), after.brokers.get(broker_id))
    if after.topics_by_id is not before.topics_by_id:
        for topic_id in sorted(before.topics_by_id.keys() | after.topics_by_id.keys()):
            old, new = before.topics_by_id.get(topic_id), after.topics_by_id.get(topic_id)
            if old is None or new is None:
                name = (new or old).name  # type: ignore[union-attr]
                yield f"topic {name} is {'made' if old is None else 'deleted'}"
            nothing: Mapping[int, PartitionRegistration] = {}
            were = old.partitions if old is not None else nothing
            for number, partition in new.partitions.items() if new is not None else ():
                if partition != were.get(number) and new is not None:
                    yield f"{new.name}-{number}: {_partition_change(were.get(number), partition)}"
    for resource in sorted(after.configs.keys() | before.configs.keys(), key=repr):
        if (new_config := after.configs.get(resource)) != before.configs.get(resource):
            yield f"config of {resource.resource_name}: {dict(new_config or {})}"


def _broker_changes(broker_id: int, old: BrokerRegistration | None, new: BrokerRegistration | None) -> Iterator[str]:
    if new is None:
        yield f"broker {broker_id} is not registered any more"
    elif old is None or old.broker_epoch != new.broker_epoch:
        yield f"broker {broker_id} is registered, broker epoch {new.broker_epoch}{', fenced' if new.fenced else ''}"
    else:
        if old.fenced != new.fenced:
            yield f"broker {broker_id} is {'fenced' if new.fenced else 'unfenced'}"
        if old.in_controlled_shutdown != new.in_controlled_shutdown:
            yield f"broker {broker_id} {'shuts down' if new.in_controlled_shutdown else 'shuts down no longer'}"


def _partition_change(old: PartitionRegistration | None, new: PartitionRegistration) -> str:
    if old is None:
        return f"leader {new.leader_id}, ISR {list(new.isr)}, replicas {list(new.replicas)}"
    said = []
    if old.leader_id != new.leader_id:
        said.append(f"leader {old.leader_id} → {new.leader_id}")
    if old.leader_epoch != new.leader_epoch:
        said.append(f"leader epoch {new.leader_epoch}")
    if old.isr != new.isr:
        said.append(f"ISR {list(old.isr)} → {list(new.isr)}")
    if old.elr != new.elr:
        said.append(f"ELR {list(old.elr)} → {list(new.elr)}")
    if old.replicas != new.replicas:
        said.append(f"replicas {list(old.replicas)} → {list(new.replicas)}")
    if new.log_lost:
        said.append("its log is lost")
    return ", ".join([*said, f"partition epoch {new.partition_epoch}"])
