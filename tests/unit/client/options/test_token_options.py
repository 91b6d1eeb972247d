"""Options of logging in by a token: where it comes from, what contradicts, and no text with a token."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.options.config import admin_config, producer_config
from penstock.client.options.options import parse_bootstrap
from penstock.client.options.security_options import VARIABLES, with_security
from penstock.client.wire.token_login import TokenLogin
from penstock.errors import ConfigError
from penstock.sasl.oauthbearer import TOKEN_BYTES_MAX

TOKEN = "eyJhbGciOiJFUzI1NiJ9.e30.c2lnbmF0dXJl"
TLS = {"tls_ca": "ca.pem"}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)


async def later() -> str:
    return TOKEN


@pytest.mark.parametrize(
    "options", [{"token": TOKEN}, {"token_provider": lambda: TOKEN}, {"token": TOKEN, "sasl_mechanism": "OAUTHBEARER"}]
)
def test_a_token_brings_its_mechanism(options: dict[str, Any]) -> None:
    made = admin_config(TLS | options)
    assert made.sasl_mechanism == "OAUTHBEARER" and isinstance(made.login, TokenLogin)


@pytest.mark.parametrize(
    ("options", "variables", "found"),
    [
        ({}, {"PENSTOCK_TOKEN_FILE": "/run/t"}, {"token_file": "/run/t"}),
        ({}, {"PENSTOCK_TOKEN": TOKEN}, {"token": TOKEN}),
        ({"token": TOKEN}, {"PENSTOCK_TOKEN_FILE": "/run/t"}, {"token": TOKEN}),
        ({"token": TOKEN}, {"PENSTOCK_USERNAME": "a", "PENSTOCK_PASSWORD_FILE": "f"}, {"token": TOKEN}),
        ({"token": TOKEN}, {"PENSTOCK_SASL_MECHANISM": "PLAIN"}, {"token": TOKEN}),
        ({"username": "a", "password": "p"}, {"PENSTOCK_TOKEN_FILE": "/run/t"}, {"username": "a", "password": "p"}),
        (
            {"username": "a", "password": "p"},
            {"PENSTOCK_TOKEN_FILE": "/run/t", "PENSTOCK_SASL_MECHANISM": "OAUTHBEARER"},
            {"username": "a", "password": "p"},
        ),
    ],
)
def test_an_argument_counts_before_the_environment(
    options: dict[str, Any], variables: dict[str, str], found: dict[str, Any]
) -> None:
    made = with_security("Admin", TLS | options, variables)
    assert {name: value for name, value in made.items() if name not in ("tls_ca", "sasl_mechanism")} == found
    assert made.get("sasl_mechanism") == (None if "username" in found else "OAUTHBEARER")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"token": TOKEN}, "option token sends the token as it is, and needs TLS: give tls=True"),
        ({"token_file": "f", "tls": False}, "option token_file sends the token as it is, and needs TLS"),
        (TLS | {"token": TOKEN, "token_file": "f"}, "options token and token_file contradict each other"),
        (TLS | {"token_file": "f", "token_provider": str}, "options token_file and token_provider contradict"),
        (TLS | {"token": TOKEN, "username": "a"}, "options token and username contradict each other"),
        (TLS | {"token": TOKEN, "sasl_mechanism": "PLAIN"}, "sasl_mechanism='PLAIN' contradicts token"),
        (TLS | {"sasl_mechanism": "OAUTHBEARER"}, "needs token, token_file or token_provider (or PENSTOCK_TOKEN_FILE)"),
        (TLS | {"sasl_mechanism": "OAUTHBEARER", "username": "a", "password": "p"}, "needs token, token_file"),
        (TLS | {"token": f"{TOKEN} {TOKEN}"}, "option token='…' must be letters, digits and ._~+/-"),
        (TLS | {"token": "x" * (TOKEN_BYTES_MAX + 1)}, "16384 characters at most"),
        (TLS | {"token": TOKEN.encode()}, "option token='…' must be a str, not bytes"),
        (TLS | {"token": ""}, "option token='…' must be a str, not empty"),
        (TLS | {"token_file": 7}, "option token_file=7 must be a path, not int"),
        (TLS | {"token_provider": TOKEN}, "option token_provider must be a plain function without arguments"),
        (TLS | {"token_provider": later}, "and not async: it is called in a thread of its own"),
        ({"access_token": TOKEN}, "has no option 'access_token'"),
        ({"tokn": TOKEN}, "did you mean 'token'?"),
        ({"oauth_cb": len}, "write token_provider=function, which returns a token as text"),
        ({"sasl.oauth.token.provider": len}, "write token_provider=function"),
    ],
)
def test_options_that_do_not_fit_are_named_and_never_with_a_token(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        admin_config(options)
    assert says in str(raised.value) and TOKEN not in str(raised.value)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"PENSTOCK_TOKEN": TOKEN, "PENSTOCK_TOKEN_FILE": "f"}, "PENSTOCK_TOKEN and PENSTOCK_TOKEN_FILE are both set"),
        ({"PENSTOCK_TOKEN_FILE": "f", "PENSTOCK_USERNAME": "a"}, "PENSTOCK_TOKEN_FILE and PENSTOCK_USERNAME are both"),
        ({"PENSTOCK_TOKEN_FILE": "f"}, "needs TLS"),
    ],
)
def test_variables_that_do_not_fit_are_named(variables: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        with_security("Admin", {}, variables)
    assert says in str(raised.value) and TOKEN not in str(raised.value)


def test_no_text_of_a_configuration_has_the_token() -> None:
    made = producer_config(TLS | {"token": TOKEN})
    assert TOKEN not in repr(made) + str(made) + repr(made.login) + str(made.login) and made.token == TOKEN
    with pytest.raises(ConfigError) as raised:
        parse_bootstrap({"bootstrap.servers": "a:1", "token": TOKEN}, "Producer")  # type: ignore[arg-type]
    assert TOKEN not in str(raised.value)
