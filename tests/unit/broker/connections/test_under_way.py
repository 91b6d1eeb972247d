"""Bytes of which no message comes are bounded for a party and for a node, and honest clients are never over a bound."""

from __future__ import annotations

import random
from collections.abc import Mapping

from broker.connections.under_way import (
    CALL_BYTES,
    CONNECTION_BYTES,
    MESSAGE_MS,
    NODE_SHARES,
    PARTY_BYTES_MIN,
    Carried,
    HeardCounts,
    Shares,
    UnderWay,
    UnderWayWatch,
    over_share,
)
from penstock.types import Endpoint

MIB = 1 << 20
HERE, THERE, FAR = (Endpoint(f"10.0.0.{number}", 1) for number in (1, 2, 3))
ANNA = "User:anna"
NOWHERE: dict[str, int] = {}
TLS_RECORD, TLS_BYTES, FRAME_BYTES = 1_400, 29, 9
"""Small records, as some libraries write at first."""


def cut(
    here: Mapping[Endpoint, UnderWay],
    party_max: int,
    elsewhere: Mapping[str, int] = NOWHERE,
    now_ms: int = 0,
) -> set[Endpoint]:
    shares = Shares(2 * party_max, 0)
    assert shares.party_max == party_max
    return set(over_share(here, lambda peer: peer.host, elsewhere, shares, now_ms))


def test_a_party_may_have_half_of_the_requests_memory_under_way_and_alone_one_message() -> None:
    shares = Shares(128 * MIB, 100 * MIB)
    assert shares.party_max == 64 * MIB and 100 * MIB < shares.alone_max < 104 * MIB
    assert shares.node_max == 2 * shares.alone_max
    assert Shares(MIB, MIB).party_max == Shares(MIB, MIB).alone_max == PARTY_BYTES_MIN

    def gone(here: dict[Endpoint, UnderWay], elsewhere: Mapping[str, int] = NOWHERE) -> set[Endpoint]:
        return set(over_share(here, lambda peer: peer.host, elsewhere, shares, 0))

    large, more = UnderWay(shares.alone_max, 0), UnderWay(1, 1)
    assert gone({HERE: large}) == set() and gone({HERE: large, HERE._replace(port=2): more}) == {HERE._replace(port=2)}
    assert gone({HERE: large._replace(size=large.size + 1)}) == {HERE}, "no message is as large"
    assert gone({HERE: large}, {HERE.host: 1}) == {HERE}, "another one is at another listener"


def test_a_connection_of_which_messages_come_has_nothing_under_way_however_much_it_sends() -> None:
    """Produces in records of TLS as small as any library makes them, calls with headers, and fetches, for a day."""
    watch, drawn = UnderWayWatch(), random.Random(1)
    received = acknowledged = message_bytes = calls = 0
    for second in range(86_400):
        kind, size = drawn.randrange(4), drawn.choice((0, 100, 10_000, MIB))
        if kind == 0:  # a message of a stream
            calls, message_bytes = calls + 1, message_bytes + size
            received += size + 5 + (size // TLS_RECORD + 1) * TLS_BYTES + (size // 16_384 + 1) * FRAME_BYTES
        elif kind == 1:  # a call
            calls, message_bytes = calls + 1, message_bytes + 100
            received += 100 + 700
        elif kind == 2:  # an answer, and how much more its reader takes
            acknowledged += 64 * size
            received += 64 * size // 32_768 * (2 * 13 + TLS_BYTES)
        received += 17 + TLS_BYTES if second % 10 == 0 else 0  # a ping
        assert not watch.look(
            {HERE: HeardCounts(calls, message_bytes)}, {HERE: Carried(received, acknowledged)}, second * 1_000
        )


def test_bytes_of_which_no_message_comes_are_under_way_whatever_calls_come_beside_them() -> None:
    watch = UnderWayWatch()
    watch.look({HERE: HeardCounts(1, 0)}, {HERE: Carried(1_000, 0)}, 0)
    for call in range(1, 1_001):
        found = watch.look({HERE: HeardCounts(1 + call, 50 * call)}, {HERE: Carried(call * 100_050, 0)}, call * 10)
    assert found[HERE].size > 1_000 * (100_000 - CALL_BYTES) - 2 * CONNECTION_BYTES
    found = watch.look({HERE: HeardCounts(1_002, 100_050 * 1_000)}, {HERE: Carried(100_050 * 1_000, 0)}, 20_000)
    assert not found, "the message came"


def test_many_small_calls_hide_little_of_a_message_that_never_ends() -> None:
    """A thousand a second, with 110 bytes besides their messages, and as many more as pass for theirs."""
    watch, received, second = UnderWayWatch(), 0, 0
    for second in range(1, 61):
        received += 1_000 * 110 + 300_000
        found = watch.look({HERE: HeardCounts(second * 1_000, 0)}, {HERE: Carried(received, 0)}, second * 1_000)
    hidden = second * 300_000 - found[HERE].size
    assert hidden < 16 * MIB, "1 MB a second were 55 MiB by now"


def test_a_connection_with_many_calls_and_messages_has_nothing_under_way() -> None:
    """3,000 calls a second, whose headers HTTP/2 makes small after the first ones; and 20,000 messages of a stream."""
    watch, received, calls = UnderWayWatch(), 900 * 800, 900
    for second in range(1, 3_600):
        calls, received = calls + 23_000, received + 3_000 * 180 + 20_000 * 60
        assert not watch.look({HERE: HeardCounts(calls, 0)}, {HERE: Carried(received, 0)}, second * 1_000)


def test_a_connection_that_is_seen_late_counts_from_its_beginning_and_so_does_another_from_there() -> None:
    watch = UnderWayWatch()
    assert watch.look({HERE: None}, {HERE: Carried(MIB, 0)}, 0) == {HERE: UnderWay(MIB - CONNECTION_BYTES, 0)}
    assert watch.look({HERE: HeardCounts(9, 2 * MIB)}, {HERE: Carried(2 * MIB, 0)}, 100) == {}
    assert watch.look({HERE: HeardCounts(9, 2 * MIB)}, {HERE: Carried(MIB, 0)}, 200) == {}, "it may have sent them here"
    assert watch.look({HERE: HeardCounts(9, 2 * MIB)}, {HERE: Carried(2 * MIB, 0)}, 300)
    assert watch.look({HERE: HeardCounts(1, MIB)}, {HERE: Carried(3 * MIB, 0)}, 400) == {
        HERE: UnderWay(MIB - 164_868, 300)
    }


def test_a_party_loses_its_youngest_connections_until_it_has_its_share() -> None:
    here = {Endpoint("10.0.0.1", port): UnderWay(40 * MIB, port) for port in range(1, 5)} | {
        THERE: UnderWay(90 * MIB, 9)
    }
    assert cut(here, 100 * MIB) == {Endpoint("10.0.0.1", 3), Endpoint("10.0.0.1", 4)}
    assert cut(here, 160 * MIB) == set()


def test_the_first_of_two_messages_that_are_too_many_comes_whole() -> None:
    assert cut({HERE: UnderWay(100 * MIB, 0), HERE._replace(port=2): UnderWay(1 * MIB, 1)}, 100 * MIB) == {
        HERE._replace(port=2)
    }


def test_who_holds_bytes_for_long_is_cut_before_others_of_its_party() -> None:
    here = {HERE: UnderWay(99 * MIB, 0), HERE._replace(port=2): UnderWay(2 * MIB, MESSAGE_MS)}
    assert cut(here, 100 * MIB, now_ms=MESSAGE_MS) == {HERE._replace(port=2)}
    assert cut(here, 100 * MIB, now_ms=MESSAGE_MS + 1) == {HERE}
    assert cut({HERE: UnderWay(100 * MIB, 0)}, 100 * MIB, now_ms=1 << 40) == set(), "nobody else wants the room"


def test_a_node_is_full_by_the_party_that_has_most_also_by_what_it_has_at_other_listeners() -> None:
    here = {HERE: UnderWay(90 * MIB, 1), THERE: UnderWay(80 * MIB, 2), FAR: UnderWay(30 * MIB, 3)}
    assert NODE_SHARES == 2 and cut(here, 100 * MIB) == set()
    assert cut(here | {Endpoint("10.0.0.4", 1): UnderWay(1 * MIB, 4)}, 100 * MIB) == {HERE}
    assert cut(here, 100 * MIB, {HERE.host: 20 * MIB}) == {HERE}
    assert cut(here, 100 * MIB, {"User:bob": 91 * MIB}) == set(), "the other listener cuts its own"


def test_what_parties_have_at_other_listeners_counts() -> None:
    shares = Shares(200 * MIB, MIB)
    shares.note("OUT", {ANNA: 1})
    shares.note("IN", {ANNA: 2})
    shares.note("IN", {ANNA: 3})
    assert shares.elsewhere("OUT") == {ANNA: 3} and shares.elsewhere("X") == {ANNA: 4}
    assert repr(shares) == f"Shares({100 * MIB} bytes for each party)"
