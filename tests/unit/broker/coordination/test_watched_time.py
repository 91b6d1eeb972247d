"""Ages are by the time that coordinators watched, whatever a calendar says, and the log carries them on."""

from __future__ import annotations

import random

import pytest

from broker.coordination.watched_time import (
    MARK_MS,
    RESERVED_MS,
    STRETCHES_MAX,
    WATCHED_KEY_TYPE,
    WatchedTime,
    WatchedTimeKey,
    WatchedTimeValue,
)
from broker.groups.records.record_codec import decode_group_record, encode_group_record
from broker.transactions.transaction_records import decode_transaction_record, encode_transaction_record

NOW_MS = 1_796_000_000_000
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
YEAR_MS = 365 * DAY_MS


class Partition:
    """One partition through its leads: what `mark` gives is in its log, and the time goes on."""

    def __init__(self) -> None:
        self.true_ms, self.off_ms = 0, 0
        self.log: WatchedTimeValue | None = None
        self.lead()

    def lead(self, off_ms: int = 0) -> None:
        """Another coordinator, whose calendar is off by so much."""
        self.off_ms = off_ms
        self.watched = WatchedTime()
        if self.log is not None:
            self.watched.replay(WatchedTimeKey(), self.log)
        self.boot_ms = random.Random(self.true_ms).randrange(10**9)
        self.look()

    def look(self, *, writes: bool = False) -> int:
        """A turn; the stamp of its records."""
        stamp_ms = NOW_MS + self.true_ms + self.off_ms
        self.watched.look(self.boot_ms + self.true_ms, stamp_ms)
        marked = self.watched.mark(is_written=writes)
        if marked is not None:
            self.log = marked[1]
        return stamp_ms

    def wait(self, ms: int, step_ms: int = 60_000) -> None:
        until_ms = self.true_ms + ms
        while self.true_ms < until_ms:
            self.true_ms = min(self.true_ms + step_ms, until_ms)
            self.look()


@pytest.mark.parametrize("off_ms", [0, 30 * DAY_MS, -30 * DAY_MS, 56 * YEAR_MS, -56 * YEAR_MS])
def test_a_stamp_is_as_old_as_it_was_watched_whatever_the_calendar(off_ms: int) -> None:
    here = Partition()
    here.lead(off_ms)
    stamp_ms = here.look(writes=True)
    here.wait(5 * HOUR_MS)
    assert here.watched.age_ms(stamp_ms) == 5 * HOUR_MS


@pytest.mark.parametrize("jump_ms", [30 * DAY_MS, -30 * DAY_MS, 10 * 60_000, -10 * 60_000])
def test_a_calendar_that_jumps_and_is_set_right_makes_nothing_older(jump_ms: int) -> None:
    here = Partition()
    before_ms = here.look(writes=True)
    here.wait(HOUR_MS)
    here.off_ms = jump_ms
    during_ms = here.look(writes=True)
    here.wait(HOUR_MS)
    assert here.watched.age_ms(before_ms) <= 2 * HOUR_MS and here.watched.age_ms(during_ms) == HOUR_MS
    here.off_ms = 0
    here.look()
    assert here.watched.age_ms(before_ms) <= 2 * HOUR_MS and here.watched.age_ms(during_ms) <= HOUR_MS


def test_the_next_lead_goes_on_with_the_time_and_a_downtime_does_not_count() -> None:
    here = Partition()
    stamp_ms = here.look(writes=True)
    here.wait(3 * HOUR_MS)
    here.true_ms += 30 * DAY_MS
    here.lead()
    assert 3 * HOUR_MS - MARK_MS <= here.watched.age_ms(stamp_ms) <= 3 * HOUR_MS
    here.wait(4 * HOUR_MS)
    assert 7 * HOUR_MS - MARK_MS <= here.watched.age_ms(stamp_ms) <= 7 * HOUR_MS


def test_stamps_of_the_end_of_a_lead_belong_to_it_though_no_record_followed_them() -> None:
    here = Partition()
    here.lead(30 * DAY_MS)
    here.look(writes=True)
    here.true_ms += MARK_MS - 1
    stamp_ms = here.look(writes=True)
    here.lead()
    here.wait(HOUR_MS)
    assert here.watched.age_ms(stamp_ms) == HOUR_MS


def test_a_stamp_of_a_calendar_far_ahead_grows_old_by_later_leads() -> None:
    here = Partition()
    here.lead(56 * YEAR_MS)
    stamp_ms = here.look(writes=True)
    here.wait(HOUR_MS)
    for _ in range(48):
        here.lead()
        here.wait(HOUR_MS)
    assert here.watched.age_ms(stamp_ms) >= 49 * HOUR_MS - 49 * MARK_MS


def test_a_log_without_a_record_begins_to_count_at_its_first_lead() -> None:
    here = Partition()
    assert here.watched.age_ms(NOW_MS - 10 * YEAR_MS) == here.watched.age_ms(-1) == 0
    here.wait(HOUR_MS)
    assert here.watched.age_ms(NOW_MS - 10 * YEAR_MS) == here.watched.age_ms(-1) == HOUR_MS


def test_a_stamp_that_no_lead_has_made_is_as_old_as_the_lead() -> None:
    here = Partition()
    here.look(writes=True)
    here.wait(3 * HOUR_MS)
    here.lead()
    assert here.watched.age_ms(NOW_MS + YEAR_MS) == 0
    here.wait(HOUR_MS)
    assert here.watched.age_ms(NOW_MS + YEAR_MS) == HOUR_MS


def test_the_log_has_a_stretch_before_a_record_that_is_stamped_in_it() -> None:
    here = Partition()
    for wait_ms, off_ms in ((0, 0), (RESERVED_MS + 1, 0), (0, DAY_MS), (10 * RESERVED_MS, DAY_MS), (0, 0)):
        here.true_ms += wait_ms
        here.off_ms = off_ms
        stamp_ms = here.look(writes=True)
        assert here.log is not None
        assert any(0 <= stamp_ms - one.calendar_ms <= one.length_ms for one in here.log.stretches)


def test_a_busy_log_has_few_records_of_it_and_a_log_without_records_none() -> None:
    here, marks = Partition(), 0
    here.wait(DAY_MS)
    assert here.log is None, "nothing was written, so nothing expires"
    for _ in range(6_000):
        here.true_ms += 1_000
        before = here.log
        here.look(writes=True)
        marks += here.log is not before
    assert marks <= 6_000_000 // MARK_MS + 6


def test_many_leads_are_few_stretches_and_no_stamp_grows_older_by_it() -> None:
    here, stamps = Partition(), dict[int, int]()
    for number in range(4 * STRETCHES_MAX):
        here.lead(number % 7 * DAY_MS - 3 * DAY_MS)
        stamps[here.look(writes=True)] = here.true_ms
        here.wait(2 * HOUR_MS, HOUR_MS)
    assert here.log is not None and len(here.log.stretches) <= STRETCHES_MAX
    assert all(here.watched.age_ms(stamp_ms) <= here.true_ms - at_ms for stamp_ms, at_ms in stamps.items())


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_ever_older_than_it_is_and_everything_grows_old(seed: int) -> None:
    draw, here = random.Random(seed), Partition()
    stamps: dict[int, int] = {}
    for _ in range(150):
        kind = draw.random()
        if kind < 0.15:
            here.true_ms += draw.choice((0, 1_000, DAY_MS))
            here.lead(draw.choice((0, 0, draw.randint(-YEAR_MS, YEAR_MS), draw.randint(-9_000, 9_000))))
        elif kind < 0.3:
            here.off_ms = draw.choice((0, draw.randint(-YEAR_MS, YEAR_MS), draw.randint(-90_000, 90_000)))
        elif kind < 0.6:
            here.wait(draw.randint(1, 2 * HOUR_MS))
        else:
            stamps[here.look(writes=True)] = here.true_ms
        for stamp_ms, at_ms in stamps.items():
            assert here.watched.age_ms(stamp_ms) <= here.true_ms - at_ms + 1_000
    here.lead()
    here.wait(2 * YEAR_MS, DAY_MS)
    assert all(here.watched.age_ms(stamp_ms) >= DAY_MS for stamp_ms in stamps)


def test_its_record_has_the_same_bytes_in_both_topics_and_is_read_back() -> None:
    here = Partition()
    here.look(writes=True)
    key_bytes, value_bytes = encode_group_record(WatchedTimeKey(), here.log)
    assert (key_bytes, value_bytes) == encode_transaction_record(WatchedTimeKey(), here.log)
    assert int.from_bytes(key_bytes[:2]) == WATCHED_KEY_TYPE
    for decode in (decode_group_record, decode_transaction_record):
        assert decode(key_bytes, value_bytes) == (WatchedTimeKey(), here.log)
