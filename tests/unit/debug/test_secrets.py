"""No secret stays in a text, whatever form it has there, and what is none stays as it was."""

from __future__ import annotations

import json
import tomllib

import pytest

from penstock.debug.secrets import HIDDEN, without_secrets

SECRET = "s3cr3t-0f-4nna"


@pytest.mark.parametrize(
    "text",
    [
        f'password = "{SECRET}"',
        f"password='{SECRET}'",
        f"sasl.password={SECRET}",
        f'{{"password": "{SECRET}", "name": "anna"}}',
        f'"client_secret":"{SECRET}"',
        f"PENSTOCK_TOKEN={SECRET} penstock produce",
        f"api-key: {SECRET}",
        f"ssl.key.passphrase = {SECRET}",
        f'"stored_key": "{SECRET}", "server_key": "{SECRET}", "salt": "{SECRET}"',
        f'tokens = ["{SECRET}", "{SECRET}"]',
        f"--add-scram SCRAM-SHA-256=[name=admin,password={SECRET}]",
        f"Authorization: Bearer {SECRET}",
        f"authorization: basic {SECRET}==",
        f"eyJhbGciOiJIUzI1NiJ9.{SECRET}.x",
        f"https://anna:{SECRET}@issuer.example/",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
        f"-----BEGIN EC PRIVATE KEY-----\n{SECRET}\nand no end",
        f'a line that says password="{SECRET} with an end that \\" is not one{SECRET}"',
    ],
)
def test_a_secret_is_hidden(text: str) -> None:
    shown = without_secrets(text)
    assert SECRET not in shown and HIDDEN in shown


@pytest.mark.parametrize(
    "text",
    [
        "password.file = /etc/penstock/admin.secret",
        '"tokens": 3, "has_password": true, "token": null',
        "penstock_tokens_refused_total 4.0",
        'sasl.oauthbearer.token.endpoint.url = "https://issuer.example/token"',
        "connections.max.reauth.ms = 3600000",
        '"key": "orders", "keys": ["a"], "topic": "secrets"',
        "topic secrets has 3 partitions",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "INFO broker.node: 12 MiB free at /var/lib/penstock/1/data",
        "BROKER://10.0.0.1:9192",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_json_and_toml_stay_what_they_are() -> None:
    document = {"users": [{"name": "anna", "password": SECRET, "iterations": 4096}], "tokens": [SECRET]}
    assert json.loads(without_secrets(json.dumps(document))) == {
        "users": [{"name": "anna", "password": HIDDEN, "iterations": 4096}],
        "tokens": HIDDEN,
    }
    assert tomllib.loads(without_secrets(f'a = 1\npassword = "{SECRET}"\nb = "x"\n')) == {
        "a": 1,
        "password": HIDDEN,
        "b": "x",
    }


def test_long_text_without_secrets_takes_no_time_to_speak_of() -> None:
    """Each pattern is linear: 2 MiB of the letters that they begin with."""
    for letters in ("password", "a.", "-----BEGIN ", "://a:", "eyJ", '"', "token" + " " * 50):
        text = letters * (200_000 // len(letters))
        assert len(without_secrets(text)) <= len(text) + len(HIDDEN)
