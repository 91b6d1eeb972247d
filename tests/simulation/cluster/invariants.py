"""Checks a simulated cluster against docs/invariants.md: after every step of every node, and now and then.

After a step, only what the process that took it may have changed: its quorum state, its image, its partitions. Each
0.25 s, and at the end, also what no step announces: disks after crashes, logs, limits. A check reads the real objects
and the simulated disks, draws nothing and takes no simulated time, so it changes no seed's story. Not here: what
readers see (tests/chaos/ledger.py), and the end of the story: I23, I25 (world.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.node.node import Node
from broker.quorum.metadata_publisher import topic_defaults
from broker.replication.hosting.hosted_partitions import HostedPartitions
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.registrations import PartitionKey
from tests.chaos.ledger import Ledger, encode_value
from tests.simulation.cluster.claim_invariants import ClaimInvariants
from tests.simulation.cluster.client_invariants import ClientInvariants
from tests.simulation.cluster.config_invariants import ConfigInvariants
from tests.simulation.cluster.durable_log import Violated
from tests.simulation.cluster.file_claims import HeardLogs
from tests.simulation.cluster.heard import HeardNode
from tests.simulation.cluster.lease_invariants import first_deposed, may_answer_deposed
from tests.simulation.cluster.liveness_invariants import LivenessInvariants
from tests.simulation.cluster.machine import DESCRIPTORS_MAX, Machine
from tests.simulation.cluster.metadata_invariants import MetadataInvariants
from tests.simulation.cluster.network import CLIENTS
from tests.simulation.cluster.partition_invariants import PartitionInvariants, hosted_of
from tests.simulation.cluster.plan import DELIVERY_TIMEOUT_MS, Plan
from tests.simulation.cluster.producer_invariants import ProducerInvariants
from tests.simulation.cluster.quorum_invariants import QuorumInvariants, SeenQuorum
from tests.simulation.cluster.reassignment_invariants import ReassignmentInvariants
from tests.simulation.cluster.replica_invariants import check_replicas
from tests.simulation.cluster.share_invariants import ShareInvariants

if TYPE_CHECKING:
    from tests.simulation.cluster.scheduler import Process, Scheduler
    from tests.simulation.cluster.security.secured import Secured

DEEP_SECONDS = 0.25
UNDER_WAY_SECONDS = 2.0
"""A fetch's answer may take so long: twice as long as the latest message of any weather."""
LATE_MS_MAX = 100
"""After its time-out a record has so long to fail."""


@dataclass(slots=True)
class _Life:
    """One process that has a node."""

    machine: Machine
    process: Process
    node: Node
    heard: HeardNode
    quorum: SeenQuorum
    partitions: HostedPartitions
    image: MetadataImage = EMPTY_IMAGE
    configured: ConfigInvariants = field(default_factory=ConfigInvariants)
    shares: ShareInvariants | None = None
    holds: int = 0
    moved: int = 0


class Invariants:
    """Raises `Violated` after the step that broke one."""

    def __init__(self, scheduler: Scheduler, machines: Sequence[Machine]) -> None:
        self._scheduler, self._machines = scheduler, machines
        self.metadata = MetadataInvariants(topic_defaults(machines[0].config))
        self.quorum = QuorumInvariants(machines, self.note, self._seen_snapshot)
        self.reassignments = ReassignmentInvariants(self.metadata)
        self.partitions = PartitionInvariants(machines, self.metadata)
        self.claims = ClaimInvariants(machines, self.partitions, self.note)
        expiration_ms = machines[0].config.producer_id_expiration_ms
        self.producers = ProducerInvariants(self.partitions, self.metadata, expiration_ms)
        self.liveness = LivenessInvariants(scheduler, machines, self.quorum.sets)
        self.clients = ClientInvariants(machines, self.metadata, self.note)
        self.heard: dict[str, HeardNode] = {}
        """The probe of each machine's newest process, by the machine's name."""
        for machine in machines:
            machine.listen = self._listen
        self._leased: MetadataImage = EMPTY_IMAGE
        """The newest when the leases of all nodes were looked at last."""
        self._gone_s: dict[str, float] = {}
        """When a node last heard that a topic was deleted, by id."""
        self._lives: dict[Process, _Life] = {}
        self._deep_s = scheduler.now_s
        self.copies_held = 0
        """How often a throttle held a copy, counted now and then."""
        self.moved_logs = 0
        """Moves between log dirs that were completed."""
        self.secured: Secured | None = None
        self._broken: str | None = None

    def note(self, text: str) -> None:
        """In the middle of a step, where an error would be the node's own to handle."""
        self._broken = self._broken or text

    def _listen(self, machine: Machine) -> HeardNode:
        logs = HeardLogs(machine, self.note)
        heard = HeardNode(machine, logs, self.quorum, self.claims, self.clients, self.note)
        self.heard[machine.name] = heard
        return heard

    def _seen_snapshot(self, name: str, image: MetadataImage) -> None:
        try:
            self.metadata.snapshot(name, image)
        except Violated as wrong:
            self.note(str(wrong))

    def after_step(self, process: Process) -> None:
        life = self._lives.get(process)
        if life is None and process.name != CLIENTS:
            life = self._begun(process)
        if life is not None:
            machine, node, partitions = life.machine, life.node, life.partitions
            self.liveness.stepped(machine)
            self.quorum.after_step(life.quorum)
            self.reassignments.after_step(self.quorum.committed)
            image, broker = node.loader.image, node.broker
            if broker is not None:
                self.claims.read_registration(machine, broker.lifecycle.broker_epoch, image)
                life.shares = life.shares or ShareInvariants(machine, broker, is_secured=self.secured is not None)
            if image is not life.image:
                for topic_id in life.image.topics_by_id.keys() - image.topics_by_id.keys():
                    self._gone_s[topic_id] = self._scheduler.now_s
                life.image = image
                self.partitions.has_excused()
                found = self.metadata.seen(machine.name, image)
                if self.secured is not None:
                    newest, now_s = self.metadata.newest, self._scheduler.now_s
                    self.secured.oracle.seen(machine.config.node_id, image, newest, now_s)
                self.claims.seen_image(machine.name, image, self.quorum.committed.end)
                for changed in found:
                    self.claims.changed(changed, image)
                    self.partitions.changed(changed, [(other.machine, other.partitions) for other in self.living()])
            life.configured.after_step(machine.name, node, image)
            hosted = partitions.all()
            if hosted:
                self.partitions.after_step(machine, hosted)
            self.claims.after_step(machine, life.heard.logs, hosted, image)
            self._check_leases(life)
        elif process.name == CLIENTS:
            self.clients.after_step()
        if self._broken is not None:
            raise Violated(self._broken)
        if self._scheduler.now_s >= self._deep_s:
            self._deep_s = self._scheduler.now_s + DEEP_SECONDS
            self.deep()

    def _check_leases(self, life: _Life) -> None:
        newest = self.metadata.newest
        if newest is self._leased:
            why = may_answer_deposed(life.node, newest)
        else:
            self._leased, why = newest, first_deposed((other.node for other in self.living()), newest)
        if why:
            raise Violated(f"I89: {why}")

    def _begun(self, process: Process) -> _Life | None:
        """A process that has a node now."""
        for machine in self._machines:
            node = machine.node
            if machine.process is process and node is not None:
                partitions = hosted_of(node)
                heard = self.heard[machine.name]
                heard.begin(node, partitions)
                life = _Life(machine, process, node, heard, SeenQuorum(machine, node.raft), partitions)
                self._lives[process] = life
                self.producers.begun(node)
                return life
        return None

    def given_back(self) -> int:
        """Leaderships that controllers gave back to the preferred leaders by schedule."""
        controllers = [life.node.controller for life in self._lives.values()]
        return sum(controller.statistics().scheduled_elections for controller in controllers if controller is not None)

    def living(self) -> list[_Life]:
        return [life for life in self._lives.values() if life.process.is_alive]

    def acked(self, topic: str, partition: int, offset: int, values: Sequence[bytes]) -> bool:
        """A client was told just now that `values` stand from this offset on, and will stay there. False if nothing is
        promised: a leader said so that has not heard yet that its topic is deleted, and another one has its name."""
        keys = self.keys(topic, partition)
        try:
            self.partitions.acked(f"{topic}-{partition}", keys, offset, values)
        except Violated as violated:
            last = offset + len(values) - 1
            if any(self._is_served(key, keys) and self.partitions.end(key) <= last for key in keys[:-1]):
                return False
            self.note(f"{violated}")
        return True

    def deleted(self, topic: str, partition: int, before: int) -> None:
        """A client was told just now that everything below this offset is deleted, of the newest topic of that name."""
        for key in self.keys(topic, partition)[-1:]:
            self.partitions.deleted(key, before)

    def was_read(self, topic: str, partition: int, offsets: Sequence[int], values: Sequence[bytes | None]) -> None:
        """A reader was given these records just now: of the newest topic of that name, or of one that some node takes
        for the newest, or of which it may have sent an answer before it heard of the deletion."""
        keys = self.keys(topic, partition)
        try:
            self.partitions.read(
                f"{topic}-{partition}", [key for key in keys if self._is_served(key, keys)], offsets, values
            )
        except Violated as violated:
            self.note(f"{violated}")

    def _is_served(self, key: PartitionKey, keys: Sequence[PartitionKey]) -> bool:
        if key is keys[-1] or self._scheduler.now_s - self._gone_s.get(key.topic_id, -math.inf) < UNDER_WAY_SECONDS:
            return True
        return any(key.topic_id in life.image.topics_by_id for life in self.living())

    def keys(self, topic: str, partition: int) -> list[PartitionKey]:
        return [PartitionKey(topic_id, partition) for topic_id in self.metadata.ids_of(topic)]

    # -- disks that are lost -------------------------------------------------------------------------------------------

    def excuse(self, machine: Machine, *, comes_back: bool = False) -> None:
        """Its disk is about to be lost: it need not hold what it holds now, until it has left each ISR and learned. A
        disk that `comes_back` is missed until `excuse_no_more`."""
        self.partitions.excuse(machine.config.node_id, comes_back=comes_back)
        if machine.config.is_controller:
            self.quorum.excuse(machine)

    def excuse_no_more(self, machine: Machine) -> None:
        """The disk is back."""
        self.partitions.excuse_no_more(machine.config.node_id)
        self.quorum.excuse_no_more(machine)

    def has_excused(self) -> bool:
        return self.partitions.has_excused() or bool(self.quorum.excused)

    # -- now and then --------------------------------------------------------------------------------------------------

    def deep(self, *, is_end: bool = False) -> None:
        """Checks everything that no step announces."""
        self.quorum.deep()
        self.partitions.deep()
        self.claims.deep()
        self.liveness.deep()
        self.clients.deep(self._scheduler.now_s)
        for life in self._lives.values():
            self._count_holds(life)
        self._lives = {life.process: life for life in self.living()}
        self.claims.forget(partition for life in self._lives.values() for partition in life.partitions.all())
        for life in self._lives.values():
            check_limits(life.machine, life.node)
            if life.shares is not None:
                life.shares.deep(self._scheduler.now_s, is_paused=life.process.is_paused)
            if not life.process.is_serving:
                check_replicas(life.machine, life.node)
                self.partitions.deep_of(life.machine, life.partitions.all(), all_logs=is_end)
                self.producers.deep_of(life.machine, life.partitions.all(), self._scheduler.now_s)

    def _count_holds(self, life: _Life) -> None:
        broker = life.node.broker
        holds = (
            broker.replication.leader_throttle.holds + broker.replication.follower_throttle.holds
            if broker is not None
            else 0
        )
        self.copies_held += holds - life.holds
        life.holds = holds
        moved = broker.replication.log_dir_moves.statistics().completed if broker is not None else 0
        self.moved_logs += moved - life.moved
        life.moved = moved

    def at_end(self, worst_ack_ms: int) -> None:
        """Once more, and of everything. I24: the slowest record was answered in time."""
        if worst_ack_ms > DELIVERY_TIMEOUT_MS + LATE_MS_MAX:
            raise Violated(f"I24: a record was answered after {worst_ack_ms} ms, the limit is {DELIVERY_TIMEOUT_MS} ms")
        self.deep(is_end=True)
        for life in self._lives.values():
            self.metadata.at_end(life.machine.name, life.image)


class CheckedLedger(Ledger):
    """The clients' ledger. Of an ack that promises something, and of all that is read, the invariants hear at once."""

    def __init__(self, invariants: Invariants, plan: Plan) -> None:
        super().__init__()
        self._invariants, self._writers = invariants, plan.writers

    def ack(self, producer: int, first: int, partition: int, offset: int, count: int = 1) -> None:
        super().ack(producer, first, partition, offset, count)
        is_certain = self._sent[producer].places[first] >= 0  # the topic was not deleted since it was sent
        if is_certain and producer < len(self._writers) and self._writers[producer].acks == "all":
            values = [encode_value(producer, first + n) for n in range(count)]
            if not self._invariants.acked(self._writers[producer].topic, partition, offset, values):
                self.acked_somewhere(producer, first, count)

    def was_deleted(self, topic: str, partition: int, before: int) -> None:
        """An operator was told that this partition has nothing below this offset any more."""
        self._invariants.deleted(topic, partition, before)

    def is_kept(self, topic: str, partition: int, offset: int, value: bytes) -> bool:
        """A client of transactions was told that this record stands there."""
        return self._invariants.acked(topic, partition, offset, (value,))

    def was_read(self, topic: str, partition: int, offsets: Sequence[int], values: Sequence[bytes | None]) -> None:
        """A client of transactions was given these."""
        self._invariants.was_read(topic, partition, offsets, values)

    def read(
        self, reader: str, log: int, partition: int, offsets: Sequence[int], values: Sequence[bytes | None]
    ) -> None:
        super().read(reader, log, partition, offsets, values)
        if len(offsets):
            self._invariants.was_read(self._logs[log].topic, partition, offsets, values)

    def read_final(self, log: int, partition: int, offsets: Sequence[int], values: Sequence[bytes | None]) -> None:
        super().read_final(log, partition, offsets, values)
        if len(offsets):
            self._invariants.was_read(self._logs[log].topic, partition, offsets, values)


def check_limits(machine: Machine, node: Node) -> None:
    """I22. One message may exceed a budget that was empty."""
    found = [("descriptors", machine.disk.open_descriptors, DESCRIPTORS_MAX)]
    core = node.raft.core
    leadership = core.leadership if core is not None else None
    if core is not None and leadership is not None:
        found.append(("uncommitted bytes of metadata", leadership.uncommitted_bytes, core.config.uncommitted_max_bytes))
    if node.broker is not None:
        config, broker = node.config, node.broker
        found.append(("requests", broker.requests.channel.statistics().request_queue_size, config.queued_max_requests))
        for name, memory in (
            ("bytes of requests", broker.requests.request_memory.statistics()),
            ("bytes of answers", broker.requests.answer_memory.statistics()),
            ("bytes of fetch sessions", broker.requests.session_memory.statistics()),
        ):
            found.append((name, memory.used_bytes, memory.bytes_max + config.socket_request_max_bytes))
    for name, used, limit in found:
        if used > limit:
            raise Violated(f"I22: {machine.name} has {used} {name}, at most {limit} are allowed")
