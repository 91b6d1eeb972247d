"""The calls and messages of a connection are counted as long as it is open."""

from __future__ import annotations

from broker.connections.under_way import HeardCounts
from broker.grpc.heard import HeardConnections
from broker.network.request_channel import Caller
from penstock.types import Endpoint

HERE, ANNA = Endpoint("10.0.0.1", 1), "User:anna"


def test_what_came_of_a_connection_is_counted_until_two_looks_have_not_found_it() -> None:
    heard = HeardConnections()
    heard.delivered(Caller(HERE, "OUT"), 7)
    assert heard.of(HERE) is None and heard.party_of(HERE) == HERE.host
    heard.asked(Caller(HERE, "OUT"))
    heard.delivered(Caller(HERE, "OUT", ANNA), 7)
    heard.asked(Caller(HERE, "OUT", ANNA))
    assert heard.of(HERE) == HeardCounts(2, 7) and heard.party_of(HERE) == ANNA
    heard.asked(Caller(HERE, "OUT"))
    assert heard.of(HERE) == HeardCounts(3, 7) and heard.party_of(HERE) == ANNA, "a call without its token"
    heard.looked([])
    heard.looked([HERE])
    heard.looked([])
    assert heard.of(HERE) == HeardCounts(3, 7)
    heard.looked([])
    assert heard.of(HERE) is None and repr(heard) == "HeardConnections(0)"
