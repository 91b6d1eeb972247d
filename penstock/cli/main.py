"""The `penstock` command: puts the sub-commands together.

What a command ends with becomes one line and an exit code in edge/run.py. When the reader of a pipe ends (`penstock
consume … | head`), the command ends without a message, like other tools. Every sub-command imports what it needs when
it runs, so that `penstock --help` does not load gRPC. Of the tree of commands that typer makes of the functions, only
the branch is made that the first argument names. No module here imports a server package.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import signal
import sys
from typing import Annotated, Any

import typer

from penstock import __version__
from penstock.cli import (
    brokers,
    certs,
    cluster,
    configs,
    debug,
    dev,
    elect_leaders,
    features,
    log_dirs,
    node,
    pipeline,
    quorum,
    topics,
    web_console,
)
from penstock.cli.bench import command as bench
from penstock.cli.console import consume, produce
from penstock.cli.declared import command as declared
from penstock.cli.demo import command as demo
from penstock.cli.edge.connecting import add_connecting_options
from penstock.cli.edge.run import run_command
from penstock.cli.examples import add_examples
from penstock.cli.files import log, metadata
from penstock.cli.groups import command as groups
from penstock.cli.host import command as host
from penstock.cli.moves import balance, reassignments
from penstock.cli.output import say
from penstock.cli.security import acls, quotas, users
from penstock.cli.transactions import command as transactions
from penstock.own_process.process_one import end_at_sigterm

app = typer.Typer(
    help="Penstock: a replicated, durable log.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
RECORDS, TOPICS, CLUSTER = "Records", "Topics and groups", "The cluster"
SECURITY, NODE, TRY = "Security", "A node and its files", "Try it, measure it"
app.command("produce", rich_help_panel=RECORDS)(produce.produce)
app.command("consume", rich_help_panel=RECORDS)(consume.consume)
app.add_typer(pipeline.app, name="pipeline", rich_help_panel=RECORDS)
app.add_typer(topics.app, name="topics", rich_help_panel=TOPICS)
app.add_typer(configs.app, name="configs", rich_help_panel=TOPICS)
app.add_typer(groups.app, name="groups", rich_help_panel=TOPICS)
app.add_typer(transactions.app, name="transactions", rich_help_panel=TOPICS)
app.command("apply", rich_help_panel=CLUSTER)(declared.apply)
app.command("export", rich_help_panel=CLUSTER)(declared.export)
app.add_typer(cluster.cluster_app, name="cluster", rich_help_panel=CLUSTER)
cluster.cluster_app.command("balance")(balance.balance)
app.add_typer(brokers.app, name="brokers", rich_help_panel=CLUSTER)
app.command("console", rich_help_panel=CLUSTER)(web_console.console)
app.add_typer(quorum.app, name="quorum", rich_help_panel=CLUSTER)
app.add_typer(features.app, name="features", rich_help_panel=CLUSTER)
app.add_typer(reassignments.app, name="reassignments", rich_help_panel=CLUSTER)
app.command("elect-leaders", rich_help_panel=CLUSTER)(elect_leaders.elect_leaders)
app.add_typer(log_dirs.app, name="log-dirs", rich_help_panel=CLUSTER)
app.add_typer(users.app, name="users", rich_help_panel=SECURITY)
app.add_typer(acls.app, name="acls", rich_help_panel=SECURITY)
app.add_typer(quotas.app, name="quotas", rich_help_panel=SECURITY)
app.add_typer(certs.app, name="certs", rich_help_panel=SECURITY)
app.add_typer(node.app, name="node", rich_help_panel=NODE)
app.add_typer(host.app, name="host", rich_help_panel=NODE)
app.add_typer(log.app, name="log", rich_help_panel=NODE)
app.add_typer(metadata.app, name="metadata", rich_help_panel=NODE)
app.add_typer(debug.app, name="debug", rich_help_panel=NODE)
app.command("dev", rich_help_panel=TRY)(dev.dev)
app.command("demo", rich_help_panel=TRY)(demo.demo)
app.add_typer(bench.app, name="bench", rich_help_panel=TRY)
add_examples(app)
add_connecting_options(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Penstock: a replicated, durable log."""


@functools.cache
def command_line(name: str) -> Any:
    """The command line with this command or group alone, or with all of them for "". To make all takes 85 ms."""
    part = copy.copy(app)
    if name:
        part.registered_commands = [one for one in app.registered_commands if one.name == name]
        part.registered_groups = [one for one in app.registered_groups if one.name == name]
    return typer.main.get_command(part)


def _first_name() -> str:
    """The command or group that the first argument names; "" if it names none: then help and advice name them all."""
    named = {*(one.name for one in app.registered_commands), *(one.name for one in app.registered_groups)}
    return name if (name := "".join(sys.argv[1:2])) in named else ""


def main() -> None:
    """The entry point of the console script."""
    with contextlib.suppress(AttributeError, ValueError):  # not on every platform; not outside the main thread
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    end_at_sigterm(os.getpid())
    # With `standalone_mode` typer would print usage errors itself, on several lines.
    sys.exit(run_command(lambda: command_line(_first_name())(standalone_mode=False)))
