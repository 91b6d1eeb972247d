"""`penstock brokers list|drain|unregister`: shows the registered brokers, takes everything off one, and forgets one.

Exit code 1 if a partition was refused, or the broker still has replicas in the end. Not here: the plan
(penstock/balance/), how a broker is drained (penstock/cli/moves/draining.py), and what is allowed (the controller).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.balance.planner import make_plan
from penstock.cli.edge.numbers import INT32_MAX
from penstock.cli.moves.balance import DryRun, finish
from penstock.cli.moves.cluster_reading import read_cluster
from penstock.cli.moves.draining import drain_broker
from penstock.cli.moves.plan_output import show_plan
from penstock.cli.moves.throttling import Throttle, throttled
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import print_json, print_table, say
from penstock.cli.patience.watch import patient_admin
from penstock.errors import BrokerIdNotRegisteredError

if TYPE_CHECKING:
    from penstock.balance.cluster import ClusterState
    from penstock.client.admin.admin_types import BrokerDescription
    from penstock.types import TopicPartition

COLUMNS = ("broker", "address", "rack", "state", "replicas", "leaders")

app = typer.Typer(
    help="Brokers: show them, take everything off one, and forget one that is gone for good.", no_args_is_help=True
)


@app.callback()
def _brokers() -> None:
    """Brokers: show them, take everything off one, and forget one that is gone for good."""


@app.command()
def drain(
    broker_id: Annotated[int, typer.Argument(metavar="ID", min=0, max=INT32_MAX, help="The broker.")],
    throttle: Throttle = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Move every replica and leadership off a broker, and wait until it has none; clients go on.

    Topics that are created meanwhile may place replicas there again: they are moved, too. Refused where too few brokers
    are left for the replicas of a partition. Moves to the broker that go on are cancelled.
    """
    from penstock import Admin

    with patient_admin(bootstrap) as admin:
        state = read_cluster(admin, [broker_id])
    _check_registered(state, broker_id)
    plan = make_plan(state, frozenset())
    if not as_json:
        show_plan(plan)
    failed: Mapping[TopicPartition, str] = {}
    if not dry_run:
        with Admin(bootstrap) as admin, throttled(admin, throttle):
            failed = drain_broker(admin, broker_id, plan)
    finish(plan, failed, as_json, dry_run)


def _check_registered(state: ClusterState, broker_id: int) -> None:
    known = sorted(broker.broker_id for broker in state.brokers)
    if broker_id not in known:
        names = ", ".join(map(str, known))
        raise BrokerIdNotRegisteredError(f"broker {broker_id} is not registered; these are: {names}")


@app.command("list")
def list_brokers(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show the registered brokers, fenced ones too, and how many replicas and leaders each has."""
    with patient_admin(bootstrap) as admin:
        found = admin.describe_brokers()
    rows = [_row(described) for described in found]
    if as_json:
        print_json([dict(zip(COLUMNS, row, strict=True)) for row in rows])
    else:
        print_table(COLUMNS, rows)


@app.command()
def unregister(
    broker_id: Annotated[int, typer.Argument(metavar="ID", min=0, max=INT32_MAX, help="The broker's id.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Forget a broker that is gone for good. It must be stopped, and have no replica any more.

    If a process with its id comes back later, it is a new broker. A node that is a voter of the quorum stays one.
    """
    with patient_admin(bootstrap) as admin:
        admin.unregister_broker(broker_id)
    if as_json:
        print_json({"broker": broker_id, "unregistered": True})
    else:
        say(f"unregistered {broker_id}")


def _row(described: BrokerDescription) -> tuple[object, ...]:
    broker = described.broker
    state = "fenced" if broker.fenced else "in service"
    return (
        broker.node_id,
        f"{broker.host}:{broker.port}",
        broker.rack or "-",
        state,
        described.replicas,
        described.leaders,
    )
