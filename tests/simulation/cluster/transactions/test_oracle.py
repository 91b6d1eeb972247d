"""The oracle finds each thing that cannot be true of transactions, and nothing where all is well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import ProducerFencedError
from tests.simulation.cluster.transactions.oracle import Life, Reading, ReportedTransaction, Spot, TransactionOracle

FIRST, SECOND = Spot(0, 0), Spot(0, 1)


class Story:
    """Two transactions of one producer over two partitions: records at offset 0 of both, then at 2 of both."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.oracle = TransactionOracle(lambda kind, text: self.wrong.append(f"{kind}: {text}"))
        self.life = self.begun()
        self.one, self.values = self.written(self.life, 0)
        self.two, self.others = self.written(self.life, 2)

    def begun(self) -> Life:
        life = self.oracle.life("writer")
        self.oracle.initialized(life)
        return life

    def written(self, life: Life, offset: int) -> tuple[ReportedTransaction, tuple[bytes, bytes]]:
        transaction = self.oracle.begins(life)
        values = transaction.sends(FIRST), transaction.sends(SECOND)
        for value, spot in zip(values, (FIRST, SECOND), strict=True):
            transaction.acked(value, spot, offset)
        return transaction, values

    def commit(self, transaction: ReportedTransaction) -> None:
        transaction.asks_commit()
        transaction.ended(True)

    def reader(self, spot: Spot = FIRST, *, is_committed: bool = True) -> Reading:
        return self.oracle.reading("reader", spot, 0, is_committed=is_committed)

    def judge(self, *, is_open: bool = True) -> None:
        self.oracle.judge(lambda spot, offset: is_open)

    def read_all(self) -> None:
        """The first is committed, the second is not; each partition has their markers at 1 and 3."""
        for number, spot in enumerate((FIRST, SECOND)):
            self.reader(spot).advance([0], [self.values[number]], 4)
            everything = [self.values[number], self.others[number]]
            self.reader(spot, is_committed=False).advance([0, 2], everything, 4)


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_story_in_which_all_is_well(story: Story) -> None:
    story.commit(story.one)
    story.two.given_up()
    story.two.ended(False)
    story.read_all()
    story.judge()
    assert not story.wrong
    assert story.oracle.counts() == {"committed": 1, "aborted": 1, "untold": 0}


def test_a_commit_that_nobody_was_told_of_may_be_either(story: Story) -> None:
    story.one.asks_commit()
    story.two.asks_commit()
    story.read_all()
    story.judge()
    assert not story.wrong and (story.one.fate, story.two.fate) == (True, False)


def torn(story: Story) -> None:
    story.one.asks_commit()
    story.reader(FIRST).advance([0], [story.values[0]], 2)
    story.reader(SECOND).advance([], [], 2)


def aborted_read(story: Story) -> None:
    story.one.given_up()
    story.reader().advance([0], [story.values[0]], 1)


def committed_not_read(story: Story) -> None:
    story.commit(story.one)
    story.reader().advance([], [], 2)


def commit_taken_back(story: Story) -> None:
    story.one.asks_commit()
    story.reader().advance([], [], 2)
    story.one.ended(True)


def commit_that_nobody_asked_for(story: Story) -> None:
    story.one.given_up()
    story.one.ended(True)


def given_once_and_left_out_then(story: Story) -> None:
    story.one.asks_commit()
    story.reader().advance([0], [story.values[0]], 1)
    story.reader().advance([], [], 1)


def left_out_and_given_then(story: Story) -> None:
    story.oracle.reading("reader", Spot(0, 9), 0, is_committed=True).advance([], [], 1)
    life = story.begun()
    transaction = story.oracle.begins(life)
    value = transaction.sends(Spot(0, 9))
    transaction.asks_commit()
    story.oracle.reading("reader", Spot(0, 9), 0, is_committed=True).advance([0], [value], 1)


def read_twice(story: Story) -> None:
    story.commit(story.one)
    reading = story.reader()
    reading.advance([0], [story.values[0]], 1)
    reading.advance([0], [story.values[0]], 1)


def phantom(story: Story) -> None:
    story.reader().advance([0], [b"nobody's"], 1)


def elsewhere(story: Story) -> None:
    story.commit(story.one)
    story.oracle.reading("reader", FIRST, 7, is_committed=True).advance([7], [story.values[0]], 8)


def replaced_and_committed(story: Story) -> None:
    story.begun()
    story.commit(story.one)


def fenced_by_nobody(story: Story) -> None:
    story.oracle.fenced(story.life, ProducerFencedError())


def not_acked(story: Story) -> None:
    transaction = story.oracle.begins(story.life)
    transaction.sends(FIRST)
    story.commit(transaction)


@pytest.mark.parametrize(
    ("lie", "kind"),
    [
        (torn, "transaction-torn"),
        (aborted_read, "transaction-aborted-read"),
        (committed_not_read, "transaction-torn"),
        (commit_taken_back, "transaction-aborted-read"),
        (commit_that_nobody_asked_for, "transaction-aborted-read"),
        (given_once_and_left_out_then, "transaction-torn"),
        (left_out_and_given_then, "transaction-torn"),
        (read_twice, "transaction-nonmonotonic"),
        (phantom, "transaction-phantom"),
        (elsewhere, "transaction-duplicates"),
        (replaced_and_committed, "transaction-aborted-read"),
        (fenced_by_nobody, "transaction-fenced"),
        (not_acked, "transaction-lost"),
    ],
)
def test_a_lie_is_found_when_it_is_told(story: Story, lie: Callable[[Story], None], kind: str) -> None:
    lie(story)
    assert any(text.startswith(f"{kind}: I6") for text in story.wrong), story.wrong


def test_a_committed_record_that_no_reader_has_come_to_is_missed_in_the_end(story: Story) -> None:
    story.commit(story.one)
    story.judge(is_open=False)
    assert not story.wrong
    story.judge()
    assert [text.partition(":")[0] for text in story.wrong] == ["transaction-lost"] * 2


def test_records_of_one_id_stand_in_the_order_of_its_processes(story: Story) -> None:
    later = story.begun()
    transaction = story.oracle.begins(later)
    value = transaction.sends(FIRST)
    story.reader(is_committed=False).advance([0, 1, 2], [story.values[0], value, story.others[0]], 3)
    story.judge(is_open=False)
    assert any(text.startswith("transaction-out-of-order: I67") for text in story.wrong)


def test_a_cleaned_log_may_lose_what_was_aborted(story: Story) -> None:
    story.oracle.cleaned = frozenset({0})
    story.one.given_up()
    story.reader(is_committed=False).advance([0], [story.values[0]], 1)
    story.reader(is_committed=False).advance([], [], 1)
    assert not story.wrong
