"""Promises of the wait for a partition that this broker does not have yet: by what evidence, and until when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker.apis.arrivals.arrival import (
    READ_FAILED_MS,
    READ_WINDOW_MS,
    READS_OF_PARTY,
    AwaitedPartitions,
    CommittedEnds,
    PartitionStatus,
    WaitStep,
    known_status_of,
    status_of,
    unsettled_of,
)
from broker.network.named_partitions import Named, NamedPartition
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.hosting.replica_states import LostReplica
from metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from metadata.registrations import PartitionRegistration
from penstock.messages.security.acls import Operation
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, make_partition, state

ONE, TWO = NamedPartition("t", TOPIC_ID, 0), NamedPartition("u", "", 0)


def image(registration: PartitionRegistration) -> MetadataImage:
    topic = TopicImage("t", TOPIC_ID, {0: registration})
    return replace(EMPTY_IMAGE, topics_by_id={TOPIC_ID: topic}, topics_by_name={"t": topic})


def hosted(broker_id: int = 1) -> HostedPartitions:
    return HostedPartitions(broker_id)


@pytest.mark.parametrize(
    "named",
    [
        NamedPartition("other", "", 0),
        NamedPartition("", "other-id", 0),
        NamedPartition("t", "other-id", 0),
        NamedPartition("t", "", 1),
        NamedPartition("t", "", 0, leader_epoch=6),
    ],
)
def test_a_topic_an_id_a_number_or_an_epoch_that_the_metadata_lacks_is_unseen(named: NamedPartition) -> None:
    assert status_of(named, image(state(leader_epoch=5)), hosted()) is PartitionStatus.UNSEEN


def test_a_partition_that_this_broker_leads_is_opening_until_its_log_is_there_or_lost(tmp_path: Path) -> None:
    known, table = image(state(leader_id=1)), hosted()
    assert status_of(ONE, known, hosted(2)) is PartitionStatus.ELSEWHERE
    replica = table.known(PARTITION)
    replica.queue(starts_empty=True)
    replica.create()
    assert status_of(ONE, known, table) is PartitionStatus.OPENING
    replica.lack_log(LostReplica(OSError("EIO"), 1), starts_empty=True)
    assert status_of(ONE, known, table) is PartitionStatus.SETTLED, "KAFKA_STORAGE_ERROR at once"
    replica.queue(starts_empty=True)
    assert status_of(ONE, known, table) is PartitionStatus.SETTLED, "it is tried again, and is still lost"
    replica.open(make_partition(tmp_path))
    assert status_of(ONE, known, table) is PartitionStatus.SETTLED


def test_for_a_coordinator_a_partition_is_settled_once_the_metadata_has_it_whoever_leads_it() -> None:
    known, table = image(state(leader_id=1)), hosted()
    replica = table.known(PARTITION)
    replica.queue(starts_empty=True)
    for here in (table, hosted(2)):
        assert known_status_of(ONE, known, here) is PartitionStatus.SETTLED, "no commit waits for a log"
        assert known_status_of(NamedPartition("", TOPIC_ID, 0), known, here) is PartitionStatus.SETTLED
        for other in (TWO, NamedPartition("t", "other-id", 0), NamedPartition("t", "", 1)):
            assert known_status_of(other, known, here) is PartitionStatus.UNSEEN


EACH = [
    NamedPartition(topic, topic_id, number, epoch)
    for topic, topic_id in (("t", ""), ("", TOPIC_ID), ("t", TOPIC_ID), ("t", "other"), ("", "other"), ("u", ""))
    for number in (0, 1)
    for epoch in (-1, 5, 6)
]


@pytest.mark.parametrize("leads", [False, True])
@pytest.mark.parametrize("role", ["none", "queued", "follows", "leads", "of an older topic"])
def test_the_quick_look_finds_what_is_not_settled_as_the_thorough_one_does(
    tmp_path: Path, role: str, leads: bool
) -> None:
    registration = state(leader_id=1 if leads else 2)
    topic_id = "older" if role == "of an older topic" else TOPIC_ID
    topic = TopicImage("t", topic_id, {0: replace(registration, topic_id=topic_id)})
    known, table = replace(EMPTY_IMAGE, topics_by_id={topic_id: topic}, topics_by_name={"t": topic}), hosted()
    if role != "none":
        replica = table.known(PARTITION)
        replica.queue(starts_empty=True)
    if role in ("follows", "leads"):
        partition = make_partition(tmp_path)
        replica.open(partition)
        if role == "leads" and leads:
            partition.become_leader(registration, 0)
        else:
            partition.become_follower(registration, NOBODY)
    for needs_log, status in ((True, status_of), (False, known_status_of)):
        found = unsettled_of(Named(Operation.READ, EACH, needs_log=needs_log), known, table)
        assert found == [one for one in EACH if status(one, known, table) is not PartitionStatus.SETTLED]


def test_a_replica_tells_of_each_of_its_states() -> None:
    table, reported = hosted(), list[int]()
    table.subscribe(lambda: reported.append(1))
    replica = table.known(PARTITION)
    replica.queue(starts_empty=True)
    replica.create()
    assert len(reported) == 2


def test_an_unknown_topic_costs_one_read_and_ends_when_the_metadata_read_is_applied() -> None:
    arrival = AwaitedPartitions([ONE, TWO])
    assert arrival.step(lambda _: PartitionStatus.UNSEEN, 10, 10) is WaitStep.READ
    arrival.read(12)
    assert arrival.step(lambda _: PartitionStatus.UNSEEN, 11, 11) is WaitStep.NEWS
    assert arrival.step(lambda _: PartitionStatus.UNSEEN, 12, 12) is WaitStep.DONE, "neither exists"


def test_a_topic_that_does_not_exist_waits_for_nothing_where_the_metadata_is_up_to_date() -> None:
    arrival = AwaitedPartitions([ONE])
    assert arrival.step(lambda _: PartitionStatus.UNSEEN, 12, 12) is WaitStep.READ
    arrival.read(12)
    assert arrival.step(lambda _: PartitionStatus.UNSEEN, 12, 12) is WaitStep.DONE


def test_without_an_answer_of_the_quorum_nothing_is_waited_for() -> None:
    arrival = AwaitedPartitions([ONE])
    assert arrival.step(lambda _: PartitionStatus.UNSEEN, 5, 9) is WaitStep.READ
    arrival.read(None)
    assert arrival.step(lambda _: PartitionStatus.UNSEEN, 5, 9) is WaitStep.DONE


def test_a_partition_led_elsewhere_waits_only_for_what_is_known_here_to_be_committed() -> None:
    arrival = AwaitedPartitions([ONE])
    assert arrival.step(lambda _: PartitionStatus.ELSEWHERE, 8, 9) is WaitStep.NEWS
    assert arrival.step(lambda _: PartitionStatus.ELSEWHERE, 9, 9) is WaitStep.DONE


def test_metadata_that_was_committed_later_is_not_waited_for() -> None:
    arrival = AwaitedPartitions([ONE])
    assert arrival.step(lambda _: PartitionStatus.ELSEWHERE, 8, 9) is WaitStep.NEWS
    assert arrival.step(lambda _: PartitionStatus.ELSEWHERE, 9, 12) is WaitStep.DONE, "it may never be up to date"


def test_a_log_that_is_being_opened_is_waited_for_after_the_metadata() -> None:
    statuses = {ONE: PartitionStatus.UNSEEN}
    arrival = AwaitedPartitions([ONE])
    assert arrival.step(statuses.__getitem__, 8, 8) is WaitStep.READ
    arrival.read(9)
    statuses[ONE] = PartitionStatus.OPENING
    assert arrival.step(statuses.__getitem__, 9, 9) is WaitStep.NEWS
    statuses[ONE] = PartitionStatus.SETTLED
    assert arrival.step(statuses.__getitem__, 9, 9) is WaitStep.DONE


def test_requests_share_a_read_and_one_that_came_during_a_read_gets_the_next() -> None:
    ends = CommittedEnds()
    assert ends.ask("a", 0) == ends.ask("b", 0) == 1
    assert ends.begin() and not ends.begin(), "one at a time"
    assert ends.ask("c", 0) == 2
    ends.ended(7, 1)
    assert ends.has(1) and not ends.has(2) and ends.end_offset == 7
    assert ends.begin()
    ends.ended(8, 2)
    assert ends.has(2) and not ends.begin(), "nobody wants another one"


def test_after_a_read_that_failed_nobody_waits_for_one_for_a_while() -> None:
    ends = CommittedEnds()
    ends.ask("a", 0)
    ends.begin()
    ends.ask("b", 0)
    ends.ended(None, 100)
    assert ends.has(2) and ends.end_offset is None and not ends.begin(), "b goes on without"
    assert ends.ask("a", 100 + READ_FAILED_MS - 1) is None
    assert ends.ask("a", 100 + READ_FAILED_MS) == 3


def test_a_party_waits_for_so_many_reads_in_a_second_and_others_for_theirs() -> None:
    ends = CommittedEnds()
    asked = [ends.ask("a", 5_000) for _ in range(READS_OF_PARTY + 1)]
    assert asked[-1] is None and None not in asked[:-1]
    assert ends.ask("b", 5_000) is not None
    assert ends.ask("a", 5_000 + READ_WINDOW_MS) is not None
