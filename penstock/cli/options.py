"""The options of every client command, and the parser of `key=value`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Annotated, Literal

import typer

from penstock.cli.edge.connecting import connection_variables
from penstock.errors import ConfigError, PenstockError

DEFAULT_BOOTSTRAP = "127.0.0.1:9192"
COMPLETION_TIMEOUT_MS = 1_000
"""A shell that completes a word has somebody waiting at it."""

Bootstrap = Annotated[
    str,
    typer.Option("--bootstrap", envvar="PENSTOCK_BOOTSTRAP", metavar="HOST:PORT[,…]", help="Brokers of the cluster."),
]
Acks = Annotated[
    Literal["0", "1", "all"],
    typer.Option(help="Who has a record before it is acked: nobody (0), the leader (1), all in-sync replicas."),
]
Compression = Annotated[
    Literal["none", "gzip", "snappy", "lz4", "zstd"], typer.Option(help="How batches are compressed.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts; errors, too, on stderr.")]


def complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    """The topics whose name begins so, for the shell; none where no broker answers soon."""
    from penstock import Admin

    bootstrap = context.params.get("bootstrap") or os.environ.get("PENSTOCK_BOOTSTRAP", DEFAULT_BOOTSTRAP)
    limit_ms = COMPLETION_TIMEOUT_MS
    try:
        with (
            connection_variables(context.params),
            Admin(bootstrap, bootstrap_timeout_ms=limit_ms, default_api_timeout_ms=limit_ms) as admin,
        ):
            return [name for name in admin.list_topics() if name.startswith(incomplete)]
    except PenstockError:
        return []


def parse_pairs(pairs: Iterable[str], option: str = "-c") -> dict[str, str]:
    """The configs of `-c key=value …`; ConfigError for a pair without '=' and for a key that is given twice."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"{option} {pair}: must be key=value, like retention.ms=86400000")
        if key in found:
            raise ConfigError(f"{option} {pair}: {key} is given twice; keep one")
        found[key] = value
    return found
