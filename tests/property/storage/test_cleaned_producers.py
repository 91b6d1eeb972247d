"""Cleaning a log takes nothing from what it knows of its producers, whoever reads the cleaned log anew.

Random producers write random keys; the log is cleaned in between. Then three logs must know the same last five batches
of every producer, with the same append times: the log itself, the log after a start that finds no snapshot, and a
follower that fetched the cleaned log from its beginning.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from penstock.clock import ManualClock
from penstock.record.builder import build_batch
from storage.append.producer_state import TakenBatch
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager
from tests.battery.cleaning import NodeCleaner
from tests.battery.nodes import COMPACTED
from tests.support.amount import usually
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, TOPIC_ID, TP, log_named, open_manager

Known = dict[int, tuple[int, tuple[TakenBatch, ...]]]


def known(log: Log) -> Known:
    return {one: (entry.epoch, entry.batches) for one, entry in log.producers.known.copy().items()}


def without_snapshots(fs: LosingFileSystem) -> Known:
    """The producers that the batches alone tell of."""
    for path in fs.files():
        if path.endswith(".snapshot"):
            fs.unlink(path)
    log = log_named(open_manager(fs, config=COMPACTED), TP)
    assert log is not None
    return known(log)


def of_follower(leader: Log) -> Known:
    follower = open_manager(LosingFileSystem(), config=COMPACTED).get_or_create(TP, TOPIC_ID, COMPACTED)
    while follower.log_end_offset < leader.log_end_offset:
        follower.append.as_follower(leader.reader.read(follower.log_end_offset, 700).records)
    return known(follower)


class Writers:
    """Four producers, of which one writes rarely."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.fs = LosingFileSystem()
        self.now_ms = NOW_MS
        self.config = replace(COMPACTED, message_timestamp_type=self.random.choice(("CreateTime", "LogAppendTime")))
        self.manager: LogManager = open_manager(self.fs, config=self.config, clock=ManualClock(wall_ms=NOW_MS))
        self.log = self.manager.get_or_create(TP, TOPIC_ID, self.config)
        self._next = dict.fromkeys(range(4), (0, 0))

    def write(self) -> None:
        random = self.random
        producer_id = random.choice((0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3))
        epoch, sequence = self._next[producer_id]
        if random.random() < 0.04:
            epoch, sequence = epoch + 1, 0
        keys = [random.choice((b"a", b"b", b"c")) for _ in range(random.randint(1, 3))]
        values = [random.choice((None, b"1", b"2")) for _ in keys]
        fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        self.now_ms += 10
        records = build_batch(values, keys=keys, timestamps_ms=self.now_ms, **fields)  # type: ignore[arg-type]
        self.log.append.as_leader(records, 0, self.now_ms)
        self._next[producer_id] = epoch, sequence + len(keys)

    def clean(self) -> None:
        self.log.flush()
        self.now_ms += self.random.choice((0, 2_000))
        NodeCleaner(self.fs, self.manager).run(self.now_ms)
        self.log.full.run_file_changes()


@pytest.mark.parametrize("seed", range(usually(4, long=12)))
def test_a_cleaned_log_tells_its_producers_as_before(seed: int) -> None:
    writers = Writers(seed)
    for _ in range(3):
        for _ in range(writers.random.randint(10, 40)):
            writers.write()
        before = known(writers.log)
        size_bytes = writers.log.size_bytes
        writers.clean()

        assert writers.log.size_bytes < size_bytes
        assert known(writers.log) == before
        assert of_follower(writers.log) == before
        assert without_snapshots(writers.fs.after_kill()) == before
