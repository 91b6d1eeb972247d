"""Promises of the leader-epoch rules, each with the history that asks for it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.epochs import (
    UNDEFINED,
    assign,
    diverging_epoch,
    end_offset_for,
    epoch_for_offset,
    truncate_from_end,
    truncate_from_start,
    truncation_offset,
)
from penstock.types import EpochEndOffset, EpochEntry
from tests.support.amount import usually

HISTORY = (EpochEntry(1, 0), EpochEntry(3, 10), EpochEntry(4, 20))


def test_the_latest_epoch_ends_at_the_log_end() -> None:
    assert end_offset_for(HISTORY, 4, 25) == EpochEndOffset(4, 25)


def test_an_epoch_in_between_ends_where_the_next_begins() -> None:
    assert end_offset_for(HISTORY, 1, 25) == EpochEndOffset(1, 10)


def test_a_missing_epoch_is_answered_with_the_largest_below_it() -> None:
    assert end_offset_for(HISTORY, 2, 25) == EpochEndOffset(1, 10)


def test_an_epoch_above_all_is_not_known() -> None:
    assert end_offset_for(HISTORY, 5, 25) == UNDEFINED
    assert end_offset_for((), 1, 25) == UNDEFINED


def test_a_good_position_does_not_diverge() -> None:
    assert diverging_epoch(HISTORY, 25, 20, 3) is None
    assert diverging_epoch(HISTORY, 25, 25, 4) is None


def test_a_follower_with_a_longer_tail_of_an_old_epoch_diverges() -> None:
    assert diverging_epoch(HISTORY, 25, 23, 3) == EpochEndOffset(3, 20)


def test_a_follower_with_an_epoch_that_the_leader_never_saw_diverges() -> None:
    assert diverging_epoch(HISTORY, 25, 12, 2) == EpochEndOffset(1, 10)
    assert diverging_epoch(HISTORY, 25, 30, 9) == EpochEndOffset(4, 25)


def test_two_empty_elections_in_a_row_leave_the_last_one() -> None:
    history = assign(assign(HISTORY, 5, 25), 6, 25)
    assert history[-1] == EpochEntry(6, 25)
    assert end_offset_for(history, 5, 25) == EpochEndOffset(4, 25)


def test_an_epoch_that_is_not_newer_changes_nothing() -> None:
    assert assign(HISTORY, 4, 30) == HISTORY
    assert assign(HISTORY, 2, 30) == HISTORY


def test_truncation_at_both_ends() -> None:
    assert truncate_from_end(HISTORY, 20) == HISTORY[:2]
    assert truncate_from_start(HISTORY, 15) == (EpochEntry(3, 15), EpochEntry(4, 20))


@st.composite
def lineages(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two logs, as lists of the epoch of each record, that share a beginning and may then part. As in any Raft-shaped
    system one epoch has one leader: after the fork the two never write in the same epoch, but for its shared part."""
    shared = sorted(draw(st.lists(st.integers(0, 3), max_size=8)))
    epochs = draw(st.lists(st.tuples(st.integers(4, 12), st.booleans()), max_size=12, unique_by=lambda e: e[0]))
    left = [e for e, to_left in sorted(epochs) if to_left for _ in range(draw(st.integers(1, 3)))]
    right = [e for e, to_left in sorted(epochs) if not to_left for _ in range(draw(st.integers(1, 3)))]
    return shared + left, shared + right


def history_of(log: list[int]) -> tuple[EpochEntry, ...]:
    history: tuple[EpochEntry, ...] = ()
    for offset, epoch in enumerate(log):
        history = assign(history, epoch, offset)
    return history


@settings(max_examples=usually(100, long=400), derandomize=True, deadline=None)
@given(lineages())
def test_fetching_and_truncating_ends_with_the_follower_a_prefix_of_the_leader(
    logs: tuple[list[int], list[int]],
) -> None:
    leader, follower = logs
    new_epoch = max(leader + follower, default=0) + 1
    leader_history = assign(history_of(leader), new_epoch, len(leader))
    shared = next((i for i, (a, b) in enumerate(zip(leader, follower, strict=False)) if a != b), None)
    shared = min(len(leader), len(follower)) if shared is None else shared
    for _ in range(30):
        history = history_of(follower)
        last = history[-1].epoch if history else -1
        answer = diverging_epoch(leader_history, len(leader), len(follower), last)
        if answer is None:
            break
        cut = truncation_offset(history, len(follower), answer)
        assert cut < len(follower), "a diverging answer must cut something, or the two would go on for ever"
        follower = follower[:cut]
    assert follower == leader[: len(follower)]
    assert len(follower) >= shared, "nothing that both have may be cut away"


@settings(max_examples=usually(50, long=200), derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=20).map(sorted))
def test_the_epoch_of_an_offset_is_what_a_scan_says(log: list[int]) -> None:
    history = history_of(log)
    assert [epoch_for_offset(history, offset) for offset in range(len(log))] == log
