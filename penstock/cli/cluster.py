"""`penstock cluster describe|health`, with exit codes for scripts.

    0  all is well
    3  degraded: everything works, and a broker or a replica is missing
    4  critical: no leader of the quorum, or partitions that cannot be read or written

1 and 2 are those of every command (run.py): no broker answered, and wrong usage.
"""

from __future__ import annotations

import dataclasses

import typer

from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import note, print_fields, print_json, print_table, say
from penstock.cli.patience.watch import patient_admin

EXIT_DEGRADED = 3
EXIT_CRITICAL = 4
EXIT_CODES = {"healthy": 0, "degraded": EXIT_DEGRADED, "critical": EXIT_CRITICAL}

cluster_app = typer.Typer(help="The cluster and its brokers.", no_args_is_help=True)


@cluster_app.callback()
def _cluster() -> None:
    """The cluster and its brokers."""


@cluster_app.command("describe")
def describe_cluster(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show the cluster's id, its controller and its brokers.

    Exits with 3 if a broker is fenced, and with 4 if there is no controller: the brokers' states are old then.
    """
    from penstock.client.admin.health.health_check import seconds
    from penstock.client.admin.health.judge import address

    with patient_admin(bootstrap) as admin:
        info = admin.describe_cluster()
    has_controller, age_ms = info.controller_id >= 0, info.standing.metadata_age_ms
    if as_json:
        print_json(dataclasses.asdict(info))
    else:
        controller = info.controller_id if has_controller else "none"
        metadata = f"offset {info.metadata_offset} at node {info.standing.node_id}, {seconds(age_ms)} old"
        print_fields({"cluster": info.cluster_id, "controller": controller, "metadata": metadata})
        served = "in service" if has_controller else f"in service {seconds(age_ms)} ago"
        states = {b.node_id: "fenced" if b.fenced else served for b in info.brokers}
        others = {b.node_id: " ".join(str(at) for at in b.listeners if at.address != address(b)) for b in info.brokers}
        rows = [
            (
                b.node_id,
                address(b),
                others[b.node_id] or "-",
                b.rack or "-",
                states[b.node_id] + ", cordoned" * b.cordoned,
            )
            for b in info.brokers
        ]
        print_table(["broker", "address", "other listeners", "rack", "state"], rows)
    if not has_controller:
        note("no controller: what is shown is old; see `penstock cluster health`")
        raise typer.Exit(EXIT_CRITICAL)
    if any(broker.fenced for broker in info.brokers):
        raise typer.Exit(EXIT_DEGRADED)


@cluster_app.command()
def health(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Ask every broker what is wrong, and show what to do.

    Exit codes: 0 healthy, also with warnings; 3 degraded, everything works but a broker or a replica is missing; 4
    critical, something does not work; 1 no broker answered.
    """
    with patient_admin(bootstrap) as admin:
        found = admin.cluster_health()
    if as_json:
        print_json(dataclasses.asdict(found))
    else:
        print_fields({"cluster": found.status})
        print_table(["check", "status", "what"], [(c.name, c.status, c.summary) for c in found.checks])
        for check in found.checks:
            for line in (*check.details, *((f"do: {check.remedy}",) if check.remedy else ())):
                say(f"{check.name}: {line}")
    raise typer.Exit(EXIT_CODES[found.status])
