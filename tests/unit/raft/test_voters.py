"""A set of voters as a value: its order, its majority, and the addresses in it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from penstock.errors import InvariantViolation
from penstock.types import Endpoint
from raft.voters import NO_VOTERS, Voter, VoterSet
from tests.support.voters import CONTROLLER, voters_at, voters_of


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (9, 5)])
def test_a_majority_is_more_than_half(count: int, majority: int) -> None:
    voters = voters_of(*range(count))
    assert (len(voters), voters.majority) == (count, majority)
    assert voters.has_majority(range(majority)) and not voters.has_majority(range(majority - 1))


def test_the_empty_set_has_no_majority_and_no_voter() -> None:
    assert not NO_VOTERS.has_majority(range(10)) and not NO_VOTERS.is_voter(0) and not NO_VOTERS.is_only_voter(0)


def test_a_voter_is_told_from_the_others_by_its_id() -> None:
    voters = voters_of(1, 3, 5)
    assert voters.ids == (1, 3, 5)
    assert [voters.is_voter(node) for node in (1, 2, 3)] == [True, False, True]
    assert voters.others(3) == (1, 5) and voters.others(2) == (1, 3, 5)
    assert [voters_of(3).is_only_voter(3), voters_of(2).is_only_voter(3), voters.is_only_voter(3)] == [
        True,
        False,
        False,
    ]


def test_a_voter_has_an_address_for_each_of_its_listeners() -> None:
    voters = voters_at(1, 2)
    assert voters.endpoint(2, CONTROLLER) == Endpoint("host-2", 9193)
    assert voters.endpoint(2, "ANOTHER") is None and voters.endpoint(3, CONTROLLER) is None
    assert voters.listed(CONTROLLER) == "1@host-1:9193, 2@host-2:9193"


def test_no_other_file_computes_a_majority() -> None:
    root = Path(__file__).parents[3]
    files = [file for package in ("raft", "metadata", "broker") for file in (root / package).rglob("*.py")]
    found = [str(file.relative_to(root)) for file in files if "// 2 + 1" in file.read_text(encoding="utf-8")]
    assert found == ["raft/voters.py"]


@pytest.mark.parametrize("ids", [(1, 1), (2, 1), (-1, 2)])
def test_voters_stand_once_each_in_the_order_of_their_ids(ids: tuple[int, ...]) -> None:
    """A voter that counted twice could be a majority alone."""
    with pytest.raises(InvariantViolation, match="different ids"):
        VoterSet(tuple(map(Voter, ids)))


def test_a_set_is_a_value_that_never_changes() -> None:
    voters = voters_at(1, 2)
    assert voters == voters_at(1, 2) and hash(voters) == hash(voters_at(1, 2)) and voters != voters_of(1, 2)
    assert VoterSet((Voter(1, "dir-a"),)) != VoterSet((Voter(1, "dir-b"),)), "a node on a new disk is another voter"
    with pytest.raises(FrozenInstanceError):
        voters.voters = ()  # type: ignore[misc]
