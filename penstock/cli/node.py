"""`penstock node …`: this process becomes (exec) the node process, whose path has the server packages."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from penstock.cli.options import AsJson
from penstock.cli.output import say
from penstock.ids import system_ids
from penstock.node import node_command
from penstock.own_process.process_one import hold_sigterm

app = typer.Typer(help="Format and run one node of a cluster.", no_args_is_help=True)

ConfigFile = Annotated[
    str,
    typer.Option(
        "--config",
        envvar="PENSTOCK_CONFIG",
        metavar="FILE",
        help="The node's configuration (TOML). env:FILE adds the variables PENSTOCK_… to it, and env: has these alone.",
    ),
]
ClusterId = Annotated[
    str,
    typer.Option(
        envvar="PENSTOCK_CLUSTER_ID", help="The id of the cluster to join; without it a new id is made and printed."
    ),
]
Standalone = Annotated[
    bool,
    typer.Option(
        "--standalone",
        help="A controller without controller.quorum.voters begins a quorum as its only voter. Others are added later.",
    ),
]
InitialControllers = Annotated[
    str | None,
    typer.Option(
        metavar="ID@HOST:PORT:DIRECTORY_ID,…",
        help="A controller without controller.quorum.voters begins a quorum with these voters. Give every one of"
        " them the same list, and the same --cluster-id; `penstock node random-uuid` makes a directory id.",
    ),
]
Join = Annotated[
    bool,
    typer.Option(
        "--join",
        help="A controller without controller.quorum.voters joins the quorum of the cluster --cluster-id. It votes"
        " once it is added to the voters. Kafka's --no-initial-controllers.",
    ),
]


FirstRelease = Annotated[
    str,
    typer.Option(
        "--release-version",
        metavar="RELEASE",
        help="A new cluster begins with the feature levels of this release, such as 0.2.0: for nodes that are older"
        " than this one. Give it for every controller.",
        show_default="this release",
    ),
]
FirstFeatures = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        metavar="NAME=LEVEL",
        help="Another level of one feature, for a new cluster. May be repeated. Give it for every controller.",
    ),
]


@app.command("format")
def format_node(
    config: ConfigFile,
    cluster_id: ClusterId = "",
    standalone: Standalone = False,
    initial_controllers: InitialControllers = None,
    join: Join = False,
    rejoin: Annotated[
        bool,
        typer.Option(
            "--rejoin",
            help="The node is one of several voters of controller.quorum.voters and has lost its metadata log dir. It"
            " will not vote until it has learned from the other voters what it may have promised.",
        ),
    ] = False,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            metavar="MECHANISM=[name=NAME,…]",
            help="A user that a new cluster begins with, as with Kafka's tool: SCRAM-SHA-256=[name=admin,"
            "password-file=FILE]. Without password-file the password is asked for; with password=SECRET other users of"
            " this machine may see it. May be repeated. Give it for every controller: the first that leads sets its"
            " users.",
        ),
    ] = None,
    release_version: FirstRelease = "",
    feature: FirstFeatures = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="TLS, log-ins and ACLs from the first start on: what is missing of the node's certificate, its keys of"
            " security in FILE, and a user `admin` is made; what is there is kept. --add-scram names another user.",
        ),
    ] = False,
    ca: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="With --secure: the directory with ca.pem and node-ID.pem, as `penstock certs` makes them.",
            show_default="penstock-certs",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Prepare the log dirs of a new node, once. Refuses directories that are not empty."""
    if ca and not secure:
        raise typer.BadParameter("it is for --secure; give both", param_hint="--ca")
    if secure and as_json:
        raise typer.BadParameter("it is not for --secure, which says which files it has made", param_hint="--json")
    options = [*(["--cluster-id", cluster_id] if cluster_id else []), *(["--rejoin"] if rejoin else [])]
    options += [*(["--standalone"] if standalone else []), *(["--join"] if join else [])]
    options += [] if initial_controllers is None else ["--initial-controllers", initial_controllers]
    options += [*(["--secure"] if secure else []), *(["--ca", ca] if ca else [])]
    options += [word for user in add_scram or () for word in ("--add-scram", user)]
    options += [*(["--release-version", release_version] if release_version else [])]
    options += [word for level in feature or () for word in ("--feature", level)]
    become(node_command("format", "--config", config, *options, *_json(as_json)))


@app.command("random-uuid")
def random_uuid() -> None:
    """Print a new id, of a cluster or of a log dir: 22 characters, as `kafka-storage.sh random-uuid` does."""
    say(system_ids().new_id())


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
    cluster_id: Annotated[
        str,
        typer.Option(
            envvar="PENSTOCK_CLUSTER_ID",
            help="Format the log dirs for this cluster first, where none is formatted. Others must be of this cluster.",
        ),
    ] = "",
    first_start: Annotated[
        str,
        typer.Option(
            envvar="PENSTOCK_FIRST_START",
            metavar="begin|join|together",
            help="With --cluster-id, on empty log dirs: join the cluster, as a new voter or one that has forgotten, or"
            " begin it as its only voter. Give begin to one controller, for its first start alone. Give together to all"
            " nodes, for ever: the first of controller.quorum.bootstrap.servers begins, once each other one has said"
            " that it knows no quorum; the others join.",
            show_default="join",
        ),
    ] = "",
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            envvar="PENSTOCK_ADD_SCRAM",
            metavar="MECHANISM=[name=NAME,…]",
            help="With --first-start begin or together: a user that the cluster begins with, as for `node format`.",
        ),
    ] = None,
    log_level: Annotated[
        str,
        typer.Option(
            metavar="LEVEL,…",
            help="debug, info, warning or error; with a name for one part of the node: info,broker.replication=debug."
            " Goes before logger.level of the file. After SIGHUP the file's levels hold.",
        ),
    ] = "",
    log_format: Annotated[
        str, typer.Option(metavar="text|json", help="How a line of the log is written. Goes before logger.format.")
    ] = "",
) -> None:
    """Run a node until SIGTERM or Ctrl-C. SIGHUP takes the log's levels and form from the file again."""
    if cluster_id:
        first_start = first_start or "join"
    elif first_start:
        raise typer.BadParameter("it is for a start with --cluster-id; give both", param_hint="--first-start")
    given = {"--lost-log-dirs": lost_log_dirs, "--log-level": log_level, "--log-format": log_format}
    given |= {"--cluster-id": cluster_id, "--first-start": first_start}
    options = [part for name, value in given.items() if value for part in (name, value)]
    options += [word for user in add_scram or () for word in ("--add-scram", user)] if cluster_id else []
    become(node_command("start", "--config", config, *options))


@app.command()
def check(config: ConfigFile, as_json: AsJson = False) -> None:
    """Check all that a start checks before it opens a log, and start nothing: keys, ports, log dirs, voters.

    Exit codes: 0 the node could start, or only lacks `penstock node format`, with warnings on stdout; 2 it would be
    refused, for the reason given.
    """
    become(node_command("check", "--config", config, *_json(as_json)))


@app.command("recover-quorum")
def recover_quorum(
    config: ConfigFile,
    survivor: Annotated[
        str,
        typer.Option(
            "--from", metavar="DIR", help="The metadata log dir of a controller that is left, or a copy of it."
        ),
    ],
    lost_voters: Annotated[
        str, typer.Option(metavar="ID,…", help="The node ids of all controllers that are gone for good.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the steps; change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Prepare the new log dirs of a lost controller, where a majority of the controllers is gone for good.

    Run it once for each lost controller, stopped and on new log dirs, with the same --from and --lost-voters. WHAT ONLY
    THE LOST CONTROLLERS HAD COMMITTED IS LOST. After an interruption, run it again. It prints how the node is started.
    """
    more = ["--from", survivor, "--lost-voters", lost_voters, *(["--dry-run"] if dry_run else [])]
    become(node_command("recover-quorum", "--config", config, *more, *_json(as_json)))


DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the commands, as a script, and run none.")]


@app.command()
def install(config: ConfigFile, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Make a systemd service penstock@NAME of /etc/penstock/NAME.toml: user, unit and directories; enable it.

    With --dry-run the file may still be elsewhere.
    """
    become(node_command("install", "--config", config, *(["--dry-run"] if dry_run else []), *_json(as_json)))


@app.command()
def uninstall(config: ConfigFile, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Stop the service penstock@NAME and take its unit away. The configuration and the data stay."""
    become(node_command("uninstall", "--config", config, *(["--dry-run"] if dry_run else []), *_json(as_json)))


def _json(as_json: bool) -> list[str]:
    return ["--json"] if as_json else []


def become(command: list[str]) -> None:
    """Exec, not a child process: a service manager watches this process."""
    sys.stdout.flush()
    hold_sigterm(os.getpid())
    os.execv(command[0], command)
