"""An election that is asked for again because its answer was lost is answered like the first time."""

from __future__ import annotations

from penstock.errors import ElectionNotNeededError, EligibleLeadersNotAvailableError
from penstock.messages.elections import ElectLeadersResponse, ElectLeadersResult
from penstock.messages.repetitions import elected_before


def test_of_a_repetition_only_the_election_that_is_not_needed_counts_as_made() -> None:
    none = EligibleLeadersNotAvailableError("no replica is in service")
    answer = ElectLeadersResponse(
        (ElectLeadersResult("t", 0, ElectionNotNeededError("led by 1"), 1), ElectLeadersResult("t", 1, none)), 9
    )
    assert elected_before(answer) == ElectLeadersResponse(
        (ElectLeadersResult("t", 0, None, 1), ElectLeadersResult("t", 1, none)), 9
    )
