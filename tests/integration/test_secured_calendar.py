"""A secured cluster of which one node's calendar jumps beyond the end of every certificate: nothing that was acked is
lost, who is logged in stays so, and the node is one of them again when its calendar is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import Consumer, Producer, RecordFuture, TopicPartition
from penstock.testing import Cluster
from tests.support.shifted_clock import ShiftedClock

TWO_YEARS_S = 2 * 365 * 86_400
PARTITIONS, COUNT = 3, 60
NOTHING_ENDS = {"retention.ms": "-1"}


def send(producer: Producer, topic: str, first: int) -> dict[bytes, RecordFuture]:
    values = [b"%03d" % number for number in range(first, first + COUNT)]
    return {value: producer.send(topic, value) for value in values}


def acked(sent: dict[bytes, RecordFuture]) -> list[bytes]:
    for future in sent.values():
        future.result(60)
    return list(sent)


def read(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    options = {"auto_offset_reset": "earliest", **cluster.client_options}
    with Consumer(cluster.bootstrap, **options) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        found: list[bytes | None] = []
        while len(found) < count and (records := consumer.poll(timeout_ms=60_000)):
            found += [record.value for record in records]
    return sorted(found, key=str)


@pytest.mark.long  # likewise test_memory_calendars.py
def test_a_calendar_two_years_ahead_costs_nothing_that_was_acked(tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path)
    cluster = Cluster(3, directory=tmp_path / "cluster", secure=True)
    with cluster:
        topic = cluster.topic(partitions=PARTITIONS, config=NOTHING_ENDS)
        ahead, restarted = {0, 1, 2} - {cluster.controller()}
        cluster.stop(ahead)
        with clock.within():
            cluster.start(ahead)
        cluster.wait_in_sync()
        with Producer(cluster.bootstrap, **cluster.client_options) as producer:
            values = acked(send(producer, topic, 0))
            clock.ahead(TWO_YEARS_S)
            values += acked(send(producer, topic, COUNT))  # by connections that stand
            cluster.restart(restarted)  # the node ahead takes no new connection, and makes none
            sent = send(producer, topic, 2 * COUNT)  # what the node ahead leads may wait for its followers
            clock.ahead(0)
            values += acked(sent)
            cluster.wait_in_sync()
            values += acked(send(producer, topic, 3 * COUNT))
        assert read(cluster, topic, len(values)) == sorted(values)
