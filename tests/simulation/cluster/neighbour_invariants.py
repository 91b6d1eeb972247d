"""I55, now and then: a partition that does not commit, because a disk hangs or a follower is slow, holds up no other.

A batch that is the oldest of its partition in a producer is acked within ACKED_SECONDS. What exempts it is all in
`_footing` and `_oldest`; whenever one of these things is so, or anything that they name changes, the time begins anew:

- The leader, or a member of its maximal ISR, is down, paused, stopping, or not on its feet: its disks are slow, full or
  fail, a call of it is about to fail, or its event loop was caught by the beginning of a hang (ADR 0014, I54).
- One of them has the partition in a log dir that hangs, or moves it to another one.
- One of them has not heard of the leader epoch, and its metadata log hangs: it hears of nothing until the disk answers.
- The partition cannot commit: too few replicas are in sync, or it has an ELR.
- A link between two of them, or to the clients, is cut, was broken, or has a message under way that is late.
- The producer does not know the leader yet, has no producer id, or backs off after a refusal: finding out is I34's.
- There are quotas, and the leader has told the producer to wait; it sends nothing before the end of that time.

Other log dirs of the same nodes may hang, also those with the metadata log: nobody needs it without an election. Of the
limit a tenth is the product's (`PART_AFTER_MS`); the rest is for slow syncs and messages, and for requests that meet
several partitions which stand still, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from metadata.registrations import PartitionRegistration
from penstock.client.cluster.metadata_cache import Leader
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.producer_core import ProducerCore
from penstock.types import TopicPartition
from tests.simulation.cluster.durable_log import Violated
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.metadata_invariants import MetadataInvariants
from tests.simulation.cluster.network import CLIENTS
from tests.simulation.cluster.partition_invariants import hosted_by

ACKED_SECONDS = 2.0


class Footing(NamedTuple):
    """Why a partition should ack: while it stays the same, nothing has come in between."""

    topic_id: str
    leader: Leader
    lives: tuple[tuple[str, int], ...]
    """The lives of the nodes that an ack needs."""
    trouble: int
    """How often the links between them have been cut and broken."""


class NeighbourInvariants:
    """See the module."""

    def __init__(self, machines: Sequence[Machine], metadata: MetadataInvariants) -> None:
        self._machines, self._metadata = machines, metadata
        self.cores: list[ProducerCore] = []
        self._since: dict[PartitionQueue, tuple[Footing, ProducerBatch, float]] = {}
        """Since when a queue has waited for this batch, on this footing."""
        self.had_quotas = False
        """Clients have quotas, or had them: a wait that one was told outlives the quota."""

    def watch(self, core: ProducerCore) -> None:
        """A new producer's."""
        self.cores.append(core)

    def deep(self, now_s: float) -> None:
        self.cores = [core for core in self.cores if not core.closed]
        self.had_quotas = self.had_quotas or bool(self._metadata.newest.quotas)
        footings = dict(self._footings(now_s)) if self.cores else {}
        before, self._since = self._since, {}
        for core in self.cores:
            for queue in core.partitions.queues():
                footing = footings.get(queue.topic_partition)
                batch = self._oldest(core, queue, footing) if footing is not None else None
                if footing is not None and batch is not None:
                    *was, since_s = before.get(queue, (None, None, now_s))
                    since_s = since_s if was == [footing, batch] else now_s
                    self._since[queue] = footing, batch, since_s
                    self._check(queue.topic_partition, footing, now_s - since_s)

    def _check(self, tp: TopicPartition, footing: Footing, waits_s: float) -> None:
        if waits_s > ACKED_SECONDS:
            hung = [f"{log_dir} hangs" for machine in self._machines for log_dir in machine.faults.hung]
            raise Violated(
                f"I55: a producer has waited {waits_s:.1f} s for an ack of {tp}, {footing.leader}, and nothing is wrong"
                f" with {', '.join(name for name, _ in footing.lives)} there; {', '.join(hung) or 'no disk hangs'}"
            )

    def _footings(self, now_s: float) -> Iterator[tuple[TopicPartition, Footing]]:
        for name, topic in self._metadata.newest.topics_by_name.items():
            for number, known in topic.partitions.items():
                tp = TopicPartition(name, number)
                footing = self._footing(tp, known, now_s)
                if footing is not None:
                    yield tp, footing

    def _footing(self, tp: TopicPartition, known: PartitionRegistration, now_s: float) -> Footing | None:
        leader = next((m for m in self._machines if m.config.node_id == known.leader_id), None)
        led = hosted_by(leader).find(tp) if leader is not None else None
        leading = led.leading if led is not None and led.topic_id == known.topic_id else None
        if leader is None or led is None or leading is None or leading.leader_epoch != known.leader_epoch:
            return None
        if not (leading.may_commit(led.min_insync_replicas) and leader.is_in_service):
            return None
        needed = leading.maximal_isr.union(known.isr)
        members = [machine for machine in self._machines if machine.config.node_id in needed]
        if not all(_is_well(machine) and _serves(machine, tp, known.topic_id) for machine in members):
            return None
        if any(self._waits_for_metadata(machine, tp, known) for machine in members):
            return None
        names = {CLIENTS, *(machine.name for machine in members)}
        links = [link for way, link in sorted(leader.network.links.items()) if names.issuperset(way)]
        if any(link.is_cut or link.late_until_s > now_s for link in links):
            return None
        lives = tuple((machine.name, machine.lives) for machine in members)
        trouble = sum(link.cuts + link.breaks for link in links)
        return Footing(known.topic_id, Leader(known.leader_id, known.leader_epoch), lives, trouble)

    @staticmethod
    def _waits_for_metadata(machine: Machine, tp: TopicPartition, known: PartitionRegistration) -> bool:
        replica = hosted_by(machine).find(tp)
        is_late = replica is not None and replica.state.leader_epoch < known.leader_epoch
        return is_late and machine.config.metadata_log_dir in machine.faults.hung

    def _oldest(self, core: ProducerCore, queue: PartitionQueue, footing: Footing) -> ProducerBatch | None:
        """The oldest batch of a producer that knows the leader and is about to send, or has sent."""
        cache, tp = core.cluster.cache, queue.topic_partition
        if cache.leader(tp) != footing.leader or cache.topic_id(tp.topic) != footing.topic_id:
            return None
        if queue.lacks_producer_id or queue.not_before_ms > core.clock.now_ms():
            return None
        if self.had_quotas and core.sender.throttled_ms(footing.leader.node_id):
            return None
        waiting = [*queue.in_flight, *queue.ready, *([queue.open] if queue.open is not None else [])]
        return min(waiting, key=lambda batch: batch.created_ms, default=None)


def _is_well(machine: Machine) -> bool:
    """The node runs, and only a log dir that hangs may be wrong with its disks."""
    process, faults = machine.process, machine.faults
    if process is None or machine.node is None or process.is_paused or machine.asked_to_stop.is_set():
        return False
    if faults.full or faults.failing or faults.slow_seconds or faults.fail_next or faults.strike:
        return False
    return not any(process in hang.caught for hang in faults.hung.values())


def _serves(machine: Machine, tp: TopicPartition, topic_id: str) -> bool:
    """From a log dir that answers."""
    replica = hosted_by(machine).find(tp)
    if replica is None or replica.topic_id != topic_id or replica.offline is not None:
        return False
    node, log_dir = machine.node, replica.log.log_dir
    moves = node.broker.replication.log_dir_moves.table.moves if node is not None and node.broker is not None else {}
    return log_dir not in machine.faults.hung and tp not in moves
