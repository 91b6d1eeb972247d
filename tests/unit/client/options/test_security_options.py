"""Options of TLS and of logging in: from arguments and environment, what contradicts, and no text with a password."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.client.options.config import ConnectionConfig, admin_config, consumer_config, producer_config
from penstock.client.options.options import parse_bootstrap
from penstock.client.options.security_options import VARIABLES, with_security
from penstock.client.wire.tls_files import TlsOptions
from penstock.config_keys import keys_of
from penstock.errors import ConfigError

SECRET = "correct horse"
CONFIGS = pytest.mark.parametrize("config", [producer_config, consumer_config, admin_config])


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)


def test_there_is_a_variable_for_every_option_of_security() -> None:
    assert [name for name in keys_of(ConnectionConfig) if name.startswith("tls")] == [
        name for name in VARIABLES if name.startswith("tls")
    ]
    assert {"username", "password", "password_file", "sasl_mechanism"} <= VARIABLES.keys()


@CONFIGS
def test_no_option_means_plain_text_and_nobody(config: Callable[[dict[str, Any]], ConnectionConfig]) -> None:
    made = config({})
    assert made.tls_options is None and made.username is None


@pytest.mark.parametrize(
    ("options", "tls"),
    [
        ({"tls": True}, TlsOptions()),
        ({"tls_ca": "ca.pem"}, TlsOptions("ca.pem")),
        ({"tls_ca": Path("ca.pem"), "tls": None}, TlsOptions(Path("ca.pem"))),
        ({"tls_cert": "c", "tls_key": "k"}, TlsOptions(None, "c", "k")),
        ({"tls_server_name": "broker-1"}, TlsOptions(server_name="broker-1")),
        ({"tls": False}, None),
    ],
)
def test_one_option_of_tls_is_enough(options: dict[str, Any], tls: TlsOptions | None) -> None:
    assert admin_config(options).tls_options == tls


@CONFIGS
def test_the_environment_stands_for_what_is_not_given(
    monkeypatch: pytest.MonkeyPatch, config: Callable[[dict[str, Any]], ConnectionConfig]
) -> None:
    monkeypatch.setenv("PENSTOCK_TLS_CA", "/etc/ca.pem")
    monkeypatch.setenv("PENSTOCK_USERNAME", "alice")
    monkeypatch.setenv("PENSTOCK_PASSWORD_FILE", "/run/secret")
    made = config({})
    assert made.tls_options == TlsOptions("/etc/ca.pem")
    assert (made.username, made.password, made.password_file) == ("alice", None, "/run/secret")
    made = config({"tls_ca": "mine.pem", "username": "bob", "password": SECRET})
    assert made.tls_options == TlsOptions("mine.pem")
    assert (made.username, made.password, made.password_file) == ("bob", SECRET, None)


@pytest.mark.parametrize(
    ("options", "variables", "tls"),
    [
        ({}, {"PENSTOCK_TLS": "true"}, True),
        ({}, {"PENSTOCK_TLS": "1", "PENSTOCK_TLS_CA": "a"}, True),
        ({}, {"PENSTOCK_TLS": "false", "PENSTOCK_TLS_CA": "a"}, False),
        ({"tls": False}, {"PENSTOCK_TLS_CA": "a"}, False),
        ({"tls_ca": "b"}, {"PENSTOCK_TLS": "false"}, True),
        ({}, {"PENSTOCK_TLS_CA": ""}, False),
    ],
)
def test_an_argument_counts_before_the_environment(
    options: dict[str, Any], variables: dict[str, str], tls: bool
) -> None:
    found = with_security("Admin", options, variables)
    assert bool(found.get("tls", "tls_ca" in found)) == tls


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tls": "yes"}, "option tls='yes' must be True or False"),
        ({"tls_ca": 7}, "option tls_ca=7 must be a path, not int"),
        ({"tls_ca": ""}, "option tls_ca='' must be a path, not empty"),
        ({"tls": False, "tls_ca": "a"}, "option tls=False contradicts tls_ca"),
        ({"tls_key": "k"}, "option tls_key needs tls_cert"),
        ({"username": "alice"}, "option username='alice' needs password or password_file"),
        ({"username": 5, "password": SECRET}, "option username=5 must be a str, not int"),
        ({"password": SECRET}, "option password needs username"),
        ({"password": SECRET, "password_file": "f", "username": "a"}, "contradict each other"),
        ({"username": "a", "password": SECRET.encode()}, "option password='…' must be a str, not bytes"),
        ({"username": "a", "password": SECRET, "sasl_mechanism": "SCRAM"}, "must be one of SCRAM-SHA-256"),
        ({"username": "a", "password": SECRET, "sasl_mechanism": "PLAIN"}, "needs TLS: give tls=True"),
        ({"sasl_plain_password": SECRET}, "write password='…'"),
        ({"pasword": SECRET}, "did you mean 'password'?"),
        ({"security_protocol": "SASL_SSL"}, "tls_ca='ca.pem' (or tls=True) encrypts"),
        ({"sasl.jaas.config": f'password="{SECRET}"'}, "write username='alice', password_file="),
    ],
)
def test_options_that_do_not_fit_are_named_and_never_with_a_password(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        admin_config(options)
    assert says in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"PENSTOCK_TLS": "perhaps"}, "PENSTOCK_TLS='perhaps' must be true or false"),
        ({"PENSTOCK_USERNAME": "a"}, "(or PENSTOCK_PASSWORD, PENSTOCK_PASSWORD_FILE)"),
        ({"PENSTOCK_PASSWORD": SECRET}, "(or PENSTOCK_USERNAME)"),
        (
            {"PENSTOCK_USERNAME": "a", "PENSTOCK_PASSWORD": SECRET, "PENSTOCK_PASSWORD_FILE": "f"},
            "PENSTOCK_PASSWORD and PENSTOCK_PASSWORD_FILE are both set",
        ),
    ],
)
def test_variables_that_do_not_fit_are_named(variables: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        with_security("Admin", {}, variables)
    assert says in str(raised.value)
    assert SECRET not in str(raised.value)


def test_no_text_of_a_configuration_has_the_password() -> None:
    made = producer_config({"username": "alice", "password": SECRET})
    assert SECRET not in repr(made) + str(made)
    assert made.password == SECRET


def test_a_dict_of_settings_is_answered_without_its_password() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_bootstrap({"bootstrap.servers": "a:1", "sasl.password": SECRET, "pass": SECRET}, "Producer")  # type: ignore[arg-type]
    assert "password='…'" in str(raised.value)
    assert SECRET not in str(raised.value)
