"""The summary of the tests names each client of Kafka that ran or was left out, once."""

from __future__ import annotations

from tests.support.client_summary import LEFT_OUT, RAN, client_lines


def test_clients_that_ran_and_that_were_left_out_are_named_once() -> None:
    found = [
        [(RAN, "sarama 1.2"), ("another", "property")],
        [(RAN, "sarama 1.2")],
        [(LEFT_OUT, "java (mvn is not installed)")],
        [(RAN, "kcat 1.7")],
    ]
    assert client_lines(found) == [
        "Kafka clients that ran: kcat 1.7, sarama 1.2",
        "Kafka clients left out: java (mvn is not installed)",
    ]


def test_without_a_test_of_clients_there_is_no_line() -> None:
    assert client_lines([[("another", "property")], []]) == []
