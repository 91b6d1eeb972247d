"""The arguments that the commands about groups share."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from penstock.cli.options import COMPLETION_TIMEOUT_MS, DEFAULT_BOOTSTRAP
from penstock.errors import PenstockError


def complete_group(context: typer.Context, incomplete: str) -> list[str]:
    """The groups whose id begins so, for the shell; none where no broker answers soon."""
    from penstock import Admin

    bootstrap = context.params.get("bootstrap") or os.environ.get("PENSTOCK_BOOTSTRAP", DEFAULT_BOOTSTRAP)
    limit_ms = COMPLETION_TIMEOUT_MS
    try:
        with Admin(bootstrap, bootstrap_timeout_ms=limit_ms, default_api_timeout_ms=limit_ms) as admin:
            return [group.group_id for group in admin.list_groups() if group.group_id.startswith(incomplete)]
    except PenstockError:
        return []


GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="The group.", autocompletion=complete_group)]
GroupIds = Annotated[list[str], typer.Argument(metavar="GROUP...", help="The groups.", autocompletion=complete_group)]
GroupTopics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:P,…]",
        help="A topic, or only these partitions of it: orders:0,2. May be repeated.",
    ),
]
