"""Retention and DeleteRecords take the records of open transactions, too; what is left stays true for readers."""

from __future__ import annotations

import pytest

from penstock.clock import ManualClock
from penstock.record.builder import build_batch
from storage.append.append_origin import COORDINATOR
from storage.log.log import Log
from storage.log_config import LogConfig
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, TP, log_named, open_manager
from tests.support.transactions import ABORT, COMMIT, marker_bytes

CONFIG: LogConfig = SMALL


def data(producer_id: int, sequence: int) -> bytes:
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
    return build_batch([b"v" * 40], timestamps_ms=NOW_MS, is_transactional=True, **fields)  # type: ignore[arg-type]


class Node:
    """One log of a node, with writers 7 and 8."""

    def __init__(self) -> None:
        self.fs = LosingFileSystem()
        self._open()
        self._sequences = {7: 0, 8: 0}

    def _open(self) -> None:
        self.manager = open_manager(self.fs, config=CONFIG, clock=ManualClock(wall_ms=NOW_MS))
        self.log: Log = self.manager.get_or_create(TP, TOPIC_ID, CONFIG)

    def write(self, producer_id: int, count: int = 1) -> None:
        for _ in range(count):
            self.log.append.as_leader(data(producer_id, self._sequences[producer_id]), 0, NOW_MS)
            self._sequences[producer_id] += 1

    def end(self, producer_id: int, kind: int) -> None:
        self.log.append.as_leader(marker_bytes(producer_id, 0, kind), 0, NOW_MS, COORDINATOR)

    def delete_to(self, offset: int) -> None:
        self.log.flush()
        self.log.advance_log_start(offset)
        self.log.full.remove_oldest(sum(segment.next_offset <= offset for segment in self.log.segments[:-1]))
        self.log.full.run_file_changes()

    def restart(self, *, clean: bool) -> None:
        if clean:
            self.manager.close(True, 5)
        self.fs = self.fs.after_crash()
        self._open()
        assert log_named(self.manager, TP) is self.log


@pytest.mark.parametrize("clean", [True, False])
def test_an_open_transaction_outlives_the_deletion_of_its_first_records(clean: bool) -> None:
    node = Node()
    node.write(7, 2)
    node.write(8, 20)
    node.write(7)
    node.delete_to(20)
    assert node.log.segments[0].base_offset > 2
    assert node.log.transactions.open_of(7) == 0

    node.restart(clean=clean)
    assert node.log.transactions.open_of(7) in (0, 22)
    node.end(7, ABORT)
    assert node.log.transactions.open_of(7) is None
    (aborted,) = node.log.transactions.aborted(20, node.log.log_end_offset)
    assert aborted.producer_id == 7 and aborted.first_offset <= 22 and aborted.last_offset == 23


@pytest.mark.parametrize("clean", [True, False])
def test_a_transaction_whose_records_are_all_deleted_can_still_be_ended(clean: bool) -> None:
    node = Node()
    node.write(7)
    node.write(8, 20)
    node.end(8, COMMIT)
    node.delete_to(20)
    node.restart(clean=clean)
    node.end(7, COMMIT)
    assert node.log.transactions.first_undecided(node.log.log_end_offset) is None
    assert node.log.transactions.aborted(0, node.log.log_end_offset) == []


@pytest.mark.parametrize("clean", [True, False])
def test_entries_of_deleted_markers_go_with_their_segments(clean: bool) -> None:
    node = Node()
    node.write(7)
    node.end(7, ABORT)
    node.write(8, 20)
    node.end(8, ABORT)
    node.delete_to(20)
    for _ in range(2):
        assert [(one.producer_id, one.last_offset) for one in node.log.transactions.aborted(0, 99)] == [(8, 22)]
        node.restart(clean=clean)
