"""Why a group lags, by its members, its partitions and its rates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.admin import GroupType, MemberDescription
from penstock.console.pages.lag_reasons import GroupPartitionRow, GroupRates, lag_reasons

UNKNOWN = GroupRates(None, None)
MEMBER = MemberDescription("m-1", None, "shop", "10.0.0.1", None, 1, (), None, (), (), GroupType.CONSUMER, 500)


def row(partition: int, lag: int | None, member_id: str = "m-1", error: str = "") -> GroupPartitionRow:
    return GroupPartitionRow("orders", partition, 1, 1, lag, member_id, "shop", "10.0.0.1", None, error)


ROWS = (row(0, 10), row(1, 12))


def test_a_group_without_lag_has_no_reasons() -> None:
    assert lag_reasons("Stable", (MEMBER,), (row(0, 0),), GroupRates(10, 0)) == ()
    assert lag_reasons("Empty", (), (), UNKNOWN) == ()


def test_a_group_without_members_is_told_to_be_started() -> None:
    assert lag_reasons("Empty", (), ROWS, UNKNOWN) == ("Nobody reads: the group has no members. Start its consumers.",)


def test_a_lag_that_is_not_known_is_told_with_the_error() -> None:
    rows = (row(0, None, error="no leader answers"), row(1, 0))
    assert lag_reasons("Stable", (MEMBER,), rows, UNKNOWN) == ("The lag of orders:0 is not known: no leader answers.",)


def test_a_rebalance_and_a_silent_member_are_told() -> None:
    first, second = lag_reasons("PreparingRebalance", (replace(MEMBER, silent_ms=30_000),), ROWS, UNKNOWN)
    assert first.startswith("It shares its partitions out (PreparingRebalance)")
    assert second.startswith("Member m-1 (shop at 10.0.0.1) was last heard of 30 s ago: look at that process.")


def test_partitions_that_nobody_has_and_the_one_with_most_of_the_lag_are_named() -> None:
    many = tuple(row(n, 1, member_id="") for n in range(7))
    assert lag_reasons("Stable", (MEMBER,), many, UNKNOWN) == (
        "No member has orders:0, orders:1, orders:2, orders:3, orders:4 and 2 more: nobody reads there.",
    )
    (worst,) = lag_reasons("Stable", (MEMBER,), (row(0, 90), row(1, 10)), UNKNOWN)
    assert worst.startswith("90% of the lag is in orders:0, which shop at 10.0.0.1 reads. ")


@pytest.mark.parametrize(
    ("rates", "members", "told"),
    [
        (GroupRates(100, 0), 1, "its members process nothing, or do not commit"),
        (GroupRates(100, 111), 1, "it catches up, in about 2 s at this rate"),
        (GroupRates(100, 98), 1, "the lag stays as it is"),
        (GroupRates(100, 40), 1, "it falls behind. It has 1 member for 2 partitions: more of them share the work."),
        (GroupRates(100, 40), 2, "it falls behind. It has a member for each partition"),
    ],
)
def test_rates_say_whether_it_falls_behind(rates: GroupRates, members: int, told: str) -> None:
    (line,) = lag_reasons("Stable", (MEMBER,) * members, ROWS, rates)
    assert line.startswith("In the last minute 100 records a second were written, and it committed ") and told in line
