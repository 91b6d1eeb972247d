"""The ports of `penstock dev`: what was asked for, what was there before, and what is passed over."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.cli.dev_ports import KafkaPorts, as_before, choose_kafka_ports, wanted_kafka_ports
from penstock.errors import ConfigError
from penstock.testing.layout import new_layout, stored_layout


def test_a_second_start_goes_on_with_what_the_first_one_had(tmp_path: Path) -> None:
    assert as_before(tmp_path, None, None) == (1, 9192)
    assert as_before(tmp_path, 3, 9000) == (3, 9000)
    new_layout(tmp_path, 3, 9000).write([{}] * 3)
    assert as_before(tmp_path, None, None) == as_before(tmp_path, 3, None) == (3, None)
    assert stored_layout(tmp_path, 3, None) == stored_layout(tmp_path, 3, 9000), "None: the ports of the first start"
    assert as_before(tmp_path, 4, None) == (4, None), "it grows"
    with pytest.raises(ConfigError) as caught:
        as_before(tmp_path, 1, None)
    assert str(caught.value) == (
        f"--nodes 1: {tmp_path} holds a cluster of 3; leave --nodes out to go on with it, or start another with"
        " --data DIR"
    )


def test_kafkas_clients_have_kafkas_port_or_what_was_asked_for_or_that_of_before(tmp_path: Path) -> None:
    assert wanted_kafka_ports(tmp_path, 3, None) == (9092, 9093, 9094)
    assert wanted_kafka_ports(tmp_path, 2, 9500) == (9500, 9501) and wanted_kafka_ports(tmp_path, 2, 0) == (0, 0)
    with pytest.raises(ConfigError, match="--kafka-port 65535: no room for 2 ports up to 65535; give a lower one"):
        wanted_kafka_ports(tmp_path, 2, 65_535)
    layout = new_layout(tmp_path, 2, 9200)
    layout.with_kafka_ports([9092, 9099]).write([{}] * 2)
    assert wanted_kafka_ports(tmp_path, 4, None) == (9092, 9099, 9100, 9101)
    layout.with_kafka_ports([0, 0]).write([{}] * 2)
    assert wanted_kafka_ports(tmp_path, 3, None) == (0, 0, 0), "it was started without them"
    assert wanted_kafka_ports(tmp_path, 2, 9092) == (9092, 9093)


def test_a_port_that_nobody_asked_for_by_name_is_passed_over_where_it_is_taken(tmp_path: Path) -> None:
    layout = new_layout(tmp_path, 1, 9192)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        layout.with_kafka_ports([port]).write([{}])
        wanted, chosen = choose_kafka_ports(tmp_path, 1, None, None, None)
        assert wanted == (port,) and chosen[0] > port
        assert choose_kafka_ports(tmp_path, 1, None, None, port).chosen == (port,), "the node says that it is taken"
    assert choose_kafka_ports(tmp_path, 1, None, None, 0).chosen == (0,)


def test_the_ports_for_kafkas_clients_are_told_and_those_that_were_passed_over() -> None:
    assert list(KafkaPorts((9092,), (9092,)).lines("a:9092")) == ["for Kafka's clients: a:9092"]
    moved = list(KafkaPorts((9092, 9093), (9093, 9094)).lines("a:9093,a:9094"))
    assert moved == [
        "for Kafka's clients: a:9093,a:9094",
        "9092 is taken, so Kafka's clients have others; --kafka-port PORT chooses them",
    ]
    assert "9092, 9093 are taken" in list(KafkaPorts((9092, 9093), (9094, 9095)).lines("a:9094,a:9095"))[1]
    assert list(KafkaPorts((0,), (0,)).lines("")) == []
