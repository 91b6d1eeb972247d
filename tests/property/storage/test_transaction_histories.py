"""Through appends, cuts, removals and crashes, a log tells of its transactions what the list of all its batches tells.

The model keeps the batches and looks at all of them for each answer. Its restarts are stops in order, kills and power
cuts. Before some the index files are damaged, removed or exchanged, or the snapshots are removed: that may cost time,
and changes no answer.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.record.builder import build_batch
from penstock.record.markers import Marker, build_marker
from storage.append.append_origin import COORDINATOR
from storage.segment.transaction_index import AbortedRange
from tests.support.producer_node import Node, placed
from tests.support.storage import NOW_MS

NEVER = 10**9
PRODUCERS = range(4)


class One(NamedTuple):
    """A batch of one record, or a marker; without a producer it is a plain one."""

    producer_id: int = -1
    epoch: int = -1
    is_marker: bool = False
    is_committed: bool = False


class Model:
    """The batches of a log, by offset."""

    def __init__(self) -> None:
        self.batches: list[One] = []
        self.start = 0
        """Batches below it are removed."""

    def transactions(self) -> list[tuple[int, int, int, bool]]:
        """Producer, first offset, marker, committed; NEVER for the marker of an open one."""
        opened: dict[int, int] = {}
        found: list[tuple[int, int, int, bool]] = []
        for offset, one in enumerate(self.batches):
            if offset < self.start or one.producer_id < 0:
                continue
            if not one.is_marker:
                opened.setdefault(one.producer_id, offset)
            elif one.producer_id in opened:
                found.append((one.producer_id, opened.pop(one.producer_id), offset, one.is_committed))
        return found + [(producer_id, first, NEVER, False) for producer_id, first in opened.items()]

    def first_undecided(self, high_watermark: int) -> int | None:
        return min((first for _, first, marker, _ in self.transactions() if marker >= high_watermark), default=None)

    def aborted(self, from_offset: int, to_offset: int) -> list[AbortedRange]:
        return [
            AbortedRange(producer_id, first, marker)
            for producer_id, first, marker, is_committed in self.transactions()
            if marker != NEVER and not is_committed and marker >= from_offset and first < to_offset
        ]

    def epoch(self, producer_id: int) -> int:
        return next((one.epoch for one in reversed(self.batches) if one.producer_id == producer_id), 0)

    def is_open(self, producer_id: int) -> bool:
        return any(one[0] == producer_id and one[2] == NEVER for one in self.transactions())


class History:
    """One log and its model, stepped together."""

    def __init__(self, seed: int) -> None:
        self.random, self.model, self.node = Random(seed), Model(), Node()
        self.node.log.flush()
        self.high_watermark = 0
        """It falls with the log end alone."""

    @property
    def end(self) -> int:
        return len(self.model.batches)

    def append(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            producer_id = self.random.choice((-1, *PRODUCERS))
            one = One(producer_id, self.model.epoch(producer_id) if producer_id >= 0 else -1)
            if producer_id >= 0 and self.random.random() < 0.4:
                bump = self.random.random() < 0.5
                one = One(producer_id, one.epoch + bump, True, self.random.random() < 0.5)
            self._write(one)

    def _write(self, one: One) -> None:
        if one.is_marker:
            marker = Marker(one.producer_id, one.epoch, one.is_committed, 0)
            self.node.log.append_as_leader(build_marker(marker, NOW_MS), 0, NOW_MS, COORDINATOR)
        else:
            sequence = self._next_sequence(one) if one.producer_id >= 0 else -1
            records = build_batch(
                [b"value-00"],
                timestamps_ms=NOW_MS,
                producer_id=one.producer_id,
                producer_epoch=one.epoch,
                base_sequence=sequence,
                is_transactional=one.producer_id >= 0,
            )
            is_forgotten = sequence > 0 and not self.node.known(one.producer_id)
            if self.random.random() < 0.5 and not is_forgotten:
                self.node.log.append_as_leader(records, 0, NOW_MS)
            else:
                self.node.log.append_as_follower(placed(records, self.end))
        self.model.batches.append(one)

    def _next_sequence(self, one: One) -> int:
        """As many as the producer has batches of this epoch behind its last bump."""
        count = 0
        for other in reversed(self.model.batches):
            if other.producer_id == one.producer_id:
                if other.epoch != one.epoch:
                    break
                count += not other.is_marker
        return count

    def truncate(self) -> None:
        offset = self.random.randint(max(self.model.start, self.end - 12), self.end)
        if self.random.random() < 0.5:
            prepared = self.node.log.producers.prepare_cut(offset)
            if prepared is not None:
                prepared.run(lambda: True)
        self.node.log.truncate_to(offset)
        del self.model.batches[offset:]

    def remove(self) -> None:
        """No transaction crosses the new log start, so that a log that is read anew has the same ones."""
        log = self.node.log
        log.flush()
        count = self.random.randint(0, len(log.segments) - 1)
        start = log.segments[count].base_offset
        if not any(first < start <= marker for _, first, marker, _ in self.model.transactions()):
            log.remove_oldest(count)
            log.run_file_changes(sync=True)
            self.model.start = start
            self.high_watermark = max(self.high_watermark, start)

    def restart(self) -> None:
        log, node = self.node.log, self.node
        if self.random.random() < 0.4:
            node.restart(clean=True, between=lambda: self._harm(node))
            return
        if self.random.random() < 0.7:
            log.flush()
        flushed = log.flushed_offset
        fs = node.fs.after_kill() if self.random.random() < 0.5 else node.fs.after_crash(self.random)
        node.restart(fs, between=lambda: self._harm(node))
        end = node.log.log_end_offset
        assert flushed <= end <= self.end
        del self.model.batches[end:]

    def _harm(self, node: Node) -> None:
        """Damages index files, or removes all snapshots."""
        names = [name for name in node.fs.listdir(node.log.directory) if name.endswith(".txnindex")]
        paths = [f"{node.log.directory}/{name}" for name in names]
        if not paths or self.random.random() < 0.5:
            return
        path = self.random.choice(paths)
        harm = self.random.choice(
            ("damage", "cut", "remove", "exchange", *(() if self.model.start else ("snapshots",)))
        )
        size = node.fs.size(path)
        if harm == "damage" and size:
            node.fs.damage(path, self.random.randrange(size), 1 << self.random.randrange(8))
        elif harm == "cut":
            node.fs.cut(path, self.random.randrange(size + 1) // 34 * 34)
        elif harm == "remove":
            node.fs.unlink(path)
        elif harm == "exchange":
            other = self.random.choice(paths)
            content = node.fs.read_file(other)
            node.fs.cut(path, 0)
            fd = node.fs.open(path)
            node.fs.pwritev(fd, [content], 0)
            node.fs.close(fd)
        else:
            for name in node.fs.listdir(node.log.directory):
                if name.endswith(".snapshot"):
                    node.fs.unlink(f"{node.log.directory}/{name}")

    def check(self) -> None:
        transactions, end, start = self.node.log.transactions, self.end, self.model.start
        for _ in range(2):
            self.high_watermark = self.random.randint(min(self.high_watermark, end), end)
            wanted = self.model.first_undecided(self.high_watermark)
            assert transactions.first_undecided(self.high_watermark) == wanted, self.high_watermark
        for producer_id in PRODUCERS:
            assert (transactions.open_of(producer_id) is not None) == self.model.is_open(producer_id)
        assert transactions.aborted(start, NEVER) == self.model.aborted(start, NEVER)
        for _ in range(3):
            low = self.random.randint(start, end)
            high = self.random.randint(low, end)
            assert transactions.aborted(low, high) == self.model.aborted(low, high), (low, high)


STEPS = (History.append, History.truncate, History.remove, History.restart)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, derandomize=True, deadline=None)
def test_the_log_tells_what_the_list_of_all_its_batches_tells(seed: int) -> None:
    history = History(seed)
    for _ in range(25):
        step = history.random.choices(STEPS, (8, 2, 1, 3))[0]
        step(history)
        history.check()
    assert history.end >= 0


@pytest.mark.parametrize("clean", [True, False])
def test_after_a_restart_nothing_is_decided_that_was_not_committed(clean: bool) -> None:
    node = Node()
    records = build_batch(
        [b"v"], timestamps_ms=0, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    node.log.append_as_leader(records, 0, NOW_MS)
    node.log.append_as_leader(build_marker(Marker(1, 0, True, 0), NOW_MS), 0, NOW_MS, COORDINATOR)
    node.log.flush()
    node.restart(clean=clean)

    assert [node.log.transactions.first_undecided(high) for high in (1, 2)] == [0, None]
