"""The judge of the chaos run finds each anomaly in a history made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.chaos.ledger import Ledger, Verdict, decode_value, encode_value, record_id

TOPIC = "t"


class Story:
    """A history of one partition of one topic, told in few words; records are sequences of producer 0."""

    def __init__(self, acked: int = 0) -> None:
        """So many records were sent, acked, and read by a poll, in order."""
        self.ledger = Ledger()
        self.log = self.ledger.created(TOPIC)
        self.ledger.send(0, TOPIC, acked)
        self.ledger.ack(0, 0, 0, 0, acked)
        self.ledger.begin_range("poll", self.log, 0, 0)
        self.read("poll", *range(acked))

    def read(self, reader: str, *sequences: int, offset: int = 0) -> None:
        offsets = range(offset, offset + len(sequences))
        self.ledger.read(reader, self.log, 0, offsets, [encode_value(0, n) for n in sequences])

    def verdict(self, *final: int, possible_duplicates: int = 0) -> Verdict:
        values = [encode_value(0, n) for n in final]
        self.ledger.read_final(self.log, 0, range(len(values)), values)
        return self.ledger.judge({0: possible_duplicates})


def test_a_history_without_fault_is_right() -> None:
    verdict = Story(3).verdict(0, 1, 2)
    assert verdict.ok and (verdict.sent, verdict.acked, verdict.duplicates, verdict.examples) == (3, 3, 0, ())


def test_an_acked_record_that_is_not_in_the_final_log_is_lost() -> None:
    story = Story(2)
    story.ledger.send(0, TOPIC)
    story.ledger.ack(0, 2, 0, 2)
    verdict = story.verdict(0, 1)
    assert verdict.anomalies == {"lost-write": 1} and "record 0-2" in verdict.examples[0]


def test_an_acked_record_under_another_offset_is_lost() -> None:
    story = Story()
    story.ledger.send(0, TOPIC, 2)
    story.ledger.ack(0, 0, 0, 1)
    assert story.verdict(0, 1).anomalies == {"lost-write": 1}


@pytest.mark.parametrize("final", [(0, 1), (0, 1, 2)])
def test_an_unacked_record_may_be_missing_or_present(final: Sequence[int]) -> None:
    story = Story(2)
    story.ledger.send(0, TOPIC)
    assert story.verdict(*final).ok


@pytest.mark.parametrize("reader", ["poll", "raw"])
def test_an_offset_that_a_reader_went_past_is_a_skip_of_that_reader(reader: str) -> None:
    story = Story(4)
    story.ledger.begin_range(reader, story.log, 0, 0)
    story.read(reader, 0)
    story.read(reader, 3, offset=3)
    assert story.verdict(0, 1, 2, 3).anomalies == {f"{reader}-skip": 2}


def test_an_offset_far_behind_the_end_is_a_skip_and_takes_no_memory() -> None:
    story = Story(1)
    story.read("poll", 0, offset=1 << 40)
    assert story.verdict(0).anomalies == {"poll-skip": (1 << 40) - 1}


def test_a_range_that_ends_short_without_an_error_is_a_skip() -> None:
    story = Story(4)
    story.ledger.begin_range("raw", story.log, 0, 1)
    story.read("raw", 1, 2, offset=1)
    story.ledger.end_range("raw", story.log, 0, 4)
    assert story.verdict(0, 1, 2, 3).anomalies == {"raw-skip": 1}


def test_a_reader_that_never_reaches_the_end_leaves_records_unseen() -> None:
    story = Story(2)
    story.ledger.send(0, TOPIC)
    story.ledger.end_range("poll", story.log, 0, 3, reached=False)
    assert story.verdict(0, 1, 2).anomalies == {"unseen": 1}


def test_an_offset_that_is_given_again_is_nonmonotonic() -> None:
    story = Story(3)
    story.read("poll", 1, offset=1)
    assert story.verdict(0, 1, 2).anomalies == {"nonmonotonic": 1}


def test_a_range_may_be_read_again_from_where_it_began() -> None:
    story = Story(2)
    for _ in range(2):
        story.ledger.begin_range("raw", story.log, 0, 0)
        story.read("raw", 0, 1)
    assert story.verdict(0, 1).ok


def test_two_readers_that_see_different_records_at_an_offset_are_inconsistent() -> None:
    story = Story()
    story.ledger.send(0, TOPIC, 2)
    story.read("poll", 0)
    story.read("raw", 1)
    assert story.verdict(0).anomalies == {"inconsistent": 1}


@pytest.mark.parametrize("final", [(1,), ()])
def test_a_record_that_was_read_and_is_changed_or_gone_in_the_end_is_inconsistent(final: Sequence[int]) -> None:
    story = Story()
    story.ledger.send(0, TOPIC, 2)
    story.read("poll", 0)
    assert story.verdict(*final).anomalies == {"inconsistent": 1}


def test_a_value_that_nobody_sent_or_that_is_damaged_is_a_phantom() -> None:
    story = Story(1)
    story.ledger.send(0, TOPIC)
    damaged = encode_value(0, 1)[:-1] + b"?"
    story.ledger.read("poll", story.log, 0, [1, 2, 3], [damaged, encode_value(0, 7), None])
    assert story.ledger.judge({}).anomalies["phantom"] == 3


def test_a_record_of_a_deleted_topic_in_the_new_one_is_resurrected() -> None:
    story = Story(2)
    story.ledger.begin_delete(story.log)
    story.log = story.ledger.created(TOPIC)
    assert story.verdict(0).anomalies == {"resurrected": 1}


def test_what_was_acked_in_a_deleted_topic_is_not_missed() -> None:
    story = Story(2)
    story.ledger.begin_delete(story.log)
    story.log = story.ledger.created(TOPIC)
    assert story.verdict().ok


@pytest.mark.parametrize(("is_of_the_old", "anomalies"), [(False, {"lost-write": 1}), (True, {})])
def test_an_ack_that_only_the_old_topic_holds_is_lost_unless_it_was_of_that_one(
    is_of_the_old: bool, anomalies: dict[str, int]
) -> None:
    story = Story(2)
    story.ledger.begin_delete(story.log)
    story.log = story.ledger.created(TOPIC)
    story.ledger.send(0, TOPIC)
    story.ledger.ack(0, 2, 0, 2)
    if is_of_the_old:
        story.ledger.acked_somewhere(0, 2, 1)
    assert story.verdict().anomalies == anomalies


def test_an_ack_around_a_deletion_counts_for_neither_topic() -> None:
    story = Story()
    story.ledger.send(0, TOPIC, 2)
    story.ledger.begin_delete(story.log)
    story.ledger.ack(0, 0, 0, 0)
    story.log = story.ledger.created(TOPIC)
    story.ledger.ack(0, 1, 0, 1)
    assert story.verdict().ok


@pytest.mark.parametrize(("counted", "anomalies"), [(2, {}), (1, {"duplicates": 1})])
def test_records_may_stand_twice_only_as_often_as_their_producer_counts(
    counted: int, anomalies: dict[str, int]
) -> None:
    story = Story(2)
    verdict = story.verdict(0, 1, 0, 1, possible_duplicates=counted)
    assert verdict.anomalies == anomalies and verdict.duplicates == 2


@pytest.mark.parametrize(("counted", "anomalies"), [(2, {}), (1, {"duplicates": 1})])
def test_each_copy_of_a_record_that_was_never_acked_is_counted_too(counted: int, anomalies: dict[str, int]) -> None:
    story = Story(1)
    story.ledger.send(0, TOPIC)
    assert story.verdict(0, 1, 1, 1, possible_duplicates=counted).anomalies == anomalies


def test_records_of_a_producer_in_another_order_are_out_of_order() -> None:
    story = Story()
    story.ledger.send(0, TOPIC, 2)
    assert story.verdict(1, 0).anomalies == {"out-of-order": 1}


def test_records_of_a_key_in_another_order_or_in_two_partitions_are_in_disorder() -> None:
    story = Story()
    for key in (7, 8, 7):
        story.ledger.send(0, TOPIC, key=key)
    assert story.verdict(2, 1, 0).anomalies == {"out-of-order": 2, "key-disorder": 1}
    story = Story()
    story.ledger.send(0, TOPIC, 2, key=7)
    story.ledger.read_final(story.log, 1, [0], [encode_value(0, 1)])
    assert story.verdict(0).anomalies == {"key-disorder": 1}


@pytest.mark.parametrize(("late", "anomalies"), [(0, {}), (1, {"out-of-order": 1})])
def test_a_record_that_failed_with_its_outcome_unknown_may_be_late(late: int, anomalies: dict[str, int]) -> None:
    story = Story()
    story.ledger.send(0, TOPIC, 2)
    story.ledger.failed_unknown(0, late)
    assert story.verdict(1, 0).anomalies == anomalies


@pytest.mark.parametrize(("begin", "anomalies"), [(1, {}), (0, {"out-of-order": 1})])
def test_a_copy_of_a_record_that_was_deleted_is_in_no_wrong_order(begin: int, anomalies: dict[str, int]) -> None:
    """0 and 1 were appended and not acked, then both again; the first 0 was deleted."""
    story = Story()
    story.ledger.send(0, TOPIC, 2)
    story.ledger.may_be_gone(story.log, 0, begin)
    story.ledger.begins(story.log, 0, begin)
    values = [encode_value(0, n) for n in (1, 0, 1)]
    story.ledger.read_final(story.log, 0, range(begin, begin + 3), values)
    assert story.ledger.judge({0: 2}).anomalies == anomalies


@pytest.mark.parametrize(("counted", "anomalies"), [(2, {}), (0, {"out-of-order": 1, "duplicates": 1})])
def test_an_idempotent_producer_must_have_counted_a_copy_of_a_deleted_record(
    counted: int, anomalies: dict[str, int]
) -> None:
    story = Story()
    story.ledger.is_idempotent(0, TOPIC)
    story.ledger.send(0, TOPIC, 2)
    story.ledger.may_be_gone(story.log, 0, 1)
    story.ledger.begins(story.log, 0, 1)
    story.ledger.read_final(story.log, 0, range(1, 4), [encode_value(0, n) for n in (1, 0, 1)])
    assert story.ledger.judge({0: counted}).anomalies == anomalies


def test_a_value_names_its_record_and_nothing_else_does() -> None:
    value = encode_value(3, 41)
    assert len(value) == 100 and decode_value(value) == record_id(3, 41)
    assert decode_value(b"") is decode_value(b"3-41-") is decode_value(b"a-b-c") is decode_value(None)


def test_what_was_to_be_deleted_may_be_gone_and_nothing_else() -> None:
    story = Story(4)
    story.ledger.may_be_gone(story.log, 0, 2)
    story.ledger.begin_behind_deleted("poll", story.log, 0, 2)
    story.ledger.begins(story.log, 0, 2)
    story.ledger.read_final(story.log, 0, [2], [encode_value(0, 2)])
    assert story.ledger.judge({}).anomalies == {"lost-write": 1, "inconsistent": 1}


@pytest.mark.parametrize("reader", ["poll", "final"])
def test_a_log_that_begins_behind_everything_that_was_to_be_deleted_is_told(reader: str) -> None:
    story = Story(4)
    story.ledger.may_be_gone(story.log, 0, 2)
    if reader == "final":
        story.ledger.begins(story.log, 0, 3)
    else:
        story.ledger.begin_behind_deleted(reader, story.log, 0, 3)
    assert "over-deleted" in story.verdict(0, 1, 2, 3).anomalies


def test_a_log_that_may_lose_records_holds_others_but_its_readers_skip_none() -> None:
    story = Story(3)
    story.ledger.may_lose(story.log)
    story.ledger.send(0, TOPIC, 2)
    story.ledger.begin_range("poll", story.log, 0, 1)
    story.read("poll", 3, offset=1)
    assert story.verdict(0, 3).ok
    story = Story(3)
    story.ledger.may_lose(story.log)
    story.read("poll", 0, offset=4)
    assert story.verdict(0, 1).anomalies == {"poll-skip": 1}
