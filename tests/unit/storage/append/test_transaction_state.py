"""Undecided transactions: however many ended ones are kept, none is decided too early, and none for ever undecided."""

from __future__ import annotations

from random import Random

import pytest

from storage.append.transaction_state import ENDED_MAX, SAVED_MAX, UndecidedTransactions


@pytest.mark.parametrize("seed", range(5))
def test_a_replica_that_is_never_asked_keeps_a_bounded_list_that_is_careful(seed: int) -> None:
    random, offset = Random(seed), 0
    undecided = UndecidedTransactions()
    opened: dict[int, int] = {}
    ended: list[tuple[int, int]] = []
    for _ in range(6 * ENDED_MAX):
        undecided.begin_append()
        producer_id = random.randrange(20)
        if producer_id in opened:
            first = undecided.end(producer_id, offset)
            assert first == opened.pop(producer_id)
            ended.append((first, offset))
        else:
            undecided.open(producer_id, offset)
            opened[producer_id] = offset
        offset += 1
    saved = undecided.saved_ended()
    assert len(saved) <= SAVED_MAX
    for one in (undecided, UndecidedTransactions(opened, saved)):
        for high_watermark in sorted(random.sample(range(offset), 50)):
            wanted = min([*opened.values(), *(first for first, marker in ended if marker >= high_watermark)])
            found = one.first_undecided(high_watermark)
            assert found is not None and found <= wanted
        assert one.first_undecided(offset) == min(opened.values())


def test_what_failed_is_as_it_was() -> None:
    undecided = UndecidedTransactions()
    for producer_id in range(3):
        undecided.open(producer_id, producer_id)
    undecided.end(2, 3)
    undecided.begin_append()
    undecided.end(0, 4)
    undecided.open(2, 5)
    undecided.open(0, 6)
    undecided.end(1, 7)
    undecided.take_back()

    assert dict(undecided.open_offsets()) == {0: 0, 1: 1} and undecided.first_open == 0
    assert [undecided.first_undecided(high) for high in (3, 4)] == [0, 0]
    assert undecided.end(0, 4) == 0 and undecided.first_undecided(5) == 1
