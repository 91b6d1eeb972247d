"""Majorities of one set of voters, and of two sets that differ by one voter, always have a voter in common."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from raft.voters import VOTERS_MAX, VoterSet
from tests.support.amount import usually
from tests.support.voters import voters_of

EXAMPLES = settings(max_examples=usually(37, long=150), deadline=None, derandomize=True)
IDS = st.sets(st.integers(0, 12), min_size=1, max_size=VOTERS_MAX)


def majorities(voters: VoterSet) -> list[set[int]]:
    """All groups of voters that are a majority and no larger than one has to be."""
    return [set(group) for group in combinations(voters.ids, voters.majority)]


def overlap(one: VoterSet, other: VoterSet) -> bool:
    """True if each majority of one set has a voter in common with each of the other."""
    return all(some & others for some in majorities(one) for others in majorities(other))


@EXAMPLES
@given(IDS)
def test_two_majorities_of_one_set_have_a_voter_in_common(ids: set[int]) -> None:
    voters = voters_of(*ids)
    assert overlap(voters, voters)


@EXAMPLES
@given(IDS, st.integers(20, 30))
def test_majorities_of_sets_that_differ_by_one_voter_have_a_voter_in_common(ids: set[int], added: int) -> None:
    """So one voter at a time may be added or removed, without a phase in which both sets decide."""
    before, after = voters_of(*ids), voters_of(*ids, added)
    assert overlap(before, after) and overlap(after, before)


def test_majorities_of_sets_that_differ_by_two_voters_may_have_none_in_common() -> None:
    assert not overlap(voters_of(1, 2, 3), voters_of(1, 2, 3, 4, 5))
    assert not overlap(voters_of(1), voters_of(2)), "one is replaced by another"


@EXAMPLES
@given(IDS, st.sets(st.integers(0, 40)))
def test_a_group_or_the_rest_of_the_voters_is_a_majority_and_never_both(ids: set[int], group: set[int]) -> None:
    """Half of the voters are none. Nodes that are no voters change nothing."""
    voters = voters_of(*ids)
    one, rest = voters.has_majority(group), voters.has_majority(ids - group)
    assert not (one and rest)
    assert one or rest or 2 * len(ids & group) == len(ids)
    assert voters.has_majority(group | {50, 51, 52}) is one is (len(ids & group) >= voters.majority)
