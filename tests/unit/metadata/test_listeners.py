"""The listeners of brokers in the metadata: what a record keeps, what a registration may say, who is told of what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.codec import decode_record, encode_record
from metadata.listeners import is_listener_name, parse_listener
from metadata.records import RegisterBrokerRecord
from metadata.registrations import BrokerRegistration
from penstock.errors import InvalidRegistrationError, InvalidRequestError, InvariantViolation
from penstock.messages.nodes.brokers import RegisterBrokerRequest
from penstock.types import Endpoint, LeaderHint, ListenerEndpoint
from tests.unit.metadata.harness import CLUSTER_ID, Cluster, is_error, raised_by

OUTSIDE = ListenerEndpoint("OUTSIDE", Endpoint("node-1.example.com", 9093))
LAB = ListenerEndpoint("LAB_2", Endpoint("2001:db8::1", 9094))
GOOD = RegisterBrokerRequest(
    CLUSTER_ID, 1, "process", "host", 9192, log_dirs=("dir-1",), inter_broker_listener="INTERNAL"
)


def test_a_registration_is_the_same_after_its_record_was_written_and_read() -> None:
    cluster = Cluster()
    (record,) = cluster.controller.register_broker(replace(GOOD, listeners=(OUTSIDE, LAB)), 0, 0).records
    assert isinstance(record, RegisterBrokerRecord)
    assert record.listeners == ("OUTSIDE://node-1.example.com:9093", "LAB_2://[2001:db8::1]:9094")
    broker = BrokerRegistration.from_record(record)
    assert broker.listeners == (OUTSIDE, LAB)
    assert decode_record(encode_record(broker.to_record())) == record


def test_a_broker_is_where_each_listener_says_and_nowhere_at_another() -> None:
    broker = BrokerRegistration.from_record(RegisterBrokerRecord(1, "p", 0, "host", 9192, listeners=(str(OUTSIDE),)))
    assert broker.endpoint_at("BROKER") == Endpoint("host", 9192)
    assert broker.endpoint_at("OUTSIDE") == OUTSIDE.endpoint
    assert broker.endpoint_at("LAB_2") is None and broker.endpoint_at("INTERNAL") is None


def test_a_record_of_an_older_release_has_the_one_listener_for_clients() -> None:
    older = decode_record(
        b'{"type":"RegisterBroker","version":3,"broker_id":1,"incarnation_id":"i","broker_epoch":42,"host":"h",'
        b'"port":9192,"inter_broker_host":"in","inter_broker_port":9194,"flush_policy":"fsync"}'
    )
    assert isinstance(older, RegisterBrokerRecord)
    broker = BrokerRegistration.from_record(older)
    assert broker.listeners == () and broker.endpoint_at("OUTSIDE") is None
    assert broker.endpoint_at("BROKER") == Endpoint("h", 9192) and broker.inter_broker_endpoint == Endpoint("in", 9194)


@pytest.mark.parametrize("text", ["", "OUTSIDE", "outside://h:1", "OUTSIDE://:1", "OUTSIDE://h", "OUTSIDE://h:1/x"])
def test_a_listener_that_no_controller_writes_stops_the_node(text: str) -> None:
    with pytest.raises(InvariantViolation, match="where NAME://host:port belongs"):
        parse_listener(text)


@pytest.mark.parametrize("name", ["", "9A", "a", "A-B", "A.B", "Ä", "A" * 65, "A\n"])
def test_what_is_no_name_of_a_listener(name: str) -> None:
    assert not is_listener_name(name)
    assert is_listener_name("A") and is_listener_name("_A9")


def at(name: str, host: str = "h", port: int = 1) -> ListenerEndpoint:
    return ListenerEndpoint(name, Endpoint(host, port))


@pytest.mark.parametrize(
    ("listeners", "says"),
    [
        ((at("outside"),), "'outside' is not the name"),
        ((at("A" * 300),), "is not the name"),
        ((at("BROKER"),), "'BROKER' is not the name"),
        ((at("CONTROLLER"),), "'CONTROLLER' is not the name"),
        ((at("INTERNAL"),), "'INTERNAL' is not the name"),
        ((at("OUTSIDE"), at("OUTSIDE", "i")), "give each a name of its own"),
        ((at("OUTSIDE", "0.0.0.0"),), "nobody can connect to"),
        ((at("OUTSIDE", ""),), "host"),
        ((at("OUTSIDE", "a/b"),), "is not the name"),
        ((at("OUTSIDE", "h", 0),), "port 0"),
        ((at("OUTSIDE", "h", 70_000),), "port 70000"),
        (tuple(at(f"L_{number}") for number in range(8)), "9 listeners for clients; at most 8"),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(listeners: tuple[ListenerEndpoint, ...], says: str) -> None:
    cluster = Cluster()
    error = raised_by(lambda: cluster.controller.register_broker(replace(GOOD, listeners=listeners), 0, 0))
    assert is_error(error, InvalidRequestError, says)
    assert cluster.image.brokers == {} and len(str(error)) < 300


def test_a_new_broker_may_not_fetch_from_others_at_what_is_a_listener_for_clients_elsewhere() -> None:
    cluster = Cluster()
    cluster.register(1, listeners=(OUTSIDE,))
    newcomer = replace(GOOD, broker_id=2, log_dirs=("dir-2",), inter_broker_listener="OUTSIDE")
    error = raised_by(lambda: cluster.controller.register_broker(newcomer, 0, cluster.next_offset))
    assert is_error(error, InvalidRegistrationError, "inter.broker.listener.name = OUTSIDE", "on broker 1")
    assert cluster.controller.register_broker(
        replace(newcomer, inter_broker_listener=""), 0, cluster.next_offset
    ).records, "an older broker does not say how it is called"


def test_the_same_process_with_one_more_listener_is_registered_with_it() -> None:
    cluster = Cluster(brokers=1)
    cluster.register(1, incarnation_id="process-1", listeners=(OUTSIDE,))
    assert cluster.image.brokers[1].listeners == (OUTSIDE,) and not cluster.image.brokers[1].fenced


def test_a_hint_names_the_endpoint_of_the_listener_that_the_client_uses_or_none() -> None:
    hint = LeaderHint(1, 7, Endpoint("host", 9192), "id", (OUTSIDE,))
    assert hint.at("BROKER") is hint
    assert hint.at("OUTSIDE").endpoint == OUTSIDE.endpoint and hint.at("OUTSIDE").at("BROKER").leader_id == 1
    assert hint.at("LAB_2") == replace(hint, endpoint=None)
    assert LeaderHint(1, 7).at("OUTSIDE") == LeaderHint(1, 7)
