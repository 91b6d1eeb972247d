"""`penstock node format|start`: this process becomes (exec) the node process, whose path has the server packages."""

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
    cluster_id: Annotated[
        str, typer.Option(help="The id of the cluster to join; without it a new id is made and printed.")
    ] = "",
    rejoin: Annotated[
        bool,
        typer.Option(
            "--rejoin",
            help="The node is one of several voters and has lost its metadata log dir. It will not vote until it has"
            " learned from the other voters what it may have promised.",
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
            help="Ids of log dirs that are gone for good; the error of a start without them lists the ids. Their"
            " replicas are fetched anew. A partition whose only in-sync replica was there stays offline.",
        ),
    ] = "",
) -> None:
    """Run a node until SIGTERM or Ctrl-C."""
    _become(node_command("start", "--config", config, *(["--lost-log-dirs", lost_log_dirs] if lost_log_dirs else [])))


def _become(command: list[str]) -> None:
    """Exec, not a child process: a service manager watches this process."""
    sys.stdout.flush()
    os.execv(command[0], command)
