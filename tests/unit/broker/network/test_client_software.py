"""Promises about the counts of client libraries: bounded, and right for the ones that are there."""

from __future__ import annotations

from broker.network.client_software import OTHERS, SOFTWARE_CHARS_MAX, SOFTWARE_MAX, ClientSoftware
from broker.network.request_channel import ANONYMOUS, Caller
from penstock.types import Endpoint

ANNA = Caller(Endpoint("10.0.0.1", 4711), "SASL", "User:anna")
STRANGER = ANNA._replace(principal=ANONYMOUS)
LONE_MAX = SOFTWARE_MAX // 2
"""Pairs of one party alone."""


def test_a_pair_counts_while_it_has_a_connection() -> None:
    software = ClientSoftware()
    first, second = software.joined("librdkafka", "2.16.0", ANNA), software.joined("librdkafka", "2.16.0", ANNA)
    assert software.statistics()["librdkafka", "2.16.0"] == 2
    first.close()
    second.close()
    assert software.statistics()["librdkafka", "2.16.0"] == 0, "it is shown until its place is needed"


def test_names_are_bounded_in_number_and_length() -> None:
    software = ClientSoftware()
    counted = [software.joined("x" * 1_000, str(number), ANNA) for number in range(LONE_MAX + 3)]
    found = software.statistics()
    assert len(found) == LONE_MAX + 1 and found[OTHERS, ""] == 3
    assert all(len(name) <= SOFTWARE_CHARS_MAX for name, _ in found)
    for one in counted:
        one.close()
    software.joined("new", "1", ANNA)
    found = software.statistics()
    assert len(found) == LONE_MAX + 1 and found["new", "1"] == 1 and found[OTHERS, ""] == 0


def test_a_party_that_makes_up_pairs_leaves_places_for_others() -> None:
    software = ClientSoftware()
    for number in range(3 * SOFTWARE_MAX):
        software.joined("made-up", str(number), ANNA)
    software.joined("librdkafka", "2.16.0", ANNA._replace(principal="User:bob"))
    assert software.statistics()["librdkafka", "2.16.0"] == 1


def test_a_connection_that_has_still_to_log_in_is_one_of_the_others_until_it_has() -> None:
    software = ClientSoftware(lambda caller: caller.principal == ANONYMOUS)
    counted = software.joined("librdkafka", "2.16.0", STRANGER)
    assert software.statistics() == {(OTHERS, ""): 1}
    counted.identified(ANNA)
    assert software.statistics() == {(OTHERS, ""): 0, ("librdkafka", "2.16.0"): 1}
    counted.close()
    assert not any(software.statistics().values())
