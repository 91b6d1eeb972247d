"""A log with transactions shows readers of committed records what a plain list of its batches says.

Random producers append, commit and abort, at a leader or a follower; the log is rolled, flushed, cut, cleaned, killed
and started again. Before some starts the files that only save time are damaged, cut, exchanged or removed: that may
cost time, and changes no answer. After each step the last stable offset, the open transactions, the aborted ones, and
the records that a reader of committed records gets must be the model's. A compacted log may lack superseded records.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from penstock.clock import ManualClock
from penstock.record.batch import BatchHeader, iter_headers
from penstock.record.builder import build_batch
from penstock.record.markers import Marker, build_marker
from storage.append.append_origin import COORDINATOR, PRODUCER
from storage.disk.file_names import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX
from storage.log.log import Log
from storage.segment.transaction_index import ENTRY_BYTES
from tests.battery.cleaning import NodeCleaner
from tests.battery.nodes import COMPACTED
from tests.support.amount import usually
from tests.support.losing_fs import LosingFileSystem
from tests.support.producer_node import Node as ProducerNode
from tests.support.storage import NOW_MS, TOPIC_ID, TP, open_manager
from tests.support.transactions import (
    ABORT,
    COMMIT,
    AbortedRange,
    DrawnTransactions,
    Ends,
    Stored,
    batches_of,
    committed,
    ends_of,
    placed,
)

STEPS = 90


@dataclass
class Model:
    """Every batch that the log took and that no truncation cut; cleaning and retention are not noticed here."""

    batches: list[tuple[BatchHeader, bytes]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.batches[-1][0].next_offset if self.batches else 0

    def append(self, batch: bytes) -> None:
        self.batches += batches_of(placed(batch, self.end))

    def cut(self, offset: int) -> None:
        self.batches = [one for one in self.batches if one[0].next_offset <= offset]

    def ends(self) -> Ends:
        return ends_of(self.batches)

    def committed(self, start: int, below: int) -> list[Stored]:
        stable = [one for one in self.batches if one[0].next_offset <= below]
        found = committed(stable, self.ends().aborted)
        return [one for one in found if one.offset >= start]


class Node:
    """One log of a node, with its model."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.config = replace(COMPACTED, cleanup_policy=self.random.choice(("compact", "delete")))
        self.fs, self.clock = LosingFileSystem(), ManualClock(wall_ms=NOW_MS)
        self.model = Model()
        self.drawn = DrawnTransactions(self.random, keys=5)
        self.high_watermark = 0
        """It never falls, and nothing below it is cut."""
        self.open()

    def open(self) -> None:
        self.manager = open_manager(self.fs, config=self.config, clock=self.clock)
        self.log: Log = self.manager.get_or_create(TP, TOPIC_ID, self.config)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def append(self) -> None:
        for _ in range(self.random.randrange(1, 6)):
            batch = self.drawn.next()
            if self.random.random() < 0.5:
                self.log.append.as_follower(placed(batch, self.log.log_end_offset))
            else:
                origin = COORDINATOR if batches_of(batch)[0][0].is_control else PRODUCER
                self.log.append.as_leader(batch, 0, self.clock.wall_ms(), origin)
            self.model.append(batch)

    def flush(self) -> None:
        self.log.flush()

    def roll(self) -> None:
        self.log.roll()

    def clean(self) -> None:
        """The high watermark is what is flushed."""
        self.high_watermark = max(self.high_watermark, self.log.flush())
        self.clock.advance(self.random.choice((0, 1, 2_000)))
        NodeCleaner(self.fs, self.manager).run(self.clock.wall_ms())
        self.log.full.run_file_changes()

    def cut(self) -> None:
        offset = self.random.randint(max(self.high_watermark, self.log.log_start_offset), self.log.log_end_offset)
        prepared = self.log.producers.prepare_cut(offset) if self.random.random() < 0.5 else None
        if prepared is not None:
            prepared.run(lambda: True)
        self.log.truncate_to(offset)
        self.model.cut(offset)
        assert self.log.log_end_offset == max(self.model.end, self.log.log_start_offset)
        self._follow_cut()

    def _follow_cut(self) -> None:
        """The producers go on from what is left."""
        drawn, ends = self.drawn, self.model.ends()
        drawn.open = dict.fromkeys(ends.open, 1)
        for producer_id in drawn.sequences:
            last = [h for h, _ in self.model.batches if h.producer_id == producer_id]
            drawn.epochs[producer_id], drawn.sequences[producer_id] = 0, 0
            if last:
                drawn.epochs[producer_id] = last[-1].producer_epoch
                data = [h for h in last if not h.is_control and h.producer_epoch == last[-1].producer_epoch]
                drawn.sequences[producer_id] = data[-1].base_sequence + data[-1].record_count if data else 0

    def restart(self) -> None:
        kind = self.random.choice(("stop", "kill", "power cut"))
        if kind == "stop":
            self.manager.close(True, 7)
            self.fs = self.fs.clone()
        elif kind == "kill":
            self.fs = self.fs.after_kill()
        else:
            self.log.flush()
            self.fs = self.fs.after_crash(self.random)
        if self.random.random() < 0.3:
            self._lose_files()
        elif self.random.random() < 0.5:
            self._harm_an_index()
        self.open()

    def _lose_files(self) -> None:
        for path in self.fs.files():
            if path.endswith((SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX)) and self.random.random() < 0.5:
                self.fs.unlink(path)

    def _harm_an_index(self) -> None:
        paths = [path for path in self.fs.files() if path.endswith(TXN_INDEX_SUFFIX)]
        if not paths:
            return
        path = self.random.choice(paths)
        size = self.fs.size(path)
        harm = self.random.choice(("damage", "cut", "exchange"))
        if harm == "damage" and size:
            self.fs.damage(path, self.random.randrange(size), 1 << self.random.randrange(8))
        elif harm == "cut":
            self.fs.cut(path, self.random.randrange(size + 1) // ENTRY_BYTES * ENTRY_BYTES)
        elif harm == "exchange":
            content = self.fs.read_file(self.random.choice(paths))
            self.fs.cut(path, 0)
            fd = self.fs.open(path)
            self.fs.pwritev(fd, [content], 0)
            self.fs.close(fd)

    def delete_records(self) -> None:
        self.log.flush()
        low = self.log.log_start_offset
        self.log.advance_log_start(self.random.randint(low, max(low, min(self.high_watermark, low + 6))))
        full = [s for s in self.log.segments[:-1] if s.next_offset <= self.log.log_start_offset]
        if full and self.random.random() < 0.7:
            self.log.full.remove_oldest(len(full))
            self.log.full.run_file_changes()

    # -- what must hold ------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        log, model = self.log, self.model
        assert log.log_end_offset == max(model.end, log.log_start_offset)
        self._advance_high_watermark()
        stable = self._last_stable_offset()
        below = [one for one in model.batches if one[0].next_offset <= self.high_watermark]
        opened, whole = ends_of(below).open, model.ends().open
        deleted = any(first < log.log_start_offset for first in whole.values())
        expected = max(min([*opened.values(), self.high_watermark]), log.log_start_offset)
        assert stable == expected or deleted, (stable, expected, self.high_watermark)
        for producer_id in self.drawn.sequences:
            first = whole.get(producer_id)
            if first is None or first >= log.log_start_offset:
                assert log.transactions.open_of(producer_id) == first
        found, wanted = self.view(stable), model.committed(log.log_start_offset, stable)
        if not self.config.is_compacted:
            assert found == wanted
            self._judge_aborted()
            return
        assert set(found) <= set(wanted)
        assert found == sorted(found, key=lambda one: one.offset)
        latest = {one.key: one for one in model.committed(0, log.log_end_offset)}
        assert not [one for one in wanted if one not in found and latest[one.key] == one and one.value is not None]

    def _judge_aborted(self) -> None:
        """The transactions that a reader of some offsets leaves out. One that begins below the log start may be known
        from there on alone."""
        start, end = self.log.log_start_offset, self.log.log_end_offset
        low = self.random.randint(start, end)
        high = self.random.randint(low, end)
        whole = [one for one in self.model.ends().aborted if one.first_offset >= start]
        found = [one for one in self.log.transactions.aborted(low, high) if one.first_offset >= start]
        wanted = [one for one in whole if one.last_offset >= low and one.first_offset < high]
        assert [one for one in found if one in whole] == wanted, (low, high)
        if len(whole) == len(self.model.ends().aborted):
            assert found == wanted, (low, high)

    def _advance_high_watermark(self) -> None:
        """Up to the end of some batch: followers fetch whole ones."""
        low = max(self.high_watermark, self.log.log_start_offset)
        ends = [header.next_offset for header, _ in self.model.batches if header.next_offset >= low]
        self.high_watermark = self.random.choice([*ends, low])

    def _last_stable_offset(self) -> int:
        """As a partition has it."""
        undecided = self.log.transactions.first_undecided(self.high_watermark)
        bound = self.high_watermark if undecided is None else min(undecided, self.high_watermark)
        return max(bound, self.log.log_start_offset)

    def view(self, stable: int) -> list[Stored]:
        """The records that a consumer of committed records delivers: read after read, each with its own list."""
        found: list[Stored] = []
        offset = self.log.log_start_offset
        while offset < stable:
            fetched = self.log.reader.read(offset, self.random.choice((1, 200, 5000)), max_offset=stable)
            assert fetched.next_offset > offset
            aborted = [
                AbortedRange(one.producer_id, one.first_offset, -1)
                for one in self.log.transactions.aborted(offset, fetched.next_offset)
            ]
            batches = [(h, bytes(fetched.records[at : at + h.size_bytes])) for at, h in iter_headers(fetched.records)]
            found += [one for one in committed(batches, aborted) if one.offset >= offset]
            offset = fetched.next_offset
        return found


@pytest.mark.parametrize("seed", range(usually(4, long=25)))
def test_the_log_shows_what_its_batches_say(seed: int) -> None:
    node = Node(seed)
    steps = {
        node.append: 10,
        node.flush: 2,
        node.roll: 2,
        node.clean: 3,
        node.cut: 2,
        node.restart: 2,
        node.delete_records: 1,
    }
    for _ in range(STEPS):
        (step,) = node.random.choices(list(steps), list(steps.values()))
        step()
        node.judge()
    for producer_id in list(node.drawn.open):
        batch = node.drawn.end(producer_id, node.random.choice((ABORT, COMMIT)))
        node.log.append.as_leader(batch, 0, node.clock.wall_ms(), COORDINATOR)
        node.model.append(batch)
    node.high_watermark = node.log.log_end_offset
    node.judge()
    assert node.log.transactions.first_undecided(node.log.log_end_offset) is None


@pytest.mark.parametrize("clean", [True, False])
def test_after_a_restart_nothing_is_decided_that_was_not_committed(clean: bool) -> None:
    node = ProducerNode()
    records = build_batch(
        [b"v"], timestamps_ms=0, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    node.log.append.as_leader(records, 0, NOW_MS)
    node.log.append.as_leader(build_marker(Marker(1, 0, True, 0), NOW_MS), 0, NOW_MS, COORDINATOR)
    node.log.flush()
    node.restart(clean=clean)

    assert [node.log.transactions.first_undecided(high) for high in (1, 2)] == [0, None]
