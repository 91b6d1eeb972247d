"""`penstock dev --secure`: whether the cluster is secured, and how clients connect to it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock.certs.secured import Secured

Secure = Annotated[
    bool,
    typer.Option(
        "--secure",
        help="TLS, users and ACLs. How clients connect is printed, and is kept in the data for later starts.",
    ),
]


def secured_as_before(data: Path, secure: bool) -> bool:
    """Secured if that is asked for, or if the data was started so. ConfigError for data that was not."""
    from penstock.errors import ConfigError
    from penstock.testing.layout import is_stored_secure

    stored = is_stored_secure(data)
    if secure and stored is False:
        raise ConfigError(
            f"--secure: {data} holds a cluster that is not secured; start another with --data DIR, or follow"
            " docs/security.md"
        )
    return secure or bool(stored)


def how_to_connect(secured: Secured | None) -> Iterator[str]:
    """The lines that tell the user how to connect to a ready cluster."""
    if secured is not None:
        yield f"secured; commands and programs are the user admin after:  . {shlex.quote(str(secured.client_env))}"
        yield f"and Kafka's tools with:  --command-config {shlex.quote(str(secured.kafka_properties))}"
