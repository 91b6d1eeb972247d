"""`penstock cluster describe` and `penstock quorum describe`."""

from __future__ import annotations

import dataclasses

import typer

from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import print_fields, print_json, print_table

cluster_app = typer.Typer(help="The cluster and its brokers.", no_args_is_help=True)
quorum_app = typer.Typer(help="The quorum of controllers.", no_args_is_help=True)


@cluster_app.callback()
def _cluster() -> None:
    """The cluster and its brokers."""


@quorum_app.callback()
def _quorum() -> None:
    """The quorum of controllers."""


@cluster_app.command("describe")
def describe_cluster(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show the cluster's id, its controller and its brokers."""
    from penstock import Admin

    with Admin(bootstrap) as admin:
        info = admin.describe_cluster()
    if as_json:
        print_json(dataclasses.asdict(info))
        return
    controller = info.controller_id if info.controller_id >= 0 else "none"
    print_fields({"cluster": info.cluster_id, "controller": controller, "metadata offset": info.metadata_offset})
    rows = [
        (b.node_id, f"{b.host}:{b.port}", b.rack or "-", "fenced" if b.fenced else "in service") for b in info.brokers
    ]
    print_table(["broker", "address", "rack", "state"], rows)


@quorum_app.command("describe")
def describe_quorum(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show the quorum's leader, and the log end of each voter and observer."""
    from penstock import Admin

    with Admin(bootstrap) as admin:
        info = admin.describe_quorum()
    if as_json:
        print_json(dataclasses.asdict(info))
        return
    leader = info.leader_id if info.leader_id >= 0 else "none"
    print_fields({"leader": leader, "epoch": info.leader_epoch, "high watermark": info.high_watermark})
    replicas = [("voter", r) for r in info.voters] + [("observer", r) for r in info.observers]
    rows = [(r.node_id, kind, r.log_end_offset, r.last_fetch_ms_ago) for kind, r in replicas]
    print_table(["node", "kind", "log end offset", "last fetch ms ago"], rows)
