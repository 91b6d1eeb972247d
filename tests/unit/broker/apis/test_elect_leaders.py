"""An election that is asked for again because its answer was lost is answered like the first time."""

from __future__ import annotations

from broker.apis.changes.elect_leaders import elected_by_an_earlier_attempt
from metadata.requests import ElectLeadersResponse, ElectLeadersResult
from penstock.errors import ElectionNotNeededError, EligibleLeadersNotAvailableError


def test_of_a_repetition_only_the_election_that_is_not_needed_counts_as_made() -> None:
    none = EligibleLeadersNotAvailableError("no replica is in service")
    answer = ElectLeadersResponse(
        (ElectLeadersResult("t", 0, ElectionNotNeededError("led by 1"), 1), ElectLeadersResult("t", 1, none)), 9
    )
    assert elected_by_an_earlier_attempt(answer) == ElectLeadersResponse(
        (ElectLeadersResult("t", 0, None, 1), ElectLeadersResult("t", 1, none)), 9
    )
