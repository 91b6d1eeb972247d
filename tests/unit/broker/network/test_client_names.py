"""Promises of the names of clients: what each does is shown, and never more names than a limit."""

from __future__ import annotations

from broker.network.client_names import NAME_CHARS_MAX, NAMES_MAX, OTHERS, UNNAMED, ClientNames


def streams(names: ClientNames) -> dict[str, int]:
    return {client.name: client.streams for client in names.statistics() if client.streams}


def test_streams_are_counted_by_the_name_that_their_client_gave_until_they_end() -> None:
    names = ClientNames()
    counted = [names.joined(name) for name in ("billing", "billing", "")]
    assert streams(names) == {"billing": 2, UNNAMED: 1}
    for client in counted:
        names.left(client)
    assert streams(names) == {}


def test_a_name_keeps_its_counts_between_two_streams() -> None:
    names = ClientNames()
    for _ in range(2):
        client = names.joined("billing")
        client.count_in(100)
        client.bytes_out += 10
        names.left(client)
    found = next(client for client in names.statistics() if client.name == "billing")
    assert (found.streams, found.requests, found.bytes_in, found.bytes_out) == (0, 2, 200, 20)


def test_a_flood_of_names_and_a_long_name_make_no_more_than_a_bounded_number_of_short_ones() -> None:
    names = ClientNames()
    counted = [names.joined(f"client-{number}") for number in range(NAMES_MAX + 50)]
    found = streams(names)
    assert len(found) == NAMES_MAX + 1 and found[OTHERS] == 50
    assert names.joined("client-7").name == "client-7", "a known name keeps its own count"
    assert names.joined(OTHERS).name == OTHERS
    for client in counted:
        names.left(client)
    assert names.joined("x" * 1_000).name == "x" * NAME_CHARS_MAX, "a name without a stream leaves its place"
    assert len(names.statistics()) == NAMES_MAX + 1


def test_no_count_rises_by_what_another_name_had_when_it_leaves() -> None:
    names = ClientNames()
    counts: dict[str, int] = {}
    increase = 0
    for number in range(3 * NAMES_MAX):
        client = names.joined(f"client-{number}")
        client.count_in(7)
        names.left(client)
        found = {client.name: client.bytes_in for client in names.statistics()}
        increase += sum(max(0, total - counts.get(name, 0)) for name, total in found.items())
        counts = found
    assert increase == 7 * 3 * NAMES_MAX and counts[OTHERS] == 0
    again = names.joined("client-0")
    assert again.bytes_in == 0, "a name that left begins at 0"


def test_names_for_which_there_is_no_place_are_counted_together() -> None:
    names = ClientNames()
    for number in range(NAMES_MAX + 3):
        names.joined(f"client-{number}").count_in(7)
    found = names.statistics()
    assert found[-1].name == OTHERS and found[-1].bytes_in == 21
