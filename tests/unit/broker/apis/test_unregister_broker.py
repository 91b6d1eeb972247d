"""A broker that is to be forgotten once more, because the first answer was lost, is forgotten already."""

from __future__ import annotations

from broker.apis.changes.unregister_broker import unregistered_by_an_earlier_attempt
from metadata.requests import UnregisterBrokerResponse
from penstock.errors import BrokerIdNotRegisteredError, PolicyViolationError


def test_of_a_repetition_only_the_broker_that_is_not_registered_counts_as_forgotten() -> None:
    gone = UnregisterBrokerResponse(BrokerIdNotRegisteredError("broker 4 is not registered"), 9)
    assert unregistered_by_an_earlier_attempt(gone) == UnregisterBrokerResponse(None, 9)
    kept = UnregisterBrokerResponse(PolicyViolationError("broker 4 runs"), 9)
    assert unregistered_by_an_earlier_attempt(kept) is kept
