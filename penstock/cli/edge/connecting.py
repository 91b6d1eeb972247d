"""How a command reaches a secured cluster: the options of TLS and of logging in, for every command with `--bootstrap`.

They are added to the commands in one place, main.py, and stand for the environment variables from which every client
takes what it was not given (penstock/client/options/security_options.py): while a command runs, its options are its
environment, for the processes that it starts as well. A password is no option, because every user of a machine sees the
arguments of all processes.
"""

from __future__ import annotations

import inspect
import os
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

PANEL = "Security"

TlsFlag = Annotated[
    bool | None,
    typer.Option(
        "--tls/--no-tls",
        rich_help_panel=PANEL,
        help="Encrypt, and check the brokers' certificates; by itself with another --tls option, or by"
        " PENSTOCK_TLS=true.",
        show_default=False,
    ),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        envvar="PENSTOCK_TLS_CA",
        metavar="FILE",
        rich_help_panel=PANEL,
        help="The CA that brokers are trusted by, as PEM.",
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(
        envvar="PENSTOCK_TLS_CERT", metavar="FILE", rich_help_panel=PANEL, help="The client's own certificate, as PEM."
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(
        envvar="PENSTOCK_TLS_KEY",
        metavar="FILE",
        rich_help_panel=PANEL,
        help="Its private key, as PEM, if it is not in the same file.",
    ),
]
Username = Annotated[
    str | None,
    typer.Option(envvar="PENSTOCK_USERNAME", metavar="NAME", rich_help_panel=PANEL, help="The user to log in as."),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        envvar="PENSTOCK_PASSWORD_FILE",
        metavar="FILE",
        rich_help_panel=PANEL,
        help="A file with the user's password; or set PENSTOCK_PASSWORD.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        envvar="PENSTOCK_TOKEN_FILE",
        metavar="FILE",
        rich_help_panel=PANEL,
        help="A file with a token that says who the user is (OAUTHBEARER), in place of a name and a password.",
    ),
]
OPTIONS: dict[str, Any] = {
    "tls": TlsFlag,
    "tls_ca": TlsCa,
    "tls_cert": TlsCert,
    "tls_key": TlsKey,
    "username": Username,
    "password_file": PasswordFile,
    "token_file": TokenFile,
}
"""The types of the options, by their names as options of a client."""
VARIABLES = {name: f"PENSTOCK_{name.upper()}" for name in OPTIONS}
_TOKENS = ("PENSTOCK_TOKEN", "PENSTOCK_TOKEN_FILE")
_PASSWORDS = ("PENSTOCK_USERNAME", "PENSTOCK_PASSWORD", "PENSTOCK_PASSWORD_FILE")
REPLACED = {
    "PENSTOCK_USERNAME": _TOKENS,
    "PENSTOCK_PASSWORD_FILE": ("PENSTOCK_PASSWORD", *_TOKENS),
    "PENSTOCK_TOKEN_FILE": ("PENSTOCK_TOKEN", *_PASSWORDS, "PENSTOCK_SASL_MECHANISM"),
    "PENSTOCK_TLS_CA": ("PENSTOCK_TLS",),
    "PENSTOCK_TLS_CERT": ("PENSTOCK_TLS",),
}
"""An option counts before other variables, too, that would be in its way."""


def add_connecting_options(group: typer.Typer) -> None:
    """Every command below `group` that takes `--bootstrap` takes these options too."""
    for command in group.registered_commands:
        if command.callback is not None and "bootstrap" in inspect.signature(command.callback).parameters:
            command.callback = _connecting(command.callback)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            add_connecting_options(inner.typer_instance)


def _connecting(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def run(**arguments: Any) -> Any:
        own = {name: value for name, value in arguments.items() if name not in OPTIONS}
        with connection_variables(arguments):
            return command(**own)

    hints = typing.get_type_hints(command, include_extras=True) | OPTIONS
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        one.replace(annotation=hints.get(one.name, one.annotation), kind=kind)
        for one in inspect.signature(command).parameters.values()
    ]
    parameters += [inspect.Parameter(name, kind, default=None, annotation=hint) for name, hint in OPTIONS.items()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = hints
    return run


@contextmanager
def connection_variables(arguments: Mapping[str, Any]) -> Iterator[None]:
    """Sets the options among `arguments` as variables of this process, while the context lasts."""
    given = {VARIABLES[name]: _text(value) for name in OPTIONS if (value := arguments.get(name)) is not None}
    new = {name for name, text in given.items() if os.environ.get(name) != text}
    replaced = {other for name in new for other in REPLACED.get(name, ())} - new
    before = {name: os.environ.get(name) for name in (*given, *replaced)}
    os.environ.update(given)
    for name in replaced:
        os.environ.pop(name, None)
    try:
        yield
    finally:
        for name, text in before.items():
            os.environ.pop(name, None)
            if text is not None:
                os.environ[name] = text


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
