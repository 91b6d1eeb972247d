"""Troubles with nodes: calendars that jump, a leader that stands still, a newcomer that does, a voter of long ago."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from broker.kafka.schemas.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.types import METADATA_TOPIC
from tests.exactly_once.clocks import DAY_S
from tests.growth.ill_disks import SHORT_MS
from tests.growth.stage import FETCH_MS_MAX, Stage
from tests.growth.voters import TOPIC
from tests.support.kafka_socket import KafkaSocket

GROUP: Final = "keeps"
IDS: Final = "ids"
KEPT: Final = TopicPartition(TOPIC, 0)
STANDS_S: Final = 30.0
AMID_S: Final = 0.03


def calendars_that_jump(stage: Stage) -> None:
    """The leader's is eight days ahead, then in 1970, then right; a follower's is off the other way, and a broker's."""
    leader, spare, follower = stage.leader(), stage.spare(), stage.followers()[0]
    with Consumer(stage.fleet.bootstrap, group_id=GROUP, enable_auto_commit=False) as consumer:
        consumer.assign([KEPT])
        consumer.commit({KEPT: 5})
    offs_s = (8 * DAY_S, -int(time.time()), 0)
    with reader_at_a_follower(stage):
        for off_s in offs_s:
            set_calendar(stage, leader, off_s)
            set_calendar(stage, 1, off_s)
            set_calendar(stage, follower, -off_s)
            stage.say(f"the calendar of the leader is {off_s / DAY_S:+.0f} days off, those of others too")
            time.sleep(1.0)
            stage.add(spare)
            stage.remove(spare)
            with stage.told("a level is lowered and raised"):
                stage.admin.downgrade_features({"transaction.version": 1})
                stage.admin.upgrade_features({"transaction.version": 2})
            judge_times(stage)
            write_as_new_producers(stage)
            time.sleep(2.0)
        stage.wait_well(leader, follower, spare)
    with Consumer(stage.fleet.bootstrap, group_id=GROUP, enable_auto_commit=False) as consumer:
        if (found := consumer.committed([KEPT])[KEPT]) is None or found.offset != 5:
            stage.run.report.wrong("committed", f"{found} in the place of 5")
    if stage.leader() != leader:
        stage.run.report.wrong("calendar", f"{leader} lost its lead to {stage.leader()}")
    known = stage.admin.describe_producers([TopicPartition(IDS, 0)])[TopicPartition(IDS, 0)]
    if len({one.producer_id for one in known}) != 2 * len(offs_s):
        stage.run.report.wrong("producer-ids", f"{known}")


def set_calendar(stage: Stage, node: int, off_s: int) -> None:
    file = stage.fleet.directory / f"node-{node}" / "clock-shift"
    new = file.with_suffix(".new")
    new.write_text(str(off_s))
    new.rename(file)


def write_as_new_producers(stage: Stage) -> None:
    """Each of two idempotent producers, which are new, writes a record."""
    for _ in range(2):
        with Producer(stage.fleet.bootstrap, acks="all") as producer:
            producer.send(IDS, b"x").result(20)


def judge_times(stage: Stage) -> None:
    """No node fetched long ago, or in the future, at either listener."""
    found = stage.quorum()
    present = {(node, stage.fleet.directory_id(node)) for node in stage.fleet.controllers}
    for one in (*found.voters, *found.observers):
        if one.node_id in stage.fleet.controllers and (one.node_id, one.directory_id) not in present:
            continue  # a disk that is gone, which the leader still knows
        lag = found.lag_of(one)
        if not 0 <= one.last_fetch_ms_ago < FETCH_MS_MAX or lag is None or lag > 200:
            stage.run.report.wrong("describe", f"{one}, lag {lag}")
    topic = DescribeQuorumRequestTopicData(
        topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
    )
    with KafkaSocket(stage.fleet.kafka_bootstrap.split(",")[0]) as kafka:
        (partition,) = kafka.ask(DescribeQuorumRequest(topics=[topic]), 2, DescribeQuorumResponse).topics[0].partitions
    now_ms = time.time() * 1_000
    for state in partition.current_voters:
        if abs(now_ms - state.last_fetch_timestamp) > FETCH_MS_MAX:
            stage.run.report.wrong("describe", f"at KAFKA: {state}, and it is {now_ms:.0f}")


@contextmanager
def reader_at_a_follower(stage: Stage) -> Iterator[None]:
    """A reader in the rack of broker 1 never goes backwards, and misses nothing."""
    is_over, next_offset = threading.Event(), 0

    def read() -> None:
        nonlocal next_offset
        with Consumer(stage.fleet.bootstrap, client_rack="rack-1") as consumer:
            consumer.assign([KEPT])
            consumer.seek_to_beginning()
            while not is_over.is_set():
                for record in consumer.poll(200):
                    if record.offset != next_offset:
                        stage.run.report.wrong("follower-read", f"{record.offset} in the place of {next_offset}")
                    next_offset = record.offset + 1

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    stage.say(f"read in the rack of broker 1, up to {next_offset}")
    if not next_offset:
        stage.run.report.wrong("follower-read", "nothing was read")


def leader_that_stands_still(stage: Stage) -> None:
    """Half a minute, from the middle of a change on; the change is made by its successor."""
    leader, spare = stage.leader(), stage.spare()
    epoch = stage.quorum().leader_epoch
    adding = threading.Thread(target=stage.add, args=(spare,))
    adding.start()
    time.sleep(AMID_S)
    stage.fleet.nodes[leader].pause()
    began = time.monotonic()
    stage.wait_leader_but(leader)
    stage.say(f"{time.monotonic() - began:5.2f} s: another leads")
    adding.join()
    stage.wait("the voter is there", lambda: spare in stage.voters())
    stage.remove(spare)
    stage.add(spare)
    time.sleep(max(0.0, began + STANDS_S - time.monotonic()))
    stage.fleet.nodes[leader].resume()
    stage.wait_well(leader)
    found = stage.quorum()
    stage.say(f"{found.leader_epoch - epoch} epochs later, {found.leader_id} leads")


def newcomer_that_stands_still(stage: Stage) -> None:
    """It is no voter until it goes on."""
    node = stage.spare()
    process = stage.fleet.nodes[node]
    stage.empty(node)
    stage.format(node)
    process.spawn()
    stage.wait("the newcomer fetches", lambda: stage.seen(node) is not None)
    process.pause()
    with Admin(stage.fleet.bootstrap, default_api_timeout_ms=SHORT_MS) as admin:
        disk, address = stage.fleet.directory_id(node), stage.fleet.address(node)
        stage.refused("a newcomer that stands is added", lambda: admin.add_voter(node, disk, address))
    if node in stage.voters():
        stage.run.report.wrong("newcomer", f"{node} stands, and is a voter")
    process.resume()
    stage.add(node)


def voter_of_long_ago(stage: Stage) -> None:
    """Removed while it was down, it comes back with its old log, by which it votes: nobody's lead ends by that."""
    node = stage.followers()[0]
    stage.fleet.nodes[node].kill()
    stage.remove(node)
    leader = stage.leader()
    stage.fleet.nodes[leader].kill()
    stage.fleet.start(leader)
    stage.wait_well(leader)
    before = stage.quorum()
    stage.fleet.start(node)
    stage.wait_well(node)
    time.sleep(3.0)
    after = stage.quorum()
    if node in stage.voters() or (before.leader_id, before.leader_epoch) != (after.leader_id, after.leader_epoch):
        stage.run.report.wrong("old-voter", f"{before} and then {after}")
    stage.add(node)


TROUBLES = (calendars_that_jump, leader_that_stands_still, newcomer_that_stands_still, voter_of_long_ago)
