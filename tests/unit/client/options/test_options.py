"""Every bad option or address gets one ConfigError that names it and says what to write instead."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path

import pytest

from penstock import (
    Admin,
    AsyncAdmin,
    AsyncAtomicBatches,
    AsyncConsumer,
    AsyncProducer,
    AtomicBatches,
    Consumer,
    Producer,
)
from penstock.client.client_reference import reference
from penstock.client.options.config import (
    AdminConfig,
    ConsumerConfig,
    ProducerConfig,
    admin_config,
    consumer_config,
    producer_config,
)
from penstock.client.options.options import OF_ENVIRONMENT, parse_bootstrap
from penstock.errors import ERRORS, ConfigError
from penstock.types import Endpoint


def test_addresses_are_split_stripped_and_not_repeated() -> None:
    assert parse_bootstrap(" a:1, b:2,a:1,") == (Endpoint("a", 1), Endpoint("b", 2))
    assert parse_bootstrap(["a:1", "[::1]:2"]) == (Endpoint("a", 1), Endpoint("::1", 2))


@pytest.mark.parametrize(
    ("bootstrap", "says"),
    [
        ("", "is empty"),
        (" , ", "is empty"),
        ("localhost", "has no port; write localhost:9192"),
        ("localhost:", "must be a number from 1 to 65535"),
        ("localhost:http", "'http'"),
        ("localhost:0", "from 1 to 65535"),
        ("localhost:70000", "from 1 to 65535"),
        (":9192", "no valid host"),
        ("http://localhost:9192", "without a scheme"),
        ("a\0b:9192", "has no valid host"),
        ("localhost:" + "9" * 5_000, "must be a number from 1 to"),
        ("::1:9192", "in brackets"),
        ("a b:9192", "no valid host"),
        (9192, "not int"),
        ([9192], "must be a string"),
    ],
)
def test_a_bad_address_is_named(bootstrap: object, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_bootstrap(bootstrap)  # type: ignore[arg-type]
    assert says in str(caught.value)


def test_a_client_without_an_address_takes_that_of_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP", raising=False)
    assert parse_bootstrap(OF_ENVIRONMENT) == (Endpoint("127.0.0.1", 9192),)
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "a:1,b:2")
    assert parse_bootstrap(OF_ENVIRONMENT) == (Endpoint("a", 1), Endpoint("b", 2))
    assert parse_bootstrap("c:3") == (Endpoint("c", 3),)
    for client in (
        Producer,
        Consumer,
        Admin,
        AtomicBatches,
        AsyncProducer,
        AsyncConsumer,
        AsyncAdmin,
        AsyncAtomicBatches,
    ):
        assert inspect.signature(client).parameters["bootstrap"].default is OF_ENVIRONMENT


def test_a_bad_address_of_the_environment_is_told_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "broker")
    with pytest.raises(ConfigError, match=r"PENSTOCK_BOOTSTRAP='broker': .*write broker:9192"):
        parse_bootstrap(OF_ENVIRONMENT)


def test_an_address_of_none_is_refused_and_not_looked_for_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program passes it where its own setting is unset: it would write to another cluster than it means."""
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "a:1")
    for address in (None, [], ""):
        with pytest.raises(ConfigError):
            parse_bootstrap(address)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"linger": 5}, "did you mean 'linger_ms'?"),
        ({"acks": 2}, "acks=2 must be 0, 1 or 'all' (-1)"),
        ({"client_id": "a\udcff"}, "client_id='a\\udcff' has a lone surrogate"),
        ({"transactional_id": "\ud800"}, "has a lone surrogate, which UTF-8 cannot carry"),
        ({"acks": "some"}, "acks='some'"),
        ({"acks": True}, "acks=True must be 0, 1 or 'all' (-1)"),
        ({"acks": 1.0}, "acks=1.0 must be 0, 1 or 'all' (-1)"),
        ({"batch_size": "1"}, "must be a whole number, not str"),
        ({"batch_size": True}, "must be a whole number, not bool"),
        ({"linger_ms": -1}, "must be from 0"),
        ({"compression_type": "zst"}, "did you mean 'zstd'?"),
        ({"partitioner": 3}, "must be callable"),
        ({"client_id": 5}, "client_id=5 must be a str, not int"),
        ({"linger_ms": 10_000, "delivery_timeout_ms": 5_000}, "at least linger_ms=10000"),
        ({"enable_idempotence": "yes"}, "enable_idempotence='yes' must be True or False"),
        ({"enable_idempotence": True, "acks": 1}, "enable_idempotence=True needs acks to be 'all', not 1; leave out"),
        ({"enable_idempotence": True, "retries": 0}, "needs retries to be at least 1, not 0"),
        (
            {"enable_idempotence": True, "max_in_flight_requests_per_connection": 6},
            "needs max_in_flight_requests_per_connection to be at most 5, not 6",
        ),
    ],
)
def test_a_bad_producer_option_is_named(options: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        producer_config(options)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"acks": 1}, {"acks": "0"}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}], ids=str
)
def test_an_option_against_idempotence_switches_it_off_and_says_so(
    options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert not producer_config(options).enable_idempotence
    (logged,) = caplog.messages
    name, value = next(iter(options.items()))
    assert logged.startswith(f"the producer is not idempotent, because {name}={value!r}")


@pytest.mark.parametrize("acks", ["all", "-1", -1])
def test_a_producer_is_idempotent_if_nothing_is_against_it(acks: object, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    for options in ({}, {"enable_idempotence": True}, {"retries": 1, "max_in_flight_requests_per_connection": 5}):
        assert producer_config({"acks": acks, **options}).enable_idempotence
    assert not producer_config({"enable_idempotence": False, "acks": 1}).enable_idempotence
    assert not caplog.messages


def test_consumer_and_admin_options_are_checked_too() -> None:
    with pytest.raises(ConfigError, match="did you mean 'auto_offset_reset'"):
        consumer_config({"auto_offset_rest": "earliest"})
    with pytest.raises(ConfigError, match="must be one of earliest, latest, none"):
        consumer_config({"auto_offset_reset": "first"})
    with pytest.raises(ConfigError, match="check_crcs='no' must be True or False, not str"):
        consumer_config({"check_crcs": "no"})
    with pytest.raises(ConfigError, match="Admin has no option 'acks'"):
        admin_config({"acks": 1})


@pytest.mark.parametrize(("acks", "wire"), [("all", -1), (-1, -1), ("-1", -1), (0, 0), (1, 1), ("1", 1)])
def test_acks_have_one_meaning_however_written(acks: int | str, wire: int) -> None:
    assert ProducerConfig(acks=acks).required_acks == wire


def test_the_reference_page_has_every_option_and_every_error() -> None:
    page = Path(__file__).resolve().parents[4] / "docs" / "clients.md"
    text = page.read_text(encoding="utf-8")
    assert text == reference(), "run python -m penstock.client.client_reference"
    options = {f.name for config in (ProducerConfig, ConsumerConfig, AdminConfig) for f in fields(config)}
    assert all(text.count(f"\n| `{option}` |") == 1 for option in options)
    assert all(f"`{error.__name__}`" in text for error in ERRORS.values())
    assert all(len(line) > 0 and not line.endswith("|  |") for line in text.splitlines() if line.startswith("| "))
