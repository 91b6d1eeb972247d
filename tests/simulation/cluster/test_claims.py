"""Wrong claims, and brokers that are left in service though nobody hears of them, are found when they are made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.controller.sessions import BrokerSessions
from penstock.errors import KafkaStorageError
from penstock.messages.nodes.partitions import AlterPartitionData, AlterPartitionResult, IsrMember
from storage.disk.file_names import CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT
from tests.simulation.cluster import test_invariants
from tests.simulation.cluster.claim_invariants import ClaimInvariants
from tests.simulation.cluster.conditions import newest_image
from tests.simulation.cluster.test_invariants import HEALTHY, Lie, Scene, judged, told
from tests.support.losing_fs import File


def a_log_calls_flushed_what_is_not(scene: Scene) -> None:
    scene.follower[1].log._flushing.recovery_point += 1_000


def _put(scene: Scene, name: str, content: bytes) -> None:
    machine = scene.follower[0]
    log_dir = machine.disk.directory_at(machine.config.log_dirs[0])
    log_dir.change({name: File(bytearray(content), content)})
    log_dir.sync()


def a_cut_log_knows_an_epoch_behind_its_end(scene: Scene) -> None:
    machine, partition = scene.follower
    partition.log.assign_epoch(1_000, partition.log.log_end_offset)
    scene.invariants.heard[machine.name].cut(partition.log.directory)


def a_node_that_runs_says_that_it_has_stopped(scene: Scene) -> None:
    _put(scene, CLEAN_SHUTDOWN, b"")


def a_recovery_point_above_the_disk(scene: Scene) -> None:
    _put(scene, RECOVERY_POINT_CHECKPOINT, f"2\n1\ntopic 0 9999 {scene.registration.topic_id}\nseal\n".encode())


def a_log_has_rolled_and_a_name_is_not_durable(scene: Scene) -> None:
    """A little later than other lies: with this step a look at all disks is due, which would find it first."""

    def tell() -> None:
        machine, partition = scene.follower
        log = partition.log
        log.roll()
        machine.disk.directory_at(log.directory).durable.pop(f"{log.segments[0].base_offset:020d}.log")

    scene.world.at(scene.world.scheduler.now_s + 0.01, tell)


def _refuse(scene: Scene, content: bytes, *, is_taken_back: bool) -> None:
    """A follower's log refuses an append that left this in the active segment, and says that nothing was written."""
    machine, partition = scene.follower
    active, heard = partition.log.segments[-1], scene.invariants.heard[machine.name]
    file = machine.disk.file_at(active.log_path)
    heard.appending(partition.log.directory)
    file.change(active.size_bytes, content)
    if is_taken_back:
        file.change(active.size_bytes, None)
    error = KafkaStorageError("the disk is full")
    error.nothing_written = True
    heard.append_refused(partition.log.directory, error)


def a_refused_append_is_still_in_the_file(scene: Scene) -> None:
    _refuse(scene, b"half of a batch", is_taken_back=False)


def a_refused_append_had_a_batch_in_the_file(scene: Scene) -> None:
    machine, partition = scene.leader
    file = machine.disk.file_at(partition.log.segments[-1].log_path)
    _refuse(scene, bytes(file.data), is_taken_back=True)


def a_log_ends_below_its_segments(scene: Scene) -> None:
    machine, partition = scene.follower
    heard, directory = scene.invariants.heard[machine.name], partition.log.directory
    heard.appending(directory)
    partition.log._span.end -= 1
    heard.append_refused(directory, KafkaStorageError("the disk is full"))


def a_leader_counts_a_log_start_above_the_followers(scene: Scene) -> None:
    leading = scene.leader[1].leading
    assert leading is not None
    next(iter(leading.followers.values())).log_start_offset += 1_000


def a_leader_counts_what_a_follower_lacks(scene: Scene) -> None:
    leading = scene.leader[1].leading
    assert leading is not None
    next(iter(leading.followers.values())).log_end_offset += 1_000


def a_leader_counts_a_fetch_of_an_earlier_process(scene: Scene) -> None:
    leading = scene.leader[1].leading
    assert leading is not None
    next(iter(leading.followers.values())).broker_epoch -= 1


def a_leader_counts_a_fetch_in_an_earlier_epoch(scene: Scene) -> None:
    _, follower = scene.follower
    follower.state = replace(follower.state, leader_epoch=follower.state.leader_epoch - 1)


def one_joins_that_has_not_fetched(scene: Scene) -> None:
    partition, known = scene.leader[1], scene.registration
    assert partition.leading is not None
    follower, before = next(iter(partition.leading.followers)), partition.leading.isr
    partition.leading.isr = before - {follower}
    members = (IsrMember(follower, 1_000_000),)
    data = AlterPartitionData(known.topic_id, 0, known.leader_epoch, known.partition_epoch, members)
    scene.invariants.claims.wanted(partition, data)
    partition.leading.isr = before


def a_producer_waits_where_nobody_leads(scene: Scene) -> None:
    scene.follower[1].acks_all.add(1 << 40, lambda error: None)


def an_image_is_ahead_of_the_quorum(scene: Scene) -> None:
    scene.show(scene.next_image())


def a_fenced_leader(scene: Scene) -> None:
    known, claims = scene.registration, scene.invariants.claims
    alone = replace(known, isr=(known.leader_id,), partition_epoch=known.partition_epoch + 1)
    leader = replace(scene.image.brokers[known.leader_id], fenced=True)
    image = scene.next_image(partition=alone, broker=leader)
    scene.invariants.metadata.newest = image
    claims.seen_image("node-0", image, 1 << 40)


def no_leader_though_one_could_lead(scene: Scene) -> None:
    image = scene.next_image(partition=replace(scene.registration, leader_id=-1))
    scene.invariants.metadata.newest = image
    scene.invariants.claims.seen_image("node-0", image, 1 << 40)


def in_service_before_it_has_read_its_registration(scene: Scene) -> None:
    scene.invariants.claims.caught_up.clear()
    scene.invariants.claims.seen_image("node-0", scene.image, 1 << 40)


def _accept(scene: Scene, *, leader_epoch: int = 0, ahead: int = 0, broker_epoch: int = 0) -> None:
    known = scene.registration
    members = tuple(IsrMember(member, scene.image.brokers[member].broker_epoch + broker_epoch) for member in known.isr)
    data = AlterPartitionData(known.topic_id, 0, known.leader_epoch + leader_epoch, known.partition_epoch - 1, members)
    result = AlterPartitionResult(
        known.topic_id, 0, None, known.leader_id, known.leader_epoch, known.partition_epoch + ahead, known.isr
    )
    scene.invariants.claims.brokers_at[known.key, known.partition_epoch] = dict(scene.image.brokers)
    scene.invariants.claims.accepted(known.leader_id, data, result)


LIES: tuple[tuple[str, Lie], ...] = (
    ("I16", lambda scene: scene.invariants.was_read("topic", 0, [1_000_000], [b"v"])),
    ("I18", a_cut_log_knows_an_epoch_behind_its_end),
    ("I26", a_log_calls_flushed_what_is_not),
    ("I26", a_node_that_runs_says_that_it_has_stopped),
    ("I26", a_recovery_point_above_the_disk),
    ("I26", a_log_has_rolled_and_a_name_is_not_durable),
    ("I26", a_refused_append_is_still_in_the_file),
    ("I26", a_refused_append_had_a_batch_in_the_file),
    ("I26", a_log_ends_below_its_segments),
    ("I27", a_leader_counts_a_log_start_above_the_followers),
    ("I27", a_leader_counts_what_a_follower_lacks),
    ("I27", a_leader_counts_a_fetch_of_an_earlier_process),
    ("I27", a_leader_counts_a_fetch_in_an_earlier_epoch),
    ("I29", one_joins_that_has_not_fetched),
    ("I27", a_producer_waits_where_nobody_leads),
    ("I28", an_image_is_ahead_of_the_quorum),
    ("I28", a_fenced_leader),
    ("I28", no_leader_though_one_could_lead),
    ("I28", in_service_before_it_has_read_its_registration),
    ("I29", lambda scene: _accept(scene, leader_epoch=-1)),
    ("I29", lambda scene: _accept(scene, ahead=1)),
    ("I29", lambda scene: _accept(scene, broker_epoch=1)),
)


def a_followers_disk_says_that_it_has_synced(scene: Scene) -> None:
    scene.follower[0].disk.lazy_fdatasync = True


def a_leaders_disk_says_that_it_has_synced(scene: Scene) -> None:
    scene.leader[0].disk.lazy_fdatasync = True


DISK_LIES: tuple[tuple[str, Lie], ...] = (
    ("I13", a_followers_disk_says_that_it_has_synced),
    ("I19", a_leaders_disk_says_that_it_has_synced),
)


@pytest.mark.parametrize(("name", "lie"), DISK_LIES)
def test_a_disk_that_lies_is_found_by_its_claim_and_else_by_what_is_committed(
    name: str, lie: Lie, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judged(lie).failures[0].startswith(("I26: ", f"{name}: "))
    monkeypatch.setattr(ClaimInvariants, "after_step", lambda *_: None)
    assert judged(lie).failures[0].startswith(f"{name}: ")


@pytest.mark.parametrize(("name", "lie"), told(LIES))
def test_a_wrong_claim_is_found(name: str, lie: Lie) -> None:
    outcome = judged(lie)
    assert [failure.partition(":")[0] for failure in outcome.failures] == [name], outcome.failures
    assert outcome.seconds < test_invariants.LIE_SECONDS + 1.5


def test_an_append_that_was_refused_and_taken_back_is_no_claim_too_much() -> None:
    assert not judged(lambda scene: _refuse(scene, b"half of a batch", is_taken_back=True)).failures


def test_a_fetch_of_before_older_log_dirs_were_put_back_is_no_claim_of_theirs() -> None:
    def lie(scene: Scene) -> None:
        for machine in scene.world.machines:
            scene.invariants.claims.put_back(machine.config.node_id, newest_image(scene.world))
        a_leader_counts_what_a_follower_lacks(scene)

    assert not any(failure.startswith("I27: ") for failure in judged(lie).failures)


def test_a_change_of_the_isr_that_is_as_it_should_be_is_no_claim_too_much() -> None:
    assert not judged(_accept).failures


def test_a_silent_broker_that_stays_in_service_breaks_i30(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerSessions, "expired", lambda self, now_ms: [])

    def lie(scene: Scene) -> None:
        scene.follower[0].pause()

    (failure,) = judged(lie, replace(HEALTHY, seconds=8.0)).failures
    assert failure.startswith("I30: ")
