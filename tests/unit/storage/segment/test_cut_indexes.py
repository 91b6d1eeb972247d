"""A cut makes another entry the last one of an index that was read from a file, where only the last was looked at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage.disk.atomic_file import write_atomically
from tests.support.look_ups import offset_for_timestamp
from tests.support.producer_node import Node
from tests.support.storage import NOW_MS, SMALL, batch


@pytest.mark.parametrize(("which", "at"), [(0, 4 * 8 - 1), (1, 3 * 12 + 7)])
def test_an_entry_that_is_the_last_one_below_a_cut_is_compared_with_its_batch(which: int, at: int) -> None:
    """The files are of before an earlier cut: the full segment was not flushed since, and its indexes are in memory."""
    node = Node(config=replace(SMALL, segment_bytes=2000))
    for n in range(40):
        node.log.append.as_leader(batch(b"value-00", timestamp_ms=NOW_MS + n), 0, NOW_MS)
    for number, (path, content) in enumerate(node.log.segments[0].indexes.contents()):
        old = bytearray(content)
        old[at] ^= number == which
        write_atomically(node.fs, path, bytes(old))

    node.log.truncate_to(9)

    assert node.log.log_end_offset == 9 and node.log.statistics().index_rebuilds == 1
    found = offset_for_timestamp(node.log, NOW_MS + 8)
    assert found is not None and found.offset == 8
    assert node.log.append.as_leader(batch(b"value-00"), 0, NOW_MS).first_offset == 9
