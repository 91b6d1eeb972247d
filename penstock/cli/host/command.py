"""`penstock host …`: all nodes of this machine, of one file, as one service.

`start`, `check`, `format`, `install` and `uninstall` become (exec) the server side (broker/host/). `status`, `stop` and
`restart` speak to a host that runs; the order of a rolling restart is in rolling.py.
"""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.host.asking import ask_host
from penstock.cli.node import DryRun, FirstFeatures, FirstRelease, InitialControllers, become
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_json, print_table, say
from penstock.cli.patience.watch import patient_admin
from penstock.node import node_command

app = typer.Typer(help="All nodes of this machine as one unit.", no_args_is_help=True)

DEFAULT_FILE = "/etc/penstock/host/host.toml"
NODE_ID_MAX = 2**31 - 1
HostConfig = Annotated[str, typer.Option("--config", metavar="FILE", help="The host's file (TOML): docs/host.md.")]
NodeId = Annotated[int, typer.Option("--node", metavar="ID", min=0, max=NODE_ID_MAX, help="One node of this host.")]
EXIT_NOT_WHOLE = 3


@app.command()
def start(config: HostConfig = DEFAULT_FILE) -> None:
    """Run every node of this machine until SIGTERM or Ctrl-C, and start again what ends by itself.

    SIGHUP takes the nodes' keys from the file again. Exit codes: 0 every node stopped in order, 1 one did not, 2 the
    file or every node was refused.
    """
    become(node_command("host-start", "--config", config))


@app.command()
def check(config: HostConfig = DEFAULT_FILE, as_json: AsJson = False) -> None:
    """Write the nodes' files, and check all that their starts check; start nothing.

    Exit codes: 0 every node could start, or only lacks `penstock host format`; 2 one would be refused.
    """
    become(node_command("host-check", "--config", config, *(["--json"] if as_json else [])))


@app.command("format")
def format_nodes(
    config: HostConfig = DEFAULT_FILE,
    cluster_id: Annotated[
        str, typer.Option(help="The id of the cluster to join; without it a new id is made and printed.")
    ] = "",
    standalone: Annotated[
        bool,
        typer.Option(
            "--standalone",
            help="Without controller.quorum.voters: the first controller of the file begins a quorum, and the file's"
            " other controllers join it.",
        ),
    ] = False,
    initial_controllers: InitialControllers = None,
    join: Annotated[
        bool,
        typer.Option(
            "--join",
            help="Without controller.quorum.voters: the controllers join the quorum of the cluster --cluster-id.",
        ),
    ] = False,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            metavar="MECHANISM=[name=NAME,…]",
            help="A user that a new cluster begins with, as for `penstock node format`. May be repeated.",
        ),
    ] = None,
    release_version: FirstRelease = "",
    feature: FirstFeatures = None,
    as_json: AsJson = False,
) -> None:
    """Prepare the log dirs of every node that has none yet. What is formatted stays as it is."""
    options = [*(["--cluster-id", cluster_id] if cluster_id else []), *(["--standalone"] if standalone else [])]
    options += [] if initial_controllers is None else ["--initial-controllers", initial_controllers]
    options += [*(["--join"] if join else []), *(word for user in add_scram or () for word in ("--add-scram", user))]
    options += [*(["--release-version", release_version] if release_version else [])]
    options += [word for level in feature or () for word in ("--feature", level)]
    become(node_command("host-format", "--config", config, *options, *(["--json"] if as_json else [])))


@app.command()
def status(config: HostConfig = DEFAULT_FILE, as_json: AsJson = False) -> None:
    """Show what each node of a host that runs is doing. Exits with 3 if one of them is not in service."""
    found = ask_host(config, "status")
    if as_json:
        print_json(found)
    else:
        nodes = found["nodes"]
        rows = [
            (
                one["node"],
                one["state"],
                f"{one['since_s']} s",
                one["pid"] or "-",
                one["restarts"],
                one["broker"],
                _says(one),
            )
            for one in nodes
        ]
        print_table(["node", "state", "for", "pid", "restarts", "broker", "says"], rows)
    if any(one["state"] != "running" for one in found["nodes"]):
        raise typer.Exit(EXIT_NOT_WHOLE)


@app.command()
def stop(node: NodeId, config: HostConfig = DEFAULT_FILE) -> None:
    """Stop one node of a host that runs, in order; `penstock host restart --node ID` starts it again.

    The host itself is stopped by its service manager, or by SIGTERM.
    """
    ask_host(config, "stop", node)
    note(f"node {node} stops; `penstock host status` says when it has")


@app.command()
def restart(
    config: HostConfig = DEFAULT_FILE,
    node: Annotated[
        int | None,
        typer.Option(
            "--node", metavar="ID", min=0, max=NODE_ID_MAX, help="This node alone, also one that was given up."
        ),
    ] = None,
    wait_minutes: Annotated[
        int, typer.Option("--wait-minutes", min=1, max=24 * 60, help="How long each wait for the cluster may take.")
    ] = 30,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Restart the nodes of this host one after another, each when every replica of the cluster is in sync.

    A new release is taken in this way: install it, then restart. The next node waits until the last one is in service
    and all replicas have caught up, so no partition is without its copies. Exits with 1, and goes no further, where a
    node does not come back or the wait is over. After an interruption, run it again.
    """
    from penstock.cli.host.rolling import restarted

    with patient_admin(bootstrap) as admin:
        for line in restarted(lambda do, node_id: ask_host(config, do, node_id), admin, node, 60_000 * wait_minutes):
            say(line, flush=True)


@app.command()
def install(config: HostConfig = DEFAULT_FILE, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Make the systemd service penstock-host of /etc/penstock/host/host.toml: user, unit, directories; enable it.

    With --dry-run the file may still be elsewhere.
    """
    _become_installer("host-install", config, dry_run, as_json)


@app.command()
def uninstall(config: HostConfig = DEFAULT_FILE, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Stop the service penstock-host and take its unit away. The configuration and the data stay."""
    _become_installer("host-uninstall", config, dry_run, as_json)


def _become_installer(action: str, config: str, dry_run: bool, as_json: bool) -> None:
    options = [*(["--dry-run"] if dry_run else []), *(["--json"] if as_json else [])]
    become(node_command(action, "--config", config, *options))


def _says(node: dict[str, object]) -> object:
    """The node's own line; how its last process ended, where none runs."""
    return node["says"] if node["pid"] else node["last_end"]
