"""The activities of a cluster at one moment, by name: a fault that comes while nothing else is wrong shows little.

World asks when a fault begins, and the outcome counts the pairs; fault_table.py prints them, and those that never came.
Reads the nodes' own state, draws nothing and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from broker.node.node import Node
from broker.replication.partition import Partition
from metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.types import TopicPartition
from raft.quorum_state import State
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.plan import Fault

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World


class Condition(StrEnum):
    """In the order in which the table has them."""

    HEALTHY = "nothing is wrong"
    ELECTING = "a voter asks for votes"
    NO_CONTROLLER = "no node is the active controller"
    TWO_CONTROLLERS = "two nodes take themselves for the active controller"
    NO_LEADER = "a partition has no leader"
    LEADER_GONE = "a partition's leader is down or waits, and the quorum does not know it"
    TWO_LEADERS = "two nodes take themselves for the leader of a partition"
    ISR_BELOW_FULL = "an ISR lacks a replica"
    ISR_BELOW_MIN = "an ISR is below min.insync.replicas"
    DOWN = "a node is down"
    RECOVERING = "a node opens its logs"
    FENCED = "a broker runs and is fenced"
    STOPPING = "a node stops in order"
    PAUSED = "a process waits (SIGSTOP)"
    ROLLING = "the nodes are restarted one after the other"
    CATCHING_UP = "a follower lacks records of its leader"
    TRUNCATING = "a follower has to be cut, or is being cut"
    UNFLUSHED = "a leader has records that are not durable"
    CLEANING = "a log is cleaned"
    DELETING = "segments or logs are deleted"
    RELOCATING = "a replica moves between the log dirs of its broker"
    CUT = "a link is cut"
    BAD_DISK = "a log dir fails, is full, or is slow"
    ON_CONTROLLER = "the fault is of the active controller's node"
    ON_LEADER = "the fault is of a partition leader's node"
    ON_DOWN = "the fault is of a node that is down"


_ASKING = (State.PROSPECTIVE, State.CANDIDATE)
_JOBS = {"log-cleaner": Condition.CLEANING, "log-retention": Condition.DELETING, "delete-logs": Condition.DELETING}
ALWAYS_THERE = frozenset({Condition.UNFLUSHED, Condition.ON_CONTROLLER, Condition.ON_LEADER})
"""They come in a healthy cluster, too."""


def conditions(world: World, fault: Fault) -> tuple[Condition, ...]:
    """The conditions that hold when the fault begins."""
    found = frozenset(
        (
            *_of_processes(world),
            *_of_quorum(world),
            *_of_partitions(world),
            *_of_jobs(world),
            *_of_machines(world),
            *_of_target(world, fault),
        )
    )
    healthy = (Condition.HEALTHY,) if found <= ALWAYS_THERE else ()
    return healthy + tuple(condition for condition in Condition if condition in found)


def works(world: World) -> bool:
    """There is a controller, and each partition has a leader that runs: clients get on."""
    if not active_controllers(world):
        return False
    leading = {
        (partition.topic_partition, partition.broker_id)
        for machine, node in live_nodes(world)
        if machine.process is not None and not machine.process.is_paused and node.broker is not None
        for partition in node.broker.replication.replicas.hosted.all()
        if partition.leading is not None
    }
    return all(
        (TopicPartition(name, number), known.leader_id) in leading
        for name, topic in newest_image(world).topics_by_name.items()
        for number, known in topic.partitions.items()
    )


def live_nodes(world: World) -> list[tuple[Machine, Node]]:
    """The nodes that run, with their machines."""
    return [(machine, machine.node) for machine in world.machines if machine.node is not None]


def newest_image(world: World) -> MetadataImage:
    """The image that the quorum has committed, as far as any live node knows."""
    images = [node.loader.image for _, node in live_nodes(world)]
    return max(images, key=lambda image: image.offset, default=EMPTY_IMAGE)


def _of_processes(world: World) -> Iterator[Condition]:
    if world.rolls_under_way:
        yield Condition.ROLLING
    for machine in world.machines:
        if machine.process is None:
            yield Condition.DOWN
        elif machine.process.is_paused:
            yield Condition.PAUSED
        elif machine.node is None:
            yield Condition.STOPPING if machine.asked_to_stop.is_set() else Condition.RECOVERING
        elif not machine.is_in_service:
            yield Condition.FENCED


def _of_quorum(world: World) -> Iterator[Condition]:
    cores = [node.raft.core for _, node in live_nodes(world)]
    if any(core is not None and core.state in _ASKING for core in cores):
        yield Condition.ELECTING
    active = active_controllers(world)
    if not active:
        yield Condition.NO_CONTROLLER
    elif len(active) > 1:
        yield Condition.TWO_CONTROLLERS


def active_controllers(world: World) -> list[Machine]:
    return [machine for machine, node in live_nodes(world) if node.controller is not None and node.controller.is_active]


def _of_partitions(world: World) -> Iterator[Condition]:
    image, replicas = newest_image(world), _replicas(world)
    for name, topic in image.topics_by_name.items():
        for number, known in topic.partitions.items():
            yield from _of_partition(replicas.get(TopicPartition(name, number), {}))
            leader = world.machines[known.leader_id] if known.leader_id >= 0 else None
            if leader is None:
                yield Condition.NO_LEADER
            elif leader.process is None or leader.process.is_paused:
                yield Condition.LEADER_GONE
            if len(known.isr) < len(known.replicas):
                yield Condition.ISR_BELOW_FULL
            wanted = image.topic_config(name).get("min.insync.replicas", world.plan.config.get("min.insync.replicas"))
            if len(known.isr) < int(str(wanted or 1)):
                yield Condition.ISR_BELOW_MIN


def _replicas(world: World) -> dict[TopicPartition, dict[str, Partition]]:
    found: dict[TopicPartition, dict[str, Partition]] = {}
    for machine, node in live_nodes(world):
        for partition in node.broker.replication.replicas.hosted.all() if node.broker is not None else ():
            found.setdefault(partition.topic_partition, {})[machine.name] = partition
    return found


def _of_partition(replicas: dict[str, Partition]) -> Iterator[Condition]:
    leaders = [partition for partition in replicas.values() if partition.leading is not None]
    if len(leaders) > 1:
        yield Condition.TWO_LEADERS
    for leader in leaders[:1]:
        end = leader.log.log_end_offset
        if leader.log.flushed_offset < end:
            yield Condition.UNFLUSHED
        for partition in replicas.values():
            if partition.log.log_end_offset < end:
                yield Condition.CATCHING_UP
            elif partition.log.log_end_offset > end:
                yield Condition.TRUNCATING


def _of_jobs(world: World) -> Iterator[Condition]:
    for _, node in live_nodes(world):
        if node.broker is None:
            continue
        if node.broker.replication.log_dir_moves.table.moves:
            yield Condition.RELOCATING
        for job in node.broker.disks.scheduler.statistics():
            if job.is_running and (condition := _JOBS.get(job.name.partition(" ")[0])) is not None:
                yield condition
        if any(fetcher.truncating_partitions for fetcher in node.broker.replication.fetchers.statistics().values()):
            yield Condition.TRUNCATING


def _of_machines(world: World) -> Iterator[Condition]:
    if any(link.is_cut for link in world.network.links.values()):
        yield Condition.CUT
    for machine in world.machines:
        if machine.faults.failing or machine.faults.full or machine.faults.slow_seconds or machine.faults.hung:
            yield Condition.BAD_DISK


def _of_target(world: World, fault: Fault) -> Iterator[Condition]:
    machine = world.machines[fault.target]
    if machine.process is None:
        yield Condition.ON_DOWN
    if machine in active_controllers(world):
        yield Condition.ON_CONTROLLER
    broker = machine.node.broker if machine.node is not None else None
    if broker is not None and any(
        partition.leading is not None for partition in broker.replication.replicas.hosted.all()
    ):
        yield Condition.ON_LEADER
