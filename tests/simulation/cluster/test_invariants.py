"""Every invariant that the cluster simulator checks can be broken: each lie here is told to a healthy cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pytest

from broker.quorum.metadata_log import MetadataLog, QuorumStateFile
from broker.replication.partition import Partition
from metadata.image import MetadataImage, image_records
from metadata.registrations import BrokerRegistration, PartitionKey, PartitionRegistration
from raft.quorum_state import ElectionState
from tests.chaos.ledger import encode_value
from tests.simulation.cluster import metadata_invariants, replicas, world
from tests.simulation.cluster.durable_log import Violated
from tests.simulation.cluster.invariants import _Life
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.metadata_invariants import MetadataInvariants
from tests.simulation.cluster.network import Weather
from tests.simulation.cluster.partition_invariants import PartitionInvariants, Seen
from tests.simulation.cluster.plan import NodePlan, Plan, ReaderPlan, TopicPlan, WriterPlan
from tests.simulation.cluster.world import Outcome, World
from tests.support.amount import usually

LIE_SECONDS, SECONDS = 3.0, 3.0
"""Simulated time: when the lie is told, and how long the cluster works after it has started."""
CONFIG: Mapping[str, object] = MappingProxyType(
    {
        "controller.quorum.election.timeout.ms": 500,
        "controller.quorum.fetch.timeout.ms": 1000,
        "broker.heartbeat.interval.ms": 200,
        "broker.session.timeout.ms": 1500,
        "default.replication.factor": 3,
        "min.insync.replicas": 2,
    }
)
HEALTHY = Plan(
    seed=11,
    seconds=SECONDS,
    nodes=(NodePlan(True, True, 1, 1.0),) * 3,
    config=CONFIG,
    topics=(TopicPlan("topic", 1, 3, {}),),
    writers=(WriterPlan("topic", 0, 0.05, 1, False),),
    readers=(ReaderPlan("topic", 0.5),),
    faults=(),
    weather=Weather(),
    cold_share=0.0,
)
Lie = Callable[["Scene"], object]


class Scene:
    """A healthy cluster at work, and what a lie needs of it."""

    def __init__(self, world: World) -> None:
        self.world, self.invariants = world, world.invariants

    @property
    def lives(self) -> list[_Life]:
        return self.invariants.living()

    @property
    def quorum_leader(self) -> _Life:
        return next(life for life in self.lives if life.node.raft.is_leader)

    @property
    def quorum_follower(self) -> _Life:
        return next(life for life in self.lives if not life.node.raft.is_leader)

    def partitions(self) -> list[tuple[Machine, Partition]]:
        return [(life.machine, partition) for life in self.lives for partition in life.partitions.all()]

    @property
    def leader(self) -> tuple[Machine, Partition]:
        return next(pair for pair in self.partitions() if pair[1].leading is not None)

    @property
    def follower(self) -> tuple[Machine, Partition]:
        return next(pair for pair in self.partitions() if pair[1].leading is None)

    @property
    def image(self) -> MetadataImage:
        return self.invariants.metadata.newest

    def show(self, image: MetadataImage, life: _Life | None = None) -> None:
        """A node's image from now on."""
        (life or self.lives[0]).node.loader.image = image

    def next_image(
        self, *, partition: PartitionRegistration | None = None, broker: BrokerRegistration | None = None
    ) -> MetadataImage:
        """The image after a change."""
        image, topics, brokers = self.image, self.image.topics_by_id, dict(self.image.brokers)
        if partition is not None:
            topic = image.topics_by_id[partition.topic_id]
            topics = {topic.topic_id: replace(topic, partitions={partition.partition: partition})}
        if broker is not None:
            brokers[broker.broker_id] = broker
        return replace(image, offset=image.offset + 1, brokers=brokers, topics_by_id=topics)

    def seen(self, partition: Partition) -> Seen:
        found = self.invariants.partitions.seen(partition)
        assert found is not None
        return found

    @property
    def registration(self) -> PartitionRegistration:
        return self.image.topics_by_name["topic"].partitions[0]


def judged(lie: Lie, plan: Plan = HEALTHY) -> Outcome:
    """The outcome of a cluster to which a lie is told."""
    made = World(plan)
    scene = Scene(made)
    made.at(made.scheduler.now_s + LIE_SECONDS, lambda: lie(scene))
    return made.run()


def told(lies: Sequence[tuple[str, Lie]]) -> Sequence[tuple[str, Lie]]:
    """The lies that this run tells: before a merge the first one about each invariant."""
    return usually([*{name: (name, lie) for name, lie in reversed(lies)}.values()], long=lies)


def test_the_truth_breaks_nothing() -> None:
    outcome = judged(lambda scene: None)
    assert not outcome.failures
    assert outcome.acked > 20


# -- lies about the quorum ---------------------------------------------------------------------------------------------


def _tell_election(scene: Scene, change: Callable[[ElectionState], ElectionState]) -> None:
    quorum = scene.quorum_follower.node.raft.core._quorum  # type: ignore[union-attr]
    quorum._election = change(quorum.election)


def another_leader(scene: Scene) -> None:
    own = scene.quorum_follower.machine.config.node_id
    _tell_election(scene, lambda election: replace(election, leader_id=own))


def an_epoch_falls(scene: Scene) -> None:
    _tell_election(scene, lambda election: replace(election, epoch=election.epoch - 1))


def an_epoch_was_sent_before_the_restart(scene: Scene) -> None:
    life = scene.quorum_follower
    scene.invariants.quorum.voices[life.machine.name].epoch += 7
    life.machine.kill()
    life.machine.start()


def two_votes(scene: Scene) -> None:
    for candidate in (0, 1):
        scene.invariants.quorum.voted(scene.world.machines[2], 99, candidate)


def a_vote_is_not_on_the_disk(scene: Scene) -> None:
    machine = scene.quorum_leader.machine
    epoch = scene.invariants.quorum.stored(machine).epoch
    scene.invariants.quorum.voices[machine.name].votes.clear()
    scene.invariants.quorum.voted(machine, epoch, machine.config.node_id + 1)


def metadata_differ(scene: Scene) -> None:
    log = scene.invariants.quorum.voices["node-1"].log
    log.batches[-1] = log.batches[-1]._replace(raw=b"something else")
    log.matched -= 1


def a_leader_lacks_metadata(scene: Scene) -> None:
    scene.invariants.quorum.committed_by[0] = scene.invariants.quorum.committed.end + 1_000
    scene.quorum_leader.quorum.led_epoch = -1


def a_majority_loses_metadata(scene: Scene) -> None:
    for machine in scene.world.machines[:2]:
        log = scene.invariants.quorum.voices[machine.name].log
        machine.disk.cut(f"{log.directory}/{0:020d}.log", 70)


def _raise_the_quorums_high_watermark(scene: Scene, by: int) -> None:
    scene.quorum_follower.node.raft.core._log._high_watermark += by  # type: ignore[union-attr]


def the_quorums_high_watermark_falls(scene: Scene) -> None:
    _raise_the_quorums_high_watermark(scene, -1)


def a_follower_commits_metadata_alone(scene: Scene) -> None:
    _raise_the_quorums_high_watermark(scene, 100)


# -- lies about metadata -----------------------------------------------------------------------------------------------


def images_differ(scene: Scene) -> None:
    scene.show(replace(scene.image, brokers={}))


def two_leaders_of_an_epoch(scene: Scene) -> None:
    known = scene.registration
    other = next(replica for replica in known.replicas if replica != known.leader_id)
    scene.show(scene.next_image(partition=replace(known, leader_id=other, partition_epoch=known.partition_epoch + 1)))


def a_leader_epoch_falls(scene: Scene) -> None:
    known = scene.registration
    lower = replace(known, leader_epoch=known.leader_epoch - 1, partition_epoch=known.partition_epoch + 1)
    scene.show(scene.next_image(partition=lower))


def a_partition_vanishes(scene: Scene) -> None:
    topic = scene.image.topics_by_name["topic"]
    partitions = {number + 1: replace(known, partition=number + 1) for number, known in topic.partitions.items()}
    image = replace(scene.image, offset=scene.image.offset + 1)
    scene.show(replace(image, topics_by_id={topic.topic_id: replace(topic, partitions=partitions)}))


def a_topic_has_fewer_partitions(scene: Scene) -> None:
    topic = scene.image.topics_by_name["topic"]
    image = replace(scene.image, offset=scene.image.offset + 1)
    scene.show(replace(image, topics_by_id={topic.topic_id: replace(topic, partitions={})}))


def a_stranger_in_the_isr(scene: Scene) -> None:
    known = scene.registration
    more = replace(known, isr=(*known.isr, 77), partition_epoch=known.partition_epoch + 1)
    scene.show(scene.next_image(partition=more))


def a_fenced_broker_in_the_isr(scene: Scene) -> None:
    scene.show(scene.next_image(broker=replace(scene.image.brokers[1], fenced=True)))


# -- lies about partitions ---------------------------------------------------------------------------------------------


def a_leaders_high_watermark_falls(scene: Scene) -> None:
    scene.leader[1].high_watermark -= 10


def a_leader_forgets_a_member_of_the_isr(scene: Scene) -> None:
    machine, partition = scene.leader
    assert partition.leading is not None
    partition.leading.isr = frozenset({machine.config.node_id})


def _lose_records(machine: Machine, partition: Partition) -> None:
    machine.disk.cut(f"{partition.log.directory}/{0:020d}.log", 200)


def a_follower_loses_records(scene: Scene) -> None:
    _lose_records(*scene.follower)


def a_leader_loses_records(scene: Scene) -> None:
    _lose_records(*scene.leader)


def an_ack_of_nothing(scene: Scene) -> None:
    scene.invariants.acked("topic", 0, 1_000_000, [b"value"])


def an_ack_of_another_record(scene: Scene) -> None:
    scene.invariants.acked("topic", 0, 0, [b"never sent"])


def an_ack_of_a_topic_that_never_was(scene: Scene) -> None:
    scene.invariants.acked("nothing", 0, 0, [b"value"])


def a_record_is_read_that_nobody_wrote(scene: Scene) -> None:
    scene.invariants.was_read("topic", 0, [0], [b"never sent"])


def a_record_is_read_before_it_is_committed(scene: Scene) -> None:
    end = scene.leader[1].high_watermark
    scene.invariants.was_read("topic", 0, [end], [b"any"])


def records_are_read_in_another_order(scene: Scene) -> None:
    scene.world.clients.ledger.read("a reader", 0, 0, [0, 1], [encode_value(0, 1), encode_value(0, 0)])


def a_leader_brings_back_what_was_deleted(scene: Scene) -> None:
    """As if its lead began now."""
    scene.world.clients.ledger.was_deleted("topic", 0, 1)
    scene.seen(scene.leader[1]).leading = None


def a_follower_commits_alone(scene: Scene) -> None:
    scene.follower[1].high_watermark += 100


def a_log_start_above_the_high_watermark(scene: Scene) -> None:
    partition = scene.follower[1]
    partition.log._span.start = partition.high_watermark + 1


def an_epoch_cache_that_knows_nothing(scene: Scene) -> None:
    partition = scene.follower[1]
    partition.log._epochs._entries = ()
    scene.seen(partition).log_is_checked = False


def a_gap(scene: Scene) -> None:
    """Only in the page cache: the durable bytes are as before."""
    machine, partition = scene.follower
    machine.disk.file_at(f"{partition.log.directory}/{0:020d}.log").data[7] ^= 1
    scene.seen(partition).log_is_checked = False


def many_descriptors(scene: Scene) -> None:
    disk = scene.world.machines[0].disk
    some = next(iter(disk.descriptors.values()))
    disk.descriptors.update(dict.fromkeys(range(1_000_000, 1_005_000), some))


LIES: tuple[tuple[str, Lie], ...] = (
    ("I1", another_leader),
    ("I2", an_epoch_falls),
    ("I2", an_epoch_was_sent_before_the_restart),
    ("I3", two_votes),
    ("I3", a_vote_is_not_on_the_disk),
    ("I4", metadata_differ),
    ("I5", a_leader_lacks_metadata),
    ("I6", a_majority_loses_metadata),
    ("I6", a_follower_commits_metadata_alone),
    ("I7", the_quorums_high_watermark_falls),
    ("I7", a_leaders_high_watermark_falls),
    ("I8", images_differ),
    ("I10", two_leaders_of_an_epoch),
    ("I10", a_leader_epoch_falls),
    ("I11", a_stranger_in_the_isr),
    ("I11", a_fenced_broker_in_the_isr),
    ("I12", a_leader_forgets_a_member_of_the_isr),
    ("I13", a_follower_loses_records),
    ("I14", a_leader_loses_records),
    ("I14", an_ack_of_nothing),
    ("I14", an_ack_of_another_record),
    ("I14", an_ack_of_a_topic_that_never_was),
    ("I16", a_record_is_read_that_nobody_wrote),
    ("I16", a_record_is_read_before_it_is_committed),
    ("I16", records_are_read_in_another_order),
    ("I17", a_follower_commits_alone),
    ("I17", a_log_start_above_the_high_watermark),
    ("I18", an_epoch_cache_that_knows_nothing),
    ("I18", a_gap),
    ("I22", many_descriptors),
    ("I80", a_leader_brings_back_what_was_deleted),
    ("I41", a_partition_vanishes),
    ("I41", a_topic_has_fewer_partitions),
)


@pytest.mark.parametrize(("name", "lie"), told(LIES), ids=[f"{name}-{lie.__name__}" for name, lie in told(LIES)])
def test_a_lie_is_found_and_stops_the_story(name: str, lie: Lie) -> None:
    outcome = judged(lie)
    assert [failure.partition(":")[0] for failure in outcome.failures] == [name], outcome.failures
    assert outcome.seconds < LIE_SECONDS + 1.5


def test_an_ack_of_a_leader_that_has_not_heard_of_the_deletion_promises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node still serves the older one of two topics of that name. Not if that one has another record there since
    before its deletion, and not if nobody serves it any more."""
    promised: list[bool] = []

    def lie(scene: Scene) -> None:
        invariants = scene.invariants
        (key,) = invariants.keys("topic", 0)
        newer, older = PartitionKey("newer", 0), PartitionKey("older", 0)
        for keys, offset in (([key, newer], 1_000_000), ([key, newer], 0), ([older, key], 1_000_000)):
            monkeypatch.setattr(invariants, "keys", lambda *_, keys=keys: keys)
            promised.append(invariants.acked("topic", 0, offset, [b"never sent"]))

    failures = judged(lie).failures
    assert promised == [False, True, True]
    assert {failure.partition(":")[0] for failure in failures} == {"I14"}, failures


# -- mutants -----------------------------------------------------------------------------------------------------------


def test_a_voter_that_does_not_save_its_epoch_breaks_i2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QuorumStateFile, "save", lambda self, state: None)
    assert judged(lambda scene: None).failures[0].startswith("I2: ")


def test_voters_that_count_before_they_sync_break_i6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MetadataLog, "flush", lambda self: None)
    monkeypatch.setattr(MetadataLog, "flushed_offset", property(lambda self: self.log_end_offset))
    assert judged(lambda scene: None).failures[0].startswith("I6: ")


def test_a_replica_that_differs_below_its_high_watermark_breaks_i15(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the ISR, I13 would find it first."""
    monkeypatch.setattr(PartitionInvariants, "check_isr", lambda self, key: None)

    def lie(scene: Scene) -> None:
        replica = scene.seen(scene.follower[1]).replica
        replica.batches[0] = replica.batches[0]._replace(raw=b"something else")
        replica.compared = 0

    assert judged(lie).failures[0].startswith("I15: ")


def test_a_snapshot_without_its_last_record_breaks_i9(monkeypatch: pytest.MonkeyPatch) -> None:
    images: list[MetadataImage] = []
    judged(lambda scene: images.append(scene.image))
    MetadataInvariants({}).at_end("node-0", images[0])
    monkeypatch.setattr(metadata_invariants, "image_records", lambda image: list(image_records(image))[:-1])
    with pytest.raises(Violated, match=r"^I9: "):
        MetadataInvariants({}).at_end("node-0", images[0])


def test_a_record_that_is_answered_late_breaks_i24() -> None:
    def lie(scene: Scene) -> None:
        scene.world.clients.worst_ack_ms = 21_101

    assert judged(lie).failures == ["I24: a record was answered after 21101 ms, the limit is 20000 ms"]


def test_replicas_that_differ_at_the_end_break_i23(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "HEAL_SECONDS", 2.0)
    monkeypatch.setattr(replicas, "log_bytes", lambda machine, directory: machine.name.encode())
    (failure,) = judged(lambda scene: None).failures
    assert "all replicas are equal" in failure


def test_a_broker_that_is_out_of_service_at_the_end_breaks_i25(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "HEAL_SECONDS", 2.0)

    def lie(scene: Scene) -> None:
        machine = scene.world.machines[1]
        machine.start = lambda: None  # type: ignore[method-assign]
        machine.kill()

    (failure,) = judged(lie).failures
    assert "every node is in service again" in failure
