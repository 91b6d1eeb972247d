"""A broker that is to be forgotten once more, because the first answer was lost, is forgotten already."""

from __future__ import annotations

from penstock.errors import BrokerIdNotRegisteredError, PolicyViolationError
from penstock.messages.nodes.brokers import UnregisterBrokerResponse
from penstock.messages.repetitions import unregistered_before


def test_of_a_repetition_only_the_broker_that_is_not_registered_counts_as_forgotten() -> None:
    gone = UnregisterBrokerResponse(BrokerIdNotRegisteredError("broker 4 is not registered"), 9)
    assert unregistered_before(gone) == UnregisterBrokerResponse(None, 9)
    kept = UnregisterBrokerResponse(PolicyViolationError("broker 4 runs"), 9)
    assert unregistered_before(kept) is kept
