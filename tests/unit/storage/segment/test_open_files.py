"""The ring of open files: who is idle is closed, who is in use or not durable stays."""

from __future__ import annotations

from collections import OrderedDict
from random import Random

from storage.segment.open_files import OPEN_FILES_MAX, OPEN_FILES_MIN, STEPS_PER_OPEN, OpenFiles, share_of


class File:
    """A segment, as the ring sees it."""

    def __init__(self, ring: OpenFiles) -> None:
        self.ring = ring
        self.used = False
        self.is_open = self.is_dirty = self.is_pinned = False
        self.openings = 0

    def use(self) -> None:
        if self.is_open:
            self.used = True
        else:
            self.is_open = True
            self.openings += 1
            self.ring.opened(self)

    def may_close(self, *, forced: bool) -> bool:
        return not self.is_pinned and (forced or not self.is_dirty)

    def release(self) -> None:
        self.is_open = False
        self.ring.closed(self)


def files(ring: OpenFiles, count: int) -> list[File]:
    return [File(ring) for _ in range(count)]


def open_ones(all_files: list[File]) -> list[int]:
    return [n for n, file in enumerate(all_files) if file.is_open]


def test_never_more_than_the_limit_are_open() -> None:
    ring = OpenFiles(10)
    some = files(ring, 100)
    for file in some:
        file.use()
        assert len(open_ones(some)) <= 10 and file.is_open

    assert (ring.statistics().open, ring.statistics().opened, ring.statistics().evicted) == (10, 100, 90)
    some[0].use()
    assert some[0].openings == 2


def test_who_was_used_has_a_second_chance() -> None:
    ring = OpenFiles(3)
    some = files(ring, 6)
    for file in some[:4]:
        file.use()
    assert open_ones(some) == [1, 2, 3], "first in, first out, where none was used again"
    some[1].use()
    some[4].use()

    assert open_ones(some) == [1, 3, 4], "1 was used since the hand passed it, 2 was not"


def test_a_working_set_that_fits_is_never_closed_by_a_scan_of_idle_ones() -> None:
    ring = OpenFiles(20)
    working, idle = files(ring, 10), files(ring, 200)
    for file in idle:
        for busy in working:
            busy.use()
        file.use()

    assert sum(file.openings for file in working) <= 2 * len(working)


def test_a_file_that_is_not_durable_stays_while_there_is_another() -> None:
    ring = OpenFiles(4)
    dirty, clean = files(ring, 3), files(ring, 10)
    for file in dirty:
        file.is_dirty = True
        file.use()
    for file in clean:
        file.use()

    assert len(open_ones(dirty)) == 3
    assert len(open_ones(clean)) == 1


def test_when_all_are_dirty_the_limit_is_passed_but_not_by_much() -> None:
    ring = OpenFiles(10)
    dirty = files(ring, 100)
    for file in dirty:
        file.is_dirty = True
        file.use()
    assert 10 < len(open_ones(dirty)) <= 16
    for file in dirty:
        file.is_dirty = False
    File(ring).use()
    File(ring).use()

    assert ring.statistics().open == 10


def test_a_pinned_file_is_never_closed() -> None:
    ring = OpenFiles(2)
    pinned = files(ring, 5)
    for file in pinned:
        file.is_pinned = True
        file.use()
    for file in files(ring, 50):
        file.use()

    assert len(open_ones(pinned)) == 5


def test_who_closes_itself_makes_room() -> None:
    ring = OpenFiles(2)
    one, two, three = files(ring, 3)
    one.use()
    two.use()
    one.release()
    ring.closed(one)
    three.use()

    assert (two.is_open, three.is_open, ring.statistics().evicted) == (True, True, 0)


def test_one_opening_never_walks_far() -> None:
    ring = OpenFiles(10_000)
    many = files(ring, 10_000)
    for file in many:
        file.use()
    passed = 0

    class Counted(File):
        def may_close(self, *, forced: bool) -> bool:
            nonlocal passed
            passed += 1
            return False

    ring._ring = OrderedDict.fromkeys(Counted(ring) for _ in range(10_000))  # and none of them was used
    File(ring).use()

    assert passed <= STEPS_PER_OPEN


def test_it_never_closes_the_file_in_use_and_keeps_its_books() -> None:
    random = Random(7)
    ring = OpenFiles(8)
    some = files(ring, 40)
    for _ in range(5000):
        file = random.choice(some)
        file.is_dirty = random.random() < 0.3
        if random.random() < 0.1:
            if file.is_open:
                file.release()
            continue
        file.use()
        assert file.is_open
        assert ring.statistics().open == len(open_ones(some)) <= 8 * 1.5 + 1


def test_segments_have_half_of_the_descriptors_within_bounds() -> None:
    assert share_of(1024) == 512
    assert share_of(8) == OPEN_FILES_MIN
    assert share_of(10**9) == OPEN_FILES_MAX
