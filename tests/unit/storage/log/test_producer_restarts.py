"""Who makes room at the bound of producers after a start: by the silence that earlier processes have watched.

Too little of it refuses every new producer for ten minutes after each start. Too much of it, as a calendar would tell
it, forgets a producer that may still send a batch again. Not here: the times of batches that are read
(test_producer_times.py).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import ResourceExhaustedError
from storage.append.producer_ids import SILENT_MS
from storage.append.steady_calendar import JUMP_MS_MAX
from storage.log_config import DAY_MS
from storage.recovery.producer_snapshot import read_snapshot
from tests.support.producer_node import Node
from tests.support.storage import SMALL

ONE_SEGMENT = replace(SMALL, segment_bytes=1 << 30)
MINUTE = 60_000
BOUND = 20


def full(silent_ms: int = SILENT_MS, max_per_partition: int = BOUND, max_per_node: int = 1_000) -> Node:
    """A node with BOUND producers, which have been silent for so long."""
    node = Node(config=ONE_SEGMENT, max_per_partition=max_per_partition, max_per_node=max_per_node)
    for producer_id in range(BOUND):
        node.send(0, producer_id=producer_id)
    node.clock.advance(silent_ms)
    return node


def refused(node: Node, first: int, count: int) -> int:
    """How many of so many new producers are refused."""
    found = 0
    for producer_id in range(first, first + count):
        try:
            node.send(0, producer_id=producer_id)
        except ResourceExhaustedError:
            found += 1
    return found


def version(node: Node) -> int:
    path = f"{node.log.directory}/{node.snapshots()[-1]:020d}.snapshot"
    fd = node.fs.open(path)
    try:
        return int(node.fs.pread(fd, 1, 0))
    finally:
        node.fs.close(fd)


@pytest.mark.parametrize(("of_partition", "of_node"), [(BOUND, 1_000), (1_000, BOUND)], ids=["partition", "node"])
def test_no_start_refuses_new_producers_while_others_are_silent(of_partition: int, of_node: int) -> None:
    node, wrong = full(max_per_partition=of_partition, max_per_node=of_node), 0
    for start in range(18):
        node.clock.advance(SILENT_MS)
        node.restart(clean=True)
        wrong += refused(node, 1_000 + 10 * start, 10)
    assert wrong == 0 and len(node.manager.producer_ids) <= BOUND


@pytest.mark.parametrize("jump_ms", [30 * DAY_MS, -30 * DAY_MS])
def test_a_calendar_that_jumps_in_a_restart_makes_nobody_silent(jump_ms: int) -> None:
    node = full(SILENT_MS - MINUTE)
    node.restart(clean=True, between=lambda: node.clock.jump_wall(jump_ms))
    assert refused(node, 1_000, 1) == 1 and node.send(0, producer_id=0).is_duplicate

    node.clock.advance(MINUTE)
    assert refused(node, 1_000, BOUND) == 0


@pytest.mark.parametrize("jump_ms", [30 * DAY_MS, JUMP_MS_MAX])
def test_a_calendar_that_is_set_forward_in_the_process_before_makes_nobody_silent(jump_ms: int) -> None:
    node = full(MINUTE)
    node.clock.jump_wall(jump_ms)
    node.restart(clean=True)
    assert refused(node, 1_000, 1) == 1


def test_time_in_which_no_process_ran_is_no_silence() -> None:
    node = full(MINUTE)
    node.restart(clean=True, between=lambda: node.clock.advance(DAY_MS))
    assert refused(node, 1_000, 1) == 1


def test_the_silence_of_short_lives_adds_up() -> None:
    node = full(MINUTE)
    for _ in range(8):
        node.restart(clean=True)
        node.clock.advance(MINUTE)
        assert refused(node, 1_000, 1) == 1
    node.restart(clean=True)
    node.clock.advance(MINUTE)
    assert refused(node, 1_000, BOUND) == 0


def test_a_producer_that_wrote_behind_the_snapshot_is_not_silent_after_a_kill() -> None:
    node = full()
    node.restart(clean=True)
    for producer_id in range(BOUND):
        node.send(1, producer_id=producer_id)
    node.log.flush()
    node.restart(node.fs.after_kill())
    assert refused(node, 1_000, 1) == 1 and node.send(0, producer_id=0).is_duplicate


def test_a_producer_whose_batch_was_cut_off_is_not_silent() -> None:
    node = full()
    node.restart(clean=True)
    end = node.log.log_end_offset
    node.send(1, producer_id=0)
    node.log.truncate_to(end)
    assert refused(node, 1_000, 1) == 1


def test_only_the_snapshots_of_logs_near_a_bound_have_the_version_that_older_releases_do_not_use() -> None:
    near, far = full(max_per_partition=2 * BOUND), full(max_per_partition=2 * BOUND + 1)
    for node in (near, far):
        node.restart(clean=True)
    assert (version(near), version(far)) == (4, 1)
    offset = near.snapshots()[-1]
    snapshot = read_snapshot(near.fs, near.log.directory, offset)
    assert snapshot is not None and set(snapshot.silences.values()) == {SILENT_MS}
