"""How many producers a log and a node know: who is refused, who makes room, and which logs take none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import (
    InvalidRecordError,
    ResourceExhaustedError,
)
from penstock.types import TopicPartition
from storage.append.producer_ids import SILENT_MS
from tests.support.losing_fs import LosingFileSystem
from tests.support.producer_node import Node, placed, sent
from tests.support.storage import NOW_MS, SMALL, batch, reopened


@pytest.mark.parametrize("bound", ["max_per_partition", "max_per_node"])
def test_above_a_bound_a_new_producer_is_refused_until_one_is_silent(bound: str) -> None:
    node = Node(**{bound: 2})
    node.send(0, producer_id=1)
    node.clock.advance(1_000)
    node.send(0, producer_id=2)
    with pytest.raises(ResourceExhaustedError) as refused:
        node.send(0, producer_id=3)
    assert refused.value.retriable and refused.value.nothing_written
    assert node.send(0, producer_id=1).is_duplicate and node.send(1, producer_id=2).first_offset == 2

    node.clock.advance(SILENT_MS - 1_000)
    node.send(0, producer_id=3)
    assert [node.known(one) for one in (1, 2, 3)] == [[], [(0, 1), (1, 2)], [(0, 3)]]
    assert len(node.manager.producer_ids) == 2


def test_at_the_bound_of_the_node_several_make_room_at_once() -> None:
    """To find out who was silent longest, all logs are looked at: not for each new producer."""
    node = Node(max_per_node=300)
    for producer_id in range(300):
        node.send(0, producer_id=producer_id)
        node.clock.advance(1)
    node.clock.advance(SILENT_MS - 299)  # those from 2 on were silent for less
    node.send(0, producer_id=300)
    assert list(node.log.producers.known) == list(range(2, 301))

    node.clock.advance(SILENT_MS)
    for producer_id in range(301, 305):
        node.send(0, producer_id=producer_id)
    assert list(node.log.producers.known) == list(range(5, 305))
    assert node.manager.producer_ids.counts.evicted == 5


def test_a_follower_refuses_nobody_and_forgets_the_longest_silent() -> None:
    node = Node(max_per_partition=2)
    node.log.append.as_follower(b"".join(placed(sent(0, producer_id=one), one) for one in range(4)))

    assert list(node.log.producers.known) == [2, 3]
    assert len(node.manager.producer_ids) == 2


def test_a_producer_that_made_room_for_another_log_leaves_nothing_behind() -> None:
    """An entry that could be taken back would stay in memory until the next append, which an idle log does not get."""
    node = Node(max_per_node=2)
    node.send(0)
    node.send(0, producer_id=9)
    other = node.manager.get_or_create(TopicPartition("other", 0), "other id", SMALL)
    node.clock.advance(SILENT_MS)
    other.append.as_leader(sent(0, producer_id=8), 0, NOW_MS)

    node.log.producers.known.take_back()
    assert node.known() == []


def test_closed_logs_do_not_count() -> None:
    node = Node()
    node.send(0)
    ids = node.manager.producer_ids
    assert len(ids) == 1
    node.manager.close(True)
    assert len(ids) == 0


def test_a_log_of_an_older_release_is_read_once() -> None:
    """It has several segments and no snapshot: the first flush writes one, so that a crash costs less."""
    fs = LosingFileSystem()
    old = Node(fs, config=replace(SMALL, keeps_producers=False))
    for _ in range(10):
        old.log.append.as_leader(batch(b"value-00"), 0, NOW_MS)
    old.manager.close(True)
    node = Node(fs)
    assert node.snapshots() == []
    node.send(0)
    node.log.flush()

    assert node.snapshots() == [10]


def test_a_log_that_stands_alone_takes_no_producers() -> None:
    fs = LosingFileSystem()
    Node(fs).log.flush()
    log = reopened(fs, 0)
    with pytest.raises(InvalidRecordError):
        log.append.as_leader(sent(0), 0, NOW_MS)
