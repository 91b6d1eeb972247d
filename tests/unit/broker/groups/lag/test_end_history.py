"""Past ends of logs in few samples: a time is never too early, and not much too late."""

from __future__ import annotations

import random

from broker.groups.lag.end_history import LOGS_MAX, SAMPLES_MAX, EndHistories, EndHistory
from penstock.types import TopicPartition


def test_a_record_was_written_at_the_latest_when_its_log_was_first_seen_to_have_it() -> None:
    history = EndHistory()
    for end, now_ms in ((0, 100), (10, 200), (10, 300), (25, 400)):
        history.saw(end, now_ms)
    assert [history.written_ms(offset) for offset in (0, 9, 10, 24, 25)] == [200, 200, 400, 400, None]


def test_an_end_that_went_back_forgets_what_was_behind_it() -> None:
    history = EndHistory()
    for end, now_ms in ((10, 100), (20, 200), (15, 300), (21, 400)):
        history.saw(end, now_ms)
    assert [history.written_ms(offset) for offset in (9, 10, 14, 15, 20)] == [100, 300, 300, 400, 400]


def test_few_samples_are_enough_for_any_age() -> None:
    draw = random.Random(1)
    history, written, end = EndHistory(), [], 0
    for look in range(10_000):
        now_ms = look * 10_000
        grown = draw.randrange(5)
        written += [now_ms] * grown
        end += grown
        history.saw(end, now_ms)
        assert len(history) <= SAMPLES_MAX
    now_ms = 10_000 * 10_000
    oldest = next(offset for offset in range(end) if history.written_ms(offset) != history.written_ms(0))
    for offset in range(oldest, end, 7):
        written_ms = history.written_ms(offset)
        assert written_ms is not None
        late_ms = written_ms - written[offset]
        assert 0 <= late_ms <= max(20_000, (now_ms - written[offset]) // 2)


def test_a_log_that_a_whole_pass_did_not_look_at_is_forgotten_and_there_are_not_too_many() -> None:
    histories = EndHistories()
    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    histories.saw(a, 5, 100)
    histories.saw(b, 5, 100)
    histories.pass_ended()
    histories.saw(a, 9, 200)
    history = histories.saw(a, 9, 200)
    assert history is not None and history.written_ms(0) == 100 and history.written_ms(8) == 200
    histories.pass_ended()
    assert len(histories) == 1
    for number in range(LOGS_MAX):
        assert histories.saw(TopicPartition("c", number), 1, 300) is not None
    assert histories.saw(b, 1, 300) is None


def test_what_came_since_a_time_is_never_too_much_and_something_where_something_came() -> None:
    history = EndHistory()
    assert history.since(0) == 0
    history.saw(100, 0)
    assert history.since(0) == history.since(50) == 0
    for now_ms in range(1, 200):
        history.saw(100 + 2 * now_ms, now_ms)
        assert 0 < history.since(0) <= 2 * now_ms or now_ms == 1
        assert history.since(now_ms) == 0
