"""Promises of the names of clients: what each does is shown, and never more names than a limit."""

from __future__ import annotations

from broker.network.client_names import NAME_CHARS_MAX, NAMES_MAX, OTHERS, UNNAMED, ClientNames
from broker.network.request_channel import Caller
from penstock.types import CLIENT_LISTENER, Endpoint

LONE_MAX = NAMES_MAX // 2
"""Names of one party alone."""


def caller(principal: str = "User:ANONYMOUS", host: str = "10.0.0.1", listener: str = CLIENT_LISTENER) -> Caller:
    return Caller(Endpoint(host, 4711), listener, principal)


ANNA = caller("User:anna")


def streams(names: ClientNames) -> dict[str, int]:
    return {client.name: client.streams for client in names.statistics() if client.streams}


def test_streams_are_counted_by_the_name_that_their_client_gave_until_they_end() -> None:
    names = ClientNames()
    counted = [names.joined(name, ANNA) for name in ("billing", "billing", "")]
    assert streams(names) == {"billing": 2, UNNAMED: 1}
    for client in counted:
        names.left(client)
    assert streams(names) == {}


def test_a_name_keeps_its_counts_between_two_streams() -> None:
    names = ClientNames()
    for _ in range(2):
        client = names.joined("billing", ANNA)
        client.count_in(100)
        client.bytes_out += 10
        names.left(client)
    found = next(client for client in names.statistics() if client.name == "billing")
    assert (found.streams, found.requests, found.bytes_in, found.bytes_out) == (0, 2, 200, 20)


def test_a_flood_of_names_and_a_long_name_make_no_more_than_a_bounded_number_of_short_ones() -> None:
    names = ClientNames()
    counted = [names.joined(f"client-{number}", ANNA) for number in range(LONE_MAX + 50)]
    found = streams(names)
    assert len(found) == LONE_MAX + 1 and found[OTHERS] == 50
    assert names.joined("client-7", ANNA).name == "client-7", "a known name keeps its own count"
    assert names.joined(OTHERS, ANNA).name == OTHERS
    for client in counted:
        names.left(client)
    assert names.joined("x" * 1_000, ANNA).name == "x" * NAME_CHARS_MAX, "a name without a stream leaves its place"
    assert len(names.statistics()) == LONE_MAX + 1


def test_no_count_rises_by_what_another_name_had_when_it_leaves() -> None:
    names = ClientNames()
    counts: dict[str, int] = {}
    increase = 0
    for number in range(3 * NAMES_MAX):
        client = names.joined(f"client-{number}", ANNA)
        client.count_in(7)
        names.left(client)
        found = {client.name: client.bytes_in for client in names.statistics()}
        increase += sum(max(0, total - counts.get(name, 0)) for name, total in found.items())
        counts = found
    assert increase == 7 * 3 * NAMES_MAX and counts[OTHERS] == 0
    again = names.joined("client-0", ANNA)
    assert again.bytes_in == 0, "a name that left begins at 0"


def test_names_for_which_there_is_no_place_are_counted_together() -> None:
    names = ClientNames()
    for number in range(LONE_MAX + 3):
        names.joined(f"client-{number}", ANNA).count_in(7)
    found = names.statistics()
    assert found[-1].name == OTHERS and found[-1].bytes_in == 21


# -- shares ------------------------------------------------------------------------------------------------------------


def test_a_party_that_makes_up_names_leaves_places_for_others_and_an_honest_name_keeps_its_own() -> None:
    names = ClientNames()
    billing = names.joined("billing", caller("User:honest"))
    for number in range(10 * NAMES_MAX):
        names.joined(f"made-up-{number}", caller("User:mallory"))
    assert names.joined("billing", caller("User:honest")) is billing
    assert names.joined("reports", caller("User:other")).name == "reports"


def test_addresses_of_one_network_share_and_idle_names_of_a_party_that_has_more_give_way() -> None:
    names = ClientNames()
    for number in range(10 * NAMES_MAX):
        names.joined(f"made-up-{number}", caller(host=f"2001:db8::{number:x}"))
    assert len(names.statistics()) == LONE_MAX + 1
    idle = [names.joined(f"idle-{number}", caller(f"User:{number % 2}")) for number in range(NAMES_MAX)]
    for client in idle:
        names.left(client)
    for number in range(20):
        assert names.joined(f"new-{number}", caller(f"User:new-{number}")).name == f"new-{number}"


def test_names_in_use_are_never_more_than_the_limit_whoever_comes() -> None:
    names = ClientNames()
    for number in range(3 * NAMES_MAX):
        names.joined(f"name-{number}", caller(f"User:{number}"))
    assert len(names.statistics()) <= NAMES_MAX + 1


def test_nobody_has_a_name_before_the_log_in_where_the_listener_asks_for_one() -> None:
    names = ClientNames({"SASL"})
    stranger = caller(listener="SASL")
    assert names.joined("billing", stranger).name == OTHERS
    assert names.joined("billing", stranger._replace(principal="User:anna")).name == "billing"
    assert names.joined("open", caller()).name == "open"
