"""Promises of the names of clients: who is connected is shown, and never more names than a limit."""

from __future__ import annotations

from broker.network.client_names import NAME_CHARS_MAX, NAMES_MAX, OTHERS, UNNAMED, ClientNames


def test_streams_are_counted_by_the_name_that_their_client_gave_until_they_end() -> None:
    names = ClientNames()
    counted = [names.joined(name) for name in ("billing", "billing", "")]
    assert names.statistics() == {"billing": 2, UNNAMED: 1}
    for name in counted:
        names.left(name)
    assert names.statistics() == {}


def test_a_flood_of_names_and_a_long_name_make_no_more_than_a_bounded_number_of_short_ones() -> None:
    names = ClientNames()
    counted = [names.joined(f"client-{number}") for number in range(NAMES_MAX + 50)]
    found = names.statistics()
    assert len(found) == NAMES_MAX + 1 and found[OTHERS] == 50
    assert names.joined("client-7") == "client-7", "a known name keeps its own count"
    names.left("client-7")
    for name in counted:
        names.left(name)
    assert names.statistics() == {}
    assert names.joined("x" * 1_000) == "x" * NAME_CHARS_MAX
