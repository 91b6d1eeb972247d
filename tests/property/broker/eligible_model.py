"""A partition with eligible replicas, as a model that is driven by a seed: real decisions, simple logs.

The controller (tests/unit/metadata/harness.py) and each leader's view (`LeaderState`) are those that ship. A log is a
list of records, a truncation cuts it where it leaves the leader's. Metadata, answers to AlterPartition and fetches are
late or lost. Brokers die with or without their unflushed records, and with or without their disk, and come back. A disk
may fail under a process, and answers again at the next start.

After each step every member of the ISR and of the ELR has all committed records on its disk, unless it has lost them
since its last registration, and so its controller cannot know. Whoever is elected has them, too: with `flush.policy=os`
all but a last ISR member.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.replication.leader.leader_state import LeaderState, ProposedIsr
from metadata.controller.config import ControllerConfig
from metadata.controller.context import effective_min_isr
from metadata.image import MetadataImage
from metadata.registrations import PartitionRegistration
from penstock.errors import ApiError
from penstock.messages.nodes.partitions import AlterPartitionData, AlterPartitionResult
from penstock.types import NO_LEADER
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster

BROKERS = (1, 2, 3)
LAG_MS = 1_000


class RecordAt(NamedTuple):
    """A record: whose, and of which leader epoch."""

    number: int
    epoch: int


@dataclass
class Broker:
    """One broker: its disk, and what its process knows."""

    broker_id: int
    disks: int = 0  # how many it has had
    log: list[RecordAt] = field(default_factory=list)
    flushed: int = 0
    has_log: bool = False
    is_alive: bool = True
    disk_failed: bool = False
    lost_since_registration: bool = False
    epoch: int = -1
    view: MetadataImage | None = None
    leading: LeaderState | None = None
    high_watermark: int = 0

    @property
    def log_dir(self) -> str:
        return f"dir-{self.broker_id}-{self.disks}"

    def durable(self) -> list[RecordAt]:
        return self.log[: self.flushed]


class Fetch(NamedTuple):
    """A fetch under way; it acknowledges what is below its offset."""

    leader_id: int
    follower_id: int
    broker_epoch: int
    leader_epoch: int
    offset: int


class RecordingCluster(Cluster):
    """Keeps the image after each record, because brokers may be at any of them."""

    images: list[MetadataImage]

    def _check(self, before: MetadataImage) -> None:
        super()._check(before)
        self.images.append(self.image)


class Model:
    """See the module. `step` until enough is seen; AssertionError where a promise is broken."""

    def __init__(self, seed: int, flush_policy: str = "fsync") -> None:
        self.random = random.Random(f"eligible {seed}")
        self.flush_policy = flush_policy
        self.config = ControllerConfig(CLUSTER_ID, SESSION_TIMEOUT_MS, topic_defaults={"min.insync.replicas": 2})
        RecordingCluster.images = []
        self.cluster = RecordingCluster(0, self.config, seed)
        self.brokers = {broker_id: Broker(broker_id) for broker_id in BROKERS}
        self.committed: list[RecordAt] = []
        self.fetches: list[Fetch] = []
        self.answers: list[tuple[Broker, LeaderState, AlterPartitionResult]] = []
        self.numbers = 0
        self.seen: Counter[str] = Counter()
        self.elected_epoch = 0
        for broker in self.brokers.values():
            self._register(broker)
            self.cluster.heartbeat(broker.broker_id)
        self.cluster.create("t", replication_factor=3)
        self.actions: tuple[tuple[int, Callable[[], object]], ...] = (
            (60, self.learn),
            (40, self.append),
            (100, self.fetch),
            (100, self.answer_fetch),
            (30, self.propose),
            (30, self.hear_answer),
            (10, self.pass_time),
            (3, self.crash),
            (2, self.fail_disk),
            (10, self.come_back),
            (20, self.heartbeats),
            (4, self.configure),
            (1, self.cut_power),
            (1, self.cluster.fail_over),
        )
        self.learn_all()

    def step(self) -> None:
        weights = [weight for weight, _ in self.actions]
        action = self.random.choices([action for _, action in self.actions], weights)[0]
        try:
            action()
        except ApiError as error:
            self.seen[type(error).__name__] += 1
        self.check()

    # -- what brokers know and do --------------------------------------------------------------------------------------

    def learn_all(self) -> None:
        for broker in self.brokers.values():
            self._take(broker, self.cluster.image)

    def learn(self) -> None:
        """A broker reads on in the metadata: one record, or all."""
        broker = self.random.choice(list(self.brokers.values()))
        if broker.is_alive:
            at = broker.view.offset if broker.view is not None else -1
            newer = [image for image in self.cluster.images if image.offset > at]
            if newer:
                self._take(broker, newer[0 if self.random.random() < 0.5 else -1])

    def _take(self, broker: Broker, image: MetadataImage) -> None:
        broker.view = image
        state = image.partition("t", 0)
        if state is None:
            return
        broker.has_log |= not (state.log_lost and broker.broker_id in state.isr)  # an empty log must not replace it
        if state.leader_id != broker.broker_id or broker.disk_failed:
            broker.leading = None
        elif broker.leading is None or broker.leading.leader_epoch < state.leader_epoch:
            self._flush(broker)
            now_ms = self.cluster.now_ms
            broker.leading = LeaderState.begin(broker.broker_id, state, len(broker.log), now_ms)
        else:
            broker.leading.commit_isr(state.isr, state.partition_epoch, state.elr)
        if broker.leading is not None:
            epochs = {known.broker_id: known.broker_epoch for known in image.brokers.values()}
            active = frozenset(known.broker_id for known in image.brokers.values() if known.is_active)
            broker.leading.brokers_changed(epochs, active)
        self._commit(broker)

    def _flush(self, broker: Broker) -> None:
        if self.flush_policy == "fsync":
            broker.flushed = len(broker.log)

    def _min_isr(self, broker: Broker) -> int:
        assert broker.view is not None
        state = broker.view.partition("t", 0)
        assert state is not None
        return effective_min_isr(state, broker.view.topic_config("t"), self.config.topic_defaults)

    def append(self) -> None:
        for broker in self._leaders():
            self.numbers += 1
            broker.log.append(RecordAt(self.numbers, broker.leading.leader_epoch))  # type: ignore[union-attr]
            if self.random.random() < 0.7:
                self._flush(broker)
            self._commit(broker)

    def _leaders(self) -> list[Broker]:
        return [broker for broker in self.brokers.values() if broker.is_alive and broker.leading is not None]

    def _commit(self, broker: Broker) -> None:
        leading = broker.leading
        if leading is None:
            return
        own = len(broker.log) if self.flush_policy == "os" else broker.flushed
        offset = leading.committed_offset(own, self._min_isr(broker))
        if offset is None or offset <= broker.high_watermark:
            return
        broker.high_watermark = offset
        if offset > len(self.committed):
            assert broker.log[: len(self.committed)] == self.committed, f"broker {broker.broker_id} commits otherwise"
            self.committed = broker.log[:offset]
            self.seen["commit"] += 1

    def fetch(self) -> None:
        """A follower cuts its log where it leaves the leader's, and takes the next record."""
        follower = self.random.choice(list(self.brokers.values()))
        state = follower.view.partition("t", 0) if follower.view is not None else None
        if not follower.is_alive or follower.disk_failed or state is None:
            return
        if state.leader_id in (NO_LEADER, follower.broker_id):
            return
        leader = self.brokers[state.leader_id]
        if not leader.is_alive or leader.leading is None or leader.leading.leader_epoch != state.leader_epoch:
            return
        same = 0
        while same < min(len(follower.log), len(leader.log)) and follower.log[same] == leader.log[same]:
            same += 1
        del follower.log[same:]
        follower.flushed = min(follower.flushed, same)
        self._flush(follower)
        self.fetches.append(
            Fetch(leader.broker_id, follower.broker_id, follower.epoch, state.leader_epoch, len(follower.log))
        )
        take = self.random.choice((0, 1, 1, 5))
        follower.log += leader.log[same : same + take]
        follower.high_watermark = max(follower.high_watermark, min(leader.high_watermark, len(follower.log)))
        if self.random.random() < 0.5:
            self._flush(follower)

    def answer_fetch(self) -> None:
        """A fetch arrives, perhaps late."""
        if not self.fetches:
            return
        fetch = self.fetches.pop(self.random.randrange(len(self.fetches)))
        leader = self.brokers[fetch.leader_id]
        leading = leader.leading
        if not leader.is_alive or leading is None or leading.leader_epoch != fetch.leader_epoch:
            return
        if leading.registered_epochs.get(fetch.follower_id) == fetch.broker_epoch and fetch.offset <= len(leader.log):
            now_ms = self.cluster.now_ms
            leading.note_fetch(fetch.follower_id, fetch.broker_epoch, fetch.offset, len(leader.log), now_ms)
            self._commit(leader)

    def propose(self) -> None:
        for broker in self._leaders():
            leading = broker.leading
            assert leading is not None
            now_ms = self.cluster.now_ms
            proposed = leading.proposed or leading.propose_shrink(len(broker.log), broker.epoch, now_ms, LAG_MS)
            for follower in BROKERS:
                is_active = follower in leading.active_brokers
                proposed = proposed or leading.propose_expand(
                    follower, broker.high_watermark, broker.epoch, eligible=is_active
                )
            if proposed is not None:
                self._ask(broker, leading, proposed)

    def _ask(self, broker: Broker, leading: LeaderState, proposed: ProposedIsr) -> None:
        known = self.cluster.image.brokers[broker.broker_id]
        if known.broker_epoch != broker.epoch:
            return
        key = self.partition.key
        data = AlterPartitionData(*key, leading.leader_epoch, proposed.partition_epoch, proposed.members)
        (result,) = self.cluster.alter(broker.broker_id, data)
        if result.error is None:
            self.answers.append((broker, leading, result))
        elif type(result.error).__name__ == "IneligibleReplicaError":
            leading.reject_proposal(proposed)

    def hear_answer(self) -> None:
        if self.answers:
            broker, leading, result = self.answers.pop(self.random.randrange(len(self.answers)))
            if broker.leading is leading and self.random.random() < 0.9:
                leading.commit_isr(result.isr, result.partition_epoch, result.elr)
                self._commit(broker)

    # -- what happens to them ------------------------------------------------------------------------------------------

    def pass_time(self) -> None:
        """Lets the controller notice brokers that are dead or cut off; a heartbeat of all others comes just before."""
        self.cluster.now_ms += self.random.choice((LAG_MS, SESSION_TIMEOUT_MS))
        cut_off = self.random.choice(BROKERS) if self.random.random() < 0.3 else None
        for broker in self.brokers.values():
            if broker.is_alive and broker.broker_id != cut_off:
                self._heartbeat(broker)
        self.cluster.tick()

    def heartbeats(self) -> None:
        for broker in self.brokers.values():
            if broker.is_alive:
                self._heartbeat(broker)

    def _heartbeat(self, broker: Broker) -> None:
        known = self.cluster.image.brokers.get(broker.broker_id)
        if known is not None and known.broker_epoch == broker.epoch:
            self.cluster.heartbeat(broker.broker_id)

    def crash(self) -> None:
        self._die(self.random.choice(list(self.brokers.values())), has_power=self.random.random() < 0.5)

    def fail_disk(self) -> None:
        broker = self.random.choice(list(self.brokers.values()))
        known = self.cluster.image.brokers[broker.broker_id]
        if broker.is_alive and known.broker_epoch == broker.epoch:
            broker.disk_failed, broker.leading = True, None
            self.cluster.heartbeat(broker.broker_id, offline=(broker.log_dir,))
            self.seen["disk failed"] += 1
            self.seen["last member on a failed disk"] += self.partition.isr == (broker.broker_id,)

    def cut_power(self) -> None:
        for broker in self.brokers.values():
            self._die(broker, has_power=False)

    def _die(self, broker: Broker, *, has_power: bool) -> None:
        if not broker.is_alive:
            return
        broker.is_alive, broker.leading = False, None
        if not has_power and len(broker.log) > broker.flushed:
            del broker.log[self.random.randint(broker.flushed, len(broker.log)) :]
            broker.lost_since_registration |= self.flush_policy == "os"
        if self.random.random() < 0.08:
            broker.log, broker.flushed, broker.has_log = [], 0, False
            broker.lost_since_registration = True
            self.seen["disk lost"] += 1

    def come_back(self) -> None:
        dead = [broker for broker in self.brokers.values() if not broker.is_alive]
        if dead:
            broker = self.random.choice(dead)
            self._register(broker)
            self.seen["came back"] += 1

    def _register(self, broker: Broker) -> None:
        fields: dict[str, object] = {}
        if not broker.has_log and self.cluster.image.brokers.get(broker.broker_id) is not None:
            fields = {"lost_log_dirs": (broker.log_dir,)}
            broker.disks += 1
        try:
            broker.epoch = self.cluster.register(
                broker.broker_id,
                log_dirs=(broker.log_dir,),
                replicas=self.cluster.held_by(broker.broker_id) if broker.has_log else (),
                flush_policy=self.flush_policy,
                **fields,
            )
        except ApiError:
            broker.disks -= bool(fields)
            raise
        broker.is_alive, broker.lost_since_registration, broker.disk_failed = True, False, False
        broker.flushed, broker.high_watermark = len(broker.log), min(broker.high_watermark, len(broker.log))
        broker.view = None

    def configure(self) -> None:
        value = self.random.choice((None, "1", "2", "3"))
        self.cluster.configure("t", {"min.insync.replicas": value})

    # -- what holds ----------------------------------------------------------------------------------------------------

    @property
    def partition(self) -> PartitionRegistration:
        return self.cluster.partition("t")

    def check(self) -> None:
        partition = self.partition
        if partition.leader_epoch != self.elected_epoch and partition.has_leader:
            self._elected(partition)
        self.elected_epoch = partition.leader_epoch
        self.seen["with ELR"] += bool(partition.elr)
        for member in (*partition.isr, *partition.elr):
            broker = self.brokers[member]
            if broker.lost_since_registration or (member in partition.isr and self._is_forgiven(partition)):
                continue
            there = broker.log if self.flush_policy == "os" else broker.durable()
            part = "ELR" if member in partition.elr else "ISR"
            assert there[: len(self.committed)] == self.committed, (
                f"broker {member} of the {part} has {len(there)} of {len(self.committed)} committed: {partition}"
            )

    def _is_forgiven(self, partition: PartitionRegistration) -> bool:
        """A last member whose log is lost, or was not flushed, stays in the ISR."""
        return len(partition.isr) == 1 and (partition.log_lost or self.flush_policy == "os")

    def _elected(self, partition: PartitionRegistration) -> None:
        leader = self.brokers[partition.leader_id]
        before = self._before_election(partition)
        is_eligible = partition.leader_id in before.elr
        self.seen["elected from the ELR"] += is_eligible
        if leader.log[: len(self.committed)] == self.committed:
            return
        assert self.flush_policy == "os" and not is_eligible, f"{leader} leads and lacks committed records: {partition}"
        same = 0
        while same < len(leader.log) and leader.log[same] == self.committed[same]:
            same += 1
        del self.committed[same:]  # that is what flush.policy=os means
        for broker in self.brokers.values():
            broker.high_watermark = min(broker.high_watermark, same)

    def _before_election(self, partition: PartitionRegistration) -> PartitionRegistration:
        found = (image.partition("t", 0) for image in reversed(self.cluster.images))
        return next(old for old in found if old is not None and old.leader_epoch < partition.leader_epoch)
