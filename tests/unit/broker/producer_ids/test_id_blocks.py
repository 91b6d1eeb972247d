"""Which request gets which producer id, and when the next block is wanted."""

from __future__ import annotations

import pytest

from broker.producer_ids.id_blocks import (
    PRODUCER_IDS_END,
    WAIT_MS,
    WAITING_MAX,
    ProducerIdBlocks,
    ProducerIdStatistics,
)
from penstock.errors import (
    RequestTimedOutError,
    ResourceExhaustedError,
    StaleBrokerEpochError,
    UnknownServerError,
)


def blocks_with(first: int, count: int) -> ProducerIdBlocks[str]:
    """Blocks of which one id, the first, was given."""
    blocks: ProducerIdBlocks[str] = ProducerIdBlocks()
    assert blocks.request("first", 0) is None
    assert blocks.block_came(first, count) == [("first", first)]
    return blocks


def test_a_broker_that_no_producer_asks_wants_no_block() -> None:
    blocks: ProducerIdBlocks[str] = ProducerIdBlocks()
    assert not blocks.wants_block
    blocks.request("a", 0)
    assert blocks.wants_block


def test_ids_are_given_in_order_over_the_end_of_a_block() -> None:
    blocks = blocks_with(10, 3)
    blocks.block_came(100, 2)
    assert [blocks.request("x", 0) for _ in range(5)] == [11, 12, 100, 101, None]


def test_the_next_block_is_wanted_when_a_tenth_of_the_newest_is_left_and_not_again_once_it_came() -> None:
    blocks = blocks_with(0, 1_000)
    for _ in range(898):
        blocks.request("x", 0)
    assert not blocks.wants_block, "101 are left"
    blocks.request("x", 0)
    assert blocks.wants_block, "100 are left"
    blocks.block_came(5_000, 1_000)
    assert not blocks.wants_block
    assert blocks.request("x", 0) == 900, "the older block first"


def test_those_who_wait_are_served_in_their_order_before_anybody_new() -> None:
    blocks: ProducerIdBlocks[str] = ProducerIdBlocks()
    for name in "abc":
        assert blocks.request(name, 0) is None
    assert blocks.block_came(7, 2) == [("a", 7), ("b", 8)]
    assert blocks.wants_block and blocks.request("d", 0) is None
    assert blocks.block_came(20, 9) == [("c", 20), ("d", 21)]
    assert blocks.request("e", 0) == 22


def test_who_waits_too_long_is_told_what_the_controller_said() -> None:
    blocks: ProducerIdBlocks[str] = ProducerIdBlocks()
    blocks.request("a", 0)
    blocks.request("b", 1)
    assert blocks.next_deadline_ms == WAIT_MS and blocks.expired(WAIT_MS - 1) == []
    ((waiter, error),) = blocks.expired(WAIT_MS)
    assert waiter == "a" and isinstance(error, RequestTimedOutError) and error.retriable
    assert "the controller has not answered" in str(error)
    blocks.block_refused(StaleBrokerEpochError("epoch 3 is not 4"))
    ((waiter, error),) = blocks.expired(WAIT_MS + 1)
    assert waiter == "b" and "epoch 3 is not 4" in str(error)
    assert blocks.next_deadline_ms is None
    assert blocks.block_came(0, 10) == [], "whoever was answered with an error gets no id"


def test_only_so_many_may_wait() -> None:
    blocks: ProducerIdBlocks[int] = ProducerIdBlocks()
    for number in range(WAITING_MAX):
        blocks.request(number, 0)
    with pytest.raises(ResourceExhaustedError, match="try again"):
        blocks.request(-1, 0)
    assert [waiter for waiter, _ in blocks.block_came(0, WAITING_MAX)] == list(range(WAITING_MAX))


@pytest.mark.parametrize(
    ("first", "count"), [(-1, 10), (0, 0), (5, -1), (PRODUCER_IDS_END, 1), (PRODUCER_IDS_END - 9, 10)]
)
def test_an_answer_that_is_no_block_is_refused_and_whoever_waits_goes_on_waiting(first: int, count: int) -> None:
    blocks: ProducerIdBlocks[str] = ProducerIdBlocks()
    blocks.request("a", 0)
    with pytest.raises(UnknownServerError, match="the controller answered"):
        blocks.block_came(first, count)
    assert blocks.wants_block and blocks.block_came(0, 1) == [("a", 0)]


def test_the_very_last_block_is_given_like_any_other() -> None:
    blocks = blocks_with(PRODUCER_IDS_END - 2, 2)
    assert blocks.request("x", 0) == PRODUCER_IDS_END - 1


@pytest.mark.parametrize("first", [0, 10, 19])
def test_a_block_with_an_id_of_an_earlier_one_is_left_out(first: int) -> None:
    blocks = blocks_with(10, 10)
    with pytest.raises(UnknownServerError, match="two producers would have one id"):
        blocks.block_came(first, 1_000)
    blocks.block_came(20, 1)
    assert [blocks.request("x", 0) for _ in range(11)] == [*range(11, 21), None]


def test_statistics_count_what_was_given_what_is_left_and_who_waits() -> None:
    blocks = blocks_with(0, 2)
    assert blocks.statistics() == ProducerIdStatistics(given=1, left=1, waiting=0)
    blocks.request("a", 0)
    blocks.request("b", 0)
    assert blocks.statistics() == ProducerIdStatistics(given=2, left=0, waiting=1)
