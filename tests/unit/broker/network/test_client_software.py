"""Promises about the counts of client libraries: bounded, and right for the ones that are there."""

from __future__ import annotations

from broker.network.client_software import OTHERS, SOFTWARE_CHARS_MAX, SOFTWARE_MAX, ClientSoftware


def test_a_pair_counts_while_it_has_a_connection() -> None:
    software = ClientSoftware()
    first, second = software.joined("librdkafka", "2.16.0"), software.joined("librdkafka", "2.16.0")
    assert software.statistics()["librdkafka", "2.16.0"] == 2
    first.close()
    second.close()
    assert software.statistics()["librdkafka", "2.16.0"] == 0, "it is shown until its place is needed"


def test_names_are_bounded_in_number_and_length() -> None:
    software = ClientSoftware()
    counted = [software.joined("x" * 1_000, str(number)) for number in range(SOFTWARE_MAX + 3)]
    found = software.statistics()
    assert len(found) == SOFTWARE_MAX + 1 and found[OTHERS, ""] == 3
    assert all(len(name) <= SOFTWARE_CHARS_MAX for name, _ in found)
    for one in counted:
        one.close()
    software.joined("new", "1")
    found = software.statistics()
    assert len(found) == SOFTWARE_MAX + 1 and found["new", "1"] == 1 and found[OTHERS, ""] == 0
