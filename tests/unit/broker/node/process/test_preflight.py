"""The look at the ports before a node opens anything."""

from __future__ import annotations

import socket

import pytest

from broker.config.config import parse_config
from broker.node.process.preflight import check_ports, parse_lost_log_dirs
from penstock.errors import ConfigError
from penstock.testing.ports import free_ports


def config_with(
    broker: int, controller: int, metrics: int, internal: int, kafka: int, host: str = "127.0.0.1"
) -> dict[str, object]:
    return {
        "node.id": 0,
        "process.roles": "broker,controller",
        "listeners": f"BROKER://{host}:{broker},INTERNAL://127.0.0.1:{internal},CONTROLLER://127.0.0.1:{controller},"
        f"KAFKA://127.0.0.1:{kafka}",
        "controller.quorum.voters": f"0@127.0.0.1:{controller}",
        "log.dirs": "/nowhere/a",
        "metrics.listener": f"127.0.0.1:{metrics}",
    }


def test_free_ports_pass_and_stay_free() -> None:
    ports = free_ports(1)[0]
    check_ports(parse_config(config_with(*ports)))
    check_ports(parse_config(config_with(*ports)))


@pytest.mark.parametrize(
    ("listener", "key"),
    [
        (0, "listeners = BROKER://"),
        (1, "listeners = C"),
        (2, "metrics.list"),
        (3, "listeners = INTERNAL"),
        (4, "listeners = KAFKA"),
    ],
)
def test_a_port_that_somebody_has_is_named_with_its_key(listener: int, key: str) -> None:
    ports = free_ports(1)[0]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[listener]))
        taken.listen()
        with pytest.raises(ConfigError, match=rf"^{key}.*127\.0\.0\.1:{ports[listener]}: address already in use"):
            check_ports(parse_config(config_with(*ports)))


def test_a_further_listener_for_clients_needs_its_port_too() -> None:
    ports = free_ports(1)[0]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        outside = f"OUTSIDE://127.0.0.1:{taken.getsockname()[1]}"
        values = config_with(*ports)
        with pytest.raises(ConfigError, match=rf"^listeners = {outside}: address already in use"):
            check_ports(parse_config({**values, "listeners": f"{values['listeners']},{outside}"}))


def test_a_host_that_has_no_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    ports = free_ports(1)[0]
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ConfigError, match=r"^listeners = BROKER://nowhere:.*: nowhere cannot be resolved \(Name or"):
        check_ports(parse_config(config_with(*ports, host="nowhere")))


def test_an_address_of_another_machine_is_refused() -> None:
    ports = free_ports(1)[0]
    with pytest.raises(ConfigError, match=r"this machine does not have that address; .* advertised\.listeners"):
        check_ports(parse_config(config_with(*ports, host="192.0.2.1")))


@pytest.mark.parametrize(
    "text", ["nonsense", "7PC9ms0-Q_u3kKqQvVvr8A:", "7PC9ms0-Q_u3kKqQvVvr8A,x", ",", "7PC9ms0-Q_u3kKqQvVvr8", "ä" * 22]
)
def test_what_is_no_id_of_a_log_dir_is_not_given_up_but_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="must be ids of log dirs"):
        parse_lost_log_dirs(text)


def test_ids_of_log_dirs_may_have_blanks_between_them() -> None:
    one, other = "7PC9ms0-Q_u3kKqQvVvr8A", "ZHvSRhLiTqGYt7CWsTqnaA"
    assert parse_lost_log_dirs(f"{one}, {other},") == (one, other)
    assert parse_lost_log_dirs("") == ()
