"""A random walk over every decision: whatever happens in whatever order, the invariants hold after every record.

The harness checks I10 and I11 and that both readers of a record agree; the walk adds I8 (the controller's state is the
image of the log), I9 (a snapshot makes the same image), the rule of elections (no leader only if nobody may lead) and
bounded answers: a decision raises nothing but errors of the wire table. Failovers of the controller come in between.

Brokers have two disks each, and a disk may be replaced between two processes, with the operator's word or without. The
walk knows which replicas went with a disk: none of them leads before it was in an ISR with somebody who had everything,
but where the topic allows unclean elections.

A disk may also be dead while a process runs, and brokers report where their replicas are. What the metadata says of
that is true, or it says nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from broker.config.dynamic_keys import BROKER_CONFIGS
from metadata.controller.config import ControllerConfig
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, image_records
from metadata.records import OWNER_KEY, TOPIC_OWNER_RESOURCE
from metadata.registrations import PartitionKey, PartitionRegistration
from metadata.topic_config import effective_value
from penstock.errors import ApiError
from penstock.messages.nodes.brokers import HostedReplicas
from penstock.messages.nodes.partitions import AlterPartitionData, IsrMember
from penstock.messages.topics import NewPartitions, NewTopic, ReplicaAssignment
from tests.support.amount import usually
from tests.unit.metadata.harness import CLUSTER_ID, EPOCH, SESSION_TIMEOUT_MS, Cluster

BROKERS = range(1, 6)
NAMES = ("a", "b", "c.d", "c_d")
PRINCIPALS = ("", "User:anna", "User:bob")
STEPS = 120
UNCLEAN_SEED = 70
"""A walk with an unclean election, which few have."""
DISKS = (0, 1)
CONFIG = ControllerConfig(
    CLUSTER_ID,
    SESSION_TIMEOUT_MS,
    leader_imbalance_check_interval_ms=1,
    replica_balance_enable=True,
    replica_balance_check_interval_ms=1,
    broker_configs=BROKER_CONFIGS,
)


class Walk:
    """One seed's history."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.principals = random.Random(f"principals {seed}")
        """Draws who asks, apart from all else."""
        self.cluster = Cluster(config=CONFIG, seed=seed)
        self.outcomes: Counter[str] = Counter()
        self.disks = {(broker_id, disk): 0 for broker_id in BROKERS for disk in DISKS}
        """How often each was replaced."""
        self.emptied: set[tuple[int, PartitionKey]] = set()
        self.ever_unclean: set[str] = set()
        self.assigned: dict[tuple[int, PartitionKey], int] = {}
        """The disks that the controller chose."""
        self.producer_ids_given = 0
        self.replicas: set[tuple[int, PartitionKey]] = set()
        self.actions: tuple[tuple[int, Callable[[], object]], ...] = (
            (4, self.register),
            (10, self.heartbeat),
            (2, self.heartbeat_of_all),
            (2, self.pass_time),
            (3, self.create),
            (2, self.grow),
            (1, self.delete),
            (14, self.alter),
            (2, self.configure),
            (1, self.configure_brokers),
            (3, self.assign),
            (1, self.allocate),
            (3, self.reassign),
            (1, self.unregister),
            (1, self.cluster.fail_over),
        )

    def step(self) -> None:
        weights = [weight for weight, _ in self.actions]
        action = self.rng.choices([action for _, action in self.actions], weights)[0]
        try:
            action()
            self.outcomes[action.__name__] += 1
        except ApiError as error:
            self.outcomes[type(error).__name__] += 1
        self.check()

    def register(self) -> None:
        broker_id = self.rng.choice(BROKERS)
        known = self.cluster.image.brokers.get(broker_id)
        previous = self.rng.choice([-1, 0, known.broker_epoch if known else 5])
        replaced = self.rng.choice([None, None, None, *DISKS])
        dirs = {disk: self.directory_id(broker_id, disk) for disk in DISKS}
        dead = self.rng.choice([None, None, None, *DISKS]) if known is not None and replaced is None else None
        tells = self.rng.random() < 0.9  # an older release does not tell where its replicas are
        held = self.held(broker_id, replaced if dead is None else dead, tells=tells)
        fields: dict[str, object] = {}
        if replaced is not None and self.rng.random() < 0.5 and known is not None:
            fields["lost_log_dirs"] = (dirs[replaced],)
        if replaced is not None:
            dirs[replaced] += "-new"
        if dead is not None:
            del dirs[dead]
            fields["failed_log_dirs"] = 1
        self.cluster.register(
            broker_id,
            previous_broker_epoch=previous,
            rack=f"r{broker_id % 2}",
            log_dirs=tuple(dirs.values()),
            replicas=held,
            **fields,
        )
        self.outcomes["disk dead"] += dead is not None
        if replaced is not None:
            assert fields or known is None, (
                "a broker came back without one of its log dirs, and nobody said that it is lost"
            )
            self.outcomes["disk replaced"] += 1
            self.emptied |= {
                (broker_id, key) for key in self.replicas_of(broker_id) if self.disk_of(broker_id, key) == replaced
            }
            self.disks[broker_id, replaced] += 1

    def disk_of(self, broker_id: int, key: PartitionKey) -> int:
        """Where the broker has the replica."""
        return self.assigned.get((broker_id, key), key.partition % len(DISKS))

    def directory_id(self, broker_id: int, disk: int) -> str:
        return f"dir-{broker_id}-{disk}" + "-new" * self.disks[broker_id, disk]

    def replicas_of(self, broker_id: int) -> list[PartitionKey]:
        topics = self.cluster.image.topics_by_id.values()
        return [p.key for topic in topics for p in topic.partitions.values() if broker_id in p.replicas]

    def held(self, broker_id: int, without: int | None, *, tells: bool = True) -> tuple[HostedReplicas, ...]:
        """The replicas that a broker finds on its disks; one of them may have been replaced, or is dead."""
        keys = [key for key in self.replicas_of(broker_id) if self.disk_of(broker_id, key) != without]
        return tuple(
            HostedReplicas(
                key.topic_id,
                (key.partition,),
                self.directory_id(broker_id, self.disk_of(broker_id, key)) if tells else "",
            )
            for key in keys
            if (broker_id, key) not in self.emptied
        )

    def assign(self) -> None:
        """A broker reports some of its replicas, and sometimes one that it has not."""
        known = sorted(self.cluster.image.brokers)
        if known:
            broker_id = self.rng.choice(known)
            named = [replica for replica in self.held(broker_id, None) if self.rng.random() < 0.5]
            if named and self.rng.random() < 0.2:
                named.append(named[0]._replace(log_dir="elsewhere", partitions=(99,)))
            for error in self.cluster.assign(broker_id, *named):
                self.outcomes["assigned" if error is None else type(error).__name__] += 1

    def allocate(self) -> None:
        broker_id = self.rng.choice(BROKERS)
        if broker_id in self.cluster.image.brokers:
            block = self.cluster.allocate(broker_id)
            assert block.start == self.producer_ids_given, "producer ids were given twice, or left out"
            self.producer_ids_given = block.stop

    def reassign(self) -> None:
        """Moves the replicas of a partition, replaces such a move by another one, or cancels it."""
        image = self.cluster.image
        partitions = [p for topic in image.topics_by_id.values() for p in topic.partitions.values()]
        if not partitions:
            return
        moving = [p for p in partitions if p.is_reassigning]
        cancels = self.rng.random() < 0.4
        before = self.rng.choice(moving if cancels and moving else partitions)
        name = image.topics_by_id[before.topic_id].name
        target = tuple(self.rng.sample(BROKERS, self.rng.randint(0, 4)))
        error = self.cluster.reassign(name, None if cancels else target, before.partition)
        self.outcomes[("cancelled" if cancels else "reassigned") if error is None else type(error).__name__] += 1

    def unregister(self) -> None:
        """An operator forgets a broker, mostly one that has nothing; some come back with what their disks hold."""
        known = sorted(self.cluster.image.brokers)
        without = [broker_id for broker_id in known if not self.replicas_of(broker_id)]
        may_go = without and len(known) > 3 and self.rng.random() < 0.8
        broker_id = self.rng.choice(without if may_go else BROKERS)
        error = self.cluster.unregister(broker_id)
        self.outcomes["unregistered" if error is None else f"kept: {type(error).__name__}"] += 1

    def note_moves(self) -> None:
        """A replica that comes is empty, and one that went is nowhere."""
        now = {
            (broker_id, p.key): p.directory_of(broker_id)
            for topic in self.cluster.image.topics_by_id.values()
            for p in topic.partitions.values()
            for broker_id in p.replicas
        }
        known = {key for _, key in self.replicas}
        for broker_id, key in now.keys() - self.replicas:
            if key in known:
                self.emptied.add((broker_id, key))
            if now[broker_id, key]:
                first = self.directory_id(broker_id, DISKS[0])
                self.assigned[broker_id, key] = DISKS[now[broker_id, key] != first]
        for gone in self.replicas - now.keys():
            self.emptied.discard(gone)
            self.assigned.pop(gone, None)
        self.replicas = set(now)

    def heartbeat(self) -> None:
        known = sorted(self.cluster.image.brokers)
        if known:
            offset = self.rng.choice([None, None, 0])
            fence, stop = self.rng.random() < 0.1, self.rng.random() < 0.1
            broker_id = self.rng.choice(known)
            failed = {disk for disk in DISKS if self.rng.random() < 0.1}
            offline = tuple(self.directory_id(broker_id, disk) for disk in failed)
            answer = self.cluster.heartbeat(broker_id, offset=offset, fence=fence, stop=stop, offline=offline)
            self.outcomes["disk fails"] += bool(failed)
            assert set(answer.offline_log_dirs) >= set(offline) & set(self.cluster.image.brokers[broker_id].log_dirs)

    def heartbeat_of_all(self) -> None:
        for broker_id in sorted(self.cluster.image.brokers):
            self.cluster.heartbeat(broker_id)

    def pass_time(self) -> None:
        self.cluster.now_ms += self.rng.choice([1, SESSION_TIMEOUT_MS // 3, SESSION_TIMEOUT_MS])
        response = self.cluster.commit(self.cluster.controller.tick(self.cluster.now_ms))
        self.outcomes["moved by schedule"] += response.replica_moves

    def create(self) -> None:
        config = self.rng.choice([{}, {"unclean.leader.election.enable": "true"}, {"min.insync.replicas": "2"}])
        known = self.partitions()
        topic = NewTopic(self.rng.choice(NAMES), self.rng.randint(0, 4), self.rng.randint(0, 4), config)
        self.cluster.create_all(topic, principal=self.principals.choice(PRINCIPALS))
        self.note_new(known)

    def grow(self) -> None:
        """More partitions or, by mistake, as many or fewer; some placed by hand, on any brokers."""
        known, name, added = self.partitions(), self.rng.choice(NAMES), self.rng.randint(-1, 3)
        topic = self.cluster.image.topic(name)
        present, factor = (len(topic.partitions), topic.replication_factor) if topic is not None else (0, 1)
        by_hand = tuple(ReplicaAssignment(present + at, tuple(self.rng.sample(BROKERS, factor))) for at in range(added))
        assignment = by_hand if self.rng.random() < 0.3 else ()
        principal = self.principals.choice(PRINCIPALS)
        (result,) = self.cluster.add_partitions(NewPartitions(name, present + added, assignment), principal=principal)
        self.outcomes["grown" if result.error is None else type(result.error).__name__] += 1
        self.note_new(known)
        if topic is not None:
            now = self.cluster.image.topics_by_name[name].partitions
            assert list(now) == list(range(present + (added if result.error is None else 0)))
            assert {number: now[number] for number in topic.partitions} == topic.partitions

    def partitions(self) -> set[PartitionKey]:
        topics = self.cluster.image.topics_by_id.values()
        return {partition.key for topic in topics for partition in topic.partitions.values()}

    def note_new(self, known: set[PartitionKey]) -> None:
        """Which disks the controller has chosen for partitions that were not known."""
        for key in self.partitions() - known:
            partition = self.cluster.image.topics_by_id[key.topic_id].partitions[key.partition]
            for broker_id in filter(partition.directory_of, partition.replicas):
                first = self.directory_id(broker_id, DISKS[0])
                self.assigned[broker_id, partition.key] = DISKS[partition.directory_of(broker_id) != first]

    def delete(self) -> None:
        self.cluster.delete(self.rng.choice(NAMES))

    def configure(self) -> None:
        value = self.rng.choice([None, "true", "false", "maybe"])
        self.cluster.configure(self.rng.choice(NAMES), {"unclean.leader.election.enable": value})
        self.cluster.configure(self.rng.choice(NAMES), {"min.insync.replicas": self.rng.choice([None, "1", "2", "3"])})

    def configure_brokers(self) -> None:
        """All of them; then one, which may not be there, and may not have every key."""
        unclean = self.rng.choice([None, None, "true", "false", "maybe"])
        changes = {"unclean.leader.election.enable": unclean, "min.insync.replicas": self.rng.choice([None, "1", "3"])}
        self.outcomes["all configured"] += self.cluster.configure("", changes, "broker") is None
        key = self.rng.choice(["log.retention.ms", "log.retention.ms", "min.insync.replicas", "node.id"])
        own = {key: self.rng.choice([None, "1"])}
        self.outcomes["one configured"] += self.cluster.configure(str(self.rng.choice(BROKERS)), own, "broker") is None

    def alter(self) -> None:
        """Mostly a leader's own proposal, sometimes a late or mistaken one."""
        image = self.cluster.image
        partitions = [p for topic in image.topics_by_id.values() for p in topic.partitions.values() if p.has_leader]
        if not partitions:
            return
        partition = self.rng.choice(partitions)
        chosen = {
            partition.leader_id,
            *self.rng.sample(partition.replicas, self.rng.randint(0, len(partition.replicas))),
        }
        members = tuple(IsrMember(member, self.epoch_of(member)) for member in sorted(chosen))
        late = self.rng.random() < 0.1
        data = AlterPartitionData(
            partition.topic_id,
            partition.partition,
            partition.leader_epoch - late,
            partition.partition_epoch - (self.rng.random() < 0.1),
            members,
        )
        requester = partition.leader_id if self.rng.random() < 0.9 else self.rng.choice(sorted(image.brokers))
        for result in self.cluster.alter(requester, data):
            if result.error is None:
                self.emptied -= {(member, partition.key) for member in chosen}
            self.outcomes["altered" if result.error is None else type(result.error).__name__] += 1

    def epoch_of(self, broker_id: int) -> int:
        return self.cluster.image.brokers[broker_id].broker_epoch - (self.rng.random() < 0.05)

    # -- what holds after every step -----------------------------------------------------------------------------------

    def check(self) -> None:
        cluster = self.cluster
        self.note_moves()
        assert cluster.controller.to_image(cluster.image.epoch) == cluster.image, "I8: state and image differ"
        statistics = cluster.controller.statistics()
        partitions = [p for topic in cluster.image.topics_by_id.values() for p in topic.partitions.values()]
        assert statistics.partitions == len(partitions)
        assert statistics.reassigning_partitions == sum(p.is_reassigning for p in partitions)
        assert statistics.leaderless_partitions == sum(not p.has_leader for p in partitions)
        assert statistics.led_elsewhere == sum(p.leader_id != p.replicas[0] for p in partitions)
        replicas = Counter(replica for p in partitions for replica in p.target_replicas)
        counts = [replicas[broker_id] for broker_id, broker in cluster.image.brokers.items() if broker.is_active]
        self.check_owners()
        assert statistics.replica_spread == (max(counts) - min(counts) if counts else 0)
        for partition in partitions:
            self.was_ever_unclean(partition)
            self.check_directories(partition)
            assert partition.has_leader or not self.somebody_may_lead(partition), f"nobody leads {partition}"
            is_empty = (partition.leader_id, partition.key) in self.emptied
            assert not is_empty or self.was_ever_unclean(partition), f"an emptied replica leads {partition}"

    def check_owners(self) -> None:
        """Partitions are counted to the owners that the image has."""
        image, owned = self.cluster.image, Counter[str]()
        for resource, config in image.configs.items():
            if resource.resource_type == TOPIC_OWNER_RESOURCE:
                owned[config[OWNER_KEY]] += len(image.topics_by_id[resource.resource_name].partitions)
        found = self.cluster.controller._state.owners
        assert {one: found.partitions_of(one) for one in PRINCIPALS[1:]} == {one: owned[one] for one in PRINCIPALS[1:]}
        self.outcomes["owned"] += owned.total() > 0

    def check_directories(self, partition: PartitionRegistration) -> None:
        for broker_id in partition.replicas:
            directory, broker = partition.directory_of(broker_id), self.cluster.image.brokers[broker_id]
            true = self.directory_id(broker_id, self.disk_of(broker_id, partition.key))
            assert directory in ("", true), f"broker {broker_id} has {true}: {partition}"
            assert not directory or directory in broker.log_dirs, f"{directory} is not registered: {broker}"
            if directory in broker.offline_log_dirs:
                assert partition.leader_id != broker_id, f"a dead disk leads: {partition}"
                assert partition.isr == (broker_id,) or broker_id not in partition.isr, f"a dead disk in {partition}"

    def was_ever_unclean(self, partition: PartitionRegistration) -> bool:
        name = self.cluster.image.topics_by_id[partition.topic_id].name
        if self.is_unclean(name):
            self.ever_unclean.add(partition.topic_id)
        return partition.topic_id in self.ever_unclean

    def is_unclean(self, topic: str) -> bool:
        overrides, key = self.cluster.image.topic_config(topic), "unclean.leader.election.enable"
        return bool(effective_value(key, overrides, self.cluster.topic_defaults))

    def somebody_may_lead(self, partition: PartitionRegistration) -> bool:
        image = self.cluster.image
        name = image.topics_by_id[partition.topic_id].name
        unclean = self.is_unclean(name)
        in_sync = () if partition.log_lost else partition.isr
        copies = partition.original_replicas  # one that is being added is none before it is in sync
        candidates = (*in_sync, *partition.elr, *(copies if unclean else ()))
        online = [c for c in candidates if image.brokers[c].is_online(partition.directory_of(c))]
        return any(image.brokers[candidate].is_active for candidate in online)

    def check_end(self) -> None:
        """I8 and I9 from the very beginning."""
        image = self.cluster.image
        whole, snapshot = MetadataDelta(EMPTY_IMAGE), MetadataDelta(EMPTY_IMAGE)
        for record in self.cluster.log:
            whole.replay(record)
        for record in image_records(image):
            snapshot.replay(record)
        assert whole.apply(image.offset, EPOCH) == image
        assert snapshot.apply(image.offset, EPOCH) == image


@pytest.mark.parametrize("seed", range(usually(15, long=60)))
def test_invariants_hold_after_every_record_of_any_history(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.check_end()


def test_walks_reach_what_they_are_meant_to_reach() -> None:
    outcomes: Counter[str] = Counter()
    elections = 0
    for seed in (*range(40), UNCLEAN_SEED):
        walk = Walk(seed)
        for _ in range(STEPS):
            walk.step()
        outcomes += walk.outcomes
        elections += walk.cluster.controller.statistics().unclean_elections
    reached = {
        "altered",
        "create",
        "delete",
        "all configured",
        "owned",
        "allocate",
        "fail_over",
        "one configured",
        "DuplicateBrokerRegistrationError",
        "InvalidRegistrationError",
        "grown",
        "InvalidPartitionsError",
        "InvalidReplicaAssignmentError",
        "disk replaced",
        "disk dead",
        "disk fails",
        "assigned",
        "LogDirNotFoundError",
        "FencedLeaderEpochError",
        "IneligibleReplicaError",
        "InvalidRequestError",
        "NoReassignmentInProgressError",
        "reassigned",
        "unregistered",
        "kept: PolicyViolationError",
        "kept: BrokerIdNotRegisteredError",
        "cancelled",
        "InvalidUpdateVersionError",
    }
    assert reached <= outcomes.keys(), outcomes
    assert outcomes["moved by schedule"] > 0, outcomes
    assert outcomes["altered"] > 50 and elections > 0, outcomes


def test_same_seed_gives_the_same_log() -> None:
    logs = []
    for _ in range(2):
        walk = Walk(seed=7)
        for _ in range(STEPS):
            walk.step()
        logs.append(walk.cluster.log)
    assert logs[0] == logs[1]
