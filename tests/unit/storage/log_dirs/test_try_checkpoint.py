"""A log dir that refuses its checkpoint does not keep the others from theirs, and is named."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from penstock.types import TopicPartition
from storage.log.segment_list import SegmentList
from storage.segment.segment import Segment
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, batch, open_manager

HERE, THERE = TopicPartition("here", 0), TopicPartition("there", 0)


class FullThere(LosingFileSystem):
    """/there takes no more renames once it is full."""

    full = False

    def rename(self, source: str, target: str) -> None:
        if self.full and target.startswith("/there/"):
            raise OSError(errno.ENOSPC, "full", target)
        super().rename(source, target)


def test_only_the_dir_that_refused_is_told_and_the_other_one_is_durable() -> None:
    fs = FullThere()
    manager = open_manager(fs, ("/here", "/there"))
    for tp in (HERE, THERE):
        log = manager.get_or_create(tp, TOPIC_ID, SMALL, is_new=True, log_dir=f"/{tp.topic}")
        log.append.as_leader(batch(b"a", b"b"), 1, NOW_MS)
        log.flush()
        log.advance_log_start(1)
    fs.full = True
    assert manager.checkpoints.try_log_starts("/there") is not None
    assert manager.checkpoints.try_log_starts("/here") is None
    fs.full = False
    survivor = open_manager(fs.after_crash(), ("/here", "/there"))
    starts = {log.topic_partition: log.log_start_offset for log in survivor.logs()}
    assert starts == {HERE: 1, THERE: 0}
    assert manager.checkpoints.try_log_starts("/there") is None


def test_a_checkpoint_in_the_middle_of_a_removal_keeps_the_line_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = LosingFileSystem()
    manager = open_manager(fs, ("/here",))
    log = manager.get_or_create(HERE, TOPIC_ID, SMALL)
    for _ in range(20):
        log.append.as_leader(batch(b"value"), 1, NOW_MS)
    log.flush()
    log.advance_log_start(1)
    manager.checkpoints.write_log_starts()
    take = SegmentList.take

    def taken(segments: SegmentList, oldest: Sequence[Segment]) -> None:
        take(segments, oldest)
        manager.checkpoints.write_log_starts()

    monkeypatch.setattr(SegmentList, "take", taken)
    log.full.remove_oldest(1)
    (survivor,) = open_manager(fs.after_crash(), ("/here",)).logs()
    assert survivor.log_start_offset == 1
