"""Every command that reaches a cluster takes the options of TLS and of logging in, and its clients count them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from penstock.cli.edge.connecting import OPTIONS, VARIABLES, add_connecting_options, connection_variables
from penstock.cli.edge.run import run_command
from penstock.cli.main import app
from penstock.client.options.config import AdminConfig, admin_config
from penstock.client.options.security_options import VARIABLES as OF_CLIENTS

ROOT: Any = typer.main.get_command(app)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in OF_CLIENTS.values():
        monkeypatch.delenv(variable, raising=False)


def commands(command: Any, name: str = "penstock") -> Iterator[tuple[str, set[str]]]:
    """Each command with its options."""
    inner = getattr(command, "commands", {})
    for word, one in inner.items():
        yield from commands(one, f"{name} {word}")
    if not inner:
        yield name, {word for parameter in command.params for word in parameter.opts}


def test_every_command_with_bootstrap_has_the_options_and_no_other_has() -> None:
    names = {f"--{name.replace('_', '-')}" for name in OPTIONS}
    found = dict(commands(ROOT))
    assert sum("--bootstrap" in options for options in found.values()) > 30
    assert {name for name, options in found.items() if "--bootstrap" in options and not names <= options} == set()
    assert {name for name, options in found.items() if "--bootstrap" not in options and "--tls-ca" in options} == set()


def test_no_option_is_a_password() -> None:
    assert not any("--password" in options for _, options in commands(ROOT))


def test_the_variables_are_those_of_the_clients() -> None:
    assert VARIABLES.items() <= OF_CLIENTS.items()


def seen_by_a_client(arguments: list[str]) -> AdminConfig:
    """The options that count for a client that a command makes."""
    found: list[AdminConfig] = []
    group = typer.Typer()

    @group.command()
    def ask(bootstrap: str = "here", number: int = 0) -> None:
        assert (bootstrap, number) == ("there", 7)
        found.append(admin_config({}))

    @group.command()
    def other() -> None: ...

    add_connecting_options(group)
    line = ["ask", "--bootstrap", "there", "--number", "7", *arguments]
    assert run_command(lambda: group(line, standalone_mode=False)) == 0
    return found[0]


def test_a_commands_options_are_its_clients() -> None:
    before = dict(os.environ)
    made = seen_by_a_client(
        ["--tls-ca", "ca.pem", "--tls-cert", "c", "--tls-key", "k", "--username", "a", "--password-file", "p"]
    )
    assert made.tls_options is not None
    assert (made.tls_options.ca, made.tls_options.cert, made.tls_options.key) == ("ca.pem", "c", "k")
    assert (made.username, made.password_file) == ("a", "p")
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("arguments", "variables", "tls"),
    [
        ([], {}, False),
        (["--tls"], {}, True),
        (["--no-tls"], {"PENSTOCK_TLS_CA": "ca.pem"}, False),
        (["--tls-ca", "ca.pem"], {"PENSTOCK_TLS": "false"}, True),
        ([], {"PENSTOCK_TLS": "true"}, True),
        ([], {"PENSTOCK_TLS": "false", "PENSTOCK_TLS_CA": "ca.pem"}, False),
    ],
)
def test_an_option_counts_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], variables: dict[str, str], tls: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (seen_by_a_client(arguments).tls_options is not None) == tls


def test_a_password_file_counts_before_a_password_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PASSWORD", "of the environment")
    made = seen_by_a_client(["--username", "a", "--password-file", "p"])
    assert (made.password, made.password_file) == (None, "p")
    assert os.environ["PENSTOCK_PASSWORD"] == "of the environment"


def test_the_variables_are_as_before_when_a_command_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_USERNAME", "bob")
    with pytest.raises(ZeroDivisionError), connection_variables({"username": "alice", "tls_ca": Path("ca")}):
        assert os.environ["PENSTOCK_USERNAME"] == "alice"
        _ = 1 / 0
    assert os.environ["PENSTOCK_USERNAME"] == "bob"
    assert "PENSTOCK_TLS_CA" not in os.environ


def test_a_token_file_counts_before_a_user_of_the_environment_and_the_reverse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_USERNAME", "anna")
    monkeypatch.setenv("PENSTOCK_PASSWORD_FILE", "anna.password")
    from_environment = {"username": "anna", "password_file": "anna.password"}
    with connection_variables(from_environment | {"token_file": "t"}):
        assert os.environ["PENSTOCK_TOKEN_FILE"] == "t"
        assert "PENSTOCK_USERNAME" not in os.environ and "PENSTOCK_PASSWORD_FILE" not in os.environ
    assert os.environ["PENSTOCK_USERNAME"] == "anna" and "PENSTOCK_TOKEN_FILE" not in os.environ
    monkeypatch.setenv("PENSTOCK_TOKEN_FILE", "t")
    with connection_variables({"username": "bert", "password_file": "bert.password", "token_file": "t"}):
        assert os.environ["PENSTOCK_USERNAME"] == "bert" and "PENSTOCK_TOKEN_FILE" not in os.environ
    assert os.environ["PENSTOCK_TOKEN_FILE"] == "t"
