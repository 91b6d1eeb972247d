"""No producer that still sends makes room for another: for no calendar that is corrected, after no suspend and no cut.

A batch that it sends again would be written twice. Starts: test_producer_restarts.py.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence

import pytest

from penstock.errors import CorruptFileError
from storage.append.producer_ids import SILENT_MS
from storage.disk.atomic_file import write_atomically
from storage.disk.file_names import CLEAN_SHUTDOWN
from storage.disk.sealed_text import seal, unseal
from storage.log_config import DAY_MS
from storage.recovery.producer_snapshot import read_snapshot, snapshot_path
from tests.support.producer_node import Node
from tests.unit.storage.log.test_producer_restarts import BOUND, MINUTE, ONE_SEGMENT, full, refused
from tests.unit.storage.log.test_producer_times import write


def busy(up_ms: int, max_per_partition: int = BOUND, max_per_node: int = 1_000) -> Node:
    """A node that has been up for so long, and at whose bound every producer has written a second ago."""
    node = Node(config=ONE_SEGMENT, max_per_partition=max_per_partition, max_per_node=max_per_node)
    node.clock.advance(up_ms)
    for producer_id in range(BOUND):
        node.send(0, producer_id=producer_id)
    node.clock.advance(1_000)
    return node


def a_step(node: Node) -> None:
    node.clock.jump_wall(11 * MINUTE)


def a_suspend(node: Node) -> None:
    node.clock.suspend(15 * MINUTE)


@pytest.mark.parametrize("happens", [a_step, a_suspend])
@pytest.mark.parametrize("up_ms", [0, 2 * SILENT_MS], ids=["young", "old"])
@pytest.mark.parametrize(("of_partition", "of_node"), [(BOUND, 1_000), (1_000, BOUND)], ids=["partition", "node"])
def test_neither_a_corrected_calendar_nor_a_suspend_is_a_silence(
    happens: Callable[[Node], None], up_ms: int, of_partition: int, of_node: int
) -> None:
    node = busy(up_ms, of_partition, of_node)
    happens(node)
    assert refused(node, 1_000, 5) == 5
    if of_partition == BOUND:
        assert node.send(0, producer_id=0).is_duplicate


@pytest.mark.parametrize("happens", [a_step, a_suspend])
def test_the_next_process_is_told_of_no_silence_that_nobody_watched(happens: Callable[[Node], None]) -> None:
    node = busy(2 * SILENT_MS)
    happens(node)
    node.restart(clean=True)
    assert refused(node, 1_000, 5) == 5


def test_a_step_of_almost_an_hour_after_a_start_makes_room_for_nobody() -> None:
    node = full(MINUTE)
    node.restart(clean=True)
    for producer_id in range(BOUND):
        node.send(1, producer_id=producer_id)
    node.clock.jump_wall(59 * MINUTE)
    assert refused(node, 1_000, 5) == 5


@pytest.mark.parametrize("is_prepared", [True, False])
def test_after_a_cut_nobody_is_silent_for_longer_than_was_known_before(is_prepared: bool) -> None:
    """The log is read again, and its records are a day older than their appends."""
    node = Node(config=ONE_SEGMENT, max_per_partition=BOUND)
    node.clock.advance(SILENT_MS)
    for producer_id in range(BOUND):
        write(node, producer_id, behind_ms=DAY_MS)
        node.clock.advance(1_000)
    end = node.log.log_end_offset
    write(node, BOUND - 1, 1, behind_ms=DAY_MS)
    cut = node.log.producers.prepare_cut(end) if is_prepared else None
    if cut is not None:
        cut.run(lambda: True)
    node.log.truncate_to(end)
    node.log.producers.known_now()
    assert refused(node, 1_000, 1) == 1


@pytest.mark.parametrize("silence_ms", ["9" * 19, "9" * 4_300, "-5", "", "1_0"])
def test_a_silence_that_cannot_be_is_damage(silence_ms: str) -> None:
    """The next snapshot could not write it."""
    node = full()
    node.restart(clean=True)
    offset = node.snapshots()[-1]
    path = snapshot_path(node.log.directory, offset)
    text = unseal(path, node.fs.read_file(path).decode())
    write_atomically(node.fs, path, seal(re.sub(r"\+\d+", f"+{silence_ms}", text)))
    with pytest.raises(CorruptFileError, match="no silence"):
        read_snapshot(node.fs, node.log.directory, offset)


def test_a_stop_is_clean_where_the_disk_has_no_room_to_tell_the_silences() -> None:
    """All that must be known at the next start stands in the snapshot before."""
    node = full()
    node.restart(clean=True)
    node.clock.advance(1_000)
    write = node.fs.pwritev

    def without_room(fd: int, buffers: Sequence[bytes], at: int) -> int:
        if b"+" in b"".join(map(bytes, buffers)):
            raise OSError(errno.ENOSPC, "no space")
        return write(fd, buffers, at)

    node.fs.pwritev = without_room  # type: ignore[method-assign]
    node.manager.close(True)
    assert [name for name in node.fs.files() if name.endswith(CLEAN_SHUTDOWN)]
