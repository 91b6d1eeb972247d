"""`penstock node format|start`: becomes the node process, in which the server packages are on the path."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from penstock.node import node_command

app = typer.Typer(help="Format and run one node of a cluster.", no_args_is_help=True)

ConfigFile = Annotated[str, typer.Option("--config", metavar="FILE", help="The node's configuration (TOML).")]


@app.command("format")
def format_node(
    config: ConfigFile,
    cluster_id: Annotated[str, typer.Option(help="The cluster to join; without it a new id is made and printed.")] = "",
    rejoin: Annotated[
        bool,
        typer.Option(
            "--rejoin",
            help="This node was one of several voters and has lost its metadata log dir: it does not vote before the"
            " others have told it what it may have promised.",
        ),
    ] = False,
) -> None:
    """Prepare the log dirs of a new node, once. Refuses directories that are not empty."""
    options = [*(["--cluster-id", cluster_id] if cluster_id else []), *(["--rejoin"] if rejoin else [])]
    _become(node_command("format", "--config", config, *options))


@app.command()
def start(
    config: ConfigFile,
    lost_log_dirs: Annotated[
        str,
        typer.Option(
            metavar="ID,…",
            help="Directory ids of log dirs that are gone for good, as the refusal of a start without them names them."
            " Their replicas are fetched anew; partitions that had their only in-sync replica there stay offline.",
        ),
    ] = "",
) -> None:
    """Run a node until SIGTERM or Ctrl-C."""
    _become(node_command("start", "--config", config, *(["--lost-log-dirs", lost_log_dirs] if lost_log_dirs else [])))


def _become(command: list[str]) -> None:
    """Not a child process: a service manager watches this very process."""
    sys.stdout.flush()
    os.execv(command[0], command)
