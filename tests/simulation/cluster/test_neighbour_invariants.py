"""I55 finds an ack that is held up for nothing, and lets pass what its docstring exempts: told to a healthy cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.messages.security.quotas import PRODUCER_BYTE_RATE, QuotaEntity
from penstock.types import TopicPartition
from tests.simulation.cluster.durable_log import Violated
from tests.simulation.cluster.hangs import SYNCS, Hang
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.neighbour_invariants import ACKED_SECONDS
from tests.simulation.cluster.network import CLIENTS
from tests.simulation.cluster.test_invariants import Scene, judged
from tests.support.machine import THREADS

TP = TopicPartition("topic", 0)
Trouble = Callable[[Scene, PartitionQueue], object]


def _is_found(
    scene: Scene,
    seconds: float = ACKED_SECONDS + 0.1,
    trouble: Trouble = lambda scene, queue: None,
    throttled_ms: int = 0,
) -> bool:
    """True if a producer that waits so long for the ack of a batch is found; `trouble` comes before the second look.
    `throttled_ms`: the rest of the time that brokers have told it to wait."""
    neighbours, now_s = scene.invariants.clients.neighbours, scene.world.scheduler.now_s
    queue = PartitionQueue(TP, 1_000)
    queue.in_flight = [ProducerBatch(TP, 0, 0, THREADS)]
    real = neighbours.cores[0]
    partitions: Any = SimpleNamespace(queues=lambda: [queue])
    sender = SimpleNamespace(throttled_ms=lambda node_id: throttled_ms)
    core: Any = SimpleNamespace(
        closed=False, clock=real.clock, cluster=real.cluster, partitions=partitions, sender=sender
    )
    neighbours.watch(core)
    try:
        neighbours.deep(now_s)
        trouble(scene, queue)
        neighbours.deep(now_s + seconds)
    except Violated as violated:
        assert str(violated).startswith("I55: ")
        return True
    finally:
        neighbours.cores.remove(core)
    return False


@contextmanager
def _hangs(machine: Machine, log_dir: str) -> Iterator[None]:
    machine.faults.hung[log_dir] = Hang(SYNCS, 0.0)
    try:
        yield
    finally:
        del machine.faults.hung[log_dir]


@contextmanager
def _with_another_metadata_dir(scene: Scene) -> Iterator[None]:
    """A member of the ISR has its metadata log in a log dir that hangs, and the partition in one that answers."""
    machine, partition = scene.follower
    log_dir, partition.log.log_dir = partition.log.log_dir, "/machine/another"
    try:
        with _hangs(machine, machine.config.metadata_log_dir):
            yield
    finally:
        partition.log.log_dir = log_dir


@contextmanager
def _quotas(scene: Scene) -> Iterator[None]:
    """The metadata has a quota."""
    metadata = scene.invariants.metadata
    before, of_all = metadata.newest, {QuotaEntity(client_id=""): {PRODUCER_BYTE_RATE: 30_000.0}}
    metadata.newest = replace(before, quotas=of_all)
    try:
        yield
    finally:
        metadata.newest, scene.invariants.clients.neighbours.had_quotas = before, False


def test_an_ack_that_is_held_up_is_found_whatever_hangs_elsewhere() -> None:
    found: list[bool] = []

    def lie(scene: Scene) -> None:
        machine, _ = scene.follower
        found.append(_is_found(scene))
        with _hangs(machine, "/machine/another"):
            found.append(_is_found(scene))

        with _with_another_metadata_dir(scene):
            found.append(_is_found(scene))

        found.append(_is_found(scene, throttled_ms=1))
        with _quotas(scene):
            found.append(_is_found(scene))

    assert not judged(lie).failures
    assert found == [True, True, True, True, True], "nobody has a quota, or nobody was told to wait for it"


def test_what_exempts_an_ack_is_not_found() -> None:
    found: dict[str, bool] = {}

    def refuse(scene: Scene, queue: PartitionQueue) -> None:
        queue.not_before_ms = 1 << 62

    def forget_id(scene: Scene, queue: PartitionQueue) -> None:
        queue.lacks_producer_id = True

    def start_anew(scene: Scene, queue: PartitionQueue) -> None:
        scene.follower[0].lives += 1

    def break_link(scene: Scene, queue: PartitionQueue) -> None:
        scene.leader[0].network.link(CLIENTS, scene.leader[0].name).breaks += 1

    def ack(scene: Scene, queue: PartitionQueue) -> None:
        queue.in_flight = [ProducerBatch(TP, 0, 0, THREADS)]

    def truth(scene: Scene) -> None:
        machine, partition = scene.follower
        leader = scene.leader[0]
        found["not so long"] = _is_found(scene, ACKED_SECONDS - 0.1)
        with _hangs(machine, partition.log.log_dir):
            found["a member of the ISR has it in a log dir that hangs"] = _is_found(scene)
        with _with_another_metadata_dir(scene):
            state = partition.state
            partition.state = replace(state, leader_epoch=state.leader_epoch - 1)
            found["a member has not heard of the leader epoch, and its metadata log hangs"] = _is_found(scene)
            partition.state = state
        machine.faults.slow_seconds["/machine"] = 0.1
        found["the disk of a member is slow"] = _is_found(scene)
        machine.faults.slow_seconds.clear()
        found["a member was started anew meanwhile"] = _is_found(scene, trouble=start_anew)
        machine.lives -= 1
        link = leader.network.link(CLIENTS, leader.name)
        link.late_until_s = scene.world.scheduler.now_s + 10
        found["a message is late"] = _is_found(scene)
        link.late_until_s = 0.0
        found["a link was broken meanwhile"] = _is_found(scene, trouble=break_link)
        found["the producer was refused"] = _is_found(scene, trouble=refuse)
        found["the producer has no id"] = _is_found(scene, trouble=forget_id)
        with _quotas(scene):
            found["the producer has used its quota up"] = _is_found(scene, throttled_ms=1)
        found["another batch was acked meanwhile"] = _is_found(scene, trouble=ack)

    assert not judged(truth).failures
    assert len(found) == 11 and not any(found.values()), found
