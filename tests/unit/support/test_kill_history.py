"""The judge of the kill campaign finds each anomaly in a history made by hand."""

from __future__ import annotations

from tests.support.kill_history import History, Seen, judge


def history(*values: bytes, partition: int = 0) -> History:
    """Every value sent, acked and read, one after another."""
    log = [Seen(partition, offset, value) for offset, value in enumerate(values)]
    acked = {record.value: (partition, record.offset) for record in reversed(log)}
    return History(set(values), acked, list(log), {partition: log})


def test_a_history_without_fault_is_right() -> None:
    verdict = judge(history(b"a-0", b"b-0", b"a-1"))
    assert verdict.ok and verdict.duplicates == 0 and verdict.examples == ()


def test_an_acked_record_that_is_not_in_the_log_is_lost() -> None:
    found = history(b"a-0")
    found.sent.add(b"a-1")
    found.acked[b"a-1"] = (0, 1)
    assert judge(found).lost == 1


def test_an_acked_record_under_another_offset_is_lost() -> None:
    found = history(b"a-0", b"a-1")
    found.acked[b"a-0"] = (0, 1)
    verdict = judge(found)
    assert verdict.lost == 1 and "a-0" in verdict.examples[0]


def test_an_unacked_record_may_be_missing_or_present() -> None:
    found = history(b"a-0", b"a-1")
    del found.acked[b"a-1"]
    found.sent.add(b"a-2")
    assert judge(found).ok


def test_a_read_record_that_changed_is_inconsistent() -> None:
    found = history(b"a-0", b"a-1")
    found.seen[1] = Seen(0, 1, b"b-0")
    assert judge(found).inconsistent == 1


def test_a_read_record_that_vanished_is_inconsistent() -> None:
    found = history(b"a-0")
    found.seen.append(Seen(0, 1, b"a-1"))
    assert judge(found).inconsistent == 1


def test_a_skipped_or_repeated_offset_in_the_reading_is_inconsistent() -> None:
    skipped, repeated = history(b"a-0", b"a-1", b"a-2"), history(b"a-0", b"a-1")
    del skipped.seen[1]
    repeated.seen.append(repeated.seen[0])
    assert judge(skipped).inconsistent == 1
    assert judge(repeated).inconsistent == 1


def test_a_gap_in_the_log_is_inconsistent() -> None:
    found = history(b"a-0", b"a-1")
    found.log[0] = [Seen(0, 0, b"a-0"), Seen(0, 2, b"a-1")]
    found.seen.clear()
    found.acked.clear()
    assert judge(found).inconsistent == 1


def test_a_value_that_nobody_sent_is_a_phantom() -> None:
    found = history(b"a-0")
    found.sent.clear()
    assert judge(found).phantom == 1


def test_a_retried_batch_is_a_duplicate_and_not_out_of_order() -> None:
    verdict = judge(history(b"a-0", b"a-1", b"a-0", b"a-1", b"a-2"))
    assert verdict.ok and verdict.duplicates == 2


def test_a_writers_values_in_another_order_are_out_of_order() -> None:
    assert judge(history(b"a-1", b"a-0")).out_of_order == 1
    assert judge(history(b"a-1", b"b-0", b"b-1")).ok
